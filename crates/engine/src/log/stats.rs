//! Counters of the log, which never reset while it is open.

use crate::base::histogram::{AtomicHistogram, Histogram};
use crate::base::num::u64_of;
use crate::env::Clock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the log has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct LogStats {
    /// Payloads appended.
    pub appends: u64,
    /// Bytes of the payloads appended, without fragment headers and padding.
    pub record_bytes: u64,
    /// Bytes of the same payloads as they were appended: less than `record_bytes` where compression saved space.
    pub packed_bytes: u64,
    /// Time in microseconds that committing threads spent on compressing payloads.
    pub compression_us: u64,
    /// Groups made durable; `appends / groups` is the mean size of a group.
    pub groups: u64,
    /// Bytes handed to the file system, with fragment headers and padding; of zeros filled ahead those that a sync
    /// found not yet overwritten.
    pub written_bytes: u64,
    /// Bytes of zeros filled ahead in the page cache, for commits to be copied into.
    pub filled_bytes: u64,
    /// Write calls, and copies in their place.
    pub writes: u64,
    /// Times the device was told to make data durable, by a durable write or a sync.
    pub syncs: u64,
    /// Payloads that each group made durable together.
    pub group_appends: Histogram,
    /// Microseconds that each sync or durable write took.
    pub sync_us: Histogram,
    /// Times a thread waited for another thread to make its payload durable.
    pub waits: u64,
    /// Segment files made new.
    pub segments_created: u64,
    /// Obsolete segment files kept for use as new ones.
    pub segments_recycled: u64,
    /// Segment files removed, spares that were of no use included.
    pub segments_removed: u64,
    /// Bytes of zeros written ahead, in the background, for segments to come.
    pub spare_bytes: u64,
    /// Payload bytes replayed by the recovery before this writer.
    pub bytes_replayed: u64,
    /// Microseconds that the recovery took, from reading the log to the flushes that it made necessary.
    pub replay_us: u64,
}

/// Counters of writes to the log's files, and of copies in their place. As those below they publish nothing: readers
/// only want recent values.
#[derive(Debug, Default)]
pub(super) struct WriteCounters {
    pub(super) written_bytes: AtomicU64,
    pub(super) filled_bytes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) syncs: AtomicU64,
    pub(super) sync_us: AtomicHistogram,
}

/// Counters of groups.
#[derive(Debug, Default)]
pub(super) struct SyncCounters {
    pub(super) groups: AtomicU64,
    pub(super) group_appends: AtomicHistogram,
    pub(super) waits: AtomicU64,
}

/// Counters of segment files.
#[derive(Debug, Default)]
pub(super) struct SegmentCounters {
    pub(super) created: AtomicU64,
    pub(super) recycled: AtomicU64,
    pub(super) removed: AtomicU64,
    pub(super) spare_bytes: AtomicU64,
}

/// Adds to a counter.
pub(super) fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

fn read(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// A time in whole microseconds.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl WriteCounters {
    /// Counts a sync or durable write that began at `begun` by `clock`; gives its time.
    pub(super) fn synced(&self, clock: &dyn Clock, begun: Duration) -> Duration {
        let time = clock.now().saturating_sub(begun);
        count(&self.syncs, 1);
        self.sync_us.add(micros(time));
        time
    }

    /// Counts a write of this number of bytes.
    pub(super) fn wrote(&self, bytes: usize) {
        count(&self.writes, 1);
        count(&self.written_bytes, u64_of(bytes));
    }

    /// As [`Self::wrote`], when no other write is counted at the same time: atomic additions are a tenth of what a
    /// small commit takes.
    pub(super) fn wrote_alone(&self, bytes: usize) {
        let count =
            |counter: &AtomicU64, more| counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        count(&self.writes, 1);
        count(&self.written_bytes, u64_of(bytes));
    }

    pub(super) fn add_to(&self, stats: &mut LogStats) {
        stats.written_bytes = read(&self.written_bytes);
        stats.filled_bytes = read(&self.filled_bytes);
        stats.writes = read(&self.writes);
        stats.syncs = read(&self.syncs);
        stats.sync_us = self.sync_us.snapshot();
    }
}

impl SyncCounters {
    pub(super) fn add_to(&self, stats: &mut LogStats) {
        stats.groups = read(&self.groups);
        stats.group_appends = self.group_appends.snapshot();
        stats.waits = read(&self.waits);
    }
}

impl SegmentCounters {
    pub(super) fn add_to(&self, stats: &mut LogStats) {
        stats.segments_created = read(&self.created);
        stats.segments_recycled = read(&self.recycled);
        stats.segments_removed = read(&self.removed);
        stats.spare_bytes = read(&self.spare_bytes);
    }
}
