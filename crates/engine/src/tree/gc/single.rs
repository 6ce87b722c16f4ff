//! Single-deletes: each is held back until the version behind it in its stripe is known, and goes together with its
//! put.
//!
//! A program that writes one promises that its key was put at most once since the single-delete before. So of the
//! versions of a key, newest first, each put has a single-delete or nothing behind it, and three rewrites keep that
//! promise wherever a merge cuts the versions, and show every snapshot what it saw before:
//!
//! | versions, newest first | become |
//! |---|---|
//! | single-delete, put | nothing |
//! | single-delete, single-delete | single-delete |
//! | single-delete, operand | single-delete: operands are part of what was put |
//!
//! # Invariants
//! 1. A single-delete that a newer version of its stripe hides is not dropped before it has met its put: above that,
//!    the next single-delete takes only the newer put with it, and would lay the older one bare.
//! 2. Where a live snapshot is older than the pair, the single-delete stays and only the put goes: a transaction that
//!    began before the two must find that its key was changed.
//! 3. Where another tree may have the key, only the put goes: it may be this put once more
//!    ([`OtherTrees`](super::OtherTrees)).

use crate::base::{Entry, Kind, Result};

use super::context::Seen;
use super::pending_single_delete::PendingSingleDelete;
use super::rule::GcRule;

fn is_put(kind: Kind) -> bool {
    matches!(kind, Kind::Put | Kind::PutPointer)
}

impl GcRule {
    /// Holds `entry` back when it is a single-delete, or decides the one that is held back by the entry behind it; true
    /// when nothing else is to be done with `entry`.
    #[cold]
    pub(super) fn wait(
        &mut self,
        entry: &Entry<'_>,
        seen: usize,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<bool> {
        if let Some(pending) = self.pending {
            if seen >= pending.stripe && (!pending.gone || is_put(entry.kind)) {
                return self.meet(pending, entry.kind, out).map(|()| true);
            }
            self.emit_pending(out)?;
        }
        if entry.kind != Kind::SingleDelete {
            return Ok(false);
        }
        if !self.chain.is_empty() {
            // The operands before it change nothing.
            let ended =
                if seen == self.served_from { self.fold(None, out).map(drop) } else { self.end_chain(false, out) };
            ended?;
        }
        let is_last = self.context.bottom && seen == 0;
        if is_last || seen == self.context.snapshots.len() {
            // At the bottom it is a tombstone like others; what is newer than `published` is kept as it is.
            return Ok(false);
        }
        let hidden = seen >= self.served_from && !self.open;
        self.pending = Some(PendingSingleDelete { seqnum: entry.seqnum, stripe: seen, hidden, gone: false });
        Ok(true)
    }

    /// Decides over a single-delete by the kind of the next version of its stripe, which is dropped.
    fn meet(
        &mut self,
        pending: PendingSingleDelete,
        next: Kind,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        match next {
            Kind::Put | Kind::PutPointer if pending.hidden || pending.stripe == 0 => {
                let gone = pending.gone || !self.context.other_trees.may_hold(&self.key);
                self.pending = Some(PendingSingleDelete { gone, ..pending });
            }
            Kind::Put | Kind::PutPointer | Kind::Merge | Kind::SingleDelete => {}
            Kind::Delete | Kind::RangeDelete if pending.hidden => self.pending = None,
            Kind::Delete | Kind::RangeDelete => {
                // It hides whatever else is below.
                self.pending = None;
                return self.emit_tombstone(Kind::Delete, pending, out);
            }
        }
        Ok(())
    }

    /// Gives the single-delete that waits, when no version of its stripe follows here.
    pub(super) fn emit_pending(&mut self, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        match self.pending.take() {
            Some(pending) if !pending.gone => self.emit_tombstone(Kind::SingleDelete, pending, out),
            _ => Ok(()),
        }
    }

    /// Gives or drops the single-delete that waits, when no version of its key follows.
    #[cold]
    pub(super) fn end_pending(&mut self, out: &mut impl FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
        if self.context.bottom && self.pending.is_some_and(|pending| pending.hidden) {
            // Its put went without it.
            self.pending = None;
        }
        self.emit_pending(out)
    }

    fn emit_tombstone(
        &mut self,
        kind: Kind,
        place: PendingSingleDelete,
        out: &mut impl FnMut(&Entry<'_>) -> Result<()>,
    ) -> Result<()> {
        if !place.hidden {
            self.served_from = place.stripe;
            self.open = false;
        }
        let seqnum = self.context.written(place.seqnum, if place.stripe == 0 { Seen::ByAll } else { Seen::BySome });
        self.emitted += 1;
        out(&Entry { key: &self.key, seqnum, kind, value: b"" })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::base::SeqNum;
    use crate::tree::Limits;
    use crate::tree::compaction_filter::TableFilter;
    use crate::tree::gc::tests::{apply, course, cut, merge, read, run};
    use crate::tree::operator::TableOperator;
    use crate::tree::range_tombstone::RangeTombstone;
    use crate::tree::vec_cursor::{Append, OwnedEntry};

    const KEPT: &[u8] = b"kept";
    const BROKEN: &[u8] = b"broken";

    fn entry(key: &[u8], seqnum: u64, kind: Kind) -> OwnedEntry {
        let value = if kind.has_value() { vec![u8::try_from(seqnum).unwrap()] } else { Vec::new() };
        OwnedEntry { key: key.to_vec(), seqnum: SeqNum(seqnum), kind, value }
    }

    /// Versions of a key for which the promise is kept, newest first: each put is the first since the single-delete
    /// before.
    fn kept(merges: bool) -> impl Strategy<Value = Vec<OwnedEntry>> {
        prop::collection::vec((0..4u8, 1..3u64), 0..14).prop_map(move |steps| {
            let (mut versions, mut is_put, mut seqnum) = (Vec::new(), false, 0);
            for (step, gap) in steps {
                seqnum += gap;
                let kind = match step {
                    0 if merges => Kind::Merge,
                    0 | 1 => Kind::SingleDelete,
                    _ if is_put => continue,
                    _ => Kind::Put,
                };
                is_put = kind != Kind::SingleDelete;
                if seqnum < 21 {
                    versions.insert(0, entry(KEPT, seqnum, kind));
                }
            }
            versions
        })
    }

    /// Versions of a key for which it is broken in every way, without operands.
    fn broken() -> impl Strategy<Value = Vec<OwnedEntry>> {
        let kind = prop_oneof![3 => Just(Kind::Put), 1 => Just(Kind::Delete), 3 => Just(Kind::SingleDelete)];
        let versions = prop::collection::btree_map(1..=20u64, kind, 0..12);
        versions.prop_map(|kinds| kinds.into_iter().rev().map(|(at, kind)| entry(BROKEN, at, kind)).collect())
    }

    fn registered() -> impl Strategy<Value = (bool, TableOperator)> {
        let append = |partial| Append { partial }.of_table();
        prop::sample::select(vec![
            (false, TableOperator::default()),
            (true, TableOperator::default()),
            (true, append(true)),
            (true, append(false)),
        ])
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn while_the_promise_is_kept_every_merge_shows_what_was_written(
            (history, operator) in registered()
                .prop_flat_map(|(merges, operator)| (kept(merges), Just(operator))),
            (cuts, merges) in course(),
        ) {
            let mut trees = cut(&history, &cuts);
            // Reads fold, whether merges could or not.
            run(&mut trees, &merges, (&operator, &TableFilter::default()), |trees, moment| {
                for snapshot in moment.snapshots() {
                    prop_assert_eq!(read(trees, KEPT, snapshot), read(&[&history], KEPT, snapshot), "at {}: {:?}", snapshot, trees);
                }
                Ok(())
            })?;
        }

        #[test]
        fn a_broken_promise_shows_older_values_or_none_and_no_other_key_minds(
            broken in broken(), kept in kept(false), (cuts, merges) in course(),
        ) {
            let history = merge(&broken, &kept);
            let mut trees = cut(&history, &cuts);
            run(&mut trees, &merges, (&TableOperator::default(), &TableFilter::default()), |trees, moment| {
                for snapshot in moment.snapshots() {
                    prop_assert_eq!(read(trees, KEPT, snapshot), read(&[&kept], KEPT, snapshot));
                    let shown = read(trees, BROKEN, snapshot).flatten();
                    let was_put = |value: &Vec<u8>| broken.iter().any(|entry| entry.seqnum.0 <= snapshot && entry.value == *value);
                    prop_assert!(shown.as_ref().is_none_or(was_put), "{:?} at {}", shown, snapshot);
                }
                Ok(())
            })?;
        }

        /// A transaction that began at a live snapshot must find that a key was changed after it.
        #[test]
        fn a_change_after_a_live_snapshot_leaves_a_version(history in kept(false), (cuts, merges) in course()) {
            let mut trees = cut(&history, &cuts);
            run(&mut trees, &merges, (&TableOperator::default(), &TableFilter::default()), |trees, moment| {
                let newest = history.first().map_or(0, |entry| entry.seqnum.0);
                for snapshot in moment.snapshots().into_iter().filter(|snapshot| *snapshot < newest) {
                    let found = trees.iter().copied().flatten().next().map(|entry| entry.seqnum.0);
                    prop_assert!(found.is_some_and(|found| found > snapshot), "after {}: {:?}", snapshot, trees);
                }
                Ok(())
            })?;
        }
    }

    /// What is left of versions of a key, newest first, in a merge above the bottom that every snapshot sees.
    fn above(kinds: &[Kind]) -> Vec<Kind> {
        let count = u64::try_from(kinds.len()).unwrap();
        let history: Vec<_> = (0..count).zip(kinds).map(|(at, kind)| entry(KEPT, count - at, *kind)).collect();
        let rule = GcRule::new(Vec::new(), SeqNum(20), false);
        apply(rule, &TableOperator::default(), &history).iter().map(|entry| entry.kind).collect()
    }

    #[test]
    fn above_the_bottom_a_single_delete_goes_with_its_put_and_one_that_is_hidden_waits() {
        use Kind::{Delete, Merge, Put, SingleDelete};
        assert_eq!(above(&[SingleDelete, Put]), []);
        assert_eq!(above(&[SingleDelete, Put, SingleDelete, Put]), []);
        assert_eq!(above(&[SingleDelete, Put, SingleDelete]), [SingleDelete]);
        assert_eq!(above(&[SingleDelete, SingleDelete]), [SingleDelete]);
        assert_eq!(above(&[Put, SingleDelete]), [Put, SingleDelete]);
        assert_eq!(above(&[Put, SingleDelete, Put]), [Put]);
        assert_eq!(above(&[Put, SingleDelete, SingleDelete]), [Put, SingleDelete]);
        assert_eq!(above(&[SingleDelete, Delete]), [Delete]);
        assert_eq!(above(&[Delete, SingleDelete]), [Delete, SingleDelete]);
        assert_eq!(above(&[SingleDelete, Merge]), [SingleDelete]);
    }

    /// It came back: a compaction that was given up had left it in its input and in a slice of its result.
    #[test]
    fn a_put_that_is_there_twice_goes_twice_with_its_single_delete() {
        use Kind::{Put, SingleDelete};
        assert_eq!(above(&[SingleDelete, Put, Put]), []);
        assert_eq!(above(&[SingleDelete, Put, Put, SingleDelete]), [SingleDelete]);
        assert_eq!(above(&[Put, SingleDelete, Put, Put]), [Put]);
        assert_eq!(above(&[SingleDelete, Put, SingleDelete, Put, Put, SingleDelete, SingleDelete]), [SingleDelete]);
        let history: Vec<_> = [(9, SingleDelete), (5, Put)].map(|(seqnum, kind)| entry(KEPT, seqnum, kind)).into();
        let kept = |any_key: bool| {
            let rule = GcRule::new(Vec::new(), SeqNum(20), false)
                .with_other_trees(super::super::OtherTrees::new(Vec::new(), any_key));
            apply(rule, &TableOperator::default(), &history).iter().map(|entry| entry.kind).collect::<Vec<_>>()
        };
        assert_eq!(kept(false), []);
        assert_eq!(kept(true), [SingleDelete], "the other may lie below");
    }

    #[test]
    fn what_an_erasure_hides_from_every_snapshot_goes_also_behind_a_single_delete_that_waits() {
        let history = [entry(KEPT, 10, Kind::SingleDelete), entry(KEPT, 3, Kind::Put)];
        let range_tombstone = RangeTombstone { range: Limits::default(), seqnum: SeqNum(5) };
        let kept = |live: u64| {
            let rule = GcRule::new(vec![SeqNum(live)], SeqNum(20), false);
            apply(
                rule.with_range_tombstones(Arc::new([range_tombstone.clone()].into_iter().collect())),
                &TableOperator::default(),
                &history,
            )
        };
        assert_eq!(kept(7), history[..1]);
        let seen = OwnedEntry { seqnum: SeqNum::ZERO, ..history[1].clone() };
        assert_eq!(kept(4), [history[0].clone(), seen]);
    }

    #[test]
    fn at_the_bottom_a_hidden_single_delete_waits_only_for_a_put_that_is_there() {
        let history = [entry(KEPT, 9, Kind::Put), entry(KEPT, 8, Kind::SingleDelete), entry(KEPT, 2, Kind::Put)];
        let kept = |history: &[OwnedEntry]| {
            apply(GcRule::new(vec![SeqNum(3)], SeqNum(20), true), &TableOperator::default(), history)
        };
        let older = OwnedEntry { seqnum: SeqNum::ZERO, ..history[2].clone() };
        assert_eq!(kept(&history), [history[0].clone(), history[1].clone(), older]);
        assert_eq!(kept(&history[..2]), history[..1]);
    }
}
