//! What flushes, merges and loads write is in memory at once where there is room, and drives out nothing where there is
//! none.

use spinney::env::sim::SimEnv;
use spinney::{Batch, Compression, Database, Durability, Layout, Options, Table, TableOptions};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];
const ROWS: usize = 4000;

fn open(sim: &SimEnv, memory_bytes: u64) -> Database {
    let options = Options::default().memory_bytes(memory_bytes).log_segment_bytes(256 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order")
}

/// A table whose rows of even numbers have values of their own file.
fn create(db: &Database, name: &str, layout: Layout) -> Table {
    let options = TableOptions::default()
        .layout(layout)
        .block_bytes(512)
        .run_bytes_max(64 << 10)
        .compression(Compression::Lz4)
        .large_value_bytes(if layout == Layout::BTree { 0 } else { 300 });
    db.create_table(name, options).expect("a new table")
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn value(number: usize, round: usize) -> Vec<u8> {
    format!("{number} {round} ").into_bytes().repeat(if number.is_multiple_of(2) { 40 } else { 8 })
}

fn put(db: &Database, table: &Table, round: usize, numbers: impl Iterator<Item = usize>) {
    let mut batch = Batch::new();
    numbers.for_each(|number| batch.put(table, key(number), value(number, round)));
    db.write_with(&batch, Durability::Buffered).expect("a write");
}

/// Reads all rows, each alone and in a scan; how many blocks came from the device.
fn read_all(db: &Database, table: &Table, round: usize) -> u64 {
    let before = db.stats().storage.reads;
    let snapshot = db.snapshot();
    for number in 0..ROWS {
        let found = snapshot.get(table, key(number)).expect("a read");
        assert_eq!(found.as_deref(), Some(&*value(number, round)));
    }
    assert_eq!(snapshot.range(table, ..).count(), ROWS);
    db.stats().storage.reads - before
}

#[test]
fn what_was_just_written_is_read_from_memory_where_there_is_room() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, 64 << 20);
        let table = create(&db, "t", layout);
        put(&db, &table, 0, 0..ROWS);
        table.flush().expect("a flush");
        let after_flush = read_all(&db, &table, 0);
        put(&db, &table, 1, (0..ROWS).step_by(2));
        table.flush().expect("a flush");
        put(&db, &table, 1, (1..ROWS).step_by(2));
        table.flush().expect("a flush");
        table.compact().expect("a compaction");
        let after_compaction = read_all(&db, &table, 1);
        let loaded = create(&db, "loaded", if layout == Layout::BTree { Layout::Lsm } else { layout });
        let mut load = loaded.bulk_load().expect("a load");
        (0..ROWS).for_each(|number| load.push(&key(number), &value(number, 2)).expect("a row"));
        load.finish().expect("a load");
        let after_load = read_all(&db, &loaded, 2);
        // The tables that say where the parts of filters and the tops of indexes lie are read when a run is opened.
        for (what, reads) in [("flush", after_flush), ("compaction", after_compaction), ("load", after_load)] {
            assert_eq!(reads, 0, "{layout:?}, after a {what}");
        }
    }
}

#[test]
fn what_was_just_written_drives_out_nothing_that_was_read() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, 5 << 20);
        let hot = create(&db, "hot", layout);
        put(&db, &hot, 0, 0..ROWS);
        hot.flush().expect("a flush");
        hot.compact().expect("a compaction");
        read_all(&db, &hot, 0);
        assert_eq!(read_all(&db, &hot, 0), 0, "{layout:?}: it fits, and is in memory");
        let cold = create(&db, "cold", layout);
        for round in 0..8 {
            for part in 0..8 {
                put(&db, &cold, round, (0..ROWS).skip(part * ROWS / 8).take(ROWS / 8));
            }
            cold.flush().expect("a flush");
        }
        cold.compact().expect("a compaction");
        let cache = db.stats().cache;
        assert!(cache.populated > 0 && cache.bytes <= cache.capacity_bytes, "{cache:?}");
        assert_eq!(read_all(&db, &hot, 0), 0, "{layout:?}: the other table's writes took free room only");
    }
}

/// Leaves of equal lengths: what lies in the place of an older one is not taken for it, though a range that held the
/// old root has read that since it went.
#[test]
fn a_leaf_in_the_place_of_an_older_one_is_read_anew() {
    const FEW: usize = 400;
    let sim = SimEnv::new(1);
    let db = open(&sim, 64 << 20);
    let options = TableOptions::default().layout(Layout::BTree).block_bytes(512).compression(Compression::None);
    let table = db.create_table("t", options).expect("a new table");
    let row = |number: usize, round: usize| format!("{number:06} {round:06} ").into_bytes().repeat(6);
    let update = |round: usize| {
        let mut batch = Batch::new();
        (0..FEW).for_each(|number| batch.put(&table, key(number), row(number, round)));
        db.write_with(&batch, Durability::Buffered).expect("a write");
        table.compact().expect("a merge");
    };
    update(0);
    for round in 1..40 {
        let old = db.snapshot();
        let mut range = old.range(&table, ..);
        range.next().expect("a row").expect("a read");
        update(round);
        // Into the cache comes what is to go.
        assert_eq!(range.filter(Result::is_ok).count(), FEW - 1);
        drop(old);
        update(round + 1);
        let snapshot = db.snapshot();
        for number in 0..FEW {
            let found = snapshot.get(&table, key(number)).expect("a read");
            assert_eq!(found.as_deref(), Some(&*row(number, round + 1)), "row {number}, round {round}");
        }
    }
}
