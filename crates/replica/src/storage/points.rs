//! Where in the redo log entries are: a sparse index, in memory, which is stored now and then.

use std::collections::VecDeque;

use spinney::Lsn;
use spinney::base::codec::{Decoder, Malformed, put_varint};
use spinney::base::num::u64_of;

use crate::entry::log_entry::LogId;

/// Bytes of entries between two points.
const SPACING_BYTES: usize = 256 << 10;

/// From an LSN on, the log is read for an entry and those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) index: u64,
    pub(crate) lsn: Lsn,
}

/// What was known of the replicated log at a moment: an open reads the redo log from there on.
#[derive(Debug)]
pub(crate) struct Known {
    /// Where the redo log ended.
    pub(crate) at: Lsn,
    /// The last entry that was written.
    pub(crate) last: LogId,
    pub(crate) points: Points,
}

impl Known {
    /// The place of the last entry, the LSN, the points.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.last.encode(&mut out);
        put_varint(&mut out, self.at.0);
        self.points.encode(&mut out);
        out
    }

    /// Takes what was known off its bytes.
    ///
    /// # Errors
    /// When they make no sense.
    pub(crate) fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(Self { last: LogId::decode(input)?, at: Lsn(input.varint()?), points: Points::decode(input)? })
    }
}

/// Points in the order of both index and LSN.
///
/// # Invariants
/// 1. The newest entry of an index stands behind the last point that is not behind the index, and before the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    points: VecDeque<Point>,
    /// Bytes of entries since the last point.
    bytes: usize,
}

impl Points {
    /// Notes that entries from `index` on, of `bytes` together, stand behind `lsn`.
    pub(crate) fn add(&mut self, index: u64, lsn: Lsn, bytes: usize) {
        self.truncate(index);
        if self.points.is_empty() || self.bytes >= SPACING_BYTES {
            self.points.push_back(Point { index, lsn });
            self.bytes = 0;
        }
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Forgets the points of entries from `index` on, which were replaced.
    fn truncate(&mut self, index: u64) {
        while self.points.back().is_some_and(|point| point.index >= index) {
            self.points.pop_back();
            // The next entries get a point.
            self.bytes = SPACING_BYTES;
        }
    }

    /// Forgets what is before `index`, but for the point from which that is found.
    pub(crate) fn purge(&mut self, index: u64) {
        while self.points.get(1).is_some_and(|next| next.index <= index) {
            self.points.pop_front();
        }
    }

    /// The points as bytes: their number, then index and LSN of each, by how much they are larger than those before.
    fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, u64_of(self.points.len()));
        let mut before = Point { index: 0, lsn: Lsn(0) };
        for point in &self.points {
            put_varint(out, point.index - before.index);
            put_varint(out, point.lsn.0 - before.lsn.0);
            before = *point;
        }
    }

    /// Takes the points off the bytes. The next entries get one.
    ///
    /// # Errors
    /// When they are no points in an order.
    fn decode(input: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let (count, mut points) = (input.varint()?, VecDeque::new());
        let mut before = Point { index: 0, lsn: Lsn(0) };
        for _ in 0..count {
            let index = before.index.checked_add(input.varint()?).ok_or(Malformed)?;
            let lsn = Lsn(before.lsn.0.checked_add(input.varint()?).ok_or(Malformed)?);
            before = Point { index, lsn };
            points.push_back(before);
        }
        Ok(Self { points, bytes: SPACING_BYTES })
    }

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The point from which an entry is found, and the next one.
    pub(crate) fn around(&self, index: u64) -> Option<(Point, Option<Point>)> {
        let next = self.points.partition_point(|point| point.index <= index);
        let at = next.checked_sub(1)?;
        Some((self.points[at], self.points.get(next).copied()))
    }

    /// The last point with an LSN that is early enough, as all before it.
    pub(crate) fn last_where(&self, is_early: impl Fn(Lsn) -> bool) -> Option<Point> {
        let at = self.points.partition_point(|point| is_early(point.lsn)).checked_sub(1)?;
        Some(self.points[at])
    }

    /// The first point.
    pub(crate) fn first(&self) -> Option<Point> {
        self.points.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaced_entries_lose_their_points_and_far_entries_get_one() {
        let mut points = Points::default();
        points.add(0, Lsn(10), 100);
        points.add(1, Lsn(20), SPACING_BYTES);
        points.add(2, Lsn(30), SPACING_BYTES);
        points.add(3, Lsn(40), 1);
        let at = |points: &Points, index| {
            points.around(index).map(|(point, next)| (point.lsn.0, next.map(|next| next.lsn.0)))
        };
        assert_eq!(at(&points, 1), Some((10, Some(30))));
        assert_eq!(at(&points, 2), Some((30, Some(40))));
        assert_eq!(at(&points, 9), Some((40, None)));
        points.add(2, Lsn(50), 1);
        assert_eq!((at(&points, 1), at(&points, 2)), (Some((10, Some(50))), Some((50, None))));
        let mut bytes = Vec::new();
        points.encode(&mut bytes);
        let decoded = Points::decode(&mut Decoder::new(&bytes)).unwrap();
        assert_eq!(decoded.points, points.points);
        assert!(Points::decode(&mut Decoder::new(&bytes[..bytes.len() - 1])).is_err());
        points.purge(2);
        assert_eq!((points.first().map(|point| point.index), at(&points, 1)), (Some(2), None));
    }
}
