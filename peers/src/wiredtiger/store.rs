//! The open database.

use super::client::WiredTigerClient;
use super::config::{DIRTY_TARGET_PERCENT, Plan};
use super::engine::Tree;
use super::handle::{Connection, Cursor};
use super::library::Library;
use super::shape;
use anyhow::{Context as _, Result, anyhow};
use spinney_lab::Clock;
use spinney_lab::driver::{Client, Config, Counters, Durability, Store, TableShape, TableSpec};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// A database of WiredTiger.
#[derive(Debug)]
pub(super) struct WiredTigerStore {
    // The thread that forces the log ends before the connection does.
    forcer: Option<Forcer>,
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
        let forcer = match config.durability {
            Durability::Interval(ms) => Some(Forcer::start(Arc::clone(&connection), Duration::from_millis(ms.into()))?),
            Durability::Sync | Durability::Buffered | Durability::NoLog => None,
        };
        let (dir, durability, settings) = (dir.to_owned(), config.durability, plan.settings);
        Ok(Self { forcer, connection, tables, dir, tree, durability, settings })
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

/// How long nothing must have been written or merged for the background work to be over, and how often to look.
const QUIET: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);

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
        let clock = Clock::real();
        if self.tree == Tree::Btree {
            while self.dirty_enough_to_evict()? {
                clock.sleep(LOOK);
            }
            return Ok(());
        }
        let (mut last, mut since) = (self.progress()?, clock.now());
        while clock.now() - since < QUIET {
            clock.sleep(LOOK);
            let now = self.progress()?;
            if now != last {
                (last, since) = (now, clock.now());
            }
        }
        Ok(())
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
        let Self { forcer, connection, .. } = *self;
        forcer.map_or(Ok(()), Forcer::end)?;
        let connection = Arc::into_inner(connection).ok_or_else(|| anyhow!("the database is still in use"))?;
        connection.close()
    }
}

/// A thread that writes and forces the log each so many milliseconds.
#[derive(Debug)]
struct Forcer {
    thread: Option<JoinHandle<Result<()>>>,
    ended: Arc<(Mutex<bool>, Condvar)>,
}

impl Forcer {
    fn start(connection: Arc<Connection>, period: Duration) -> Result<Self> {
        let ended = Arc::new((Mutex::new(false), Condvar::new()));
        let ended_there = Arc::clone(&ended);
        let work = move || {
            let session = connection.session()?;
            let (flag, told) = &*ended_there;
            let mut over = flag.lock().expect("no holder of the flag panics");
            while !*over {
                session.log_flush()?;
                over = told.wait_timeout(over, period).expect("no holder of the flag panics").0;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new().name("log-forcer".to_owned()).spawn(work)?;
        Ok(Self { thread: Some(thread), ended })
    }

    fn end(mut self) -> Result<()> {
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        *self.ended.0.lock().expect("no holder of the flag panics") = true;
        self.ended.1.notify_one();
        thread.join().map_err(|_| anyhow!("the thread that forces the log panicked"))?
    }
}

impl Drop for Forcer {
    fn drop(&mut self) {
        // The error of a database that is given up is nobody's.
        self.join().ok();
    }
}
