//! Which rows are there: those from the oldest that was not deleted to the newest that was inserted.

use std::sync::atomic::{AtomicU64, Ordering};

/// The bounds of the live rows, as far as commits were acknowledged.
///
/// # Concurrency
/// Batches are taken by one client each and may be acknowledged out of order; the bounds count what is acknowledged, so
/// a row close to a bound may not be there (yet, or any more). With one client of each kind the bounds are exact. The
/// numbers publish nothing but themselves.
#[derive(Debug, Default)]
pub(super) struct Live {
    inserted: AtomicU64,
    deleted: AtomicU64,
}

impl Live {
    pub(super) fn inserted(&self) -> u64 {
        self.inserted.load(Ordering::Relaxed)
    }

    pub(super) fn deleted(&self) -> u64 {
        self.deleted.load(Ordering::Relaxed)
    }

    /// The number of live rows.
    pub(super) fn rows(&self) -> u64 {
        self.inserted().saturating_sub(self.deleted())
    }

    pub(super) fn add_inserted(&self, rows: u64) {
        self.inserted.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn add_deleted(&self, rows: u64) {
        self.deleted.fetch_add(rows, Ordering::Relaxed);
    }
}
