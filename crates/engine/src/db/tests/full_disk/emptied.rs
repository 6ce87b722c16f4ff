//! Tests of a disk that the database has filled: each way to delete makes room again, without help.

use std::ops::Bound;

use crate::tree::btree::TreeMeta;

use super::*;

/// The disk.
const SPACE: u64 = 8 << 20;
const VALUE_BYTES: usize = 1000;

fn open_small(sim: &SimEnv) -> Database {
    let options = Options { memory_bytes: 1 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn create_small(db: &Database, layout: Layout) -> Table {
    let options = TableOptions { layout, run_bytes_max: 64 << 10, ..TableOptions::default() };
    db.create_table("t", options).unwrap()
}

fn free(sim: &SimEnv) -> u64 {
    sim.env().fs.free_bytes(Path::new("/db")).unwrap()
}

fn key(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9e37_79b9).to_be_bytes()
}

/// Puts rows in no order, ten in a commit; the first error.
fn put_rows(db: &Database, table: &Table, numbers: std::ops::Range<u32>) -> Result<()> {
    for number in numbers.step_by(10) {
        let mut batch = Batch::new();
        for number in number..number + 10 {
            let value: Vec<u8> =
                (0..VALUE_BYTES / 8).flat_map(|_| db.core().state.env.random.next().to_le_bytes()).collect();
            batch.put(table, key(number), &value);
        }
        db.write_with(&batch, Durability::Buffered)?;
    }
    Ok(())
}

/// Fills the disk; how many rows were put.
fn fill(db: &Database, table: &Table) -> u32 {
    (0..).step_by(10).find(|number| put_rows(db, table, *number..number + 10).is_err()).unwrap()
}

fn delete_rows(db: &Database, table: &Table, numbers: std::ops::Range<u32>) {
    for number in numbers.step_by(10) {
        let mut batch = Batch::new();
        (number..number + 10).for_each(|number| batch.delete(table, key(number)));
        let written = db.write_with(&batch, Durability::Buffered);
        written.unwrap_or_else(|error| panic!("row {number}, {:?}: {error}", table.shape().unwrap()));
    }
}

type Verb = fn(&Database, &Table, u32);

const VERBS: [(&str, Verb); 4] = [
    ("drop", |db, _, _| db.drop_table("t").unwrap()),
    ("delete_range", |db, table, _| {
        let mut batch = Batch::new();
        batch.delete_range(table, (Bound::<&[u8]>::Unbounded, Bound::Unbounded));
        db.write_with(&batch, Durability::Buffered).unwrap();
    }),
    ("delete", |db, table, rows| {
        delete_rows(db, table, 0..rows);
        table.flush().unwrap();
    }),
    ("compact", |db, table, rows| {
        table.hold().unwrap();
        delete_rows(db, table, 0..rows);
        table.compact().unwrap();
        table.release().unwrap();
    }),
];

#[test]
fn a_commit_that_makes_room_by_what_follows_is_let_through_on_a_disk_that_is_full() {
    let sim = SimEnv::new(1);
    sim.set_space(SPACE);
    let db = open_small(&sim);
    let table = create_small(&db, Layout::Lsm);
    let rows = fill(&db, &table);
    let mut batch = Batch::new();
    for number in rows..rows + 10 {
        batch.put(&table, key(number), [7; VALUE_BYTES]);
    }
    let refused = |batch: &Batch| db.write_with(batch, Durability::Buffered).unwrap_err().kind() == ErrorKind::Full;
    assert!(refused(&batch));
    batch.makes_room();
    db.write_with(&batch, Durability::Buffered).unwrap();
    batch.clear();
    for number in rows..rows + 10 {
        batch.put(&table, key(number), [7; VALUE_BYTES]);
    }
    assert!(refused(&batch), "a batch that was cleared says nothing");
    let mut txn = db.begin();
    txn.put(&table, "row", [7; 10 * VALUE_BYTES]).unwrap();
    txn.makes_room();
    txn.commit_with(Durability::Buffered).unwrap();
    db.drop_table("t").unwrap();
}

#[test]
fn each_way_to_delete_makes_room_on_a_disk_that_is_full() {
    for layout in LAYOUTS {
        for (what, verb) in VERBS {
            let when = format!("{what}, {layout:?}");
            let sim = SimEnv::new(1);
            sim.set_space(SPACE);
            let db = open_small(&sim);
            let table = create_small(&db, layout);
            let rows = fill(&db, &table);
            let error = put_rows(&db, &table, rows..rows + 10).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Full, "{when}: {error}");
            sim.advance(Duration::from_secs(5));
            assert!(free(&sim) < SPACE / 4, "{when}: {rows} rows, {} bytes are free", free(&sim));
            verb(&db, &table, rows);
            drop(table);
            for _ in 0..5 {
                sim.advance(Duration::from_secs(1));
            }
            db.core().state.health.check_writable().unwrap();
            let shape = db.table("t").unwrap().map(|table| table.shape().unwrap());
            assert!(free(&sim) >= SPACE / 10 * 9, "{when}: {rows} rows, {} bytes are free: {shape:?}", free(&sim));
            assert_eq!(db.verify().unwrap().problems, [], "{when}");
            let table = db.table("t").unwrap().unwrap_or_else(|| create_small(&db, layout));
            put_rows(&db, &table, 0..1000).unwrap();
            assert_eq!(db.snapshot().range(&table, ..).count(), 1000, "{when}");
            drop(table);
            db.close().unwrap();
            let db = open_small(&sim);
            assert_eq!(db.snapshot().range(&db.table("t").unwrap().unwrap(), ..).count(), 1000, "{when}");
        }
    }
}

/// Bytes of all trees.
fn data_bytes(table: &Table) -> u64 {
    let trees = table.state().version.load().trees.clone();
    let runs: u64 = trees.runs().map(|handle| handle.run.meta().bytes).sum();
    runs + trees.btree.as_ref().map_or(0, |root| TreeMeta::live_bytes(root.meta()))
}

/// What rows took that were deleted one by one stayed taken until a scan had met their tombstones often.
#[test]
fn rows_deleted_one_by_one_give_their_space_back_when_they_are_flushed_and_then_nothing_is_written() {
    const ROWS: u32 = 4000;
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        sim.set_space(1 << 30);
        let db = open_small(&sim);
        let table = create_small(&db, layout);
        put_rows(&db, &table, 0..ROWS).unwrap();
        table.flush().unwrap();
        sim.advance(Duration::from_secs(5));
        let (before, free_before) = (data_bytes(&table), free(&sim));
        // A snapshot sees them still.
        let snapshot = db.snapshot();
        delete_rows(&db, &table, 0..ROWS);
        table.flush().unwrap();
        sim.advance(Duration::from_secs(5));
        assert!(data_bytes(&table) >= before / 10 * 9, "{layout:?}");
        let changes = sim.write_and_sync_count();
        for _ in 0..5 {
            sim.advance(Duration::from_secs(1));
            db.core().state.wakers.wake_compaction();
        }
        assert_eq!(sim.write_and_sync_count(), changes, "{layout:?}: the snapshot keeps all");
        assert_eq!(snapshot.range(&table, ..).count(), ROWS as usize, "{layout:?}");
        drop(snapshot);
        sim.advance(Duration::from_secs(5));
        let shape = table.shape().unwrap();
        assert!(data_bytes(&table) <= before / 10, "{layout:?}: {} of {before} bytes: {shape:?}", data_bytes(&table));
        assert!(free(&sim) >= free_before + before / 10 * 8, "{layout:?}: {} after {free_before}", free(&sim));
        assert_eq!(db.snapshot().range(&table, ..).count(), 0);
        // The counters of this scan are told to other processes.
        sim.advance(Duration::from_secs(1));
        let changes = sim.write_and_sync_count();
        for _ in 0..5 {
            sim.advance(Duration::from_secs(1));
            db.core().state.wakers.wake_compaction();
        }
        assert_eq!(sim.write_and_sync_count(), changes, "{layout:?}: at rest");
        assert_eq!(db.verify().unwrap().problems, [], "{layout:?}");
    }
}
