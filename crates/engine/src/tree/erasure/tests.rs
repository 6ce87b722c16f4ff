//! Tests of sets of erasures against a list of them, and of the cursor over what they leave.

use std::ops::Bound;

use proptest::prelude::*;

use super::*;
use crate::tree::vec_cursor::{OwnedEntry, VecCursor, keys, trees};
use crate::tree::{Ages, Cursor};

pub(in crate::tree) fn erasures() -> impl Strategy<Value = Vec<Erasure>> {
    let erasure = (keys(), prop::option::of(keys()), 1..=20u64).prop_map(|(low, high, seqnum)| {
        let low = if low == [0] { Vec::new() } else { low };
        Erasure { range: Limits::new(low, high, None), seqnum: SeqNum(seqnum) }
    });
    prop::collection::vec(erasure, 0..8)
}

fn covers(erasure: &Erasure, key: &[u8]) -> bool {
    *erasure.range.low <= *key && !erasure.range.end_before(key)
}

/// The floor of a key, from the list.
pub(in crate::tree) fn floor_of(list: &[Erasure], key: &[u8], snapshot: SeqNum) -> SeqNum {
    let seqnums = list.iter().filter(|erasure| covers(erasure, key)).map(|erasure| erasure.seqnum);
    seqnums.filter(|seqnum| *seqnum <= snapshot).max().unwrap_or_default()
}

proptest! {
    #[test]
    fn a_set_covers_what_its_erasures_cover(list in erasures(), key in keys(), snapshot in 0..=21u64) {
        let (set, snapshot) = (list.iter().cloned().collect::<Erasures>(), SeqNum(snapshot));
        prop_assert_eq!(set.floor(&key, snapshot), floor_of(&list, &key, snapshot));
        prop_assert_eq!(set.is_empty(), set.iter().next().is_none());
        let again: Erasures = set.iter().collect();
        prop_assert_eq!(again.floor(&key, snapshot), set.floor(&key, snapshot));
        prop_assert_eq!(again.newest(), set.newest());
        let some = set.filtered(|seqnum| seqnum.0 > 10);
        let newer: Vec<_> = list.into_iter().filter(|erasure| erasure.seqnum.0 > 10).collect();
        prop_assert_eq!(some.floor(&key, snapshot), floor_of(&newer, &key, snapshot));
    }

    #[test]
    fn ranges_are_touched_and_covered_as_their_keys_are(
        list in erasures(), ends in (keys(), keys()), after in 0..=20u64, to in 0..=21u64,
    ) {
        let (low, high) = if ends.0 <= ends.1 { ends } else { (ends.1, ends.0) };
        let (set, span) = (list.iter().cloned().collect::<Erasures>(), (SeqNum(after), SeqNum(to)));
        let wanted = |erasure: &&Erasure| span.0 < erasure.seqnum && erasure.seqnum <= span.1;
        let wanted: Vec<_> = list.iter().filter(wanted).collect();
        let touched = wanted.iter().any(|erasure| {
            !erasure.range.end_before(&erasure.range.low) && erasure.range.low <= high && !erasure.range.end_before(&low)
        });
        prop_assert_eq!(set.touch(&low, Bound::Included(&high), span), touched);
        // Every key at which something changes, and the ends.
        let mut borders = vec![low.clone(), high.clone()];
        borders.extend(list.iter().flat_map(|erasure| [Some(erasure.range.low.clone()), erasure.range.high.clone()]).flatten());
        borders.retain(|border| low <= *border && *border <= high);
        let covered = borders.iter().all(|key| wanted.iter().any(|erasure| covers(erasure, key)));
        prop_assert_eq!(set.cover(&low, &high, span), covered);
    }

    /// What goes was not needed by any snapshot, for any entry that a tree may still hold.
    #[test]
    fn what_is_not_needed_hides_nothing_more(
        list in erasures(),
        snapshots in prop::collection::btree_set(0..=21u64, 1..4),
        held in prop::collection::vec((keys(), prop::option::of(keys()), 0..=20u64), 0..3),
        key in keys(), seqnum in 0..=20u64,
    ) {
        let snapshots: Vec<_> = snapshots.into_iter().map(SeqNum).collect();
        let set: Erasures = list.iter().cloned().collect();
        let trees: Vec<_> = held.iter().map(|(smallest, largest, clean_to)| {
            Held { smallest, largest: largest.as_deref(), clean_to: SeqNum(*clean_to).min(snapshots[0]) }
        }).collect();
        let needed = set.needed(&snapshots, &trees);
        prop_assert_eq!(&needed.needed(&snapshots, &trees), &needed);
        let published = snapshots[snapshots.len() - 1];
        for tree in &trees {
            let holds = *tree.smallest <= *key && tree.largest.is_none_or(|largest| *key <= *largest);
            let counts_as = SeqNum(seqnum).max(tree.clean_to);
            for snapshot in snapshots.iter().copied().chain((published.0..=21).map(SeqNum)).filter(|_| holds) {
                prop_assert_eq!(counts_as < needed.floor(&key, snapshot), counts_as < set.floor(&key, snapshot));
            }
        }
        // Nor does it hide from a transaction that something was erased after it began.
        for snapshot in snapshots {
            prop_assert_eq!(needed.floor(&key, SeqNum::MAX) > snapshot, set.floor(&key, SeqNum::MAX) > snapshot);
        }
    }

    #[test]
    fn a_cursor_shows_what_is_not_erased_both_ways(
        list in erasures(), tree in trees(), copies in 1..12usize, snapshot in 0..=21u64, moves in prop::collection::vec(0..6, 0..20),
        least in 0..=5u64, known: bool, key in keys(),
    ) {
        let snapshot = SeqNum(snapshot);
        let entries: Vec<_> = tree.into_iter().flat_map(|entry| std::iter::repeat_n(entry, copies)).collect();
        let most = entries.iter().map(|entry| entry.seqnum).max().unwrap_or_default().max(SeqNum(least));
        let ages = Ages { least: SeqNum(least), most: if known { most } else { SeqNum::MAX } };
        let left: Vec<_> = entries
            .iter()
            .filter(|entry| entry.seqnum.max(ages.least) >= floor_of(&list, &entry.key, snapshot))
            .cloned()
            .collect();
        let aged = Box::new(VecCursor::new(entries).aged(ages));
        let mut cursor = Unerased::new(aged, Arc::new(list.into_iter().collect()), snapshot);
        let mut expected = VecCursor::new(left);
        for step in moves {
            for moved in [&mut cursor as &mut dyn Cursor, &mut expected] {
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
    let erasures: Erasures = [Erasure { range, seqnum: SeqNum(6) }].into_iter().collect();
    // All moves beyond these fail.
    let tree = VecCursor::new(entries).failing_after(60);
    let aged = Box::new(tree.aged(Ages { least: SeqNum::ZERO, most: SeqNum(5) }));
    let mut cursor = Unerased::new(aged, Arc::new(erasures), SeqNum(9));
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
    let erasures: Arc<Erasures> = Arc::new([Erasure { range: all, seqnum: SeqNum(6) }].into_iter().collect());
    let limits = Arc::new(Limits::new(vec![100], Some(vec![103]), None));
    for backward in [false, true] {
        // How new the tree is, is not known; all moves beyond these fail.
        let tree = VecCursor::new((0..200).map(entry).collect()).failing_after(5);
        let mut cursor = Unerased::new(Box::new(tree), Arc::clone(&erasures), SeqNum(9));
        cursor.limit(&limits);
        if backward {
            cursor.seek_lt(&[103]).unwrap()
        } else {
            cursor.seek_ge(&[100]).unwrap()
        }
        assert!(cursor.entry().is_none_or(|entry| entry.key < &[100][..] || entry.key >= &[103][..]));
    }
}
