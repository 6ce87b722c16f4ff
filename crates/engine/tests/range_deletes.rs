//! Ranges deleted at once: what they cost, which snapshots see them, and that nothing of them is left in the end.

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, ErrorKind, Kind, Layout, Options, Snapshot, Table, TableOptions};
use std::ops::Range;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];
const MANY: usize = 4000;

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a database")
}

/// A table of small runs and blocks.
fn table(db: &Database, layout: Layout) -> Table {
    let options = TableOptions::default().layout(layout).run_bytes_max(8 << 10).block_bytes(1 << 10);
    db.table("t").expect("an open database").unwrap_or_else(|| db.create_table("t", options).expect("a table"))
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn put(db: &Database, table: &Table, numbers: Range<usize>, value: &[u8]) {
    let mut batch = Batch::new();
    numbers.for_each(|number| batch.put(table, key(number), [value, &[b'.'; 40]].concat()));
    db.write_with(&batch, Durability::Sync).expect("a commit");
}

fn erase(db: &Database, table: &Table, numbers: Range<usize>) {
    let mut batch = Batch::new();
    batch.delete_range(table, &*key(numbers.start)..&*key(numbers.end));
    db.write_with(&batch, Durability::Sync).expect("a commit");
}

/// How many keys a snapshot sees, by scans both ways.
fn count(snapshot: &Snapshot, table: &Table) -> usize {
    let all = |range: spinney::Range| range.collect::<spinney::Result<Vec<_>>>().expect("reads").len();
    let (forward, backward) = (all(snapshot.range(table, ..)), all(snapshot.range_rev(table, ..)));
    assert_eq!(backward, forward, "{:?}", table.shape());
    forward
}

#[test]
fn runs_that_are_covered_go_without_being_read() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = table(&db, layout);
        put(&db, &table, 0..MANY, b"old");
        table.compact().unwrap();
        assert!(table.shape().unwrap().levels[0].runs > 4);
        let before = db.stats();
        erase(&db, &table, 0..MANY);
        assert_eq!(count(&db.snapshot(), &table), 0);
        table.flush().unwrap();
        table.wait_idle().unwrap();
        let (shape, after) = (table.shape().unwrap(), db.stats());
        assert_eq!((shape.l0.len(), shape.levels.len(), shape.range_tombstones), (0, 0, 0));
        assert_eq!(after.flush.compaction_read_bytes, before.flush.compaction_read_bytes);
        assert!(db.verify().unwrap().problems.is_empty());
        drop((table, db));
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        assert_eq!(count(&db.snapshot(), &table), 0);
    }
}

#[test]
fn a_snapshot_keeps_what_was_erased_after_it_and_its_end_lets_it_go() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(2);
        let db = open(&sim);
        let table = table(&db, layout);
        put(&db, &table, 0..MANY, b"old");
        table.compact().unwrap();
        let old = db.snapshot();
        erase(&db, &table, 0..MANY);
        // In the first run of a level, in one amid, in the last.
        let new = [7..8, 2_000..2_001, MANY - 3..MANY - 2];
        new.iter().for_each(|numbers| put(&db, &table, numbers.clone(), b"new"));
        for step in 0..3 {
            assert_eq!((count(&old, &table), count(&db.snapshot(), &table)), (MANY, 3), "{layout:?}, step {step}");
            assert_eq!(&old.get(&table, key(7)).unwrap().unwrap()[..3], b"old");
            let (seven, ten) = (key(7), key(10));
            let got = db.snapshot().multi_get(&table, &[&seven, &ten]).unwrap();
            assert!(got[0].as_ref().is_some_and(|value| value.starts_with(b"new")) && got[1].is_none());
            match step {
                0 => table.flush().unwrap(),
                _ => table.compact().unwrap(),
            }
            assert_eq!(table.shape().unwrap().range_tombstones, 1);
        }
        drop(old);
        table.compact().unwrap();
        let shape = table.shape().unwrap();
        assert_eq!(shape.range_tombstones, 0);
        let entries = shape.levels.iter().map(|level| level.entries).chain(shape.btree.map(|btree| btree.entries));
        assert_eq!(entries.sum::<u64>(), 3);
        assert_eq!(count(&db.snapshot(), &table), 3);
    }
}

#[test]
fn a_scan_passes_what_was_erased_by_few_blocks() {
    for layout in LAYOUTS {
        let db = open(&SimEnv::new(3));
        let table = table(&db, layout);
        put(&db, &table, 0..MANY, b"old");
        table.compact().unwrap();
        let held = db.snapshot();
        erase(&db, &table, 10..MANY - 10);
        for flushed in [false, true] {
            let blocks = || db.stats().reads.seek_blocks;
            let before = blocks();
            assert_eq!(count(&db.snapshot(), &table), 20);
            let looked_at = blocks() - before;
            assert!(looked_at < 40, "{layout:?}, flushed {flushed}: {looked_at} blocks");
            table.flush().unwrap();
        }
        assert_eq!(count(&held, &table), MANY);
    }
}

#[test]
fn a_flush_into_a_btree_drops_what_was_erased() {
    let db = open(&SimEnv::new(4));
    let table = table(&db, Layout::BTree);
    put(&db, &table, 0..MANY, b"old");
    table.flush().unwrap();
    let entries = || table.shape().unwrap().btree.map(|btree| btree.entries);
    assert_eq!(entries(), Some(4000));
    erase(&db, &table, 5..MANY);
    table.flush().unwrap();
    assert_eq!((entries(), table.shape().unwrap().range_tombstones), (Some(5), 0));
    erase(&db, &table, 0..5);
    table.flush().unwrap();
    assert_eq!(entries(), Some(0));
    assert_eq!(count(&db.snapshot(), &table), 0);
    assert!(db.verify().unwrap().problems.is_empty());
}

#[test]
fn a_load_after_an_erasure_stays_over_it_after_an_open() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(5);
        let db = open(&sim);
        let old = table(&db, layout);
        put(&db, &old, 0..100, b"old");
        old.flush().unwrap();
        // The run reaches further than what is erased, and keeps the range tombstone needed.
        erase(&db, &old, 10..50);
        old.hold().unwrap();
        let mut load = old.bulk_load().unwrap();
        (20..30).for_each(|number| load.push(&key(number), b"loaded").unwrap());
        load.finish().unwrap();
        assert_eq!(old.shape().unwrap().range_tombstones, u64::from(layout != Layout::BTree));
        drop((old, db));
        for compacted in [false, true] {
            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            assert_eq!(count(&db.snapshot(), &table), 70, "{layout:?}, compacted {compacted}");
            assert_eq!(db.snapshot().get(&table, key(25)).unwrap().as_deref(), Some(&b"loaded"[..]));
            table.compact().unwrap();
            assert_eq!((count(&db.snapshot(), &table), table.shape().unwrap().range_tombstones), (70, 0));
        }
    }
}

#[test]
fn an_erasure_conflicts_with_what_it_meets_and_nothing_else() {
    for layout in LAYOUTS {
        let db = open(&SimEnv::new(6));
        let table = table(&db, layout);
        put(&db, &table, 0..100, b"old");
        for flushed in [false, true] {
            // Another one came first: a key that is not there counts too.
            let meets = [(10..20, true), (19..30, true), (20..30, false), (0..10, false)];
            for (other, conflicts) in meets {
                let mut txn = db.begin();
                txn.delete_range(&table, &*key(10)..&*key(20)).unwrap();
                erase(&db, &table, other.clone());
                if flushed {
                    table.flush().unwrap();
                }
                let committed = txn.commit().map_err(|error| error.kind());
                assert_eq!(committed, if conflicts { Err(ErrorKind::Conflict) } else { Ok(()) }, "{other:?}");
            }
            for (number, conflicts) in [(10, true), (19, true), (20, false), (9, false)] {
                let mut txn = db.begin();
                txn.delete_range(&table, &*key(10)..&*key(20)).unwrap();
                put(&db, &table, number..number + 1, b"new");
                if flushed {
                    table.compact().unwrap();
                }
                assert_eq!(txn.commit().is_err(), conflicts, "{layout:?}, flushed {flushed}, {number}");
                let mut txn = db.begin();
                txn.put(&table, key(number), b"mine").unwrap();
                erase(&db, &table, 10..20);
                if flushed {
                    table.compact().unwrap();
                }
                assert_eq!(txn.commit().is_err(), conflicts, "{layout:?}, flushed {flushed}, {number}");
            }
        }
    }
}

/// Very many entries of a tree that has changed are not looked at one by one; a tree that has not is no reason.
#[test]
fn an_erasure_of_very_many_entries_conflicts_with_nothing_that_its_transaction_saw() {
    for layout in LAYOUTS {
        let db = open(&SimEnv::new(6));
        let table = table(&db, layout);
        let other = db.create_table("other", TableOptions::default()).unwrap();
        (0..12).for_each(|part| put(&db, &table, part * 1000..(part + 1) * 1000, b"old"));
        table.compact().unwrap();
        let mut txn = db.begin();
        txn.delete_range(&table, &*key(0)..&*key(11_900)).unwrap();
        put(&db, &other, 0..1, b"new");
        txn.commit().unwrap_or_else(|error| panic!("{layout:?}: {error}"));
        assert_eq!(count(&db.snapshot(), &table), 100);
    }
}

#[test]
fn very_many_erasures_do_not_stay() {
    let db = open(&SimEnv::new(7));
    let table = table(&db, Layout::Lsm);
    put(&db, &table, 0..MANY, b"old");
    table.compact().unwrap();
    for number in (0..MANY).step_by(2) {
        erase(&db, &table, number..number + 1);
    }
    table.flush().unwrap();
    table.wait_idle().unwrap();
    assert!(table.shape().unwrap().range_tombstones <= 1000, "{}", table.shape().unwrap().range_tombstones);
    assert_eq!(count(&db.snapshot(), &table), MANY / 2);
    table.compact().unwrap();
    assert_eq!(table.shape().unwrap().range_tombstones, 0);
    assert_eq!(count(&db.snapshot(), &table), MANY / 2);
}

#[test]
fn ranges_of_all_forms_and_at_both_ends_of_the_keys() {
    let db = open(&SimEnv::new(8));
    let table = table(&db, Layout::Lsm);
    let longest = vec![0xff; 64 << 10];
    let all: [&[u8]; 5] = [&[0], b"a", b"b", b"c", &longest];
    let fill = || {
        let mut batch = Batch::new();
        all.iter().for_each(|key| batch.put(&table, key, b"value"));
        db.write_with(&batch, Durability::Sync).unwrap();
    };
    let left = |erase: &dyn Fn(&mut Batch)| {
        fill();
        let mut batch = Batch::new();
        erase(&mut batch);
        db.write_with(&batch, Durability::Sync).unwrap();
        let keys = db.snapshot().range(&table, ..).map(|entry| entry.unwrap().0);
        keys.map(|key| all.iter().position(|other| *key == **other).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(left(&|batch| batch.delete_range(&table, ..)), []);
    assert_eq!(left(&|batch| batch.delete_range(&table, ..=&b"b"[..])), [3, 4]);
    assert_eq!(left(&|batch| batch.delete_range(&table, &b"b"[..]..)), [0, 1]);
    assert_eq!(left(&|batch| batch.delete_range(&table, &b"a"[..]..=&longest[..])), [0]);
    assert_eq!(left(&|batch| batch.delete_range(&table, &b"c"[..]..&b"a"[..])), [0, 1, 2, 3, 4]);
    let too_long = vec![0xff; (64 << 10) + 2];
    let mut batch = Batch::new();
    batch.delete_range(&table, &too_long[..]..);
    assert_eq!(db.write_with(&batch, Durability::Sync).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(db.begin().delete_range(&table, &too_long[..]..).unwrap_err().kind(), ErrorKind::Invalid);
    let mut feed = db.changes(db.log_start()).unwrap();
    let mut erasures = 0;
    while let Some(commit) = feed.poll().unwrap() {
        erasures += commit.changes().iter().filter(|change| change.kind == Kind::RangeDelete).count();
    }
    assert_eq!(erasures, 4);
}

/// A log that is longer than memory: what is flushed on the way of its replay goes under the ranges that were deleted
/// before, also at the opens after.
#[test]
fn ranges_deleted_early_in_a_long_log_stay_deleted_over_several_opens() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let small = || {
            let options = Options::default().memory_bytes(1 << 20).log_segment_bytes(64 << 10);
            Database::builder("/db").env(sim.env()).options(options).open().expect("a database")
        };
        // With memory for all of it, so that nothing is flushed.
        let options = Options::default().memory_bytes(64 << 20).log_segment_bytes(64 << 10);
        let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a database");
        let opened = table(&db, layout);
        put(&db, &opened, 0..1000, b"old");
        opened.flush().unwrap();
        erase(&db, &opened, 0..500);
        for round in 0..8 {
            put(&db, &opened, 1000..4000, format!("round {round}").as_bytes());
        }
        let expected = count(&db.snapshot(), &opened);
        assert_eq!(expected, 3500);
        sim.process_crash();
        drop((opened, db));
        for open in 0..4 {
            let db = small();
            let opened = table(&db, layout);
            assert_eq!(count(&db.snapshot(), &opened), expected, "{layout:?}, open {open}");
            if open == 1 {
                opened.flush().unwrap();
            }
            if open < 2 {
                sim.process_crash();
            }
        }
    }
}

/// A range that is deleted is all that a table has in the log: other tables, whose rows are flushed, let none of it go.
#[test]
fn a_range_deleted_by_itself_stays_deleted_over_several_opens_while_others_are_flushed() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let opened = table(&db, layout);
        db.create_table("other", TableOptions::default()).expect("a new name");
        put(&db, &opened, 0..1000, b"old");
        opened.flush().unwrap();
        erase(&db, &opened, 0..500);
        db.sync().unwrap();
        sim.process_crash();
        drop((opened, db));
        for number in 0..3 {
            let db = open(&sim);
            let opened = table(&db, layout);
            assert_eq!(count(&db.snapshot(), &opened), 500, "{layout:?}, open {number}");
            let other = db.table("other").unwrap().expect("it was created");
            for round in 0..40 {
                put(&db, &other, 0..100, &[round; 100]);
            }
            other.flush().unwrap();
            sim.process_crash();
        }
    }
}
