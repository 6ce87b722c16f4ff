//! The open database.

use super::client::WiredTigerClient;
use super::config::{DIRTY_TARGET_PERCENT, Plan};
use super::engine::Tree;
use super::handle::{Connection, Cursor};
use super::library::Library;
use super::shape;
use crate::quiet;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result, anyhow};
use spinney_lab::driver::{Client, Config, Counters, Durability, Store, TableShape, TableSpec};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database of WiredTiger.
#[derive(Debug)]
pub(super) struct WiredTigerStore {
    // The thread that forces the log ends before the connection does.
    ticker: Option<Ticker>,
    pub(super) connection: Arc<Connection>,
    pub(super) tables: Vec<TablePlace>,
    dir: PathBuf,
    tree: Tree,
    durability: Durability,
    settings: Vec<(String, String)>,
}

/// A table.
#[derive(Debug)]
pub(super) struct TablePlace {
    pub(super) name: &'static str,
    /// `table:` and the name.
    pub(super) uri: CString,
}

impl WiredTigerStore {
    pub(super) fn open(
        library: Arc<Library>,
        tree: Tree,
        dir: &Path,
        config: &Config,
        tables: &[TableSpec],
        plan: Plan,
    ) -> Result<Self> {
        let home = CString::new(dir.as_os_str().as_encoded_bytes())?;
        let connection = Arc::new(Connection::open(library, &home, &plan.connection)?);
        let place = |table: &TableSpec| -> Result<TablePlace> {
            Ok(TablePlace { name: table.name, uri: CString::new(format!("table:{}", table.name))? })
        };
        let tables: Vec<TablePlace> = tables.iter().map(place).collect::<Result<_>>()?;
        let session = connection.session()?;
        for (table, settings) in tables.iter().zip(&plan.tables) {
            session.create(&table.uri, settings).with_context(|| format!("cannot make the table {}", table.name))?;
        }
        drop(session);
        let ticker = match config.durability {
            Durability::Interval(ms) => {
                let connection = Arc::clone(&connection);
                Some(Ticker::start(ms, move || connection.session()?.log_flush()))
            }
            Durability::Sync | Durability::Buffered | Durability::NoLog => None,
        };
        let (dir, durability, settings) = (dir.to_owned(), config.durability, plan.settings);
        Ok(Self { ticker, connection, tables, dir, tree, durability, settings })
    }

    fn checkpoint(&self) -> Result<()> {
        self.connection.session()?.checkpoint()
    }

    /// What changes while background work is done: bytes written, rows merged, and the lists of chunks.
    fn progress(&self) -> Result<(u64, u64, Vec<String>)> {
        let keys = &self.connection.library().layout.statistics;
        let session = self.connection.session()?;
        let statistics = session.cursor(c"statistics:", c"statistics=(fast)")?;
        let written = statistics.statistic(keys.block_byte_write)?;
        let merged = statistics.statistic(keys.lsm_rows_merged)?;
        let chunks = self.tables.iter().map(|table| shape::metadata(&session, table.name)).collect::<Result<_>>()?;
        Ok((written, merged, chunks))
    }

    fn dirty_enough_to_evict(&self) -> Result<bool> {
        let keys = &self.connection.library().layout.statistics;
        let session = self.connection.session()?;
        let statistics = session.cursor(c"statistics:", c"statistics=(fast)")?;
        let cache = statistics.statistic(keys.cache_bytes_max)?;
        Ok(statistics.statistic(keys.cache_bytes_dirty)? > cache * DIRTY_TARGET_PERCENT / 100)
    }
}

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
