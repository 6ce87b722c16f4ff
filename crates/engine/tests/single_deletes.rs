//! Single-deletes: they go with their puts, also above the last level, and never lay an older value bare.

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, ErrorKind, Kind, Layout, Options, Table, TableOptions};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(256 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("it opens")
}

/// A table whose shape only its handle changes, with a tree in its last level.
fn create(db: &Database, layout: Layout) -> Table {
    let table = db.create_table("t", TableOptions::default().layout(layout)).expect("it works");
    table.hold().expect("it works");
    write(db, |batch| batch.put(&table, b"a", b"first"));
    write(db, |batch| batch.put(&table, b"z", b"last"));
    table.compact().expect("it works");
    table
}

fn write(db: &Database, change: impl FnOnce(&mut Batch)) {
    let mut batch = Batch::new();
    change(&mut batch);
    db.write_with(&batch, Durability::Buffered).expect("written");
}

fn get(db: &Database, table: &Table) -> Option<Vec<u8>> {
    let snapshot = db.snapshot();
    let got = snapshot.get(table, b"k").expect("it works").map(Vec::from);
    let many = snapshot.multi_get(table, &[b"k"]).expect("it works").remove(0).map(Vec::from);
    let found = |(key, value): (Vec<u8>, spinney::Value)| (key == b"k").then(|| Vec::from(value));
    let forward = snapshot.range(table, ..).find_map(|entry| found(entry.expect("it works")));
    let backward = snapshot.range_rev(table, ..).find_map(|entry| found(entry.expect("it works")));
    assert_eq!([&many, &forward, &backward], [&got; 3]);
    got
}

/// Entries of all versions in the table's trees on disk.
fn entries_on_disk(table: &Table) -> u64 {
    let shape = table.shape().expect("open");
    let runs: u64 = shape.l0.iter().map(|run| run.entries).sum();
    runs + shape.levels.iter().map(|level| level.entries).sum::<u64>() + shape.btree.map_or(0, |btree| btree.entries)
}

#[test]
fn a_put_and_its_single_delete_leave_nothing_above_the_last_level() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = create(&db, layout);
        for _ in 0..3 {
            write(&db, |batch| batch.put(&table, b"k", b"value"));
            write(&db, |batch| batch.single_delete(&table, b"k"));
        }
        table.flush().unwrap();
        assert_eq!((get(&db, &table), entries_on_disk(&table)), (None, 2), "{layout:?}");
        // A delete must wait until it has reached the last level.
        write(&db, |batch| batch.put(&table, b"k", b"value"));
        write(&db, |batch| batch.delete(&table, b"k"));
        table.flush().unwrap();
        assert_eq!(entries_on_disk(&table), if layout == Layout::BTree { 2 } else { 3 }, "{layout:?}");
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn an_older_value_stays_hidden_whatever_meets_first() {
    for layout in LAYOUTS {
        for in_transaction in [false, true] {
            let sim = SimEnv::new(2);
            let db = open(&sim);
            let table = create(&db, layout);
            write(&db, |batch| batch.put(&table, b"k", b"old"));
            table.flush().unwrap();
            // The single-delete of the old value waits behind the new one, also in a run where all snapshots see both.
            if in_transaction {
                let mut txn = db.begin();
                txn.single_delete(&table, b"k").unwrap();
                txn.put(&table, b"k", b"newer").unwrap();
                txn.put(&table, b"k", b"new").unwrap();
                assert_eq!(txn.get(&table, b"k").unwrap().as_deref(), Some(b"new".as_slice()));
                txn.commit().unwrap();
            } else {
                write(&db, |batch| {
                    batch.single_delete(&table, b"k");
                    batch.put(&table, b"k", b"new");
                });
            }
            table.flush().unwrap();
            assert_eq!(get(&db, &table).as_deref(), Some(b"new".as_slice()), "{layout:?}");
            assert_eq!(entries_on_disk(&table), if layout == Layout::BTree { 3 } else { 5 }, "{layout:?}");
            assert!(db.verify().unwrap().problems.is_empty());
            write(&db, |batch| batch.single_delete(&table, b"k"));
            table.flush().unwrap();
            assert_eq!(get(&db, &table), None, "{layout:?}");
            drop(table);
            db.close().unwrap();

            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            assert_eq!(get(&db, &table), None, "{layout:?}");
            table.compact().unwrap();
            assert_eq!((get(&db, &table), entries_on_disk(&table)), (None, 2), "{layout:?}");
        }
    }
}

#[test]
fn a_transaction_that_puts_and_single_deletes_leaves_the_older_put_without_a_value() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(3);
        let db = open(&sim);
        let table = create(&db, layout);
        write(&db, |batch| batch.put(&table, b"k", b"old"));
        table.flush().unwrap();
        let mut txn = db.begin();
        txn.single_delete(&table, b"k").unwrap();
        txn.put(&table, b"k", b"new").unwrap();
        txn.single_delete(&table, b"k").unwrap();
        assert_eq!(txn.get(&table, b"k").unwrap(), None);
        txn.commit().unwrap();
        for _ in 0..2 {
            assert_eq!(get(&db, &table), None, "{layout:?}");
            table.flush().unwrap();
        }
        table.compact().unwrap();
        assert_eq!((get(&db, &table), entries_on_disk(&table)), (None, 2), "{layout:?}");
    }
}

#[test]
fn a_snapshot_keeps_what_it_sees_and_a_transaction_conflicts_over_what_went_together() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(4);
        let db = open(&sim);
        let table = create(&db, layout);
        let mut txn = db.begin();
        txn.put(&table, b"k", b"mine").unwrap();
        write(&db, |batch| batch.put(&table, b"k", b"old"));
        let snapshot = db.snapshot();
        write(&db, |batch| batch.single_delete(&table, b"k"));
        write(&db, |batch| batch.put(&table, b"k", b"new"));
        write(&db, |batch| batch.single_delete(&table, b"k"));
        for step in [Table::flush, Table::compact] {
            step(&table).unwrap();
            assert_eq!(snapshot.get(&table, b"k").unwrap().as_deref(), Some(b"old".as_slice()), "{layout:?}");
            assert_eq!(get(&db, &table), None, "{layout:?}");
        }
        drop(snapshot);
        table.compact().unwrap();
        assert_eq!(txn.commit().unwrap_err().kind(), ErrorKind::Conflict, "{layout:?}");
        table.compact().unwrap();
        assert_eq!(entries_on_disk(&table), 2, "{layout:?}");
    }
}

#[test]
fn the_log_replays_single_deletes_and_the_change_feed_tells_them() {
    let sim = SimEnv::new(5);
    let db = open(&sim);
    let table = create(&db, Layout::Lsm);
    let mut feed = db.changes(db.log_end()).unwrap();
    write(&db, |batch| batch.put(&table, b"k", b"value"));
    write(&db, |batch| batch.single_delete(&table, b"k"));
    db.sync().unwrap();
    let mut kinds = Vec::new();
    while let Some(commit) = feed.poll().unwrap() {
        kinds.extend(commit.changes().iter().map(|change| (change.kind, change.key.to_vec())));
    }
    assert_eq!(kinds, [(Kind::Put, b"k".to_vec()), (Kind::SingleDelete, b"k".to_vec())]);
    drop((feed, table));
    db.close().unwrap();
    let db = open(&sim);
    let table = db.table("t").unwrap().unwrap();
    assert_eq!(get(&db, &table), None);
    table.flush().unwrap();
    assert_eq!(entries_on_disk(&table), 2);
}
