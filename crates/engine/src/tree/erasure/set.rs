//! A set of erasures: a sorted list that never changes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::{Bound, Range};

use super::builder::{Builder, Keys, merge, sweep};
use super::{Erasure, Held};
use crate::base::SeqNum;
use crate::tree::cursor::Limits;

/// An erasure: its first key, the one behind its last if there is any, and its seqnum.
pub type Ends<'a> = (&'a [u8], Option<&'a [u8]>, SeqNum);

/// A set of erasures.
///
/// Their borders cut the keys into segments, of which each has the seqnums of the erasures that cover it.
///
/// # Invariants
/// 1. Neighbouring segments have different seqnums; nothing covers the first one, before the first border.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Erasures {
    /// Keys, ascending, at which segments end and the next begin.
    pub(super) borders: Keys,
    /// The seqnums of one segment after the other, those of each descending.
    pub(super) seqnums: Vec<SeqNum>,
    /// Where those of each segment end: one segment more than borders. None at all without erasures.
    pub(super) ends: Vec<usize>,
    pub(super) count: usize,
    pub(super) newest: SeqNum,
}

impl FromIterator<Erasure> for Erasures {
    fn from_iter<I: IntoIterator<Item = Erasure>>(erasures: I) -> Self {
        let erasures = Vec::from_iter(erasures);
        sweep(erasures.iter().map(Erasure::ends), usize::MAX)
    }
}

impl Erasures {
    /// The newest erasure of each key. This is what all see that see the newest of the erasures.
    #[must_use]
    pub fn newest_of<'a>(ranges: impl Iterator<Item = Ends<'a>>) -> Self {
        sweep(ranges, 1)
    }

    /// The erasure of all keys.
    #[must_use]
    pub fn of_all(seqnum: SeqNum) -> Self {
        Self::newest_of([(&b""[..], None, seqnum)].into_iter())
    }

    /// Whether there are none.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The largest seqnum of any.
    #[must_use]
    pub const fn newest(&self) -> SeqNum {
        self.newest
    }

    /// About how many there are: neighbours of one seqnum count as one.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// How many segments there are.
    pub(super) fn segments(&self) -> usize {
        self.ends.len()
    }

    /// The same erasures, all later by as much.
    #[must_use]
    pub fn later(mut self, by: u64) -> Self {
        self.seqnums.iter_mut().for_each(|seqnum| seqnum.0 += by);
        self.newest.0 += by;
        self
    }

    /// These and others.
    #[must_use]
    pub fn and(&self, others: &Self) -> Self {
        merge(self, others, |_| ())
    }

    /// These and others, but for those that none of `snapshots`, ascending, which has the least that may come as its
    /// last, tells from a newer one.
    #[must_use]
    pub fn and_told(&self, others: &Self, snapshots: &[SeqNum]) -> Self {
        merge(self, others, |seqnums| keep_told(seqnums, snapshots))
    }

    /// Those with a seqnum that `stays` says.
    #[must_use]
    pub fn filtered(&self, stays: impl Fn(SeqNum) -> bool) -> Self {
        let mut builder = Builder::new();
        let mut seqnums = Vec::new();
        for segment in 1..self.segments() {
            seqnums.clear();
            seqnums.extend(self.list(segment).iter().copied().filter(|seqnum| stays(*seqnum)));
            builder.push(self.border(segment), &seqnums);
        }
        builder.finish()
    }

    /// The key that a segment begins with; empty for the first.
    #[inline]
    fn border(&self, segment: usize) -> &[u8] {
        segment.checked_sub(1).and_then(|before| self.borders.get(before)).unwrap_or_default()
    }

    /// The seqnums of a segment, descending.
    #[inline]
    pub(in crate::tree) fn list(&self, segment: usize) -> &[SeqNum] {
        let Some(end) = self.ends.get(segment) else { return &[] };
        let start = segment.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.seqnums[start..*end]
    }

    /// The segment that `key` lies in.
    #[inline]
    pub(super) fn segment_of(&self, key: &[u8]) -> usize {
        self.borders.partition_point(|border| *border <= *key)
    }

    /// The segment that `key` lies in, which is looked for first where it was last, and then behind that.
    #[inline]
    pub(in crate::tree) fn segment_near(&self, last: usize, key: &[u8]) -> usize {
        let is_in = |segment: &usize| self.is_in(*segment, key);
        [last, last + 1].into_iter().find(is_in).unwrap_or_else(|| self.segment_of(key))
    }

    /// Whether `key` lies in a segment.
    #[inline]
    fn is_in(&self, segment: usize, key: &[u8]) -> bool {
        segment < self.segments()
            && self.end(segment).is_none_or(|end| key < end)
            && self.start(segment).is_none_or(|start| start <= key)
    }

    /// The first key of a segment, if it has one before which there are others.
    #[inline]
    pub(super) fn start(&self, segment: usize) -> Option<&[u8]> {
        Some(self.border(segment)).filter(|start| !start.is_empty())
    }

    /// The key with which the next segment begins.
    #[inline]
    pub(super) fn end(&self, segment: usize) -> Option<&[u8]> {
        self.borders.get(segment)
    }

    /// The seqnums of the erasures that cover `key`, descending.
    #[inline]
    #[must_use]
    pub fn covering(&self, key: &[u8]) -> &[SeqNum] {
        self.list(self.segment_of(key))
    }

    /// The seqnum below which `snapshot` does not see entries of `key`; zero when nothing covers it.
    #[inline]
    #[must_use]
    pub fn floor(&self, key: &[u8], snapshot: SeqNum) -> SeqNum {
        floor(self.covering(key), snapshot)
    }

    /// The seqnum below which `snapshot` does not see entries of a segment.
    #[inline]
    pub(super) fn floor_of(&self, segment: usize, snapshot: SeqNum) -> SeqNum {
        floor(self.list(segment), snapshot)
    }

    /// The segments that touch the keys from `low` to `high`.
    fn touching(&self, low: &[u8], high: Bound<&[u8]>) -> Range<usize> {
        let to = match high {
            Bound::Unbounded => self.segments(),
            Bound::Included(high) => self.segment_of(high) + 1,
            Bound::Excluded(high) => self.borders.partition_point(|border| *border < *high) + 1,
        };
        self.segment_of(low)..to.min(self.segments())
    }

    /// Whether any erasure after `after` and up to `to` covers a key from `low` to `high`.
    #[must_use]
    pub fn touch(&self, low: &[u8], high: Bound<&[u8]>, (after, to): (SeqNum, SeqNum)) -> bool {
        self.newest > after && self.touching(low, high).any(|segment| self.floor_of(segment, to) > after)
    }

    /// Whether erasures after `after` and up to `to` cover all keys from `low` to `high`, both included.
    #[must_use]
    pub fn cover(&self, low: &[u8], high: &[u8], (after, to): (SeqNum, SeqNum)) -> bool {
        self.newest > after
            && self.touching(low, Bound::Included(high)).all(|segment| self.floor_of(segment, to) > after)
    }

    /// What of them must stay, where `snapshots` are all that are live and the least that may come, ascending, and
    /// `trees` all trees that hold entries older than the erasures. An erasure goes where no snapshot tells it from a
    /// newer one, and where all snapshots see it and every tree is clean up to it.
    #[must_use]
    pub fn needed(&self, snapshots: &[SeqNum], trees: &[Held<'_>]) -> Self {
        let oldest = snapshots.first().copied().unwrap_or_default();
        let mut trees: Vec<_> = trees.iter().collect();
        trees.sort_unstable_by(|a, b| a.smallest.cmp(b.smallest));
        let mut trees = trees.into_iter().peekable();
        // Trees that begin before the end of the segment, the least clean first; some may have ended before it.
        let mut begun: BinaryHeap<(Reverse<SeqNum>, Option<&[u8]>)> = BinaryHeap::new();
        let (mut builder, mut seqnums) = (Builder::new(), Vec::new());
        for segment in 1..self.segments() {
            let (low, high) = (self.border(segment), self.end(segment));
            while let Some(held) = trees.next_if(|held| high.is_none_or(|high| held.smallest < high)) {
                begun.push((Reverse(held.clean_to), held.largest));
            }
            while begun.peek().is_some_and(|(_, largest)| largest.is_some_and(|largest| largest < low)) {
                begun.pop();
            }
            let clean_to = begun.peek().map_or(SeqNum::MAX, |(clean_to, _)| clean_to.0);
            seqnums.clear();
            seqnums.extend_from_slice(self.list(segment));
            keep_told(&mut seqnums, snapshots);
            seqnums.retain(|seqnum| *seqnum > oldest || *seqnum > clean_to);
            builder.push(low, &seqnums);
        }
        builder.finish()
    }

    /// The erasures, each as large as it can be, by where they end.
    pub fn iter(&self) -> impl Iterator<Item = Erasure> + '_ {
        let mut open: BTreeMap<SeqNum, usize> = BTreeMap::new();
        let mut found = Vec::with_capacity(self.count);
        for segment in 0..=self.segments() {
            let here = self.list(segment);
            open.retain(|seqnum, from| {
                let goes_on = here.contains(seqnum);
                if !goes_on {
                    let low = self.border(*from).to_vec();
                    let high = segment.checked_sub(1).and_then(|last| self.end(last)).map(<[u8]>::to_vec);
                    found.push(Erasure { range: Limits::new(low, high, None), seqnum: *seqnum });
                }
                goes_on
            });
            for seqnum in here {
                open.entry(*seqnum).or_insert(segment);
            }
        }
        found.into_iter()
    }
}

/// The largest of descending seqnums that is up to `snapshot`; zero when there is none.
#[inline]
fn floor(seqnums: &[SeqNum], snapshot: SeqNum) -> SeqNum {
    seqnums.iter().copied().find(|seqnum| *seqnum <= snapshot).unwrap_or(SeqNum::ZERO)
}

/// Leaves out of descending seqnums those that no snapshot tells from a newer one, where `snapshots` are all,
/// ascending, the last of them the least that may come.
fn keep_told(seqnums: &mut Vec<SeqNum>, snapshots: &[SeqNum]) {
    let may_come = snapshots.last().copied().unwrap_or_default();
    let mut newer = None;
    seqnums.retain(|seqnum| {
        let sees = snapshots.partition_point(|snapshot| *snapshot < *seqnum);
        let tells = snapshots.get(sees).is_some_and(|snapshot| newer.is_none_or(|newer| *snapshot < newer));
        newer = Some(*seqnum);
        tells || *seqnum > may_come
    });
}
