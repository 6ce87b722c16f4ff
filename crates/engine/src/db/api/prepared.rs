//! A transaction that was prepared: it will not conflict, and nothing of it is visible.
//!
//! For programs that agree elsewhere on what is committed, such as the members of a replica set: the transaction is
//! checked and its keys are locked here, its record goes to the others, and all apply the same record
//! ([`Batch::append_record`]). This is the first phase of a two-phase commit (Gray 1978).

use std::sync::Arc;

use crate::base::{Error, ErrorKind, Result, TableId};
use crate::db::commit::validation::Seen;
use crate::txn::batch::{Change, STAMP_BYTES};
use crate::txn::commit_clock::CommitClock;
use crate::txn::locks::Target;

use super::row_locks::RowLocks;
use super::transaction::Transaction;

/// What [`Transaction::prepare`] gives: the record of the changes, and the locks of their keys. Dropping it releases
/// the locks.
#[derive(Debug)]
pub struct Prepared {
    record: Vec<u8>,
    /// Where the note begins, which is the end of the record.
    note_at: usize,
    tables: Vec<(TableId, String)>,
    /// The clock that stamps the commit, and where the record has the time.
    stamp: Option<(Arc<CommitClock>, usize)>,
    _locks: Option<RowLocks>,
}

impl Prepared {
    /// The changes and the note, for [`Batch::append_record`](crate::Batch::append_record). Its format is that of a
    /// record of the redo log.
    #[must_use]
    pub fn record(&self) -> &[u8] {
        &self.record
    }

    /// Stamps the commit, if the transaction [asks for that](Transaction::stamp): the record has the next time of the
    /// clock then. To be called when the commit has its place in the order that the program gives it, under the latch
    /// that fixes that order; until then the record has what the note had there. The program hands the time to the
    /// clock again with the batch that it commits ([`Batch::stamp_given`](crate::Batch::stamp_given)).
    pub fn stamp(&mut self) -> Option<u64> {
        let (clock, at) = self.stamp.as_ref()?;
        let time = clock.tick();
        self.record[*at..*at + STAMP_BYTES].copy_from_slice(&time.to_le_bytes());
        Some(time)
    }

    /// The note of the transaction; empty when it has none.
    #[must_use]
    pub fn note(&self) -> &[u8] {
        &self.record[self.note_at..]
    }

    /// The ids that the record has of tables, with their names.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &str)> {
        self.tables.iter().map(|(id, name)| (*id, &**name))
    }
}

impl Transaction {
    /// Prepares the commit: locks every key and range that is written, waiting for others as long as the transaction
    /// waits for locks, and checks that nothing conflicts. Nothing becomes visible, and nothing is durable.
    ///
    /// While the result lives no other transaction can prepare changes of the same keys. A program that commits some
    /// transactions by [`Transaction::commit`] and prepares others must keep their keys apart: a commit asks for no
    /// locks. The changes are committed by a batch with the record, before the locks are released.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, ErrorKind, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let seats = db.create_table("seats", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.put(&seats, "1", "Ann")?;
    /// txn.note(b"reserved");
    /// let prepared = txn.prepare()?;
    /// assert_eq!(prepared.note(), b"reserved");
    /// assert_eq!(seats.get("1")?, None);
    /// let mut other = db.begin();
    /// other.set_lock_wait(std::time::Duration::ZERO);
    /// other.put(&seats, "1", "Bob")?;
    /// assert_eq!(other.prepare().unwrap_err().kind(), ErrorKind::Timeout);
    /// let mut batch = Batch::new();
    /// batch.append_record(prepared.record(), |_| Ok(seats.clone()))?;
    /// db.write_with(&batch, Durability::Buffered)?;
    /// drop(prepared);
    /// assert_eq!(seats.get("1")?.as_deref(), Some(&b"Ann"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Conflict` as [`Transaction::commit`]; `Timeout` and `Deadlock` as [`Transaction::get_for_update`];
    /// `Unsupported` for a serializable transaction that has read, as nothing protects its reads until the commit, and
    /// for changes of tables without a redo log; `Poisoned`, `Closed`. The transaction is rolled back then.
    pub fn prepare(mut self) -> Result<Prepared> {
        let (batch, db) = (self.batch(), self.snapshot.db().clone());
        let core = db.core();
        core.state.health.check_writable()?;
        let tracked = self.reads.checked().take();
        if self.reads.is_serializable() && tracked.reads().is_some() {
            let message = "a serializable transaction that has read cannot be prepared: use snapshot isolation";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let (changes, tables) = batch.checked(&db)?;
        if changes.unlogged_count() > 0 {
            let message = "changes of a table without a redo log cannot be prepared";
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut locks = self.locks.take();
        let targets: Vec<Target> = changes.iter().map(|change| target(&change)).collect();
        if !targets.is_empty() {
            locks.get_or_insert_with(|| RowLocks::new(&db)).lock_all(targets, self.lock_wait)?;
        }
        // Behind the locks: those that had them have committed by now.
        core.commits.check(changes, tables, Seen { seqnum: self.snapshot.seqnum(), reads: tracked.reads() })?;
        let tables = tables.iter().map(|table| (table.id, table.name.clone())).collect();
        let record = changes.record();
        let note_at = record.len() - changes.note().len();
        let front = record.len() - changes.logged().len();
        let stamp = changes.stamp().zip(changes.stamp_at());
        let stamp = stamp.map(|(stamp, at)| (Arc::clone(&stamp.clock), front + at));
        Ok(Prepared { record, note_at, tables, stamp, _locks: locks })
    }
}

/// What a change needs the lock of. A merge too, whether it commutes or not: a put of the same key that another
/// transaction has prepared does not know of it.
fn target(change: &Change<'_>) -> Target {
    match change.range() {
        Some(range) => Target::Range(change.table, range),
        None => Target::Key(change.table, change.key.into()),
    }
}
