//! Where threads sleep until a write completes, and which of them are woken then.
//!
//! Threads are parked and do not wait on a condition variable: a woken thread needs no latch to learn that its position
//! is durable, and the thread that wakes them chooses the order. A thread that wakes up for no reason finds out by
//! looking, and enters again.
//!
//! # Invariants
//! 1. Guarded by the latch of the sync queue, under which positions become durable: a thread is in a list until it is
//!    taken from there to be woken, or has left. So a thread that has left is never woken in place of one that waits.

use super::in_flight::IN_FLIGHT_MAX;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::thread::{self, Thread};
use std::mem;

/// A list of threads for each write that can be in flight, and one for the write after those.
#[derive(Debug, Default)]
pub(super) struct Waiters([Vec<Thread>; IN_FLIGHT_MAX + 1]);

impl Waiters {
    /// This thread is going to sleep until the write of this number completes.
    pub(super) fn enter(&mut self, write: u64) {
        self.list(write).push(thread::current());
    }

    /// This thread is awake, whether it was woken or not.
    pub(super) fn leave(&mut self, write: u64) {
        let this = thread::current().id();
        self.list(write).retain(|thread| thread.id() != this);
    }

    /// Takes the thread that has waited longest for the write of this number.
    pub(super) fn take_first(&mut self, write: u64) -> Option<Thread> {
        let list = self.list(write);
        (!list.is_empty()).then(|| list.remove(0))
    }

    /// Takes all that wait for the write of this number.
    pub(super) fn take(&mut self, write: u64) -> Vec<Thread> {
        mem::take(self.list(write))
    }

    /// Takes all threads.
    pub(super) fn take_all(&mut self) -> Vec<Thread> {
        self.0.iter_mut().flat_map(mem::take).collect()
    }

    fn list(&mut self, write: u64) -> &mut Vec<Thread> {
        &mut self.0[usize_of(write % u64_of(IN_FLIGHT_MAX + 1))]
    }
}
