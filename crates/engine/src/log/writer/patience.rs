//! How long a thread that leads a group gives way to others before it writes.
//!
//! Giving way is free where the other threads have nothing to do but commit: they join the group. Where threads that
//! compute want the processors too, each time costs a time slice of theirs: milliseconds, and many times what a sync
//! takes. So a thread gives way as long as that takes no longer than the syncs that it spares, one for each payload
//! that came meanwhile, and one more. When it took longer, no thread gives way for [`PAUSE`] times as long, so that
//! little time is lost to finding out that there are such threads.

use crate::base::num::nanoseconds;
use crate::base::sync::AtomicU64;
use crate::base::sync::thread::yield_now;
use crate::env::Clock;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long no thread gives way after it took too long, as a multiple of that.
const PAUSE: u32 = 64;
/// What a sync is taken to cost at least: with the threads that it puts to sleep and wakes.
const SYNC_MIN: Duration = Duration::from_micros(100);

/// When the next thread may give way.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// In nanoseconds of the clock. Publishes nothing.
    from_ns: AtomicU64,
}

impl Patience {
    /// Gives way to other threads, `most` times at most, until as many payloads wait as are wanted: `group` tells both
    /// numbers. `sync` is how long a sync takes.
    pub(super) fn give_way(&self, clock: &dyn Clock, most: u32, sync: Duration, group: impl Fn() -> (u64, u64)) {
        let (mut waiting, wanted) = group();
        if waiting >= wanted {
            return;
        }
        let mut now = clock.now();
        if nanoseconds(now) < self.from_ns.load(Ordering::Relaxed) {
            return;
        }
        for _ in 0..most {
            yield_now();
            let took = clock.now().saturating_sub(now);
            let (more, wanted) = group();
            let gained = u32::try_from(more.saturating_sub(waiting)).unwrap_or(u32::MAX);
            now += took;
            if took > sync.max(SYNC_MIN) * gained.saturating_add(1) {
                self.from_ns.store(nanoseconds(now + took * PAUSE), Ordering::Relaxed);
                return;
            }
            if more >= wanted {
                return;
            }
            waiting = more;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that each look moves: giving way takes so long.
    #[derive(Debug)]
    struct Slow {
        now_us: AtomicU64,
        step_us: AtomicU64,
    }

    impl Clock for Slow {
        fn now(&self) -> Duration {
            let step = self.step_us.load(Ordering::Relaxed);
            Duration::from_micros(self.now_us.fetch_add(step, Ordering::Relaxed))
        }

        fn wall(&self) -> Duration {
            self.now()
        }
    }

    /// How often a thread gives way when that takes `step_us`, and each time `gain` payloads come of which 100 are
    /// wanted.
    fn times(patience: &Patience, clock: &Slow, step_us: u64, gain: u64) -> u64 {
        clock.step_us.store(step_us, Ordering::Relaxed);
        let (looks, waiting) = (Cell::new(0), Cell::new(1));
        patience.give_way(clock, 8, Duration::from_micros(200), || {
            looks.set(looks.get() + 1);
            (waiting.replace(waiting.get() + gain), 100)
        });
        looks.get() - 1
    }

    #[test]
    fn a_thread_gives_way_while_that_is_worth_the_syncs_that_it_spares() {
        let (patience, clock) = (Patience::default(), Slow { now_us: AtomicU64::new(0), step_us: AtomicU64::new(0) });
        assert_eq!(times(&patience, &clock, 1, 0), 8, "nobody wants the processor");
        assert_eq!(times(&patience, &clock, 300, 1), 8, "each time a sync is spared");
        assert_eq!(times(&patience, &clock, 900, 50), 2, "all that are wanted have come");
        // A thread that computes has had the processor.
        assert_eq!(times(&patience, &clock, 4000, 1), 1);
        let before = clock.now();
        let mut tries = 0;
        while times(&patience, &clock, 100, 0) == 0 {
            tries += 1;
        }
        let paused = clock.now().saturating_sub(before);
        assert!((200..300).contains(&paused.as_millis()) && tries > 1000, "{tries} in {paused:?}");
        assert_eq!(times(&patience, &clock, 1, 0), 8);
    }
}
