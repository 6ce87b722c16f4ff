//! What the lab asks of an open database.

use super::client::RocksClient;
use super::native::{Events, LevelSum};
use super::shape;
use super::store::RocksStore;
use anyhow::{Result, ensure};
use spinney_lab::driver::{Client, Counters, Durability, LevelWork, Store, TableShape};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

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
        let Events { flush_bytes, compaction_read_bytes, compaction_written_bytes, .. } = &*self.events;
        let stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner).read(&self.db, self.tables.len());
        Ok(Counters {
            flush_bytes: Some(flush_bytes.load(Ordering::Relaxed)),
            compaction_read_bytes: Some(compaction_read_bytes.load(Ordering::Relaxed)),
            compaction_written_bytes: Some(compaction_written_bytes.load(Ordering::Relaxed)),
            cache_hits: Some(self.lookups.hits.load(Ordering::Relaxed)),
            cache_misses: Some(self.lookups.misses.load(Ordering::Relaxed)),
            ..stats
        })
    }

    fn level_work(&self) -> Result<Vec<LevelWork>> {
        let work = |(level, sum): (usize, LevelSum)| LevelWork {
            level: format!("L{level}"),
            jobs: sum.jobs,
            written_bytes: sum.written_bytes,
            time_us: (level > 0).then_some(sum.compaction_us),
            ..LevelWork::default()
        };
        Ok(self.events.levels().enumerate().map(work).collect())
    }

    fn compaction_debt(&self) -> Result<Option<u64>> {
        let of = |table| self.db.number(self.db.table(table), "rocksdb.estimate-pending-compaction-bytes");
        Ok((0..self.tables.len()).map(of).sum())
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.end_ticker()
    }
}
