//! A transaction: reads of one snapshot and a set of writes, committed together or not at all.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::key::{check_key, check_value};
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, ErrorKind, Kind, Result, SeqNum, TableId, Value};
use crate::db::commit::validation::Seen;
use crate::db::state::options::Durability;
use crate::table::changed_since::{key_changed, range_changed};
use crate::tree::Limits;
use crate::txn::batch::check_range;
use crate::txn::commit_clock::CommitClock;

use super::batch::Batch;
use super::handle::DatabaseHandle;
use super::key_range::{Bounds, KeyRange, all_limits, limits, prefix_range};
use super::key_writes::KeyWrites;
use super::own_writes::OwnWrites;
use super::range::Range;
use super::ranges::Ranges;
use super::read_tracker::{Isolation, Reads};
use super::row_locks::{LockWait, RowLocks};
use super::snapshot::Snapshot;
use super::table_handle::Table;
use super::unseen_writes::UnseenWrites;
use super::walk::Direction;

/// The number of the next savepoint of any transaction.
static NEXT_SAVEPOINT: AtomicU64 = AtomicU64::new(0);

/// Memory that a key takes in the set beside its bytes and its changes.
const KEY_OVERHEAD_BYTES: u64 = 64;

/// A transaction over any number of tables: it reads the database as it was when it began, with its own writes on top,
/// and commits only if nobody else has committed a change to a key that it wrote (first committer wins; snapshot
/// isolation). Under [`Isolation::Serializable`] nothing that it read may have changed either. Dropping it rolls it
/// back.
///
/// ```
/// # use spinney::{Database, ErrorKind, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// # let table = db.create_table("t", TableOptions::default())?;
/// let (mut first, mut second) = (db.begin(), db.begin());
/// first.put(&table, b"seat 1", b"Ann")?;
/// second.put(&table, b"seat 1", b"Bob")?;
/// first.commit()?;
/// assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Transaction {
    pub(super) snapshot: Snapshot,
    pub(super) open: Open,
    pub(super) reads: Reads,
    writes: Writes,
    unseen: UnseenWrites,
    /// The savepoints that were set and not released, oldest first, with what had been written and the number of
    /// unseen writes.
    savepoints: Vec<(u64, Writes, usize)>,
    note: Note,
    makes_room: bool,
    pub(super) locks: Option<RowLocks>,
    pub(super) lock_wait: LockWait,
}

/// The note of the commit.
#[derive(Debug, Default)]
struct Note {
    bytes: Vec<u8>,
    /// The clock that stamps the commit, and where the note has the time.
    stamp: Option<(Arc<CommitClock>, usize)>,
}

/// What a transaction has written.
#[derive(Debug, Default)]
struct Writes {
    tables: BTreeMap<TableId, TableWrites>,
    /// Memory that they take.
    bytes: u64,
}

impl Writes {
    /// A copy that shares its keys and values with this one, and changes apart from it.
    fn fork(&self) -> Self {
        let fork = |(id, writes): (&TableId, &TableWrites)| {
            (*id, TableWrites { table: writes.table.clone(), own: writes.own.fork() })
        };
        Self { tables: self.tables.iter().map(fork).collect(), bytes: self.bytes }
    }
}

/// A point of a transaction to which it can go back: see [`Transaction::savepoint`].
#[derive(Debug)]
pub struct Savepoint(u64);

/// Counts a transaction as open.
#[derive(Debug)]
pub(super) struct Open {
    db: DatabaseHandle,
    /// Whether it is counted as one whose reads are checked.
    checked: bool,
}

#[derive(Debug)]
struct TableWrites {
    table: Table,
    own: OwnWrites,
}

impl TableWrites {
    fn new(table: &Table) -> Self {
        Self { table: table.clone(), own: OwnWrites::default() }
    }
}

impl Transaction {
    pub(crate) fn new(db: &DatabaseHandle, isolation: Isolation) -> Self {
        // Before it takes its snapshot, so that as few commits as possible are not noted that it does not see.
        let (mut open, reads) = (Open::new(db), Reads::new(isolation));
        if reads.is_serializable() {
            open.check_reads();
        }
        Self {
            snapshot: Snapshot::new(db.clone()),
            open,
            reads,
            writes: Writes::default(),
            unseen: UnseenWrites::default(),
            savepoints: Vec::new(),
            note: Note::default(),
            makes_room: false,
            locks: None,
            lock_wait: LockWait::default(),
        }
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// `Invalid` for a key or value of a length that cannot be stored, a value that the table's merge operator refuses,
    /// or a table of another database; `TooLarge` when the transaction becomes larger than memory allows: it stays
    /// as it was then.
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        table.state().check_value(value)?;
        self.write(table, Kind::Put, key, value)
    }

    /// As [`Transaction::put`], for a key that the transaction does not read or write otherwise: its own reads do not
    /// see the put, which costs less memory and time. The commit conflicts as with a put.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn put_unseen(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        table.state().check_value(value)?;
        let core = self.snapshot.db().core();
        core.state.health.check_writable()?;
        check_key(key)?;
        check_value(value)?;
        table.state_in(core)?;
        let bytes = self.writes.bytes + u64_of(key.len() + value.len()) + KEY_OVERHEAD_BYTES;
        self.check_fits(bytes)?;
        self.writes.bytes = bytes;
        self.unseen.push(table, key, value);
        Ok(())
    }

    /// Sets the value of a key that has none. Whether it has one is looked up at once, without a read of the device
    /// where the filters of the table's runs say that it has none; a key that another transaction gives a value before
    /// the commit makes that conflict.
    ///
    /// ```
    /// # use spinney::{Database, ErrorKind, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let users = db.open_or_create_table("users", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.put_new(&users, "ann", "42")?;
    /// assert_eq!(txn.put_new(&users, "ann", "43").unwrap_err().kind(), ErrorKind::AlreadyExists);
    /// txn.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `AlreadyExists` when the key has a value; else as [`Transaction::get`] and [`Transaction::put`].
    pub fn put_new(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.contains(table, key)? {
            let message = format!("table '{}' has a value of the key already", table.name());
            return Err(Error::new(ErrorKind::AlreadyExists, message));
        }
        self.put(table, key, value)
    }

    /// Whether another commit has changed a key since the transaction began, so that a write of it would make the
    /// commit conflict.
    ///
    /// # Errors
    /// `Invalid` for a key that cannot be stored or a table of another database; `Corruption`, `Io`, `Closed`.
    pub fn would_conflict(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let (core, key) = (self.snapshot.db().core(), key.as_ref());
        core.state.health.check_open()?;
        check_key(key)?;
        core.commits.would_conflict(table.state_in(core)?, key, self.snapshot.seqnum())
    }

    /// Removes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(table, Kind::Delete, key.as_ref(), b"")
    }

    /// Removes a key that was put at most once since it was last removed, as [`Batch::single_delete`] does. Of what the
    /// transaction itself did to the key only the sum is committed: a put and its removal are a removal, and a removal
    /// with a put after it stays both.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn single_delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(table, Kind::SingleDelete, key.as_ref(), b"")
    }

    /// Removes all keys of a range, as [`Batch::delete_range`] does. Reads of the transaction see it. The commit
    /// conflicts with what others committed to keys of the range meanwhile; where very much of the range was just
    /// written it may do so in vain.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete_range(&mut self, table: &Table, range: impl KeyRange) -> Result<()> {
        let core = self.snapshot.db().core();
        core.state.health.check_writable()?;
        let state = table.state_in(core)?;
        let Some(range) = limits(&range) else { return Ok(()) };
        check_range(&range)?;
        let high_bytes = range.high.as_ref().map_or(0, Vec::len);
        let bytes = self.writes.bytes + u64_of(range.low.len() + high_bytes) + KEY_OVERHEAD_BYTES;
        self.check_fits(bytes)?;
        self.writes.bytes = bytes;
        let own = &mut self.writes.tables.entry(state.id).or_insert_with(|| TableWrites::new(table)).own;
        own.erase(&range);
        own.keys.remove_range(&range.low, range.high.as_deref(), |(key, writes)| {
            self.writes.bytes -= u64_of(key.len()) + KEY_OVERHEAD_BYTES + writes.bytes();
        });
        Ok(())
    }

    fn check_fits(&self, bytes: u64) -> Result<()> {
        let most = self.snapshot.db().core().throttle.budget.batch_bytes_max();
        if bytes <= most {
            return Ok(());
        }
        let message = format!(
            "the transaction is larger than memory_bytes allows (a quarter of it, {most} bytes): commit in parts"
        );
        Err(Error::new(ErrorKind::TooLarge, message))
    }

    /// Merges an operand into a key's value, as [`Batch::merge`] does. Reads of the transaction see it. The value is
    /// not read, but like a put the commit conflicts with what others committed to the key meanwhile: counters that
    /// many change take a [`Batch`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; `Invalid` also when the table has no merge operator, or one that is not registered or
    /// refuses the operand.
    pub fn merge(&mut self, table: &Table, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        table.state().callbacks.operator.get()?.check(operand)?;
        self.write(table, Kind::Merge, key, operand)
    }

    fn write(&mut self, table: &Table, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let core = self.snapshot.db().core();
        core.state.health.check_writable()?;
        check_key(key)?;
        check_value(value)?;
        let state = table.state_in(core)?;
        let own = self.writes.tables.get(&state.id).and_then(|writes| writes.own.keys.get(key));
        let replaced = match (own, kind) {
            (None, _) => 0,
            (Some(_), Kind::Merge) => u64_of(key.len()) + KEY_OVERHEAD_BYTES,
            (Some(own), _) => u64_of(key.len()) + KEY_OVERHEAD_BYTES + own.bytes(),
        };
        let bytes = self.writes.bytes - replaced + u64_of(key.len()) + KEY_OVERHEAD_BYTES + KeyWrites::bytes_of(value);
        self.check_fits(bytes)?;
        self.writes.bytes = bytes;
        let own = &mut self.writes.tables.entry(state.id).or_insert_with(|| TableWrites::new(table)).own;
        own.keys.upsert(key, |own| own.push(kind, value), || KeyWrites::new(kind, value));
        Ok(())
    }

    /// The value of a key, the transaction's own writes included.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        self.snapshot.db().core().state.health.check_open()?;
        check_key(key)?;
        self.read_own(table, key, |snapshot| {
            self.reads.read(table.state(), key);
            snapshot.get(table, key)
        })
    }

    /// The value of a key, with the transaction's own writes over what `read` finds.
    pub(super) fn read_own(
        &self,
        table: &Table,
        key: &[u8],
        read: impl FnOnce(&Snapshot) -> Result<Option<Value>>,
    ) -> Result<Option<Value>> {
        let own = self.own(table);
        let below = || match own {
            Some(own) if own.has_erased(key) => Ok(None),
            _ => read(&self.snapshot),
        };
        match own.and_then(|writes| writes.keys.get(key)) {
            Some(own) => own.over(key, below, &table.state().callbacks.operator),
            None => below(),
        }
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.snapshot.db().core().state.health.check_open()?;
        check_key(key)?;
        match self.own(table) {
            Some(own) if own.keys.get(key).is_some() || own.has_erased(key) => Ok(self.get(table, key)?.is_some()),
            _ => {
                self.reads.read(table.state(), key);
                self.snapshot.contains(table, key)
            }
        }
    }

    /// Whether several keys have values, in the order of the keys, as [`Snapshot::multi_contains`] tells.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_contains(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<Vec<bool>> {
        if self.own(table).is_some() {
            return keys.iter().map(|key| self.contains(table, key)).collect();
        }
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        keys.iter().for_each(|key| self.reads.read(table.state(), key));
        self.snapshot.contain_many(table, &keys)
    }

    /// A view of the moment at which the transaction reads, without its writes.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.snapshot.clone()
    }

    /// The values of several keys, in the order of the keys, the transaction's own writes included: faster than one
    /// [`Transaction::get`] after the other, as [`Snapshot::multi_get`] is. What the writes decide alone is not looked
    /// up.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.put(&table, b"seat 1", b"Ann")?;
    /// txn.put(&table, b"seat 2", b"Bob")?;
    /// txn.commit()?;
    /// let mut txn = db.begin();
    /// txn.delete(&table, b"seat 1")?;
    /// let seats = txn.multi_get(&table, &[b"seat 2", b"seat 1"])?;
    /// assert_eq!((seats[0].as_deref(), seats[1].as_deref()), (Some(&b"Bob"[..]), None));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::multi_get`].
    pub fn multi_get(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        let keys = &*keys.iter().map(AsRef::as_ref).collect::<Vec<_>>();
        keys.iter().try_for_each(|key| check_key(key))?;
        let Some(own) = self.own(table) else {
            keys.iter().for_each(|key| self.reads.read(table.state(), key));
            return self.snapshot.get_many(table, keys);
        };
        let shown: Vec<&[u8]> = keys.iter().copied().filter(|key| own.shows_below(key)).collect();
        shown.iter().for_each(|key| self.reads.read(table.state(), key));
        let mut shown = self.snapshot.get_many(table, &shown)?.into_iter().peekable();
        let value = |key: &&[u8]| {
            let below = shown.next_if(|_| own.shows_below(key)).flatten();
            match own.keys.get(key) {
                Some(writes) => writes.over(key, || Ok(below), &table.state().callbacks.operator),
                None => Ok(below),
            }
        };
        keys.iter().map(value).collect()
    }

    /// The entries of a key range, ascending, with the writes made so far.
    pub fn range(&self, table: &Table, range: impl KeyRange) -> Range {
        self.walk(table, range.bounds(), Direction::Forward)
    }

    /// The entries of a key range, descending, with the writes made so far.
    pub fn range_rev(&self, table: &Table, range: impl KeyRange) -> Range {
        self.walk(table, range.bounds(), Direction::Backward)
    }

    /// The entries of several key ranges, which ascend and do not overlap, with the writes made so far: see [`Ranges`].
    pub fn ranges<R: KeyRange>(&self, table: &Table, ranges: impl IntoIterator<Item = R>) -> Ranges {
        self.walk_all(table, all_limits(ranges), Direction::Forward)
    }

    /// As [`Transaction::ranges`], from the last key to the first: the ranges descend.
    pub fn ranges_rev<R: KeyRange>(&self, table: &Table, ranges: impl IntoIterator<Item = R>) -> Ranges {
        self.walk_all(table, all_limits(ranges), Direction::Backward)
    }

    fn walk_all(&self, table: &Table, ranges: Vec<Limits>, direction: Direction) -> Ranges {
        // As if all were walked to their ends.
        ranges.iter().filter_map(|range| self.reads.walk(table.state(), range)).for_each(|walk| walk.end(None));
        let own = self.own(table).map(|own| Box::new((own.clone(), own.hidden())));
        self.snapshot.walk_all(table, (ranges, direction), own)
    }

    /// The entries whose keys begin with `prefix`, ascending, with the writes made so far.
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Range {
        self.walk(table, prefix_range(prefix).bounds(), Direction::Forward)
    }

    /// The entry with the smallest key, with the writes made so far.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn first(&self, table: &Table) -> Result<Option<(Vec<u8>, Value)>> {
        self.range(table, ..).next().transpose()
    }

    /// The entry with the largest key, with the writes made so far.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn last(&self, table: &Table) -> Result<Option<(Vec<u8>, Value)>> {
        self.range_rev(table, ..).next().transpose()
    }

    fn walk(&self, table: &Table, bounds: Bounds<'_>, direction: Direction) -> Range {
        let own = self.own(table).map(|own| Box::new((own.clone(), own.hidden())));
        let mut range = self.snapshot.walk(table, bounds, direction, own);
        range.track(|limits| self.reads.walk(table.state(), limits));
        range
    }

    /// Whether a key or range that the transaction has written was changed by others after `since`.
    pub(super) fn has_written_changed(&self, since: SeqNum) -> Result<bool> {
        for TableWrites { table, own } in self.writes.tables.values() {
            let (version, mut changed) = (table.state().version.load(), Ok(false));
            own.keys.for_each(|(key, _)| {
                if !matches!(changed, Ok(true) | Err(_)) {
                    changed = key_changed(&version, key, since);
                }
            });
            if changed? {
                return Ok(true);
            }
            for range_tombstone in own.erased().all().iter() {
                if range_changed(&version, &range_tombstone.range, since)? {
                    return Ok(true);
                }
            }
        }
        for (table, key) in self.unseen.keys() {
            if key_changed(&table.state().version.load(), key, since)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The transaction's writes of a table that is still of this database.
    fn own(&self, table: &Table) -> Option<&OwnWrites> {
        let state = table.state_in(self.snapshot.db().core()).ok()?;
        self.writes.tables.get(&state.id).map(|writes| &writes.own)
    }

    /// Sets a savepoint: what is written from now on can be undone by [`Transaction::rollback_to`]. Memory keeps what
    /// later writes replace, until the savepoint is released.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.open_or_create_table("t", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.put(&table, "a", "1")?;
    /// let before = txn.savepoint();
    /// txn.put(&table, "a", "2")?;
    /// txn.delete_range(&table, ..)?;
    /// txn.rollback_to(&before)?;
    /// assert_eq!(txn.get(&table, "a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn savepoint(&mut self) -> Savepoint {
        let number = NEXT_SAVEPOINT.fetch_add(1, Ordering::Relaxed);
        self.savepoints.push((number, self.writes.fork(), self.unseen.len()));
        Savepoint(number)
    }

    /// Undoes all writes since a savepoint, which stays and can be rolled back to again; those that were set after it
    /// are gone. Ranges that are being walked go on with the writes as they were.
    ///
    /// # Errors
    /// `Invalid` when the savepoint is of another transaction, was released, or was set after one that was rolled back
    /// to: nothing is undone then.
    pub fn rollback_to(&mut self, savepoint: &Savepoint) -> Result<()> {
        let at = self.position_of(savepoint)?;
        self.savepoints.truncate(at + 1);
        let (_, writes, unseen) = &self.savepoints[at];
        self.writes = writes.fork();
        self.unseen.truncate(*unseen);
        Ok(())
    }

    /// Forgets a savepoint and those that were set after it; all writes stay.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`].
    pub fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.position_of(&savepoint)?;
        self.savepoints.truncate(at);
        Ok(())
    }

    fn position_of(&self, savepoint: &Savepoint) -> Result<usize> {
        let at = self.savepoints.iter().position(|(number, ..)| *number == savepoint.0);
        at.ok_or_else(|| {
            Error::invalid(
                "the transaction has no such savepoint: it was released, or an earlier one was rolled back to",
            )
        })
    }

    /// Sets the note of the commit, as [`Batch::note`] does.
    pub fn note(&mut self, note: impl AsRef<[u8]>) {
        self.note = Note { bytes: note.as_ref().to_vec(), stamp: None };
    }

    /// Has a clock stamp the commit, with the time in 8 bytes of its note, little-endian, from an offset on. The commit
    /// gets its time together with its place in the log: times have the order of the log and of the seqnums, and a
    /// commit that follows a [time that was shown](crate::Database::visible_time) has a later one. A later note forgets
    /// it; a commit whose note has no 8 bytes there is refused with `Invalid`.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use spinney::{CommitClock, Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.create_table("t", TableOptions::default())?;
    /// let clock = Arc::new(CommitClock::new(|| 1_700_000_000 << 32));
    /// let (shown, mut feed) = (db.visible_time(&clock, true), db.changes(db.log_end())?);
    /// let mut txn = db.begin();
    /// txn.put(&table, "key", "value")?;
    /// txn.note([0; 8]);
    /// txn.stamp(&clock, 0);
    /// txn.commit()?;
    /// let commit = feed.next().transpose()?.unwrap();
    /// let time = u64::from_le_bytes(commit.note().try_into().unwrap());
    /// assert!(time > shown.time && db.visible_time(&clock, true).time >= time);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stamp(&mut self, clock: &Arc<CommitClock>, at: usize) {
        self.note.stamp = Some((Arc::clone(clock), at));
    }

    /// Says that the commit makes room on the disk, as [`Batch::makes_room`] does.
    pub const fn makes_room(&mut self) -> &mut Self {
        self.makes_room = true;
        self
    }

    /// Whether there is something to commit: a write that was not rolled back, or a note.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.note.bytes.is_empty() || !self.writes.tables.is_empty() || self.unseen.len() > 0
    }

    /// Commits with the database's [durability](crate::Options::durability).
    ///
    /// # Errors
    /// `Conflict` when somebody else committed a change to a key written or erased here after this transaction began:
    /// nothing is applied, retry it. `Poisoned`, `Closed`, and `Io` when it is unknown whether the commit is durable.
    pub fn commit(self) -> Result<()> {
        let durability = self.snapshot.db().core().state.options.durability;
        self.commit_with(durability)
    }

    /// Commits with the given durability.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let (batch, tracked) = (self.batch(), self.reads.checked().take());
        let seen = Seen { seqnum: self.snapshot.seqnum(), reads: tracked.reads() };
        batch.commit_owned(self.snapshot.db(), durability, Some(seen))
    }

    /// What the transaction writes, with its note.
    pub(super) fn batch(&self) -> Batch {
        let mut batch = Batch::with_capacity(usize_of(self.writes.bytes));
        for writes in self.writes.tables.values() {
            let TableWrites { table, own } = writes;
            own.erased().all().iter().for_each(|range_tombstone| batch.erase(table, &range_tombstone.range));
            own.keys.for_each(|(key, own)| own.iter().for_each(|(kind, value)| batch.push(table, kind, key, value)));
        }
        self.unseen.add_to(&mut batch);
        batch.note(&self.note.bytes);
        if let Some((clock, at)) = &self.note.stamp {
            batch.stamp_next(clock, *at);
        }
        if self.makes_room {
            batch.makes_room();
        }
        batch
    }

    /// Drops the transaction and its writes.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Open {
    fn new(db: &DatabaseHandle) -> Self {
        db.core().commits.open_transactions.fetch_add(1, Ordering::Relaxed);
        Self { db: db.clone(), checked: false }
    }

    /// Has commits keep what they change for the check of the transaction's reads.
    pub(super) fn check_reads(&mut self) {
        if !self.checked {
            self.checked = true;
            self.db.core().commits.open_checked.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let commits = &self.db.core().commits;
        commits.open_transactions.fetch_sub(1, Ordering::Relaxed);
        if self.checked {
            commits.open_checked.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
