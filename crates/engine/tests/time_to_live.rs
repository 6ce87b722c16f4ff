//! Tables with a time to live: entries go when they are old enough, neither earlier nor much later, and never come
//! back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use proptest::prelude::*;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Snapshot, Table, TableOptions};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long entries live.
const LIFE: Duration = Duration::from_secs(320);
/// How much later they may go while the database is open.
const LATE: Duration = Duration::from_secs(22);

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn options(layout: Layout) -> TableOptions {
    TableOptions::default().layout(layout).time_to_live(Some(LIFE)).run_bytes_max(4 << 10).block_bytes(512)
}

/// Lets time pass as it does, in small steps.
fn pass(sim: &SimEnv, time: Duration) {
    let step = Duration::from_secs(5);
    (0..time.as_secs().div_ceil(step.as_secs())).for_each(|_| sim.advance(step));
}

fn put(db: &Database, table: &Table, keys: impl Iterator<Item = u32>, value: &[u8]) {
    let mut batch = Batch::new();
    keys.for_each(|key| batch.put(table, key.to_be_bytes(), value));
    db.write_with(&batch, Durability::Sync).unwrap();
}

/// Keys with their values.
type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// All that a snapshot sees, by scans both ways and, of some keys, by lookups.
fn seen(snapshot: &Snapshot, table: &Table) -> Entries {
    let entries = |range: spinney::Range| {
        range.map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect::<Result<Vec<_>, _>>().unwrap()
    };
    let (forward, mut backward) = (entries(snapshot.range(table, ..)), entries(snapshot.range_rev(table, ..)));
    backward.reverse();
    assert_eq!(forward, backward);
    let seen: Entries = forward.into_iter().collect();
    let keys: Vec<_> = (0..40_u32).map(u32::to_be_bytes).collect();
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    for (key, value) in keys.iter().zip(snapshot.multi_get(table, &keys).unwrap()) {
        assert_eq!(value.map(|value| value.to_vec()), seen.get(*key).cloned());
        assert_eq!(snapshot.get(table, key).unwrap().map(|value| value.to_vec()), seen.get(*key).cloned());
    }
    seen
}

fn count(db: &Database, table: &Table) -> usize {
    seen(&db.snapshot(), table).len()
}

#[test]
fn entries_go_when_they_are_old_and_their_runs_unread() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        for reopened in [false, true] {
            let sim = SimEnv::new(1);
            let mut db = open(&sim);
            let mut table = db.create_table("t", options(layout)).unwrap();
            put(&db, &table, 0..1000, b"old");
            table.compact().unwrap();
            pass(&sim, LIFE / 2);
            put(&db, &table, 1000..2000, b"young");
            put(&db, &table, 10..11, b"young");
            table.flush().unwrap();
            pass(&sim, LIFE / 2 - Duration::from_secs(5));
            assert_eq!(count(&db, &table), 2000, "{layout:?}");
            let before = db.stats().flush;
            pass(&sim, LATE);
            if reopened {
                drop(table);
                db.close().unwrap();
                db = open(&sim);
                table = db.table("t").unwrap().unwrap();
            } else {
                let after = db.stats().flush;
                assert_eq!(after.compaction_read_bytes, before.compaction_read_bytes, "{layout:?}");
            }
            assert_eq!(count(&db, &table), 1001);
            table.wait_idle().unwrap();
            let entries = |table: &Table| {
                let shape = table.shape().unwrap();
                shape
                    .l0
                    .iter()
                    .map(|run| run.entries)
                    .chain(shape.levels.iter().map(|level| level.entries))
                    .sum::<u64>()
            };
            assert!(entries(&table) <= 1001 + 100, "the runs of the old are gone: {:?}", table.shape().unwrap());
            // Overwritten, it is young again.
            assert_eq!(&*db.snapshot().get(&table, 10_u32.to_be_bytes()).unwrap().unwrap(), b"young");
            table.compact().unwrap();
            assert_eq!((count(&db, &table), entries(&table)), (1001, 1001));
            pass(&sim, LIFE / 2 + LATE);
            table.wait_idle().unwrap();
            assert_eq!((count(&db, &table), entries(&table)), (0, 0));
            assert_eq!(db.verify().unwrap().problems, vec![]);
        }
    }
}

#[test]
fn entries_in_memory_go_too_and_are_not_flushed() {
    let sim = SimEnv::new(2);
    let db = open(&sim);
    let table = db.create_table("t", options(Layout::Lsm)).unwrap();
    put(&db, &table, 0..100, b"old");
    pass(&sim, LIFE - Duration::from_secs(5));
    assert_eq!(count(&db, &table), 100);
    pass(&sim, LATE);
    assert_eq!(count(&db, &table), 0);
    table.flush().unwrap();
    assert_eq!((table.shape().unwrap().l0.len(), table.shape().unwrap().memtable_entries), (0, 0));
    // As many as there were when it was looked last.
    put(&db, &table, 50..150, b"new");
    assert_eq!(count(&db, &table), 100);
    pass(&sim, LATE);
    let writes = sim.write_and_sync_count();
    pass(&sim, LIFE / 2);
    assert_eq!(sim.write_and_sync_count(), writes, "where nothing changes nothing is written");
    pass(&sim, LIFE);
    assert_eq!(count(&db, &table), 0);
    // The counters of this scan are told to other processes.
    pass(&sim, Duration::from_secs(1));
    let writes = sim.write_and_sync_count();
    pass(&sim, LIFE);
    assert_eq!(sim.write_and_sync_count(), writes, "what has expired is not hidden again");
}

/// Sets the wall clock wrong by so many seconds: while the database is open, or between two opens.
fn set_clock(sim: &SimEnv, wrong: i64, opens: bool, db: Database, table: Table) -> (Database, Table) {
    if !opens {
        sim.set_wall_ahead(wrong);
        return (db, table);
    }
    drop(table);
    db.close().unwrap();
    sim.set_wall_ahead(wrong);
    let db = open(sim);
    let table = db.table("t").unwrap().unwrap();
    (db, table)
}

/// While the clock was ahead entries got marks that lay in the future, and nothing expired before the clock came there:
/// for as long as it had been ahead.
#[test]
fn entries_go_in_time_after_a_clock_that_was_ahead() {
    for ahead in [LIFE / 2, LIFE * 1000] {
        for opens in [false, true] {
            let sim = SimEnv::new(4);
            let mut db = open(&sim);
            let mut table = db.create_table("t", options(Layout::Lsm)).unwrap();
            sim.set_wall_ahead(i64::try_from(ahead.as_secs()).unwrap());
            put(&db, &table, 0..100, b"by a clock that is ahead");
            pass(&sim, LATE);
            (db, table) = set_clock(&sim, 0, opens, db, table);
            put(&db, &table, 100..200, b"by a clock that is right");
            pass(&sim, LIFE - Duration::from_secs(10));
            assert_eq!(count(&db, &table), 200, "none goes before its time");
            (db, table) = set_clock(&sim, 0, opens, db, table);
            // An open does not know whether the clock was ahead, or has been behind.
            let late = if opens && ahead < LIFE { ahead } else { Duration::ZERO };
            pass(&sim, 2 * LATE + late);
            assert_eq!(count(&db, &table), 0, "ahead by {ahead:?}, opened: {opens}");
        }
    }
}

/// A machine without a clock of its own begins in the past, until somebody tells it the time.
#[test]
fn nothing_goes_early_after_a_clock_that_was_behind() {
    for opens in [false, true] {
        let sim = SimEnv::new(5);
        let mut db = open(&sim);
        let mut table = db.create_table("t", options(Layout::Lsm)).unwrap();
        put(&db, &table, 0..100, b"before");
        pass(&sim, LATE);
        // Where it is right by half in between, an open cannot tell.
        let half = if opens { -1_000_000 } else { -1000 };
        for (wrong, keys) in [(-1_000_000, 100..200), (half, 200..300), (0, 300..400)] {
            (db, table) = set_clock(&sim, wrong, opens, db, table);
            pass(&sim, LATE);
            put(&db, &table, keys, b"young");
            pass(&sim, LATE);
        }
        assert_eq!(count(&db, &table), 400, "opened: {opens}");
        pass(&sim, LIFE + LATE);
        assert_eq!(count(&db, &table), 0, "opened: {opens}");
    }
}

#[test]
fn a_snapshot_keeps_what_it_saw() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(3);
        let db = open(&sim);
        let table = db.create_table("t", options(layout)).unwrap();
        let mut held = Vec::new();
        for round in 0..8_u32 {
            put(&db, &table, round * 10..round * 10 + 20, &[b'0' + u8::try_from(round).unwrap()]);
            let snapshot = db.snapshot();
            let is_seen = seen(&snapshot, &table);
            held.push((snapshot, is_seen));
            match round % 3 {
                0 => table.flush().unwrap(),
                1 => table.compact().unwrap(),
                _ => {}
            }
            pass(&sim, LIFE / 30 * 10);
            // One in the middle goes first.
            if round == 6 {
                held.remove(3);
            }
            for (snapshot, is_seen) in &held {
                assert_eq!(seen(snapshot, &table), *is_seen, "{layout:?}, round {round}");
            }
        }
        assert!(count(&db, &table) < 90);
        table.compact().unwrap();
        for (snapshot, is_seen) in &held {
            assert_eq!(seen(snapshot, &table), *is_seen);
        }
        held.clear();
        pass(&sim, LIFE / 30 * 40);
        table.compact().unwrap();
        assert_eq!((count(&db, &table), table.shape().unwrap().trees), (0, 0));
    }
}

#[test]
fn a_transaction_that_outlives_entries_conflicts_and_others_do_not() {
    let sim = SimEnv::new(4);
    let db = open(&sim);
    let table = db.create_table("t", options(Layout::Lsm)).unwrap();
    put(&db, &table, 0..10, b"old");
    pass(&sim, LIFE / 30 * 20);
    put(&db, &table, 10..20, b"young");
    let mut reads = db.begin();
    assert_eq!(seen(&db.snapshot(), &table).len(), 20);
    pass(&sim, LIFE / 30 * 11);
    assert_eq!(count(&db, &table), 10, "the old have gone while the transaction is open");
    let mut young = db.begin();
    young.delete_range(&table, &15_u32.to_be_bytes()[..]..).unwrap();
    assert_eq!((young.range(&table, ..).count(), reads.range(&table, ..).count()), (5, 20));
    drop(young);
    reads.put(&table, 5_u32.to_be_bytes(), b"mine").unwrap();
    reads.commit().unwrap();
    let mut old = db.begin();
    let mut erases = db.begin();
    pass(&sim, LIFE / 30 * 40);
    old.put(&table, 12_u32.to_be_bytes(), b"mine").unwrap();
    erases.delete_range(&table, ..).unwrap();
    assert_eq!(old.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(erases.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(count(&db, &table), 0);
}

#[test]
fn loads_and_erasures_age_like_commits() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(5);
        let db = open(&sim);
        let table = db.create_table("t", options(layout)).unwrap();
        let load = |range: std::ops::Range<u32>| {
            let mut load = table.bulk_load().unwrap();
            range.for_each(|key| load.push(&key.to_be_bytes(), b"loaded").unwrap());
            load.finish().unwrap();
        };
        load(0..300);
        pass(&sim, LIFE / 30 * 15);
        load(100..400);
        let mut batch = Batch::new();
        batch.delete_range(&table, &350_u32.to_be_bytes()[..]..);
        db.write_with(&batch, Durability::Sync).unwrap();
        // Their runs are mixed, and say nothing of the age of each any more.
        table.compact().unwrap();
        assert_eq!(count(&db, &table), 350);
        pass(&sim, LIFE / 30 * 17);
        assert_eq!(count(&db, &table), 250, "{layout:?}");
        assert_eq!(table.shape().unwrap().range_tombstones, 2);
        drop((table, db));
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        assert_eq!(count(&db, &table), 250);
        pass(&sim, LIFE / 30 * 17);
        table.wait_idle().unwrap();
        assert_eq!((count(&db, &table), table.shape().unwrap().trees), (0, 0));
        assert!(table.shape().unwrap().range_tombstones <= 1);
    }
}

#[test]
fn on_a_full_disk_entries_expire_and_make_room() {
    const SPACE: u64 = 1 << 30;
    let sim = SimEnv::new(7);
    let db = open(&sim);
    let table = db.create_table("t", options(Layout::Lsm)).unwrap();
    put(&db, &table, 0..100, b"old");
    table.compact().unwrap();
    sim.set_space(SPACE);
    let used = SPACE - sim.env().fs.free_bytes("/db".as_ref()).unwrap();
    sim.set_space(used + 10);
    pass(&sim, LIFE + LATE);
    table.wait_idle().unwrap();
    assert_eq!((count(&db, &table), table.shape().unwrap().trees), (0, 0), "{:?}", db.stats());
    assert!(sim.env().fs.free_bytes("/db".as_ref()).unwrap() > 4096);
    sim.set_space(SPACE);
    put(&db, &table, 0..10, b"new");
    table.flush().unwrap();
}

#[test]
fn what_cannot_be_is_refused() {
    let db = open(&SimEnv::new(6));
    let refused = |options: TableOptions| {
        let error = db.create_table("t", options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    assert!(refused(options(Layout::BTree)).contains("time_to_live"));
    let merges = options(Layout::Lsm).merge("add");
    assert!(refused(merges).contains("merge operands"));
    let short = options(Layout::Lsm).time_to_live(Some(Duration::from_millis(999)));
    assert!(refused(short).contains("it must be 1 to 3162240000 seconds"));
}

/// What happens to a table.
#[derive(Clone, Debug)]
enum Step {
    Put(u32, u32),
    Delete(u32),
    DeleteOnce(u32),
    Erase(u32, u32),
    Load(u32, u32),
    Pass(u64),
    Flush,
    Compact,
    CompactLevel(usize),
    TakeSnapshot,
    DropSnapshot(usize),
    Close,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || 0..40_u32;
    let step = prop_oneof![
        6 => (key(), 1..12_u32).prop_map(|(key, count)| Step::Put(key, count)),
        2 => key().prop_map(Step::Delete),
        1 => key().prop_map(Step::DeleteOnce),
        1 => (key(), 1..20_u32).prop_map(|(key, count)| Step::Erase(key, count)),
        1 => (key(), 1..12_u32).prop_map(|(key, count)| Step::Load(key, count)),
        6 => (0..200_u64).prop_map(Step::Pass),
        3 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => (0..7_usize).prop_map(Step::CompactLevel),
        2 => Just(Step::TakeSnapshot),
        2 => (0..4_usize).prop_map(Step::DropSnapshot),
        1 => Just(Step::Close),
        1 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..70)
}

/// The newest write of each key, and when it came at the earliest and at the latest.
#[derive(Default)]
struct Model {
    keys: BTreeMap<Vec<u8>, Written>,
    /// At the last look.
    gone: BTreeMap<Vec<u8>, u64>,
}

#[derive(Clone)]
struct Written {
    value: Option<Vec<u8>>,
    at: Duration,
    /// From when on its age is counted at the latest.
    dated: Duration,
    number: u64,
}

fn check(model: &mut Model, db: &Database, table: &Table, now: Duration) -> Result<(), TestCaseError> {
    let is_seen = seen(&db.snapshot(), table);
    for (key, written) in &model.keys {
        let found = is_seen.get(key);
        let value = written.value.as_ref();
        prop_assert!(found.is_none() || found == value, "{:?} at {:?}", key, now);
        if now < written.at + LIFE {
            prop_assert_eq!(found, value, "{:?} is {:?} old", key, now.saturating_sub(written.at));
        }
        if now > written.dated + LIFE + LATE {
            prop_assert_eq!(found, None, "{:?} is {:?} old", key, now.saturating_sub(written.at));
        }
        if found.is_none() {
            model.gone.insert(key.clone(), written.number);
        } else {
            prop_assert!(model.gone.get(key) != Some(&written.number), "{:?} came back", key);
        }
    }
    prop_assert!(is_seen.keys().all(|key| model.keys.contains_key(key)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 150 } else { 2000 }))]

    #[test]
    fn entries_live_as_long_as_they_should_whatever_happens(layout in prop_oneof![Just(Layout::Lsm), Just(Layout::LsmTiered)], steps in steps(), seed: u64) {
        let sim = SimEnv::new(seed);
        let start = sim.env().clock.wall();
        let now = || sim.env().clock.wall() - start;
        let mut db = open(&sim);
        let mut table = db.create_table("t", options(layout).fanout(2)).unwrap();
        let (mut model, mut number) = (Model::default(), 0);
        let mut snapshots: Vec<(Snapshot, Entries)> = Vec::new();
        for step in steps {
            number += 1;
            let mut batch = Batch::new();
            let write = |model: &mut Model, keys: std::ops::Range<u32>, value: Option<&[u8]>| {
                for key in keys {
                    let value = value.map(<[u8]>::to_vec);
                    let written = Written { value, at: now(), dated: now(), number };
                    model.keys.insert(key.to_be_bytes().to_vec(), written);
                }
            };
            let value = number.to_be_bytes();
            match step {
                Step::Put(key, count) => {
                    (key..key + count).for_each(|key| batch.put(&table, key.to_be_bytes(), value));
                    write(&mut model, key..key + count, Some(&value));
                }
                Step::Delete(key) => {
                    batch.delete(&table, key.to_be_bytes());
                    write(&mut model, key..key + 1, None);
                }
                Step::DeleteOnce(key) => {
                    // A key of its own, which is put once before.
                    let key = 1000 + key * 1000 + u32::try_from(number).unwrap();
                    batch.put(&table, key.to_be_bytes(), value);
                    db.write_with(&std::mem::take(&mut batch), Durability::Sync).unwrap();
                    if number % 2 == 0 {
                        table.flush().unwrap();
                    }
                    batch.single_delete(&table, key.to_be_bytes());
                    write(&mut model, key..key + 1, None);
                }
                Step::Erase(key, count) => {
                    batch.delete_range(&table, &key.to_be_bytes()[..]..&(key + count).to_be_bytes()[..]);
                    write(&mut model, key..key + count, None);
                }
                Step::Load(key, count) => {
                    let mut load = table.bulk_load().unwrap();
                    (key..key + count).for_each(|key| load.push(&key.to_be_bytes(), &value).unwrap());
                    load.finish().unwrap();
                    write(&mut model, key..key + count, Some(&value));
                }
                Step::Pass(seconds) => pass(&sim, Duration::from_secs(seconds)),
                Step::Flush => table.flush().unwrap(),
                Step::Compact => table.compact().unwrap(),
                Step::CompactLevel(level) => table.compact_level(level).unwrap(),
                Step::TakeSnapshot => {
                    let snapshot = db.snapshot();
                    let is_seen = seen(&snapshot, &table);
                    snapshots.push((snapshot, is_seen));
                }
                Step::DropSnapshot(which) if which < snapshots.len() => drop(snapshots.remove(which)),
                Step::DropSnapshot(_) => {}
                Step::Close | Step::Crash => {
                    snapshots.clear();
                    if matches!(step, Step::Close) {
                        drop(table);
                        db.close().unwrap();
                        sim.advance(Duration::from_secs(50));
                    } else {
                        sim.power_crash(CrashProfile::Random);
                        drop((table, db));
                        // What no mark was kept of counts from the next open.
                        let (now, mark) = (now(), Duration::from_secs(20));
                        model.keys.values_mut().filter(|written| written.at + mark > now).for_each(|written| written.dated = now);
                    }
                    db = open(&sim);
                    table = db.table("t").unwrap().unwrap();
                }
            }
            db.write_with(&batch, Durability::Sync).unwrap();
            check(&mut model, &db, &table, now())?;
            for (snapshot, is_seen) in &snapshots {
                prop_assert_eq!(&seen(snapshot, &table), is_seen);
            }
        }
        prop_assert_eq!(db.verify().unwrap().problems, vec![]);
        snapshots.clear();
        pass(&sim, LIFE + 3 * LATE);
        table.compact().unwrap();
        prop_assert_eq!((count(&db, &table), table.shape().unwrap().trees), (0, 0));
    }
}

/// The age of a table is noted while a commit has its place in memory and waits for the device: it is dated the next
/// time.
#[test]
fn a_commit_that_waits_for_the_device_while_others_are_dated_expires_too() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", options(layout)).unwrap();
        put(&db, &table, 0..5, b"before");
        pass(&sim, Duration::from_secs(20));
        let passed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let (begun, machine) = (std::sync::Arc::clone(&passed), sim.clone());
        sim.interrupt(Some(Box::new(move |_, path| {
            let is_first = !begun.swap(true, std::sync::atomic::Ordering::SeqCst);
            if is_first && path.starts_with("/db/log") {
                pass(&machine, Duration::from_secs(60));
            }
        })));
        put(&db, &table, 5..10, b"meanwhile");
        sim.interrupt(None);
        assert!(passed.load(std::sync::atomic::Ordering::SeqCst));
        assert_eq!(count(&db, &table), 10);
        pass(&sim, LIFE + LATE + Duration::from_secs(40));
        assert_eq!(count(&db, &table), 0, "{layout:?}");
    }
}
