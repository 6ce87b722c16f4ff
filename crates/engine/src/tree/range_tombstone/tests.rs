//! Tests of sets of range tombstones against a list of them, and of the cursor over what they leave.

use std::ops::Bound;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::SeqNum;
use crate::base::steps::steps;
use crate::tree::cursor::Limits;
use crate::tree::vec_cursor::{OwnedEntry, VecCursor, keys, trees};
use crate::tree::{Cursor, MergeSource, SeqnumBounds};

pub(in crate::tree) fn range_tombstones() -> impl Strategy<Value = Vec<RangeTombstone>> {
    let range_tombstone = (keys(), prop::option::of(keys()), 1..=20u64).prop_map(|(low, high, seqnum)| {
        let low = if low == [0] { Vec::new() } else { low };
        RangeTombstone { range: Limits::new(low, high, None), seqnum: SeqNum(seqnum) }
    });
    prop::collection::vec(range_tombstone, 0..8)
}

fn covers(range_tombstone: &RangeTombstone, key: &[u8]) -> bool {
    *range_tombstone.range.low <= *key && !range_tombstone.range.end_before(key)
}

/// The floor of a key, from the list.
pub(in crate::tree) fn floor_of(list: &[RangeTombstone], key: &[u8], snapshot: SeqNum) -> SeqNum {
    let seqnums = list
        .iter()
        .filter(|range_tombstone| covers(range_tombstone, key))
        .map(|range_tombstone| range_tombstone.seqnum);
    seqnums.filter(|seqnum| *seqnum <= snapshot).max().unwrap_or_default()
}

/// What sets of range tombstones hide from a snapshot that sees all of them.
fn hiding(sets: impl IntoIterator<Item = RangeTombstones>) -> Arc<Masks> {
    let layers = sets.into_iter().fold(TombstoneLayers::default(), |layers, set| layers.with(&Arc::new(set)));
    Arc::new(layers.hiding(SeqNum(9)))
}

proptest! {
    #[test]
    fn a_set_covers_what_its_erasures_cover(list in range_tombstones(), key in keys(), snapshot in 0..=21u64) {
        let (set, snapshot) = (list.iter().cloned().collect::<RangeTombstones>(), SeqNum(snapshot));
        prop_assert_eq!(set.floor(&key, snapshot), floor_of(&list, &key, snapshot));
        prop_assert_eq!(set.is_empty(), set.iter().next().is_none());
        let again: RangeTombstones = set.iter().collect();
        prop_assert_eq!(again.floor(&key, snapshot), set.floor(&key, snapshot));
        prop_assert_eq!(again.newest(), set.newest());
        let some = set.filtered(|seqnum| seqnum.0 > 10);
        let newer: Vec<_> = list.into_iter().filter(|range_tombstone| range_tombstone.seqnum.0 > 10).collect();
        prop_assert_eq!(some.floor(&key, snapshot), floor_of(&newer, &key, snapshot));
    }

    #[test]
    fn sets_that_are_joined_cover_the_same(
        list in range_tombstones(), layers in prop::collection::vec(0..3usize, 8), key in keys(), snapshot in 0..=21u64,
        live in prop::collection::btree_set(0..=21u64, 1..4), older in 0..=21u64,
    ) {
        let (snapshot, of_layer) = (SeqNum(snapshot), |of: usize| {
            list.iter().zip(&layers).filter(move |(_, layer)| **layer == of).map(|(one, _)| one)
        });
        let sets: Vec<Arc<RangeTombstones>> = (0..3).map(|of| Arc::new(of_layer(of).cloned().collect())).collect();
        let all = sets.iter().skip(1).fold(TombstoneLayers::of_disk(&sets[0]), |layers, set| layers.with(set));
        prop_assert_eq!(all.floor(&key, snapshot), floor_of(&list, &key, snapshot));
        prop_assert_eq!(all.is_empty(), sets.iter().all(|set| set.is_empty()));
        // Two neighbours become one, and those that are flushed go to disk.
        let live: Vec<_> = live.into_iter().map(SeqNum).collect();
        let as_one = Arc::new(sets[1].and_told(&sets[2], &live));
        if let Some(joined) = all.joined(&[Arc::clone(&sets[1]), Arc::clone(&sets[2])], &as_one) {
            prop_assert_eq!(joined.in_memory(), 1);
            for snapshot in live.iter().copied().chain((live[live.len() - 1].0..=21).map(SeqNum)) {
                prop_assert_eq!(joined.floor(&key, snapshot), floor_of(&list, &key, snapshot));
            }
        }
        let before = all.before(SeqNum(older));
        let flushed = all.flushed(&Arc::new(sets[0].and(&before)), SeqNum(older));
        prop_assert_eq!(flushed.floor(&key, snapshot), floor_of(&list, &key, snapshot));
        prop_assert!(before.newest().0 < older || before.is_empty());
        // To whom all are seen at once only the newest of a key counts.
        let ends = |range_tombstone: &'_ RangeTombstone| (range_tombstone.range.low.clone(), range_tombstone.range.high.clone(), range_tombstone.seqnum);
        let ends: Vec<_> = list.iter().map(ends).collect();
        let newest = RangeTombstones::newest_of(ends.iter().map(|(low, high, seqnum)| (&**low, high.as_deref(), *seqnum)));
        prop_assert_eq!(newest.floor(&key, SeqNum::MAX), floor_of(&list, &key, SeqNum::MAX));
        prop_assert!(newest.covering(&key).len() <= 1);
        let again = newest.clone().later(7);
        prop_assert_eq!(again.newest().0, if newest.is_empty() { 7 } else { newest.newest().0 + 7 });
    }

    #[test]
    fn ranges_are_touched_and_covered_as_their_keys_are(
        list in range_tombstones(), ends in (keys(), keys()), after in 0..=20u64, to in 0..=21u64,
    ) {
        let (low, high) = if ends.0 <= ends.1 { ends } else { (ends.1, ends.0) };
        let (set, span) = (list.iter().cloned().collect::<RangeTombstones>(), (SeqNum(after), SeqNum(to)));
        let wanted = |range_tombstone: &&RangeTombstone| span.0 < range_tombstone.seqnum && range_tombstone.seqnum <= span.1;
        let wanted: Vec<_> = list.iter().filter(wanted).collect();
        let touched = wanted.iter().any(|range_tombstone| {
            !range_tombstone.range.end_before(&range_tombstone.range.low) && range_tombstone.range.low <= high && !range_tombstone.range.end_before(&low)
        });
        prop_assert_eq!(set.touch(&low, Bound::Included(&high), span), touched);
        // Every key at which something changes, and the ends.
        let mut borders = vec![low.clone(), high.clone()];
        borders.extend(list.iter().flat_map(|range_tombstone| [Some(range_tombstone.range.low.clone()), range_tombstone.range.high.clone()]).flatten());
        borders.retain(|border| low <= *border && *border <= high);
        let covered = borders.iter().all(|key| wanted.iter().any(|range_tombstone| covers(range_tombstone, key)));
        prop_assert_eq!(set.cover(&low, &high, span), covered);
    }

    /// What goes was not needed by any snapshot, for any entry that a tree may still hold.
    #[test]
    fn what_is_not_needed_hides_nothing_more(
        list in range_tombstones(),
        snapshots in prop::collection::btree_set(0..=21u64, 1..4),
        held in prop::collection::vec((keys(), prop::option::of(keys()), 0..=20u64), 0..3),
        meeting in prop::collection::vec(prop::option::of(any::<prop::sample::Index>()), 3),
        key in keys(), seqnum in 0..=20u64,
    ) {
        let snapshots: Vec<_> = snapshots.into_iter().map(SeqNum).collect();
        let set: RangeTombstones = list.iter().cloned().collect();
        let trees: Vec<_> = held.iter().zip(&meeting).map(|((smallest, largest, clean_to), meets)| {
            // Some trees end with the key that a range begins with.
            let low = meets.filter(|_| !list.is_empty()).map(|index| &*index.get(&list).range.low);
            let (smallest, largest) = (low.unwrap_or(smallest).min(smallest), low.or(largest.as_deref()));
            TreeExtent { smallest, largest, clean_to: SeqNum(*clean_to).min(snapshots[0]) }
        }).collect();
        let needed = set.needed(&snapshots, &trees);
        prop_assert_eq!(&needed.needed(&snapshots, &trees), &needed);
        let published = snapshots[snapshots.len() - 1];
        // Any key, and those at which a tree begins or ends, where a range may begin or end too.
        let ends = trees.iter().flat_map(|tree| [Some(tree.smallest), tree.largest]).flatten();
        for (tree, key) in ends.chain([&*key]).flat_map(|key| trees.iter().map(move |tree| (tree, key))) {
            let holds = *tree.smallest <= *key && tree.largest.is_none_or(|largest| *key <= *largest);
            let counts_as = SeqNum(seqnum).max(tree.clean_to);
            for snapshot in snapshots.iter().copied().chain((published.0..=21).map(SeqNum)).filter(|_| holds) {
                prop_assert_eq!(counts_as < needed.floor(key, snapshot), counts_as < set.floor(key, snapshot));
            }
        }
        // Nor does it hide from a transaction that something was erased after it began.
        for snapshot in snapshots {
            prop_assert_eq!(needed.floor(&key, SeqNum::MAX) > snapshot, set.floor(&key, SeqNum::MAX) > snapshot);
        }
    }

    #[test]
    fn a_cursor_shows_what_is_not_erased_both_ways(
        list in range_tombstones(), layers in prop::collection::vec(0..4usize, 8), tree in trees(), copies in 1..12usize,
        snapshot in 0..=21u64, before in prop_oneof![3 => Just(0), 1 => 0..=20u64],
        moves in prop::collection::vec(0..6, 0..20), least in 0..=5u64, known: bool, key in keys(),
    ) {
        let (snapshot, before) = (SeqNum(snapshot), SeqNum(before));
        let entries: Vec<_> = tree.into_iter().flat_map(|entry| std::iter::repeat_n(entry, copies)).collect();
        let most = entries.iter().map(|entry| entry.seqnum).max().unwrap_or_default().max(SeqNum(least));
        let seqnum_bounds = SeqnumBounds { smallest: SeqNum(least), largest: if known { most } else { SeqNum::MAX } };
        let left: Vec<_> = entries
            .iter()
            .filter(|entry| entry.seqnum.max(seqnum_bounds.smallest) >= floor_of(&list, &entry.key, snapshot).max(before))
            .cloned()
            .collect();
        let aged = Box::new(VecCursor::new(entries).aged(seqnum_bounds));
        let set = |of: usize| list.iter().zip(&layers).filter(|(_, layer)| **layer == of).map(|(one, _)| one.clone()).collect();
        let sets = (1..4).fold(TombstoneLayers::of_disk(&Arc::new(set(0))), |sets, of| sets.with(&Arc::new(set(of))));
        let mut cursor = RangeDelCursor::new(aged, Arc::new(sets.hiding(snapshot).before(before)));
        let mut expected = VecCursor::new(left);
        for step in moves {
            for moved in [&mut cursor as &mut dyn MergeSource, &mut expected] {
                match step {
                    0 => moved.first().unwrap(),
                    1 => moved.last().unwrap(),
                    2 => moved.seek_ge(&key).unwrap(),
                    3 => moved.seek_lt(&key).unwrap(),
                    4 => moved.next().unwrap(),
                    _ => moved.prev().unwrap(),
                }
            }
            prop_assert_eq!(cursor.entry(), expected.entry());
            prop_assert_eq!(cursor.value(), expected.value());
        }
    }
}

#[test]
fn a_row_of_erased_entries_is_passed_by_few_steps() {
    let entry = |number: u32| OwnedEntry {
        key: number.to_be_bytes().to_vec(),
        seqnum: SeqNum(5),
        kind: crate::base::Kind::Put,
        value: Vec::new(),
    };
    let entries: Vec<_> = (0..10_000).map(entry).collect();
    let range = Limits::new(10u32.to_be_bytes().to_vec(), Some(9_990u32.to_be_bytes().to_vec()), None);
    let range_tombstones: RangeTombstones = [RangeTombstone { range, seqnum: SeqNum(6) }].into_iter().collect();
    // All moves beyond these fail.
    let tree = VecCursor::new(entries).failing_after(60);
    let aged = Box::new(tree.aged(SeqnumBounds { smallest: SeqNum::ZERO, largest: SeqNum(5) }));
    let mut cursor = RangeDelCursor::new(aged, hiding([range_tombstones]));
    cursor.first().unwrap();
    let mut seen = 0;
    while cursor.entry().is_some() {
        seen += 1;
        cursor.next().unwrap();
    }
    assert_eq!(seen, 20);
}

#[test]
fn a_walk_within_an_erased_range_ends_with_its_limits() {
    let entry = |number: u8| OwnedEntry {
        key: vec![number],
        seqnum: SeqNum(5),
        kind: crate::base::Kind::Put,
        value: Vec::new(),
    };
    let all = Limits::default();
    let hiding = hiding([[RangeTombstone { range: all, seqnum: SeqNum(6) }].into_iter().collect()]);
    let limits = Arc::new(Limits::new(vec![100], Some(vec![103]), None));
    for backward in [false, true] {
        // How new the tree is, is not known; all moves beyond these fail.
        let tree = VecCursor::new((0..200).map(entry).collect()).failing_after(5);
        let mut cursor = RangeDelCursor::new(Box::new(tree), Arc::clone(&hiding));
        cursor.limit(&limits);
        if backward {
            cursor.seek_lt(&[103]).unwrap()
        } else {
            cursor.seek_ge(&[100]).unwrap()
        }
        assert!(cursor.entry().is_none_or(|entry| entry.key < &[100][..] || entry.key >= &[103][..]));
    }
}

/// How many steps `work` takes.
fn steps_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = steps();
    let done = work();
    (done, steps() - before)
}

/// Ranges that do not touch, in a random order.
fn disjoint(count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
    let key = |number: u32| number.wrapping_mul(0x9e37_79b1).to_be_bytes().to_vec();
    let after = |mut key: Vec<u8>| {
        key.push(1);
        key
    };
    (0..count).map(|number| (key(number), after(key(number)))).collect()
}

fn single(range: &(Vec<u8>, Vec<u8>), seqnum: u64) -> RangeTombstones {
    RangeTombstones::newest_of([(&*range.0, Some(&*range.1), SeqNum(seqnum))].into_iter())
}

/// Each range tombstone copied all that were there: 10,000 of a batch took seconds.
#[test]
fn many_ranges_cost_no_more_than_n_log_n() {
    const COUNT: u32 = 1 << 15;
    let (count, log) = (u64::from(COUNT), 15);
    let ranges = disjoint(COUNT);
    let batch = || ranges.iter().zip(1..).map(|((low, high), seqnum)| (&**low, Some(&**high), SeqNum(seqnum)));
    let (at_once, steps) = steps_of(|| RangeTombstones::newest_of(batch()));
    assert!(steps <= 4 * count * log, "{steps} steps for a batch");
    let one_by_one = || {
        (1..)
            .zip(&ranges)
            .fold(TombstoneLayers::default(), |all, (seqnum, range)| all.with_joined(single(range, seqnum)))
    };
    let (one_by_one, steps) = steps_of(one_by_one);
    assert!(steps <= 8 * count * log, "{steps} steps for one after the other");
    assert!(one_by_one.in_memory() <= 16, "{} sets", one_by_one.in_memory());
    assert_eq!((at_once.len(), one_by_one.len()), (1 << 15, 1 << 15));
    for (low, _) in ranges.iter().step_by(97) {
        let (in_one, steps) = steps_of(|| at_once.floor(low, SeqNum::MAX));
        assert!(steps <= log + 2, "{steps} steps for a key");
        let (in_many, steps) = steps_of(|| one_by_one.floor(low, SeqNum::MAX));
        assert!(steps <= log * log, "{steps} steps for a key in several sets");
        assert!(in_one == in_many && in_one > SeqNum::ZERO);
    }
    let (_, steps) = steps_of(|| one_by_one.before(SeqNum::MAX));
    assert!(steps <= 8 * count, "{steps} steps for a flush");
    let tree = |number: u32| TreeExtent { smallest: &[], largest: None, clean_to: SeqNum(u64::from(number)) };
    let trees: Vec<_> = (0..1000).map(tree).collect();
    let (needed, steps) = steps_of(|| at_once.needed(&[SeqNum::MAX], &trees));
    assert!(steps <= 4 * count && needed.len() == at_once.len(), "{steps} steps to see what is needed");
}

/// As a queue does of which the front is deleted again and again.
#[test]
fn ranges_that_cover_each_other_stay_few() {
    let ends: Vec<_> = (1..=1 << 12).map(|end: u32| end.to_be_bytes().to_vec()).collect();
    let fronts = || (1..).zip(&ends).map(|(seqnum, end)| (&[][..], Some(&**end), SeqNum(seqnum)));
    assert_eq!(RangeTombstones::newest_of(fronts()).len(), 1, "the last covers all");
    let backwards = (1..).zip(ends.iter().rev()).map(|(seqnum, end)| (&[][..], Some(&**end), SeqNum(seqnum)));
    assert_eq!(RangeTombstones::newest_of(backwards).len(), 1 << 12, "each is the newest of some key");
    let all = fronts().fold(TombstoneLayers::default(), |all, range| {
        all.with_joined(RangeTombstones::newest_of([range].into_iter()))
    });
    let segments: usize = all.sets().map(|set| set.segments()).sum();
    assert!(segments <= 40, "{segments} segments of ranges of which the last covers all");
}
