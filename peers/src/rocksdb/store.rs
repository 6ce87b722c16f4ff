//! An open database.

use super::client::RocksClient;
use super::native::{Db, Events, LiveFile, WriteOptions};
use super::options::Chosen;
use super::shape;
use super::stats::Stats;
use crate::ticker::Ticker;
use anyhow::{Result, bail, ensure};
use spinney_lab::driver::{Client, Config, Counters, Durability, Store, TableShape, TableSpec};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct RocksStore {
    /// Declared before the database, which it uses until it is dropped.
    ticker: Option<Ticker>,
    pub(super) db: Arc<Db>,
    pub(super) write: WriteOptions,
    /// Names of the tables, and of their column families.
    tables: Vec<(&'static str, &'static str)>,
    file_bytes: u64,
    durability: Durability,
    events: Arc<Events>,
    stats: Mutex<Stats>,
    settings: Vec<(String, String)>,
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
        Ok(Self { ticker, db, write, tables: names, file_bytes, durability, events, stats, settings })
    }

    /// Ends the thread that forces the redo log, which is forced once more then.
    fn end_ticker(&mut self) -> Result<()> {
        let Some(ticker) = self.ticker.take() else { return Ok(()) };
        ticker.stop()?;
        Ok(self.db.sync_log()?)
    }

    fn each(&self, verb: impl Fn(usize) -> Result<()>) -> Result<()> {
        (0..self.tables.len()).try_for_each(verb)
    }

    fn files(&self, table: usize) -> Vec<LiveFile> {
        let family = self.tables[table].1;
        self.db.files().into_iter().filter(|file| file.table == family).collect()
    }

    /// Merges a level of a table into the next one that holds anything.
    fn compact_table_level(&self, table: usize, level: usize) -> Result<()> {
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

impl Store for RocksStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(RocksClient::new(self, self.tables.len())))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        match self.durability {
            Durability::NoLog => Ok(self.db.flush()?),
            _ => Ok(self.db.sync_log()?),
        }
    }

    fn flush(&self) -> Result<()> {
        Ok(self.db.flush()?)
    }

    fn compact_level(&self, level: usize) -> Result<()> {
        self.each(|table| self.compact_table_level(table, level))
    }

    fn compact_all(&self) -> Result<()> {
        self.each(|table| {
            self.db.compact(self.db.table(table));
            // It has no other way to say that it failed.
            let levels = shape::numbers(&self.files(table));
            ensure!(levels.iter().flatten().count() <= 1, "RocksDB: a compaction of all left levels {levels:?}");
            Ok(())
        })
    }

    fn hold(&self, hold: bool) -> Result<()> {
        self.each(|table| {
            Ok(self.db.set_option(self.db.table(table), "disable_auto_compactions", &hold.to_string())?)
        })
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(self.db.wait()?)
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        let shape =
            |(at, &(name, _)): (usize, &(&str, &str))| shape::of(&self.db, self.db.table(at), name, &self.files(at));
        Ok(self.tables.iter().enumerate().map(shape).collect())
    }

    fn counters(&self) -> Result<Counters> {
        let Events { flush_bytes, compaction_read_bytes, compaction_written_bytes } = &*self.events;
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner).read(&self.db, self.tables.len());
        Ok(Counters {
            flush_bytes: Some(flush_bytes.load(Ordering::Relaxed)),
            compaction_read_bytes: Some(compaction_read_bytes.load(Ordering::Relaxed)),
            compaction_written_bytes: Some(compaction_written_bytes.load(Ordering::Relaxed)),
            ..stats
        })
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end_ticker()
    }
}

impl Drop for RocksStore {
    fn drop(&mut self) {
        // Whoever wants to know has called `close`.
        drop(self.end_ticker());
    }
}
