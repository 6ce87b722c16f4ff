//! The member of a replica set that this server is: the node, the way to the other members, and how far each is behind.
//!
//! # Concurrency
//!
//! The latch of the progress is held for a moment only.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use spinney_replica::{Member, MemberStatus, Node, Role, Status, Times};

use crate::base::clock::monotonic;
use crate::peer::Members;

/// How far apart two samples of the log's end are.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// How many samples are kept: those of twenty minutes, or of a longer time with pauses.
const SAMPLES_MAX: usize = 6000;

/// A member that has not answered the primary for this time is down.
const DOWN_AFTER: Duration = Duration::from_secs(2);

/// In a set whose heartbeats are far apart, a member that has not answered this many of them is down.
const HEARTBEATS_MISSED: u64 = 3;

/// The member of a replica set that this server is.
#[derive(Debug)]
pub struct Replica {
    /// The node.
    pub node: Node,
    /// The way to the other members.
    pub members: Arc<Members>,
    /// The members that the server was started with: the first of them forms the set when none of them is part of one
    /// yet. Empty when the server is to be made part of a set.
    pub first_members: Vec<Member>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// When the log ended at which index, the oldest first.
    ends: VecDeque<(Instant, u64)>,
    /// When this member was last known to have applied all that the set has agreed on.
    current: Instant,
    /// Since when other members answer, by their ids.
    up_since: BTreeMap<u64, Instant>,
}

/// What a member is to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It takes writes.
    Primary,
    /// It takes reads of clients that allow for reads which are not of the primary.
    Secondary,
    /// It takes neither: it is not part of a set, or not yet.
    Other,
}

/// What a member is to clients.
#[must_use]
pub fn standing(status: &Status) -> Standing {
    match status.role {
        Role::Primary if status.writable => Standing::Primary,
        Role::Primary | Role::Secondary | Role::Candidate => Standing::Secondary,
        Role::Uninitiated | Role::Recovering | Role::Removed | Role::Failed => Standing::Other,
    }
}

/// Whether a member answers the primary, whose status this is.
#[must_use]
pub fn answers(status: &Status, member: &MemberStatus) -> bool {
    let times = status.config.as_ref().and_then(|config| config.times);
    member.last_contact.is_some_and(|contact| contact < down_after(times.unwrap_or_default()))
}

fn down_after(times: Times) -> Duration {
    DOWN_AFTER.max(Duration::from_millis(times.heartbeat_ms.saturating_mul(HEARTBEATS_MISSED)))
}

impl Replica {
    /// The member of a node.
    #[must_use]
    pub fn new(node: Node, members: Arc<Members>, first_members: Vec<Member>) -> Self {
        let progress = Progress { ends: VecDeque::new(), current: monotonic(), up_since: BTreeMap::new() };
        Self { node, members, first_members, progress: Mutex::new(progress) }
    }

    /// Takes note of where the log ends, whether this member has applied what the set has agreed on, and which members
    /// answer.
    pub fn note(&self, status: &Status) {
        let now = monotonic();
        let mut progress = self.progress.lock();
        let due =
            progress.ends.back().is_none_or(|(at, end)| *end < status.last && now.duration_since(*at) >= SAMPLE_EVERY);
        if due {
            if progress.ends.len() == SAMPLES_MAX {
                progress.ends.pop_front();
            }
            progress.ends.push_back((now, status.last));
        }
        let follows = matches!(status.role, Role::Primary | Role::Secondary) && status.primary.is_some();
        if follows && status.applied >= status.committed {
            progress.current = now;
        }
        if status.role == Role::Primary {
            for member in &status.members {
                progress.up_for(member.id, answers(status, member), now);
            }
        }
    }

    /// For how long a member has answered, as far as this one knows; zero when it does not.
    #[must_use]
    pub fn up_for(&self, id: u64, answers: bool) -> Duration {
        self.progress.lock().up_for(id, answers, monotonic())
    }

    /// For how long this member has not had all that the set has agreed on, as far as it knows.
    #[must_use]
    pub fn behind(&self, status: &Status) -> Duration {
        self.note(status);
        monotonic().duration_since(self.progress.lock().current)
    }

    /// For how long a member that has the log up to an index has not had all of this member's log: about, and zero when
    /// it has all.
    #[must_use]
    pub fn lag(&self, status: &Status, matched: u64) -> Duration {
        if matched >= status.last {
            return Duration::ZERO;
        }
        let progress = self.progress.lock();
        let first_missing = progress.ends.partition_point(|(_, end)| *end <= matched);
        let since = progress.ends.get(first_missing).map(|(at, _)| *at);
        since.map_or(Duration::ZERO, |since| monotonic().duration_since(since))
    }
}

impl Progress {
    fn up_for(&mut self, id: u64, answers: bool, now: Instant) -> Duration {
        if !answers {
            self.up_since.remove(&id);
            return Duration::ZERO;
        }
        now.duration_since(*self.up_since.entry(id).or_insert(now))
    }
}

/// Milliseconds of a time.
#[must_use]
pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With heartbeats of five seconds a healthy member was down most of the time.
    #[test]
    fn a_member_is_down_when_it_missed_three_heartbeats_and_two_seconds() {
        let default = Times::default();
        for (heartbeat_ms, seconds) in [(100, 2), (1000, 3), (10_000, 30)] {
            assert_eq!(down_after(Times { heartbeat_ms, ..default }), Duration::from_secs(seconds));
        }
    }

    #[test]
    fn a_member_is_up_since_it_answered_again() {
        let now = monotonic();
        let mut progress = Progress { ends: VecDeque::new(), current: now, up_since: BTreeMap::new() };
        let seconds = [(0, true, 0), (5, true, 5), (6, false, 0), (9, true, 0), (10, true, 1)];
        for (at, answers, up) in seconds {
            let up_for = progress.up_for(1, answers, now + Duration::from_secs(at));
            assert_eq!(up_for, Duration::from_secs(up), "at {at}");
        }
    }
}
