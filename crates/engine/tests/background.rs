//! What the background does by itself: it merges what reads have paid for, leaves alone what nobody reads, and waits
//! for space.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{Call, Fault, SimEnv};
use spinney::{Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Prefix, Table, TableOptions};
use std::time::Duration;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(64 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn write(db: &Database, table: &Table, keys: impl Iterator<Item = u32>, value: Option<&[u8]>) {
    let mut batch = Batch::new();
    for key in keys {
        match value {
            Some(value) => batch.put(table, key.to_be_bytes(), value),
            None => batch.delete(table, key.to_be_bytes()),
        }
    }
    db.write_with(&batch, Durability::Buffered).unwrap();
}

/// A table with several levels, runs in L0 and a memtable, of which its layout wants nothing.
fn worn(db: &Database, layout: Layout) -> Table {
    let options = TableOptions::default()
        .layout(layout)
        .run_bytes_max(4 << 10)
        .fanout(if layout == Layout::Lsm { 2 } else { 8 })
        .compression(Compression::None);
    let table = db.create_table("t", options).unwrap();
    for round in 0..18_u32 {
        write(db, &table, (0..400).map(|key: u32| key.wrapping_mul(2_654_435_761).wrapping_add(round)), Some(&[7; 20]));
        table.flush().unwrap();
    }
    table.wait_idle().unwrap();
    while table.shape().unwrap().l0.len() < 2 {
        write(db, &table, (0..40).map(|key| key * 100_000_000), Some(&[8; 20]));
        table.flush().unwrap();
    }
    table.wait_idle().unwrap();
    write(db, &table, 0..40, Some(&[9; 20]));
    assert!(table.shape().unwrap().trees >= 4, "{:?}", table.shape().unwrap());
    table
}

/// Seeks until the table has so many trees; how many it took, at most `most`.
fn seek_until(db: &Database, table: &Table, trees: u64, most: u32) -> u32 {
    for count in 0..most {
        if table.shape().unwrap().trees <= trees {
            return count;
        }
        let key = count.wrapping_mul(2_654_435_761).to_be_bytes();
        drop(db.snapshot().range(table, &key[..]..).next().transpose().unwrap());
    }
    most
}

fn entries(table: &Table) -> u64 {
    let shape = table.shape().unwrap();
    let below: u64 = shape.l0.iter().map(|run| run.entries).chain(shape.levels.iter().map(|level| level.entries)).sum();
    below + shape.memtable_entries + shape.btree.map_or(0, |btree| btree.entries)
}

#[test]
fn a_table_that_is_only_read_comes_to_one_tree_by_itself() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = worn(&db, layout);
        let before = db.snapshot().range(&table, ..).map(Result::unwrap).collect::<Vec<_>>();
        // A few merges of 5 ms and 150 ns an entry, paid with 1,200 ns for each extra tree. A B-tree needs one only.
        let seeks = seek_until(&db, &table, 1, 60_000);
        assert!((3_000..60_000).contains(&seeks), "{layout:?}: {seeks} seeks, {:?}", table.shape().unwrap());
        assert!(db.snapshot().range(&table, ..).map(Result::unwrap).eq(before));
        let done = db.stats().flush.compactions;
        for key in 0..20_000_u32 {
            db.snapshot().get(&table, key.to_be_bytes()).unwrap();
        }
        assert_eq!(db.stats().flush.compactions, done, "there is nothing left to do");
        assert_eq!(db.verify().unwrap().problems, vec![]);
    }
}

/// A key that was perhaps never written, by a number.
fn any_key(number: u32) -> [u8; 4] {
    number.wrapping_mul(2_654_435_761).wrapping_add(number % 18).to_be_bytes()
}

fn get_and_scan(db: &Database, table: &Table, number: u32) {
    let snapshot = db.snapshot();
    snapshot.get(table, any_key(number)).unwrap();
    let mut range = snapshot.range(table, &any_key(number)[..]..);
    (0..4).for_each(|_| _ = range.advance().unwrap());
}

/// Trees that a get and a scan search, on average of these reads.
fn trees_of_reads(db: &Database, table: &Table, reads: impl FnOnce()) -> (f64, f64) {
    let before = db.stats().table_reads[table.name()];
    reads();
    let after = db.stats().table_reads[table.name()];
    let share = |trees: u64, reads: u64| trees as f64 / reads as f64;
    let gets = share(after.get_trees - before.get_trees, after.gets - before.gets);
    (gets, share(after.seek_trees - before.seek_trees, after.seeks - before.seeks))
}

#[test]
fn a_table_that_is_only_read_costs_its_reads_what_it_would_if_all_were_compacted() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = worn(&db, layout);
        let cost = || trees_of_reads(&db, &table, || (0..2000).for_each(|number| get_and_scan(&db, &table, number)));
        let worn = cost();
        (0..30_000).for_each(|number| get_and_scan(&db, &table, number));
        let by_itself = cost();
        table.compact().unwrap();
        let compacted = cost();
        assert!(worn.1 >= 2.0 * compacted.1, "{layout:?}: {worn:?}, compacted {compacted:?}");
        let is_near = by_itself.0 <= 1.1 * compacted.0 && by_itself.1 <= 1.1 * compacted.1;
        assert!(is_near, "{layout:?}: {by_itself:?} trees of a get and a scan, compacted {compacted:?}, worn {worn:?}");
    }
}

/// Of a hundred operations five write. What they leave in memory is one tree more, and what was flushed of it another
/// until that is merged.
#[test]
fn a_table_that_is_mostly_read_is_merged_for_its_readers_beside_its_writes() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = worn(&db, layout);
        let run = |rounds: std::ops::Range<u32>| {
            for round in rounds {
                write(&db, &table, (0..5).map(|key| u32::from_be_bytes(any_key(5 * round + key))), Some(&[1; 20]));
                (0..95).for_each(|number| get_and_scan(&db, &table, 95 * round + number));
            }
        };
        let worn = trees_of_reads(&db, &table, || run(0..1));
        run(1..300);
        let before = db.stats();
        let later = trees_of_reads(&db, &table, || run(300..600));
        assert!(worn.1 >= 4.0 && later.1 <= 2.1 && later.0 <= 2.1, "{layout:?}: {worn:?}, later {later:?}");
        // No more is done than reads have paid for: five milliseconds a job, 1,200 ns a tree. A small memtable over one
        // tree is left alone.
        let after = db.stats();
        let jobs = after.flush.flushes + after.flush.compactions - before.flush.flushes - before.flush.compactions;
        let paid_ns = 2.0 * 300.0 * 95.0 * 1_200.0 * (later.1 - 1.0);
        assert!(jobs as f64 <= paid_ns / 5e6, "{layout:?}: {jobs} jobs, {paid_ns} ns were paid");
    }
}

/// One scan for sixteen entries written, in a table whose layout has enough to do.
#[test]
fn a_few_reads_of_a_table_that_is_written_have_nothing_merged() {
    for layout in LAYOUTS {
        let work = |reads: bool| {
            let sim = SimEnv::new(1);
            let db = open(&sim);
            let compression = Compression::None;
            let options = TableOptions::default().layout(layout).run_bytes_max(64 << 10).compression(compression);
            let table = db.create_table("t", options).unwrap();
            for round in 0..1_000_u32 {
                write(&db, &table, (0..100).map(|key| u32::from_be_bytes(any_key(100 * round + key))), Some(&[7; 20]));
                if round % 40 == 39 {
                    table.flush().unwrap();
                }
                for _ in 0..if reads { 6 } else { 0 } {
                    drop(db.snapshot().range(&table, ..).next().transpose().unwrap());
                }
            }
            let (flush, reads) = (db.stats().flush, db.stats().reads);
            (flush.flush_bytes + flush.compaction_write_bytes, reads.seek_trees)
        };
        let ((unread, _), (read, trees)) = (work(false), work(true));
        let share = read as f64 / unread as f64;
        assert!((0.99..1.01).contains(&share), "{layout:?}: {read} bytes written, without reads {unread}");
        assert!(trees > 12_000, "{layout:?}: {trees} trees walked over, of which 7,000 pay for a merge");
    }
}

#[test]
fn gets_pay_as_scans_do() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let options = TableOptions::default().filter_bits_per_key(0);
    let table = db.create_table("t", options).unwrap();
    for value in [b"a", b"b", b"c"] {
        write(&db, &table, (0..2000).step_by(2), Some(value));
        table.flush().unwrap();
        // From end to end, so that a lookup in between has to search it.
        write(&db, &table, (0..2000).step_by(1998), Some(value));
    }
    let mut gets = 0_u32;
    while table.shape().unwrap().trees > 1 {
        // A key that is found in the newest tree costs nothing extra.
        assert!(db.snapshot().get(&table, 0_u32.to_be_bytes()).unwrap().is_some());
        assert!(db.snapshot().get(&table, 501_u32.to_be_bytes()).unwrap().is_none());
        gets += 1;
        assert!(gets < 60_000, "{:?}", table.shape().unwrap());
    }
    assert!(gets > 5_000, "{gets}");
}

#[test]
fn walks_pay_little_for_runs_that_a_filter_keeps_them_out_of() {
    const WALKS: u32 = 20_000;
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let options = TableOptions::default().prefix_filter(Some(Prefix::Bytes(2)));
    let table = db.create_table("t", options).unwrap();
    let key = |group: u32, i: u32| (group << 16) + i;
    for round in 0..3 {
        write(&db, &table, (0..100).flat_map(|i| [key(3 * i + round, 0), key(3 * i + round, 1)]), Some(&[7; 20]));
        table.flush().unwrap();
    }
    let walk = |from: u32, to: u32| {
        let (from, to) = (from.to_be_bytes(), to.to_be_bytes());
        assert_eq!(db.snapshot().range(&table, &from[..]..&to[..]).count(), 2);
    };
    for count in 0..WALKS {
        let group = 10 + count % 280;
        walk(key(group, 0), key(group, 2));
    }
    assert_eq!(table.shape().unwrap().trees, 3, "each found what it wanted in one run, and looked into no other");
    for count in 0..WALKS {
        let group = 10 + count % 280;
        walk(key(group, 1), key(group + 1, 1));
    }
    assert_eq!(table.shape().unwrap().trees, 1, "these had to look into all");
}

#[test]
fn a_table_that_nobody_reads_is_left_alone() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = worn(&db, layout);
        let (shape, done) = (format!("{:?}", table.shape().unwrap()), db.stats().flush.compactions);
        sim.advance(Duration::from_secs(3600));
        table.wait_idle().unwrap();
        assert_eq!((format!("{:?}", table.shape().unwrap()), db.stats().flush.compactions), (shape, done));
    }
}

#[test]
fn a_table_that_is_written_as_it_is_read_is_left_to_its_layout() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = worn(&db, Layout::Lsm);
    let (trees, done) = (table.shape().unwrap().trees, db.stats().flush.compactions);
    for round in 0..8_000_u32 {
        write(&db, &table, (0..10).map(|key| key + 10 * (round % 100)), Some(&[1; 20]));
        assert_eq!(seek_until(&db, &table, 0, 1), 1);
    }
    assert_eq!((table.shape().unwrap().trees, db.stats().flush.compactions), (trees, done));
    assert!(seek_until(&db, &table, 1, 60_000) < 60_000, "it is read only now");
}

#[test]
fn a_held_table_keeps_its_shape_however_much_it_is_read() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = worn(&db, Layout::Lsm);
    table.hold().unwrap();
    let trees = table.shape().unwrap().trees;
    assert_eq!(seek_until(&db, &table, trees - 1, 40_000), 40_000);
    table.release().unwrap();
    assert_eq!(table.shape().unwrap().trees, 1, "what was paid meanwhile is spent");
}

#[test]
fn a_row_of_deleted_keys_is_stepped_over_once() {
    const ROW: u32 = 20_000;
    for (layout, backward) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        let (live, dead) = if backward { (0..100, 100..100 + ROW) } else { (ROW..ROW + 100, 0..ROW) };
        write(&db, &table, dead.clone(), Some(b"v"));
        write(&db, &table, live.clone(), Some(b"v"));
        table.compact().unwrap();
        write(&db, &table, dead, None);
        assert_eq!(entries(&table), u64::from(2 * ROW + 100));
        let snapshot = db.snapshot();
        let shown = || {
            let range: Vec<_> = match backward {
                true => snapshot.range_rev(&table, ..).take(10).map(Result::unwrap).collect(),
                false => snapshot.range(&table, ..).take(10).map(Result::unwrap).collect(),
            };
            range.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
        };
        let first = shown();
        assert_eq!(first.len(), 10);
        assert_eq!((entries(&table), table.shape().unwrap().trees), (100, 1), "{layout:?}, backward: {backward}");
        assert_eq!(shown(), first);
    }
}

#[test]
fn a_row_of_deleted_keys_in_memory_is_flushed_when_scans_have_paid_for_it() {
    const ROW: u32 = 20_000;
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        write(&db, &table, 0..ROW + 100, Some(b"v"));
        write(&db, &table, 0..ROW, None);
        let is_flushed = (0..100).find(|_| {
            let shown = db.snapshot().range(&table, ..).take(10).map(Result::unwrap).count();
            assert_eq!(shown, 10);
            table.shape().unwrap().memtable_entries == 0
        });
        assert!(is_flushed.is_some(), "{layout:?}: {:?}", table.shape().unwrap());
    }
}

#[test]
fn dead_entries_that_a_snapshot_needs_are_not_merged_again_and_again() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = db.create_table("t", TableOptions::default()).unwrap();
    write(&db, &table, 0..20_100, Some(b"v"));
    table.compact().unwrap();
    let snapshot = db.snapshot();
    write(&db, &table, 0..20_000, None);
    let done = db.stats().flush.compactions;
    for _ in 0..30 {
        assert_eq!(db.snapshot().range(&table, ..).take(10).count(), 10);
    }
    assert!(db.stats().flush.compactions <= done + 1);
    assert_eq!(snapshot.range(&table, ..).count(), 20_100);
}

/// They came into the last tree while a snapshot needed them, and stayed there when it was gone: each scan stepped over
/// them for ever.
#[test]
fn dead_entries_that_no_snapshot_needs_any_more_are_stepped_over_once() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        write(&db, &table, 0..20_100, Some(b"v"));
        table.compact().unwrap();
        let snapshot = db.snapshot();
        write(&db, &table, 0..20_000, None);
        table.compact().unwrap();
        assert_eq!((entries(&table), table.shape().unwrap().trees), (40_100, 1), "{layout:?}");
        let scan = || assert_eq!(db.snapshot().range(&table, ..).take(10).count(), 10);
        (0..10).for_each(|_| scan());
        let done = db.stats().flush;
        drop(snapshot);
        scan();
        assert_eq!((entries(&table), table.shape().unwrap().trees), (100, 1), "{layout:?}");
        (0..10).for_each(|_| scan());
        let compactions = db.stats().flush.compactions - done.compactions;
        assert!(compactions <= 1, "{layout:?}: {compactions}");
    }
}

#[test]
fn a_compaction_that_does_not_fit_the_disk_is_not_begun_and_comes_when_there_is_space() {
    const SPACE: u64 = 1 << 40;
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let options = TableOptions::default().compression(Compression::None);
    let table = db.create_table("t", options).unwrap();
    table.hold().unwrap();
    for round in 0..4_u8 {
        write(&db, &table, 0..2000, Some(&[round; 200]));
        table.flush().unwrap();
    }
    sim.set_space(SPACE);
    let used = SPACE - sim.env().fs.free_bytes("/db".as_ref()).unwrap();
    sim.set_space(used + (700 << 10));
    table.release().unwrap();
    assert_eq!(table.shape().unwrap().l0.len(), 4);
    let missing = db.stats().flush.space_missing_bytes;
    assert!((100_000..4_000_000).contains(&missing), "{missing}");
    for error in [table.wait_idle(), table.compact(), table.compact_level(0)].map(Result::unwrap_err) {
        assert_eq!(error.kind(), ErrorKind::Full, "{error}");
    }
    // What is small goes on.
    write(&db, &table, 0..100, Some(b"v"));
    table.flush().unwrap();
    assert_eq!(table.shape().unwrap().l0.len(), 5);
    sim.set_space(SPACE);
    sim.advance(Duration::from_secs(2));
    assert_eq!((table.shape().unwrap().trees, db.stats().flush.space_missing_bytes), (1, 0));
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

/// The cache is cold, so that a compaction reads the disk. Wherever a read fails in it, nothing is left out, and the
/// next one goes through.
#[test]
fn a_read_that_fails_in_a_compaction_loses_nothing() {
    let open = |sim: &SimEnv| {
        let options = Options::default().memory_bytes(1 << 20).log_segment_bytes(64 << 10);
        Database::builder("/db").env(sim.env()).options(options).open().unwrap()
    };
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let options = TableOptions::default().layout(layout).compression(Compression::None);
        let table = db.create_table("t", options).unwrap();
        table.hold().unwrap();
        for part in 0..2_u32 {
            write(&db, &table, (0..1000).map(|key: u32| key * 2 + part), Some(&[7; 100]));
            table.flush().unwrap();
        }
        let mut failed = 0;
        for call in (0..20).chain([30, 50, 80]) {
            let sim = sim.fork();
            let db = open(&sim);
            let table = db.table("t").unwrap().unwrap();
            sim.fail_at(sim.op_count() + call, Fault::Error(std::io::ErrorKind::Other));
            let compacted = table.compact();
            sim.clear_faults();
            if sim.struck().is_none_or(|(call, _)| call != Call::Read) {
                continue;
            }
            if let Err(error) = compacted {
                failed += 1;
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
            }
            assert_eq!(db.snapshot().range(&table, ..).count(), 2000, "{layout:?} {call}");
            table.compact().unwrap();
            assert_eq!(db.snapshot().range(&table, ..).count(), 2000, "{layout:?} {call}");
            assert_eq!(db.verify().unwrap().problems, vec![]);
        }
        assert!(failed > 0, "{layout:?}: a compaction reads");
    }
}

/// There is nobody to tell a failure in the background to, so it is counted; and the other tables are compacted.
#[test]
fn a_table_that_cannot_be_read_holds_up_no_other_and_is_told() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let options = || TableOptions::default().compression(Compression::None);
    let (bad, good) = (db.create_table("bad", options()).unwrap(), db.create_table("good", options()).unwrap());
    for table in [&bad, &good] {
        table.hold().unwrap();
        for round in 0..4_u8 {
            write(&db, table, 0..2000, Some(&[round; 200]));
            table.flush().unwrap();
        }
    }
    let files = sim.env().fs.list("/db".as_ref()).unwrap();
    let oldest = files.iter().find(|file| file.name.ends_with(".run")).expect("a run");
    let path = format!("/db/{}", oldest.name);
    drop((bad, good, db));
    for at in (0..50_000).step_by(500) {
        sim.corrupt(&path, at, 1).unwrap();
    }
    // With nothing in the cache.
    let db = open(&sim);
    let (bad, good) = (db.table("bad").unwrap().unwrap(), db.table("good").unwrap().unwrap());
    bad.release().unwrap();
    good.release().unwrap();
    assert_eq!((bad.shape().unwrap().l0.len(), good.shape().unwrap().trees), (4, 1));
    let stats = db.stats();
    assert!(stats.flush.failed_compactions > 0);
    assert!(stats.flush.last_failure.unwrap().contains(&path));
    write(&db, &good, 0..100, Some(b"v"));

    // Each flush wakes the background, and it read all of the table up to the damage each time.
    let failures = || db.stats().flush.failed_compactions;
    for round in 0..40_u8 {
        write(&db, &good, 0..100, Some(&[round]));
        good.flush().unwrap();
    }
    assert!(good.shape().unwrap().trees < 12, "the other table is compacted meanwhile");
    let before = failures();
    assert!(before <= 3, "{before} tries in no time");
    // Nobody wakes it.
    sim.advance(Duration::from_secs(2));
    assert_eq!(failures(), before + 1);
    for at in (0..50_000).step_by(500) {
        sim.corrupt(&path, at, 1).unwrap();
    }
    sim.advance(Duration::from_secs(60));
    assert_eq!((failures(), bad.shape().unwrap().trees), (before + 1, 1), "what can be read again is compacted");
}

/// What was written elsewhere stays as it is, and merges that others read for are not waited for.
#[test]
fn reads_of_a_part_of_the_keys_are_served_by_a_merge_of_that_part() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let options = TableOptions::default().run_bytes_max(16 << 10).compression(Compression::None);
    let table = db.create_table("t", options).unwrap();
    write(&db, &table, 0..60_000, Some(&[7; 20]));
    table.compact().unwrap();
    // Older and small, then younger and large: both over the last level, beside each other.
    write(&db, &table, 0..2_000, Some(&[8; 20]));
    table.flush().unwrap();
    write(&db, &table, 2_000..60_000, Some(&[9; 20]));
    table.flush().unwrap();
    table.wait_idle().unwrap();
    let shape = || table.shape().unwrap();
    assert_eq!((shape().l0.len(), shape().trees), (2, 3), "{:?}", shape());
    let before = db.stats().flush.compaction_write_bytes;
    let mut seeks = 0;
    while shape().l0.len() == 2 {
        let key = (seeks % 1_900_u32).to_be_bytes();
        drop(db.snapshot().range(&table, &key[..]..).next().transpose().unwrap());
        seeks += 1;
        assert!(seeks < 100_000, "{:?}", shape());
    }
    let written = db.stats().flush.compaction_write_bytes - before;
    assert_eq!(shape().l0.len(), 1, "the large one stays: {:?}", shape());
    assert!(written < 400_000, "{written} bytes for {seeks} seeks");
    let at = |key: u32| db.snapshot().get(&table, key.to_be_bytes()).unwrap().unwrap()[0];
    assert_eq!([0, 1_999, 2_000, 59_999].map(at), [8, 8, 9, 9]);
}
