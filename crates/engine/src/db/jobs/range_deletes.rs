//! The range delete: how its tombstone goes when it is applied.
//!
//! ```text
//! commit    the tombstone enters what readers see, with the commit (`commit/range_tombstones.rs`)
//! flush     it goes into the manifest, with the memtable that was active then; the flush applies it to what it writes
//! then      runs that it covers as a whole are dropped unread, the others it is applied to as they are compacted
//! retired   when no tree has anything left that it hides, and every snapshot sees it (`install.rs`)
//! ```

use crate::base::{FileId, Result};
use crate::db::state::table::TableState;

use super::install::{TreeChange, install};
use super::job::{Job, JobContext, Needs, Step};

/// Drops runs of which no snapshot sees anything, without reading them, and the range tombstones that are not needed.
pub(super) struct DropRuns<'a> {
    table: &'a TableState,
    runs: Vec<FileId>,
}

impl<'a> DropRuns<'a> {
    /// `None` when the table has no range tombstones.
    pub(super) fn plan(context: JobContext<'_>, table: &'a TableState) -> Option<Self> {
        let trees = table.trees();
        let runs =
            (!trees.range_tombstones.is_empty()).then(|| trees.range_deleted_runs(context.state.oldest_snapshot()))?;
        Some(Self { table, runs })
    }
}

impl Job for DropRuns<'_> {
    fn needs(&self) -> Needs {
        Needs { free: 0, inputs: 0 }
    }

    fn run(self, JobContext { state, throttle }: JobContext<'_>) -> Result<Step> {
        let change = TreeChange { removed: self.runs.clone(), ..TreeChange::none() };
        let Some(installed) = state.or_poison(install(state, self.table, change))? else { return Ok(Step::Dropped) };
        if self.runs.is_empty() {
            return Ok(Step::Nothing);
        }
        state.files.remove_runs(self.runs);
        throttle.trees_changed();
        Ok(Step::Done(installed.progress))
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

    /// A tombstone of the sealed memtable that was merged with one behind it went into no manifest.
    #[test]
    fn ranges_deleted_before_and_behind_a_seal_stay_deleted_when_the_sealed_memtable_is_flushed() {
        for (layout, between) in [Layout::BTree, Layout::Lsm].into_iter().flat_map(|layout| [(layout, 0), (layout, 1)])
        {
            let sim = SimEnv::new(1);
            sim.set_lazy_workers(true);
            let db = open(&sim);
            let table = db.create_table("t", TableOptions { layout, ..TableOptions::default() }).unwrap();
            let put = |numbers: std::ops::Range<u32>| {
                let mut batch = Batch::new();
                numbers.for_each(|number| batch.put(&table, key(number), b"row"));
                db.write_with(&batch, Durability::Sync).unwrap();
            };
            let delete = |low, high| {
                let mut batch = Batch::new();
                batch.delete_range(&table, &key(low)[..]..&key(high)[..]);
                db.write_with(&batch, Durability::Sync).unwrap();
            };
            put(0..10);
            table.flush().unwrap();
            delete(0, 3);
            let commits = &db.core().commits;
            commits.seal(&mut commits.order.lock(), table.state());
            put(10..10 + between);
            delete(5, 8);
            db.core().flusher.flush(table.state()).unwrap();
            let left = 4 + between as usize;
            assert_eq!(count(&db, &table), left);
            sim.power_crash(CrashProfile::Strict);
            drop((db, table));
            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            assert_eq!(count(&db, &table), left, "{layout:?}, {between} rows behind the seal");
        }
    }
}
