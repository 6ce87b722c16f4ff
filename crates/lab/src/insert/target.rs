//! The database under the insert benchmark.

use super::Config;
use super::rows::{INDEXES, RowMaker};
use anyhow::Result;
use spinney::{Batch, Database, Durability, Layout, Options, Shape, Stats, Table, TableOptions};
use std::path::Path;

/// A table of rows and one for each index, all of one layout.
#[derive(Debug)]
pub(super) struct Target {
    db: Database,
    rows: Table,
    indexes: Vec<Table>,
    durability: Durability,
}

impl Target {
    /// Makes the database in `dir`, which does not exist.
    pub(super) fn open(dir: &Path, config: &Config, layout: Layout) -> Result<Self> {
        let options = Options {
            memory_bytes: config.memory_bytes,
            direct_io: config.direct_io,
            durability: config.durability,
            ..Options::default()
        };
        let db = Database::open(dir, options)?;
        let table = |name: &str| db.create_table(name, TableOptions { layout, ..TableOptions::default() });
        let rows = table("rows")?;
        let indexes = INDEXES[..config.indexes].iter().map(|name| table(name)).collect::<Result<_, _>>()?;
        Ok(Self { rows, indexes, durability: config.durability, db })
    }

    /// A batch for [`Target::commit`].
    pub(super) fn batch(&self) -> Batch {
        Batch::new()
    }

    /// Adds a row and its index entries to a batch.
    pub(super) fn add(&self, row: &RowMaker, batch: &mut Batch) {
        batch.put(&self.rows, row.key(), row.value());
        for (index, entry) in self.indexes.iter().zip(row.entries()) {
            batch.put(index, entry, b"");
        }
    }

    /// Commits a batch.
    pub(super) fn commit(&self, batch: Batch) -> Result<()> {
        Ok(self.db.write(batch, self.durability)?)
    }

    /// Writes what is in memory and waits until no background work is left.
    pub(super) fn settle(&self) -> Result<()> {
        for table in self.tables() {
            table.flush()?;
        }
        for table in self.tables() {
            table.wait_idle()?;
        }
        Ok(self.db.sync()?)
    }

    /// Closes the database and says how it was.
    pub(super) fn finish(self) -> Result<(Vec<Shape>, Stats)> {
        let shapes = self.tables().map(|table| table.shape()).collect::<Result<_, _>>()?;
        let stats = self.db.stats();
        self.db.close()?;
        Ok((shapes, stats))
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        std::iter::once(&self.rows).chain(&self.indexes)
    }
}
