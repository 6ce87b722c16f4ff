//! What the clients of a step found, beside what is measured of every step.

use std::sync::atomic::{AtomicU64, Ordering};

/// A place for the numbers of each client. They are read when the clients have ended, and publish nothing but
/// themselves.
#[derive(Debug)]
pub(super) struct Tallies<const N: usize>(Vec<[AtomicU64; N]>);

/// The numbers of one client. They go to their place when the client is done, instead of what was there: the lab also
/// lets clients call nothing, to see what they cost, before they call an engine.
#[derive(Debug)]
pub(super) struct Tally<'a, const N: usize> {
    place: &'a [AtomicU64; N],
    numbers: [u64; N],
}

impl<const N: usize> Tallies<N> {
    pub(super) fn new(clients: usize) -> Self {
        Self((0..clients).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
    }

    pub(super) fn of(&self, client: usize) -> Tally<'_, N> {
        Tally { place: &self.0[client], numbers: [0; N] }
    }

    /// The sums over all clients.
    pub(super) fn totals(&self) -> [u64; N] {
        std::array::from_fn(|at| self.0.iter().map(|place| place[at].load(Ordering::Relaxed)).sum())
    }
}

impl<const N: usize> Tally<'_, N> {
    pub(super) fn add(&mut self, numbers: [u64; N]) {
        self.numbers.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
}

impl<const N: usize> Drop for Tally<'_, N> {
    fn drop(&mut self) {
        self.place.iter().zip(self.numbers).for_each(|(place, number)| place.store(number, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_again_replaces_its_numbers() {
        let tallies = Tallies::new(2);
        tallies.of(0).add([100, 100]);
        tallies.of(1).add([1, 2]);
        let mut again = tallies.of(0);
        again.add([10, 20]);
        again.add([10, 0]);
        drop(again);
        assert_eq!(tallies.totals(), [21, 22]);
    }
}
