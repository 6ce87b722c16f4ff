//! What a transaction has written of a table, and how a range walks over it.

use std::cmp::Ordering;
use std::ops::Bound;
use std::sync::Arc;

use crate::base::SeqNum;
use crate::base::shared_map::{Counts, Item, SharedMap, Walk};
use crate::base::sync::Mutex;
use crate::tree::Limits;
use crate::tree::cursor::after;
use crate::tree::range_tombstone::{RangeTombstones, TombstoneLayers};

use super::key_writes::KeyWrites;

/// Above the seqnums of all entries: a range tombstone with it hides whatever a reader could see.
const ABOVE_ALL: SeqNum = SeqNum(SeqNum::MAX.0 + 1);
/// After so many entries that the transaction has removed one after the other, a walk keeps in mind that there is
/// nothing between them.
const GAP_MIN: u32 = 16;
/// After so many removals one after the other under which the snapshot shows nothing, a leap is cheaper than a further
/// step.
const STEPS_MAX: u32 = 8;

/// The writes of a table. A clone shares them, and is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnWrites {
    /// The ranges that were deleted, before what is in `keys` was written.
    erased: TombstoneLayers,
    pub(super) keys: SharedMap<KeyWrites>,
    /// The ranges in which nothing is seen of the snapshot: those that were deleted, and those in which walks have
    /// found that every key was. What a transaction has hidden it does not show again.
    hidden: Arc<Mutex<TombstoneLayers>>,
}

/// A range tombstone of a range that hides all from the transaction.
fn range_tombstone(low: &[u8], high: Option<&[u8]>) -> RangeTombstones {
    RangeTombstones::newest_of([(low, high, ABOVE_ALL)].into_iter())
}

impl OwnWrites {
    /// A copy that shares its keys and values with this one. Later writes to either do not show in the other, and what
    /// walks find hidden in one they do not hide in the other.
    pub(super) fn fork(&self) -> Self {
        Self { hidden: Arc::new(Mutex::new(self.hidden())), ..self.clone() }
    }

    /// The ranges that were deleted.
    pub(super) fn erased(&self) -> &TombstoneLayers {
        &self.erased
    }

    /// The ranges in which nothing is seen of the snapshot.
    pub(super) fn hidden(&self) -> TombstoneLayers {
        self.hidden.lock().clone()
    }

    /// Deletes a range. What was written of its keys is to be removed.
    pub(super) fn erase(&mut self, range: &Limits) {
        let (low, high) = (&range.low, range.high.as_deref());
        self.erased = self.erased.with_joined(range_tombstone(low, high));
        hide(&self.hidden, low, high);
    }

    /// Whether `key` was deleted with a range, if it was not written since.
    pub(super) fn has_erased(&self, key: &[u8]) -> bool {
        !self.erased.is_empty() && self.erased.cover(key)
    }

    /// Whether the value of `key` follows from what the snapshot shows of it.
    pub(super) fn shows_below(&self, key: &[u8]) -> bool {
        self.keys.get(key).is_none_or(KeyWrites::shows_below) && !self.has_erased(key)
    }

    /// A walk over the writes in a range.
    pub(super) fn walk(&self, limits: Limits, backward: bool) -> OwnWalk {
        let from = match &limits.high {
            Some(high) if backward => Bound::Excluded(&**high),
            None if backward => Bound::Unbounded,
            _ => Bound::Included(&*limits.low),
        };
        let keys = self.keys.walk(from, backward);
        OwnWalk { keys, backward, limits, hidden: Arc::clone(&self.hidden), steps: 0, removed: 0, since: Vec::new() }
    }
}

fn hide(hidden: &Mutex<TombstoneLayers>, low: &[u8], high: Option<&[u8]>) {
    let mut hidden = hidden.lock();
    *hidden = hidden.with_joined(range_tombstone(low, high));
}

impl Counts for KeyWrites {
    /// Whether a walk may show the key.
    fn counts(&self) -> bool {
        !self.removes()
    }
}

/// A walk over the writes of a transaction in a range, as they were when it began, beside one over what the snapshot
/// shows.
#[derive(Debug)]
pub(crate) struct OwnWalk {
    keys: Walk<KeyWrites>,
    backward: bool,
    limits: Limits,
    hidden: Arc<Mutex<TombstoneLayers>>,
    /// Removals since the last write of another kind under which the snapshot showed nothing.
    steps: u32,
    /// Entries of the snapshot that were removed since the last entry was shown, and the key of the first of them.
    removed: u32,
    since: Vec<u8>,
}

impl OwnWalk {
    /// The next write that comes before the snapshot's entry `at`, or is of its key; at its end before all. A removal
    /// under which the snapshot shows nothing is no such write.
    #[inline]
    pub(super) fn before(&mut self, at: Option<&[u8]>) -> Option<(Arc<Item<KeyWrites>>, Ordering)> {
        loop {
            let item = self.keys.item().filter(|item| self.limits.contain(&item.0))?;
            let order = match at {
                Some(at) if self.backward => at.cmp(&item.0),
                Some(at) => (*item.0).cmp(at),
                None => Ordering::Less,
            };
            if order == Ordering::Greater {
                return None;
            }
            if order == Ordering::Equal || item.1.counts() {
                self.steps = 0;
                return Some((Arc::clone(item), order));
            }
            self.steps += 1;
            if self.steps < STEPS_MAX { self.keys.next() } else { self.keys.leap(at) }
        }
    }

    /// Goes on behind the write that [`Self::before`] told of.
    pub(super) fn pass(&mut self) {
        self.keys.next();
    }

    /// The snapshot's entry of `key` is not shown: a write removes it.
    pub(super) fn removes(&mut self, key: &[u8]) {
        if self.removed == 0 {
            self.since.clear();
            self.since.extend_from_slice(key);
        }
        self.removed += 1;
    }

    /// The range shows `key`, or ends. After many removed entries later walks need not look at what is before it.
    #[inline]
    pub(super) fn shows(&mut self, key: Option<&[u8]>) {
        if std::mem::take(&mut self.removed) >= GAP_MIN {
            self.keep_gap(key);
        }
    }

    #[cold]
    fn keep_gap(&self, key: Option<&[u8]>) {
        let behind = |key: &[u8]| after(key.to_vec());
        if self.backward {
            let low = key.map_or_else(|| self.limits.low.clone(), behind);
            hide(&self.hidden, &low, Some(&behind(&self.since)));
        } else {
            hide(&self.hidden, &self.since, key.or(self.limits.high.as_deref()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::steps::steps;
    use crate::db::{Batch, Database, Durability, Options, Range, Table, Transaction};
    use crate::env::sim::SimEnv;
    use crate::table::{Layout, TableOptions};

    fn open(sim: &SimEnv) -> (Database, Table) {
        let options = Options { memory_bytes: 64 << 20, ..Options::default() };
        let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
        let table = db.create_table("t", TableOptions { layout: Layout::Lsm, ..TableOptions::default() }).unwrap();
        (db, table)
    }

    fn key(number: u32) -> Vec<u8> {
        number.to_be_bytes().to_vec()
    }

    fn fill(db: &Database, table: &Table, count: u32) {
        let mut batch = Batch::new();
        (0..count).for_each(|number| batch.put(table, key(number), b"row"));
        db.write_with(&batch, Durability::Buffered).unwrap();
    }

    fn begin(txn: &Transaction, table: &Table, backward: bool) -> Range {
        if backward { txn.range_rev(table, ..) } else { txn.range(table, ..) }
    }

    /// Each range copied all writes behind its start, and went over all that were removed: 20,000 rows took 41 s.
    #[test]
    fn the_rows_of_a_queue_are_popped_in_steps_that_do_not_grow() {
        for (flushed, backward, open_meanwhile) in
            [(false, false, false), (false, true, false), (true, false, true), (true, true, true)]
        {
            let popped = |count: u32| {
                let (db, table) = open(&SimEnv::new(1));
                fill(&db, &table, count + 10);
                if flushed {
                    table.flush().unwrap();
                }
                let (mut txn, before) = (db.begin(), steps());
                for number in 0..count {
                    let mut range = begin(&txn, &table, backward);
                    let (first, _) = range.next().unwrap().unwrap();
                    assert_eq!(first, key(if backward { count + 9 - number } else { number }));
                    if !open_meanwhile {
                        drop(range);
                    }
                    txn.delete(&table, &first).unwrap();
                }
                let steps = steps() - before;
                assert_eq!(begin(&txn, &table, backward).count(), 10);
                txn.commit().unwrap();
                assert_eq!(db.snapshot().range(&table, ..).count(), 10);
                steps
            };
            let (few, many) = (popped(500), popped(4000));
            assert!(many <= 200 * 4000, "{many} steps");
            assert!(many <= 12 * few, "{few} steps for 500 rows, {many} for 4000");
        }
    }

    #[test]
    fn the_first_entry_of_a_range_does_not_cost_all_writes_behind_it() {
        let (db, table) = open(&SimEnv::new(1));
        let mut txn = db.begin();
        (0..20_000).for_each(|number| txn.put(&table, key(number), b"own").unwrap());
        for start in (0..20_000).step_by(999) {
            let (from, before) = (key(start), steps());
            assert_eq!(txn.range(&table, &*from..).next().unwrap().unwrap().0, from);
            assert_eq!(txn.range_rev(&table, ..=&*from).next().unwrap().unwrap().0, from);
            assert!(steps() - before <= 30);
        }
        assert_eq!(txn.range(&table, ..).count(), 20_000);
    }

    #[test]
    fn many_ranges_deleted_in_a_transaction_cost_n_log_n() {
        let (db, table) = open(&SimEnv::new(1));
        fill(&db, &table, 20_000);
        let deleted = |count: u32| {
            let (mut txn, before) = (db.begin(), steps());
            for number in (0..count).map(|number| 2 * (number * 7919 % count)) {
                txn.delete_range(&table, &*key(number)..&*key(number + 1)).unwrap();
                assert_eq!(txn.range(&table, &*key(number)..).next().unwrap().unwrap().0, key(number + 1));
            }
            assert_eq!(txn.range(&table, ..).count(), 20_000 - count as usize);
            steps() - before
        };
        let (few, many) = (deleted(1000), deleted(8000));
        assert!(many <= 20 * few, "{few} steps for 1000 ranges, {many} for 8000");
    }

    #[test]
    fn a_range_shows_the_writes_made_before_it_and_what_walks_have_passed_stays_true() {
        let (db, table) = open(&SimEnv::new(1));
        fill(&db, &table, 100);
        let mut txn = db.begin();
        let keys = |txn: &Transaction| txn.range(&table, ..).map(|entry| entry.unwrap().0).collect::<Vec<_>>();
        (0..50).for_each(|number| txn.delete(&table, key(number)).unwrap());
        let (opened, opened_back) = (txn.range(&table, ..), txn.range_rev(&table, ..));
        assert_eq!(keys(&txn), (50..100).map(key).collect::<Vec<_>>());
        // In the gap that the walk has left behind.
        txn.put(&table, key(20), b"again").unwrap();
        txn.delete_range(&table, &*key(60)..&*key(90)).unwrap();
        txn.put(&table, key(70), b"again").unwrap();
        let now = [20].into_iter().chain(50..60).chain([70]).chain(90..100).map(key).collect::<Vec<_>>();
        assert_eq!(keys(&txn), now);
        assert_eq!(opened.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), (50..100).map(key).collect::<Vec<_>>());
        assert_eq!(opened_back.count(), 50);
        let mut back = txn.range_rev(&table, ..).map(|entry| entry.unwrap().0).collect::<Vec<_>>();
        back.reverse();
        assert_eq!(back, now);
        assert_eq!(&*txn.get(&table, key(20)).unwrap().unwrap(), b"again");
        txn.commit().unwrap();
        assert_eq!(db.snapshot().range(&table, ..).map(|entry| entry.unwrap().0).collect::<Vec<_>>(), now);
    }
}
