//! The sorted view that reads of a table pay for.

use std::ops::Bound;

use proptest::prelude::*;

use crate::db::jobs::job::{Job, JobContext, Step};
use crate::db::jobs::sorted_view::MakeView;
use crate::env::sim::SimEnv;
use crate::table::ViewCandidate;
use crate::table::{Layout, TableOptions};
use crate::tree::run::view::ENTRY_BYTES;
use crate::{Batch, Database, Durability, Options, Snapshot, Table};

/// A database whose background work is done when a test says so, and a table of it, held or not.
fn open(held: bool, filter_bits_per_key: u32) -> (Database, Table) {
    let sim = SimEnv::new(1);
    sim.set_lazy_workers(true);
    let options = Options { memory_bytes: 32 << 20, ..Options::default() };
    let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
    let options =
        TableOptions { layout: Layout::Lsm, filter_bits_per_key, block_bytes: 512, ..TableOptions::default() };
    let table = db.create_table("t", options).unwrap();
    if held {
        table.hold().unwrap();
    }
    (db, table)
}

/// Puts every `step`th of so many numbers, with the value given, and flushes.
fn lay_run(db: &Database, table: &Table, (numbers, step): (u32, usize), value: u8) {
    let mut batch = Batch::new();
    (0..numbers).step_by(step).for_each(|number| batch.put(table, number.to_be_bytes(), [value]));
    db.write_with(&batch, Durability::Buffered).unwrap();
    table.flush().unwrap();
}

fn view(db: &Database, table: &Table, viewable: ViewCandidate) -> Step {
    let core = db.core();
    let context = JobContext { state: &core.state, throttle: &core.throttle };
    MakeView { table: table.state(), viewable }.run(context).unwrap()
}

fn scan(snapshot: &Snapshot, table: &Table, from: u32, take: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let from = from.to_be_bytes();
    let range = snapshot.range(table, (Bound::Included(&from[..]), Bound::Unbounded));
    range.take(take).map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect::<Result<_, _>>().unwrap()
}

/// Reads until there is a view of so many trees.
fn read_until_viewed(db: &Database, table: &Table, trees: u64) {
    for _ in 0..100 {
        (0..1000).for_each(|number| drop(scan(&db.snapshot(), table, number, 1)));
        if db.core().compactor.paid_step(table.state()).unwrap() && table.shape().unwrap().viewed == trees {
            return;
        }
    }
    panic!("there is no view of {trees} trees: {:?}", table.shape().unwrap());
}

/// A table that is held is never merged for its readers, however long they go on: a view is what is left.
#[test]
fn reads_of_a_held_table_pay_for_a_view_which_a_flush_leaves_and_a_compaction_ends() {
    let (db, table) = open(true, 0);
    (1..=4).for_each(|run| lay_run(&db, &table, (1000, usize::from(run)), run));
    table.compact_level(0).unwrap();
    (5..=8).for_each(|run| lay_run(&db, &table, (1000, usize::from(run)), run));
    let (before, old) = (scan(&db.snapshot(), &table, 0, 1000), db.snapshot());
    assert_eq!((table.shape().unwrap().trees, table.shape().unwrap().viewed), (5, 0));
    read_until_viewed(&db, &table, 4);
    assert_eq!((table.shape().unwrap().trees, &scan(&db.snapshot(), &table, 0, 1000)), (5, &before));

    // Fewer trees are walked over, and fewer blocks looked at, for the same.
    let seek = || {
        let before = db.stats().table_reads["t"];
        assert_eq!(scan(&db.snapshot(), &table, 501, 1).len(), 1);
        let after = db.stats().table_reads["t"];
        (after.seek_trees - before.seek_trees, after.seek_blocks - before.seek_blocks)
    };
    assert_eq!(seek(), (2, 2), "the index and leaf of the level");

    lay_run(&db, &table, (1000, 9), 9);
    assert_eq!((table.shape().unwrap().trees, table.shape().unwrap().viewed), (6, 4));
    assert_eq!(scan(&db.snapshot(), &table, 9, 1), [(9_u32.to_be_bytes().to_vec(), vec![9])]);
    assert_eq!(scan(&old, &table, 0, 1000), before);
    // What else is laid down is paid for again.
    read_until_viewed(&db, &table, 5);
    assert_eq!(scan(&old, &table, 0, 1000), before);

    let all = scan(&db.snapshot(), &table, 0, 1000);
    table.compact_level(0).unwrap();
    assert_eq!((table.shape().unwrap().viewed, scan(&db.snapshot(), &table, 0, 1000)), (0, all));
    assert_eq!(scan(&old, &table, 0, 1000), before);
}

/// A view does not keep a table from its merge.
#[test]
fn reads_of_a_table_pay_for_a_view_first_and_for_its_merge_then() {
    let (db, table) = open(false, 10);
    (1..=3).for_each(|run| lay_run(&db, &table, (10_000, usize::from(run)), run));
    let mut trees = vec![(3, 0)];
    for _ in 0..40 {
        (0..500).for_each(|number| drop(scan(&db.snapshot(), &table, number, 1)));
        db.core().compactor.paid_step(table.state()).unwrap();
        let shape = table.shape().unwrap();
        trees.push((shape.trees, shape.viewed));
    }
    trees.dedup();
    assert_eq!(trees, [(3, 0), (3, 3), (1, 0)]);
}

/// Reads until a table that can have no view is merged into one tree.
fn read_until_merged(db: &Database, table: &Table) {
    for _ in 0..40 {
        (0..500).for_each(|number| drop(scan(&db.snapshot(), table, number, 1)));
        db.core().compactor.paid_step(table.state()).unwrap();
        assert_eq!(table.shape().unwrap().viewed, 0);
    }
    assert_eq!(table.shape().unwrap().trees, 1);
}

/// A view for which there was no memory took what reads had paid each time, and the merge never came.
#[test]
fn a_table_without_memory_for_a_view_is_merged_for_its_readers() {
    let (db, table) = open(false, 10);
    (1..=3).for_each(|run| lay_run(&db, &table, (10_000, usize::from(run)), run));
    assert!(db.core().state.cache.reserve(db.core().state.cache.reservable_bytes()));
    read_until_merged(&db, &table);
}

/// So did one of more trees than it can tell apart.
#[test]
fn a_table_of_too_many_trees_for_a_view_is_merged_for_its_readers() {
    let (db, table) = open(false, 10);
    (1..=66).for_each(|run| lay_run(&db, &table, (500, 1), run));
    read_until_merged(&db, &table);
}

/// So did one whose keys took more memory than there was.
#[test]
fn a_table_whose_long_keys_leave_no_memory_for_a_view_is_merged_for_its_readers() {
    let (db, table) = open(false, 10);
    for run in 1..=3 {
        let mut batch = Batch::new();
        let key = |number: u32| [&[number.to_be_bytes()[2]; 400][..], &number.to_be_bytes()].concat();
        (0..10_000).for_each(|number| batch.put(&table, key(number), [run]));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
    }
    let cache = &db.core().state.cache;
    assert!(cache.reserve(cache.reservable_bytes() - 30_000 * ENTRY_BYTES));
    let viewable = table.state().version.load().trees.view_candidate();
    assert_eq!(view(&db, &table, viewable), Step::Nothing);
    read_until_merged(&db, &table);
}

/// A view of many entries takes a while, and L0 must not grow without end in it.
#[test]
fn what_is_laid_down_while_a_view_is_made_is_merged_beside_it() {
    let (db, table) = open(false, 10);
    (1..=3).for_each(|run| lay_run(&db, &table, (1000, usize::from(run)), run));
    let viewable = table.state().version.load().trees.view_candidate();
    (4..=40).for_each(|run| lay_run(&db, &table, (1000, usize::from(run)), run));
    let (before, all) = (table.shape().unwrap().trees, scan(&db.snapshot(), &table, 0, 1000));
    assert!(matches!(view(&db, &table, viewable), Step::Done(_)));
    let shape = table.shape().unwrap();
    assert!(before == 40 && shape.trees < 20 && shape.viewed == 3, "{shape:?}");
    assert_eq!(scan(&db.snapshot(), &table, 0, 1000), all);
}

fn get(snapshot: &Snapshot, table: &Table, number: u32) -> Option<Vec<u8>> {
    snapshot.get(table, number.to_be_bytes()).unwrap().map(|value| value.to_vec())
}

/// What is loaded goes below the trees of a view and above the last, and is no part of it; a snapshot from before
/// sees nothing of it by a view made since.
#[test]
fn a_load_below_the_trees_of_a_view_is_seen_by_those_after_it_and_by_no_others() {
    let (db, table) = open(true, 0);
    lay_run(&db, &table, (1000, 1), 0);
    table.compact_level(0).unwrap();
    (1..=3).for_each(|run| lay_run(&db, &table, (10, 1), run));
    read_until_viewed(&db, &table, 3);
    let (old, before) = (db.snapshot(), scan(&db.snapshot(), &table, 0, 2000));
    let mut load = table.bulk_load().unwrap();
    (500..600_u32).for_each(|number| load.push(&number.to_be_bytes(), &[9]).unwrap());
    load.finish().unwrap();
    let levels: Vec<_> = table.shape().unwrap().levels.iter().map(|level| level.entries).collect();
    assert_eq!(levels, [100, 1000], "the load is not in a level of its own");
    for trees in [0, 4] {
        if trees > 0 {
            read_until_viewed(&db, &table, trees);
        }
        let now = db.snapshot();
        let seen = scan(&now, &table, 0, 2000);
        assert_eq!(seen.iter().filter(|(_, value)| *value == [9]).count(), 100);
        assert_eq!((seen.len(), scan(&old, &table, 0, 2000)), (1000, before.clone()));
        assert_eq!((get(&now, &table, 550), get(&old, &table, 550)), (Some(vec![9]), Some(vec![0])));
        assert_eq!((get(&now, &table, 5), get(&old, &table, 5)), (Some(vec![3]), Some(vec![3])));
    }
}

/// A get by a view finds what it finds without, in every snapshot.
fn check_gets(filter_bits_per_key: u32, writes: &[(u8, u8, bool)]) {
    let (db, table) = open(true, filter_bits_per_key);
    lay_run(&db, &table, (256, 1), 0);
    table.compact_level(0).unwrap();
    let mut snapshots = vec![db.snapshot()];
    for (index, (key, value, deletes)) in writes.iter().enumerate() {
        let (mut batch, key) = (Batch::new(), u32::from(*key % 64).to_be_bytes());
        if *deletes {
            batch.delete(&table, key)
        } else {
            batch.put(&table, key, [*value])
        }
        db.write_with(&batch, Durability::Buffered).unwrap();
        if index % 8 == 7 {
            table.flush().unwrap();
            snapshots.push(db.snapshot());
        }
    }
    snapshots.push(db.snapshot());
    let all = || {
        let get = |snapshot: &Snapshot, key: u32| {
            snapshot.get(&table, key.to_be_bytes()).unwrap().map(|value| value.to_vec())
        };
        let gets = snapshots.iter().map(|snapshot| (0..65).map(|key| get(snapshot, key)).collect::<Vec<_>>());
        let gets: Vec<_> = gets.collect();
        for (snapshot, gets) in snapshots.iter().zip(&gets) {
            let keys: Vec<_> = (0..65_u32).map(u32::to_be_bytes).collect();
            let together = snapshot.multi_get(&table, &keys.iter().map(|key| &key[..]).collect::<Vec<_>>());
            let together = together.unwrap().into_iter().map(|value| value.map(|value| value.to_vec()));
            assert!(together.eq(gets.iter().cloned()), "together they are other values");
        }
        (gets, snapshots.iter().map(|snapshot| scan(snapshot, &table, 0, 300)).collect::<Vec<_>>())
    };
    let before = all();
    assert_eq!(table.shape().unwrap().viewed, 0);
    let l0 = table.shape().unwrap().l0.len();
    if l0 > 1 {
        read_until_viewed(&db, &table, l0 as u64);
        assert_eq!(all(), before);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn gets_and_scans_of_old_and_new_snapshots_find_by_a_view_what_they_find_without(
        filter_bits_per_key in prop_oneof![Just(0_u32), Just(10)],
        writes in prop::collection::vec((any::<u8>(), any::<u8>(), prop::bool::weighted(0.2)), 16..60),
    ) {
        check_gets(filter_bits_per_key, &writes);
    }
}
