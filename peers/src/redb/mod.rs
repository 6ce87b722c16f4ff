//! redb: a copy-on-write B-tree in one file, with one writer at a time.

mod backend;
mod client;

use crate::ticker::Ticker;
use ::redb::{Builder, CompactionError, Database, TableDefinition, WriteTransaction};
use anyhow::{Context as _, Result};
use backend::Unsynced;
use client::RedbClient;
use spinney_lab::driver::{Client, Config, Durability, Engine, Lacks, Store, TableShape, TableSpec};
use spinney_lab::text::bytes;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// redb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redb;

type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

struct RedbStore {
    shared: Arc<Shared>,
    tables: Vec<Definition>,
    ticker: Option<Ticker>,
    settings: Vec<(String, String)>,
}

struct Shared {
    /// Locked for writing by a compaction, which redb lets nobody else do at the same time.
    db: RwLock<Database>,
    /// The database's file, to force what [`Unsynced`] did not.
    file: File,
    durability: Durability,
}

impl Engine for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn version(&self) -> String {
        env!("REDB_VERSION").to_owned()
    }

    fn direct_io(&self) -> bool {
        false
    }

    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>> {
        crate::no_log_options(config)?;
        std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let path = dir.join("data.redb");
        let mut builder = Builder::new();
        builder.set_cache_size(usize::try_from(config.memory_bytes)?);
        let db = if config.durability == Durability::Buffered {
            builder.create_with_backend(Unsynced::open(&path)?)?
        } else {
            builder.create(&path)?
        };
        let tables: Vec<Definition> = tables.iter().map(|spec| Definition::new(spec.name)).collect();
        let txn = db.begin_write()?;
        for table in &tables {
            txn.open_table(*table)?;
        }
        txn.commit()?;
        let file = backend::open(&path)?;
        let shared = Arc::new(Shared { db: RwLock::new(db), file, durability: config.durability });
        let ticker = match config.durability {
            Durability::Interval(ms) => {
                let shared = Arc::clone(&shared);
                Some(Ticker::start(ms, move || shared.force()))
            }
            _ => None,
        };
        let settings = [
            ("cache", bytes(config.memory_bytes)),
            ("commits", commits(config.durability).to_owned()),
            ("page", "4 KiB".to_owned()),
            ("compression", "none: redb has none".to_owned()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Ok(Box::new(RedbStore { shared, tables, ticker, settings }))
    }
}

/// How commits are made with a durability, for the report.
fn commits(durability: Durability) -> &'static str {
    match durability {
        Durability::Sync => "Immediate, one phase with checksums",
        Durability::Interval(_) => "None, and one Immediate at each interval",
        Durability::Buffered => "Immediate, on a file that is not synced",
        Durability::NoLog => "None",
    }
}

impl Shared {
    fn db(&self) -> RwLockReadGuard<'_, Database> {
        // A panic of another thread leaves no half-made state behind: the lock guards a handle.
        self.db.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self) -> Result<WriteTransaction> {
        let mut txn = self.db().begin_write()?;
        txn.set_durability(match self.durability {
            Durability::Sync | Durability::Buffered => ::redb::Durability::Immediate,
            Durability::Interval(_) | Durability::NoLog => ::redb::Durability::None,
        })?;
        Ok(txn)
    }

    /// Brings all commits to the device: an empty commit that waits, and what it left to the page cache.
    fn force(&self) -> Result<()> {
        let mut txn = self.db().begin_write()?;
        txn.set_durability(::redb::Durability::Immediate)?;
        txn.commit()?;
        if self.durability == Durability::Buffered {
            self.file.sync_data()?;
        }
        Ok(())
    }
}

impl Store for RedbStore {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(RedbClient::new(self)))
    }

    fn settings(&self) -> Vec<(String, String)> {
        self.settings.clone()
    }

    fn sync(&self) -> Result<()> {
        self.shared.force()
    }

    fn flush(&self) -> Result<()> {
        self.shared.force()
    }

    fn compact_all(&self) -> Result<()> {
        let mut db = self.shared.db.write().unwrap_or_else(PoisonError::into_inner);
        match db.compact() {
            Ok(_) => Ok(()),
            Err(CompactionError::TransactionInProgress) => {
                Err(Lacks::new("no compaction while there are read views or transactions").into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn wait_idle(&self) -> Result<()> {
        Ok(())
    }

    fn shape(&self) -> Result<Vec<TableShape>> {
        // A table's own height costs a walk over all of it, which would disturb what is measured.
        Ok(Vec::new())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let ended = self.ticker.map_or(Ok(()), Ticker::stop);
        let shared =
            Arc::into_inner(self.shared).context("the interval's thread has ended, so nobody else has the database")?;
        shared.db.into_inner().unwrap_or_else(PoisonError::into_inner).close()?;
        ended
    }
}
