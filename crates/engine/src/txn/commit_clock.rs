//! A clock that stamps commits in the order of the log.
//!
//! A program that compares times of commits, and resumes readers of the change feed by them, needs three facts: times
//! ascend in the log; a commit that follows a time which was shown to a reader has a later one; and every commit at or
//! before a time that was shown is visible. A time that is taken before the commit has its place in the log holds none
//! of the three. So the commit pipeline takes it under the commit latch, and the clock keeps the times of the commits
//! that are ordered and not yet visible.
//!
//! # Invariants
//! 1. The order of the times is the order of the commits' seqnums and of their places in the log.
//! 2. `visible` is no later than the time of any commit in `under_way`, and every other commit with a time up to
//!    `visible` is visible.
//! 3. `last` is no earlier than any time that was given or shown.
//!
//! # Concurrency
//! One latch. The pipeline takes it under the commit latch; the latch of the snapshots is taken within it.

use std::collections::VecDeque;
use std::fmt;

use super::log_points::LogPoints;
use crate::base::sync::Mutex;
use crate::base::{Lsn, SeqNum};

/// Two points of the log that are remembered by their times are as far apart.
const POINTS_APART: u64 = 1 << 32;

/// Gives commits their times: see [`Transaction::stamp`](crate::Transaction::stamp).
///
/// A time is a number. The upper half is meant for seconds: the clock remembers a position of the log for each second.
pub struct CommitClock {
    state: Mutex<State>,
    wall: Box<dyn Fn() -> u64 + Send + Sync>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    visible: u64,
    /// The time of the newest commit that was stamped.
    newest: u64,
    /// Commits that are ordered and were not visible when the clock was last looked at, in their order.
    under_way: VecDeque<Stamped>,
    points: LogPoints<u64>,
}

#[derive(Debug)]
struct Stamped {
    time: u64,
    /// Of its last change.
    seqnum: SeqNum,
    /// A position in front of it.
    before: Lsn,
    /// The time of the newest commit that was stamped before it.
    previous: u64,
}

/// The place of a commit that is stamped.
#[derive(Clone, Copy, Debug)]
pub struct CommitPlace {
    /// The seqnum of its last change.
    pub seqnum: SeqNum,
    /// A position in front of it from which the log can be read.
    pub before: Lsn,
    /// The newest seqnum that readers see.
    pub published: SeqNum,
}

/// A time that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VisibleTime {
    /// The time: commits up to it are visible, and no later commit gets one as early.
    pub time: u64,
    /// A position of the log in front of all commits that are later.
    pub lsn: Lsn,
}

/// The time of a commit that is stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitTime {
    /// The next one.
    Next,
    /// One that was given elsewhere, later than those before it.
    Given(u64),
}

impl fmt::Debug for CommitClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommitClock").field("state", &self.state).finish_non_exhaustive()
    }
}

impl CommitClock {
    /// A clock that is never behind `wall`, the time of day. That is called under latches: it must be short, and may
    /// take none.
    pub fn new(wall: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { state: Mutex::default(), wall: Box::new(wall) }
    }

    /// The time of day.
    #[must_use]
    pub fn wall(&self) -> u64 {
        (self.wall)()
    }

    /// The newest time that was given or shown. Commits with earlier times may not be visible: see
    /// [`Database::visible_time`](crate::Database::visible_time).
    #[must_use]
    pub fn last(&self) -> u64 {
        self.state.lock().last
    }

    /// A time for something that is no commit, later than all before.
    #[must_use]
    pub fn tick(&self) -> u64 {
        self.state.lock().next(self.wall())
    }

    /// Goes forward to a time that was given elsewhere: later ones are given from now on.
    pub fn advance(&self, to: u64) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
    }

    /// Goes forward to the time of a commit that is visible, as are all that have earlier ones.
    pub fn advance_visible(&self, to: u64) {
        let mut state = self.state.lock();
        state.last = state.last.max(to);
        state.visible = state.visible.max(to);
        state.newest = state.newest.max(to);
    }

    /// The time of the newest commit that has one.
    #[must_use]
    pub fn newest_commit(&self) -> u64 {
        self.state.lock().newest
    }

    /// A position of the log before which no commit of a time or later stands, if one is remembered.
    #[must_use]
    pub fn position_before(&self, time: u64) -> Option<Lsn> {
        self.state.lock().points.before(time)
    }

    /// Stamps a commit. The caller holds the latch of the order, and appends the commit to the log before it is
    /// released.
    pub(crate) fn stamp(&self, place: CommitPlace, time: CommitTime) -> u64 {
        let mut state = self.state.lock();
        state.settle(place.published);
        let time = match time {
            CommitTime::Next => state.next(self.wall()),
            CommitTime::Given(time) => {
                state.last = state.last.max(time);
                time
            }
        };
        let is_apart = |last: u64| last / POINTS_APART < time / POINTS_APART;
        if state.points.last().is_none_or(is_apart) {
            state.points.add(time, place.before);
        }
        let previous = state.newest;
        state.newest = previous.max(time);
        state.under_way.push_back(Stamped { time, seqnum: place.seqnum, before: place.before, previous });
        time
    }

    /// The commit that was stamped last has no place in the log: it was refused. The caller has held the latch of the
    /// order since. Its time is not given again.
    pub(crate) fn withdraw(&self) {
        let mut state = self.state.lock();
        if let Some(refused) = state.under_way.pop_back() {
            state.newest = refused.previous;
        }
    }

    /// Calls `look`, which returns the newest seqnum that readers see and a position up to which the log can be read,
    /// while no commit is stamped. `goes_on` says that all commits get their times here: where none is under way the
    /// time of day is shown then.
    pub(crate) fn look<T>(&self, goes_on: bool, look: impl FnOnce() -> (SeqNum, Lsn, T)) -> (VisibleTime, T) {
        let mut state = self.state.lock();
        let (published, end, seen) = look();
        state.settle(published);
        let lsn = match state.under_way.front() {
            Some(first) => first.before.min(end),
            None if goes_on => {
                state.last = state.last.max(self.wall());
                state.visible = state.last;
                end
            }
            None => end,
        };
        (VisibleTime { time: state.visible, lsn }, seen)
    }
}

impl State {
    /// The next time.
    fn next(&mut self, wall: u64) -> u64 {
        self.last = wall.max(self.last.saturating_add(1));
        self.last
    }

    /// Readers see all up to a seqnum.
    fn settle(&mut self, published: SeqNum) {
        while let Some(commit) = self.under_way.pop_front_if(|commit| commit.seqnum <= published) {
            self.visible = self.visible.max(commit.time);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn place(seqnum: u64, published: u64) -> CommitPlace {
        CommitPlace { seqnum: SeqNum(seqnum), before: Lsn(seqnum * 100), published: SeqNum(published) }
    }

    fn look(clock: &CommitClock, goes_on: bool, published: u64) -> (u64, u64) {
        let (visible, ()) = clock.look(goes_on, || (SeqNum(published), Lsn(9000), ()));
        (visible.time, visible.lsn.0)
    }

    #[test]
    fn a_time_is_shown_when_all_commits_up_to_it_are_visible() {
        let clock = CommitClock::new(|| 1000);
        assert_eq!(look(&clock, true, 0), (1000, 9000));
        assert_eq!(
            [clock.stamp(place(1, 0), CommitTime::Next), clock.stamp(place(4, 0), CommitTime::Next)],
            [1001, 1002]
        );
        assert_eq!(look(&clock, true, 0), (1000, 100), "a reader begins in front of the first that is under way");
        assert_eq!(clock.tick(), 1003);
        assert_eq!(look(&clock, true, 3), (1001, 400));
        assert_eq!(look(&clock, true, 4), (1003, 9000), "nothing is under way");
        assert_eq!(clock.stamp(place(5, 4), CommitTime::Next), 1004, "later than what was shown");
        assert_eq!(clock.newest_commit(), 1004);
    }

    #[test]
    fn times_that_are_given_elsewhere_do_not_go_on_by_themselves() {
        let clock = CommitClock::new(|| 1000);
        clock.advance_visible(40);
        assert_eq!(look(&clock, false, 0), (40, 9000));
        clock.advance(60);
        assert_eq!(look(&clock, false, 0), (40, 9000));
        assert_eq!(clock.stamp(place(1, 0), CommitTime::Given(50)), 50);
        assert_eq!(look(&clock, false, 0), (40, 100));
        assert_eq!(look(&clock, false, 1), (50, 9000));
        assert_eq!(clock.last(), 60);
    }

    #[test]
    fn a_commit_that_was_refused_holds_nothing_back() {
        let clock = CommitClock::new(|| 1000);
        assert_eq!(clock.stamp(place(1, 0), CommitTime::Next), 1000);
        assert_eq!(clock.stamp(place(2, 0), CommitTime::Next), 1001);
        clock.withdraw();
        assert_eq!(clock.newest_commit(), 1000);
        assert_eq!(look(&clock, true, 1), (1001, 9000));
        assert_eq!(clock.stamp(place(2, 1), CommitTime::Next), 1002, "a time is given once");
    }

    #[test]
    fn the_log_is_read_from_a_point_before_a_time() {
        let clock = CommitClock::new(|| 7 << 32);
        assert_eq!(clock.position_before(u64::MAX), None);
        for (seqnum, time) in [(1, (7 << 32) + 5), (2, (7 << 32) + 9), (3, (9 << 32) + 1)] {
            clock.stamp(place(seqnum, 0), CommitTime::Given(time));
        }
        let before = |time| clock.position_before(time).map(|lsn| lsn.0);
        assert_eq!(before((7 << 32) + 4), None);
        assert_eq!([before((7 << 32) + 5), before(9 << 32), before((9 << 32) + 1)], [Some(100), Some(100), Some(300)]);
    }
}
