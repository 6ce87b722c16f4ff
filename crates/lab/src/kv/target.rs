//! The database under the benchmark of single operations.

use super::Config;
use anyhow::Result;
use spinney::{Batch, Database, Durability, Layout, Options, Snapshot, Table, TableOptions};
use std::path::Path;

/// One table.
#[derive(Debug)]
pub(super) struct Target {
    db: Database,
    table: Table,
}

/// A read view of the table.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    snapshot: Snapshot,
    table: &'a Table,
}

impl Target {
    /// Makes the database in `dir`, which does not exist.
    pub(super) fn open(dir: &Path, config: &Config, layout: Layout) -> Result<Self> {
        let options = Options { memory_bytes: config.memory_bytes, direct_io: config.direct_io, ..Options::default() };
        let db = Database::open(dir, options)?;
        let table = db.create_table("kv", TableOptions { layout, ..TableOptions::default() })?;
        Ok(Self { db, table })
    }

    /// Puts one key.
    pub(super) fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        batch.put(&self.table, key, value);
        Ok(self.db.write(batch, durability)?)
    }

    /// Merges everything into one tree.
    pub(super) fn compact(&self) -> Result<()> {
        Ok(self.table.compact()?)
    }

    /// Reads every entry once.
    pub(super) fn read_all(&self) -> Result<()> {
        for entry in self.db.snapshot().range(&self.table, ..) {
            std::hint::black_box(entry?);
        }
        Ok(())
    }

    /// A view of what is committed now.
    pub(super) fn reader(&self) -> Reader<'_> {
        Reader { snapshot: self.db.snapshot(), table: &self.table }
    }

    /// Closes the database.
    pub(super) fn close(self) -> Result<()> {
        Ok(self.db.close()?)
    }
}

impl Reader<'_> {
    /// Reads one key; says whether it is there.
    pub(super) fn get(&self, key: &[u8]) -> Result<bool> {
        let value = self.snapshot.get(self.table, key)?;
        Ok(std::hint::black_box(value).is_some())
    }
}
