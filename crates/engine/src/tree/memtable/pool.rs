//! Chunks of memory that memtables have given back, kept for those to come: else the system would take each, and fill
//! another with zeros.
//!
//! It keeps no more than it is allowed: the part of the database's memory that memtables leave unused.

use std::sync::atomic::Ordering;

use super::chunk::{CHUNK_BYTES_MAX, OwnedChunk};
use crate::base::debug::debug_by;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::{AtomicBool, AtomicUsize, Mutex};

/// Chunks for the memtables of a database. A new pool keeps nothing.
#[derive(Default)]
pub struct ChunkPool {
    /// The latch is not held while the system takes memory back.
    chunks: Mutex<Vec<OwnedChunk>>,
    /// The length of `chunks`; changes with it, and is read without the latch to steer.
    count: AtomicUsize,
    /// The largest number of chunks that it may keep. Steers only.
    count_max: AtomicUsize,
    /// Whether a memtable has asked for a chunk since [`Self::release_idle`].
    is_used: AtomicBool,
}

impl ChunkPool {
    /// Allows it to keep so many bytes from now on. What it has above is given back by [`Self::trim`].
    pub fn allow(&self, bytes: u64) {
        self.count_max.store(usize_of(bytes) / CHUNK_BYTES_MAX, Ordering::Relaxed);
    }

    /// Gives what it may not keep back to the system, which takes its time: to be called without latches.
    #[inline]
    pub fn trim(&self) {
        let most = self.count_max.load(Ordering::Relaxed);
        if self.count.load(Ordering::Relaxed) > most {
            self.shrink(most);
        }
    }

    /// The memory that it keeps, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        u64_of(self.count.load(Ordering::Relaxed) * CHUNK_BYTES_MAX)
    }

    /// Gives all of it back to the system, if no memtable has asked for memory since the last call.
    pub fn release_idle(&self) {
        if !self.is_used.swap(false, Ordering::Relaxed) && self.count.load(Ordering::Relaxed) > 0 {
            self.shrink(0);
        }
    }

    #[cold]
    fn shrink(&self, most: usize) {
        let mut chunks = self.chunks.lock();
        let kept = chunks.len().min(most);
        let above = chunks.split_off(kept);
        self.count.store(kept, Ordering::Relaxed);
        drop(chunks);
        drop(above);
    }

    /// Whether it has no chunk.
    pub(super) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// A chunk of the largest size, with the bytes of its last use.
    pub(super) fn take(&self) -> Option<OwnedChunk> {
        self.is_used.store(true, Ordering::Relaxed);
        if self.is_empty() {
            return None;
        }
        let mut chunks = self.chunks.lock();
        let chunk = chunks.pop();
        self.count.store(chunks.len(), Ordering::Relaxed);
        chunk
    }

    /// Keeps chunks of the largest size, and gives the others back to the system.
    pub(super) fn give(&self, given: impl Iterator<Item = OwnedChunk>) {
        let most = self.count_max.load(Ordering::Relaxed);
        let mut others = Vec::new();
        let mut chunks = self.chunks.lock();
        for chunk in given {
            if chunks.len() < most && chunk.len() == CHUNK_BYTES_MAX {
                chunks.push(chunk);
            } else {
                others.push(chunk);
            }
        }
        self.count.store(chunks.len(), Ordering::Relaxed);
        drop(chunks);
        drop(others);
    }
}

debug_by!(ChunkPool, self => bytes: self.bytes());
