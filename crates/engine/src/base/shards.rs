//! Counters that many threads change all the time: each thread adds to a shard of its own, without a locked instruction, as long as there are any.
//!
//! # Invariants
//! 1. A shard below [`SHARED`] is changed by at most one living thread, which owns it from its first addition to its end, in all counters of the
//!    process.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use super::num::usize_of32;

/// Shards of a counter: some more than threads that run at a time, as a rule.
const SHARDS: usize = 16;
/// The shard of all threads that own none.
const SHARED: usize = SHARDS - 1;

/// `N` counters that belong together. They only grow; each is exact by itself, and together they are no consistent cut.
#[derive(Debug)]
pub struct Sharded<const N: usize>([Shard<N>; SHARDS]);

/// Aligned so that two shards share no cache line (nor a pair of lines that is fetched together).
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// The shards that are owned, a bit each.
static OWNED: AtomicU64 = AtomicU64::new(0);

/// This thread's, as long as it has not come to its end.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        // What ends after this may still count.
        let mine = MINE.replace(SHARED);
        if mine < SHARED {
            // Release: the next owner goes on from what this one has counted.
            OWNED.fetch_and(!(1 << mine), Ordering::Release);
        }
    }
}

thread_local! {
    /// The shard that this thread adds to; [`SHARDS`] before its first time.
    static MINE: Cell<usize> = const { Cell::new(SHARDS) };
    static LEASE: Lease = const { Lease };
}

impl<const N: usize> Sharded<N> {
    /// Adds to each counter; zeros cost nothing.
    #[inline]
    pub fn add(&self, counts: [u64; N]) {
        let mine = mine();
        for (counter, count) in self.0[mine].0.iter().zip(counts) {
            if count > 0 {
                add(mine, counter, count);
            }
        }
    }

    /// Adds to one of the counters, and gives what its shard had before: for whoever looks up now and then.
    #[inline]
    pub fn add_to(&self, counter: usize, count: u64) -> u64 {
        let mine = mine();
        add(mine, &self.0[mine].0[counter], count)
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

/// Adds to a counter of shard `mine`, and gives what it was before.
#[inline]
fn add(mine: usize, counter: &AtomicU64, count: u64) -> u64 {
    // Relaxed: publishes nothing but itself.
    if mine == SHARED {
        return counter.fetch_add(count, Ordering::Relaxed);
    }
    let before = counter.load(Ordering::Relaxed);
    counter.store(before + count, Ordering::Relaxed);
    before
}

/// The shard of this thread.
#[inline]
fn mine() -> usize {
    let mine = MINE.get();
    if mine < SHARDS { mine } else { choose() }
}

/// Gives this thread a shard of its own, if one is left.
#[cold]
fn choose() -> usize {
    let mut owned = OWNED.load(Ordering::Relaxed);
    let mine = loop {
        let free = owned.trailing_ones();
        // At the thread's end nobody would give it back.
        if usize_of32(free) >= SHARED || LEASE.try_with(|_| ()).is_err() {
            break SHARED;
        }
        // Acquire: what the owner before has counted.
        match OWNED.compare_exchange_weak(owned, owned | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => break usize_of32(free),
            Err(now) => owned = now,
        }
    };
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

    /// More threads than shards at once: who finds no shard of its own shares one.
    #[test]
    fn no_two_threads_own_one_shard() {
        let (counters, here) = (Sharded::<1>::default(), std::sync::Barrier::new(2 * SHARDS));
        let count = || {
            counters.add([1]);
            // None ends before all have chosen.
            here.wait();
            mine()
        };
        let mut shards: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..2 * SHARDS).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().expect("it counts")).collect()
        });
        shards.retain(|shard| *shard != SHARED);
        shards.sort_unstable();
        assert!(shards.is_sorted_by(|a, b| a < b), "{shards:?}");
        assert_eq!(counters.sums(), [2 * SHARDS as u64]);
    }

    #[test]
    fn a_thread_that_ends_gives_its_shard_back() {
        let owns = |_: &u32| std::thread::scope(|scope| scope.spawn(mine).join().expect("it chooses") != SHARED);
        // Other tests own some, but not all the time.
        assert!((0..10_000).filter(owns).nth(2 * SHARDS).is_some());
    }
}
