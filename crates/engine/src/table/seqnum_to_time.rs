//! The mapping from seqnums to times: how old the entries of a table with a time to live are.
//!
//! An entry bears no time. A sample says by when all entries up to a seqnum were written; with regular samples, an
//! entry is taken to be as old as the first sample at or after it: younger than it is, by at most the time between two
//! samples, and never older.
//!
//! The clock of a machine may be wrong and be set right later. A sample that lies in the future is lowered to now, so
//! that entries that were written while the clock was ahead expire. The time that the clock had told is kept too: if
//! the clock is not right again but has fallen behind, it will leap to where it was, and the sample with it.
//!
//! # Invariants
//! 1. Lowering a sample makes no entry older than it is by the clock that is right in the end. If the clock had been
//!    ahead, the entries were written before the sample was lowered, to a later time. If it had fallen behind, `at_ms`
//!    leaps forward together with it, up to what the clock had said. Entries may be kept longer than they should be: by
//!    no more than the clock was ahead, and no more than a time to live.
//! 2. Seqnums ascend, and neither `at_ms` nor what the clock had said goes back from one sample to the next.

use std::time::Duration;

use crate::base::SeqNum;

/// What a clock is off by less has not been set, but is slow or was asked late.
const NO_LEAP_MS: u64 = 1000;

/// All entries up to a seqnum were written at or before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSample {
    /// The newest of the entries.
    pub seqnum: SeqNum,
    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub at_ms: u64,
    /// Milliseconds by which the clock that told the time was, or seems to have been, ahead of the clock that has been
    /// read since.
    pub ahead_ms: u64,
}

impl TimeSample {
    /// What the clock had said.
    const fn said_ms(&self) -> u64 {
        self.at_ms.saturating_add(self.ahead_ms)
    }
}

/// The samples of a table, in the order of their seqnums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeqnumToTime(Vec<TimeSample>);

impl SeqnumToTime {
    /// The samples read from the manifest; `None` when they do not ascend.
    #[must_use]
    pub fn new(seqnum_to_time: Vec<TimeSample>) -> Option<Self> {
        let ascends = |pair: &[TimeSample]| {
            pair[0].seqnum < pair[1].seqnum && pair[0].at_ms <= pair[1].at_ms && pair[0].said_ms() <= pair[1].said_ms()
        };
        seqnum_to_time.windows(2).all(ascends).then_some(Self(seqnum_to_time))
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[TimeSample] {
        &self.0
    }

    /// Lowers samples that lie in the future to `now_ms`, and takes those that were lowered before along where the
    /// clock leapt forward since it was looked at last: by `leapt_ms`; none when the process was not there to see. Says
    /// whether any changed.
    pub fn observe_clock(&mut self, now_ms: u64, leapt_ms: Option<u64>) -> bool {
        let (mut changed, mut before) = (false, 0);
        for mark in &mut self.0 {
            let said_ms = mark.said_ms();
            let at_ms = match leapt_ms {
                Some(leapt_ms) => mark.at_ms.saturating_add(leapt_ms),
                // Where the clock is past what had been said, that may have been true.
                None if said_ms <= now_ms => said_ms,
                None => mark.at_ms,
            };
            let at_ms = at_ms.min(said_ms).min(now_ms).max(before);
            // The clock went there step by step: it had been ahead.
            let is_over = leapt_ms.is_some_and(|leapt_ms| leapt_ms < NO_LEAP_MS) && said_ms <= now_ms;
            let ahead_ms = if is_over { 0 } else { said_ms - at_ms };
            changed |= (at_ms, ahead_ms) != (mark.at_ms, mark.ahead_ms);
            (mark.at_ms, mark.ahead_ms) = (at_ms, ahead_ms);
            before = at_ms;
        }
        changed
    }

    /// Adds a sample of entries up to `seqnum`, unless there is one already; returns whether it did. Of three
    /// within `spacing` the middle one goes. [`Self::look`] has been told of `now_ms`.
    pub fn set(&mut self, seqnum: SeqNum, now_ms: u64, spacing: Duration) -> bool {
        let (before, last) = match &*self.0 {
            [.., before, last] => (Some(*before), Some(*last)),
            [last] => (None, Some(*last)),
            [] => (None, None),
        };
        if last.is_some_and(|last| seqnum <= last.seqnum) {
            return false;
        }
        let at_ms = now_ms.max(last.map_or(0, |last| last.at_ms));
        let ahead_ms = last.map_or(0, |last| last.said_ms().saturating_sub(at_ms));
        if before.is_some_and(|before| Duration::from_millis(at_ms - before.at_ms) < spacing) {
            self.0.pop();
        }
        self.0.push(TimeSample { seqnum, at_ms, ahead_ms });
        true
    }

    /// The newest of the entries that were written by some time.
    #[must_use]
    pub fn written_by(&self, at_ms: u64) -> Option<SeqNum> {
        self.0.iter().rfind(|mark| mark.at_ms <= at_ms).map(|mark| mark.seqnum)
    }

    /// Forgets the samples of entries before `seqnum`, which are gone.
    pub fn forget(&mut self, seqnum: SeqNum) {
        self.0.retain(|mark| mark.seqnum >= seqnum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACING: Duration = Duration::from_millis(10);

    proptest! {
        /// Against the list of all that was ever marked.
        #[test]
        fn entries_are_taken_to_be_younger_by_no_more_than_the_spacing(
            steps in prop::collection::vec((0..3u64, 0..25u64, any::<bool>()), 1..60), asked in 0..1500u64, forgotten in 0..120u64,
        ) {
            let (mut seqnum_to_time, mut seqnum, mut now, mut written) = (SeqnumToTime::default(), 0, 0, Vec::new());
            for (entries, passes, is_set) in steps {
                now += passes;
                for _ in 0..entries {
                    seqnum += 1;
                    written.push((seqnum, now));
                }
                if is_set || entries > 0 {
                    seqnum_to_time.set(SeqNum(seqnum), now, SPACING);
                }
            }
            let kept: Vec<_> = seqnum_to_time.as_slice().to_vec();
            prop_assert_eq!(SeqnumToTime::new(kept.clone()), Some(seqnum_to_time.clone()));
            prop_assert!(kept.windows(3).all(|three| three[2].at_ms - three[0].at_ms >= 10));
            let by = seqnum_to_time.written_by(asked).unwrap_or_default().0;
            for (seqnum, at) in written {
                prop_assert!(seqnum > by || at <= asked, "{} of {} is older than it is", seqnum, at);
                prop_assert!(seqnum <= by || at + 25 + 10 > asked, "{} of {} is not found old", seqnum, at);
            }
            seqnum_to_time.forget(SeqNum(forgotten));
            prop_assert!(seqnum_to_time.as_slice().iter().all(|mark| mark.seqnum.0 >= forgotten));
            prop_assert_eq!(seqnum_to_time.as_slice().len(), kept.iter().filter(|mark| mark.seqnum.0 >= forgotten).count());
        }
    }

    fn marked(seqnum_to_time: &mut SeqnumToTime, seqnum: u64, now_ms: u64, leapt_ms: Option<u64>) -> bool {
        seqnum_to_time.observe_clock(now_ms, leapt_ms);
        seqnum_to_time.set(SeqNum(seqnum), now_ms, SPACING)
    }

    #[test]
    fn a_clock_that_was_ahead_makes_nothing_younger_than_now() {
        let mut seqnum_to_time = SeqnumToTime::default();
        let mut set = |seqnum, at_ms| marked(&mut seqnum_to_time, seqnum, at_ms, Some(0));
        assert!(set(1, 900) && set(2, 1000) && set(3, 500) && !set(3, 2000) && set(4, 2001));
        assert_eq!((seqnum_to_time.written_by(499), seqnum_to_time.written_by(500)), (None, Some(SeqNum(3))));
        assert_eq!(seqnum_to_time.written_by(2001), Some(SeqNum(4)));
        assert!(seqnum_to_time.as_slice().iter().all(|mark| mark.ahead_ms == 0), "the clock has got there by itself");
    }

    #[test]
    fn what_was_marked_by_a_clock_that_was_behind_is_as_old_as_it_is() {
        for (now_ms, leapt_ms) in [10_000, 10_100].into_iter().flat_map(|now| [(now, Some(9000)), (now, None)]) {
            let mut seqnum_to_time = SeqnumToTime::default();
            marked(&mut seqnum_to_time, 1, 10_000, None);
            // Begun without a clock, which is set while it runs or before the next open.
            marked(&mut seqnum_to_time, 2, 1000, None);
            marked(&mut seqnum_to_time, 3, 1100, Some(0));
            assert_eq!((seqnum_to_time.written_by(999), seqnum_to_time.written_by(1000)), (None, Some(SeqNum(2))));
            seqnum_to_time.observe_clock(now_ms, leapt_ms);
            assert_eq!(seqnum_to_time.written_by(9999), None, "{now_ms}, {leapt_ms:?}");
            assert_eq!(seqnum_to_time.written_by(now_ms), Some(SeqNum(3)));
        }
        // Half of the way, and then the rest.
        let mut seqnum_to_time = SeqnumToTime::default();
        marked(&mut seqnum_to_time, 1, 10_000, None);
        marked(&mut seqnum_to_time, 2, 1000, None);
        seqnum_to_time.observe_clock(5010, Some(4000));
        assert_eq!((seqnum_to_time.written_by(4999), seqnum_to_time.written_by(5000)), (None, Some(SeqNum(2))));
        seqnum_to_time.observe_clock(10_020, Some(5000));
        assert_eq!((seqnum_to_time.written_by(9999), seqnum_to_time.written_by(10_000)), (None, Some(SeqNum(2))));
    }

    proptest! {
        /// Clocks are wrong for a while, ahead or behind, and set right in the end.
        #[test]
        fn no_entry_is_older_by_a_clock_that_is_right_than_it_is(
            steps in prop::collection::vec((0..3u64, 0..25u64, prop_oneof![4 => Just(None), 1 => (0..1000u64).prop_map(Some)], prop::bool::weighted(0.2)), 1..60),
        ) {
            let (mut seqnum_to_time, mut seqnum, mut now, mut written) = (SeqnumToTime::default(), 0, 5000, Vec::new());
            let mut last: Option<(u64, u64)> = None;
            let mut is_right = true;
            let mut look = |seqnum_to_time: &mut SeqnumToTime, now: u64, error: u64, is_open: bool| {
                let wall = now + error - 1000;
                let leapt = last.filter(|_| is_open).map(|(then, said)| (wall.saturating_sub(said)).saturating_sub(now - then));
                last = Some((now, wall));
                seqnum_to_time.observe_clock(wall, leapt);
                wall
            };
            for (entries, passes, wrong, opens) in steps {
                now += passes;
                // From wrong the clock becomes right; only one that was ahead may have been so while entries were
                // marked.
                let error = if is_right { wrong.map_or(1000, |wrong| wrong + 1000) } else { 1000 };
                is_right = error == 1000;
                for _ in 0..entries {
                    seqnum += 1;
                    written.push((seqnum, now));
                }
                let wall = look(&mut seqnum_to_time, now, error, !opens);
                seqnum_to_time.set(SeqNum(seqnum), wall, SPACING);
                prop_assert!(SeqnumToTime::new(seqnum_to_time.as_slice().to_vec()).is_some());
            }
            look(&mut seqnum_to_time, now, 1000, true);
            for asked in (0..=now).step_by(7) {
                let by = seqnum_to_time.written_by(asked).unwrap_or_default().0;
                for (seqnum, at) in &written {
                    prop_assert!(*seqnum > by || *at <= asked, "{} of {} is older than it is at {}", seqnum, at, asked);
                }
            }
            prop_assert_eq!(seqnum_to_time.written_by(now).unwrap_or_default().0, seqnum, "nothing lies in the future");
        }
    }
}
