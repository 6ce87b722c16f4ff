//! Time and randomness, so that a test can replay a run.

use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::time::UNIX_EPOCH;

/// Where the time and random numbers come from.
pub trait Environment: Debug + Send + Sync {
    /// Milliseconds since 1970, UTC.
    fn now_ms(&self) -> i64;

    /// 64 random bits.
    fn random(&self) -> u64;
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

    fn random(&self) -> u64 {
        // The standard library seeds its hash maps from the system's randomness.
        RandomState::new().hash_one(self.now_ms())
    }
}
