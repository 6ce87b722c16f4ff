//! A chunk of memory from the system: a header, and pieces that are handed out front to back.
//!
//! # Invariants
//! 1. A chunk has one owner: an [`OwnedChunk`], or the arena that it is lent to.

use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use crate::base::memory::pages::{self, HUGE_PAGE_BYTES};
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::AtomicU64;

/// The first chunk of an arena, and the least: most tables of a database are written little.
pub(super) const CHUNK_BYTES_MIN: usize = 16 << 10;

/// The size up to which each chunk is twice the one before: one huge page.
pub(super) const CHUNK_BYTES_MAX: usize = HUGE_PAGE_BYTES;

/// What a chunk's header takes of it.
pub(super) const HEADER_BYTES: usize = size_of::<Chunk>();

/// The low half of [`Chunk::taken`].
const TAKEN_BYTES: u64 = u32::MAX as u64;

/// One [`Chunk::taken`] record.
pub(super) const TAKEN_RECORD: u64 = 1 << 32;

/// The header at the front of each chunk.
#[repr(C, align(64))]
pub(super) struct Chunk {
    /// How many bytes are taken, the header included (low 32 bits; beyond `len` once the chunk is used up), and how
    /// many of the pieces are records (high 32 bits): one addition counts both. Publishes nothing.
    taken: AtomicU64,
    len: usize,
}

/// A chunk, valid until its arena is dropped.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct ChunkPtr(pub(super) NonNull<Chunk>);

// SAFETY: a chunk belongs to its arena, not to a thread; its header is only changed atomically.
unsafe impl Send for ChunkPtr {}

/// A chunk that no arena uses, or that one is about to. Dropping it gives it back to the system.
pub(super) struct OwnedChunk(ChunkPtr);

impl OwnedChunk {
    /// A new chunk of `len` bytes.
    pub(super) fn map(len: usize) -> Self {
        let chunk = pages::map(len).cast::<Chunk>();
        let header = Chunk { taken: AtomicU64::new(0), len };
        // SAFETY: the mapping is longer than a header, aligned to pages, and not shared yet.
        unsafe { chunk.write(header) };
        Self(ChunkPtr(chunk))
    }

    /// The chunk for an arena, which hands out all of it.
    pub(super) fn lend(self) -> ChunkPtr {
        let chunk = self.0;
        mem::forget(self);
        chunk.header().taken.store(u64_of(HEADER_BYTES), Ordering::Relaxed);
        chunk
    }

    /// Its length, with the header.
    pub(super) fn len(&self) -> usize {
        self.0.header().len
    }
}

impl Drop for OwnedChunk {
    fn drop(&mut self) {
        let len = self.len();
        // SAFETY: mapped with this length, and no arena has it.
        unsafe { pages::unmap(self.0.0.cast(), len) };
    }
}

impl ChunkPtr {
    /// Takes the chunk from its arena.
    ///
    /// # Safety
    /// The chunk is not in use any more, and is not taken twice.
    pub(super) unsafe fn own(self) -> OwnedChunk {
        OwnedChunk(self)
    }

    fn header(&self) -> &Chunk {
        // SAFETY: the header was written by `OwnedChunk::map`, and the chunk outlives every user of its arena.
        unsafe { self.0.as_ref() }
    }

    /// Its length, with the header.
    pub(super) fn len(self) -> usize {
        self.header().len
    }

    /// How many of its pieces are records.
    pub(super) fn records(self) -> u64 {
        self.header().taken.load(Ordering::Relaxed) >> 32
    }

    /// How many of its bytes take memory. The pages of a chunk come as they are touched, the largest chunk at once, as
    /// a huge page.
    pub(super) fn resident_bytes(self) -> usize {
        let Chunk { taken, len } = self.header();
        let taken = usize_of(taken.load(Ordering::Relaxed) & TAKEN_BYTES);
        if *len >= CHUNK_BYTES_MAX { *len } else { taken.next_multiple_of(CHUNK_BYTES_MIN).min(*len) }
    }

    /// The next `len` bytes, or `None` when the chunk is used up.
    #[inline]
    pub(super) fn take(self, len: usize, records: u64) -> Option<NonNull<u8>> {
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
