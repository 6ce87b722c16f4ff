//! A batch of blind writes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::ptr;
use std::sync::{Arc, Weak};

use smallvec::SmallVec;

use crate::base::num::usize_of;
use crate::base::{Error, Kind, Result, TableId};
use crate::db::commit::validation::Seen;
use crate::db::open::core::Core;
use crate::db::state::options::Durability;
use crate::db::state::table::TableState;
use crate::tree::Limits;
use crate::txn::batch::{Change, Changes, decode_record, put_record_header};
use crate::txn::commit_clock::CommitClock;

use super::handle::DatabaseHandle;
use super::key_range::{KeyRange, limits};
use super::stored_note::StoredNote;
use super::table_handle::Table;

/// Most batches are of no more tables; those that are allocate.
const TABLES: usize = 4;

/// Changes of any number of tables, applied together in their order: of two changes of one key, the later wins.
///
/// A change that cannot be stored (an empty or over-long key, a table of another database, a value or operand that the
/// table's merge operator refuses) is remembered, and [`Database::write`] refuses the whole batch with it. A batch can
/// be written again, also after changes were added to it or it was [cleared](Batch::clear); what it allocated is then
/// used again. It does not keep the database open.
///
/// ```
/// # use spinney::{Batch, Database, Durability, Options, TableOptions};
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("db"), Options::default())?;
/// # let table = db.create_table("t", TableOptions::default())?;
/// let mut batch = Batch::new();
/// batch.put(&table, b"key", b"value");
/// batch.delete(&table, b"other");
/// db.write_with(&batch, Durability::Sync)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`Database::write`]: crate::Database::write
#[derive(Debug, Default)]
pub struct Batch {
    changes: Changes,
    /// Of which database the tables are. The batch does not keep that open.
    database: Option<Weak<Core>>,
    tables: SmallVec<[Arc<TableState>; TABLES]>,
    refused: Option<Error>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty batch with memory for changes of some bytes.
    #[must_use]
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self { changes: Changes::with_capacity(bytes), ..Self::default() }
    }

    /// Sets a key's value. The merge operator of the table, if it has one, may refuse the value
    /// ([`MergeOperator::check_value`](crate::MergeOperator::check_value)).
    pub fn put(&mut self, table: &Table, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        let (key, value) = (key.as_ref(), value.as_ref());
        match table.state().check_value(value) {
            Ok(()) => self.push(table, Kind::Put, key, value),
            Err(error) => drop(self.refused.get_or_insert(error)),
        }
    }

    /// Removes a key, whether it exists or not.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) {
        self.push(table, Kind::Delete, key.as_ref(), b"");
    }

    /// Removes a key that was put at most once since it was last removed: cheaper than [`Batch::delete`], since the two
    /// go together wherever a flush or compaction meets them, and need not reach the last level. It is made for entries
    /// of indexes, whose keys say all.
    ///
    /// The promise is the caller's. A key that is ever removed so must not be put again before it is removed, and must
    /// not be removed by [`Batch::delete`] meanwhile; it may be merged into after it was put. Whether the key exists
    /// does not matter, nor how often it is removed in a row. When the promise is broken the key may show one of its
    /// older values again, now or later; other keys are not concerned.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let by_city = db.create_table("people by city", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// batch.put(&by_city, b"Oslo/4711", b"");
    /// db.write_with(&batch, Durability::Buffered)?;
    /// let mut moved = Batch::new();
    /// moved.single_delete(&by_city, b"Oslo/4711");
    /// moved.put(&by_city, b"Rome/4711", b"");
    /// db.write_with(&moved, Durability::Buffered)?;
    /// assert_eq!(db.snapshot().range(&by_city, ..).count(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn single_delete(&mut self, table: &Table, key: impl AsRef<[u8]>) {
        self.push(table, Kind::SingleDelete, key.as_ref(), b"");
    }

    /// Removes all keys of a range, whether there are any or not: at the cost of one change, however many they are.
    /// What they take on disk is given back as the table is flushed and compacted; files that hold nothing else go at
    /// once. An empty or inverted range has no keys.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let events = db.create_table("events", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// for day in ["2024-12-31", "2025-01-01", "2025-01-02"] {
    ///     batch.put(&events, day.as_bytes(), b"happened");
    /// }
    /// batch.delete_range(&events, ..&b"2025"[..]);
    /// db.write_with(&batch, Durability::Buffered)?;
    /// assert_eq!(db.snapshot().range(&events, ..).count(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delete_range(&mut self, table: &Table, range: impl KeyRange) {
        if let Some(range) = limits(&range) {
            self.erase(table, &range);
        }
    }

    pub(crate) fn erase(&mut self, table: &Table, range: &Limits) {
        self.push(table, Kind::RangeDelete, &range.low, range.high.as_deref().unwrap_or_default());
    }

    /// Merges an operand into a key's value, without reading it: the table's operator folds the two
    /// ([`TableOptions::merge`](crate::TableOptions::merge)).
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let options = TableOptions::default().merge("add");
    /// let counters = db.create_table("counters", options)?;
    /// for _ in 0..3 {
    ///     let mut batch = Batch::new();
    ///     batch.merge(&counters, b"visits", &1u64.to_le_bytes());
    ///     db.write_with(&batch, Durability::Buffered)?;
    /// }
    /// let visits = db.snapshot().get(&counters, b"visits")?;
    /// assert_eq!(visits.as_deref(), Some(3u64.to_le_bytes().as_slice()));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn merge(&mut self, table: &Table, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        match table.state().callbacks.operator.get().and_then(|operator| operator.check(operand)) {
            Ok(()) => self.push(table, Kind::Merge, key, operand),
            Err(error) => drop(self.refused.get_or_insert(error)),
        }
    }

    /// Sets the note of the commit: bytes for whoever reads the change feed ([`Commit::note`](crate::Commit::note)),
    /// which go to the redo log with the changes and to no table. They cost the log their length. A later note takes
    /// the place of an earlier one, and an empty one is none.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut feed = db.changes(db.log_end())?;
    /// let mut batch = Batch::new();
    /// batch.put(&table, "key", "value");
    /// batch.note("request 4711");
    /// db.write(&batch)?;
    /// assert_eq!(feed.next().transpose()?.unwrap().note(), b"request 4711");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A batch of a note and no changes is committed too: the log and the change feed have it, and no table.
    ///
    /// A commit whose note is longer than 64 MiB is refused with `Invalid`.
    pub fn note(&mut self, note: impl AsRef<[u8]>) {
        if let Err(error) = self.changes.set_note(note.as_ref()) {
            self.refused.get_or_insert(error);
        }
    }

    /// Has a clock hear of the time of the commit, which was given elsewhere: readers of the clock find the commit
    /// visible when they see its time. Times that are given so ascend in the order of the commits.
    pub fn stamp_given(&mut self, clock: &Arc<CommitClock>, time: u64) {
        self.changes.stamp_given(clock, time);
    }

    pub(super) fn stamp_next(&mut self, clock: &Arc<CommitClock>, at: usize) {
        if let Err(error) = self.changes.stamp_next(clock, at) {
            self.refused.get_or_insert(error);
        }
    }

    /// Says that the commit makes room on the disk by what the program does after it, as one that takes the name of a
    /// table out of a row before the table is dropped. On a full disk it is let through, as commits are that delete
    /// only; it should be no longer than a few KiB, since the room that is kept for such commits is small.
    pub const fn makes_room(&mut self) -> &mut Self {
        self.changes.set_makes_room();
        self
    }

    /// Lets the batch be larger than a quarter of [`Options::memory_bytes`](crate::Options::memory_bytes), for changes
    /// that cannot be split, such as those of a transaction that other machines have committed. The commit waits for
    /// memory like any other. Its changes then take memory beyond `memory_bytes` until they are flushed, which begins
    /// at once.
    pub const fn exceeds_memory(&mut self) -> &mut Self {
        self.changes.set_exceeds_memory();
        self
    }

    /// Adds a change such as a [record](crate::decode_record) or the change feed has it, of a table that may have
    /// another id here.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let copy = Database::open(dir.path().join("copy"), Options::default())?;
    /// let people = db.create_table("people", TableOptions::default())?;
    /// # copy.create_table("others", TableOptions::default())?;
    /// let there = copy.create_table("people", TableOptions::default())?;
    /// let mut feed = db.changes(db.log_end())?;
    /// people.put("ann", "42")?;
    /// for commit in &mut feed {
    ///     let (commit, mut batch) = (commit?, Batch::new());
    ///     commit.changes().iter().for_each(|change| batch.change(&there, change));
    ///     copy.write_with(&batch, Durability::Buffered)?;
    /// }
    /// assert_eq!(there.get("ann")?.as_deref(), Some(&b"42"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// What cannot be stored is remembered, as with other changes.
    pub fn change(&mut self, table: &Table, change: &Change<'_>) {
        match change.kind {
            Kind::Put => self.put(table, change.key, change.value),
            Kind::Merge => self.merge(table, change.key, change.value),
            Kind::Delete | Kind::SingleDelete | Kind::RangeDelete => {
                self.push(table, change.kind, change.key, change.value);
            }
            Kind::PutPointer => {
                let error = Error::invalid("a pointer to a value file is no change of a batch");
                self.refused.get_or_insert(error);
            }
        }
    }

    /// Adds the changes of a [record](crate::Prepared::record) in their order. `resolve` gives the table here for the
    /// id that it has where the record was made. Returns the record's note, which the batch does not take over.
    ///
    /// The bytes may come from anywhere: what is no record is refused, and adds nothing.
    ///
    /// # Errors
    /// `Corruption` for bytes that are no record; what `resolve` says. The batch is as it was then.
    pub fn append_record<'r>(
        &mut self,
        record: &'r [u8],
        mut resolve: impl FnMut(TableId) -> Result<Table>,
    ) -> Result<&'r [u8]> {
        let (changes, note) = decode_record(record)?;
        let mut tables: BTreeMap<TableId, Table> = BTreeMap::new();
        for change in &changes {
            if let Entry::Vacant(entry) = tables.entry(change.table) {
                entry.insert(resolve(change.table)?);
            }
        }
        for change in &changes {
            if let Some(table) = tables.get(&change.table) {
                self.change(table, change);
            }
        }
        Ok(note)
    }

    /// Has the redo log refer to a [record](crate::Prepared::record) that stands in `range` of the note of an earlier
    /// commit, for what the batch has in common with it: the changes and the note of the record are not written again.
    /// For programs that store records in notes ([`Database::write_note`](crate::Database::write_note)) before they
    /// commit them. To be called when the batch is complete: what comes later forgets it.
    ///
    /// It changes nothing but the size of the log. The engine compares the bytes, and writes what is not the same; it
    /// writes all when the note is in a segment of the log that is full.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let table = db.create_table("t", TableOptions::default())?;
    /// let mut txn = db.begin();
    /// txn.put(&table, "key", vec![7; 1000])?;
    /// let prepared = txn.prepare()?;
    /// // What is agreed on is in the log before it is visible.
    /// let mut note = Batch::new();
    /// note.note(prepared.record());
    /// let stored = db.write_note(&note, Durability::Buffered)?;
    /// assert_eq!(table.get("key")?, None);
    /// // It is committed with few bytes.
    /// let mut batch = Batch::new();
    /// batch.append_record(prepared.record(), |_| Ok(table.clone()))?;
    /// batch.repeat(&stored, 0..prepared.record().len());
    /// db.write_with(&batch, Durability::Sync)?;
    /// # drop(prepared);
    /// assert!(db.log_end().0 - stored.position().0 < 1200);
    /// let committed = db.changes(stored.position())?.last().transpose()?.unwrap();
    /// assert_eq!(committed.changes()[0].value, [7; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A range beyond the note, and a note of another database, are remembered, and the batch is refused with
    /// `Invalid`.
    pub fn repeat(&mut self, note: &StoredNote, range: Range<usize>) {
        let Some(record) = note.bytes.get(range.clone()) else {
            let message = format!("bytes {range:?} of a note of {} bytes", note.bytes.len());
            self.refused.get_or_insert(Error::invalid(message));
            return;
        };
        let database = self.database.get_or_insert_with(|| note.database.clone());
        if !ptr::eq(database.as_ptr(), note.database.as_ptr()) {
            let message = "the note and the batch's tables are not of one open database";
            self.refused.get_or_insert(Error::invalid(message));
        }
        self.changes.repeat(note.position, note.offset + range.start, record);
    }

    pub(crate) fn push(&mut self, table: &Table, kind: Kind, key: &[u8], value: &[u8]) {
        if !self.tables.iter().rev().any(|known| Arc::ptr_eq(known, table.state())) {
            self.add_table(table);
        }
        let change = Change { table: table.state().id, kind, key, value };
        if let Err(error) = self.changes.push(change, table.options().logged) {
            self.refused.get_or_insert(error);
        }
    }

    fn add_table(&mut self, table: &Table) {
        let core = table.core();
        let database = self.database.get_or_insert_with(|| Arc::downgrade(core));
        if !ptr::eq(database.as_ptr(), Arc::as_ptr(core)) {
            let message = format!("table '{}' and the batch's other tables are not of one open database", table.name());
            self.refused.get_or_insert(Error::invalid(message));
        }
        self.tables.push(Arc::clone(table.state()));
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize_of(self.changes.count())
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.count() == 0
    }

    /// Bytes of the changes as they are encoded; so many go to the redo log when all tables are logged.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.changes.bytes()
    }

    /// Removes all changes, so that the batch can be filled again.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.database = None;
        self.tables.clear();
        self.refused = None;
    }

    /// Commits the changes, which stay; what is large is copied.
    pub(crate) fn commit(&self, db: &DatabaseHandle, durability: Durability) -> Result<()> {
        self.check(db)?;
        db.core().commits.commit(Cow::Borrowed(&self.changes), &self.tables, durability, None).map(drop)
    }

    /// As [`Self::commit`]; tells where the note stands.
    pub(crate) fn commit_note(&self, db: &DatabaseHandle, durability: Durability) -> Result<StoredNote> {
        self.check(db)?;
        if !self.changes.has_note() || self.changes.base().is_some() {
            return Err(Error::invalid("a batch without a note, or one that repeats another note, stores none"));
        }
        let committed = db.core().commits.commit(Cow::Borrowed(&self.changes), &self.tables, durability, None)?;
        let before = committed.expect("a batch with a note is committed");
        let mut header = Vec::new();
        put_record_header(&mut header, before.next_seqnum, self.changes.logged_count());
        Ok(StoredNote {
            database: Arc::downgrade(db.core()),
            position: before.lsn,
            offset: header.len() + self.changes.logged().len() - self.changes.note().len(),
            bytes: self.changes.note().to_vec(),
        })
    }

    /// Commits; what a transaction has written only if what it depends on has not changed.
    pub(crate) fn commit_owned(
        self,
        db: &DatabaseHandle,
        durability: Durability,
        seen: Option<Seen<'_>>,
    ) -> Result<()> {
        self.check(db)?;
        db.core().commits.commit(Cow::Owned(self.changes), &self.tables, durability, seen).map(drop)
    }

    /// The changes and the tables that they are of, when they can be committed to a database.
    pub(super) fn checked(&self, db: &DatabaseHandle) -> Result<(&Changes, &[Arc<TableState>])> {
        self.check(db)?;
        Ok((&self.changes, &self.tables))
    }

    /// Checks that it can be committed to a database.
    fn check(&self, db: &DatabaseHandle) -> Result<()> {
        if let Some(error) = &self.refused {
            return Err(Error::invalid(error.to_string()));
        }
        let is_of = |database: &Weak<Core>| ptr::eq(database.as_ptr(), Arc::as_ptr(db.core()));
        if self.database.as_ref().is_some_and(|database| !is_of(database)) {
            let names: Vec<&str> = self.tables.iter().map(|table| &*table.name).collect();
            return Err(Error::invalid(format!("table '{}' belongs to another open database", names.join("', '"))));
        }
        self.tables.iter().try_for_each(|table| table.check())
    }
}
