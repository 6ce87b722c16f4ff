//! The cluster time: a timestamp that only grows, near the time of day.
//!
//! A commit gets its time from the engine, together with its place in the log; on a member of a replica set it has the
//! time that its primary gave it with its place among the commits of the set. A time that is shown to a client has no
//! commit at or before it that is still under way.
//!
//! # Concurrency
//! The latch of the engine's clock.

use std::sync::Arc;

use spinney::{CommitClock, Lsn, Snapshot};

use crate::base::Environment;
use crate::bson::Timestamp;

/// How many ordinals a millisecond has, so that a timestamp tells the milliseconds too.
const PER_MILLISECOND: u32 = 2_000_000;

/// A clock of timestamps.
#[derive(Debug)]
pub struct ClusterClock {
    clock: Arc<CommitClock>,
    /// Whether commits get their times here, and not from the primary of a replica set.
    goes_on: bool,
}

impl ClusterClock {
    /// A clock by the time of day of an environment; of a member of a replica set, or of a server by itself.
    #[must_use]
    pub fn new(environment: Arc<dyn Environment>, is_member: bool) -> Self {
        let clock = CommitClock::new(move || of_millis(environment.now_ms()).bits());
        Self { clock: Arc::new(clock), goes_on: !is_member }
    }

    /// The engine's clock, for transactions and batches.
    #[must_use]
    pub const fn commits(&self) -> &Arc<CommitClock> {
        &self.clock
    }

    /// The next time, for what is no commit: that of the day, or just behind the last one.
    #[must_use]
    pub fn tick(&self) -> Timestamp {
        Timestamp::from_bits(self.clock.tick())
    }

    /// The newest time that was given out or heard of. Commits up to it may be under way: [`Self::visible`] is what
    /// clients are shown.
    #[must_use]
    pub fn last(&self) -> Timestamp {
        Timestamp::from_bits(self.clock.last())
    }

    /// The time of the newest commit.
    #[must_use]
    pub fn newest_commit(&self) -> Timestamp {
        Timestamp::from_bits(self.clock.newest_commit())
    }

    /// The time of day.
    #[must_use]
    pub fn wall(&self) -> Timestamp {
        Timestamp::from_bits(self.clock.wall())
    }

    /// Goes forward to a time that was given elsewhere.
    pub fn advance(&self, to: Timestamp) {
        self.clock.advance(to.bits());
    }

    /// Goes forward to the time of a commit that is visible, as are all before it.
    pub(crate) fn advance_visible(&self, to: Timestamp) {
        self.clock.advance_visible(to.bits());
    }

    /// The newest time that may be shown: commits up to it are visible, and no later one gets a time as early. With it
    /// a position of the log in front of all later commits.
    #[must_use]
    pub fn visible(&self, engine: &spinney::Database) -> (Timestamp, Lsn) {
        let visible = engine.visible_time(&self.clock, self.goes_on);
        (Timestamp::from_bits(visible.time), visible.lsn)
    }

    /// A snapshot that has all commits up to a time, and none that is later.
    #[must_use]
    pub fn snapshot(&self, engine: &spinney::Database) -> (Snapshot, Timestamp) {
        let (snapshot, visible) = engine.snapshot_with_time(&self.clock, self.goes_on);
        (snapshot, Timestamp::from_bits(visible.time))
    }
}

/// The next timestamp.
pub fn just_behind(time: Timestamp) -> Timestamp {
    Timestamp::from_bits(time.bits().saturating_add(1))
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
    fn times_tell_the_millisecond() {
        for now in [0, 1_700_000_000_123, 1_700_000_000_999] {
            assert_eq!(millis(of_millis(now)), now);
        }
        assert!(of_millis(1_700_000_000_124) > of_millis(1_700_000_000_123));
    }
}
