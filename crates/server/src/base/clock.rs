//! Time.

use std::time::Instant;

use spinney_document::base::{Environment, System};

/// Milliseconds since 1970, UTC, by the machine's clock.
#[must_use]
pub fn now_ms() -> i64 {
    System.now_ms()
}

/// A moment to measure times from; never goes back.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "a server measures the times of its clients, which no seed replays")]
pub fn monotonic() -> Instant {
    Instant::now()
}
