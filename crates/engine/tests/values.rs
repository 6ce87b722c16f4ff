//! Large values kept apart from their keys: written once, read only when wanted, and their space comes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{Fault, SimEnv};
use spinney::{
    Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Snapshot, Table, TableOptions, ValuesShape,
};
use spinney_testkit::Rng;
use std::path::{Path, PathBuf};

const LAYOUTS: [Layout; 2] = [Layout::Lsm, Layout::LsmTiered];
const VALUE_BYTES: usize = 4000;

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(1 << 20);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn create(db: &Database, name: &str, layout: Layout, large_value_bytes: u32) -> Table {
    let options = TableOptions::default()
        .layout(layout)
        .large_value_bytes(large_value_bytes)
        .run_bytes_max(32 << 10)
        .fanout(4)
        .compression(Compression::None);
    db.create_table(name, options).unwrap()
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// The value of a key after so many rounds, which does not compress.
fn value(number: usize, round: usize) -> Vec<u8> {
    Rng::new((number * 1000 + round).try_into().unwrap()).bytes(VALUE_BYTES)
}

/// Gives keys their values of a round, and flushes.
fn put(db: &Database, table: &Table, numbers: impl Iterator<Item = usize>, round: usize) {
    let mut batch = Batch::new();
    numbers.for_each(|number| batch.put(table, key(number), value(number, round)));
    db.write_with(&batch, Durability::Buffered).unwrap();
    table.flush().unwrap();
}

fn value_files(sim: &SimEnv) -> Vec<PathBuf> {
    let entries = sim.env().fs.list(Path::new("/db")).unwrap().into_iter();
    entries.filter(|entry| entry.name.ends_with(".values")).map(|entry| Path::new("/db").join(entry.name)).collect()
}

/// Every key has the value of a round, however it is read.
fn assert_round(snapshot: &Snapshot, table: &Table, keys: usize, round: impl Fn(usize) -> usize) {
    let expected: Vec<_> = (0..keys).map(|number| (key(number), value(number, round(number)))).collect();
    let same = |found: Vec<(Vec<u8>, spinney::Value)>| {
        found.len() == keys && found.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && a.1 == b.1)
    };
    assert!(same(snapshot.range(table, ..).collect::<Result<_, _>>().unwrap()));
    let mut backward = snapshot.range_rev(table, ..).collect::<Result<Vec<_>, _>>().unwrap();
    backward.reverse();
    assert!(same(backward));
    let wanted: Vec<&[u8]> = expected.iter().map(|(key, _)| key.as_slice()).collect();
    let together = snapshot.multi_get(table, &wanted).unwrap();
    for ((key, value), found) in expected.iter().zip(together) {
        assert!(found.is_some_and(|found| found == *value));
        assert!(snapshot.get(table, key).unwrap().is_some_and(|found| found == *value));
    }
}

#[test]
fn compactions_write_keys_and_not_values() {
    let written = |layout, large_value_bytes| {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = create(&db, "t", layout, large_value_bytes);
        for round in 0..12 {
            put(&db, &table, (round..240).step_by(12), 0);
        }
        table.compact().unwrap();
        assert_round(&db.snapshot(), &table, 240, |_| 0);
        let stats = db.stats().flush;
        assert!(stats.flush_bytes > 240 * 4000);
        stats.compaction_write_bytes
    };
    for layout in LAYOUTS {
        let (apart, whole) = (written(layout, 4000), written(layout, 4001));
        assert!(apart < 100_000 && whole > 900_000, "{layout:?}: {apart} bytes and {whole}");
    }
}

#[test]
fn overwritten_values_take_as_much_space_again_at_most_and_none_after_a_compaction() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(2);
        let db = open(&sim);
        let table = create(&db, "t", layout, 1000);
        let mut rng = Rng::new(3);
        let mut rounds = vec![0; 300];
        put(&db, &table, 0..300, 0);
        for round in 1..60 {
            let from = rng.in_range(0..250);
            put(&db, &table, from..from + 50, round);
            rounds[from..from + 50].fill(round);
            table.wait_idle().unwrap();
            let ValuesShape { files, bytes, live_bytes, .. } = table.shape().unwrap().values;
            assert!(bytes <= 2 * live_bytes, "{layout:?}: {live_bytes} of {bytes} bytes are live");
            assert_eq!(files, u64::try_from(value_files(&sim).len()).unwrap());
        }
        assert_round(&db.snapshot(), &table, 300, |number| rounds[number]);
        table.compact().unwrap();
        let ValuesShape { bytes, live_bytes, .. } = table.shape().unwrap().values;
        assert!(live_bytes >= 300 * 4000 && bytes * 94 <= live_bytes * 100, "{layout:?}: {live_bytes} of {bytes}");
        assert!(bytes < 320 * 4100, "{layout:?}: values that nobody sees are live: {bytes}");
        assert_round(&db.snapshot(), &table, 300, |number| rounds[number]);
        let report = db.verify().unwrap();
        assert_eq!((report.problems.len(), report.dead_value_bytes), (0, bytes - live_bytes));
        assert_eq!(db.stats().values, table.shape().unwrap().values);
        drop(table);
        db.close().unwrap();
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        assert_eq!(table.shape().unwrap().values.bytes, bytes);
        assert_round(&db.snapshot(), &table, 300, |number| rounds[number]);
    }
}

#[test]
fn a_table_that_is_held_moves_no_values() {
    let sim = SimEnv::new(2);
    let db = open(&sim);
    let table = create(&db, "t", Layout::Lsm, 1000);
    put(&db, &table, 0..100, 0);
    table.compact().unwrap();
    table.hold().unwrap();
    put(&db, &table, (0..100).filter(|number| number % 10 > 0), 1);
    put(&db, &table, (0..100).filter(|number| number % 10 > 1), 2);
    table.compact_level(0).unwrap();
    table.wait_idle().unwrap();
    let held = table.shape().unwrap().values;
    assert!(held.bytes > 2 * held.live_bytes, "{held:?}");
    table.release().unwrap();
    table.wait_idle().unwrap();
    let ValuesShape { bytes, live_bytes, .. } = table.shape().unwrap().values;
    assert!(bytes <= 2 * live_bytes, "{live_bytes} of {bytes}");
    assert_round(&db.snapshot(), &table, 100, |number| (number % 10).min(2));
}

#[test]
fn what_a_snapshot_sees_stays_while_its_files_go() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(4);
        let db = open(&sim);
        let table = create(&db, "t", layout, 1000);
        put(&db, &table, 0..60, 0);
        let (old, first) = (db.snapshot(), value_files(&sim));
        let mut walk = old.range(&table, ..);
        let kept = walk.next().unwrap().unwrap().1;
        put(&db, &table, 0..60, 1);
        table.compact().unwrap();
        assert_round(&old, &table, 60, |_| 0);
        assert_round(&db.snapshot(), &table, 60, |_| 1);
        drop(old);
        put(&db, &table, 0..60, 2);
        table.compact().unwrap();
        let files = value_files(&sim);
        assert!(first.iter().all(|file| !files.contains(file)), "{layout:?}: {first:?} are still among {files:?}");
        // It began when they were there.
        let rest: Vec<_> = walk.map(|entry| entry.unwrap().1).collect();
        assert!(rest.iter().enumerate().all(|(at, found)| *found == value(at + 1, 0)) && rest.len() == 59);
        assert_eq!(kept, value(0, 0));
    }
}

#[test]
fn keys_are_walked_and_looked_for_without_their_values() {
    let sim = SimEnv::new(5);
    let db = open(&sim);
    let table = create(&db, "t", Layout::Lsm, 1000);
    put(&db, &table, 0..200, 0);
    let snapshot = db.snapshot();
    let before = db.stats().storage.read_bytes;
    let mut walk = snapshot.range(&table, ..);
    let mut keys = 0;
    while let Some(found) = walk.advance_key().unwrap() {
        assert_eq!(found, key(keys));
        assert!(snapshot.contains(&table, found).unwrap() && db.begin().contains(&table, found).unwrap());
        keys += 1;
    }
    let read = db.stats().storage.read_bytes - before;
    assert!(keys == 200 && read < 60_000, "{read} bytes are read for {keys} keys");
    assert!(!snapshot.contains(&table, b"absent").unwrap());
    // And one after the other, only the values asked for.
    let mut walk = snapshot.range_rev(&table, ..);
    assert_eq!(walk.advance_key().unwrap(), Some(&*key(199)));
    assert_eq!(walk.advance().unwrap(), Some((&*key(198), &*value(198, 0))));
    assert_eq!(walk.advance_key().unwrap(), Some(&*key(197)));
    assert_eq!(walk.next().unwrap().unwrap().1, value(196, 0));
    let read = db.stats().storage.read_bytes - before - read;
    assert!(read < 5 * 8192, "{read} bytes are read for two values");
}

#[test]
fn a_flipped_byte_is_found_by_who_reads_the_value_and_by_verify() {
    let sim = SimEnv::new(6);
    let db = open(&sim);
    let table = create(&db, "t", Layout::Lsm, 1000);
    put(&db, &table, 0..20, 0);
    drop(table);
    db.close().unwrap();
    let files = value_files(&sim);
    let [file] = files.as_slice() else { panic!("{files:?}") };
    sim.corrupt(file, 10 * 4084 + 2000, 1).unwrap();
    let db = open(&sim);
    let table = db.table("t").unwrap().unwrap();
    let snapshot = db.snapshot();
    let wrong = |error: spinney::Error| {
        assert_eq!(
            (error.kind(), error.place()),
            (ErrorKind::Corruption, Some((file.as_path(), 10 * 4084))),
            "{error}"
        );
    };
    assert_eq!(snapshot.get(&table, key(9)).unwrap().unwrap(), value(9, 0));
    wrong(snapshot.get(&table, key(10)).unwrap_err());
    wrong(snapshot.multi_get(&table, &[&key(9), &key(10)]).unwrap_err());
    let mut walk = snapshot.range(&table, ..);
    assert_eq!(walk.by_ref().take(10).filter(Result::is_ok).count(), 10);
    wrong(walk.next().unwrap().unwrap_err());
    assert!(walk.next().is_none());
    let mut transaction = db.begin();
    transaction.put(&table, key(5), value(5, 1)).unwrap();
    transaction.put(&table, key(15), value(15, 1)).unwrap();
    for mut walk in [transaction.range(&table, ..), transaction.range_rev(&table, ..)] {
        wrong(walk.find_map(Result::err).unwrap());
        assert!(walk.next().is_none(), "an error is the end, whatever the transaction has behind it");
    }
    drop(transaction);
    assert!(snapshot.contains(&table, key(10)).unwrap());
    let problems = db.verify().unwrap().problems;
    assert!(problems.len() == 1 && problems[0].what.contains(".values"), "{problems:?}");
}

#[test]
fn the_files_of_a_dropped_table_go_at_once() {
    let sim = SimEnv::new(7);
    let db = open(&sim);
    let (table, other) = (create(&db, "t", Layout::Lsm, 1000), create(&db, "u", Layout::LsmTiered, 1000));
    put(&db, &table, 0..50, 0);
    put(&db, &other, 0..50, 0);
    let snapshot = db.snapshot();
    let mut walk = snapshot.range(&table, ..);
    assert_eq!(value_files(&sim).len(), 2);
    db.drop_table("t").unwrap();
    assert_eq!(value_files(&sim).len(), 1);
    assert_eq!(walk.next().unwrap().unwrap().1, value(0, 0));
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

#[test]
fn a_disk_that_fills_up_under_a_compaction_of_values_loses_nothing() {
    let sim = SimEnv::new(8);
    let db = open(&sim);
    let table = create(&db, "t", Layout::Lsm, 1000);
    table.hold().unwrap();
    put(&db, &table, 0..400, 0);
    for round in 1..4 {
        put(&db, &table, (0..400).filter(|number| number % 4 != round), round);
    }
    let newest = |number: usize| if number % 4 == 3 { 2 } else { 3 };
    let mut refused = 0;
    for room in (0..40).map(|step| step * 100_000) {
        sim.set_space(room);
        match table.compact() {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Full, "{error}"),
        }
        refused += 1;
        assert_round(&db.snapshot(), &table, 400, newest);
    }
    assert!(refused > 0);
    sim.set_space(u64::MAX);
    table.compact().unwrap();
    assert_round(&db.snapshot(), &table, 400, newest);
    assert_eq!(db.verify().unwrap().problems, vec![]);
    let ValuesShape { bytes, live_bytes, .. } = table.shape().unwrap().values;
    assert!(bytes * 94 <= live_bytes * 100 && bytes < 420 * 4100, "{live_bytes} of {bytes}");
}

/// What was written for a compaction is given up, and not the values that it was to refer to.
#[test]
fn a_compaction_that_fails_at_any_call_keeps_the_values_of_before() {
    for fault in [Fault::NoSpace, Fault::TooManyFiles] {
        let begun = SimEnv::new(1);
        begun.set_lazy_workers(true);
        let db = open(&begun);
        let table = create(&db, "t", Layout::Lsm, 1000);
        (0..4).for_each(|round| put(&db, &table, (0..20).filter(|number| number % 4 >= round), round));
        db.close().unwrap();
        let mut refused = 0;
        for call in 0.. {
            let sim = begun.fork();
            sim.set_lazy_workers(true);
            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            sim.fail_at(sim.op_count() + call, fault);
            refused += u64::from(table.compact().is_err());
            if sim.struck().is_none() {
                break;
            }
            sim.clear_faults();
            assert_round(&db.snapshot(), &table, 20, |number| number % 4);
            drop((table, db));
            sim.process_crash();
            let db = open(&sim);
            assert_round(&db.snapshot(), &db.table("t").unwrap().unwrap(), 20, |number| number % 4);
            assert_eq!(db.verify().unwrap().problems, vec![], "{fault:?} at call {call}");
        }
        assert!(refused > 1, "{refused} compactions were refused");
    }
}

#[test]
fn a_bulk_load_keeps_values_apart_and_leaves_nothing_when_it_is_given_up() {
    let sim = SimEnv::new(9);
    let db = open(&sim);
    let table = create(&db, "t", Layout::Lsm, 1000);
    let load = |finish: bool| {
        let mut load = table.bulk_load().unwrap();
        (0..200).for_each(|number| load.push(&key(number), &value(number, 0)).unwrap());
        assert_eq!(db.verify().unwrap().problems, vec![]);
        if finish { load.finish().unwrap() } else { drop(load) }
    };
    load(false);
    assert_eq!(value_files(&sim).len(), 0);
    load(true);
    assert!(value_files(&sim).len() > 1, "a value file has a size");
    assert_round(&db.snapshot(), &table, 200, |_| 0);
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

#[test]
fn a_table_that_cannot_have_it_says_so() {
    let db = open(&SimEnv::new(10));
    let options = TableOptions::default().layout(Layout::BTree).large_value_bytes(4096);
    let error = db.create_table("t", options).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("large_value_bytes"), "{error}");
}
