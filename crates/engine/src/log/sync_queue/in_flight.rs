//! The writes that are in flight: which positions each covers, and how far the log is durable when some have completed.
//!
//! Writes begin in order of position and may complete in any order. The log is durable up to the end of a write only
//! when that write and all before it have completed.
//!
//! Where a durable write takes long, several in flight let commits wait for one write instead of for the rest of one
//! and then another. Where it takes hardly longer than the processor needs for it, one at a time is better: more
//! commits share each.

use crate::base::Lsn;
use crate::base::num::u64_of;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The most writes in flight. More gain little: each is a smaller group. (A test of schedules has fewer than threads.)
pub(super) const IN_FLIGHT_MAX: usize = if cfg!(shuttle) { 2 } else { 4 };
/// Writes that take at least this long gain from others in flight. (A test of schedules wants it always.)
const LONG: Duration = if cfg!(shuttle) { Duration::ZERO } else { Duration::from_micros(150) };

/// The writes in flight, oldest first. A sync of what was written before is one of them.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// The number of the oldest; they are numbered in order.
    oldest: u64,
    writes: VecDeque<Write>,
    /// The time of the fastest of the last direct writes: how long the device takes, whatever else the threads waited
    /// for.
    fastest: Option<Duration>,
    /// Whether a thread leads the next group. Until it has begun its write, no other thread leads.
    has_leader: bool,
}

#[derive(Debug)]
struct Write {
    /// Everything before it is durable when this and all earlier writes have completed.
    end: Lsn,
    /// Whether no other write may be in flight at the same time.
    is_exclusive: bool,
    is_complete: bool,
}

/// What a thread has to do for a position that is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// It leads the next group: it writes, and no other thread begins a write before it has called [`InFlight::begin`].
    Lead,
    /// It waits for the write of this number, which covers the position or will be the next.
    Wait(u64),
}

impl InFlight {
    /// What a thread has to do for `lsn`.
    pub(super) fn role(&mut self, lsn: Lsn) -> Role {
        if let Some(at) = self.writes.iter().position(|write| write.end >= lsn) {
            return Role::Wait(self.oldest + u64_of(at));
        }
        if self.has_leader || self.is_full() {
            return Role::Wait(self.next());
        }
        self.has_leader = true;
        Role::Lead
    }

    /// Whether no more writes may begin now.
    pub(super) fn is_full(&self) -> bool {
        let most = if self.fastest.unwrap_or_default() >= LONG { IN_FLIGHT_MAX } else { 1 };
        self.writes.len() >= most || self.writes.iter().any(|write| write.is_exclusive)
    }

    /// A direct write took `time`; how long the device takes. The estimate rises by a sixteenth for each that is
    /// slower, so that a change of the device is noticed.
    pub(super) fn timed(&mut self, time: Duration) -> Duration {
        let risen = self.fastest.map_or(time, |fastest| fastest + fastest / 16 + Duration::from_micros(1));
        *self.fastest.insert(risen.min(time))
    }

    /// The write of the leader begins, of everything before `end` that no earlier one covers; its number.
    pub(super) fn begin(&mut self, end: Lsn, is_exclusive: bool) -> u64 {
        self.has_leader = false;
        self.begin_extra(end, is_exclusive)
    }

    /// As [`Self::begin`], of a write besides those that commits ask for.
    pub(super) fn begin_extra(&mut self, end: Lsn, is_exclusive: bool) -> u64 {
        self.writes.push_back(Write { end, is_exclusive, is_complete: false });
        self.next() - 1
    }

    /// Whether no other write may be in flight with the write of this number.
    pub(super) fn is_exclusive(&self, number: u64) -> bool {
        self.writes[self.index_of(number)].is_exclusive
    }

    /// A write has ended well. Gives the numbers of the writes that are complete with all before them, and where the
    /// last of these ends.
    pub(super) fn complete(&mut self, number: u64) -> (Range<u64>, Option<Lsn>) {
        let at = self.index_of(number);
        self.writes[at].is_complete = true;
        let (first, mut durable) = (self.oldest, None);
        while let Some(write) = self.writes.pop_front_if(|write| write.is_complete) {
            durable = durable.max(Some(write.end));
            self.oldest += 1;
        }
        (first..self.oldest, durable)
    }

    fn index_of(&self, number: u64) -> usize {
        usize::try_from(number - self.oldest).expect("few are in flight")
    }

    /// The number of the next write.
    pub(super) fn next(&self) -> u64 {
        self.oldest + u64_of(self.writes.len())
    }

    /// The number of the last write, unless all have completed.
    pub(super) fn newest(&self) -> Option<u64> {
        (!self.writes.is_empty()).then(|| self.next() - 1)
    }

    /// The number of the last write past the page cache, unless all of these have completed. Exclusive writes are syncs
    /// of the page cache.
    pub(super) fn newest_direct(&self) -> Option<u64> {
        let at = self.writes.iter().rposition(|write| !write.is_exclusive)?;
        Some(self.oldest + u64_of(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a device that gains from several.
    fn on_a_slow_device() -> InFlight {
        InFlight { fastest: Some(LONG), ..InFlight::default() }
    }

    #[test]
    fn what_completes_early_counts_only_with_all_before_it() {
        let mut writes = on_a_slow_device();
        assert_eq!(writes.role(Lsn(10)), Role::Lead);
        assert_eq!(writes.role(Lsn(20)), Role::Wait(0), "the first has yet to take what waits");
        let first = writes.begin(Lsn(20), false);
        assert_eq!(writes.role(Lsn(20)), Role::Wait(first));
        assert_eq!(writes.role(Lsn(30)), Role::Lead);
        let second = writes.begin(Lsn(30), false);
        assert_eq!(writes.complete(second), (0..0, None));
        assert_eq!(writes.role(Lsn(30)), Role::Wait(second));
        assert_eq!(writes.complete(first), (0..2, Some(Lsn(30))));
        assert_eq!((writes.newest(), writes.next()), (None, 2));
    }

    #[test]
    fn no_more_are_in_flight_than_may() {
        let mut writes = on_a_slow_device();
        for number in 0..u64_of(IN_FLIGHT_MAX) {
            assert_eq!(writes.role(Lsn(number + 1)), Role::Lead);
            writes.begin(Lsn(number + 1), false);
        }
        assert_eq!(writes.role(Lsn(100)), Role::Wait(u64_of(IN_FLIGHT_MAX)));
        writes.complete(0);
        assert_eq!(writes.role(Lsn(100)), Role::Lead);
    }

    #[test]
    #[cfg(not(shuttle))]
    fn on_a_fast_device_one_is_in_flight_at_a_time_and_single_slow_writes_do_not_count() {
        let mut writes = InFlight::default();
        let us = Duration::from_micros;
        for time in [40, 900, 50, 900, 900] {
            writes.timed(us(time));
        }
        assert_eq!(writes.role(Lsn(1)), Role::Lead);
        writes.begin(Lsn(1), false);
        assert_eq!(writes.role(Lsn(2)), Role::Wait(1));
        for _ in 0..100 {
            writes.timed(us(900));
        }
        assert_eq!(writes.role(Lsn(2)), Role::Lead, "the device has become slow");
    }

    #[test]
    fn nothing_begins_during_an_exclusive_write() {
        let mut writes = InFlight::default();
        let alone = writes.begin_extra(Lsn(5), true);
        assert_eq!(writes.role(Lsn(6)), Role::Wait(1));
        writes.complete(alone);
        assert_eq!(writes.role(Lsn(6)), Role::Lead);
    }
}
