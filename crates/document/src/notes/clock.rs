//! The cluster time: a timestamp that only grows, near the time of day.
//!
//! # Concurrency
//! One atomic number. Commits take their times before they enter the log, so two that run at once may stand there in
//! the other order.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bson::Timestamp;

/// How many ordinals a millisecond has, so that a timestamp tells the milliseconds too.
const PER_MILLISECOND: u32 = 2_000_000;

/// A clock of timestamps.
#[derive(Debug, Default)]
pub struct ClusterClock {
    /// The newest time that was given out.
    last: AtomicU64,
}

impl ClusterClock {
    /// The next time: that of the day at `now_ms`, in milliseconds since 1970, or just behind the last one.
    pub fn tick(&self, now_ms: i64) -> Timestamp {
        let now = of_millis(now_ms).bits();
        let next = |last: u64| Some(now.max(last.saturating_add(1)));
        let before = self.last.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).unwrap_or_default();
        Timestamp::from_bits(now.max(before.saturating_add(1)))
    }

    /// The newest time that was given out.
    #[must_use]
    pub fn last(&self) -> Timestamp {
        Timestamp::from_bits(self.last.load(Ordering::Acquire))
    }

    /// Goes forward to a time that was seen elsewhere.
    pub fn advance(&self, to: Timestamp) {
        self.last.fetch_max(to.bits(), Ordering::AcqRel);
    }
}

/// The first timestamp of a millisecond.
fn of_millis(millis: i64) -> Timestamp {
    let time = u32::try_from(millis.div_euclid(1000)).unwrap_or_default();
    let within = u32::try_from(millis.rem_euclid(1000)).unwrap_or_default();
    Timestamp { time, increment: within * PER_MILLISECOND + 1 }
}

/// The millisecond of a timestamp, since 1970.
#[must_use]
pub fn millis(at: Timestamp) -> i64 {
    i64::from(at.time) * 1000 + i64::from((at.increment / PER_MILLISECOND).min(999))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_grow_and_tell_the_millisecond() {
        let clock = ClusterClock::default();
        let first = clock.tick(1_700_000_000_123);
        assert_eq!((first.time, millis(first)), (1_700_000_000, 1_700_000_000_123));
        let second = clock.tick(1_700_000_000_123);
        assert!(second > first);
        assert_eq!(millis(second), 1_700_000_000_123);
        // A clock that goes back.
        assert!(clock.tick(1_600_000_000_000) > second);
        assert!(clock.tick(1_700_000_000_124) > second);
        clock.advance(Timestamp { time: 1_800_000_000, increment: 5 });
        assert_eq!(clock.tick(0), Timestamp { time: 1_800_000_000, increment: 6 });
        assert_eq!(clock.last().increment, 6);
    }
}
