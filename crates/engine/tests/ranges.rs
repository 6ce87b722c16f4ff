//! Many ranges by one cursor, several keys at once, and snapshots of one moment, against what single calls tell.

use std::ops::Bound;

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Result, Table, TableOptions};
use spinney_testkit::Rng;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

type Bounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// A table with entries in all places, deletions, operands and large values.
fn fill(rng: &mut Rng) -> (Database, Table) {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    let db = Database::builder("/db").env(SimEnv::new(1).env()).options(options).open().expect("a machine in order");
    let layout = *rng.pick(&LAYOUTS);
    let options = TableOptions::default().layout(layout).block_bytes(512).merge("add");
    let table = db.create_table("t", options).expect("a machine in order");
    for _ in 0..rng.in_range(1..6) {
        let mut batch = Batch::new();
        for _ in 0..rng.in_range(0..200) {
            let key = key(rng);
            match rng.in_range(0..6) {
                0 => batch.delete(&table, key),
                1 => batch.merge(&table, key, 5_u64.to_le_bytes()),
                2 if rng.chance(10) => batch.delete_range(&table, key..vec![250]),
                _ => batch.put(&table, key, (rng.number() % 100).to_le_bytes()),
            }
        }
        db.write_with(&batch, Durability::Buffered).expect("a write");
        if rng.chance(60) {
            table.flush().expect("a machine in order");
        }
    }
    (db, table)
}

fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.in_range(0..300);
    vec![u8::try_from(number / 2).expect("small"), u8::try_from(number % 2).expect("small")]
}

/// Ascending ranges, apart from each other, some empty, the last perhaps without an end.
fn draw(rng: &mut Rng) -> Vec<Bounds> {
    let mut ends: Vec<_> = (0..2 * rng.in_range(0..8)).map(|_| key(rng)).collect();
    ends.sort();
    let mut ranges: Vec<Bounds> = ends
        .chunks(2)
        .map(|pair| {
            let low = if rng.chance(50) { Bound::Included(pair[0].clone()) } else { Bound::Excluded(pair[0].clone()) };
            (low, Bound::Excluded(pair[1].clone()))
        })
        .collect();
    if rng.chance(30)
        && let Some(last) = ranges.last_mut()
    {
        last.1 = Bound::Unbounded;
    }
    ranges
}

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

fn collect(entries: impl Iterator<Item = Result<(Vec<u8>, spinney::Value)>>) -> Entries {
    entries.map(|entry| entry.map(|(key, value)| (key, value.to_vec())).expect("a read")).collect()
}

#[test]
fn one_cursor_over_many_ranges_shows_what_a_range_each_does() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (db, table) = fill(&mut rng);
        let mut txn = db.begin();
        if rng.chance(50) {
            for _ in 0..rng.in_range(0..40) {
                match rng.in_range(0..4) {
                    0 => txn.delete(&table, key(&mut rng)).expect("a delete"),
                    1 => txn.merge(&table, key(&mut rng), 1_u64.to_le_bytes()).expect("a merge"),
                    2 if rng.chance(20) => txn.delete_range(&table, key(&mut rng)..vec![200]).expect("a range delete"),
                    _ => txn.put(&table, key(&mut rng), 7_u64.to_le_bytes()).expect("a put"),
                }
            }
        }
        let (snapshot, ranges) = (db.snapshot(), draw(&mut rng));
        let each: Entries = ranges.iter().flat_map(|range| collect(snapshot.range(&table, range))).collect();
        assert_eq!(collect(snapshot.ranges(&table, &ranges)), each, "seed {seed}");
        let own: Entries = ranges.iter().flat_map(|range| collect(txn.range(&table, range))).collect();
        assert_eq!(collect(txn.ranges(&table, &ranges)), own, "seed {seed}");

        let mut walk = txn.ranges(&table, &ranges);
        let mut keys = Vec::new();
        while let Some(key) = walk.advance_key().expect("a read") {
            keys.push(key.to_vec());
        }
        assert_eq!(keys, own.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>());

        let back: Vec<_> = ranges.iter().rev().collect();
        let reversed = |mut entries: Entries| {
            entries.reverse();
            entries
        };
        assert_eq!(collect(snapshot.ranges_rev(&table, &back)), reversed(each), "seed {seed}");
        assert_eq!(collect(txn.ranges_rev(&table, &back)), reversed(own), "seed {seed}");

        let keys: Vec<_> = (0..20).map(|_| key(&mut rng)).collect();
        let single: Vec<_> = keys.iter().map(|key| txn.contains(&table, key).expect("a read")).collect();
        assert_eq!(txn.multi_contains(&table, &keys).expect("a read"), single, "seed {seed}");
        let single: Vec<_> = keys.iter().map(|key| snapshot.contains(&table, key).expect("a read")).collect();
        assert_eq!(snapshot.multi_contains(&table, &keys).expect("a read"), single, "seed {seed}");
    }
}

#[test]
fn ranges_in_no_order_are_refused() {
    let (_db, table) = fill(&mut Rng::new(1));
    let snapshot = _db.snapshot();
    for ranges in [["b".."d", "a".."b"], ["a".."c", "b".."d"]] {
        let error = snapshot.ranges(&table, &ranges).advance().expect_err("they are in no order");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let mut descending = snapshot.ranges_rev(&table, ["a".."b", "b".."c"]);
    assert_eq!(descending.next().expect("an error").expect_err("they ascend").kind(), ErrorKind::Invalid);
    assert!(descending.next().is_none());
    assert!(snapshot.ranges(&table, ["a".."b", "b".."c"]).advance().is_ok(), "they may touch");
}

/// A clone sees the moment of its original, also when that is gone and all was merged since.
#[test]
fn a_clone_of_a_snapshot_keeps_its_moment() {
    let (db, table) = fill(&mut Rng::new(3));
    let snapshot = db.snapshot();
    let seen = collect(snapshot.range(&table, ..));
    let (again, mut txn) = (snapshot.clone(), db.begin());
    txn.put(&table, "own", 1_u64.to_le_bytes()).expect("a put");
    let of_transaction = txn.snapshot();
    drop(snapshot);
    table.delete_range(..).expect("a range delete");
    drop(txn);
    table.compact().expect("a machine in order");
    assert_eq!(again.seqnum(), of_transaction.seqnum());
    assert_eq!(collect(again.range(&table, ..)), seen);
    drop(again);
    table.compact().expect("a machine in order");
    assert_eq!(collect(of_transaction.range(&table, ..)), seen);
}

/// Entries by [`spinney::Range::each`], which ends after some of them and goes on.
fn by_each(mut range: spinney::Range, rng: &mut Rng) -> Entries {
    let mut entries = Vec::new();
    loop {
        let mut left = rng.in_range(1..40);
        let more = range.each(|key, value| {
            entries.push((key.to_vec(), value.to_vec()));
            left -= 1;
            Ok::<_, spinney::Error>(left > 0)
        });
        match more.expect("a read") {
            true if rng.chance(30) => {
                let next = range.advance().expect("a read").map(|(key, value)| (key.to_vec(), value.to_vec()));
                entries.extend(next);
            }
            true => {}
            false => return entries,
        }
    }
}

#[test]
fn each_entry_is_the_one_that_a_step_shows() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (db, table) = fill(&mut rng);
        let layout = *rng.pick(&[Layout::Lsm, Layout::LsmTiered]);
        let options = TableOptions::default().layout(layout).block_bytes(512).large_value_bytes(64);
        let large = db.create_table("large", options).expect("a machine in order");
        for _ in 0..100 {
            let bytes = if rng.chance(20) { 200 } else { 10 };
            large.put(key(&mut rng), vec![7; bytes]).expect("a put");
        }
        if rng.chance(70) {
            large.flush().expect("a machine in order");
        }
        let before = db.snapshot();
        for _ in 0..rng.in_range(0..60) {
            table.put(key(&mut rng), 9_u64.to_le_bytes()).expect("a put");
            large.delete(key(&mut rng)).expect("a delete");
        }
        if rng.chance(50) {
            table.compact().expect("a machine in order");
        }
        let mut txn = db.begin();
        txn.put(&table, key(&mut rng), 7_u64.to_le_bytes()).expect("a put");
        let bounds = draw(&mut rng).pop().unwrap_or((Bound::Unbounded, Bound::Unbounded));
        for snapshot in [&before, &db.snapshot()] {
            for table in [&table, &large] {
                let steps = collect(snapshot.range(table, &bounds));
                assert_eq!(by_each(snapshot.range(table, &bounds), &mut rng), steps, "seed {seed}");
                let steps = collect(snapshot.range_rev(table, &bounds));
                assert_eq!(by_each(snapshot.range_rev(table, &bounds), &mut rng), steps, "seed {seed}");
            }
        }
        let steps = collect(txn.range(&table, &bounds));
        assert_eq!(by_each(txn.range(&table, &bounds), &mut rng), steps, "seed {seed}");
    }
}

/// An error of a program.
struct Enough;

impl From<spinney::Error> for Enough {
    fn from(error: spinney::Error) -> Self {
        panic!("a read: {error}")
    }
}

#[test]
fn an_error_of_what_takes_entries_ends_each_and_not_the_range() {
    let (db, table) = fill(&mut Rng::new(3));
    let all = collect(db.snapshot().range(&table, ..));
    let mut range = db.snapshot().range(&table, ..);
    let mut seen = 0;
    let failed = range.each(|_, _| {
        seen += 1;
        if seen == 5 { Err(Enough) } else { Ok(true) }
    });
    assert!(failed.is_err());
    assert_eq!(collect(range), all[5..]);
}
