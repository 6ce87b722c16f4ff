//! Tests of views: against the entries of their trees in a row, under limits, and failing.

use std::sync::Arc;

use super::*;
use crate::base::ErrorKind;
use crate::base::num::u64_of;
use crate::cache::{Cache, Fill};
use crate::env::sim::Fault;
use crate::tree::merge::MergeCursor;
use crate::tree::run::tests::{Bench, all_entries, cut_between_keys, moves, put, run_entries, walk_alike};
use crate::tree::run::{RunOptions, ViewBuilder};
use crate::tree::vec_cursor::{OwnedEntry, VecCursor, keys};
use crate::tree::{Cursor, KeyCursor, LazySeek, Limits};
use proptest::prelude::*;

/// Trees of some runs each, newest first, whose keys may all begin with the same bytes.
fn tree_entries() -> impl Strategy<Value = Vec<(Vec<OwnedEntry>, Vec<prop::sample::Index>)>> {
    let cuts = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    let trees =
        prop::collection::vec((run_entries().prop_filter("entries", |entries| !entries.is_empty()), cuts), 2..5);
    (trees, prop_oneof![Just(0), Just(20), Just(60)]).prop_map(|(mut trees, shared)| {
        for entry in trees.iter_mut().flat_map(|(entries, _)| entries) {
            entry.key = [&vec![b'p'; shared], &*entry.key].concat();
        }
        trees
    })
}

fn lay(bench: &mut Bench, trees: &[(Vec<OwnedEntry>, Vec<prop::sample::Index>)]) -> Vec<Tree> {
    let tree = |(entries, cuts): &(Vec<OwnedEntry>, Vec<prop::sample::Index>)| -> Tree {
        cut_between_keys(entries, cuts).into_iter().map(|part| bench.run(part)).collect()
    };
    trees.iter().map(tree).collect()
}

fn view(trees: Vec<Tree>) -> Arc<View> {
    let mut builder = ViewBuilder::new(trees, &Arc::new(Cache::new(1 << 30))).unwrap().expect("there is reservation");
    while builder.step(7).unwrap() == Some(false) {}
    Arc::new(builder.finish())
}

/// All entries in the order of keys, and then of trees.
fn in_a_row(trees: &[(Vec<OwnedEntry>, Vec<prop::sample::Index>)]) -> Vec<OwnedEntry> {
    let mut all: Vec<_> = trees.iter().flat_map(|(entries, _)| entries).cloned().collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_view_shows_the_entries_of_its_trees(trees in tree_entries(), moves in moves(), large in run_entries()) {
        let mut bench = Bench::new();
        let laid = lay(&mut bench, &trees);
        let (view, all) = (view(laid), in_a_row(&trees));
        prop_assert_eq!(view.entries(), u64_of(all.len()));
        for fill in [Fill::Keep, Fill::Bypass] {
            walk_alike(&mut view.cursor(fill), &mut VecCursor::new(all.clone()), &moves)?;
            prop_assert_eq!(&all_entries(&mut view.cursor(fill)).unwrap(), &all);
        }
        // Over a large tree the view comes near its entries only.
        let mut both = [all, large.clone()].concat();
        both.sort_by(|a, b| a.key.cmp(&b.key));
        let mut merge = MergeCursor::new(vec![Box::new(view.cursor(Fill::Keep)), Box::new(VecCursor::new(large))]);
        walk_alike(&mut merge, &mut VecCursor::new(both), &moves)?;
    }

    #[test]
    fn within_limits_a_view_shows_all(trees in tree_entries(), spans in prop::collection::vec((keys(), keys()), 1..12)) {
        let mut bench = Bench::new();
        let laid = lay(&mut bench, &trees);
        let (view, all) = (view(laid), in_a_row(&trees));
        let shared = all[0].key.iter().take_while(|byte| **byte == b'p').count();
        for (low, high) in spans {
            let [low, high] = [low, high].map(|key| [&vec![b'p'; shared], &*key].concat());
            let limits = Arc::new(Limits::new(low.clone(), Some(high.clone()), None));
            let expected: Vec<_> = all.iter().filter(|entry| limits.contain(&entry.key)).cloned().collect();
            let (mut cursor, mut seen) = (view.cursor(Fill::Keep), Vec::new());
            cursor.limit(&limits);
            cursor.seek_ge(&low).unwrap();
            while let Some(entry) = cursor.entry().filter(|entry| limits.contain(entry.key)) {
                seen.push(OwnedEntry::of(entry));
                cursor.next().unwrap();
            }
            prop_assert_eq!(&seen, &expected);
            seen.clear();
            cursor.seek_lt(&high).unwrap();
            while let Some(entry) = cursor.entry().filter(|entry| limits.contain(entry.key)) {
                seen.push(OwnedEntry::of(entry));
                cursor.prev().unwrap();
            }
            seen.reverse();
            prop_assert_eq!(&seen, &expected, "backward");
        }
    }
}

/// Numbers `from`, `from + step` and so on up to 10,000.
fn numbers(from: usize, step: usize) -> (Vec<OwnedEntry>, Vec<prop::sample::Index>) {
    let entry = |number: usize| put(format!("key-{number:09}").as_bytes(), 1, &[7; 20]);
    ((from..10_000).step_by(step).map(entry).collect(), Vec::new())
}

/// A view of three trees of 5,000, 2,000 and 1,000 numbers.
fn view_of_numbers(bench: &mut Bench) -> Arc<View> {
    let trees = lay(bench, &[numbers(1, 2), numbers(0, 5), numbers(0, 10)]);
    view(trees)
}

/// The reason for views: of many trees a walk looks at those only that have what it comes to.
#[test]
fn a_short_walk_looks_at_few_blocks() {
    let mut bench = Bench::new();
    let view = view_of_numbers(&mut bench);
    let mut cursor = view.cursor(Fill::Keep);
    cursor.lazy_seek_ge(b"key-000005002").unwrap();
    assert!(cursor.lazy_key().is_some() && cursor.entry().is_none());
    assert_eq!(cursor.costs().blocks, 0, "it only came near");
    cursor.resolve().unwrap();
    assert_eq!(cursor.key(), Some(&b"key-000005003"[..]));
    assert_eq!(cursor.costs().blocks, 2, "a part of the index and a leaf, of one tree");
}

/// An upper bound stops a walk before a block is read for what lies behind it.
#[test]
fn what_lies_behind_the_limits_is_not_looked_at() {
    let mut bench = Bench::new();
    let trees = lay(&mut bench, &[numbers(4000, 6000), numbers(9000, 6000)]);
    let view = view(trees);
    let mut cursor = view.cursor(Fill::Keep);
    cursor.limit(&Arc::new(Limits::new(b"key-000005000".to_vec(), Some(b"key-000006000".to_vec()), None)));
    cursor.seek_ge(b"key-000005000").unwrap();
    assert!(cursor.entry().is_none() && cursor.costs().blocks == 0);
    cursor.seek_lt(b"key-000006000").unwrap();
    assert!(cursor.entry().is_none() && cursor.costs().blocks == 0);
}

/// Several versions of a key are passed without a look at them.
#[test]
fn older_versions_are_not_looked_at() {
    let mut bench = Bench::with(RunOptions { block_bytes: 4000, ..Bench::new().options });
    let versions = |from: u64| (0..100).map(|version| put(b"key", from - version, b"")).collect::<Vec<_>>();
    let newest = [versions(400), vec![put(b"last", 1, b"")]].concat();
    let trees = lay(&mut bench, &[(newest, Vec::new()), (versions(200), Vec::new())]);
    let view = view(trees);
    let (mut cursor, mut key) = (view.cursor(Fill::Keep), Vec::new());
    cursor.first().unwrap();
    assert_eq!((cursor.next_key(&mut key).unwrap(), &*key), (199, &b"key"[..]));
    assert_eq!((cursor.key(), cursor.costs().blocks), (Some(&b"last"[..]), 2));
}

#[test]
fn a_view_takes_its_memory_from_the_cache_and_gives_it_back() {
    let mut bench = Bench::new();
    let trees = lay(&mut bench, &[numbers(1, 2), numbers(0, 5)]);
    let bytes = 7000 * ENTRY_BYTES;
    // What trees keep may be a thirty-second of the capacity.
    let cache = Arc::new(Cache::new(32 * bytes));
    let builder = ViewBuilder::new(trees.clone(), &cache).unwrap();
    assert!(builder.is_some() && !cache.reserve(1));
    assert!(ViewBuilder::new(trees, &cache).unwrap().is_none(), "there is no more");
    drop(builder);
    assert!(cache.reserve(bytes));
}

/// A leaf that cannot be read fails the walk that comes to it, and fuses it, also where that only comes near first.
#[test]
fn a_failed_read_fuses_the_cursor_and_the_merge_over_it() {
    let mut bench = Bench::new();
    let view = view_of_numbers(&mut bench);
    let mut cursor = view.cursor(Fill::Keep);
    let large = VecCursor::new(vec![put(b"key-000009999-", 1, b"")]);
    let mut merge = MergeCursor::new(vec![Box::new(view.cursor(Fill::Keep)), Box::new(large)]);
    let fail = || bench.sim.fail_at(bench.sim.op_count(), Fault::Error(std::io::ErrorKind::Other));
    cursor.lazy_seek_ge(b"key-000005002").unwrap();
    fail();
    assert_eq!(cursor.resolve().unwrap_err().kind(), ErrorKind::Io);
    assert!(cursor.entry().is_none() && cursor.first().is_err() && cursor.next().is_err());
    fail();
    assert_eq!(merge.seek_ge(b"key-000005002").unwrap_err().kind(), ErrorKind::Io);
    assert!(merge.entry().is_none() && merge.next().is_err());
}
