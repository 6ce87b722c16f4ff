//! What the clients of a step count besides calls.

use std::sync::atomic::{AtomicU64, Ordering};

/// Sums of `N` kinds, for each client its own.
///
/// A client stores its own running sums, which begin at zero with each of its works: what a work counted that ran only to measure
/// the lab itself is overwritten by the work of the same client that runs in the step.
#[derive(Debug)]
pub(super) struct Tally<const N: usize>(Vec<[AtomicU64; N]>);

impl<const N: usize> Tally<N> {
    /// Sums of so many clients, all zero.
    pub(super) fn new(clients: usize) -> Self {
        Self((0..clients).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
    }

    /// The sums of a client so far.
    pub(super) fn store(&self, client: usize, sums: [u64; N]) {
        for (own, sum) in self.0[client].iter().zip(sums) {
            // Read when the client's thread has ended.
            own.store(sum, Ordering::Relaxed);
        }
    }

    /// The sums of all clients.
    pub(super) fn sums(&self) -> [u64; N] {
        std::array::from_fn(|at| self.0.iter().map(|client| client[at].load(Ordering::Relaxed)).sum())
    }
}
