//! What the upkeep of commits remembers: commits that wait for a sync, and how much of the log is kept.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Lsn;
use crate::base::sync::Mutex;

/// The sync of commits with [`Durability::Interval`](crate::Durability::Interval).
#[derive(Debug, Default)]
pub(super) struct IntervalSync {
    /// Whether commits wait for the sync worker. Set by commits, cleared by the worker before it syncs.
    pub(super) pending: AtomicBool,
    /// When the sync worker syncs for these. Its own.
    pub(super) due: Mutex<Option<Duration>>,
}

impl IntervalSync {
    /// A commit waits for a sync within the interval; whether it is the first that does.
    pub(super) fn begin(&self) -> bool {
        !self.pending.swap(true, Ordering::AcqRel)
    }
}

/// How much of the log is kept. Steers only.
#[derive(Debug)]
pub(super) struct LogRetention {
    /// The log before this position is not needed. Told by flushes.
    pub(super) needed_from: AtomicU64,
    /// Where the log ended when memtables were last sealed because it was too long.
    pub(super) sealed_at: AtomicU64,
}

impl LogRetention {
    pub(super) fn new(needed_from: Lsn) -> Self {
        Self { needed_from: AtomicU64::new(needed_from.0), sealed_at: AtomicU64::new(0) }
    }
}
