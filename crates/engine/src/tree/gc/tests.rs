//! Tests of the one rule: what it keeps must read as before, and nothing more.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::base::key::descends;
use crate::base::{Entry, Kind, SeqNum};
use crate::cache::Fill;
use crate::tree::compaction_filter::TableFilter;
use crate::tree::operator::{ADD, TableOperator, built_in};
use crate::tree::range_tombstone::tests::{floor_of, range_tombstones};
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::tree::values::ValueFiles;
use crate::tree::vec_cursor::{Append, OwnedEntry, folded, trees};

const NEWEST: u64 = 21;

/// The snapshots of one moment: some live, and all that see at least up to `published`.
#[derive(Clone, Debug)]
pub(super) struct Moment {
    pub(super) live: BTreeSet<u64>,
    pub(super) published: u64,
}

impl Moment {
    pub(super) fn snapshots(&self) -> BTreeSet<u64> {
        self.live.iter().copied().chain(self.published..=NEWEST).collect()
    }

    pub(super) fn rule(&self, bottom: bool) -> GcRule {
        GcRule::new(self.live.iter().rev().copied().map(SeqNum).collect(), SeqNum(self.published), bottom)
    }
}

pub(super) fn moment() -> impl Strategy<Value = Moment> {
    let seqnums = || 0..=NEWEST;
    (prop::collection::btree_set(seqnums(), 0..4), seqnums()).prop_map(|(live, published)| Moment { live, published })
}

/// What the rule makes of `entries`, where operands are folded or not.
pub(super) fn apply(rule: GcRule, operator: &TableOperator, entries: &[OwnedEntry]) -> Vec<OwnedEntry> {
    let entries: Vec<_> = entries.iter().map(|entry| (SeqNum::ZERO, entry.clone())).collect();
    apply_from(rule, operator, &entries).entries
}

/// A tree, and up to where it is clean.
#[derive(Clone, Debug)]
struct Tree {
    entries: Vec<OwnedEntry>,
    clean_to: SeqNum,
}

impl Tree {
    fn new(entries: Vec<OwnedEntry>) -> Self {
        Self { entries, clean_to: SeqNum::ZERO }
    }
}

/// As [`apply`], of entries from trees that are clean up to different seqnums.
fn apply_from(rule: GcRule, operator: &TableOperator, entries: &[(SeqNum, OwnedEntry)]) -> Tree {
    let mut rule = rule.with_operator(operator.clone());
    let mut kept = Vec::new();
    let mut out = |entry: &Entry<'_>| {
        kept.push(OwnedEntry::of(*entry));
        Ok(())
    };
    for (clean_to, entry) in entries {
        rule.push_from(*clean_to, &entry.entry(), &mut out).unwrap();
    }
    rule.end_key(&mut out).unwrap();
    let newest = entries.iter().map(|(clean_to, entry)| entry.seqnum.max(*clean_to)).max().unwrap_or_default();
    let (dropped, clean_to) = (rule.dropped(), rule.clean_to(newest));
    assert_eq!(dropped, (entries.len() - kept.len()) as u64);
    Tree { entries: kept, clean_to }
}

/// What `snapshot` reads of `key` in trees from the newest to the oldest, under range tombstones.
fn read_under(
    range_tombstones: &[RangeTombstone],
    trees: &[&Tree],
    key: &[u8],
    snapshot: u64,
) -> Option<Option<Vec<u8>>> {
    let floor = floor_of(range_tombstones, key, SeqNum(snapshot));
    let entries =
        trees.iter().flat_map(|tree| tree.entries.iter().map(|entry| (entry.seqnum.max(tree.clean_to), entry)));
    let seen = entries.filter(|(_, entry)| entry.key == key && entry.seqnum.0 <= snapshot);
    folded(seen.take_while(|(counts_as, _)| *counts_as >= floor).map(|(_, entry)| entry))
}

/// The entries of trees in stored order, newer ones first, each with up to where its tree is clean.
fn merge_trees(trees: &[&Tree]) -> Vec<(SeqNum, OwnedEntry)> {
    let mut merged: Vec<_> =
        trees.iter().flat_map(|tree| tree.entries.iter().map(|entry| (tree.clean_to, entry.clone()))).collect();
    merged.sort_by(|a, b| a.1.key.cmp(&b.1.key));
    merged
}

/// Not registered, able to make one operand of several, and not able to.
fn operator() -> impl Strategy<Value = TableOperator> {
    let append = |partial| Append { partial }.of_table();
    prop::sample::select(vec![TableOperator::default(), append(true), append(false)])
}

/// The versions of `key` that `snapshot` sees in trees from the newest to the oldest, newest first.
fn seen<'a>(trees: &[&'a [OwnedEntry]], key: &[u8], snapshot: u64) -> impl Iterator<Item = &'a OwnedEntry> {
    trees.iter().copied().flatten().filter(move |entry| entry.key == key && entry.seqnum.0 <= snapshot)
}

pub(super) fn read(trees: &[&[OwnedEntry]], key: &[u8], snapshot: u64) -> Option<Option<Vec<u8>>> {
    folded(seen(trees, key, snapshot))
}

/// Versions of a key must descend, as blocks want them.
pub(super) fn assert_in_order(entries: &[OwnedEntry]) {
    let descends = |a: &OwnedEntry, b: &OwnedEntry| descends(a.seqnum, (b.seqnum, b.kind));
    assert!(entries.is_sorted_by(|a, b| a.key < b.key || (a.key == b.key && descends(a, b))), "{entries:?}");
}

/// The entries with a seqnum above `cut`, and the others.
fn split(history: &[OwnedEntry], cut: u64) -> (Vec<OwnedEntry>, Vec<OwnedEntry>) {
    history.iter().cloned().partition(|entry| entry.seqnum.0 > cut)
}

/// The entries of two trees in stored order, those of the newer one first.
pub(super) fn merge(newer: &[OwnedEntry], older: &[OwnedEntry]) -> Vec<OwnedEntry> {
    let mut merged = [newer, older].concat();
    merged.sort_by(|a, b| a.key.cmp(&b.key));
    merged
}

/// Trees from the newest to the oldest.
pub(super) type Trees = Vec<Vec<OwnedEntry>>;

/// Where histories are cut into trees; and merges: of which trees (as shares), and the snapshots of the time.
pub(super) fn course() -> impl Strategy<Value = (Vec<u64>, Vec<(usize, usize, Moment)>)> {
    let merges = prop::collection::vec((0..8usize, 1..4usize, moment()), 1..8);
    (prop::collection::vec(1..20u64, 0..6), merges)
}

pub(super) fn cut(history: &[OwnedEntry], cuts: &[u64]) -> Trees {
    let mut bounds: Vec<_> = cuts.iter().copied().chain([0, u64::MAX]).collect();
    bounds.sort_unstable();
    let part = |low, high| history.iter().filter(move |e| low < e.seqnum.0 && e.seqnum.0 <= high).cloned().collect();
    bounds.windows(2).rev().map(|pair| part(pair[0], pair[1])).collect()
}

/// Carries the merges out, and shows `check` the trees after each, with the snapshots of that time.
pub(super) fn run(
    trees: &mut Trees,
    merges: &[(usize, usize, Moment)],
    (operator, filter): (&TableOperator, &TableFilter),
    mut check: impl FnMut(&[&[OwnedEntry]], &Moment) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut before: Option<Moment> = None;
    for (at, count, moment) in merges {
        let mut moment = moment.clone();
        if let Some(before) = before {
            // Time goes on: what no snapshot sees, none will see again.
            moment.published = moment.published.max(before.published);
            moment.live.retain(|snapshot| before.snapshots().contains(snapshot));
        }
        let from = at % trees.len();
        let to = (from + count).min(trees.len());
        let merged = trees[from..to].iter().fold(Vec::new(), |newer, older| merge(&newer, older));
        let bottom = to == trees.len();
        let written = apply(moment.rule(bottom).with_filter(filter.clone()), operator, &merged);
        assert_in_order(&written);
        let strict = written.is_sorted_by(|a, b| a.key != b.key || a.seqnum > b.seqnum);
        prop_assert!(strict || !bottom, "nothing waits at the bottom: {:?}", written);
        trees.splice(from..to, [written]);
        let shown: Vec<&[OwnedEntry]> = trees.iter().map(Vec::as_slice).collect();
        check(&shown, &moment)?;
        before = Some(moment);
    }
    Ok(())
}

/// As [`trees`], of one key.
fn versions() -> impl Strategy<Value = Vec<OwnedEntry>> {
    let kind = prop::sample::select(vec![Kind::Put, Kind::Delete, Kind::Merge]);
    prop::collection::vec((kind, 0..99u8), 2..=20).prop_map(|versions| {
        let entries = (1..=20).rev().zip(versions).map(|(seqnum, (kind, value))| {
            let value = if kind.has_value() { vec![value] } else { Vec::new() };
            OwnedEntry { key: b"key".to_vec(), seqnum: SeqNum(seqnum), kind, value }
        });
        entries.collect()
    })
}

/// What the rule keeps of a history, or of what is above a cut, reads as before to every snapshot.
fn reads_as_before(
    history: &[OwnedEntry],
    moment: &Moment,
    operator: &TableOperator,
    cut: u64,
) -> Result<(), TestCaseError> {
    let (upper, lower) = split(history, cut);
    let above = apply(moment.rule(false), operator, &upper);
    let whole = apply(moment.rule(true), operator, history);
    for kept in [&above, &whole] {
        assert_in_order(kept);
    }
    for entry in history {
        for snapshot in moment.snapshots() {
            let before = read(&[history], &entry.key, snapshot);
            prop_assert_eq!(read(&[&above, &lower], &entry.key, snapshot), before.clone());
            prop_assert_eq!(read(&[&whole], &entry.key, snapshot), before);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Many versions of one key, most of them between snapshots: operands over deletes, over puts, over others'
    /// stripes.
    #[test]
    fn every_snapshot_reads_the_same_of_a_key_with_many_versions(
        history in versions(), moment in moment(), operator in operator(), cut in 0..NEWEST,
    ) {
        reads_as_before(&history, &moment, &operator, cut)?;
    }
}

proptest! {
    #[test]
    fn every_snapshot_reads_the_same_after_as_before(
        history in trees(), moment in moment(), operator in operator(), cut in 0..NEWEST,
    ) {
        reads_as_before(&history, &moment, &operator, cut)?;
    }

    /// Rank, not the seqnum, decides between a version whose seqnum became zero and an older one in a tree below.
    #[test]
    fn what_was_kept_may_be_merged_again(
        history in trees(), moments in (moment(), moment()), operators in (operator(), operator()), cut in 0..NEWEST,
    ) {
        let (first, mut second) = moments;
        second.published = second.published.max(first.published);
        second.live.retain(|snapshot| first.snapshots().contains(snapshot));
        let (upper, lower) = split(&history, cut);
        let upper = apply(first.rule(false), &operators.0, &upper);
        let lower = apply(first.rule(true), &operators.0, &lower);
        let whole = apply(second.rule(true), &operators.1, &merge(&upper, &lower));
        assert_in_order(&whole);
        for entry in &history {
            for snapshot in second.snapshots() {
                let before = read(&[&history], &entry.key, snapshot);
                prop_assert_eq!(read(&[&upper, &lower], &entry.key, snapshot), before.clone());
                prop_assert_eq!(read(&[&whole], &entry.key, snapshot), before);
            }
        }
    }

    #[test]
    fn what_erasures_hide_goes_and_the_rest_reads_the_same(
        history in trees(), moments in (moment(), moment()), operators in (operator(), operator()), cut in 0..NEWEST,
        list in range_tombstones(),
    ) {
        let (first, mut second) = moments;
        second.published = second.published.max(first.published);
        second.live.retain(|snapshot| first.snapshots().contains(snapshot));
        let all: Arc<RangeTombstones> = Arc::new(list.iter().cloned().collect());
        let (upper, lower) = split(&history, cut);
        let (whole, upper, lower) = (Tree::new(history.clone()), Tree::new(upper), Tree::new(lower));
        let rule = |moment: &Moment, bottom| moment.rule(bottom).with_range_tombstones(Arc::clone(&all));
        let above = apply_from(rule(&first, false), &operators.0, &merge_trees(&[&upper]));
        let below = apply_from(rule(&first, true), &operators.1, &merge_trees(&[&lower]));
        let once = apply_from(rule(&first, true), &operators.0, &merge_trees(&[&upper, &lower]));
        let twice = apply_from(rule(&second, true), &operators.1, &merge_trees(&[&above, &below]));
        let half = apply_from(rule(&second, true), &operators.1, &merge_trees(&[&above, &lower]));
        for kept in [&above, &below, &once, &twice, &half] {
            assert_in_order(&kept.entries);
        }
        for entry in &history {
            for snapshot in first.snapshots() {
                let before = read_under(&list, &[&whole], &entry.key, snapshot);
                let read = |trees: &[&Tree]| read_under(&list, trees, &entry.key, snapshot);
                prop_assert_eq!(read(&[&above, &lower]), before.clone());
                prop_assert_eq!(read(&[&above, &below]), before.clone());
                prop_assert_eq!(read(&[&once]), before.clone());
                if second.snapshots().contains(&snapshot) {
                    prop_assert_eq!(read(&[&twice]), before.clone());
                    prop_assert_eq!(read(&[&half]), before);
                }
            }
        }
        // Nothing is left of what no snapshot sees.
        for entry in &once.entries {
            let sees = |snapshot: u64| {
                entry.seqnum.0 <= snapshot && entry.seqnum.max(once.clean_to) >= floor_of(&list, &entry.key, SeqNum(snapshot))
            };
            prop_assert!(first.snapshots().into_iter().any(sees), "{:?} of {:?}", entry, once);
        }
    }

    #[test]
    fn nothing_is_kept_that_no_snapshot_needs(history in trees(), moment in moment(), bottom: bool) {
        let kept = apply(moment.rule(bottom), &TableOperator::default(), &history);
        let oldest = moment.snapshots().into_iter().min().unwrap();
        let mut expected = Vec::new();
        for entry in &history {
            let needs = |at| {
                let newer = history.iter().take_while(|version| *version != entry);
                entry.seqnum.0 <= at
                    && newer.filter(|version| version.key == entry.key && version.seqnum.0 <= at).all(|version| version.kind == Kind::Merge)
            };
            let wanted = moment.snapshots().into_iter().any(needs);
            let shown_to_all = entry.seqnum.0 <= oldest && entry.kind != Kind::Merge;
            let hides_nothing = bottom && entry.kind == Kind::Delete && shown_to_all;
            if wanted && !hides_nothing {
                let seqnum = if shown_to_all { SeqNum::ZERO } else { entry.seqnum };
                expected.push(OwnedEntry { seqnum, ..entry.clone() });
            }
        }
        prop_assert_eq!(kept, expected);
    }

    #[test]
    fn operands_of_a_stripe_become_one_entry(history in trees(), moment in moment(), bottom: bool) {
        let history: Vec<_> = history.into_iter().filter(|entry| entry.value != [99]).collect();
        let kept = apply(moment.rule(bottom), &Append { partial: true }.of_table(), &history);
        let stripe = |entry: &OwnedEntry| moment.snapshots().into_iter().find(|at| entry.seqnum.0 <= *at);
        for pair in kept.windows(2) {
            prop_assert!(pair[0].key != pair[1].key || stripe(&pair[0]) != stripe(&pair[1]), "{:?}", pair);
        }
        // The oldest published entry of a key changes nothing that is out of reach.
        let published = |entry: &&OwnedEntry| entry.seqnum.0 <= moment.published;
        for entry in kept.iter().filter(published).filter(|entry| bottom && entry.kind == Kind::Merge) {
            let follows = history.iter().any(|older| older.key == entry.key && stripe(older) < stripe(entry));
            prop_assert!(follows, "{:?} of {:?}", entry, kept);
        }
    }
}

fn entry(seqnum: u64, kind: Kind, value: &[u8]) -> OwnedEntry {
    OwnedEntry { key: b"k".to_vec(), seqnum: SeqNum(seqnum), kind, value: value.to_vec() }
}

#[test]
fn what_the_operator_fails_over_stays_as_it_is() {
    let history = [(9, Kind::Merge, &[1u8]), (8, Kind::Merge, &[99]), (5, Kind::Put, &[2]), (3, Kind::Put, &[3])];
    let history = history.map(|(seqnum, kind, value)| entry(seqnum, kind, value));
    let kept = apply(GcRule::new(Vec::new(), SeqNum(20), true), &Append { partial: true }.of_table(), &history);
    assert_eq!(kept, [history[0].clone(), history[1].clone(), entry(0, Kind::Put, &[2])]);
}

#[test]
fn a_long_chain_of_operands_takes_little_memory() {
    let history: Vec<_> = (1..=100_000u64).rev().map(|at| entry(at, Kind::Merge, &1u64.to_le_bytes())).collect();
    let add = TableOperator::find(Some(ADD), &built_in());
    let mut rule = GcRule::new(Vec::new(), SeqNum(1 << 20), false).with_operator(add);
    let mut kept = Vec::new();
    for entry in &history {
        rule.push(&entry.entry(), &mut |_| panic!("nothing comes out before the end")).unwrap();
        assert!(rule.chain.iter().count() <= 1024);
    }
    rule.end_key(&mut |entry| {
        kept.push(OwnedEntry::of(*entry));
        Ok(())
    })
    .unwrap();
    assert_eq!(kept, [entry(100_000, Kind::Merge, &100_000u64.to_le_bytes())]);
}

/// A value file with a value for each byte, and where each is.
fn bytes_apart() -> (ValueFiles, Vec<Vec<u8>>) {
    use crate::base::FileId;
    use crate::cache::Cache;
    use crate::env::sim::SimEnv;
    use crate::tree::values::{ValueBuilder, ValueFile};
    use std::path::Path;
    use std::sync::Arc;
    let (env, path, id) = (SimEnv::new(1).env(), Path::new("/1.values"), FileId(1));
    let compression = crate::block::Compression::None;
    let mut builder = ValueBuilder::create(&env, path, id, 7, compression, false, Arc::default()).unwrap();
    let pointers = (0..=u8::MAX).map(|byte| builder.push(&[byte]).unwrap().encode().to_vec()).collect();
    builder.finish().unwrap();
    let file = ValueFile::open(&env, path, id, 7, false, Arc::new(Cache::new(0)), Arc::default()).unwrap();
    (ValueFiles::new(vec![file]), pointers)
}

proptest! {
    #[test]
    fn values_kept_apart_are_kept_dropped_and_folded_as_any(
        history in trees(), moment in moment(), operator in operator(), bottom: bool, which: u8,
    ) {
        let (values, pointers) = bytes_apart();
        let is_apart = |entry: &OwnedEntry| entry.kind == Kind::Put && entry.value[0] & which != 0;
        let mut apart = history.clone();
        for entry in apart.iter_mut().filter(|entry| is_apart(entry)) {
            (entry.kind, entry.value) = (Kind::PutPointer, pointers[usize::from(entry.value[0])].clone());
        }
        let mut kept = apply(moment.rule(bottom).with_values(values.clone()), &operator, &apart);
        for entry in kept.iter_mut().filter(|entry| entry.kind == Kind::PutPointer) {
            (entry.kind, entry.value) = (Kind::Put, values.read(&entry.value, Fill::Bypass).unwrap().to_vec());
        }
        prop_assert_eq!(kept, apply(moment.rule(bottom), &operator, &history));
    }
}

proptest! {
    /// As a compaction that was given up leaves it: what it wrote, beside the newer of its inputs.
    #[test]
    fn what_is_there_twice_is_kept_once(
        history in trees(), (first, later) in (moment(), moment()), newer_than in 0..=NEWEST, bottom: bool,
    ) {
        let plain = |entry: &OwnedEntry| matches!(entry.kind, Kind::Put | Kind::Delete);
        let history: Vec<_> = history.into_iter().filter(plain).collect();
        let later = Moment {
            live: later.live.into_iter().filter(|at| first.live.contains(at) || *at >= first.published).collect(),
            published: later.published.max(first.published),
        };
        let none = TableOperator::default();
        let twice = merge(&split(&history, newer_than).0, &apply(first.rule(bottom), &none, &history));
        let kept = apply(later.rule(bottom), &none, &twice);
        assert_in_order(&kept);
        for entry in &history {
            for snapshot in later.snapshots() {
                let value = |tree: &[OwnedEntry]| read(&[tree], &entry.key, snapshot).flatten();
                prop_assert_eq!(value(&kept), value(&history), "at {}: {:?} of {:?}", snapshot, kept, twice);
            }
        }
    }
}
