//! The open database.

use super::config::{DIRTY_TARGET_PERCENT, Plan};
use super::handle::Connection;
use super::kind::Tree;
use super::library::Library;
use super::shape;
use super::table::TablePlace;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result};
use spinney_lab::driver::{Config, Durability, TableSpec};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A database of WiredTiger.
#[derive(Debug)]
pub(super) struct WiredTigerStore {
    // The thread that forces the log ends before the connection does.
    pub(super) ticker: Option<Ticker>,
    pub(super) connection: Arc<Connection>,
    pub(super) tables: Vec<TablePlace>,
    pub(super) dir: PathBuf,
    pub(super) tree: Tree,
    pub(super) durability: Durability,
    pub(super) settings: Vec<(String, String)>,
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

    pub(super) fn checkpoint(&self) -> Result<()> {
        self.connection.session()?.checkpoint()
    }

    /// What changes while background work is done: bytes written, rows merged, and the lists of chunks.
    pub(super) fn progress(&self) -> Result<(u64, u64, Vec<String>)> {
        let keys = &self.connection.library().layout.statistics;
        let session = self.connection.session()?;
        let statistics = session.cursor(c"statistics:", c"statistics=(fast)")?;
        let written = statistics.statistic(keys.block_byte_write)?;
        let merged = statistics.statistic(keys.lsm_rows_merged)?;
        let chunks = self.tables.iter().map(|table| shape::metadata(&session, table.name)).collect::<Result<_>>()?;
        Ok((written, merged, chunks))
    }

    pub(super) fn dirty_enough_to_evict(&self) -> Result<bool> {
        let keys = &self.connection.library().layout.statistics;
        let session = self.connection.session()?;
        let statistics = session.cursor(c"statistics:", c"statistics=(fast)")?;
        let cache = statistics.statistic(keys.cache_bytes_max)?;
        Ok(statistics.statistic(keys.cache_bytes_dirty)? > cache * DIRTY_TARGET_PERCENT / 100)
    }
}
