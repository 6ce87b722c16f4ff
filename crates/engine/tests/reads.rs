//! Reads of many keys at once give what single reads give, and cost no more I/O than they must.

use spinney::env::sim::SimEnv;
use spinney::{
    Batch, Compression, Database, Durability, Layout, Options, Range, ReadStats, Snapshot, Table, TableOptions, Value,
};
use spinney_testkit::Rng;
use std::ops::Bound;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(256 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order")
}

/// A table of small blocks, so that little data has many of them.
fn create(db: &Database, layout: Layout, filters: bool) -> Table {
    create_with(db, layout, filters, 16 << 10)
}

fn create_with(db: &Database, layout: Layout, filters: bool, run_bytes_max: u64) -> Table {
    let filter_bits_per_key = if filters { TableOptions::default().filter_bits_per_key } else { 0 };
    let options = TableOptions::default()
        .layout(layout)
        .block_bytes(512)
        .run_bytes_max(run_bytes_max)
        .compression(Compression::None)
        .filter_bits_per_key(filter_bits_per_key);
    db.create_table("t", options).expect("a new table")
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:06}").into_bytes()
}

fn put_all(db: &Database, table: &Table, numbers: impl Iterator<Item = usize>, value: &[u8]) {
    let mut batch = Batch::new();
    numbers.for_each(|number| batch.put(table, key(number), value));
    db.write_with(&batch, Durability::Buffered).expect("a write");
}

/// What single reads give.
fn gets(snapshot: &Snapshot, table: &Table, keys: &[&[u8]]) -> Vec<Option<Value>> {
    keys.iter().map(|key| snapshot.get(table, key).expect("a read")).collect()
}

fn assert_same_as_gets(snapshots: &[Snapshot], table: &Table, rng: &mut Rng, context: &str) {
    for snapshot in snapshots {
        let count = *rng.pick(&[0, 1, 2, 16, 63, 64, 65, 200]);
        let mut keys: Vec<_> = (0..count).map(|_| key(rng.in_range(0..450))).collect();
        if count > 2 && rng.chance(50) {
            keys.extend_from_within(..2);
            keys.push(b"absent".to_vec());
            keys.push(b"zebra".to_vec());
        }
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let together = snapshot.multi_get(table, &keys).expect("a read");
        assert_eq!(together, gets(snapshot, table, &keys), "{context}");
    }
}

#[test]
fn a_read_of_many_keys_gives_what_single_reads_of_the_same_snapshot_give() {
    for (layout, seed) in LAYOUTS.into_iter().flat_map(|layout| (0..6).map(move |seed| (layout, seed))) {
        let sim = SimEnv::new(seed);
        let db = open(&sim);
        let table = create(&db, layout, seed % 2 == 0);
        let (mut rng, mut snapshots) = (Rng::new(seed), Vec::new());
        for round in 0..40 {
            let mut batch = Batch::new();
            for _ in 0..rng.in_range(1..150) {
                // A few keys get many versions, which spread over leaves when snapshots keep them.
                let number = if rng.chance(20) { rng.in_range(0..3) } else { rng.in_range(0..400) };
                match rng.chance(20) {
                    true => batch.delete(&table, key(number)),
                    false => {
                        let len = rng.in_range(0..120);
                        batch.put(&table, key(number), rng.bytes(len));
                    }
                }
            }
            db.write_with(&batch, Durability::Buffered).expect("a write");
            if snapshots.len() < 12 || rng.chance(10) {
                snapshots.push(db.snapshot());
            }
            match rng.in_range(0..8) {
                0..3 => table.flush().expect("a flush"),
                3 => table.compact_level(0).unwrap_or_default(),
                4 if round % 3 == 0 => table.compact().expect("a compaction"),
                5 => drop(snapshots.swap_remove(rng.in_range(0..snapshots.len()))),
                _ => {}
            }
            assert_same_as_gets(&snapshots, &table, &mut rng, &format!("{layout:?}, seed {seed}, round {round}"));
        }
    }
}

#[test]
fn what_a_read_of_many_keys_misses_is_read_together_and_each_block_once() {
    for layout in LAYOUTS {
        // Of one leaf, and of leaves far apart.
        let keys: Vec<_> = [0, 1, 2, 500, 1000, 1500, 2000, 2500, 3000, 3500].map(key).to_vec();
        let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let (_, db, table) = cold(layout);
        let before = db.stats().storage.reads;
        gets(&db.snapshot(), &table, &keys);
        let reads_alone = db.stats().storage.reads - before;
        let (sim, db, table) = cold(layout);
        let (together, before) = (sim.batched_read_count(), db.stats().storage.reads);
        let found = db.snapshot().multi_get(&table, &keys).expect("a read");
        assert!(found.iter().all(|value| value.as_deref() == Some(&[7; 100][..])));
        assert!(sim.batched_read_count() >= together + 8, "{layout:?}: the leaves of eight keys are read together");
        assert_eq!(db.stats().storage.reads - before, reads_alone, "{layout:?}: keys in one block share its read");
        db.snapshot().multi_get(&table, &keys).expect("a read");
        assert_eq!(db.stats().storage.reads - before, reads_alone, "{layout:?}: all is in memory now");
    }
}

#[test]
fn a_read_of_many_keys_refuses_what_single_reads_refuse() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = create(&db, Layout::Lsm, true);
    let snapshot = db.snapshot();
    assert_eq!(snapshot.multi_get(&table, &[""; 0]).expect("nothing to read"), Vec::<Option<Value>>::new());
    assert_eq!(snapshot.multi_get(&table, &["a", ""]).unwrap_err().kind(), spinney::ErrorKind::Invalid);
    db.drop_table("t").expect("it exists");
    assert_eq!(snapshot.multi_get(&table, &[b"a"]).unwrap_err().kind(), spinney::ErrorKind::Dropped);
}

/// A closed database of one table with 4000 keys in one tree, opened again: nothing is in memory.
fn cold(layout: Layout) -> (SimEnv, Database, Table) {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = create_with(&db, layout, true, 1 << 20);
    put_all(&db, &table, 0..4000, &[7; 100]);
    table.compact().expect("a compaction");
    drop(table);
    db.close().expect("all is durable");
    let db = open(&sim);
    let table = db.table("t").expect("open").expect("it was created");
    (sim, db, table)
}

/// The entries of these keys as they are now.
fn range_of(db: &Database, table: &Table, keys: std::ops::Range<usize>, backward: bool) -> Range {
    let (from, to) = (key(keys.start), key(keys.end));
    let range = (Bound::Included(&*from), Bound::Excluded(&*to));
    if backward { db.snapshot().range_rev(table, range) } else { db.snapshot().range(table, range) }
}

/// Walks over part of a range, and tells how many entries there were, how many reads it took, and of how many bytes.
fn walk(db: &Database, mut range: Range, limit: usize) -> (usize, u64, u64) {
    let before = db.stats().storage;
    let mut count = 0;
    while count < limit && range.advance().expect("a read").is_some() {
        count += 1;
    }
    let after = db.stats().storage;
    (count, after.reads - before.reads, after.read_bytes - before.read_bytes)
}

#[test]
fn a_short_scan_reads_nothing_ahead_and_a_long_one_does_both_ways() {
    for (layout, backward) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let (_, db, table) = cold(layout);
        let range = |from, to| range_of(&db, &table, from..to, backward);
        // What leads to the leaves is in memory from here on.
        walk(&db, if backward { range(2530, 2540) } else { range(460, 470) }, 1);
        let (count, _, bytes) = walk(&db, range(500, 2500), 3);
        assert!(count == 3 && bytes <= 6 * 4096, "{layout:?}, backward {backward}: {bytes} bytes for three entries");
        let (count, reads, _) = walk(&db, range(1000, 3000), usize::MAX);
        assert!(count == 2000 && reads < 120, "{layout:?}, backward {backward}: {reads} reads for 2000 entries");
    }
}

#[test]
fn a_scan_reads_nothing_behind_its_bound() {
    for (layout, backward) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let (_, db, table) = cold(layout);
        let range = |from, to| range_of(&db, &table, from..to, backward);
        walk(&db, if backward { range(1430, 1440) } else { range(960, 970) }, 1);
        let (_, _, bytes) = walk(&db, range(1000, 1400), usize::MAX);
        let most = 100 * if layout == Layout::BTree { 4096 } else { 600 } + 5 * 4096;
        assert!(bytes <= most, "{layout:?}, backward {backward}: {bytes} bytes for 100 leaves");
    }
}

#[test]
fn a_scan_reads_nothing_of_runs_outside_of_its_bounds() {
    for backward in [false, true] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = create(&db, Layout::Lsm, true);
        table.hold().expect("a table in use");
        for part in [0, 1000, 2000] {
            put_all(&db, &table, part..part + 500, &[7; 100]);
            table.flush().expect("a flush");
        }
        assert_eq!(table.shape().expect("a table in use").l0.len(), 3);
        let (count, reads, _) = walk(&db, range_of(&db, &table, 1100..1101, backward), usize::MAX);
        assert_eq!(count, 1);
        // A part of the index and a leaf, perhaps with a neighbour; the other two runs would each add as much.
        assert!(reads <= 3 && db.stats().reads.seek_blocks <= 3, "backward {backward}: {reads} reads");
    }
}

#[test]
fn reads_are_counted_for_each_table_with_what_they_cost() {
    for layout in LAYOUTS {
        let (_, db, table) = cold(layout);
        let reads = || db.stats().table_reads["t"];
        assert_eq!(reads(), ReadStats::default());
        let snapshot = db.snapshot();
        for number in 0..100 {
            assert!(snapshot.contains(&table, key(number)).expect("a read"));
        }
        let runs = layout != Layout::BTree;
        let gets = reads();
        assert_eq!((gets.gets, gets.get_trees, gets.get_filters), (100, 100, if runs { 100 } else { 0 }));
        assert!(gets.get_blocks >= 200 && gets.get_filter_misses == 0 && gets.seeks == 0, "{gets:?}");
        let keys: Vec<_> = (0..100).map(key).collect();
        snapshot.multi_get(&table, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>()).expect("a read");
        let mut again = gets;
        again.get_blocks_read = 0;
        assert_eq!(reads(), gets.plus(again), "{layout:?}: keys together count as keys alone; all is in memory now");
        put_all(&db, &table, [5000].into_iter(), b"in memory");
        let before = reads();
        // One that is not walked looks at nothing.
        drop(snapshot.range(&table, ..));
        let mut range = snapshot.range(&table, ..);
        assert!(range.advance().expect("a read").is_some());
        drop(range);
        let after = reads();
        assert_eq!((after.seeks - before.seeks, after.seek_trees - before.seek_trees), (1, 2), "{layout:?}");
        assert!((1..5).contains(&(after.seek_blocks - before.seek_blocks)), "{after:?}");
        let total = db.stats().reads;
        assert_eq!(total, after);
        drop(snapshot);
        db.drop_table("t").expect("it exists");
        assert_eq!(db.stats().reads, total, "what was counted stays counted");
        assert!(db.stats().table_reads.is_empty());
    }
}

/// Of blocks that a walk read ahead each counts, which [`StorageStats`](spinney::StorageStats) counts as one read.
#[test]
fn what_reads_get_from_files_is_counted_apart_from_what_they_look_at() {
    for layout in LAYOUTS {
        let (_, db, table) = cold(layout);
        let reads = || db.stats().table_reads["t"];
        let storage = db.stats().storage.reads;
        let get = |number| db.snapshot().get(&table, key(number)).expect("a read").is_some();
        assert!(get(500));
        // A part of the index and a leaf, and a part of the filter, or the branches of a B-tree; what opening reads
        // does not count.
        let cold_get = reads();
        assert_eq!(cold_get.get_blocks_read, db.stats().storage.reads - storage, "{layout:?}");
        assert!((3..5).contains(&cold_get.get_blocks_read), "{layout:?}: {cold_get:?}");
        assert!(get(500));
        let warm = reads();
        assert!(warm.get_blocks > cold_get.get_blocks, "{layout:?}");
        assert_eq!(warm.get_blocks_read, cold_get.get_blocks_read, "{layout:?}: all is in memory now");
        let far = [key(2000), key(2001), key(3000)];
        let storage = db.stats().storage.reads;
        db.snapshot().multi_get(&table, &far.each_ref().map(Vec::as_slice)).expect("a read");
        let many = reads();
        assert_eq!(many.get_blocks_read - warm.get_blocks_read, db.stats().storage.reads - storage, "{layout:?}");
        assert_eq!(many.seek_blocks_read, 0);
        // Gets beside a walk are not the walk's.
        let mut range = range_of(&db, &table, 1000..1100, false);
        while range.advance().expect("a read").is_some() {
            assert!(get(3990));
        }
        drop(range);
        let walked = reads();
        let (looked_at, read) = (walked.seek_blocks, walked.seek_blocks_read);
        assert!((20..40).contains(&read) && (20..60).contains(&looked_at), "{layout:?}: {walked:?}");
        assert!(walked.get_blocks_read - many.get_blocks_read < 5, "{layout:?}: {walked:?}");
        walk(&db, range_of(&db, &table, 1000..1100, false), usize::MAX);
        assert_eq!(reads().seek_blocks_read, read, "{layout:?}: all is in memory now");
    }
}

#[test]
fn values_that_are_kept_apart_count_among_the_blocks_that_reads_get_from_files() {
    let sim = SimEnv::new(8);
    let db = open(&sim);
    let options = TableOptions::default().layout(Layout::Lsm).large_value_bytes(1000);
    let table = db.create_table("t", options).expect("a new table");
    put_all(&db, &table, 0..10, &[7; 5000]);
    table.flush().expect("a flush");
    drop(table);
    db.close().expect("a clean close");
    // What the flush wrote is in memory until then.
    let db = open(&sim);
    let table = db.table("t").expect("a sound catalog").expect("it was created");
    let reads = || db.stats().table_reads["t"];
    let snapshot = db.snapshot();
    assert!(snapshot.contains(&table, key(3)).expect("a read"));
    let before = reads().get_blocks_read;
    assert!(snapshot.get(&table, key(3)).expect("a read").is_some());
    assert_eq!(reads().get_blocks_read - before, 1);
    let both = [key(4), key(5)];
    snapshot.multi_get(&table, &both.each_ref().map(Vec::as_slice)).expect("a read");
    assert_eq!(reads().get_blocks_read - before, 3);
    let mut range = range_of(&db, &table, 6..9, false);
    while range.advance_key().expect("a read").is_some() {}
    drop(range);
    assert_eq!(reads().seek_blocks_read, 0, "keys alone, whose leaf is in memory");
    walk(&db, range_of(&db, &table, 6..9, false), usize::MAX);
    assert_eq!(reads().seek_blocks_read, 3);
}

/// A database with little memory, and a table with more data than that.
fn open_small(sim: &SimEnv) -> (Database, Table) {
    let options = Options::default().memory_bytes(2 << 20).log_segment_bytes(256 << 10);
    let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order");
    let other = db.create_table("other", TableOptions::default().layout(Layout::Lsm));
    let other = other.expect("a new table");
    (0..40).for_each(|part| put_all(&db, &other, part * 100..part * 100 + 100, &[7; 1000]));
    other.flush().expect("a flush");
    (db, other)
}

/// Reads all of the other table, so that the cache has no free room.
fn fill_cache(db: &Database, other: &Table) {
    walk(db, range_of(db, other, 0..4000, false), usize::MAX);
}

/// Reads of the device that gets of these keys took.
fn blocks_read(db: &Database, table: &Table, numbers: impl Iterator<Item = usize>) -> u64 {
    let before = db.stats().storage.reads;
    let snapshot = db.snapshot();
    for number in numbers {
        assert!(snapshot.get(table, key(number)).expect("a read").is_some());
    }
    db.stats().storage.reads - before
}

#[test]
fn what_a_flush_writes_of_a_table_that_is_read_is_in_memory() {
    for layout in LAYOUTS {
        for is_read in [false, true] {
            let sim = SimEnv::new(5);
            let (db, other) = open_small(&sim);
            let table = create(&db, layout, true);
            put_all(&db, &table, 0..400, b"some value");
            fill_cache(&db, &other);
            if is_read {
                blocks_read(&db, &table, 0..50);
            }
            table.flush().expect("a flush");
            let read = blocks_read(&db, &table, 0..400);
            assert_eq!(read == 0, is_read, "{layout:?}: {read} reads of the device");
        }
    }
}

#[test]
fn what_a_merge_writes_is_in_memory_if_what_it_read_was() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(6);
        let (db, other) = open_small(&sim);
        let table = create_with(&db, layout, true, 1 << 20);
        put_all(&db, &table, 0..1600, b"some value");
        fill_cache(&db, &other);
        table.flush().expect("a flush");
        put_all(&db, &table, (0..1600).step_by(20), b"another");
        fill_cache(&db, &other);
        table.flush().expect("a flush");
        fill_cache(&db, &other);
        blocks_read(&db, &table, 0..100);
        table.compact().expect("a compaction");
        assert_eq!(blocks_read(&db, &table, 0..90), 0, "{layout:?}: these were read before");
        // A few of them fit where a block of the other table does not.
        assert!(blocks_read(&db, &table, 200..1600) >= 30, "{layout:?}: these were not");
    }
}

#[test]
fn verification_reads_the_disk_and_not_the_cache() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(7);
        let db = open(&sim);
        let table = create(&db, layout, true);
        put_all(&db, &table, 0..400, b"some value");
        table.flush().expect("a flush");
        blocks_read(&db, &table, 0..400);
        let before = db.stats().storage.read_bytes;
        db.verify().expect("a sound database");
        assert!(db.stats().storage.read_bytes - before > 400 * 10, "{layout:?}");
    }
}

/// Values that are kept apart were looked for in the cache, where they are since they were written.
#[test]
fn verification_reads_values_that_are_kept_apart_from_the_disk() {
    let sim = SimEnv::new(9);
    let db = open(&sim);
    let options = TableOptions::default().layout(Layout::Lsm).large_value_bytes(1000);
    let table = db.create_table("t", options).expect("a new table");
    put_all(&db, &table, 0..10, &[7; 5000]);
    table.flush().expect("a flush");
    assert_eq!(db.verify().expect("a sound database").problems, []);
    let names = sim.env().fs.list("/db".as_ref()).expect("a directory").into_iter().map(|entry| entry.name);
    let values = names.into_iter().find(|name| name.ends_with(".values")).expect("a value file");
    sim.corrupt(format!("/db/{values}"), 100, 1).expect("it is there");
    assert_eq!(db.verify().expect("it goes on").problem_count, 1);
}
