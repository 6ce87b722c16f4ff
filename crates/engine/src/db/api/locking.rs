//! The locks that a transaction asks for, and the newest values under them.

use std::time::Duration;

use crate::base::key::check_key;
use crate::base::{Result, Value};
use crate::db::commit::validation::{conflict, have_changed};
use crate::table::changed_since::{key_changed, range_changed};
use crate::txn::locks::Target;

use super::key_range::{KeyRange, limits};
use super::row_locks::RowLocks;
use super::snapshot::Snapshot;
use super::table_handle::Table;
use super::transaction::Transaction;

impl Transaction {
    /// For how long [`Transaction::get_for_update`] and [`Transaction::lock_range`] wait for locks that other
    /// transactions hold: 5 seconds unless set. Zero does not wait.
    pub fn set_lock_wait(&mut self, limit: Duration) {
        self.lock_wait.limit = limit;
    }

    /// Has waits for locks ask `goes_on` some fifty times a second, from the thread that waits; they end with `Timeout`
    /// when it says no. A program ends the wait of a request so that was cancelled or is out of time.
    ///
    /// ```
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use spinney::{Database, ErrorKind, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let seats = db.open_or_create_table("seats", TableOptions::default())?;
    /// static CANCELLED: AtomicBool = AtomicBool::new(false);
    ///
    /// let mut txn = db.begin();
    /// txn.get_for_update(&seats, "row 1/7")?;
    /// let mut other = db.begin();
    /// other.set_lock_check(|| !CANCELLED.load(Ordering::Relaxed));
    /// CANCELLED.store(true, Ordering::Relaxed);
    /// assert_eq!(other.get_for_update(&seats, "row 1/7").unwrap_err().kind(), ErrorKind::Timeout);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_lock_check(&mut self, goes_on: fn() -> bool) {
        self.lock_wait.check = Some(goes_on);
    }

    /// Locks a key, whether it has a value or not, and reads it. Other transactions that ask for the lock wait until
    /// this one ends, and get it in the order in which they asked; so transactions that lock what they are going to
    /// change do not conflict.
    ///
    /// The value is the newest: if the key has changed since the transaction began, its snapshot moves forward to now.
    /// It can do so while nothing was read without a lock (under serializable isolation: while nothing that was read
    /// has changed); else the call fails with `Conflict`, as the commit would.
    ///
    /// Only who asks for a lock waits for it. A change by other means is not stopped; then this transaction's commit
    /// conflicts, also when it only locks the key and does not change it.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let accounts = db.open_or_create_table("accounts", TableOptions::default())?;
    /// accounts.put("ann", "5")?;
    /// let mut txn = db.begin();
    /// accounts.put("ann", "6")?;
    /// let balance = txn.get_for_update(&accounts, "ann")?;
    /// assert_eq!(balance.as_deref(), Some(&b"6"[..]));
    /// txn.put(&accounts, "ann", "7")?;
    /// txn.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Timeout` when the lock is not to be had in time, `Deadlock` at once when its holder waits for this transaction,
    /// `Conflict`; else as [`Transaction::get`]. The transaction keeps its other locks until it ends.
    pub fn get_for_update(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let (core, key) = (self.snapshot.db().core(), key.as_ref());
        core.state.health.check_open()?;
        check_key(key)?;
        let state = table.state_in(core)?;
        self.lock(Target::Key(state.id, key.into()))?;
        if key_changed(&state.version.load(), key, self.snapshot.seqnum())? {
            self.refresh()?;
        }
        self.reads.checked().add_key(state, key);
        self.read_own(table, key, |snapshot| snapshot.get(table, key))
    }

    /// Locks all keys of a range, also those that do not exist yet, as [`Transaction::get_for_update`] does a key.
    ///
    /// ```
    /// # use spinney::{Database, ErrorKind, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let seats = db.open_or_create_table("seats", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.lock_range(&seats, "row 1/".."row 2/")?;
    /// let mut other = db.begin();
    /// other.set_lock_wait(std::time::Duration::ZERO);
    /// assert_eq!(other.get_for_update(&seats, "row 1/7").unwrap_err().kind(), ErrorKind::Timeout);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Transaction::get_for_update`].
    pub fn lock_range(&mut self, table: &Table, range: impl KeyRange) -> Result<()> {
        let core = self.snapshot.db().core();
        core.state.health.check_open()?;
        let state = table.state_in(core)?;
        let Some(range) = limits(&range) else { return Ok(()) };
        self.lock(Target::Range(state.id, range.clone()))?;
        if range_changed(&state.version.load(), &range, self.snapshot.seqnum())? {
            self.refresh()?;
        }
        self.reads.checked().add_range(state, &range);
        Ok(())
    }

    fn lock(&mut self, target: Target) -> Result<()> {
        self.open.check_reads();
        let locks = self.locks.get_or_insert_with(|| RowLocks::new(self.snapshot.db()));
        locks.lock(target, self.lock_wait)
    }

    /// Moves the snapshot forward to now, if nothing that the transaction depends on has changed since.
    fn refresh(&mut self) -> Result<()> {
        let since = self.snapshot.seqnum();
        let fresh = Snapshot::new(self.snapshot.db().clone());
        let has_changed = self.reads.has_unchecked()
            || self.reads.checked().look(|reads| have_changed(reads, since))?
            || self.has_written_changed(since)?;
        if has_changed {
            return Err(conflict());
        }
        self.snapshot = fresh;
        Ok(())
    }
}
