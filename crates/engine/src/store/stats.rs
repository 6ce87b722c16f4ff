//! What reading and writing block files cost so far.

use crate::base::num::u64_of;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of the files of blocks. They only grow; each is exact by itself, and together they are no consistent cut.
///
/// The atomics publish nothing but their own values, to the thread that reads the statistics.
#[derive(Debug, Default)]
pub struct StoreStats {
    /// Calls that read from a file, each for one block or for a row of blocks.
    pub block_reads: AtomicU64,
    /// Bytes that these calls asked for, with the rest of the first and last sector.
    pub block_read_bytes: AtomicU64,
    /// Calls that wrote to a file.
    pub writes: AtomicU64,
    /// Bytes that these calls wrote, with padding.
    pub written_bytes: AtomicU64,
    /// Calls that forced a file to the device.
    pub syncs: AtomicU64,
}

impl StoreStats {
    /// Counts a read of `bytes` bytes.
    #[inline]
    pub fn count_read(&self, bytes: usize) {
        self.block_reads.fetch_add(1, Ordering::Relaxed);
        self.block_read_bytes.fetch_add(u64_of(bytes), Ordering::Relaxed);
    }

    /// Counts a write of `bytes` bytes.
    #[inline]
    pub fn count_write(&self, bytes: usize) {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.written_bytes.fetch_add(u64_of(bytes), Ordering::Relaxed);
    }

    /// Counts a sync.
    #[inline]
    pub fn count_sync(&self) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
    }
}
