//! Filters: false positives as the formula foretells them, gets that do not ask them, and walks within one prefix.

use spinney::env::sim::SimEnv;
use spinney::{
    Batch, Compression, Database, Durability, ErrorKind, Layout, Options, Prefix, ReadStats, Table, TableOptions,
};
use std::ops::Bound;

fn open() -> (SimEnv, Database) {
    let sim = SimEnv::new(1);
    // No view takes the place of filters.
    sim.set_lazy_workers(true);
    let options = Options::default().memory_bytes(64 << 20).log_segment_bytes(256 << 10);
    let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order");
    (sim, db)
}

fn create(db: &Database, options: TableOptions) -> Table {
    let options = options.compression(Compression::None).block_bytes(512);
    let table = db.create_table("t", options).expect("a new table");
    table.hold().expect("a table in use");
    table
}

fn key(number: usize) -> Vec<u8> {
    format!("key{number:08}").into_bytes()
}

/// Writes keys in a commit and flushes them.
fn flush(db: &Database, table: &Table, keys: impl Iterator<Item = Vec<u8>>) {
    let mut batch = Batch::new();
    keys.for_each(|key| batch.put(table, &key, b"value"));
    db.write_with(&batch, Durability::Buffered).expect("a write");
    table.flush().expect("a flush");
}

/// Bits per key that a run of `own` entries should get beside these others, of ten on average.
fn bits(own: f64, others: &[f64]) -> f64 {
    let all = || others.iter().chain([&own]);
    let most = all().copied().fold(0.0, f64::max);
    let more = |entries: f64| std::f64::consts::LOG2_E * (most / entries).log2();
    let spent: f64 = all().map(|entries| entries * more(*entries)).sum();
    (10.0 - spent / all().sum::<f64>() + more(own)).min(16.0)
}

/// False positives of a filter with lines of 512 bits: the keys of a line are distributed after Poisson.
fn false_positives(bits: f64) -> f64 {
    let (load, probes) = (512.0 / bits, (bits * 0.6).round());
    let mut weight = (-load).exp();
    let mut sum = 0.0;
    for keys in 0..1000 {
        let set = 1.0 - (1.0 - 1.0 / 512.0_f64).powf(probes * f64::from(keys));
        sum += weight * set.powf(probes);
        weight *= load / f64::from(keys + 1);
    }
    sum
}

/// What it costs to look up every third key from `from` on.
fn gets(db: &Database, table: &Table, from: usize) -> ReadStats {
    let (snapshot, before) = (db.snapshot(), db.stats().reads);
    for number in (from..120_000).step_by(3) {
        assert_eq!(snapshot.contains(table, key(number)).expect("a read"), !from.is_multiple_of(3), "{number}");
    }
    let after = db.stats().reads;
    let mut cost = ReadStats::default();
    cost.gets = after.gets - before.gets;
    cost.get_trees = after.get_trees - before.get_trees;
    cost.get_filters = after.get_filters - before.get_filters;
    cost.get_filter_misses = after.get_filter_misses - before.get_filter_misses;
    cost
}

/// A large last level with the keys 3n+1 and four small runs above it with some of 3n+2; nothing has the keys 3n.
fn large_and_small(db: &Database, options: TableOptions) -> Table {
    let table = create(db, options);
    flush(db, &table, (0..40_000).map(|number| key(3 * number + 1)));
    table.compact().expect("a compaction");
    for run in 0..4 {
        flush(db, &table, (0..1000).map(|number| key(3 * (40 * number + run) + 2)));
    }
    assert_eq!(table.shape().expect("a table in use").l0.len(), 4);
    table
}

fn assert_near(found: u64, of: u64, expected: f64) {
    let (found, sigma) = (found as f64, (expected * of as f64).sqrt());
    let expected = expected * of as f64;
    assert!((found - expected).abs() < 4.0 * sigma + 0.1 * expected, "{found} false positives instead of {expected}");
}

#[test]
fn false_positives_are_as_many_as_the_sizes_of_the_runs_let_expect() {
    let (_, db) = open();
    let table = large_and_small(&db, TableOptions::default());
    let small = |above: usize| {
        let others: Vec<_> = [40_000.0].into_iter().chain(vec![1000.0; above]).collect();
        false_positives(bits(1000.0, &others))
    };
    let in_small: f64 = (0..4).map(small).sum();
    // The last level was written when it was alone.
    let missing = gets(&db, &table, 0);
    assert_near(missing.get_filter_misses, missing.gets, in_small + false_positives(10.0));
    let there = gets(&db, &table, 1);
    assert_near(there.get_filter_misses, there.gets, in_small);
    let flat = 4.0 * false_positives(10.0);
    assert!(in_small < flat / 6.0, "{in_small}, and {flat} with ten bits");
    assert!((there.get_filter_misses as f64) < flat / 4.0 * there.gets as f64);
    // A level that is merged has fewer, for what is above it.
    table.compact_level(0).expect("a compaction");
    flush(&db, &table, (0..1000).map(|number| key(120 * number + 2)));
    let shape = table.shape().expect("a table in use");
    assert_eq!((shape.l0.len(), shape.levels.len()), (1, 1));
    let missing = gets(&db, &table, 0);
    assert_near(missing.get_filter_misses, missing.gets, small(0) + false_positives(10.0));
}

#[test]
fn a_filter_that_says_no_to_nobody_is_asked_only_before_a_leaf_is_read() {
    let sim = SimEnv::new(1);
    let options = Options::default().memory_bytes(2 << 20).log_segment_bytes(256 << 10);
    let db = Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order");
    let table = create(&db, TableOptions::default());
    for from in (0..40_000).step_by(2000) {
        let mut batch = Batch::new();
        (from..from + 2000).for_each(|number| batch.put(&table, key(3 * number + 1), [7; 100]));
        db.write_with(&batch, Durability::Buffered).expect("a write");
    }
    table.compact().expect("a compaction");
    // Twice: all that is there, far more than memory.
    gets(&db, &table, 1);
    let there = gets(&db, &table, 1);
    assert!(there.get_filters < there.gets, "many share a leaf that is in memory: {there:?}");
    // Keys that are not there, beside so many that are that it goes on: no leaf is read for them.
    let (snapshot, mut read_for_nothing) = (db.snapshot(), 0);
    for number in 0..2000 {
        let before = db.stats().storage.reads;
        let absent = key(3 * (number * 7919 % 40_000));
        assert!(!snapshot.contains(&table, &absent).expect("a read"));
        read_for_nothing += db.stats().storage.reads - before;
        for near in 0..30 {
            let there = key(3 * ((number * 7919 + 100 + near) % 40_000) + 1);
            assert!(snapshot.contains(&table, &there).expect("a read"));
        }
    }
    // Parts of index and filter come and go too, and a filter is wrong at times.
    assert!(read_for_nothing < 400, "{read_for_nothing} blocks read for 2,000 keys that are not there");
}

/// Keys that are written in their order would keep the bits of small runs for ever, as they are moved and not
/// rewritten.
#[test]
fn a_run_beside_all_others_gets_the_average() {
    let (_, db) = open();
    let table = create(&db, TableOptions::default().run_bytes_max(4 << 10));
    let size = |from: usize| {
        flush(&db, &table, (from..from + 1000).map(key));
        table.shape().expect("a table in use").l0[0].bytes
    };
    flush(&db, &table, (0..30_000).map(key));
    let (beside, above) = (size(30_000), size(0));
    assert!(above > beside + 1000 * 5 / 8, "{above} and {beside} bytes: more bits only where runs overlap");
}

/// A walk over the keys of a user.
fn walk(db: &Database, table: &Table, user: usize, backward: bool) -> (usize, ReadStats) {
    let (low, high) = (format!("user{user:06}/"), format!("user{user:06}0"));
    let range = (Bound::Included(low.as_bytes()), Bound::Excluded(high.as_bytes()));
    let (snapshot, before) = (db.snapshot(), db.stats().reads);
    let mut range = if backward { snapshot.range_rev(table, range) } else { snapshot.range(table, range) };
    let mut count = 0;
    while range.advance().expect("a read").is_some() {
        count += 1;
    }
    drop(range);
    let after = db.stats().reads;
    let mut seen = ReadStats::default();
    seen.seek_blocks = after.seek_blocks - before.seek_blocks;
    seen.seek_filters = after.seek_filters - before.seek_filters;
    seen.seek_filter_misses = after.seek_filter_misses - before.seek_filter_misses;
    (count, seen)
}

#[test]
fn a_walk_over_an_absent_prefix_reads_no_block() {
    for (layout, backward) in [(Layout::Lsm, false), (Layout::LsmTiered, true)] {
        let (_, db) = open();
        let prefix_filter = Some(Prefix::UpTo(b'/'));
        let table = create(&db, TableOptions::default().layout(layout).prefix_filter(prefix_filter));
        // Users 0 mod 4 in the last level, 1 mod 4 in two runs of L0; nothing of the others.
        let keys = |users: Vec<usize>| {
            users.into_iter().flat_map(|user| (0..3).map(move |i| format!("user{user:06}/{i}").into_bytes()))
        };
        flush(&db, &table, keys((0..2000).step_by(4).collect()));
        table.compact().expect("a compaction");
        flush(&db, &table, keys((1..2000).step_by(8).collect()));
        flush(&db, &table, keys((5..2000).step_by(8).collect()));
        let (mut misses, mut blocks) = (0, 0);
        for user in 10..1990 {
            let (count, costs) = walk(&db, &table, user, backward);
            assert_eq!((count, costs.seek_filters), (if user % 4 < 2 { 3 } else { 0 }, 3), "user {user}");
            assert!(costs.seek_blocks <= 3 * (u64::from(user % 4 < 2) + costs.seek_filter_misses), "{costs:?}");
            (misses, blocks) = (misses + costs.seek_filter_misses, blocks + costs.seek_blocks);
        }
        assert!(misses < 60, "{layout:?}: {misses} of 5000 filters let a prefix pass in vain");
        assert!(blocks > 2000, "what is there is read");
        let plain = db.snapshot().range(&table, ..).count();
        assert_eq!(plain, 3000);
    }
}

#[test]
fn a_rule_of_prefixes_is_kept_and_refused_where_there_are_no_filters() {
    let (sim, db) = open();
    let rule = Some(Prefix::Bytes(10));
    let refused = |options: TableOptions| db.create_table("x", options).unwrap_err();
    let btree = refused(TableOptions::default().layout(Layout::BTree).prefix_filter(rule));
    assert_eq!(btree.kind(), ErrorKind::Invalid);
    let table = create(&db, TableOptions::default().prefix_filter(rule));
    flush(&db, &table, (0..100).map(|user| format!("user{user:06}/x").into_bytes()));
    flush(&db, &table, (0..100).map(|user| format!("user{user:06}/y").into_bytes()));
    drop(table);
    db.close().expect("all is durable");
    let db = Database::builder("/db").env(sim.env()).open().expect("a machine in order");
    let table = db.table("t").expect("open").expect("it was created");
    assert_eq!(table.options().prefix_filter, rule);
    let (count, costs) = walk(&db, &table, 33, false);
    assert_eq!((count, costs.seek_filters), (2, 2));
    db.verify().expect("a database in order");
}
