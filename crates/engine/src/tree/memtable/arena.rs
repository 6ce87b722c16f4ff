//! The memory of one memtable: chunks from the system, handed out front to back by all threads at once, freed together.
//!
//! # Invariants
//! 1. No byte is handed out twice, and none is taken back before the arena is dropped.
//! 2. Memory is zero when it is handed out.
//!
//! # Concurrency
//! A piece costs one atomic addition. Only a thread that finds the chunk used up takes the latch, to map the next one.

use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use crate::base::sync::{AtomicPtr, AtomicU64, AtomicUsize, Mutex};

use crate::base::memory::pages::{self, HUGE_PAGE_BYTES};
use crate::base::num::{u64_of, usize_of};
use crate::base::prefetch::CACHE_LINE_BYTES;

/// The first chunk of an arena, and the least: most tables of a database are written little.
const CHUNK_BYTES_MIN: usize = 16 << 10;

/// The size up to which each chunk is twice the one before: one huge page.
const CHUNK_BYTES_MAX: usize = HUGE_PAGE_BYTES;

/// A longer piece gets a chunk of its own, so that it does not waste the rest of the current one.
const SHARED_PIECE_BYTES_MAX: usize = CHUNK_BYTES_MAX / 8;

/// Bytes of an arena for which a spare chunk is kept: a small part of the arena.
const BYTES_PER_SPARE: usize = 8 * CHUNK_BYTES_MAX;

/// The largest number of spare chunks, which bridges the time for which the worker that makes them may not run.
const SPARES_MAX: usize = 4;

/// The strictest alignment of a piece.
const ALIGN_MAX: usize = CACHE_LINE_BYTES;

/// What a chunk's header takes of it.
const HEADER_BYTES: usize = size_of::<Chunk>();

/// The low half of [`Chunk::taken`].
const TAKEN_BYTES: u64 = u32::MAX as u64;

/// One [`Chunk::taken`] record.
const TAKEN_RECORD: u64 = 1 << 32;

/// The memory of one memtable.
pub(super) struct Arena {
    /// The chunk that pieces come from; null before the first piece. A store publishes the chunk's header to every
    /// thread that takes pieces.
    current: AtomicPtr<Chunk>,
    /// The sum of the lengths of all chunks but the current one. Publishes that these are not current any more.
    full_bytes: AtomicUsize,
    /// Spare chunks, whose memory the system has filled with zeros already.
    spares: Mutex<Vec<ChunkPtr>>,
    /// All other chunks, freed by drop.
    chunks: Mutex<Vec<ChunkPtr>>,
}

/// The header at the front of each chunk.
#[repr(C, align(64))]
struct Chunk {
    /// How many bytes are taken, the header included (low 32 bits; beyond `len` once the chunk is used up), and how
    /// many of the pieces are records (high 32 bits): one addition counts both. Publishes nothing.
    taken: AtomicU64,
    len: usize,
}

/// A chunk, valid until its arena is dropped.
#[derive(Clone, Copy, PartialEq)]
struct ChunkPtr(NonNull<Chunk>);

// SAFETY: a chunk belongs to its arena, not to a thread; its header is only changed atomically.
unsafe impl Send for ChunkPtr {}

impl Arena {
    pub(super) fn new() -> Self {
        let current = AtomicPtr::new(ptr::null_mut());
        Self { current, full_bytes: AtomicUsize::new(0), spares: Mutex::default(), chunks: Mutex::default() }
    }

    /// Memory taken so far, in bytes: what the current chunk has left takes none yet, unless it is one of the largest.
    pub(super) fn bytes(&self) -> usize {
        self.full_bytes.load(Ordering::Acquire) + self.current().map_or(0, ChunkPtr::resident_bytes)
    }

    /// Whether [`Self::prepare_spare`] has something to do.
    pub(super) fn wants_spare(&self) -> bool {
        self.spares.lock().len() < self.spares_wanted()
    }

    fn spares_wanted(&self) -> usize {
        (self.full_bytes.load(Ordering::Relaxed) / BYTES_PER_SPARE).min(SPARES_MAX)
    }

    /// Makes one spare chunk, so that no writer waits while the system fills it with zeros. To be called by one thread;
    /// false when there are enough spares.
    pub(super) fn prepare_spare(&self) -> bool {
        let wanted = self.wants_spare();
        if wanted {
            let chunk = ChunkPtr::map(CHUNK_BYTES_MAX);
            self.spares.lock().push(chunk);
        }
        wanted
    }

    /// Unmaps the spare chunks.
    pub(super) fn release_spares(&self) {
        let spares = std::mem::take(&mut *self.spares.lock());
        // SAFETY: no other thread has them.
        spares.into_iter().for_each(|chunk| unsafe { chunk.unmap() });
    }

    /// How many records were taken.
    pub(super) fn records(&self) -> u64 {
        self.chunks.lock().iter().map(|chunk| chunk.header().taken.load(Ordering::Relaxed) >> 32).sum()
    }

    /// `len` bytes for a record, unaligned.
    #[inline]
    pub(super) fn take_record(&self, len: usize) -> NonNull<u8> {
        self.take(len, TAKEN_RECORD)
    }

    /// Memory for a `T`.
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
            let used_up_bytes = used_up.map_or(0, |chunk| chunk.header().len);
            let grown = (2 * used_up_bytes).clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX);
            let map = || ChunkPtr::map(grown.max((HEADER_BYTES + len).next_power_of_two()));
            let spare = self.spares.lock().pop();
            let chunk = spare.unwrap_or_else(map);
            chunks.push(chunk);
            self.current.store(chunk.0.as_ptr(), Ordering::Release);
            // Not before: `bytes`, which adds the two, must not count one chunk twice.
            self.full_bytes.fetch_add(used_up_bytes, Ordering::Release);
        }
    }

    #[cold]
    fn take_own_chunk(&self, len: usize, records: u64) -> NonNull<u8> {
        let chunk = ChunkPtr::map((HEADER_BYTES + len).next_multiple_of(CHUNK_BYTES_MIN));
        self.chunks.lock().push(chunk);
        self.full_bytes.fetch_add(chunk.header().len, Ordering::Release);
        chunk.take(len, records).expect("the chunk was made for this piece")
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        for chunk in self.chunks.get_mut().drain(..).chain(self.spares.get_mut().drain(..)) {
            // SAFETY: the owner that drops the arena has let go of all pieces.
            unsafe { chunk.unmap() };
        }
    }
}

impl ChunkPtr {
    /// A new chunk of `len` bytes.
    fn map(len: usize) -> Self {
        let chunk = pages::map(len).cast::<Chunk>();
        let header = Chunk { taken: AtomicU64::new(u64_of(HEADER_BYTES)), len };
        // SAFETY: the mapping is longer than a header, aligned to pages, and not shared yet.
        unsafe { chunk.write(header) };
        Self(chunk)
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The chunk is not in use any more.
    unsafe fn unmap(self) {
        let len = self.header().len;
        // SAFETY: mapped with this length, and the caller's promise.
        unsafe { pages::unmap(self.0.cast(), len) };
    }

    fn header(&self) -> &Chunk {
        // SAFETY: the header was written by `map`, and the chunk outlives every user of its arena.
        unsafe { self.0.as_ref() }
    }

    /// How many of its bytes take memory. The pages of a chunk come as they are touched, the largest chunk at once, as
    /// a huge page.
    fn resident_bytes(self) -> usize {
        let Chunk { taken, len } = self.header();
        let taken = usize_of(taken.load(Ordering::Relaxed) & TAKEN_BYTES);
        if *len >= CHUNK_BYTES_MAX { *len } else { taken.next_multiple_of(CHUNK_BYTES_MIN).min(*len) }
    }

    /// The next `len` bytes, or `None` when the chunk is used up.
    #[inline]
    fn take(self, len: usize, records: u64) -> Option<NonNull<u8>> {
        let Chunk { taken, len: end } = self.header();
        // The low half cannot overflow: a thread that fails here goes on to another chunk.
        let at = usize_of(taken.fetch_add(u64_of(len) + records, Ordering::Relaxed) & TAKEN_BYTES);
        if at + len > *end {
            taken.fetch_sub(records, Ordering::Relaxed);
            return None;
        }
        // SAFETY: within the chunk, as just checked.
        Some(unsafe { self.0.cast::<u8>().add(at) })
    }
}
