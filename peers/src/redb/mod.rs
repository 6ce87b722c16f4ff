//! redb: a copy-on-write B-tree in one file, with one writer at a time.

mod backend;
mod client;
mod store;

use crate::log_options;
use crate::ticker::Ticker;
use ::redb::{Builder, CompactionError};
use anyhow::{Context as _, Result};
use backend::Unsynced;
use client::RedbClient;
use spinney_lab::driver::{Client, Config, Durability, Engine, Lacks, Store, TableShape, TableSpec};
use spinney_lab::text::bytes;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use store::{Definition, RedbStore, Shared};

/// redb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Redb;

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
        log_options::refuse(config)?;
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
