//! Counters that many threads change all the time: each thread adds to a shard that few others share.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Shards of a counter: some more than threads that run at a time, as a rule.
const SHARDS: usize = 16;

/// `N` counters that belong together. They only grow; each is exact by itself, and together they are no consistent cut.
#[derive(Debug)]
pub struct Sharded<const N: usize>([Shard<N>; SHARDS]);

/// Aligned so that two shards share no cache line (nor a pair of lines that is fetched together).
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

thread_local! {
    /// The shard that this thread adds to; `usize::MAX` before its first time.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl<const N: usize> Sharded<N> {
    /// Adds to each counter; zeros cost nothing.
    #[inline]
    pub fn add(&self, counts: [u64; N]) {
        let Shard(counters) = self.mine();
        for (counter, count) in counters.iter().zip(counts) {
            if count > 0 {
                // Relaxed: publishes nothing but itself.
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Adds to one of the counters, and gives what its shard had before: for whoever looks up now and then.
    #[inline]
    pub fn add_to(&self, counter: usize, count: u64) -> u64 {
        // Relaxed: publishes nothing but itself.
        self.mine().0[counter].fetch_add(count, Ordering::Relaxed)
    }

    #[inline]
    fn mine(&self) -> &Shard<N> {
        let mine = MINE.get();
        &self.0[if mine < SHARDS { mine } else { choose() }]
    }

    /// The counters now.
    #[must_use]
    pub fn sums(&self) -> [u64; N] {
        let mut sums = [0; N];
        for Shard(counters) in &self.0 {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

impl<const N: usize> Default for Sharded<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Shard(std::array::from_fn(|_| AtomicU64::new(0)))))
    }
}

/// Gives this thread its shard.
#[cold]
fn choose() -> usize {
    /// Threads that have one. Publishes nothing.
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    let mine = THREADS.fetch_add(1, Ordering::Relaxed) % SHARDS;
    MINE.set(mine);
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let counters = Sharded::<2>::default();
        std::thread::scope(|scope| {
            for thread in 0..40 {
                let counters = &counters;
                scope.spawn(move || (0..100).for_each(|_| counters.add([1, thread])));
            }
        });
        assert_eq!(counters.sums(), [4000, 100 * (0..40).sum::<u64>()]);
    }
}
