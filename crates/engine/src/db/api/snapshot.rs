//! A snapshot: a view of all tables as they were at one moment.

use std::sync::Arc;

use crate::base::key::check_key;
use crate::base::num::u64_of;
use crate::base::{Kind, Result, SeqNum, Value};
use crate::db::state::table::TableState;
use crate::store::BlocksRead;
use crate::table::estimate::{Estimate, estimate};
use crate::table::policy::extra_ns;
use crate::tree::multi_get::GetResults;
use crate::tree::range_tombstone::TombstoneLayers;
use crate::tree::{Costs, Found, Limits};

use super::handle::DatabaseHandle;
use super::key_range::{Bounds, KeyRange, all_limits, limits, prefix_range};
use super::own_writes::OwnWrites;
use super::range::Range;
use super::ranges::Ranges;
use super::table_handle::{Reader, Table};
use super::walk::Direction;

/// A view of all tables at one moment. Later changes are invisible to it; it blocks nobody. Dropping it lets the
/// versions that only it sees be reclaimed.
#[derive(Debug)]
pub struct Snapshot {
    db: DatabaseHandle,
    seqnum: SeqNum,
}

impl Snapshot {
    pub(crate) fn new(db: DatabaseHandle) -> Self {
        let core = db.core();
        // Nothing can be read of it in a forked process, where the latch may be held by a thread that is not there.
        let seqnum = if core.state.health.is_forked() { SeqNum::ZERO } else { core.state.snapshots.take() };
        Self { db, seqnum }
    }

    /// A snapshot that is registered already.
    pub(super) fn registered(db: DatabaseHandle, seqnum: SeqNum) -> Self {
        Self { db, seqnum }
    }

    pub(crate) fn db(&self) -> &DatabaseHandle {
        &self.db
    }

    /// The newest change that the snapshot sees.
    #[must_use]
    pub fn seqnum(&self) -> SeqNum {
        self.seqnum
    }

    /// The value of a key.
    ///
    /// # Errors
    /// `Invalid` for a key that cannot be stored or a table of another database; `Corruption`, `Io`, `Closed`. Of a key
    /// with merge operands also what the table's operator says, and `Invalid` when that is not registered.
    pub fn get(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let key = key.as_ref();
        let (reader, found) = self.look_up(table, key)?;
        match &found {
            Some(Found { kind: Kind::Merge | Kind::PutPointer, .. }) => self.rare_value(&reader, key, found),
            _ => reader.1.value(key, self.seqnum, found, &reader.0.callbacks.operator),
        }
    }

    /// Whether a key has a value. One that is [kept apart](crate::TableOptions::large_value_bytes) is not read for it.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn contains(&self, table: &Table, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        let (reader, found) = self.look_up(table, key)?;
        match &found {
            Some(Found { kind: Kind::Merge, .. }) => Ok(self.rare_value(&reader, key, found)?.is_some()),
            found => Ok(found.as_ref().is_some_and(|found| !found.kind.is_tombstone())),
        }
    }

    /// Whether several keys have values, in the order of the keys: faster than one [`Snapshot::contains`] after the
    /// other, as [`Snapshot::multi_get`] is.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_contains(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<Vec<bool>> {
        self.contain_many(table, &keys.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    pub(crate) fn contain_many(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<bool>> {
        let (reader, found) = self.look_many_up(table, keys)?;
        let has_value = |(key, found): (&&[u8], Option<Found>)| match found {
            Some(Found { kind: Kind::Merge, .. }) => Ok(self.rare_value(&reader, key, found)?.is_some()),
            found => Ok(found.is_some_and(|found| !found.kind.is_tombstone())),
        };
        keys.iter().zip(found).map(has_value).collect()
    }

    /// The values of several keys, in the order of the keys: faster than one [`Snapshot::get`] after the other, because
    /// the lookups wait for memory together, and what is not in memory is read together.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// (0..100_u32).for_each(|key| batch.put(&table, &key.to_be_bytes(), b"value"));
    /// db.write_with(&batch, Durability::Buffered)?;
    /// let keys = [7_u32, 1000, 3].map(u32::to_be_bytes);
    /// let values = db.snapshot().multi_get(&table, &keys)?;
    /// assert_eq!(values.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn multi_get(&self, table: &Table, keys: &[impl AsRef<[u8]>]) -> Result<Vec<Option<Value>>> {
        self.get_many(table, &keys.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    pub(crate) fn get_many(&self, table: &Table, keys: &[&[u8]]) -> Result<Vec<Option<Value>>> {
        let read = BlocksRead::so_far();
        let ((state, version), found) = self.look_many_up(table, keys)?;
        let values = version.values(keys, self.seqnum, found, &state.callbacks.operator);
        state.reads.got_from_files(read);
        values
    }

    /// The newest versions of several keys that the snapshot sees, and where they were found.
    fn look_many_up<'t>(&self, table: &'t Table, keys: &[&[u8]]) -> Result<(Reader<'t>, GetResults)> {
        let (state, version) = table.reader_in(self.db.core())?;
        keys.iter().try_for_each(|key| check_key(key))?;
        let (mut costs, read) = (Costs::default(), BlocksRead::so_far());
        let found = version.get_many(keys, self.seqnum, &mut costs)?;
        costs.blocks_read = read.since();
        self.pay(state, keys.first().copied().unwrap_or_default(), u64_of(keys.len()), &costs);
        Ok(((state, version), found))
    }

    /// The entries of a key range, ascending. An empty or inverted range has none.
    pub fn range(&self, table: &Table, range: impl KeyRange) -> Range {
        self.walk(table, range.bounds(), Direction::Forward, None)
    }

    /// The entries of a key range, descending.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Durability, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// (0..100_u8).for_each(|day| batch.put(&table, &[day], b"what happened"));
    /// db.write_with(&batch, Durability::Buffered)?;
    /// // The last three days before the 50th.
    /// let days = db.snapshot().range_rev(&table, ..&[50_u8][..]).take(3);
    /// let days = days.map(|entry| Ok(entry?.0[0])).collect::<spinney::Result<Vec<_>>>()?;
    /// assert_eq!(days, [49, 48, 47]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range_rev(&self, table: &Table, range: impl KeyRange) -> Range {
        self.walk(table, range.bounds(), Direction::Backward, None)
    }

    /// The entries of several key ranges, which ascend and do not overlap, one after the other: see [`Ranges`].
    pub fn ranges<R: KeyRange>(&self, table: &Table, ranges: impl IntoIterator<Item = R>) -> Ranges {
        self.walk_all(table, (all_limits(ranges), Direction::Forward), None)
    }

    /// As [`Snapshot::ranges`], from the last key to the first: the ranges descend.
    pub fn ranges_rev<R: KeyRange>(&self, table: &Table, ranges: impl IntoIterator<Item = R>) -> Ranges {
        self.walk_all(table, (all_limits(ranges), Direction::Backward), None)
    }

    /// The entries of several ranges, with a transaction's writes, and without what they hide.
    pub(crate) fn walk_all(
        &self,
        table: &Table,
        ranges: (Vec<Limits>, Direction),
        own: Option<Box<(OwnWrites, TombstoneLayers)>>,
    ) -> Ranges {
        let core = self.db.core();
        Ranges::new(table.reader_in(core), Arc::clone(&core.state.health), self.seqnum, ranges, own)
    }

    /// The entries whose keys begin with `prefix`, ascending: all when it is empty.
    ///
    /// ```
    /// # use spinney::{Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// let by_city = db.create_table("people by city", TableOptions::default())?;
    /// by_city.put("Oslo/4711", "")?;
    /// by_city.put("Rome/4712", "")?;
    /// let snapshot = db.snapshot();
    /// assert_eq!(snapshot.prefix(&by_city, "Oslo/").count(), 1);
    /// assert_eq!(snapshot.last(&by_city)?.unwrap().0, b"Rome/4712");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn prefix(&self, table: &Table, prefix: impl AsRef<[u8]>) -> Range {
        self.walk(table, prefix_range(prefix).bounds(), Direction::Forward, None)
    }

    /// About how many entries a range has and how many bytes they take, from the branches of the table's trees: no leaf
    /// is read, so it costs microseconds for any range. Of ranges of more than a thousand entries mostly within a
    /// factor of two; keys that were lately written many times, and deleted ones, may count more than once.
    ///
    /// ```
    /// # use spinney::{Batch, Database, Options, TableOptions};
    /// # let dir = tempfile::tempdir()?;
    /// # let db = Database::open(dir.path().join("db"), Options::default())?;
    /// # let table = db.create_table("t", TableOptions::default())?;
    /// let mut batch = Batch::new();
    /// (0..10_000_u32).for_each(|key| batch.put(&table, key.to_be_bytes(), "value"));
    /// db.write(&batch)?;
    /// let half = db.snapshot().estimate(&table, 5000_u32.to_be_bytes()..)?;
    /// assert!((2500..10_000).contains(&half.entries), "{half:?}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn estimate(&self, table: &Table, range: impl KeyRange) -> Result<Estimate> {
        let (_, version) = table.reader_in(self.db.core())?;
        limits(&range).map_or(Ok(Estimate::default()), |range| estimate(&version, &range, self.seqnum))
    }

    /// The entry with the smallest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn first(&self, table: &Table) -> Result<Option<(Vec<u8>, Value)>> {
        self.range(table, ..).next().transpose()
    }

    /// The entry with the largest key.
    ///
    /// # Errors
    /// As [`Range::advance`].
    pub fn last(&self, table: &Table) -> Result<Option<(Vec<u8>, Value)>> {
        self.range_rev(table, ..).next().transpose()
    }

    /// The entries of a key range, with a transaction's writes, and without what they hide.
    pub(crate) fn walk(
        &self,
        table: &Table,
        bounds: Bounds<'_>,
        direction: Direction,
        own: Option<Box<(OwnWrites, TombstoneLayers)>>,
    ) -> Range {
        let core = self.db.core();
        let reader = table.reader_in(core);
        Range::new(reader, Arc::clone(&core.state.health), self.seqnum, bounds, direction, own)
    }

    /// The newest version of a key that the snapshot sees, and where it was found.
    #[inline]
    fn look_up<'t>(&self, table: &'t Table, key: &[u8]) -> Result<(Reader<'t>, Option<Found>)> {
        let core = self.db.core();
        let (state, version) = table.reader_in(core)?;
        check_key(key)?;
        let (mut costs, read) = (Costs::default(), BlocksRead::so_far());
        let found = version.get_at_cost(key, self.seqnum, &mut costs)?;
        costs.blocks_read = read.since();
        state.reads.got_from_files(read);
        self.pay(state, key, 1, &costs);
        Ok(((state, version), found))
    }

    /// The value of a key that is kept apart, or folded from operands.
    #[cold]
    fn rare_value(&self, (state, version): &Reader<'_>, key: &[u8], found: Option<Found>) -> Result<Option<Value>> {
        let read = BlocksRead::so_far();
        let value = version.value(key, self.seqnum, found, &state.callbacks.operator);
        state.reads.got_from_files(read);
        value
    }

    /// Counts what lookups of so many keys cost, `key` among them, and lets them pay for the trees that they searched
    /// in vain.
    #[inline]
    fn pay(&self, state: &TableState, key: &[u8], keys: u64, costs: &Costs) {
        state.reads.got(keys, costs);
        if state.charges.pay(extra_ns(keys, costs), key) {
            self.db.core().state.wakers.wake_compaction();
        }
    }
}

/// Another view of the same moment.
impl Clone for Snapshot {
    fn clone(&self) -> Self {
        let core = self.db.core();
        if !core.state.health.is_forked() {
            core.state.snapshots.take_again(self.seqnum);
        }
        Self { db: self.db.clone(), seqnum: self.seqnum }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let core = self.db.core();
        if !core.state.health.is_forked() && core.state.snapshots.release(self.seqnum) {
            core.state.wakers.released_oldest();
        }
    }
}
