//! Counters that many threads change all the time: each thread adds to a shard of its own, without a locked
//! instruction, as long as there are any.
//!
//! # Invariants
//! 1. A shard below `OWN` is changed by at most one living thread, which owns it from its first addition to its end, in
//!    all counters of the process.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::num::usize_of32;

/// Shards that threads own: as many as run at a time, as a rule.
const OWN: usize = 16;
/// All shards: those behind are shared by the threads that own none.
const SHARDS: usize = OWN + 8;

/// `N` counters that belong together. They only grow; each is exact by itself, and together they are no consistent cut.
/// Their memory is taken when the first is added to.
#[derive(Debug, Default)]
pub struct ThreadCounters<const N: usize>(OnceLock<Box<[Shard<N>; SHARDS]>>);

/// Aligned so that two shards share no cache line (nor a pair of lines that is fetched together).
#[derive(Debug)]
#[repr(align(128))]
struct Shard<const N: usize>([AtomicU64; N]);

/// The shards that threads own.
static OWNERS: Owners = Owners { owned: AtomicU64::new(0), others: AtomicUsize::new(0) };

struct Owners {
    /// The shards that are owned, a bit each.
    owned: AtomicU64,
    /// Threads that found none. Publishes nothing.
    others: AtomicUsize,
}

impl Owners {
    /// A shard that no thread owns.
    fn take(&self) -> Option<usize> {
        let mut owned = self.owned.load(Ordering::Relaxed);
        loop {
            let free = owned.trailing_ones();
            if usize_of32(free) >= OWN {
                return None;
            }
            // Acquire: what the owner before has counted.
            match self.owned.compare_exchange_weak(owned, owned | 1 << free, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(usize_of32(free)),
                Err(now) => owned = now,
            }
        }
    }

    fn give_back(&self, shard: usize) {
        // Release: the next owner goes on from what this one has counted.
        self.owned.fetch_and(!(1 << shard), Ordering::Release);
    }

    /// One of those that are shared.
    fn share(&self) -> usize {
        OWN + self.others.fetch_add(1, Ordering::Relaxed) % (SHARDS - OWN)
    }
}

/// This thread's shard, as long as the thread has not come to its end.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        // What ends after this may still count.
        let mine = MINE.replace(OWNERS.share());
        if mine < OWN {
            OWNERS.give_back(mine);
        }
    }
}

thread_local! {
    /// The shard that this thread adds to; [`SHARDS`] before its first time.
    static MINE: Cell<usize> = const { Cell::new(SHARDS) };
    /// Gives it back at the thread's end.
    static LEASE: Lease = const { Lease };
}

impl<const N: usize> ThreadCounters<N> {
    /// Adds to each counter; zeros cost nothing.
    #[inline]
    pub fn add(&self, counts: [u64; N]) {
        self.add_from(0, counts);
    }

    /// As [`Self::add`], to some of the counters, from `first` on.
    #[inline]
    pub fn add_from<const M: usize>(&self, first: usize, counts: [u64; M]) {
        let mine = mine();
        for (counter, count) in self.shards()[mine].0[first..first + M].iter().zip(counts) {
            if count > 0 {
                add(mine, counter, count);
            }
        }
    }

    /// Adds to one of the counters, and gives what its shard had before: for a caller that acts after a certain amount
    /// was added.
    #[inline]
    pub fn add_to(&self, counter: usize, count: u64) -> u64 {
        let mine = mine();
        add(mine, &self.shards()[mine].0[counter], count)
    }

    #[inline]
    fn shards(&self) -> &[Shard<N>; SHARDS] {
        self.0.get_or_init(|| Box::new(std::array::from_fn(|_| Shard(std::array::from_fn(|_| AtomicU64::new(0))))))
    }

    /// The counters now.
    #[must_use]
    pub fn sums(&self) -> [u64; N] {
        let mut sums = [0; N];
        for Shard(counters) in self.0.get().into_iter().flat_map(|shards| &**shards) {
            for (sum, counter) in sums.iter_mut().zip(counters) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

/// Adds to a counter of shard `mine`, and gives what it was before.
#[inline]
fn add(mine: usize, counter: &AtomicU64, count: u64) -> u64 {
    // Relaxed: publishes nothing but itself.
    if mine >= OWN {
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
    // Nothing would give it back at the thread's end.
    let may_own = LEASE.try_with(|_| ()).is_ok();
    let mine = if may_own { OWNERS.take() } else { None }.unwrap_or_else(|| OWNERS.share());
    MINE.set(mine);
    mine
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_threads() {
        let counters = ThreadCounters::<2>::default();
        std::thread::scope(|scope| {
            for thread in 0..40 {
                let counters = &counters;
                scope.spawn(move || (0..100).for_each(|_| counters.add([1, thread])));
            }
        });
        assert_eq!(counters.sums(), [4000, 100 * (0..40).sum::<u64>()]);
    }

    /// More threads than shards at once: a thread that finds no shard of its own shares one. Threads of other tests own
    /// some meanwhile.
    #[test]
    fn no_two_threads_own_one_shard() {
        let (counters, here) = (ThreadCounters::<1>::default(), std::sync::Barrier::new(2 * SHARDS));
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
        shards.retain(|shard| *shard < OWN);
        shards.sort_unstable();
        assert!(shards.is_sorted_by(|a, b| a < b), "{shards:?}");
        assert_eq!(counters.sums(), [2 * SHARDS as u64]);
    }

    #[test]
    fn a_shard_has_one_owner_until_it_is_given_back() {
        let owners = Owners { owned: AtomicU64::new(0), others: AtomicUsize::new(0) };
        assert!((0..OWN).all(|shard| owners.take() == Some(shard)));
        assert_eq!(owners.take(), None);
        owners.give_back(3);
        assert_eq!((owners.take(), owners.take()), (Some(3), None));
        let shared: Vec<_> = (OWN..=SHARDS).map(|_| owners.share()).collect();
        assert!(shared.iter().all(|shard| (OWN..SHARDS).contains(shard)), "{shared:?}");
    }

    /// Of the destructors that run at the end of a thread, one comes before that of the lease and one behind it.
    #[test]
    fn what_a_thread_counts_at_its_end_goes_to_a_shared_shard() {
        struct Late(std::sync::mpsc::Sender<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                self.0.send(mine()).expect("the test waits");
            }
        }
        thread_local! {
            static BEFORE: Cell<Option<Late>> = const { Cell::new(None) };
            static BEHIND: Cell<Option<Late>> = const { Cell::new(None) };
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                BEFORE.set(Some(Late(sender.clone())));
                mine();
                BEHIND.set(Some(Late(sender)));
            });
        });
        let shards: Vec<_> = receiver.iter().collect();
        assert!(shards.len() == 2 && shards.iter().any(|shard| *shard >= OWN), "{shards:?}");
    }
}
