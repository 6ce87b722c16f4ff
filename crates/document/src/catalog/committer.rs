//! What commits the transactions of a document database, and creates and drops its tables: the engine itself, or a
//! program that has the members of a replica set agree first.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use spinney::{Durability, ErrorKind, Layout, Table, TableId, Transaction};

use super::tables::CATALOG;
use crate::base::{Error, ErrorCode, Result};
use crate::notes::Note;

/// Commits in place of the engine. A database that has one ([`with_committer`]) changes nothing of its collections,
/// indexes and catalog but through it.
///
/// An implementation prepares a transaction, stamps it in its place among the others ([`PreparedCommit::stamp`]), has
/// its record agreed on, and hands the record to the database of every member in the agreed order ([`apply`]); here
/// with the [`PreparedCommit`], so that what the transaction holds is free again and memory agrees with what is stored.
///
/// [`with_committer`]: crate::Database::with_committer
/// [`apply`]: crate::catalog::Catalog::apply
pub trait Committer: fmt::Debug + Send + Sync {
    /// Commits, and returns when readers here see it and it is as durable as its [`Pending::durability`] asks, at the
    /// least.
    ///
    /// It may return an error before the fate of the commit is known. The [`PreparedCommit`] is kept then until the
    /// commit was applied or is certainly lost; when it is applied after all, its session is told what it did, and a
    /// change of the catalog is brought to memory as that of another member is. No other change of the catalog may be
    /// committed before that.
    ///
    /// # Errors
    /// `WriteConflict` (112) when nothing was committed and the transaction may be tried again; others, with their
    /// labels, reach the client.
    fn commit(&self, commit: Pending) -> Result<()>;

    /// Creates a table, and returns it when it is there. One of the name that is there already is returned as it is.
    ///
    /// # Errors
    /// Those of the engine and of the agreement.
    fn create_table(&self, name: &str, layout: Layout) -> Result<Table>;

    /// Drops tables, and returns when they are gone. No table of a name is no error.
    ///
    /// # Errors
    /// Those of the engine and of the agreement.
    fn drop_tables(&self, names: &[String]) -> Result<()>;
}

/// The table of the engine in which a program with a [`Committer`] remembers what was agreed on. A document database
/// that has it is changed through a committer alone.
pub const MEMBER_TABLE: &str = "replica";

/// Whether a database of the engine has documents that are changed through a [`Committer`] alone.
///
/// # Errors
/// Those of the engine.
pub fn is_of_member(engine: &spinney::Database) -> Result<bool> {
    Ok(engine.table(CATALOG)?.is_some() && engine.table(MEMBER_TABLE)?.is_some())
}

/// What is done when a commit is applied, before its locks are released.
pub type Applied = Box<dyn FnOnce() + Send>;

/// A transaction that is to be committed.
pub struct Pending {
    txn: Transaction,
    durability: Option<Durability>,
    applied: Option<Applied>,
    fate: Arc<Fate>,
}

/// What the thread that commits and the one that applies tell each other. The first of the two to say so decides.
///
/// # Concurrency
/// One atomic byte, changed once.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicU8);

/// The thread that commits waits.
const WAITED_FOR: u8 = 0;
/// It is applied, and the thread that commits is told so.
const APPLIED: u8 = 1;
/// The thread that commits has returned an error.
const ABANDONED: u8 = 2;

impl Fate {
    fn decide(&self, fate: u8) -> bool {
        self.0.compare_exchange(WAITED_FOR, fate, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// The committer has returned an error; whether the commit was not applied before that.
    pub(super) fn abandon(&self) -> bool {
        self.decide(ABANDONED)
    }
}

/// Who hears that a commit was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// The thread that commits, which does the rest.
    ByItsThread,
    /// Not the thread of a transaction: its session does not know yet.
    NotByWriter,
    /// Not the thread of a change of the catalog: memory does not know yet.
    NotByChange,
}

impl Pending {
    /// A transaction with what is to be done when it is applied. Without that it changes the catalog, and the thread
    /// that commits brings memory in line when it hears that the commit is applied.
    pub(super) fn new(txn: Transaction, durability: Option<Durability>, applied: Option<Applied>) -> Self {
        Self { txn, durability, applied, fate: Arc::default() }
    }

    /// What becomes of it.
    pub(super) fn fate(&self) -> Arc<Fate> {
        Arc::clone(&self.fate)
    }

    /// What the commit is to survive; nothing for what the options of the engine say.
    #[must_use]
    pub const fn durability(&self) -> Option<Durability> {
        self.durability
    }

    /// Locks what is written, and checks that nothing conflicts.
    ///
    /// # Errors
    /// `WriteConflict` (112) when another transaction has changed the same, or has prepared it for longer than the
    /// transaction waits; `InternalError` (1) when its note makes no sense, so that no member could apply it; those of
    /// the engine.
    pub fn prepare(self) -> Result<PreparedCommit> {
        let prepared = self.txn.prepare().map_err(|error| match error.kind() {
            ErrorKind::Timeout => Error::new(ErrorCode::WRITE_CONFLICT, error.to_string()),
            _ => Error::from(error),
        })?;
        let note = prepared.note();
        if !note.is_empty() && Note::decode(note).is_none_or(|note| note.position.is_some()) {
            return Err(Error::new(ErrorCode::INTERNAL_ERROR, "the note of a commit makes no sense"));
        }
        Ok(PreparedCommit { applied: self.applied, prepared, fate: self.fate })
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
    fate: Arc<Fate>,
}

impl PreparedCommit {
    /// The bytes of the changes and of the note: see [`spinney::Prepared::record`]. They are complete when the commit
    /// was [stamped](Self::stamp).
    #[must_use]
    pub fn record(&self) -> &[u8] {
        self.prepared.record()
    }

    /// Gives the commit its time, which its record has then. To be called when the commit has its place in the order
    /// that the members agree on, under the latch that fixes that order: times have the same order.
    pub fn stamp(&mut self) {
        let _time = self.prepared.stamp();
    }

    /// The ids that the record has of tables, with their names.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        self.prepared.tables()
    }

    /// The record is applied: brings memory in line with documents, and releases the locks. Whether the thread that
    /// commits hears of it; else it has returned an error.
    pub(super) fn applied(self) -> Heard {
        let of_documents = self.applied.is_some();
        if let Some(applied) = self.applied {
            applied();
        }
        match self.fate.decide(APPLIED) {
            true => Heard::ByItsThread,
            false if of_documents => Heard::NotByWriter,
            false => Heard::NotByChange,
        }
    }
}

impl fmt::Debug for PreparedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PreparedCommit").field("prepared", &self.prepared).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_that_no_member_could_apply_is_not_prepared() {
        let dir = tempfile::tempdir().unwrap();
        let db = spinney::Database::open(dir.path().join("db"), spinney::Options::default()).unwrap();
        let table = db.create_table("t", spinney::TableOptions::default()).unwrap();
        let prepare = |note: &[u8]| {
            let mut txn = db.begin();
            txn.put(&table, "k", "v").unwrap();
            txn.note(note);
            Pending::new(txn, None, None).prepare().map(drop)
        };
        let encoded = Note::default().encode();
        prepare(b"").unwrap();
        prepare(&encoded).unwrap();
        assert_eq!(prepare(b"\x80of another program").unwrap_err().code(), ErrorCode::INTERNAL_ERROR);
        let placed = Note::with_position(&encoded, 7);
        assert_eq!(prepare(&placed).unwrap_err().code(), ErrorCode::INTERNAL_ERROR, "members add the position");
    }
}
