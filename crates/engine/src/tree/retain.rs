//! The one rule for what may be dropped: which versions and tombstones a flush or compaction must still write.
//!
//! # Invariants
//! 1. For every live snapshot, the version of a key that it sees is kept, unless it is a tombstone that hides nothing.
//! 2. A version that no snapshot sees, now or later, is dropped.
//! 3. A tombstone is dropped only when nothing older than it can lie below (`bottom`) and every snapshot sees it.
//! 4. A kept version that every snapshot sees gets seqnum zero: no reader needs to compare it again.

use crate::base::{Entry, Kind, SeqNum};

/// What may be dropped, decided entry by entry over a stream in stored order (key ascending, seqnum descending).
#[derive(Debug)]
pub struct Retain {
    /// Seqnums of live snapshots, ascending; the last one stands for all snapshots from there on, now or to come.
    snapshots: Vec<SeqNum>,
    /// Nothing older than these entries lies in any other tree of the table.
    bottom: bool,
    /// The key of the entry before. No key is empty.
    key: Vec<u8>,
    /// Of `key`, the versions met so far serve the snapshots from this index on; `usize::MAX` while they serve none.
    served_from: usize,
    dropped: u64,
}

impl Retain {
    /// A rule for the given live snapshots (in any order), where every other snapshot, now or to come, sees at least up to
    /// `published`. `bottom` says that no tree outside the stream holds an older version of a key in it.
    #[must_use]
    pub fn new(mut snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> Self {
        // What is newer than `published` is kept for all who may come, and so for these as well.
        snapshots.retain(|snapshot| *snapshot < published);
        snapshots.push(published);
        snapshots.sort_unstable();
        snapshots.dedup();
        Self { snapshots, bottom, key: Vec::new(), served_from: usize::MAX, dropped: 0 }
    }

    /// The seqnum with which `entry` is to be written, or `None` when it may be dropped.
    pub fn keep(&mut self, entry: &Entry<'_>) -> Option<SeqNum> {
        if self.key != entry.key {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.served_from = usize::MAX;
        }
        let kept = self.decide(entry);
        self.dropped += u64::from(kept.is_none());
        kept
    }

    fn decide(&mut self, entry: &Entry<'_>) -> Option<SeqNum> {
        // Snapshots from `seen` on see this version unless a newer one serves them.
        let seen = self.snapshots.partition_point(|snapshot| *snapshot < entry.seqnum);
        if seen == self.snapshots.len() {
            // Newer than `published`: some snapshot may see just this version, and the next may see another.
            return Some(entry.seqnum);
        }
        if seen >= self.served_from {
            return None;
        }
        self.served_from = seen;
        if seen > 0 {
            return Some(entry.seqnum);
        }
        if self.bottom && entry.kind == Kind::Delete {
            return None;
        }
        Some(SeqNum::ZERO)
    }

    /// How many entries were dropped so far.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::tree::vec_cursor::{OwnedEntry, trees};

    const NEWEST: u64 = 21;

    /// The snapshots of one moment: some live, and all that see at least up to `published`.
    #[derive(Clone, Debug)]
    struct Moment {
        live: BTreeSet<u64>,
        published: u64,
    }

    impl Moment {
        fn snapshots(&self) -> BTreeSet<u64> {
            self.live.iter().copied().chain(self.published..=NEWEST).collect()
        }

        fn rule(&self, bottom: bool) -> Retain {
            Retain::new(self.live.iter().rev().copied().map(SeqNum).collect(), SeqNum(self.published), bottom)
        }
    }

    fn moment() -> impl Strategy<Value = Moment> {
        let seqnums = || 0..=NEWEST;
        (prop::collection::btree_set(seqnums(), 0..4), seqnums())
            .prop_map(|(live, published)| Moment { live, published })
    }

    fn apply(mut rule: Retain, entries: &[OwnedEntry]) -> Vec<OwnedEntry> {
        let keep = |entry: &OwnedEntry| rule.keep(&entry.entry()).map(|seqnum| OwnedEntry { seqnum, ..entry.clone() });
        let kept = entries.iter().filter_map(keep).collect::<Vec<_>>();
        assert_eq!(rule.dropped(), (entries.len() - kept.len()) as u64);
        kept
    }

    /// The version of `key` that `snapshot` sees in trees from the newest to the oldest.
    fn seen<'a>(trees: &[&'a [OwnedEntry]], key: &[u8], snapshot: u64) -> Option<&'a OwnedEntry> {
        trees.iter().copied().flatten().find(|entry| entry.key == key && entry.seqnum.0 <= snapshot)
    }

    fn read<'a>(trees: &[&'a [OwnedEntry]], key: &[u8], snapshot: u64) -> Option<&'a [u8]> {
        seen(trees, key, snapshot).filter(|entry| entry.kind == Kind::Put).map(|entry| &*entry.value)
    }

    /// The entries with a seqnum above `cut`, and the others.
    fn split(history: &[OwnedEntry], cut: u64) -> (Vec<OwnedEntry>, Vec<OwnedEntry>) {
        history.iter().cloned().partition(|entry| entry.seqnum.0 > cut)
    }

    /// The entries of two trees in stored order, those of the newer one first.
    fn merge(newer: &[OwnedEntry], older: &[OwnedEntry]) -> Vec<OwnedEntry> {
        let mut merged = [newer, older].concat();
        merged.sort_by(|a, b| a.key.cmp(&b.key));
        merged
    }

    proptest! {
        #[test]
        fn every_snapshot_reads_the_same_after_as_before(history in trees(), moment in moment(), cut in 0..NEWEST) {
            let (upper, lower) = split(&history, cut);
            let above = apply(moment.rule(false), &upper);
            let whole = apply(moment.rule(true), &history);
            for entry in &history {
                for snapshot in moment.snapshots() {
                    let before = read(&[&history], &entry.key, snapshot);
                    prop_assert_eq!(read(&[&above, &lower], &entry.key, snapshot), before);
                    prop_assert_eq!(read(&[&whole], &entry.key, snapshot), before);
                }
            }
        }

        /// Rank, not the seqnum, decides between a version whose seqnum became zero and an older one in a tree below.
        #[test]
        fn what_was_kept_may_be_merged_again(history in trees(), moments in (moment(), moment()), cut in 0..NEWEST) {
            let (first, mut second) = moments;
            second.published = second.published.max(first.published);
            second.live.retain(|snapshot| first.snapshots().contains(snapshot));
            let (upper, lower) = split(&history, cut);
            let upper = apply(first.rule(false), &upper);
            let lower = apply(first.rule(true), &lower);
            let whole = apply(second.rule(true), &merge(&upper, &lower));
            for entry in &history {
                for snapshot in second.snapshots() {
                    let before = read(&[&history], &entry.key, snapshot);
                    prop_assert_eq!(read(&[&upper, &lower], &entry.key, snapshot), before);
                    prop_assert_eq!(read(&[&whole], &entry.key, snapshot), before);
                }
            }
        }

        #[test]
        fn nothing_is_kept_that_no_snapshot_needs(history in trees(), moment in moment(), bottom: bool) {
            let mut rule = moment.rule(bottom);
            let oldest = moment.snapshots().into_iter().min().unwrap();
            for entry in &history {
                let kept = rule.keep(&entry.entry());
                let wanted = moment.snapshots().into_iter().any(|at| seen(&[&history], &entry.key, at) == Some(entry));
                let hides_nothing = bottom && entry.kind == Kind::Delete && entry.seqnum.0 <= oldest;
                prop_assert_eq!(kept.is_some(), wanted && !hides_nothing);
                let seqnum = if entry.seqnum.0 <= oldest { SeqNum::ZERO } else { entry.seqnum };
                prop_assert!(kept.is_none_or(|kept| kept == seqnum));
            }
        }
    }
}
