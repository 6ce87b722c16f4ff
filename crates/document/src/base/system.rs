//! Time, randomness and turns of threads, so that a test can replay a run.

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;
use std::time::{Duration, Instant, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

/// Where the time and random numbers come from, and how threads wait.
pub trait Environment: Debug + Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// Microseconds of a clock that never goes back, since some moment: by it durations are measured. Those of
    /// [`Self::now_ms`] unless there is a better one.
    fn monotonic_us(&self) -> u64 {
        u64::try_from(self.now_ms()).unwrap_or_default().saturating_mul(1000)
    }

    /// 64 random bits.
    fn random(&self) -> u64;

    /// Lets the thread rest for so long.
    fn rest(&self, time: Duration) {
        let (lock, never) = (Mutex::new(()), Condvar::new());
        never.wait_for(&mut lock.lock(), time);
    }

    /// Whether threads run beside each other. Where they take turns, one that waits for another rests.
    fn concurrent(&self) -> bool {
        true
    }
}

/// The operating system's clock and randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

impl Environment for System {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are given")]
    fn now_ms(&self) -> i64 {
        let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
        since.ok().and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock that others are given")]
    fn monotonic_us(&self) -> u64 {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        u64::try_from(FIRST.get_or_init(Instant::now).elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn random(&self) -> u64 {
        // The standard library seeds its hash maps from the system's randomness.
        RandomState::new().hash_one(self.now_ms())
    }
}
