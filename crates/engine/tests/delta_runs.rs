//! Changes that are few for a B-tree: they are parked in runs over it, and merged into it when they are many.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::SimEnv;
use spinney::{Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Shape, Table, TableOptions};
use std::collections::BTreeMap;

const MANY: u32 = 20_000;

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

/// A B-tree of many leaves, packed.
fn tree(db: &Database) -> Table {
    let (layout, compression) = (Layout::BTree, Compression::None);
    let options = TableOptions::default().layout(layout).compression(compression).run_bytes_max(16 << 10);
    let table = db.create_table("t", options).unwrap();
    write(db, &table, 0..MANY, Some(1));
    table.flush().unwrap();
    assert_eq!(counts(&table), (0, u64::from(MANY)), "what fills an empty tree is merged at once");
    table
}

fn write(db: &Database, table: &Table, keys: impl Iterator<Item = u32>, value: Option<u8>) {
    let mut batch = Batch::new();
    for key in keys {
        match value {
            Some(value) => batch.put(table, key.to_be_bytes(), [value; 60]),
            None => batch.delete(table, key.to_be_bytes()),
        }
    }
    db.write_with(&batch, Durability::Buffered).unwrap();
}

/// Keys all over the tree, few for each leaf.
fn sparse(from: u32) -> impl Iterator<Item = u32> {
    (from..MANY).step_by(200)
}

/// Holds the table, and parks so many runs over it.
fn park_held(db: &Database, table: &Table, runs: u32) {
    table.hold().unwrap();
    for round in 0..runs {
        write(db, table, sparse(round), Some(2));
        table.flush().unwrap();
    }
}

/// How many runs there are, and entries in the B-tree.
fn counts(table: &Table) -> (usize, u64) {
    let Shape { l0, levels, btree, .. } = table.shape().unwrap();
    (l0.len() + levels.len(), btree.unwrap().entries)
}

fn value(db: &Database, table: &Table, key: u32) -> Option<u8> {
    db.snapshot().get(table, key.to_be_bytes()).unwrap().map(|value| value[0])
}

fn assert_sound(db: &Database) {
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

#[test]
fn few_changes_are_parked_over_the_tree_and_many_go_into_it() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = tree(&db);
    // Dense: neighbours, which reach few leaves.
    write(&db, &table, MANY..MANY + 100, Some(2));
    table.flush().unwrap();
    assert_eq!(counts(&table), (0, u64::from(MANY) + 100));
    // Sparse: the leaves would all be written for it.
    let before = db.stats().flush.flush_bytes;
    write(&db, &table, sparse(0), Some(3));
    table.flush().unwrap();
    assert_eq!(counts(&table), (1, u64::from(MANY) + 100));
    let written = db.stats().flush.flush_bytes - before;
    assert!(written < 32 << 10, "{written} bytes for 100 entries");
    // Whatever comes after what is parked must lie over it, dense as it may be.
    write(&db, &table, 0..100, Some(4));
    table.flush().unwrap();
    assert_eq!(counts(&table), (2, u64::from(MANY) + 100));
    drop((table, db));
    let db = open(&sim);
    let table = db.table("t").unwrap().unwrap();
    for compacted in [false, true] {
        assert_eq!(counts(&table).0, if compacted { 0 } else { 2 });
        let seen = [0, 200, 201, MANY + 1].map(|key| value(&db, &table, key));
        assert_eq!(seen, [Some(4), Some(3), Some(1), Some(2)]);
        assert_eq!(db.snapshot().range(&table, ..).map(Result::unwrap).count(), MANY as usize + 100);
        assert_sound(&db);
        table.compact().unwrap();
    }
    assert_eq!(counts(&table), (0, u64::from(MANY) + 100));
}

#[test]
fn parked_changes_go_into_the_tree_when_they_are_a_quarter_of_it() {
    let sim = SimEnv::new(2);
    let db = open(&sim);
    let table = tree(&db);
    let mut model: BTreeMap<u32, u8> = (0..MANY).map(|key| (key, 1)).collect();
    let (mut absorbed, mut parked_most) = (0, 0);
    for round in 0..200_u8 {
        let value = (round % 5 > 0).then_some(round);
        write(&db, &table, sparse(u32::from(round)), value);
        for key in sparse(u32::from(round)) {
            match value {
                Some(value) => model.insert(key, value),
                None => model.remove(&key),
            };
        }
        let before = counts(&table);
        table.flush().unwrap();
        table.wait_idle().unwrap();
        let after = counts(&table);
        assert!(after.0 < 10, "{:?}", table.shape());
        absorbed += u32::from(after.0 < before.0 && after.1 != before.1);
        parked_most = parked_most.max(after.0);
    }
    assert!((2..20).contains(&absorbed) && parked_most > 2, "{absorbed} times, {parked_most} runs");
    // Each time all leaves are written: with every flush it would be 200 times.
    let flush = db.stats().flush;
    let shape = table.shape().unwrap().btree.unwrap();
    let trees = (flush.compaction_write_bytes + flush.flush_bytes) / (shape.file_bytes - shape.free_bytes);
    assert!(trees < 20, "{trees} times the tree");
    let seen = db.snapshot().range(&table, ..).map(|entry| {
        let (key, value) = entry.unwrap();
        (u32::from_be_bytes(key.try_into().unwrap()), value[0])
    });
    assert!(seen.eq(model));
    assert_sound(&db);
}

#[test]
fn a_snapshot_keeps_what_it_saw_while_changes_are_parked_and_merged() {
    let sim = SimEnv::new(3);
    let db = open(&sim);
    let table = tree(&db);
    let old = db.snapshot();
    write(&db, &table, sparse(0), None);
    table.flush().unwrap();
    let deleted = db.snapshot();
    write(&db, &table, sparse(0), Some(2));
    table.flush().unwrap();
    assert_eq!(counts(&table).0, 2);
    for _ in 0..2 {
        let got = |snapshot: &spinney::Snapshot, key: u32| snapshot.get(&table, key.to_be_bytes()).unwrap();
        assert_eq!(got(&old, 400).unwrap()[0], 1);
        assert!(got(&deleted, 400).is_none());
        assert_eq!(got(&db.snapshot(), 400).unwrap()[0], 2);
        assert_eq!(deleted.range(&table, ..).count(), MANY as usize - sparse(0).count());
        table.compact().unwrap();
        assert_eq!(counts(&table).0, 0);
    }
    drop((old, deleted));
    table.compact().unwrap();
    assert_eq!(counts(&table), (0, u64::from(MANY)));
}

#[test]
fn what_is_erased_from_the_tree_gives_its_space_back_though_changes_are_parked() {
    let sim = SimEnv::new(4);
    let db = open(&sim);
    let table = tree(&db);
    write(&db, &table, sparse(0), Some(2));
    table.flush().unwrap();
    assert_eq!(counts(&table).0, 1);
    let mut batch = Batch::new();
    batch.delete_range(&table, &100_u32.to_be_bytes()[..]..);
    db.write_with(&batch, Durability::Sync).unwrap();
    table.flush().unwrap();
    table.wait_idle().unwrap();
    assert_eq!((counts(&table), table.shape().unwrap().range_tombstones), ((0, 100), 0));
    assert_eq!(db.snapshot().range(&table, ..).count(), 100);
    assert_sound(&db);
}

#[test]
fn little_that_is_erased_from_the_tree_waits_for_the_next_merge_of_it() {
    let sim = SimEnv::new(4);
    let db = open(&sim);
    let table = tree(&db);
    for round in 0..5 {
        write(&db, &table, sparse(round).take(50), Some(2));
        let mut batch = Batch::new();
        let (low, high) = (MANY - 100 * (round + 1), MANY - 100 * round);
        batch.delete_range(&table, &low.to_be_bytes()[..]..&high.to_be_bytes()[..]);
        db.write_with(&batch, Durability::Sync).unwrap();
        table.flush().unwrap();
        table.wait_idle().unwrap();
    }
    assert!(counts(&table).0 > 0 && counts(&table).1 == u64::from(MANY), "{:?}", table.shape());
    let left = MANY as usize - 500;
    assert_eq!((db.snapshot().range(&table, ..).count(), value(&db, &table, MANY - 50)), (left, None));
    table.compact().unwrap();
    assert_eq!((counts(&table), table.shape().unwrap().range_tombstones), ((0, left as u64), 0));
    assert_sound(&db);
}

#[test]
fn a_full_disk_leaves_changes_parked_until_there_is_space() {
    const SPACE: u64 = 1 << 40;
    let sim = SimEnv::new(5);
    let db = open(&sim);
    let table = tree(&db);
    park_held(&db, &table, 100);
    sim.set_space(SPACE);
    let used = SPACE - sim.env().fs.free_bytes("/db".as_ref()).unwrap();
    // Enough for the log and for flushes, and for some of the merge.
    sim.set_space(used + (300 << 10));
    table.release().unwrap();
    assert_eq!(table.wait_idle().unwrap_err().kind(), ErrorKind::Full);
    // Smaller merges, of runs among themselves, went on.
    assert!((1..10).contains(&counts(&table).0), "{:?}", table.shape());
    assert!(db.stats().flush.space_missing_bytes > 0);
    assert_eq!(table.compact().unwrap_err().kind(), ErrorKind::Full, "begun by hand it ends where the disk does");
    write(&db, &table, 0..1, Some(3));
    assert_eq!((value(&db, &table, 0), value(&db, &table, 201)), (Some(3), Some(2)));
    sim.set_space(SPACE);
    table.wait_idle().unwrap();
    assert_eq!((counts(&table), value(&db, &table, 0)), ((0, u64::from(MANY)), Some(3)));
    assert_sound(&db);
}

#[test]
fn a_table_is_dropped_while_its_parked_changes_are_merged() {
    let sim = SimEnv::new(6);
    let db = open(&sim);
    let table = tree(&db);
    park_held(&db, &table, 10);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(table.compact()));
        db.drop_table("t").unwrap();
    });
    drop(table);
    assert_sound(&db);
    drop(db);
    assert!(open(&sim).tables().unwrap().is_empty());
}

#[test]
fn what_is_in_memory_survives_a_crash_after_a_merge_of_what_was_parked() {
    let sim = SimEnv::new(7);
    let db = open(&sim);
    let table = tree(&db);
    park_held(&db, &table, 100);
    write(&db, &table, sparse(0).take(3), Some(7));
    db.sync().unwrap();
    table.release().unwrap();
    table.wait_idle().unwrap();
    assert_eq!(counts(&table).0, 0);
    assert_eq!(table.shape().unwrap().memtable_entries, 3, "only the runs went into the tree");
    sim.process_crash();
    drop((table, db));
    let db = open(&sim);
    let table = db.table("t").unwrap().unwrap();
    assert_eq!([0, 200, 400, 600].map(|key| value(&db, &table, key)), [Some(7), Some(7), Some(7), Some(2)]);
    assert_sound(&db);
}

#[test]
fn a_long_merge_leaves_the_runs_that_it_takes_in_as_they_are() {
    let sim = SimEnv::new(8);
    let db = open(&sim);
    let options = TableOptions::default().layout(Layout::BTree).run_bytes_max(16 << 10).block_bytes(512);
    let table = db.create_table("t", options).unwrap();
    write(&db, &table, 0..MANY, Some(1));
    table.flush().unwrap();
    assert!(table.shape().unwrap().btree.unwrap().leaves > 1000, "long enough to look after other work in between");
    park_held(&db, &table, 12);
    assert_eq!(counts(&table).0, 12);
    table.compact().unwrap();
    assert_eq!(counts(&table), (0, u64::from(MANY)));
    assert_eq!((value(&db, &table, 11), value(&db, &table, 12)), (Some(2), Some(1)));
    assert_sound(&db);
}

#[test]
fn the_file_gives_back_what_a_merge_left_free() {
    let sim = SimEnv::new(9);
    let db = open(&sim);
    let table = tree(&db);
    let free = || sim.env().fs.free_bytes("/db".as_ref()).unwrap();
    sim.set_space(1 << 40);
    let live = || table.shape().unwrap().btree.map(|tree| tree.file_bytes - tree.free_bytes).unwrap();
    let packed = live();
    for round in 0..100 {
        write(&db, &table, sparse(round), Some(2));
        table.flush().unwrap();
        table.wait_idle().unwrap();
    }
    table.compact().unwrap();
    // The log's segments are there with and without.
    let used = (1 << 40) - free();
    assert!(live() <= packed + packed / 20 && used < packed + packed / 4 + (512 << 10), "{used} for {packed}");
}
