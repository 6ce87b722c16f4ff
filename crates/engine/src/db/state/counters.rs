//! What the paths of the database count; [`Stats`](crate::Stats) shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Error;
use crate::base::sync::Mutex;
use crate::table::reads::ReadCounters;

/// The counters that the verbs of the database keep. They publish nothing but themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) delays: AtomicU64,
    pub(crate) delay_us: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stall_us: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) compaction_write_bytes: AtomicU64,
    pub(crate) compaction_reused_leaves: AtomicU64,
    /// Reads of tables that were dropped.
    pub(crate) dropped_reads: ReadCounters,
    pub(crate) space_missing_bytes: AtomicU64,
    pub(crate) failed_compactions: AtomicU64,
    pub(crate) failed_merges: AtomicU64,
    pub(crate) last_failure: Mutex<Option<String>>,
}

impl Counters {
    /// A writer was delayed.
    pub(crate) fn delayed(&self, time: Duration) {
        self.delays.fetch_add(1, Ordering::Relaxed);
        self.delay_us.fetch_add(micros(time), Ordering::Relaxed);
    }

    /// A writer waited for room.
    pub(crate) fn stalled(&self, time: Duration) {
        self.stalls.fetch_add(1, Ordering::Relaxed);
        self.stall_us.fetch_add(micros(time), Ordering::Relaxed);
    }

    /// A compaction in the background could not read something.
    pub(crate) fn failed_compaction(&self, error: &Error) {
        self.failed_compactions.fetch_add(1, Ordering::Relaxed);
        *self.last_failure.lock() = Some(error.to_string());
    }

    /// A merge into a B-tree could not read something.
    pub(crate) fn failed_merge(&self, error: &Error) {
        self.failed_merges.fetch_add(1, Ordering::Relaxed);
        *self.last_failure.lock() = Some(error.to_string());
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
