//! A set of range tombstones: a sorted list that never changes.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use super::keys::Keys;
use super::range::RangeTombstone;
use crate::base::SeqNum;
use crate::tree::cursor::Limits;

/// A set of range tombstones.
///
/// Their borders cut the keys into segments, of which each has the seqnums of the range tombstones that cover it.
///
/// # Invariants
/// 1. Neighbouring segments have different seqnums; nothing covers the first one, before the first border.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    /// Keys, ascending, at which segments end and the next begin.
    pub(super) borders: Keys,
    /// The seqnums of one segment after the other, those of each descending.
    pub(super) seqnums: Vec<SeqNum>,
    /// Where those of each segment end: one segment more than borders. None at all without range tombstones.
    pub(super) ends: Vec<usize>,
    pub(super) count: usize,
    pub(super) newest: SeqNum,
}

impl RangeTombstones {
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

    /// The same range tombstones, all later by as much.
    #[must_use]
    pub fn later(mut self, by: u64) -> Self {
        self.seqnums.iter_mut().for_each(|seqnum| seqnum.0 += by);
        self.newest.0 += by;
        self
    }

    /// The key that a segment begins with; empty for the first.
    #[inline]
    pub(super) fn border(&self, segment: usize) -> &[u8] {
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

    /// The seqnums of the range tombstones that cover `key`, descending.
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

    /// Whether any range tombstone after `after` and up to `to` covers a key from `low` to `high`.
    #[must_use]
    pub fn touch(&self, low: &[u8], high: Bound<&[u8]>, (after, to): (SeqNum, SeqNum)) -> bool {
        self.newest > after && self.touching(low, high).any(|segment| self.floor_of(segment, to) > after)
    }

    /// Whether range tombstones after `after` and up to `to` cover all keys from `low` to `high`, both included.
    #[must_use]
    pub fn cover(&self, low: &[u8], high: &[u8], (after, to): (SeqNum, SeqNum)) -> bool {
        self.newest > after
            && self.touching(low, Bound::Included(high)).all(|segment| self.floor_of(segment, to) > after)
    }

    /// The range tombstones, each as large as it can be, by where they end.
    pub fn iter(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        let mut open: BTreeMap<SeqNum, usize> = BTreeMap::new();
        let mut found = Vec::with_capacity(self.count);
        for segment in 0..=self.segments() {
            let here = self.list(segment);
            open.retain(|seqnum, from| {
                let goes_on = here.contains(seqnum);
                if !goes_on {
                    let low = self.border(*from).to_vec();
                    let high = segment.checked_sub(1).and_then(|last| self.end(last)).map(<[u8]>::to_vec);
                    found.push(RangeTombstone { range: Limits::new(low, high, None), seqnum: *seqnum });
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
