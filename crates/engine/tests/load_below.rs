//! Loads that are older than all that their table holds: whatever was written since the snapshot stays.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::ops::Bound;

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, Error, ErrorKind, Layout, Options, Table, TableOptions};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).durability(Durability::Sync);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn load(table: &Table, snapshot: &spinney::Snapshot, count: u32) -> spinney::Result<()> {
    let mut load = table.bulk_load_below(snapshot)?;
    (0..count).try_for_each(|number| load.push(&key(number), b"loaded"))?;
    load.finish()
}

fn entries(db: &Database, table: &Table) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let range = db.snapshot().range(table, ..);
    let entries: BTreeMap<_, _> = range.map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap()).collect();
    let snapshot = db.snapshot();
    for number in 0..1000 {
        let found = snapshot.get(table, key(number)).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), entries.get(&key(number)));
    }
    entries
}

/// What a writer does to the table while it is loaded.
type Writes = fn(&mut Batch, &Table);

fn puts(batch: &mut Batch, table: &Table) {
    (0..1000).step_by(3).for_each(|number| batch.put(table, key(number), b"written"));
}

fn deletes(batch: &mut Batch, table: &Table) {
    (0..1000).step_by(3).for_each(|number| batch.delete(table, key(number)));
}

fn single_deletes(batch: &mut Batch, table: &Table) {
    (0..1000).step_by(3).for_each(|number| batch.single_delete(table, key(number)));
}

fn range_deletes(batch: &mut Batch, table: &Table) {
    batch.delete_range(table, (Bound::Included(&key(100)[..]), Bound::Excluded(&key(900)[..])));
    batch.put(table, key(500), b"written");
}

/// What the table must hold after the writes.
fn expected(writes: Writes) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let sim = SimEnv::new(2);
    let db = open(&sim);
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let (mut loaded, mut batch) = (Batch::new(), Batch::new());
    (0..1000).for_each(|number| loaded.put(&table, key(number), b"loaded"));
    writes(&mut batch, &table);
    [loaded, batch].iter().for_each(|batch| db.write(batch).unwrap());
    entries(&db, &table)
}

#[test]
fn what_was_written_since_the_snapshot_stays_wherever_it_lies() {
    for layout in LAYOUTS {
        for writes in [puts, deletes, single_deletes, range_deletes] {
            let expected = expected(writes);
            for (flushes, reopens) in [(false, false), (true, false), (false, true), (true, true)] {
                let sim = SimEnv::new(1);
                let db = open(&sim);
                let snapshot = db.snapshot();
                let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
                let mut load = table.bulk_load_below(&snapshot).unwrap();
                let mut batch = Batch::new();
                writes(&mut batch, &table);
                db.write(&batch).unwrap();
                (0..1000).for_each(|number| load.push(&key(number), b"loaded").unwrap());
                if flushes {
                    table.flush().unwrap();
                }
                let before = entries(&db, &table);
                assert!(!before.values().any(|value| value == b"loaded"), "nothing of the load is seen yet");
                drop(snapshot);
                load.finish().unwrap();
                assert_eq!(entries(&db, &table), expected, "{layout:?}");
                drop(table);
                if reopens {
                    drop(db);
                    sim.power_crash(CrashProfile::Strict);
                    let db = open(&sim);
                    let table = db.table("t").unwrap().unwrap();
                    assert_eq!(entries(&db, &table), expected, "{layout:?} after a power failure");
                    table.compact().unwrap();
                    assert_eq!(entries(&db, &table), expected, "{layout:?} compacted after a power failure");
                    continue;
                }
                let table = db.table("t").unwrap().unwrap();
                table.compact().unwrap();
                assert_eq!(entries(&db, &table), expected, "{layout:?} compacted");
                assert_eq!(db.verify().unwrap().problems, []);
            }
        }
    }
}

#[test]
fn a_crash_at_any_step_leaves_the_load_or_nothing_of_it() {
    for layout in LAYOUTS {
        let (mut with, mut without) = (0, 0);
        for (at, profile) in (0..80).zip(CrashProfile::EVERY.into_iter().cycle()) {
            let sim = SimEnv::new(at);
            let db = open(&sim);
            let snapshot = db.snapshot();
            let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
            let mut batch = Batch::new();
            deletes(&mut batch, &table);
            db.write(&batch).unwrap();
            sim.crash_at(sim.write_and_sync_count() + at);
            let loaded = load(&table, &snapshot, 1000);
            drop((snapshot, table, db));
            let was_through = loaded.is_ok() && !sim.is_down();
            sim.power_crash(profile);
            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            let count = entries(&db, &table).len();
            assert!(count == 666 || (count == 0 && !was_through), "{count} entries after a crash at {at}, {profile:?}");
            (with, without) = (with + usize::from(count > 0), without + usize::from(count == 0));
            assert_eq!(db.verify().unwrap().problems, []);
        }
        assert!(with > 0 && without > 0, "{layout:?}: {with} with the load, {without} without");
    }
}

#[test]
fn keys_that_were_written_meanwhile_are_told_with_both_values() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let snapshot = db.snapshot();
        let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        let mut load = table.bulk_load_below(&snapshot).unwrap();
        (0..1000).for_each(|number| load.push(&key(number), b"row 1").unwrap());
        let mut batch = Batch::new();
        batch.put(&table, key(7), b"row 2");
        batch.delete(&table, key(8));
        batch.put(&table, b"another", b"row 3");
        db.write(&batch).unwrap();
        table.flush().unwrap();
        let mut told = Vec::new();
        let finished = load.finish_with(|key, loaded, now| {
            told.push((key.to_vec(), loaded.to_vec(), now.map(<[u8]>::to_vec)));
            match now {
                Some(now) if now != loaded => Err(Error::invalid("the key is of two rows")),
                _ => Ok(()),
            }
        });
        assert!(finished.unwrap_err().to_string().contains("of two rows"));
        assert_eq!(told, [(key(7), b"row 1".to_vec(), Some(b"row 2".to_vec()))]);
        assert_eq!(entries(&db, &table).len(), 1000, "the load is there all the same");
    }
}

#[test]
fn a_key_that_is_loaded_twice_is_told_with_both_values() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let snapshot = db.snapshot();
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let mut load = table.bulk_load_below(&snapshot).unwrap();
    load.push(b"city", b"row 1").unwrap();
    let error = load.push(b"city", b"row 2").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("'city' came after 'city', with value 'row 2' after 'row 1'"), "{error}");
}

#[test]
fn a_table_that_may_have_forgotten_what_was_deleted_is_not_loaded_below() {
    let refused = |table: &Table, snapshot: &spinney::Snapshot| {
        let error = table.bulk_load_below(snapshot).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        error.to_string()
    };
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let before = db.snapshot();
    let table = db.create_table("t", TableOptions::default()).unwrap();
    table.put("a", "1").unwrap();
    assert!(refused(&table, &db.snapshot()).contains("taken after the table was created"));
    let under_way = table.bulk_load_below(&before).unwrap();
    assert!(refused(&table, &before).contains("another such load"));
    assert_eq!(table.compact().unwrap_err().kind(), ErrorKind::Invalid);
    drop(under_way);
    table.delete("a").unwrap();
    table.flush().unwrap();
    assert!(refused(&table, &before).contains("flushed"));
    let other = open(&SimEnv::new(2));
    assert!(refused(&table, &other.snapshot()).contains("another database"));
    table.compact().unwrap();
}
