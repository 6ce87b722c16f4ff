//! An open database.

use super::native::{Db, Events, LiveFile, WriteOptions};
use super::options::Chosen;
use super::shape;
use super::stats::Stats;
use crate::ticker::Ticker;
use anyhow::{Result, bail, ensure};
use spinney_lab::driver::{Config, Durability, TableSpec};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

pub(super) struct RocksStore {
    /// Declared before the database, which it uses until it is dropped.
    ticker: Option<Ticker>,
    pub(super) db: Arc<Db>,
    pub(super) write: WriteOptions,
    /// Names of the tables, and of their column families.
    pub(super) tables: Vec<(&'static str, &'static str)>,
    file_bytes: u64,
    pub(super) durability: Durability,
    pub(super) events: Arc<Events>,
    pub(super) stats: Mutex<Stats>,
    pub(super) settings: Vec<(String, String)>,
    pub(super) lookups: Lookups,
}

/// Lookups of blocks in the cache by clients, which add theirs when they end.
///
/// They are sums that are read for reports only, so no order is needed.
#[derive(Debug, Default)]
pub(super) struct Lookups {
    pub(super) hits: AtomicU64,
    pub(super) misses: AtomicU64,
}

/// The column family that each database has. The first table is there, so that no empty one is left over.
const DEFAULT: &str = "default";

/// How often files that are to be compacted may be gone, because a background compaction was first.
const ATTEMPTS: usize = 10;

impl RocksStore {
    pub(super) fn open(dir: &Path, config: &Config, tables: &[TableSpec], chosen: Chosen) -> Result<Self> {
        ensure!(!tables.is_empty(), "a database without tables");
        let Chosen { db: options, tables: table_options, write, sizes, events, tickers, settings } = chosen;
        let families = std::iter::once(DEFAULT).chain(tables.iter().skip(1).map(|spec| spec.name));
        let names: Vec<_> = tables.iter().map(|spec| spec.name).zip(families).collect();
        let families: Vec<_> = names.iter().map(|&(_, family)| family).zip(table_options).collect();
        let db = Arc::new(Db::open(dir, &options, &families, config.transactions)?);
        let ticker = match config.durability {
            Durability::Interval(ms) => {
                let db = Arc::clone(&db);
                Some(Ticker::start(ms, move || Ok(db.sync_log()?)))
            }
            _ => None,
        };
        let (durability, file_bytes, stats) = (config.durability, sizes.file, Mutex::new(Stats::new(&db, tickers)));
        let lookups = Lookups::default();
        Ok(Self { ticker, db, write, tables: names, file_bytes, durability, events, stats, settings, lookups })
    }

    /// Ends the thread that forces the redo log, which is forced once more then.
    pub(super) fn end_ticker(&mut self) -> Result<()> {
        let Some(ticker) = self.ticker.take() else { return Ok(()) };
        ticker.stop()?;
        Ok(self.db.sync_log()?)
    }

    pub(super) fn each(&self, verb: impl Fn(usize) -> Result<()>) -> Result<()> {
        (0..self.tables.len()).try_for_each(verb)
    }

    pub(super) fn files(&self, table: usize) -> Vec<LiveFile> {
        let family = self.tables[table].1;
        self.db.files().into_iter().filter(|file| file.table == family).collect()
    }

    /// Merges a level of a table into the next one that holds anything.
    pub(super) fn compact_table_level(&self, table: usize, level: usize) -> Result<()> {
        for _ in 0..ATTEMPTS {
            let files = self.files(table);
            let levels = shape::numbers(&files);
            let Some(from) = levels.get(level).copied().flatten() else { return Ok(()) };
            let into = match levels.get(level + 1).copied().flatten() {
                Some(into) => into,
                // Levels are filled from the last one up.
                None if level == 0 => self.last_level(table)?,
                None => return Ok(()),
            };
            let names: Vec<_> = files.iter().filter(|file| file.level == from).map(|file| file.name.as_str()).collect();
            match self.db.compact_files(self.db.table(table), &names, into, self.file_bytes, &self.events) {
                Err(error) if error.is_gone() => self.db.wait()?,
                result => return Ok(result?),
            }
        }
        bail!("background compactions were first {ATTEMPTS} times");
    }

    fn last_level(&self, table: usize) -> Result<i32> {
        let exists =
            |level: &i32| self.db.text(self.db.table(table), &format!("rocksdb.num-files-at-level{level}")).is_some();
        Ok((0..).take_while(exists).last().unwrap_or(0))
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        // Whoever wants to know has called `close`.
        drop(self.end_ticker());
    }
}
