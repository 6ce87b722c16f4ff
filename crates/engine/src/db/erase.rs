//! The range tombstone of a range: how it comes into what readers see, and how it goes when it is applied.
//!
//! ```text
//! commit    before the commit latch: the ranges of a batch are sorted
//!           under it: they enter the version with their seqnums, and no reader sees them before they are published
//!           after it: neighbouring sets are merged, each range tombstone a logarithmic number of times
//! flush     into the manifest, with the memtable that was active then; the flush applies it to what it writes
//! then      runs that it covers as a whole are dropped unread, the others it is applied to as they are compacted
//! retired   when no tree has anything left that it hides, and every snapshot sees it
//! ```

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::num::u64_of;
use crate::base::{FileId, Reached, Result, SeqNum};
use crate::table::LevelId;
use crate::table::Trees;
use crate::table::edit::Edit;
use crate::table::files::FileKind;
use crate::tree::range_tombstone::{RangeEnds, RangeTombstones};
use crate::txn::batch::Changes;

use super::core::{Core, Ledger, TableState};
use super::write::{Finder, Writes};

/// With so many sets of range tombstones in memory a commit waits until they are fewer: each reader looks in all of
/// them.
const SETS_MAX: usize = 48;
/// Memory that a range tombstone takes beside the keys at its ends.
const RANGE_TOMBSTONE_OVERHEAD_BYTES: usize = 64;
/// From so many range tombstones on, the manifest tells which are not needed any more only when a quarter of them is
/// not: it tells all that are left.
const TOLD_WITH_A_QUARTER: usize = 1000;

/// The range tombstones among the changes of a table in a commit.
pub(super) struct Erased {
    /// As if the commit's first change had seqnum zero, until they are shown.
    set: Cell<RangeTombstones>,
    /// What they take of memory.
    pub(super) bytes: u64,
}

impl Erased {
    /// The range tombstones of each of the tables; none at all when there are none.
    pub(super) fn of(changes: &Changes, tables: &[Arc<TableState>]) -> Vec<Self> {
        if !changes.has_range_deletes() {
            return Vec::new();
        }
        let (mut ranges, mut finder) = (vec![Vec::new(); tables.len()], Finder::new(tables));
        for (number, change) in (0..).zip(changes.iter()) {
            if let Some((low, high)) = change.ends() {
                ranges[finder.find(change.table)].push((low, high, SeqNum(number)));
            }
        }
        ranges.into_iter().map(Self::of_ranges).collect()
    }

    fn of_ranges(ranges: Vec<RangeEnds<'_>>) -> Self {
        let bytes = ranges.iter().map(|(low, high, _)| bytes_of(low, *high)).sum();
        // Of a commit a snapshot sees all or nothing.
        Self { set: Cell::new(RangeTombstones::newest_of(ranges.into_iter())), bytes }
    }
}

/// Bytes of memory that a range tombstone is counted as.
pub(super) fn bytes_of(low: &[u8], high: Option<&[u8]>) -> u64 {
    u64_of(low.len() + high.map_or(0, <[u8]>::len) + RANGE_TOMBSTONE_OVERHEAD_BYTES)
}

impl Core {
    /// Shows readers the range tombstones of a commit whose first change has seqnum `first`. The commit latch says that
    /// no other commit does.
    pub(super) fn show_erasures(&self, writes: Writes<'_>, first: SeqNum) {
        for (table, erased) in writes.tables.iter().zip(writes.erased) {
            table.erase(erased.set.take().later(first.0));
        }
    }

    /// Makes few sets of a table's range tombstones, where commits left many.
    pub(super) fn join_erasures(&self, table: &TableState) {
        let sets = table.version.load().range_tombstones.in_memory();
        let joining = if sets > SETS_MAX { Some(table.joining.lock()) } else { table.joining.try_lock() };
        // Another commit does it.
        let Some(_joining) = joining else { return };
        while let Some(pair) = table.version.load().range_tombstones_to_join() {
            let (mut snapshots, published) = self.snapshots.live();
            snapshots.push(published);
            let as_one = Arc::new(pair[0].and_told(&pair[1], &snapshots));
            table.version.rcu(|version| match version.range_tombstones.joined(&pair, &as_one) {
                Some(range_tombstones) => Arc::new(version.with_range_tombstones(range_tombstones)),
                None => Arc::clone(version),
            });
        }
    }

    /// Drops the runs of which nobody sees anything, without reading them; says whether there were any. The caller
    /// holds the table's compaction latch.
    pub(super) fn drop_erased(&self, table: &TableState) -> Result<bool> {
        if table.version.load().trees.range_tombstones.is_empty() {
            return Ok(false);
        }
        let mut ledger = self.ledger.lock();
        if table.check().is_err() {
            return Ok(false);
        }
        let removed = table.version.load().trees.range_deleted_runs(self.oldest_snapshot());
        if !removed.is_empty() {
            let edit = Edit::Compact { table: table.id, removed: removed.clone(), added: Vec::new() };
            self.or_poison(self.record(&mut ledger, &edit))?;
        }
        self.or_poison(self.show_replaced(ledger, table, &removed, LevelId::L0, &[]))?;
        removed.iter().for_each(|id: &FileId| self.remove(&FileKind::Run.path(&self.dir, *id)));
        Ok(!removed.is_empty())
    }

    /// Leaves out the range tombstones that nobody needs any more beside `trees`, which are about to be shown.
    pub(super) fn retire(&self, ledger: &mut Ledger, table: &TableState, trees: &mut Trees) -> Result<()> {
        if trees.range_tombstones.is_empty() {
            return Ok(());
        }
        let (mut snapshots, published) = self.snapshots.live();
        snapshots.push(published);
        snapshots.sort_unstable();
        // A range tombstone of what has expired covers memtables too.
        let needed = match &table.expiry {
            Some(_) => RangeTombstones::clone(&trees.range_tombstones),
            None => trees.range_tombstones.needed(&snapshots, &trees.extents()),
        };
        if snapshots.first().is_some_and(|oldest| *oldest < needed.newest()) {
            self.erasures_wait.store(true, Ordering::Relaxed);
        }
        let (left, all) = (needed.len(), trees.range_tombstones.len());
        if needed == *trees.range_tombstones || all > TOLD_WITH_A_QUARTER && left * 4 > all * 3 {
            return Ok(());
        }
        let range_tombstones = Arc::new(needed);
        match self
            .record(ledger, &Edit::RangeDelete { table: table.id, range_tombstones: Arc::clone(&range_tombstones) })
        {
            // They go the next time.
            Err(error) if error.is_unchanged() => return Ok(()),
            recorded => recorded?,
        }
        trees.range_tombstones = range_tombstones;
        Reached::RangeTombstoneRetired.mark();
        Ok(())
    }

    /// Nobody sees any more what the oldest snapshot saw: a range tombstone may have waited for that.
    pub(crate) fn released_oldest(&self) {
        if self.erasures_wait.load(Ordering::Relaxed) && self.erasures_wait.swap(false, Ordering::Relaxed) {
            self.wake_compact();
        }
    }

    /// What every snapshot sees, now or to come.
    pub(super) fn oldest_snapshot(&self) -> SeqNum {
        let (snapshots, published) = self.snapshots.live();
        snapshots.first().map_or(published, |oldest| published.min(*oldest))
    }
}

impl TableState {
    /// Shows readers more range tombstones, which nobody sees before they are published.
    pub(crate) fn erase(&self, range_tombstones: RangeTombstones) {
        if !range_tombstones.is_empty() {
            let range_tombstones = Arc::new(range_tombstones);
            self.version.rcu(|version| version.with_range_tombstones(version.range_tombstones.with(&range_tombstones)));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::steps::steps;
    use crate::db::{Batch, Database, Durability, Options, Table};
    use crate::env::sim::{CrashProfile, SimEnv};
    use crate::table::{Layout, TableOptions};

    fn open(sim: &SimEnv) -> Database {
        let options = Options { memory_bytes: 64 << 20, ..Options::default() };
        Database::builder("/db").env(sim.env()).options(options).open().unwrap()
    }

    fn key(number: u32) -> [u8; 4] {
        number.to_be_bytes()
    }

    /// The ranges of every second key, in no order.
    fn ranges(count: u32) -> impl Iterator<Item = ([u8; 4], [u8; 4])> {
        (0..count).map(move |number| 2 * (number * 7919 % count)).map(|number| (key(number), key(number + 1)))
    }

    fn steps_of(work: impl FnOnce()) -> u64 {
        let before = steps();
        work();
        steps() - before
    }

    fn count(db: &Database, table: &Table) -> usize {
        db.snapshot().range(table, ..).count()
    }

    /// Steps of commits, of a recovery, and of reads and a flush after it.
    fn steps_for(layout: Layout, ranges_count: u32, at_once: bool) -> [u64; 4] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions { layout, ..TableOptions::default() }).unwrap();
        let mut batch = Batch::new();
        (0..2 * ranges_count).for_each(|number| batch.put(&table, key(number), b"row"));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
        table.wait_idle().unwrap();
        let flushes = db.stats().flush.flushes;
        let committed = steps_of(|| {
            let mut batch = Batch::new();
            for (low, high) in ranges(ranges_count) {
                batch.delete_range(&table, &low[..]..&high[..]);
                if !at_once {
                    db.write_with(&std::mem::take(&mut batch), Durability::Sync).unwrap();
                }
            }
            db.write_with(&batch, Durability::Sync).unwrap();
        });
        assert_eq!(db.stats().flush.flushes, flushes, "ranges that are deleted take memory like entries");
        assert_eq!(count(&db, &table), ranges_count as usize);
        let crashed = sim.fork();
        crashed.power_crash(CrashProfile::Strict);
        drop((db, table));
        let (mut db, mut table) = (None, None);
        let recovered = steps_of(|| {
            let opened = open(&crashed);
            table = opened.table("t").unwrap();
            db = Some(opened);
        });
        let (db, table) = (db.unwrap(), table.unwrap());
        let read = steps_of(|| {
            let snapshot = db.snapshot();
            (0..2 * ranges_count).for_each(|number| {
                assert_eq!(snapshot.get(&table, key(number)).unwrap().is_some(), number % 2 == 1);
            });
            assert_eq!(count(&db, &table), ranges_count as usize);
        });
        let flushed = steps_of(|| {
            table.flush().unwrap();
            table.compact().unwrap();
            assert_eq!(count(&db, &table), ranges_count as usize);
        });
        assert_eq!(table.shape().unwrap().range_tombstones, 0);
        [committed, recovered, read, flushed]
    }

    /// Ten thousand ranges of a batch held the commit latch for seconds, recovery took as long, and each 120 that were
    /// deleted one by one caused a flush.
    #[test]
    fn many_ranges_cost_n_log_n_from_commit_to_flush() {
        for layout in [Layout::BTree, Layout::Lsm] {
            for at_once in [true, false] {
                let (few, many) = (steps_for(layout, 500, at_once), steps_for(layout, 4000, at_once));
                for (few, many) in few.iter().zip(many) {
                    assert!(
                        many <= 16 * few + 4000,
                        "{few} steps for 500 ranges, {many} for 4000, {layout:?}, {at_once}"
                    );
                }
                assert!(many.iter().all(|steps| *steps <= 200 * 4000), "{many:?}");
            }
        }
    }

    #[test]
    fn sets_in_memory_stay_few_and_tell_snapshots_apart() {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions { layout: Layout::Lsm, ..TableOptions::default() }).unwrap();
        let mut batch = Batch::new();
        (0..2000).for_each(|number| batch.put(&table, key(number), b"row"));
        db.write_with(&batch, Durability::Buffered).unwrap();
        let mut held = Vec::new();
        for number in 0..1000 {
            if number % 100 == 0 {
                held.push((2000 - number as usize, db.snapshot()));
            }
            let mut batch = Batch::new();
            batch.delete_range(&table, ..&key(number + 1)[..]);
            db.write_with(&batch, Durability::Buffered).unwrap();
        }
        let version = table.state().version.load();
        assert!(version.range_tombstones.in_memory() <= 10, "{} sets", version.range_tombstones.in_memory());
        assert!(
            version.range_tombstones.len() <= 40,
            "{} range_tombstones that hide the same",
            version.range_tombstones.len()
        );
        for (count, snapshot) in &held {
            assert_eq!(snapshot.range(&table, ..).count(), *count);
        }
        table.flush().unwrap();
        for (count, snapshot) in &held {
            assert_eq!(snapshot.range_rev(&table, ..).count(), *count);
        }
        assert_eq!(count(&db, &table), 1000);
    }
}
