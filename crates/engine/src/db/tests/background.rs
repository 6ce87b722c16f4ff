//! Tests of background work that is done step by step.

use crate::db::{Batch, Database, Durability, Options, Table};
use crate::env::Next;
use crate::env::sim::SimEnv;
use crate::table::files::FileKind;
use crate::table::{Layout, TableOptions, policy};

/// A database whose background work is done when a test says so.
fn open(sim: &SimEnv) -> Database {
    open_with(sim, 2 << 20)
}

fn open_with(sim: &SimEnv, memory_bytes: u64) -> Database {
    sim.set_lazy_workers(true);
    let options = Options { memory_bytes, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

/// A table that a few kilobytes make many levels of.
fn create(db: &Database, name: &str) -> Table {
    let options = TableOptions { layout: Layout::Lsm, run_bytes_max: 4 << 10, fanout: 2, ..TableOptions::default() };
    db.create_table(name, options).unwrap()
}

/// Lays so many runs over the table, all over its keys.
fn lay_runs(db: &Database, table: &Table, runs: u32) {
    for _ in 0..runs {
        let mut batch = Batch::new();
        (0..100).for_each(|_| batch.put(table, db.core().state.env.random.next().to_be_bytes(), [7; 20]));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
    }
}

/// Reads the first entry of the table so many times.
fn read(db: &Database, table: &Table, times: u32) {
    (0..times).for_each(|_| drop(db.snapshot().range(table, ..).next().transpose().unwrap()));
}

/// Lays two runs of few large entries over the table.
fn lay_large_runs(db: &Database, table: &Table) {
    for step in 1..=2 {
        let mut batch = Batch::new();
        (0..50_u32).step_by(step).for_each(|number| batch.put(table, number.to_be_bytes(), [7; 4 << 10]));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
    }
}

fn is_due(table: &Table) -> bool {
    let state = table.state();
    policy::pick(&state.version.load().trees, &state.options, u64::MAX).is_some()
}

/// Writes to a table more than a step takes down, and does a step.
fn step_beside_writes(db: &Database, busy: &Table) {
    lay_runs(db, busy, 20);
    assert_eq!(db.core().compactor.step().unwrap(), Next::Again);
    lay_runs(db, busy, 20);
    assert!(is_due(busy) && db.core().throttle.budget.is_pressed());
}

/// What reads had paid for was done only when no table wanted a compaction and no writer was slowed: beside a table
/// that was written all the time, the merge never came.
#[test]
fn a_table_at_rest_is_merged_for_its_readers_beside_a_busy_one() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (busy, rests) = (create(&db, "busy"), create(&db, "rests"));
    lay_runs(&db, &rests, 3);
    assert!(!is_due(&rests));
    let trees = || rests.shape().unwrap().trees;
    let mut trees_after = Vec::new();
    for _ in 0..10 {
        read(&db, &rests, 1000);
        step_beside_writes(&db, &busy);
        trees_after.push(trees());
    }
    // 2.4 ms in the first round, which pay for a view; 1.2 ms in each from there on, and the merge costs 5 ms and a
    // bit.
    assert_eq!(trees_after, [3, 3, 3, 1, 1, 1, 1, 1, 1, 1]);
    db.core().compactor.step().unwrap();
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

/// Before every merge what was in memory was flushed, and beside a writer there was something in memory each time: the
/// table had flushes for what its reads paid, and more runs to search, but never its merge.
#[test]
fn a_large_table_is_merged_for_its_readers_beside_a_steady_writer() {
    let sim = SimEnv::new(1);
    let db = open_with(&sim, 64 << 20);
    let table = db.create_table("t", TableOptions { layout: Layout::Lsm, ..TableOptions::default() }).unwrap();
    table.hold().unwrap();
    for tree in 0..3 {
        let mut batch = Batch::new();
        (0..30_000_u32).for_each(|number| batch.put(&table, (3 * number + tree).to_be_bytes(), [7; 20]));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
    }
    table.release().unwrap();
    let before = db.stats().flush.flushes;
    let rounds = (0..200_u32).find(|round| {
        let mut batch = Batch::new();
        batch.put(&table, round.to_be_bytes(), [8; 20]);
        db.write_with(&batch, Durability::Buffered).unwrap();
        // 2.4 milliseconds for the trees.
        read(&db, &table, 1000);
        db.core().compactor.step().unwrap();
        table.shape().unwrap().levels.iter().any(|level| level.entries > 89_000)
    });
    // A merge of 90,000 entries costs 20 milliseconds.
    assert!(rounds.is_some_and(|rounds| rounds < 30), "{rounds:?} {:?}", table.shape().unwrap());
    assert_eq!(db.stats().flush.flushes - before, 1, "with the merge");
}

/// As above, of a row of dead entries that is scanned beside a writer: what the flush cost was never taken from what
/// the row had paid.
#[test]
fn a_row_of_dead_entries_beside_a_steady_writer_is_flushed_once() {
    let sim = SimEnv::new(1);
    let db = open_with(&sim, 64 << 20);
    let table = db.create_table("t", TableOptions { layout: Layout::Lsm, ..TableOptions::default() }).unwrap();
    let write = |numbers: std::ops::Range<u32>, value: Option<&[u8]>| {
        let mut batch = Batch::new();
        numbers.for_each(|number| match value {
            Some(value) => batch.put(&table, number.to_be_bytes(), value),
            None => batch.delete(&table, number.to_be_bytes()),
        });
        db.write_with(&batch, Durability::Buffered).unwrap();
    };
    write(0..20_100, Some(b"v"));
    table.compact().unwrap();
    // It needs all that is deleted.
    let snapshot = db.snapshot();
    write(0..20_000, None);
    let before = db.stats().flush;
    let mut round = |number: u32| {
        write(30_000 + number..30_001 + number, Some(b"new"));
        read(&db, &table, 1);
        (0..3).for_each(|_| _ = db.core().compactor.step().unwrap());
        let now = db.stats().flush;
        (now.flushes - before.flushes, now.compactions - before.compactions)
    };
    let done = (0..30).map(&mut round).last();
    assert_eq!(done, Some((1, 1)), "the flush of the row, and its merge into the last level");
    drop(snapshot);
    assert_eq!((30..60).map(&mut round).last(), Some((1, 2)), "nobody needs the row any more");
    assert_eq!(table.shape().unwrap().levels.iter().map(|level| level.entries).sum::<u64>(), 101);
}

/// Pauses were counted in entries: with large ones a compaction looked at nothing else for gigabytes.
#[test]
fn a_compaction_of_few_large_entries_is_interrupted_too() {
    let sim = SimEnv::new(1);
    let db = open_with(&sim, 64 << 20);
    let (large, other) = (create(&db, "large"), create(&db, "other"));
    lay_large_runs(&db, &large);
    lay_runs(&db, &other, 20);
    large.compact().unwrap();
    assert!(other.shape().unwrap().l0.len() < 20, "{:?}", other.shape().unwrap());
}

/// The runs of another table that it merged meanwhile were damaged, and it was given up each time.
#[test]
fn damage_in_one_table_does_not_end_the_compaction_of_another() {
    let sim = SimEnv::new(1);
    let db = open_with(&sim, 64 << 20);
    let (large, other) = (create(&db, "large"), create(&db, "other"));
    lay_large_runs(&db, &large);
    lay_runs(&db, &other, 20);
    for handle in &other.state().version.load().trees.l0 {
        sim.corrupt(FileKind::Run.path("/db".as_ref(), handle.id), 40, 1).unwrap();
    }
    drop((large, other, db));
    // With nothing in the cache.
    let db = open_with(&sim, 64 << 20);
    let (large, other) = (db.table("large").unwrap().unwrap(), db.table("other").unwrap().unwrap());
    large.compact().unwrap();
    let flush = db.stats().flush;
    // In the first pause and the next; then it rests.
    assert_eq!((flush.failed_compactions, flush.compactions), (2, 1), "{flush:?}");
    assert_eq!((large.shape().unwrap().trees, other.shape().unwrap().l0.len()), (1, 20));
    db.core().state.health.check_writable().unwrap();
}

/// As above, of writers that flushes do not keep up with.
#[test]
fn a_table_at_rest_is_merged_for_its_readers_also_while_writers_are_slowed() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (busy, rests) = (create(&db, "busy"), create(&db, "rests"));
    lay_runs(&db, &rests, 3);
    for number in 0..3_u32 {
        let mut batch = Batch::new();
        batch.put(&busy, number.to_be_bytes(), vec![7; 400 << 10]);
        db.write_with(&batch, Durability::Buffered).unwrap();
    }
    assert!(db.core().throttle.budget.is_pressed() && !is_due(&busy));
    read(&db, &rests, 3000);
    assert_eq!((db.core().compactor.step().unwrap(), rests.shape().unwrap().trees), (Next::Again, 1));
    assert!(db.core().throttle.budget.is_pressed());
}

/// The table with most runs in L0 always came first, so that levels of another grew over their targets for as long as
/// it was written.
#[test]
fn a_table_over_its_targets_has_its_turns_beside_one_that_is_always_fuller() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (busy, waits) = (create(&db, "busy"), create(&db, "waits"));
    waits.hold().unwrap();
    for _ in 0..8 {
        lay_runs(&db, &waits, 8);
        waits.compact_level(0).unwrap();
    }
    waits.release().unwrap();
    assert!(is_due(&waits) && waits.shape().unwrap().l0.is_empty());
    let steps = (0..200).find(|_| {
        step_beside_writes(&db, &busy);
        !is_due(&waits)
    });
    assert!(steps.is_some_and(|steps| steps >= 3), "{steps:?} {:?}", waits.shape().unwrap());
}

/// The fuller table always came first, so that a small memtable of a table without redo log stayed in memory for as
/// long as others were written: not durable, and with all range tombstones that came since.
#[test]
fn a_small_memtable_has_its_turn_beside_tables_that_are_always_fuller() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let busy = create(&db, "busy");
    let small = db.create_table("small", TableOptions { logged: false, ..TableOptions::default() }).unwrap();
    let seal = |table: &Table, bytes: usize| {
        let mut batch = Batch::new();
        batch.put(table, b"key", vec![7; bytes]);
        db.write_with(&batch, Durability::Buffered).unwrap();
        db.core().commits.seal(&mut db.core().commits.order.lock(), table.state());
    };
    seal(&small, 10);
    let is_sealed = || small.shape().unwrap().immutable_memtables > 0;
    let flushes = (0..10).find(|_| {
        seal(&busy, 10_000);
        assert_eq!(db.core().flusher.step().unwrap(), Next::Again);
        !is_sealed()
    });
    assert!(flushes.is_some(), "it waits on");
}
