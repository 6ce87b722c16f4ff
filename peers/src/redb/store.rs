//! The open database, as its clients see it.

use crate::ticker::Ticker;
use ::redb::{Database, TableDefinition, WriteTransaction};
use anyhow::Result;
use spinney_lab::driver::Durability;
use std::fs::File;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

pub(super) type Definition = TableDefinition<'static, &'static [u8], &'static [u8]>;

pub(super) struct RedbStore {
    pub(super) shared: Arc<Shared>,
    pub(super) tables: Vec<Definition>,
    pub(super) ticker: Option<Ticker>,
    pub(super) settings: Vec<(String, String)>,
}

pub(super) struct Shared {
    /// Locked for writing by a compaction, which redb lets nobody else do at the same time.
    pub(super) db: RwLock<Database>,
    /// The database's file, to force what [`Unsynced`](super::backend::Unsynced) did not.
    pub(super) file: File,
    pub(super) durability: Durability,
}

impl Shared {
    pub(super) fn db(&self) -> RwLockReadGuard<'_, Database> {
        // A panic of another thread leaves no half-made state behind: the lock guards a handle.
        self.db.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self) -> Result<WriteTransaction> {
        let mut txn = self.db().begin_write()?;
        txn.set_durability(match self.durability {
            Durability::Sync | Durability::Buffered => ::redb::Durability::Immediate,
            Durability::Interval(_) | Durability::NoLog => ::redb::Durability::None,
        })?;
        Ok(txn)
    }

    /// Brings all commits to the device: an empty commit that waits, and what it left to the page cache.
    pub(super) fn force(&self) -> Result<()> {
        let mut txn = self.db().begin_write()?;
        txn.set_durability(::redb::Durability::Immediate)?;
        txn.commit()?;
        if self.durability == Durability::Buffered {
            self.file.sync_data()?;
        }
        Ok(())
    }
}
