//! What the lab asks of an open database.

use super::client::WiredTigerClient;
use super::handle::Cursor;
use super::kind::Tree;
use super::shape;
use super::store::WiredTigerStore;
use super::table::TablePlace;
use crate::quiet;
use crate::ticker::Ticker;
use anyhow::{Result, anyhow};
use spinney_lab::driver::{Client, Counters, Durability, Store, TableShape};
use std::path::Path;
use std::sync::Arc;

impl Store for WiredTigerStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(WiredTigerClient::new(self)?))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        match self.durability {
            Durability::NoLog => self.checkpoint(),
            _ => self.connection.session()?.log_flush(),
        }
    }

    fn flush(&self) -> Result<()> {
        self.checkpoint()
    }

    fn compact_all(&self) -> Result<()> {
        let session = self.connection.session()?;
        self.tables.iter().try_for_each(|table| session.compact(&table.uri))
    }

    fn wait_idle(&self) -> Result<()> {
        match self.tree {
            Tree::Btree => quiet::wait_until(|| Ok(!self.dirty_enough_to_evict()?)),
            Tree::Lsm => quiet::wait_until_quiet(|| self.progress()),
        }
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        let session = self.connection.session()?;
        let key = self.connection.library().layout.statistics.btree_maximum_depth;
        let shape = |table: &TablePlace| match self.tree {
            Tree::Btree => shape::btree(&session, &self.dir, table, key),
            Tree::Lsm => shape::lsm(&session, &self.dir, table),
        };
        self.tables.iter().map(shape).collect()
    }

    fn counters(&self) -> Result<Counters> {
        let keys = &self.connection.library().layout.statistics;
        let session = self.connection.session()?;
        let statistics: Cursor<'_> = session.cursor(c"statistics:", c"statistics=(fast)")?;
        let number = |key| statistics.statistic(key);
        let misses = number(keys.cache_read)?;
        let mut counters = Counters {
            flush_bytes: Some(number(keys.block_byte_write_checkpoint)?),
            cache_hits: Some(number(keys.cache_pages_requested)?.saturating_sub(misses)),
            cache_misses: Some(misses),
            stall_us: Some(number(keys.application_cache_time)?),
            ..Counters::default()
        };
        if self.durability != Durability::NoLog {
            counters.log_record_bytes = Some(number(keys.log_bytes_payload)?);
            counters.log_written_bytes = Some(number(keys.log_bytes_written)?);
            counters.log_syncs = Some(number(keys.log_sync)?);
            counters.log_io_us = Some(number(keys.log_sync_duration)?);
        }
        if self.tree == Tree::Lsm {
            let throttled = number(keys.lsm_checkpoint_throttle)? + number(keys.lsm_merge_throttle)?;
            counters.stalls = Some(throttled);
        }
        Ok(counters)
    }

    fn is_log(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| {
            let name = name.as_encoded_bytes();
            name.starts_with(b"WiredTigerLog.")
                || name.starts_with(b"WiredTigerPreplog.")
                || name.starts_with(b"WiredTigerTmplog.")
        })
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { ticker, connection, .. } = *self;
        ticker.map_or(Ok(()), Ticker::stop)?;
        let connection = Arc::into_inner(connection).ok_or_else(|| anyhow!("the database is still in use"))?;
        connection.close()
    }
}
