//! The range tombstones that cover the key in hand, and which of them the stream has passed.

use std::ops::Bound;
use std::sync::Arc;

use crate::base::SeqNum;
use crate::tree::range_tombstone::RangeTombstones;

/// The range tombstones of the table, and those that cover the current key.
#[derive(Debug, Default)]
pub(super) struct Covering {
    range_tombstones: Arc<RangeTombstones>,
    /// Whether there are any.
    any: bool,
    /// The segment of `range_tombstones` in which the current key lies.
    segment: usize,
    /// The seqnums of the range tombstones that cover the current key, descending.
    seqnums: Vec<SeqNum>,
    /// The count of those that are newer than the previous entry.
    passed: usize,
}

impl Covering {
    pub(super) fn new(range_tombstones: Arc<RangeTombstones>) -> Self {
        Self { any: !range_tombstones.is_empty(), range_tombstones, ..Self::default() }
    }

    /// Whether the table has range tombstones.
    #[inline]
    pub(super) const fn any(&self) -> bool {
        self.any
    }

    /// The seqnum of the newest range tombstone.
    pub(super) fn newest(&self) -> SeqNum {
        self.range_tombstones.newest()
    }

    /// Whether range tombstones after `after` and up to `to` touch the keys from `low` to `high`.
    pub(super) fn touch(&self, low: &[u8], high: Bound<&[u8]>, (after, to): (SeqNum, SeqNum)) -> bool {
        self.any && self.range_tombstones.touch(low, high, (after, to))
    }

    /// Begins a key of which it is not known yet what covers it.
    #[inline]
    pub(super) const fn begin_key(&mut self) {
        self.passed = 0;
    }

    /// Finds what covers `key`, which is not below the keys before.
    pub(super) fn find(&mut self, key: &[u8]) {
        self.segment = self.range_tombstones.segment_near(self.segment, key);
        self.seqnums.clear();
        self.seqnums.extend_from_slice(self.range_tombstones.list(self.segment));
    }

    /// The oldest range tombstone between the previous entry of the key and one with `seqnum`, if there is any.
    pub(super) fn pass_to(&mut self, seqnum: SeqNum) -> Option<SeqNum> {
        let newer = self.seqnums.partition_point(|range_tombstone| *range_tombstone > seqnum);
        if newer <= self.passed {
            return None;
        }
        self.passed = newer;
        Some(self.seqnums[newer - 1])
    }
}
