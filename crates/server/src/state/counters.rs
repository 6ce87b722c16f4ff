//! Counters of the network. They never reset.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows. Nothing is published by it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of a server; those of bytes and requests are the library's, which shows them.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections that were closed because they broke the protocol.
    pub protocol_errors: Counter,
    /// Messages that came compressed.
    pub compressed_in: Counter,
    /// Messages that were sent compressed.
    pub compressed_out: Counter,
    /// Authentications that succeeded.
    pub authenticated: Counter,
    /// Authentications that failed.
    pub refused: Counter,
    /// Commands that a client was not allowed to run.
    pub unauthorized: Counter,
}
