//! The memory of one memtable: chunks from the system, or that other memtables have used before, handed out front to
//! back by all threads at once, given back together.
//!
//! # Invariants
//! 1. No byte is handed out twice, and none is taken back before the arena is dropped.
//!
//! # Concurrency
//! A piece costs one atomic addition. Only a thread that finds the chunk used up takes the latch, to map the next one.

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::chunk::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN, Chunk, ChunkPtr, HEADER_BYTES, OwnedChunk, TAKEN_RECORD};
use super::pool::ChunkPool;
use crate::base::prefetch::CACHE_LINE_BYTES;
use crate::base::sync::{AtomicPtr, AtomicUsize, Mutex};

/// A longer piece gets a chunk of its own, so that it does not waste the rest of the current one.
const SHARED_PIECE_BYTES_MAX: usize = CHUNK_BYTES_MAX / 8;

/// Bytes of an arena for which a spare chunk is kept: a small part of the arena.
const BYTES_PER_SPARE: usize = 8 * CHUNK_BYTES_MAX;

/// The largest number of spare chunks, which bridges the time for which the worker that makes them may not run.
const SPARES_MAX: usize = 4;

/// The strictest alignment of a piece.
const ALIGN_MAX: usize = CACHE_LINE_BYTES;

/// The memory of one memtable.
pub(super) struct Arena {
    /// The chunk that pieces come from; null before the first piece. A store publishes the chunk's header to every
    /// thread that takes pieces.
    current: AtomicPtr<Chunk>,
    /// The sum of the lengths of all chunks but the current one. Publishes that these are not current any more.
    full_bytes: AtomicUsize,
    /// Spare chunks, whose memory the system has filled with zeros already.
    spares: Mutex<Vec<ChunkPtr>>,
    /// All other chunks, given back by drop.
    chunks: Mutex<Vec<ChunkPtr>>,
    /// Where chunks come from, if it has one, and go to.
    pool: Arc<ChunkPool>,
}

impl Arena {
    pub(super) fn new(pool: Arc<ChunkPool>) -> Self {
        let current = AtomicPtr::new(ptr::null_mut());
        Self { current, full_bytes: AtomicUsize::new(0), spares: Mutex::default(), chunks: Mutex::default(), pool }
    }

    /// Memory taken so far, in bytes: what the current chunk has left takes none yet, unless it is one of the largest.
    pub(super) fn bytes(&self) -> usize {
        self.full_bytes.load(Ordering::Acquire) + self.current().map_or(0, ChunkPtr::resident_bytes)
    }

    /// Whether [`Self::prepare_spare`] has something to do.
    pub(super) fn wants_spare(&self) -> bool {
        // A chunk of the pool is at hand as it is.
        self.pool.is_empty() && self.spares.lock().len() < self.spares_wanted()
    }

    fn spares_wanted(&self) -> usize {
        (self.full_bytes.load(Ordering::Relaxed) / BYTES_PER_SPARE).min(SPARES_MAX)
    }

    /// Makes one spare chunk, so that no writer waits while the system fills it with zeros. To be called by one thread;
    /// false when there are enough spares.
    pub(super) fn prepare_spare(&self) -> bool {
        let wanted = self.wants_spare();
        if wanted {
            let chunk = OwnedChunk::map(CHUNK_BYTES_MAX).lend();
            self.spares.lock().push(chunk);
        }
        wanted
    }

    /// Gives the spare chunks back.
    pub(super) fn release_spares(&self) {
        let spares = mem::take(&mut *self.spares.lock());
        // SAFETY: no other thread has them.
        self.pool.give(spares.into_iter().map(|chunk| unsafe { chunk.own() }));
    }

    /// How many records were taken.
    pub(super) fn records(&self) -> u64 {
        self.chunks.lock().iter().map(|chunk| chunk.records()).sum()
    }

    /// `len` bytes for a record, unaligned.
    #[inline]
    pub(super) fn take_record(&self, len: usize) -> NonNull<u8> {
        self.take(len, TAKEN_RECORD)
    }

    /// Memory for a `T`, with any bytes.
    pub(super) fn take_aligned<T>(&self) -> NonNull<T> {
        const { assert!(align_of::<T>() <= ALIGN_MAX) };
        let memory = self.take(size_of::<T>() + ALIGN_MAX - 1, 0);
        // SAFETY: the piece is longer by what the rounding can skip.
        unsafe { memory.add(memory.align_offset(align_of::<T>())) }.cast()
    }

    #[inline]
    fn take(&self, len: usize, records: u64) -> NonNull<u8> {
        if len > SHARED_PIECE_BYTES_MAX {
            return self.take_own_chunk(len, records);
        }
        loop {
            let current = self.current();
            if let Some(piece) = current.and_then(|current| current.take(len, records)) {
                return piece;
            }
            self.replace(current, len);
        }
    }

    #[inline]
    fn current(&self) -> Option<ChunkPtr> {
        NonNull::new(self.current.load(Ordering::Acquire)).map(ChunkPtr)
    }

    /// Makes a new chunk the current one, with room for `len` bytes, unless another thread did so since `used_up` was.
    #[cold]
    fn replace(&self, used_up: Option<ChunkPtr>, len: usize) {
        let mut chunks = self.chunks.lock();
        if self.current() == used_up {
            let used_up_bytes = used_up.map_or(0, |chunk| chunk.len());
            let grown = (2 * used_up_bytes).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
            let spare = self.spares.lock().pop();
            let chunk = spare.unwrap_or_else(|| {
                let pooled = if grown == CHUNK_BYTES_MAX { self.pool.take() } else { None };
                let map = || OwnedChunk::map(grown.max((HEADER_BYTES + len).next_power_of_two()));
                pooled.unwrap_or_else(map).lend()
            });
            chunks.push(chunk);
            self.current.store(chunk.0.as_ptr(), Ordering::Release);
            // Not before: `bytes`, which adds the two, must not count one chunk twice.
            self.full_bytes.fetch_add(used_up_bytes, Ordering::Release);
        }
    }

    #[cold]
    fn take_own_chunk(&self, len: usize, records: u64) -> NonNull<u8> {
        let chunk = OwnedChunk::map((HEADER_BYTES + len).next_multiple_of(CHUNK_BYTES_MIN)).lend();
        self.chunks.lock().push(chunk);
        self.full_bytes.fetch_add(chunk.len(), Ordering::Release);
        chunk.take(len, records).expect("the chunk was made for this piece")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let (chunks, spares) = (mem::take(self.chunks.get_mut()), mem::take(self.spares.get_mut()));
        // SAFETY: the owner that drops the arena has let go of all pieces.
        self.pool.give(chunks.into_iter().chain(spares).map(|chunk| unsafe { chunk.own() }));
    }
}
