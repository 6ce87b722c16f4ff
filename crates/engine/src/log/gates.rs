//! Where threads sleep until a force lands, and which of them are woken then.
//!
//! Threads are parked and not put to sleep on a condition: a woken thread needs no latch to learn that it is done, and
//! the thread that wakes them chooses the order. A thread that wakes up for no reason finds out by looking, and enters
//! again.
//!
//! # Invariants
//! 1. Guarded by the latch of the log's state, under which positions become durable: a thread is at a gate until it is
//!    taken from there to be woken, or has left. So a thread that has left is never woken in place of one that waits.

use super::flights::FLIGHTS_MAX;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::thread::{self, Thread};
use std::mem;

/// A gate for each force that can be in flight, and one for those after them.
#[derive(Debug, Default)]
pub(super) struct Gates([Vec<Thread>; FLIGHTS_MAX + 1]);

impl Gates {
    /// This thread is going to sleep until the flight of this number lands.
    pub(super) fn enter(&mut self, flight: u64) {
        self.gate(flight).push(thread::current());
    }

    /// This thread is awake, whether it was woken or not.
    pub(super) fn leave(&mut self, flight: u64) {
        let this = thread::current().id();
        self.gate(flight).retain(|thread| thread.id() != this);
    }

    /// Takes the thread that has waited longest for the flight of this number.
    pub(super) fn first(&mut self, flight: u64) -> Option<Thread> {
        let gate = self.gate(flight);
        (!gate.is_empty()).then(|| gate.remove(0))
    }

    /// Takes all that wait for the flight of this number.
    pub(super) fn all(&mut self, flight: u64) -> Vec<Thread> {
        mem::take(self.gate(flight))
    }

    /// Takes all.
    pub(super) fn everyone(&mut self) -> Vec<Thread> {
        self.0.iter_mut().flat_map(mem::take).collect()
    }

    fn gate(&mut self, flight: u64) -> &mut Vec<Thread> {
        &mut self.0[usize_of(flight % u64_of(FLIGHTS_MAX + 1))]
    }
}
