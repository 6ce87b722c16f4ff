//! The write stall: writers wait in line while memtables have all of their memory, until a flush gives memory back, and
//! are refused where the disk has no room for the flush.
//!
//! # Concurrency
//! A writer that finds memory full lines up. A flush that has given memory back admits writers from the front, as many
//! as memory has room for by the bytes that they write, and wakes these and no others. So the line is empty as soon as
//! there is room for all in it, and writers that come later do not line up; while there is not, they wait behind it.
//!
//! # Invariants
//! 1. While a writer stands in line, memory is full and a flush is to come, or a writer that was admitted is not done:
//!    both admit from the front at their end. A writer looks at memory under the latch before it parks, and the latch
//!    is taken after memory was given back, so no wake-up is lost.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::SmallVec;

use crate::base::sync::thread::{self, Thread};
use crate::base::sync::{AtomicUsize, Mutex};
use crate::base::{Error, ErrorKind, Result};
use crate::db::state::health::Waiting;

use super::budget::WriteBudget;

/// How often a full disk is tried again.
pub(crate) const LOOK_FOR_SPACE: Duration = Duration::from_secs(1);

/// What writers wait for.
#[derive(Debug, Default)]
pub(crate) struct StallQueue {
    state: Mutex<State>,
    /// Writers in line. Written under the latch; a hint to threads that do not take it.
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    /// The number of the next writer in line.
    next: u64,
    /// The writers that wait, by the order in which they came.
    line: VecDeque<Waiter>,
    /// Bytes of the writers that were admitted and are not done.
    admitted_bytes: u64,
    full: Option<FullDisk>,
}

/// A writer in line.
#[derive(Debug)]
struct Waiter {
    number: u64,
    bytes: u64,
    thread: Thread,
}

/// Threads to wake when the latch is released.
type Admitted = SmallVec<[Thread; 16]>;

/// The disk had no room for a flush.
#[derive(Debug)]
struct FullDisk {
    /// When the background tries again.
    retry_at: Duration,
    /// What to say to writers, unless other flushes make room.
    refusal: Option<String>,
}

/// A writer that waited was admitted; dropped when its bytes are counted in memory, or never will be.
#[derive(Debug)]
pub(crate) struct Admission<'a> {
    queue: &'a StallQueue,
    budget: &'a WriteBudget,
    bytes: u64,
}

impl StallQueue {
    /// A flush has given memory back, and met no full disk.
    pub(crate) fn flushed(&self, budget: &WriteBudget) {
        self.state.lock().full = None;
        self.admit(budget);
    }

    /// Admits the writers that memory has room for.
    pub(crate) fn admit(&self, budget: &WriteBudget) {
        let mut state = self.state.lock();
        let admitted = state.admit(budget);
        self.waiting.store(state.line.len(), Ordering::Relaxed);
        drop(state);
        admitted.iter().for_each(Thread::unpark);
    }

    /// How long from `now` on the background leaves a full disk alone.
    pub(crate) fn rest(&self, now: Duration) -> Option<Duration> {
        let state = self.state.lock();
        let rest = state.full.as_ref()?.retry_at.saturating_sub(now);
        (!rest.is_zero()).then_some(rest)
    }

    /// The disk was full at `now`. Writers that need room are refused from then on, if there is something to tell them.
    pub(crate) fn refuse(&self, now: Duration, refusal: Option<String>) {
        self.state.lock().full = Some(FullDisk { retry_at: now + LOOK_FOR_SPACE, refusal });
        self.wake_all();
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.state.lock().check()
    }

    /// Whether a writer must line up: memory is full, or others wait.
    pub(crate) fn is_closed(&self, budget: &WriteBudget) -> bool {
        budget.is_full() || self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Waits until a writer of so many bytes is admitted, for as long as `goes_on` has no objection.
    pub(crate) fn wait<'a>(
        &'a self,
        bytes: u64,
        budget: &'a WriteBudget,
        goes_on: impl Fn() -> Result<()>,
    ) -> Result<Admission<'a>> {
        let mut state = self.state.lock();
        let number = state.line_up(bytes);
        self.waiting.store(state.line.len(), Ordering::Relaxed);
        drop(state);
        // There may be room by now.
        self.admit(budget);
        loop {
            let mut state = self.state.lock();
            let Some(at) = state.place_of(number) else { return Ok(Admission { queue: self, budget, bytes }) };
            if let Err(error) = goes_on().and_then(|()| state.check()) {
                state.line.remove(at);
                self.waiting.store(state.line.len(), Ordering::Relaxed);
                return Err(error);
            }
            drop(state);
            thread::park();
        }
    }
}

impl Waiting for StallQueue {
    fn wake_all(&self) {
        self.state.lock().line.iter().for_each(|waiter| waiter.thread.unpark());
    }
}

impl State {
    fn line_up(&mut self, bytes: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.line.push_back(Waiter { number, bytes, thread: thread::current() });
        number
    }

    /// Where in the line a writer is; `None` when it was admitted.
    fn place_of(&self, number: u64) -> Option<usize> {
        self.line.binary_search_by_key(&number, |waiter| waiter.number).ok()
    }

    /// Takes those from the front of the line that memory has room for.
    fn admit(&mut self, budget: &WriteBudget) -> Admitted {
        let mut admitted = Admitted::new();
        while !budget.is_full_with(self.admitted_bytes)
            && let Some(waiter) = self.line.pop_front()
        {
            self.admitted_bytes += waiter.bytes;
            admitted.push(waiter.thread);
        }
        admitted
    }

    fn check(&self) -> Result<()> {
        match self.full.as_ref().and_then(|full| full.refusal.as_ref()) {
            Some(refusal) => Err(Error::new(ErrorKind::Full, refusal)),
            None => Ok(()),
        }
    }
}

impl Drop for Admission<'_> {
    fn drop(&mut self) {
        self.queue.state.lock().admitted_bytes -= self.bytes;
        self.queue.admit(self.budget);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// A memory of 16 MiB with so many bytes in sealed memtables, of the ten that may be there before writers wait.
    fn budget(mib: u64) -> WriteBudget {
        let budget = WriteBudget::new(16 << 20, Arc::default());
        budget.set_immutable(mib << 20);
        budget
    }

    fn numbers(queue: &StallQueue) -> Vec<u64> {
        queue.state.lock().line.iter().map(|waiter| waiter.number).collect()
    }

    #[test]
    fn writers_are_admitted_in_the_order_in_which_they_came_and_by_their_bytes() {
        let (queue, budget) = (StallQueue::default(), budget(11));
        (0..5).for_each(|_| _ = queue.state.lock().line_up(2 << 20));
        queue.admit(&budget);
        assert_eq!(numbers(&queue), [0, 1, 2, 3, 4], "memory is full");
        budget.set_immutable(5 << 20);
        queue.flushed(&budget);
        // The third begins below the limit.
        assert_eq!(numbers(&queue), [3, 4]);
        assert!(queue.is_closed(&budget), "later writers wait behind those in line");
        let admission = Admission { queue: &queue, budget: &budget, bytes: 2 << 20 };
        drop(admission);
        assert_eq!(numbers(&queue), [4], "one of them is done, and wrote nothing");
        budget.set_immutable(0);
        queue.flushed(&budget);
        assert!(numbers(&queue).is_empty() && !queue.is_closed(&budget));
    }

    /// Every commit lined up while another was in line, although there was room: with more writers than processors the
    /// line was never empty again.
    #[test]
    fn the_line_is_empty_when_there_is_room_for_all_in_it() {
        let (queue, budget) = (StallQueue::default(), budget(11));
        (0..64).for_each(|_| _ = queue.state.lock().line_up(400));
        budget.set_immutable(8 << 20);
        queue.flushed(&budget);
        assert!(numbers(&queue).is_empty() && !queue.is_closed(&budget));
    }

    #[test]
    fn a_writer_that_leaves_holds_up_nobody() {
        let (queue, budget) = (StallQueue::default(), budget(11));
        let error = queue.wait(1, &budget, || Err(Error::new(ErrorKind::Closed, "closed"))).unwrap_err();
        assert_eq!((error.kind(), numbers(&queue)), (ErrorKind::Closed, vec![]));
        let budget = self::budget(1);
        drop(queue.wait(1, &budget, || unreachable!("there is room")).unwrap());
        assert_eq!(queue.state.lock().admitted_bytes, 0);
    }

    #[test]
    fn writers_are_refused_from_a_round_of_flushes_without_room_to_the_next_flush() {
        let (queue, budget, now) = (StallQueue::default(), budget(0), Duration::from_secs(5));
        assert!(queue.check().is_ok() && queue.rest(now).is_none());
        queue.refuse(now, None);
        assert!(queue.check().is_ok(), "another flush made room");
        queue.refuse(now, Some("no room".to_owned()));
        assert_eq!(queue.check().unwrap_err().kind(), ErrorKind::Full);
        assert_eq!(queue.rest(now), Some(LOOK_FOR_SPACE));
        assert!(queue.rest(now + LOOK_FOR_SPACE).is_none() && queue.check().is_err());
        queue.flushed(&budget);
        assert!(queue.check().is_ok() && queue.rest(now).is_none());
    }
}
