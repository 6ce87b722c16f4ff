//! The cluster time: what orders the replies of a replica set.

use std::sync::atomic::{AtomicU64, Ordering};

use spinney_document::bson::Timestamp;

use crate::base::clock::now_ms;

/// A clock of seconds and ordinals that never goes back.
#[derive(Debug, Default)]
pub struct ClusterTime(AtomicU64);

impl ClusterTime {
    /// A time later than all before.
    pub fn tick(&self) -> Timestamp {
        let seconds = u64::try_from(now_ms() / 1000).unwrap_or_default();
        let next = |last: u64| (last + 1).max((seconds << 32) | 1);
        // Nothing else is published by the number.
        let last = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| Some(next(last)));
        Timestamp::from_bits(next(last.unwrap_or_else(|last| last)))
    }

    /// The last time that was given out.
    #[must_use]
    pub fn last(&self) -> Timestamp {
        match self.0.load(Ordering::Relaxed) {
            0 => self.tick(),
            last => Timestamp::from_bits(last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_later_than_the_one_before() {
        let time = ClusterTime::default();
        let first = time.last();
        assert_eq!(time.last(), first);
        assert!(time.tick() > first && time.tick() > time.tick().min(first));
    }
}
