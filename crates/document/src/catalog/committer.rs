//! What commits the transactions of a document database, and creates and drops its tables: the engine itself, or a
//! program that has the members of a replica set agree first.

use std::fmt;

use spinney::{Durability, ErrorKind, Layout, Table, TableId, Transaction};

use crate::base::{Error, ErrorCode, Result};

/// Commits in place of the engine. A database that has one ([`with_committer`]) changes nothing of its collections,
/// indexes and catalog but through it.
///
/// An implementation prepares a transaction, has its record agreed on, and hands the record to the database of every
/// member in the agreed order ([`apply`]); here with the [`PreparedCommit`], so that what the transaction holds is free
/// again and memory agrees with what is stored.
///
/// [`with_committer`]: crate::Database::with_committer
/// [`apply`]: crate::catalog::Catalog::apply
pub trait Committer: fmt::Debug + Send + Sync {
    /// Commits, and returns when readers here see it and it is as durable as its [`Pending::durability`] asks, at the
    /// least.
    ///
    /// It may return an error before the fate of the commit is known, unless that [must be waited for]. The
    /// [`PreparedCommit`] is kept then until the commit was applied or is certainly lost.
    ///
    /// # Errors
    /// `WriteConflict` (112) when nothing was committed and the transaction may be tried again; others, with their
    /// labels, reach the client.
    ///
    /// [must be waited for]: Pending::must_wait
    fn commit(&self, commit: Pending) -> Result<()>;

    /// Creates a table, and returns it when it is there. One of the name that is there already is returned as it is.
    ///
    /// # Errors
    /// Those of the engine and of the agreement.
    fn create_table(&self, name: &str, layout: Layout) -> Result<Table>;

    /// Drops a table, and returns when it is gone. No table of the name is no error.
    ///
    /// # Errors
    /// Those of the engine and of the agreement.
    fn drop_table(&self, name: &str) -> Result<()>;
}

/// What is done when a commit is applied, before its locks are released.
pub type Applied = Box<dyn FnOnce() + Send>;

/// A transaction that is to be committed.
pub struct Pending {
    txn: Transaction,
    durability: Option<Durability>,
    applied: Option<Applied>,
}

impl Pending {
    /// A transaction with what is to be done when it is applied. Without that the thread that commits holds what the
    /// transaction depends on, and waits until the fate of the commit is known.
    pub(crate) const fn new(txn: Transaction, durability: Option<Durability>, applied: Option<Applied>) -> Self {
        Self { txn, durability, applied }
    }

    /// What the commit is to survive; nothing for what the options of the engine say.
    #[must_use]
    pub const fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// Whether [`Committer::commit`] may return only when the fate of the commit is known: for changes of the catalog.
    #[must_use]
    pub const fn must_wait(&self) -> bool {
        self.applied.is_none()
    }

    /// Locks what is written, and checks that nothing conflicts.
    ///
    /// # Errors
    /// `WriteConflict` (112) when another transaction has changed the same, or has prepared it for longer than the
    /// transaction waits; those of the engine.
    pub fn prepare(self) -> Result<PreparedCommit> {
        let prepared = self.txn.prepare().map_err(|error| match error.kind() {
            ErrorKind::Timeout => Error::new(ErrorCode::WRITE_CONFLICT, error.to_string()),
            _ => Error::from(error),
        })?;
        Ok(PreparedCommit { applied: self.applied, prepared, is_abandoned: false })
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending").field("durability", &self.durability).finish_non_exhaustive()
    }
}

/// A commit that was prepared. Dropped, it is lost, and its locks are free.
pub struct PreparedCommit {
    applied: Option<Applied>,
    prepared: spinney::Prepared,
    is_abandoned: bool,
}

impl PreparedCommit {
    /// The bytes of the changes and of the note: see [`spinney::Prepared::record`].
    #[must_use]
    pub fn record(&self) -> &[u8] {
        self.prepared.record()
    }

    /// The ids that the record has of tables, with their names.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        self.prepared.tables()
    }

    /// [`Committer::commit`] returns an error although the commit may be applied later: so its session is told of it
    /// then. Before `commit` returns.
    pub const fn abandon(&mut self) {
        self.is_abandoned = true;
    }

    /// Whether nobody waits for it any more.
    pub(crate) const fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    /// The record is applied: brings memory in line, and releases the locks.
    pub(crate) fn applied(self) {
        if let Some(applied) = self.applied {
            applied();
        }
    }
}

impl fmt::Debug for PreparedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCommit").field("prepared", &self.prepared).finish_non_exhaustive()
    }
}
