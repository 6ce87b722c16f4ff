//! The background workers as the other parts see them: each can be woken, and all can be stopped.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::env::Worker;

/// The background workers. They are started last and stopped first.
#[derive(Debug)]
pub(crate) struct Workers {
    pub(crate) flush: Box<dyn Worker>,
    pub(crate) compact: Vec<Box<dyn Worker>>,
    pub(crate) sync: Box<dyn Worker>,
    pub(crate) memory: Box<dyn Worker>,
    pub(crate) housekeeping: Box<dyn Worker>,
}

/// Wakes the background workers. Before they are started, and after they were stopped, waking does nothing: a worker
/// looks for work when it starts.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    workers: OnceLock<Workers>,
    /// A tombstone is kept for a snapshot, so that a compaction may be due when the oldest is released. A hint;
    /// publishes nothing.
    compacts_on_release: AtomicBool,
    /// It is to be looked at the ages of entries. Publishes nothing.
    expiry: AtomicBool,
}

impl Wakers {
    pub(crate) fn started(&self, workers: Workers) {
        self.expiry.store(true, Ordering::Relaxed);
        assert!(self.workers.set(workers).is_ok(), "workers are started once");
    }

    pub(crate) fn wake_flush(&self) {
        self.workers.get().into_iter().for_each(|workers| workers.flush.wake());
    }

    pub(crate) fn wake_compaction(&self) {
        self.workers.get().into_iter().flat_map(|workers| &workers.compact).for_each(|worker| worker.wake());
    }

    /// Prepares log segments, and syncs commits of [`Durability::Interval`](super::options::Durability::Interval).
    pub(crate) fn wake_sync(&self) {
        self.workers.get().into_iter().for_each(|workers| workers.sync.wake());
    }

    /// Prepares pages of the log and memory of memtables for the next writes.
    pub(crate) fn wake_memory(&self) {
        self.workers.get().into_iter().for_each(|workers| workers.memory.wake());
    }

    /// Removes files that were left to the background, and moves blocks of a cache that has shrunk.
    pub(crate) fn wake_housekeeping(&self) {
        self.workers.get().into_iter().for_each(|workers| workers.housekeeping.wake());
    }

    /// Looks at the ages of entries, also of a table that is new.
    pub(crate) fn wake_expiry(&self) {
        self.expiry.store(true, Ordering::Relaxed);
        self.workers.get().into_iter().for_each(|workers| workers.housekeeping.wake());
    }

    /// Whether it is to be looked at the ages of entries; whoever asks looks.
    pub(crate) fn take_expiry(&self) -> bool {
        self.expiry.swap(false, Ordering::Relaxed)
    }

    /// A snapshot keeps a tombstone: the release of the oldest one wakes the compaction.
    pub(crate) fn compact_on_release(&self) {
        self.compacts_on_release.store(true, Ordering::Relaxed);
    }

    /// The oldest snapshot was released.
    pub(crate) fn released_oldest(&self) {
        if self.compacts_on_release.load(Ordering::Relaxed) && self.compacts_on_release.swap(false, Ordering::Relaxed) {
            self.wake_compaction();
        }
    }

    /// Waits until no worker works, and lets none begin again.
    pub(crate) fn stop(&self) {
        let Some(Workers { flush, compact, sync, memory, housekeeping }) = self.workers.get() else { return };
        [flush, sync, memory, housekeeping].into_iter().chain(compact).for_each(|worker| worker.stop());
    }
}
