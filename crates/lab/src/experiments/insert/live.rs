//! Which rows are there: those from the oldest that was not deleted to the newest that was inserted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The bounds of the live rows, as far as commits were acknowledged.
///
/// # Concurrency
/// Batches are taken by one client each and may be acknowledged out of order; the bounds count what is acknowledged, so
/// a row close to a bound may not be there (yet, or any more). With one client of each kind, and between steps, the
/// bounds are exact: each batch that a client of a step takes is finished by it. The numbers publish nothing but
/// themselves.
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

    /// The rows that a database has which was not made by this process.
    pub(super) fn set(&self, rows: std::ops::Range<u64>) {
        self.inserted.store(rows.end, Ordering::Relaxed);
        self.deleted.store(rows.start, Ordering::Relaxed);
    }

    pub(super) fn add_inserted(&self, rows: u64) {
        self.inserted.fetch_add(rows, Ordering::Relaxed);
    }

    pub(super) fn add_deleted(&self, rows: u64) {
        self.deleted.fetch_add(rows, Ordering::Relaxed);
    }
}

/// The rows that the clients of a step insert: each takes the next batch, in key order, and writes it at once.
#[derive(Clone, Debug)]
pub(super) struct Claims {
    state: Arc<Mutex<ClaimsState>>,
}

#[derive(Debug)]
struct ClaimsState {
    next: u64,
    /// The first row of the batch that each client is writing.
    writing: Vec<Option<u64>>,
}

impl Claims {
    /// Claims of `clients` clients, from the row `first` on.
    pub(super) fn new(first: u64, clients: usize) -> Self {
        Self { state: Arc::new(Mutex::new(ClaimsState { next: first, writing: vec![None; clients] })) }
    }

    /// The first of the next `rows` rows, which the client is to write. A batch that it took before and that was not
    /// acknowledged it takes again: calls that measure the laboratory itself write nothing.
    pub(super) fn take(&self, client: usize, rows: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(from) = state.writing[client] {
            return from;
        }
        let from = state.next;
        state.next += rows;
        state.writing[client] = Some(from);
        from
    }

    /// Whether the client has taken a batch that is not acknowledged.
    pub(super) fn is_writing(&self, client: usize) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).writing[client].is_some()
    }

    /// The batch that the client took is acknowledged.
    pub(super) fn written(&self, client: usize) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).writing[client] = None;
    }

    /// All rows before this one are acknowledged.
    pub(super) fn complete_until(&self) -> u64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.writing.iter().flatten().copied().min().unwrap_or(state.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_complete_up_to_the_oldest_batch_that_is_being_written() {
        let claims = Claims::new(100, 2);
        assert_eq!(claims.complete_until(), 100);
        assert!(!claims.is_writing(0));
        assert_eq!([claims.take(0, 50), claims.take(1, 5)], [100, 150]);
        assert!(claims.is_writing(0) && claims.is_writing(1));
        claims.written(1);
        assert_eq!([claims.complete_until(), claims.take(1, 5)], [100, 155]);
        claims.written(0);
        assert_eq!(claims.complete_until(), 155);
        assert_eq!(claims.take(1, 5), 155);
        claims.written(1);
        assert_eq!(claims.complete_until(), 160);
    }
}
