//! SQLite: a B-tree in one file with a write-ahead log, and one writer at a time.

mod client;
mod documents;
mod statements;
mod store;

use crate::log_options;
use crate::ticker::Ticker;
use anyhow::{Context as _, Result};
use client::SqliteClient;
use documents::DocumentsClient;
use rusqlite::{Connection, OpenFlags};
use spinney_lab::driver::{Client, Config, Durability, Engine, Lacks, Store, TableSpec};
use spinney_lab::text::bytes;
use statements::Statements;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use store::{Files, SqliteStore};

/// SQLite.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sqlite;

/// SQLite with documents as JSONB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqliteDocuments;

const PAGE_BYTES: u64 = 4096;

/// The log is checkpointed when it has grown by this.
const CHECKPOINT_BYTES: u64 = 64 << 20;

/// The largest map: pages of the file are read from it without a copy.
const MAP_BYTES: u64 = 1 << 40;

impl Engine for Sqlite {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn version(&self) -> String {
        rusqlite::version().to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        Ok(Box::new(open_store(dir, config, tables, false)?))
    }
}

impl Engine for SqliteDocuments {
    fn name(&self) -> &'static str {
        "sqlite-documents"
    }

    fn version(&self) -> String {
        rusqlite::version().to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn documents(&self) -> bool {
        true
    }

    fn open(&self, dir: &Path, config: &Config, _tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        Ok(Box::new(open_store(dir, config, &[], true)?))
    }
}

/// Opens the database, with tables or for documents.
fn open_store(dir: &Path, config: &Config, tables: &[TableSpec], documents: bool) -> Result<SqliteStore> {
    log_options::refuse(config)?;
    let synchronous = match config.durability {
        Durability::Sync => "FULL",
        Durability::Interval(_) => "NORMAL",
        Durability::Buffered => "OFF",
        Durability::NoLog => {
            return Err(Lacks::new("no mode without a log in which readers and a writer go on together").into());
        }
    };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join("data.sqlite");
    let cache = config.memory_bytes / 4;
    let pragmas = format!(
        "PRAGMA page_size = {PAGE_BYTES}; PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous};
             PRAGMA cache_size = -{}; PRAGMA mmap_size = {MAP_BYTES}; PRAGMA wal_autocheckpoint = {};
             PRAGMA temp_store = MEMORY;",
        cache / 1024,
        CHECKPOINT_BYTES / PAGE_BYTES,
    );
    let own = connect(&path, &pragmas)?;
    // There is a log from the first write on, and clients with documents make their tables later.
    own.execute_batch("PRAGMA user_version = 1")?;
    for spec in tables {
        let name = spec.name;
        own.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {name} (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
        ))?;
    }
    let map: i64 = own.query_row("PRAGMA mmap_size", (), |row| row.get(0))?;
    let files = Arc::new(Files { database: open(&path)?, log: open(&dir.join("data.sqlite-wal"))? });
    let ticker = match config.durability {
        Durability::Interval(ms) => {
            let files = Arc::clone(&files);
            Some(Ticker::start(ms, move || Ok(files.log.sync_data()?)))
        }
        _ => None,
    };
    let settings = [
        ("journal", "WAL".to_owned()),
        ("synchronous", synchronous.to_owned()),
        ("cache", format!("{} for each connection", bytes(cache))),
        ("map", bytes(u64::try_from(map)?)),
        ("page", bytes(PAGE_BYTES)),
        ("checkpoint", format!("at {} of log", bytes(CHECKPOINT_BYTES))),
        ("tables", if documents { "_id as rowid, document as JSONB" } else { "WITHOUT ROWID" }.to_owned()),
        ("locking", "NORMAL: EXCLUSIVE allows one connection only".to_owned()),
        ("compression", "none: SQLite has none".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let tables = tables.iter().map(|spec| Statements::new(spec.name)).collect();
    Ok(SqliteStore { path, pragmas, tables, documents, own: Mutex::new(own), ticker, files, settings })
}

fn connect(path: &Path, pragmas: &str) -> Result<Connection> {
    // A connection stays on one thread, so it needs no mutex of its own.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_handler(Some(wait_for_writer))?;
    connection.execute_batch(pragmas)?;
    connection.set_prepared_statement_cache_capacity(256);
    Ok(connection)
}

/// Waits a little for the lock that another connection has. SQLite's own handler soon waits 100 ms at a time.
#[expect(clippy::disallowed_methods, reason = "SQLite has no queue of writers: who waits looks again and again")]
fn wait_for_writer(_times: i32) -> bool {
    std::thread::sleep(Duration::from_micros(50));
    true
}

#[expect(clippy::disallowed_methods, reason = "a driver of another engine has no environment of ours")]
fn open(path: &Path) -> Result<File> {
    File::open(path).with_context(|| format!("cannot open {}", path.display()))
}

impl SqliteStore {
    /// Copies the log into the database, as far as readers let it, and waits a moment for them.
    fn checkpoint(&self, connection: &mut Connection) -> Result<()> {
        connection.busy_timeout(Duration::from_millis(200))?;
        let result = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        connection.busy_handler(Some(wait_for_writer))?;
        Ok(result?)
    }

    fn own<T>(&self, verb: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        verb(&mut self.own.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Store for SqliteStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        let connection = connect(&self.path, &self.pragmas)?;
        Ok(if self.documents {
            Box::new(DocumentsClient::new(self, connection))
        } else {
            Box::new(SqliteClient::new(self, connection))
        })
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        self.files.log.sync_data()?;
        Ok(self.files.database.sync_data()?)
    }

    fn flush(&self) -> Result<()> {
        self.own(|connection| self.checkpoint(connection))
    }

    fn compact_all(&self) -> Result<()> {
        self.own(|connection| {
            connection.execute_batch("VACUUM")?;
            self.checkpoint(connection)
        })
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn is_log(&self, path: &Path) -> bool {
        path.to_string_lossy().ends_with("-wal")
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Self { own, ticker, files, .. } = *self;
        let ended = ticker.map_or(Ok(()), Ticker::stop);
        let closed = own.into_inner().unwrap_or_else(PoisonError::into_inner).close();
        drop(files);
        closed.map_err(|(_, error)| error)?;
        ended
    }
}
