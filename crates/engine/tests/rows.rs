//! Rows of keys in order of time, side by side, as of many sensors: a compaction takes leaves over that no other tree
//! touches.

use spinney::env::Env;
use spinney::env::sim::SimEnv;
use spinney::{Batch, Compression, Database, Durability, Layout, Options, Table, TableOptions};
use spinney_testkit::Rng;
use std::collections::BTreeMap;

const ROWS: u64 = 12;
const ROUNDS: u64 = 120;
const TIMES: u64 = 18;

fn open(env: Env) -> Database {
    let options = Options::default().memory_bytes(8 << 20).memtable_bytes(32 << 10);
    Database::builder("/db").options(options).env(env).open().expect("it opens")
}

fn options(compression: Compression) -> TableOptions {
    TableOptions::default()
        .layout(Layout::Lsm)
        .compression(compression)
        .block_bytes(512)
        .run_bytes_max(64 << 10)
        .fanout(4)
}

fn key(row: u64, time: u64) -> Vec<u8> {
    [row.to_be_bytes(), time.to_be_bytes()].concat()
}

fn value(n: u64) -> Vec<u8> {
    n.to_be_bytes().repeat(3)
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Puts some entries at the end of each row.
fn go_on(db: &Database, table: &Table, model: &mut Model, times: std::ops::Range<u64>) {
    for time in times {
        let mut batch = Batch::new();
        for row in 0..ROWS {
            let (key, value) = (key(row, time), value(row * time));
            batch.put(table, &key, &value);
            model.insert(key, value);
        }
        db.write_with(&batch, Durability::Buffered).expect("written");
    }
}

fn check(db: &Database, table: &Table, model: &Model) {
    let found: Vec<_> = db.snapshot().range(table, ..).map(|entry| entry.expect("readable")).collect();
    assert_eq!(found.len(), model.len());
    for ((key, value), (expected_key, expected)) in found.iter().zip(model) {
        assert_eq!((&key[..], &value[..]), (&expected_key[..], &expected[..]));
    }
    for key in model.keys().step_by(17) {
        assert_eq!(db.snapshot().get(table, key).expect("readable").as_deref(), model.get(key).map(|value| &value[..]));
    }
    let report = db.verify().expect("readable");
    assert!(report.problems.is_empty(), "{report:?}");
}

#[test]
fn leaves_of_rows_are_taken_over_and_stay_full() {
    let env = SimEnv::new(1).env();
    let db = open(env.clone());
    let mut sizes = Vec::new();
    for (name, compression) in [("plain", Compression::None), ("lz4", Compression::Lz4)] {
        let table = db.create_table(name, options(compression)).unwrap();
        let mut model = Model::new();
        let before = db.stats().flush.compaction_reused_leaves;
        for round in 0..ROUNDS {
            go_on(&db, &table, &mut model, round * TIMES..(round + 1) * TIMES);
            table.flush().unwrap();
            table.compact_level(0).unwrap();
        }
        let reused = db.stats().flush.compaction_reused_leaves - before;
        assert!(reused > 4_000, "{name}: {reused} leaves");
        check(&db, &table, &model);
        // Written once by entries alone, they take about as much room. (A round adds a leaf and a half to each row,
        // which is where leaves that are closed early would cost most.)
        let bytes = |table: &Table| table.shape().unwrap().levels.iter().map(|level| level.bytes).sum::<u64>();
        let many_times = bytes(&table);
        let once = db.create_table(&format!("{name} once"), options(compression)).unwrap();
        let mut load = once.bulk_load().unwrap();
        model.iter().for_each(|(key, value)| load.push(key, value).unwrap());
        load.finish().unwrap();
        sizes.push((name, many_times, bytes(&once)));
    }
    for (name, many_times, once) in sizes {
        assert!(many_times < once + once / 8, "{name}: {many_times} bytes, and {once} when written once");
    }
}

/// Beside what is new, old entries are put anew and deleted, while snapshots are open that see them.
#[test]
fn what_is_changed_within_a_row_is_changed() {
    let mut reused = 0;
    for seed in 0..12 {
        let env = SimEnv::new(seed).env();
        let (mut db, mut random) = (open(env.clone()), Rng::new(seed));
        db.create_table("rows", options(if seed % 2 == 0 { Compression::Lz4 } else { Compression::None })).unwrap();
        let mut model = Model::new();
        let mut views = Vec::new();
        for round in 0..12 {
            let table = db.table("rows").unwrap().unwrap();
            go_on(&db, &table, &mut model, round * 60..(round + 1) * 60);
            let mut batch = Batch::new();
            for _ in 0..(random.number() % 6) {
                let key = key(random.number() % ROWS, random.number() % (round * 60 + 60));
                if random.chance(50) {
                    batch.delete(&table, &key);
                    model.remove(&key);
                } else {
                    batch.put(&table, &key, b"anew");
                    model.insert(key, b"anew".to_vec());
                }
            }
            db.write_with(&batch, Durability::Buffered).unwrap();
            if random.chance(40) {
                views.push((db.snapshot(), model.clone()));
            }
            if random.chance(30) && !views.is_empty() {
                views.swap_remove(0);
            }
            table.flush().unwrap();
            match random.number() % 4 {
                0 => table.compact().unwrap(),
                1 | 2 => table.compact_level(0).unwrap(),
                _ => table.wait_idle().unwrap(),
            }
            for (view, model) in &views {
                let found: Vec<_> = view.range(&table, ..).map(|entry| entry.unwrap()).collect();
                assert!(
                    found.iter().map(|(key, value)| (&**key, &**value)).eq(model.iter().map(|(k, v)| (&**k, &**v)))
                );
            }
            check(&db, &table, &model);
            if random.chance(20) {
                views.clear();
                drop(table);
                reused += db.stats().flush.compaction_reused_leaves;
                db.close().unwrap();
                db = open(env.clone());
            }
        }
        reused += db.stats().flush.compaction_reused_leaves;
    }
    assert!(reused > 1_000, "{reused} leaves");
}
