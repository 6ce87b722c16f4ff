//! Where in the redo log entries are: a sparse index, in memory.

use std::collections::VecDeque;

use spinney::Lsn;

/// Bytes of entries between two points.
const SPACING_BYTES: usize = 256 << 10;

/// From an LSN on, the log is read for an entry and those behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) index: u64,
    pub(crate) lsn: Lsn,
}

/// Points in the order of both index and LSN.
///
/// # Invariants
/// 1. The newest entry of an index stands behind the last point that is not behind the index, and before the next one.
#[derive(Debug, Default)]
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

    /// The index of the last point with an LSN that is early enough, as all before it.
    pub(crate) fn last_where(&self, is_early: impl Fn(Lsn) -> bool) -> Option<u64> {
        let at = self.points.partition_point(|point| is_early(point.lsn)).checked_sub(1)?;
        Some(self.points[at].index)
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
        points.purge(2);
        assert_eq!((points.first().map(|point| point.index), at(&points, 1)), (Some(2), None));
    }
}
