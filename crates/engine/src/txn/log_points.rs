//! Positions of the log by something that grows with it.

use crate::base::Lsn;

/// The most points that are kept.
const POINTS_MAX: usize = 100_000;

/// Positions of the log before which nothing stands that is as late or later, in ascending order.
#[derive(Debug)]
pub struct LogPoints<T>(Vec<(T, Lsn)>);

impl<T> Default for LogPoints<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Copy + Ord> LogPoints<T> {
    /// Adds a point later than the last one. When there are 100,000, every second one is dropped before.
    pub fn add(&mut self, at: T, lsn: Lsn) {
        if self.0.len() == POINTS_MAX {
            let mut number = 0;
            self.0.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        self.0.push((at, lsn));
    }

    /// The last point.
    #[must_use]
    pub fn last(&self) -> Option<T> {
        self.0.last().map(|(at, _)| *at)
    }

    /// The last position before which nothing stands that is as late as `at`, or later; nothing when `at` is before the
    /// first point.
    #[must_use]
    pub fn before(&self, at: T) -> Option<Lsn> {
        let behind = self.0.partition_point(|(known, _)| *known <= at);
        self.0.get(behind.checked_sub(1)?).map(|(_, lsn)| *lsn)
    }
}
