//! What the paths of the database count; [`Stats`](crate::Stats) shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Error;
use crate::base::sync::Mutex;
use crate::base::trace::event;
use crate::table::reads::ReadCounters;

/// The counters of an open database. They publish nothing but themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    /// Sleeps of writers, so that flushes and compactions keep up.
    pub(crate) delays: Waits,
    /// Waits of writers for memory.
    pub(crate) stalls: Waits,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) compaction_read_bytes: AtomicU64,
    pub(crate) compaction_write_bytes: AtomicU64,
    pub(crate) compaction_reused_leaves: AtomicU64,
    /// Reads of tables that were dropped.
    pub(crate) dropped_reads: ReadCounters,
    pub(crate) failures: Failures,
}

/// How often and how long threads waited.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: AtomicU64,
    pub(crate) us: AtomicU64,
}

/// Jobs that could not be done.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Bytes of free space that a compaction lacks; 0 when none waits for space.
    pub(crate) space_missing_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) btree_merges: AtomicU64,
    /// What the last one said.
    pub(crate) last: Mutex<Option<String>>,
}

impl Waits {
    /// A thread waited for this time.
    pub(crate) fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.us.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl Failures {
    /// A compaction in the background could not read something.
    pub(crate) fn compaction(&self, error: &Error) {
        event!(WARN, %error, "a compaction failed and is tried again later");
        self.compactions.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(error.to_string());
    }

    /// A merge into a B-tree could not read something.
    pub(crate) fn btree_merge(&self, error: &Error) {
        event!(WARN, %error, "a merge into a B-tree failed and is tried again later");
        self.btree_merges.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = Some(error.to_string());
    }
}
