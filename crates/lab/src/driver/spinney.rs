//! Our own engine, one driver for each layout.

use super::batch::{Batch, Change};
use super::client::{Client, Direction, Outcome, Scan};
use super::config::{Compression, Config, Durability, TableId, TableSpec};
use super::engine::Engine;
use super::lacks::Lacks;
use super::spinney_parts::{compaction_debt, counters, env, is_log, level_work, options, shape};
use super::state::{Counters, IndexSize, LevelWork, TableShape};
use super::store::Store;
use anyhow::{Result, ensure};
use spinney::base::num::usize_of;
use spinney::{Database, ErrorKind, Isolation, Layout, Range, Snapshot, Table, TableOptions, Transaction};
use std::ops::Bound;
use std::path::Path;

/// Our engine with tables of one layout.
#[derive(Clone, Copy, Debug)]
pub struct Spinney {
    name: &'static str,
    layout: Layout,
}

/// All layouts as engines.
#[must_use]
pub fn engines() -> Vec<Box<dyn Engine>> {
    let engine = |(name, layout)| -> Box<dyn Engine> { Box::new(Spinney { name, layout }) };
    LAYOUTS.into_iter().map(engine).collect()
}

/// The layouts by the names of their engines.
const LAYOUTS: [(&str, Layout); 3] =
    [("spinney-btree", Layout::BTree), ("spinney-lsm", Layout::Lsm), ("spinney-lsm-tiered", Layout::LsmTiered)];

struct SpinneyStore {
    db: Database,
    tables: Vec<Table>,
    layout: Layout,
    durability: spinney::Durability,
    isolation: Isolation,
    settings: Vec<(String, String)>,
}

/// The options of a table with point reads of the engine with a name, if it is one of ours.
#[must_use]
pub fn table_options(engine: &str, config: &Config) -> Option<TableOptions> {
    let (_, layout) = LAYOUTS.into_iter().find(|(name, _)| *name == engine)?;
    let options = layout_options(layout, config).filter_bits_per_key(config.filter_bits);
    let block_bytes = config.block_bytes.unwrap_or(options.block_bytes);
    Some(options.block_bytes(block_bytes))
}

fn layout_options(layout: Layout, config: &Config) -> TableOptions {
    let defaults = TableOptions::default();
    TableOptions::default()
        .layout(layout)
        .compression(match config.compression {
            Compression::None => spinney::Compression::None,
            Compression::Lz4 => spinney::Compression::Lz4,
            Compression::Zstd => spinney::Compression::Zstd,
        })
        .fanout(config.fanout.unwrap_or(defaults.fanout))
        // The target of the first level is four runs.
        .run_bytes_max(config.level1_bytes.map_or(defaults.run_bytes_max, |bytes| bytes / 4))
        .logged(config.durability != Durability::NoLog)
        .large_value_bytes(match layout {
            Layout::BTree => 0,
            _ => config.large_value_bytes.unwrap_or(defaults.large_value_bytes),
        })
}

struct SpinneyClient<'a> {
    store: &'a SpinneyStore,
    view: Option<Snapshot>,
    transaction: Option<Transaction>,
}

impl Engine for Spinney {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> String {
        env!("CARGO_PKG_VERSION").to_owned()
    }

    fn direct_io(&self) -> bool {
        true
    }

    fn serializable(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        let (options, durability) = options(config);
        let table_options = layout_options(self.layout, config);
        let settings = vec![
            ("layout".to_owned(), self.layout.name().to_owned()),
            ("memory".to_owned(), crate::text::bytes(options.memory_bytes)),
            ("block".to_owned(), crate::text::bytes(config.block_bytes.unwrap_or(table_options.block_bytes).into())),
            ("values apart from (bytes)".to_owned(), table_options.large_value_bytes.to_string()),
            ("direct I/O".to_owned(), options.direct_io.to_string()),
            ("awake for reads".to_owned(), config.poll_reads.to_string()),
            ("compaction threads".to_owned(), options.compaction_threads.to_string()),
            ("log compression".to_owned(), format!("{:?}", options.log_compression).to_lowercase()),
        ];
        let db = Database::builder(dir).options(options).env(env(config)?).open()?;
        let table = |spec: &TableSpec| -> Result<Table> {
            if let Some(table) = db.table(spec.name)? {
                let logged = table.options().logged;
                ensure!(logged == table_options.logged, "table {} was made with logged = {logged}", spec.name);
                return Ok(table);
            }
            let filter_bits_per_key = if spec.point_reads { config.filter_bits } else { 0 };
            let block_bytes = config.block_bytes.filter(|_| spec.point_reads).unwrap_or(table_options.block_bytes);
            Ok(db.create_table(
                spec.name,
                table_options.clone().filter_bits_per_key(filter_bits_per_key).block_bytes(block_bytes),
            )?)
        };
        let tables = tables.iter().map(table).collect::<Result<_>>()?;
        let isolation = if config.serializable { Isolation::Serializable } else { Isolation::Snapshot };
        Ok(Box::new(SpinneyStore { db, tables, layout: self.layout, durability, isolation, settings }))
    }
}

impl Store for SpinneyStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(SpinneyClient { store: self, view: None, transaction: None }))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    /// Flushes what is not in the log.
    fn sync(&self) -> Result<()> {
        self.each(|table| if table.options().logged { Ok(()) } else { table.flush() })?;
        Ok(self.db.sync()?)
    }

    fn flush(&self) -> Result<()> {
        self.each(Table::flush)
    }

    fn compact_level(&self, level: usize) -> Result<()> {
        ensure!(
            self.layout != Layout::BTree,
            Lacks::new("no levels: what is parked over a B-tree goes into it all at once")
        );
        self.each(|table| {
            let levels = table.shape()?.levels;
            match level.checked_sub(1) {
                None => table.compact_level(0),
                // Upper levels come into use as the data grows: the first one that holds anything is level 1 to the
                // lab.
                Some(at) => levels.get(at).map_or(Ok(()), |level| table.compact_level(usize_of(level.level))),
            }
        })
    }

    fn hold(&self, hold: bool) -> Result<()> {
        self.each(|table| if hold { table.hold() } else { table.release() })
    }

    fn compact_all(&self) -> Result<()> {
        self.each(Table::compact)
    }

    fn wait_idle(&self) -> Result<()> {
        self.each(Table::wait_idle)
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        self.tables.iter().map(|table| Ok(shape(table.shape()?))).collect()
    }

    fn counters(&self) -> Result<Counters> {
        Ok(counters(&self.db))
    }

    fn index_size(&self) -> Result<IndexSize> {
        let mut sum = IndexSize::default();
        for table in &self.tables {
            let shape = table.index_shape()?;
            sum.leaves += shape.leaves;
            sum.leaf_bytes += shape.leaf_bytes;
            sum.index_bytes += shape.index_bytes;
            sum.filter_bytes += shape.filter_bytes;
        }
        Ok(sum)
    }

    fn level_work(&self) -> Result<Vec<LevelWork>> {
        Ok(level_work(&self.db))
    }

    fn compaction_debt(&self) -> Result<Option<u64>> {
        Ok(Some(compaction_debt(&self.db)))
    }

    /// Segments, and the files that wait to become one.
    fn is_log(&self, path: &Path) -> bool {
        is_log(path)
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.db.close()?)
    }
}

impl SpinneyStore {
    fn each(&self, verb: impl Fn(&Table) -> spinney::Result<()>) -> Result<()> {
        self.tables.iter().try_for_each(|table| Ok(verb(table)?))
    }
}

impl Client for SpinneyClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        let tables = &self.store.tables;
        if let Some(transaction) = &mut self.transaction {
            for change in batch.iter() {
                match change {
                    Change::Put(table, key, value) => transaction.put(&tables[table.0], key, value)?,
                    Change::Delete(table, key) => transaction.delete(&tables[table.0], key)?,
                }
            }
            return Ok(Outcome::Done);
        }
        let mut own = spinney::Batch::new();
        for change in batch.iter() {
            match change {
                Change::Put(table, key, value) => own.put(&tables[table.0], key, value),
                Change::Delete(table, key) => own.delete(&tables[table.0], key),
            }
        }
        self.store.db.write_with(&own, self.store.durability)?;
        Ok(Outcome::Done)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let table = &self.store.tables[table.0];
        let value = match (&self.transaction, &self.view) {
            (Some(transaction), _) => transaction.get(table, key)?,
            (None, Some(view)) => view.get(table, key)?,
            (None, None) => self.store.db.snapshot().get(table, key)?,
        };
        if let Some(value) = &value {
            found(value);
        }
        Ok(value.is_some())
    }

    fn multi_get(&mut self, table: TableId, keys: &[&[u8]], found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        let table = &self.store.tables[table.0];
        let values = match &self.view {
            Some(view) => view.multi_get(table, keys)?,
            None => self.store.db.snapshot().multi_get(table, keys)?,
        };
        for (at, value) in values.iter().enumerate() {
            if let Some(value) = value {
                found(at, value);
            }
        }
        Ok(())
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let (mut visited, mut range) = (0, self.range(scan));
        while visited < scan.limit
            && let Some((key, value)) = range.advance()?
        {
            visit(key, value);
            visited += 1;
        }
        Ok(visited)
    }

    fn view(&mut self) -> Result<()> {
        self.view = Some(self.store.db.snapshot());
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.db.begin_with(self.store.isolation));
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        let transaction = self.transaction.take();
        match transaction.map_or(Ok(()), |transaction| transaction.commit_with(self.store.durability)) {
            Ok(()) => Ok(Outcome::Done),
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(Outcome::Conflict),
            Err(error) => Err(error.into()),
        }
    }

    fn rollback(&mut self) -> Result<()> {
        if let Some(transaction) = self.transaction.take() {
            transaction.rollback();
        }
        Ok(())
    }
}

impl SpinneyClient<'_> {
    fn range(&self, scan: &Scan<'_>) -> Range {
        let table = &self.store.tables[scan.table.0];
        let from = scan.from.map_or(Bound::Unbounded, Bound::Included);
        let until = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        let snapshot;
        match (scan.direction, &self.transaction, &self.view) {
            (Direction::Forward, Some(transaction), _) => transaction.range(table, (from, until)),
            (Direction::Backward, Some(transaction), _) => transaction.range_rev(table, (until, from)),
            (direction, None, view) => {
                let view = match view {
                    Some(view) => view,
                    None => {
                        snapshot = self.store.db.snapshot();
                        &snapshot
                    }
                };
                match direction {
                    Direction::Forward => view.range(table, (from, until)),
                    Direction::Backward => view.range_rev(table, (until, from)),
                }
            }
        }
    }
}
