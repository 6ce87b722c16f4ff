//! The forces that are in flight: which positions each covers, and how far the log is durable when some have landed.
//!
//! Forces take off in order of position and may land in any order. The log is durable up to the end of a force only
//! when that force and all before it have landed.
//!
//! Where a force takes long, several at a time let commits wait for one force instead of for the rest of one and then
//! another. Where it takes hardly longer than the processor needs for it, one at a time is better: more commits share
//! each.

use crate::base::Lsn;
use crate::base::num::u64_of;
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// The most forces in flight. More gain little: each is a smaller group. (A test of schedules has fewer than threads.)
pub(super) const FLIGHTS_MAX: usize = if cfg!(shuttle) { 2 } else { 4 };
/// Forces that take at least so long gain from company. (A test of schedules wants it always.)
const LONG: Duration = if cfg!(shuttle) { Duration::ZERO } else { Duration::from_micros(150) };

/// The forces in flight, oldest first.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// The number of the oldest; they are numbered in order.
    oldest: u64,
    flights: VecDeque<Flight>,
    /// The time of the fastest of the last direct writes: how long the device takes, whatever else the threads waited
    /// for.
    fastest: Option<Duration>,
    /// Whether a thread has the right to force next. Until it has taken what waits, nobody else gets it.
    is_granted: bool,
}

#[derive(Debug)]
struct Flight {
    /// Everything before it is durable when this and all earlier flights have landed.
    end: Lsn,
    /// Whether nothing may fly beside it.
    alone: bool,
    landed: bool,
}

/// What a thread has to do for a position that is not durable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It forces, and nobody else before it has called [`Flights::take_off`].
    Force,
    /// It waits for the flight of this number, which covers the position or will be the next.
    Wait(u64),
}

impl Flights {
    /// What to do for `lsn`.
    pub(super) fn turn(&mut self, lsn: Lsn) -> Turn {
        if let Some(at) = self.flights.iter().position(|flight| flight.end >= lsn) {
            return Turn::Wait(self.oldest + u64_of(at));
        }
        if self.is_granted || self.is_full() {
            return Turn::Wait(self.next());
        }
        self.is_granted = true;
        Turn::Force
    }

    /// Whether no more may take off now.
    pub(super) fn is_full(&self) -> bool {
        let most = if self.fastest.unwrap_or_default() >= LONG { FLIGHTS_MAX } else { 1 };
        self.flights.len() >= most || self.flights.iter().any(|flight| flight.alone)
    }

    /// A direct write took `time`. Rises by a sixteenth for each that is slower, so that a change of the device is
    /// noticed.
    pub(super) fn timed(&mut self, time: Duration) {
        let risen = self.fastest.map_or(time, |fastest| fastest + fastest / 16 + Duration::from_micros(1));
        self.fastest = Some(risen.min(time));
    }

    /// The force of the thread that had the right to it is on its way, with everything before `end` that no earlier one
    /// has.
    pub(super) fn take_off(&mut self, end: Lsn, alone: bool) -> u64 {
        self.is_granted = false;
        self.join(end, alone)
    }

    /// As [`Self::take_off`], of a force beside those that commits ask for.
    pub(super) fn join(&mut self, end: Lsn, alone: bool) -> u64 {
        self.flights.push_back(Flight { end, alone, landed: false });
        self.next() - 1
    }

    /// A force has ended well. Gives the numbers of the flights that have landed with all before them, and where the
    /// last of these ends.
    pub(super) fn land(&mut self, number: u64) -> (Range<u64>, Option<Lsn>) {
        let at = usize::try_from(number - self.oldest).expect("few are in flight");
        self.flights[at].landed = true;
        let (first, mut durable) = (self.oldest, None);
        while let Some(flight) = self.flights.pop_front_if(|flight| flight.landed) {
            durable = durable.max(Some(flight.end));
            self.oldest += 1;
        }
        (first..self.oldest, durable)
    }

    /// The number of the next flight.
    pub(super) fn next(&self) -> u64 {
        self.oldest + u64_of(self.flights.len())
    }

    /// The number of the last flight, unless all have landed.
    pub(super) fn newest(&self) -> Option<u64> {
        (!self.flights.is_empty()).then(|| self.next() - 1)
    }

    /// The number of the last flight that writes past the page cache, unless all of these have landed. Those that fly
    /// alone sync.
    pub(super) fn newest_direct(&self) -> Option<u64> {
        let at = self.flights.iter().rposition(|flight| !flight.alone)?;
        Some(self.oldest + u64_of(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a device that gains from several.
    fn on_a_slow_device() -> Flights {
        Flights { fastest: Some(LONG), ..Flights::default() }
    }

    #[test]
    fn what_lands_early_counts_only_with_all_before_it() {
        let mut flights = on_a_slow_device();
        assert_eq!(flights.turn(Lsn(10)), Turn::Force);
        assert_eq!(flights.turn(Lsn(20)), Turn::Wait(0), "the first has yet to take what waits");
        let first = flights.take_off(Lsn(20), false);
        assert_eq!(flights.turn(Lsn(20)), Turn::Wait(first));
        assert_eq!(flights.turn(Lsn(30)), Turn::Force);
        let second = flights.take_off(Lsn(30), false);
        assert_eq!(flights.land(second), (0..0, None));
        assert_eq!(flights.turn(Lsn(30)), Turn::Wait(second));
        assert_eq!(flights.land(first), (0..2, Some(Lsn(30))));
        assert_eq!((flights.newest(), flights.next()), (None, 2));
    }

    #[test]
    fn no_more_fly_than_may() {
        let mut flights = on_a_slow_device();
        for number in 0..u64_of(FLIGHTS_MAX) {
            assert_eq!(flights.turn(Lsn(number + 1)), Turn::Force);
            flights.take_off(Lsn(number + 1), false);
        }
        assert_eq!(flights.turn(Lsn(100)), Turn::Wait(u64_of(FLIGHTS_MAX)));
        flights.land(0);
        assert_eq!(flights.turn(Lsn(100)), Turn::Force);
    }

    #[test]
    #[cfg(not(shuttle))]
    fn on_a_fast_device_one_flies_at_a_time_and_single_slow_writes_do_not_count() {
        let mut flights = Flights::default();
        let us = Duration::from_micros;
        [40, 900, 50, 900, 900].map(us).into_iter().for_each(|time| flights.timed(time));
        assert_eq!(flights.turn(Lsn(1)), Turn::Force);
        flights.take_off(Lsn(1), false);
        assert_eq!(flights.turn(Lsn(2)), Turn::Wait(1));
        (0..100).for_each(|_| flights.timed(us(900)));
        assert_eq!(flights.turn(Lsn(2)), Turn::Force, "the device has become slow");
    }

    #[test]
    fn nothing_flies_beside_a_force_that_must_be_alone() {
        let mut flights = Flights::default();
        let alone = flights.join(Lsn(5), true);
        assert_eq!(flights.turn(Lsn(6)), Turn::Wait(1));
        flights.land(alone);
        assert_eq!(flights.turn(Lsn(6)), Turn::Force);
    }
}
