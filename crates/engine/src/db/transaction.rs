//! A transaction: reads of one snapshot and a set of writes, committed together or not at all.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::Ordering;

use crate::base::key::{check_key, check_value};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Kind, Result, TableId, Value};

use super::batch::Batch;
use super::database::Database;
use super::key_writes::KeyWrites;
use super::options::Durability;
use super::range::{Bounds, Range, Write, bounds, is_empty};
use super::snapshot::Snapshot;
use super::table::Table;

/// Memory that a key takes in the set beside its bytes and its changes.
const KEY_OVERHEAD_BYTES: u64 = 64;

/// A transaction over any number of tables under snapshot isolation: it reads the database as it was when it began, with its own
/// writes on top, and commits only if nobody else has committed a change to a key that it wrote (first committer wins).
/// Dropping it rolls it back.
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
    snapshot: Snapshot,
    _open: Open,
    writes: BTreeMap<TableId, TableWrites>,
    bytes: u64,
}

/// Counts a transaction as open.
#[derive(Debug)]
struct Open(Database);

#[derive(Debug)]
struct TableWrites {
    table: Table,
    keys: BTreeMap<Vec<u8>, KeyWrites>,
}

impl Transaction {
    pub(crate) fn new(db: &Database) -> Self {
        // Before it takes its snapshot, so that as few commits as possible are not noted that it does not see.
        let open = Open::new(db);
        Self { snapshot: db.snapshot(), _open: open, writes: BTreeMap::new(), bytes: 0 }
    }

    /// Sets a key's value.
    ///
    /// # Errors
    /// `Invalid` for a key or value of a length that cannot be stored, or a table of another database; `Full` when the transaction
    /// becomes larger than memory allows: it stays as it was then.
    pub fn put(&mut self, table: &Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, Kind::Put, key, value)
    }

    /// Removes a key, whether it exists or not.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.write(table, Kind::Delete, key, b"")
    }

    /// Removes a key that was put at most once since it was last removed, as [`Batch::single_delete`] does. Of what the transaction itself
    /// did to the key only the sum is committed: a put and its removal are a removal, and a removal with a put after it stays both.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn single_delete(&mut self, table: &Table, key: &[u8]) -> Result<()> {
        self.write(table, Kind::SingleDelete, key, b"")
    }

    /// Merges an operand into a key's value, as [`Batch::merge`] does. Reads of the transaction see it. The value is not read, but like
    /// a put the commit conflicts with what others committed to the key meanwhile: counters that many change take a [`Batch`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; `Invalid` also when the table has no merge operator, or one that is not registered or refuses the operand.
    pub fn merge(&mut self, table: &Table, key: &[u8], operand: &[u8]) -> Result<()> {
        table.state().operator.get()?.check(operand)?;
        self.write(table, Kind::Merge, key, operand)
    }

    fn write(&mut self, table: &Table, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let core = self.snapshot.db().core();
        core.health.check_writable()?;
        check_key(key)?;
        check_value(value)?;
        let state = table.state_in(core)?;
        let own = self.writes.get(&state.id).and_then(|writes| writes.keys.get(key));
        let replaced = match (own, kind) {
            (None, _) => 0,
            (Some(_), Kind::Merge) => u64_of(key.len()) + KEY_OVERHEAD_BYTES,
            (Some(own), _) => u64_of(key.len()) + KEY_OVERHEAD_BYTES + own.bytes(),
        };
        let bytes = self.bytes - replaced + u64_of(key.len()) + KEY_OVERHEAD_BYTES + KeyWrites::bytes_of(value);
        let most = core.memory.batch_bytes_max();
        if bytes > most {
            let message = format!(
                "the transaction is larger than memory_bytes allows (a quarter of it, {most} bytes): commit in parts"
            );
            return Err(Error::new(ErrorKind::Full, message));
        }
        self.bytes = bytes;
        let writes = self.writes.entry(state.id);
        let writes = writes.or_insert_with(|| TableWrites { table: table.clone(), keys: BTreeMap::new() });
        match writes.keys.get_mut(key) {
            Some(own) => own.push(kind, value),
            None => drop(writes.keys.insert(key.to_vec(), KeyWrites::new(kind, value))),
        }
        Ok(())
    }

    /// The value of a key, the transaction's own writes included.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get(&self, table: &Table, key: &[u8]) -> Result<Option<Value>> {
        check_key(key)?;
        let own = self.own(table).and_then(|writes| writes.keys.get(key));
        match own {
            Some(own) => own.over(key, || self.snapshot.get(table, key), &table.state().operator),
            None => self.snapshot.get(table, key),
        }
    }

    /// Whether a key has a value.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn contains(&self, table: &Table, key: &[u8]) -> Result<bool> {
        check_key(key)?;
        match self.own(table).and_then(|writes| writes.keys.get(key)) {
            Some(_) => Ok(self.get(table, key)?.is_some()),
            None => self.snapshot.contains(table, key),
        }
    }

    /// The entries of a key range, ascending, with the writes made so far.
    pub fn range<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        let bounds = bounds(&range);
        self.snapshot.range(table, range).with_writes(self.writes_in(table, &bounds))
    }

    /// The entries of a key range, descending, with the writes made so far.
    pub fn range_rev<'a>(&self, table: &Table, range: impl RangeBounds<&'a [u8]>) -> Range {
        let bounds = bounds(&range);
        self.snapshot.range_rev(table, range).with_writes(self.writes_in(table, &bounds))
    }

    /// The transaction's writes of a table that is still of this database.
    fn own(&self, table: &Table) -> Option<&TableWrites> {
        let state = table.state_in(self.snapshot.db().core()).ok()?;
        self.writes.get(&state.id)
    }

    fn writes_in(&self, table: &Table, bounds: &Bounds) -> Vec<Write> {
        if is_empty(bounds) || matches!(bounds, (Bound::Excluded(start), Bound::Excluded(end)) if start == end) {
            return Vec::new();
        }
        let Some(own) = self.own(table) else { return Vec::new() };
        own.keys.range(bounds.clone()).map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Commits with the database's default durability.
    ///
    /// # Errors
    /// `Conflict` when somebody else committed a change to a key written here after this transaction began: nothing is applied,
    /// retry it. `Poisoned`, `Closed`, and `Io` when it is unknown whether the commit is durable.
    pub fn commit(self) -> Result<()> {
        let durability = self.snapshot.db().core().options.durability;
        self.commit_with(durability)
    }

    /// Commits with the given durability.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        let mut batch = Batch::new();
        for writes in self.writes.values() {
            for (key, own) in &writes.keys {
                own.iter().for_each(|(kind, value)| batch.push(&writes.table, kind, key, value));
            }
        }
        batch.commit(self.snapshot.db(), durability, Some(self.snapshot.seqnum()))
    }

    /// Drops the transaction and its writes.
    pub fn rollback(self) {
        drop(self);
    }
}

impl Open {
    fn new(db: &Database) -> Self {
        db.core().open_transactions.fetch_add(1, Ordering::Relaxed);
        Self(db.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.core().open_transactions.fetch_sub(1, Ordering::Relaxed);
    }
}
