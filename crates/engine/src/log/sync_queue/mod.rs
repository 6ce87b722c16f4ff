//! The sync queue: which threads make the log durable, which wait for them, and how far the log is durable.
//!
//! A thread that needs a position durable leads the next group, unless as many writes are in flight as the device gains
//! from ([`InFlight`]). Threads that arrive while no more may begin form the next group, and one of them leads it when
//! a write has completed.
//!
//! Each write has a list of the threads that wait for it ([`Waiters`]). Threads whose position no write in flight
//! covers wait in the list of the next write. When writes are complete with all before them, all threads in their lists
//! are woken, and one in the list of the next write, which then leads.
//!
//! # Invariants
//! 1. Positions are published as durable in order: only when everything before them is. A crash may leave a later group
//!    without an earlier one; it then ends the log at the gap, and no thread was told of what lies behind.
//! 2. Writes begin in order of position: the thread that begins one holds the latch of the log's output.
//! 3. Positions become durable under the latch of the queue: a thread is in a list until it is taken from there to be
//!    woken, or has left. So a thread that has left is never woken in place of one that waits.

mod in_flight;

use self::in_flight::{IN_FLIGHT_MAX, InFlight, Role};
use super::failure::Failure;
use super::stats::{LogStats, SyncCounters, count};
use crate::base::num::{nanoseconds, u64_of, usize_of};
use crate::base::sync::thread::{self, Thread, park};
use crate::base::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard};
use crate::base::{Lsn, Result};
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The sync queue. Aligned so that its latch shares no cache line with other state of the log.
#[derive(Debug)]
#[repr(align(128))]
pub(in crate::log) struct SyncQueue {
    state: Mutex<State>,
    /// Everything before it is durable. Published with Release by the thread that made it so, to those that wait.
    durable: AtomicU64,
    /// Writes past the page cache that have begun and not completed. Raised by threads that hold the latch of the
    /// output; lowered with Release by the thread whose write has completed, for the thread that then writes buffered.
    direct_writes: AtomicUsize,
    /// Whether one of the last two groups was waited for by other threads than its leader. Steers only.
    is_shared: AtomicBool,
    /// How long the device takes for a direct write, in nanoseconds. Steers only.
    device_ns: AtomicU64,
    failure: Arc<Failure>,
    counters: SyncCounters,
}

#[derive(Debug, Default)]
struct State {
    in_flight: InFlight,
    waiters: Waiters,
    /// Whether the last group was waited for by other threads than its leader.
    was_shared: bool,
}

impl SyncQueue {
    /// The queue of a log that is durable up to `durable`.
    pub(in crate::log) fn new(durable: Lsn, failure: Arc<Failure>) -> Self {
        Self {
            state: Mutex::default(),
            durable: AtomicU64::new(durable.0),
            direct_writes: AtomicUsize::new(0),
            is_shared: AtomicBool::new(false),
            device_ns: AtomicU64::new(0),
            failure,
            counters: SyncCounters::default(),
        }
    }

    /// Everything before this position is durable.
    #[inline]
    pub(in crate::log) fn durable(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Groups made durable so far, and those that are on their way.
    pub(in crate::log) fn groups(&self) -> u64 {
        self.counters.groups.load(Ordering::Relaxed)
    }

    /// Whether one of the last two groups served several threads.
    #[inline]
    pub(in crate::log) fn is_shared(&self) -> bool {
        self.is_shared.load(Ordering::Relaxed)
    }

    /// How long the device takes for a direct write; zero before the first.
    #[inline]
    pub(in crate::log) fn device_time(&self) -> Duration {
        Duration::from_nanos(self.device_ns.load(Ordering::Relaxed))
    }

    /// Adds the counters.
    pub(in crate::log) fn add_stats(&self, stats: &mut LogStats) {
        self.counters.add_to(stats);
    }

    /// Sleeps until `lsn` is durable (false) or this thread has to lead a group (true).
    ///
    /// # Errors
    /// `Poisoned` after a failure.
    pub(in crate::log) fn wait_or_lead(&self, lsn: Lsn) -> Result<bool> {
        if self.durable() >= lsn {
            return Ok(false);
        }
        let mut state = self.state.lock();
        let mut waits = false;
        loop {
            if self.durable() >= lsn {
                return Ok(false);
            }
            self.failure.check_appended()?;
            let Role::Wait(write) = state.in_flight.role(lsn) else { return Ok(true) };
            if !mem::replace(&mut waits, true) {
                count(&self.counters.waits, 1);
            }
            let Some(awake) = self.sleep(state, write, || self.durable() >= lsn) else { return Ok(false) };
            state = awake;
        }
    }

    /// The write of a group of `payloads` payloads begins, of everything before `end`; its number. The calling thread
    /// leads the group and holds the latch of the output.
    pub(in crate::log) fn begin(&self, end: Lsn, payloads: u64, is_exclusive: bool) -> u64 {
        let number = self.state.lock().in_flight.begin(end, is_exclusive);
        if !is_exclusive {
            self.direct_writes.fetch_add(1, Ordering::Relaxed);
        }
        count(&self.counters.groups, 1);
        self.counters.group_appends.add(payloads);
        number
    }

    /// As [`Self::begin`], of a sync of what is written already, for no group. `None` when it would have to wait.
    pub(in crate::log) fn try_begin_sync(&self) -> Option<u64> {
        let mut state = self.state.lock();
        let is_free = !state.in_flight.is_full() && !self.failure.is_set();
        is_free.then(|| state.in_flight.begin_extra(self.durable(), true))
    }

    /// Publishes what a write that ended well made durable, and wakes the threads that it concerns. `time` is how long
    /// the device took, if it was a direct write.
    ///
    /// # Errors
    /// `Poisoned` after a failure.
    pub(in crate::log) fn complete(&self, number: u64, time: Option<Duration>) -> Result<()> {
        let mut state = self.state.lock();
        self.failure.check_appended()?;
        if let Some(time) = time {
            let device = state.in_flight.timed(time);
            self.device_ns.store(nanoseconds(device), Ordering::Relaxed);
        }
        if !state.in_flight.is_exclusive(number) {
            self.direct_writes.fetch_sub(1, Ordering::Release);
        }
        let (completed, durable) = state.in_flight.complete(number);
        if let Some(durable) = durable {
            self.durable.fetch_max(durable.0, Ordering::Release);
        }
        // The next leader first: the device waits for it.
        let next = state.in_flight.next();
        let mut woken: Vec<_> = state.waiters.take_first(next).into_iter().collect();
        let leaders = woken.len();
        completed.for_each(|write| woken.append(&mut state.waiters.take(write)));
        let shared = woken.len() > leaders;
        let was_shared = mem::replace(&mut state.was_shared, shared);
        self.is_shared.store(shared || was_shared, Ordering::Relaxed);
        drop(state);
        woken.iter().for_each(Thread::unpark);
        Ok(())
    }

    /// Waits until no write is in flight. The caller holds the latch of the output, so none begins.
    ///
    /// # Errors
    /// `Poisoned` after a failure.
    pub(in crate::log) fn wait_for_all(&self) -> Result<()> {
        self.wait_while(InFlight::newest)
    }

    /// As [`Self::wait_for_all`], until no write past the page cache is in flight.
    ///
    /// # Errors
    /// As [`Self::wait_for_all`].
    #[inline]
    pub(in crate::log) fn wait_for_direct(&self) -> Result<()> {
        if self.direct_writes.load(Ordering::Acquire) == 0 {
            return self.failure.check_appended();
        }
        self.wait_while(InFlight::newest_direct)
    }

    /// Wakes all threads, after a failure.
    pub(in crate::log) fn wake_all(&self) {
        self.state.lock().waiters.take_all().iter().for_each(Thread::unpark);
    }

    /// Waits until no write is left of those whose last one `newest` names.
    fn wait_while(&self, newest: impl Fn(&InFlight) -> Option<u64>) -> Result<()> {
        let mut state = self.state.lock();
        loop {
            self.failure.check_appended()?;
            let Some(write) = newest(&state.in_flight) else { return Ok(()) };
            state = self.sleep(state, write, || false).expect("it is never done early");
        }
    }

    /// Sleeps until the threads that wait for the write of this number are woken. A thread that is `done` then does not
    /// take the latch again.
    fn sleep<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        write: u64,
        done: impl Fn() -> bool,
    ) -> Option<MutexGuard<'a, State>> {
        state.waiters.enter(write);
        drop(state);
        park();
        if done() {
            return None;
        }
        let mut state = self.state.lock();
        state.waiters.leave(write);
        Some(state)
    }
}

/// Where threads sleep until a write completes: a list of them for each write that can be in flight, and one for the
/// write after those.
///
/// Threads are parked and do not wait on a condition variable: a woken thread needs no latch to learn that its position
/// is durable, and the thread that wakes them chooses the order. A thread that wakes up for no reason finds out by
/// looking, and enters again.
#[derive(Debug, Default)]
struct Waiters([Vec<Thread>; IN_FLIGHT_MAX + 1]);

impl Waiters {
    /// This thread is going to sleep until the write of this number completes.
    fn enter(&mut self, write: u64) {
        self.list(write).push(thread::current());
    }

    /// This thread is awake, whether it was woken or not.
    fn leave(&mut self, write: u64) {
        let this = thread::current().id();
        self.list(write).retain(|thread| thread.id() != this);
    }

    /// Takes the thread that has waited longest for the write of this number.
    fn take_first(&mut self, write: u64) -> Option<Thread> {
        let list = self.list(write);
        (!list.is_empty()).then(|| list.remove(0))
    }

    /// Takes all that wait for the write of this number.
    fn take(&mut self, write: u64) -> Vec<Thread> {
        mem::take(self.list(write))
    }

    /// Takes all threads.
    fn take_all(&mut self) -> Vec<Thread> {
        self.0.iter_mut().flat_map(mem::take).collect()
    }

    fn list(&mut self, write: u64) -> &mut Vec<Thread> {
        &mut self.0[usize_of(write % u64_of(IN_FLIGHT_MAX + 1))]
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::thread::{scope, yield_now};

    #[test]
    fn a_queue_is_shared_while_one_of_the_last_two_groups_served_others() {
        let queue = SyncQueue::new(Lsn(0), Arc::default());
        for (number, (others, is_exclusive, is_shared)) in (0..).zip([
            (0, false, false),
            (2, false, true),
            (0, true, true),
            (0, false, false),
            (1, true, true),
            (1, false, true),
            (0, false, true),
            (0, false, false),
        ]) {
            let end = Lsn(10 * number + 10);
            assert!(queue.wait_or_lead(end).unwrap());
            let write = queue.begin(end, 1, is_exclusive);
            assert_eq!(queue.direct_writes.load(Ordering::Relaxed), usize::from(!is_exclusive));
            let waited = queue.counters.waits.load(Ordering::Relaxed);
            scope(|scope| {
                (0..others).for_each(|_| drop(scope.spawn(|| assert!(!queue.wait_or_lead(end).unwrap()))));
                while queue.counters.waits.load(Ordering::Relaxed) < waited + others {
                    yield_now();
                }
                // They are in the list of the write when they have given up the latch.
                queue.complete(write, None).unwrap();
            });
            assert_eq!((queue.is_shared(), queue.durable()), (is_shared, end), "{number}");
            assert_eq!(queue.direct_writes.load(Ordering::Relaxed), 0);
            queue.wait_for_all().unwrap();
            queue.wait_for_direct().unwrap();
        }
    }
}
