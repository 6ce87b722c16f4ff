//! A byte buffer whose address and capacity suit direct I/O.
//!
//! # Invariants
//! 1. The address is a multiple of [`SECTOR_BYTES`], also when nothing is allocated.
//! 2. The capacity is a multiple of [`SECTOR_BYTES`], and all of it is initialised.
//! 3. All bytes from `touched` on are zero, and `len <= touched <= capacity`: padding with zeros a buffer that is used
//!    again and again touches no more memory than was used before.
//! 4. A buffer of `MAPPED_BYTES_MIN` or more is a mapping of its own. Freed, it goes back to the system at once: an
//!    allocator would keep such pieces and, as glibc's does, cut smaller and smaller ones from them until the heap is
//!    several times what is in use.

use crate::base::debug::debug_by;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The size and alignment in bytes of what direct I/O reads and writes, and of what a device writes atomically at best.
pub const SECTOR_BYTES: usize = 4096;

/// Buffers of this number of bytes or more are mapped.
const MAPPED_BYTES_MIN: usize = 128 << 10;

/// Bytes at an address that is a multiple of [`SECTOR_BYTES`]; grows as a `Vec` does.
pub struct AlignedBuffer {
    start: NonNull<u8>,
    len: usize,
    touched: usize,
    capacity: usize,
}

// SAFETY: the buffer owns its memory alone, as a `Vec<u8>` does.
unsafe impl Send for AlignedBuffer {}
// SAFETY: a shared buffer only hands out shared slices.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// An empty buffer with room for at least `bytes` bytes.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        let layout = layout(bytes);
        if layout.size() == 0 {
            return Self::default();
        }
        Self { start: acquire(layout), len: 0, touched: 0, capacity: layout.size() }
    }

    /// A buffer of `len` zeros.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        // What is acquired is zero.
        let mut buffer = Self::with_capacity(len);
        buffer.set_len(len);
        buffer
    }

    /// The number of bytes in use.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no bytes are in use.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many bytes fit before the buffer moves; a multiple of [`SECTOR_BYTES`].
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets all bytes and keeps the memory.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Forgets the bytes from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Appends bytes.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        // SAFETY: `reserve` made room for `bytes` after the first `len` bytes, and `bytes` cannot overlap memory that
        // is ours alone.
        unsafe { self.start.add(self.len).copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len()) };
        self.set_len(self.len + bytes.len());
    }

    /// Cuts the buffer to `len` bytes, or extends it to them with zeros.
    pub fn resize(&mut self, len: usize) {
        if let Some(more) = len.checked_sub(self.len) {
            self.reserve(more);
            let touched = len.min(self.touched).saturating_sub(self.len);
            // SAFETY: the bytes up to `touched` lie within the capacity.
            unsafe { self.start.add(self.len).write_bytes(0, touched) };
        }
        self.set_len(len);
    }

    const fn set_len(&mut self, len: usize) {
        self.len = len;
        if self.touched < len {
            self.touched = len;
        }
    }

    /// Makes room for `more` bytes after those in use.
    ///
    /// # Panics
    /// When the bytes would not fit the address space.
    pub fn reserve(&mut self, more: usize) {
        let needed = self.len.checked_add(more).expect("a buffer is smaller than the address space");
        if needed > self.capacity {
            self.grow(needed.max(self.capacity * 2));
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let mut larger = Self::with_capacity(bytes);
        larger.extend_from_slice(self);
        *self = larger;
    }
}

/// Zeroed memory of this layout, which is not empty.
fn acquire(layout: Layout) -> NonNull<u8> {
    let start = if is_mapped(layout) {
        system::map(layout.size())
    } else {
        // SAFETY: the layout is not empty.
        unsafe { alloc_zeroed(layout) }
    };
    NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives back what [`acquire`] returned.
///
/// # Safety
/// `start` came from `acquire` with the same layout, and is no longer in use.
unsafe fn release(start: NonNull<u8>, layout: Layout) {
    if is_mapped(layout) {
        // SAFETY: the caller's promise: the range is one mapping that is not in use.
        unsafe { system::unmap(start, layout.size()) };
    } else {
        // SAFETY: the caller's promise.
        unsafe { dealloc(start.as_ptr(), layout) };
    }
}

/// Whether memory of this layout is a mapping. Miri knows no mappings, and sanitizers do not see them.
const fn is_mapped(layout: Layout) -> bool {
    layout.size() >= MAPPED_BYTES_MIN && cfg!(all(unix, not(any(miri, sanitized))))
}

#[cfg(unix)]
mod system {
    use std::ptr::{self, NonNull};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    /// A mapping of zeros; null when there is no memory.
    pub(super) fn map(bytes: usize) -> *mut u8 {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a new mapping touches no memory that is in use.
        unsafe { mmap_anonymous(ptr::null_mut(), bytes, protection, flags) }.map_or(ptr::null_mut(), <*mut _>::cast)
    }

    /// # Safety
    /// `start` came from [`map`] with as many bytes, and is no longer in use.
    pub(super) unsafe fn unmap(start: NonNull<u8>, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { munmap(start.as_ptr().cast(), bytes) }.expect("a whole mapping can be unmapped");
    }
}

/// Nothing is mapped where the system is no Unix.
#[cfg(not(unix))]
mod system {
    use std::ptr::{self, NonNull};

    pub(super) const fn map(_bytes: usize) -> *mut u8 {
        ptr::null_mut()
    }

    pub(super) const unsafe fn unmap(_start: NonNull<u8>, _bytes: usize) {}
}

/// The layout of a buffer with room for `bytes` bytes.
fn layout(bytes: usize) -> Layout {
    let size = bytes.checked_next_multiple_of(SECTOR_BYTES).expect("a buffer is smaller than the address space");
    Layout::from_size_align(size, SECTOR_BYTES).expect("a buffer is smaller than the address space")
}

impl Default for AlignedBuffer {
    /// An empty buffer without memory.
    fn default() -> Self {
        Self { start: NonNull::without_provenance(ALIGNMENT), len: 0, touched: 0, capacity: 0 }
    }
}

const ALIGNMENT: std::num::NonZeroUsize = std::num::NonZeroUsize::new(SECTOR_BYTES).expect("a sector has bytes");

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: `start` was acquired with the layout of this capacity and is not used again.
            unsafe { release(self.start, layout(self.capacity)) };
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the first `len` bytes are initialised and borrowed with `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the first `len` bytes are initialised and borrowed with `self`, alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

debug_by!(AlignedBuffer, self => len: self.len, capacity: self.capacity);

#[cfg(test)]
mod tests {
    use super::*;

    fn is_aligned(buffer: &AlignedBuffer) -> bool {
        buffer.as_ptr().addr().is_multiple_of(SECTOR_BYTES) && buffer.capacity().is_multiple_of(SECTOR_BYTES)
    }

    #[test]
    fn bytes_stay_and_stay_aligned_while_the_buffer_grows() {
        let mut buffer = AlignedBuffer::default();
        assert!(is_aligned(&buffer) && buffer.is_empty());
        let mut model = Vec::new();
        for round in 0..2000u32 {
            buffer.extend_from_slice(&round.to_le_bytes());
            model.extend_from_slice(&round.to_le_bytes());
            assert!(is_aligned(&buffer));
        }
        assert_eq!(*buffer, *model);
        buffer.resize(8192);
        model.resize(8192, 0);
        assert_eq!(*buffer, *model);
        buffer.truncate(3);
        assert_eq!(*buffer, [0, 0, 0]);
        buffer.clear();
        assert!(buffer.is_empty() && buffer.capacity() >= 8192);
    }

    #[test]
    fn a_zeroed_buffer_is_zero_and_writable() {
        let mut buffer = AlignedBuffer::zeroed(5000);
        assert!(is_aligned(&buffer) && buffer.capacity() == 8192);
        assert!(buffer.iter().all(|byte| *byte == 0));
        buffer[4999] = 1;
        assert_eq!(buffer.last(), Some(&1));
    }

    #[test]
    fn padding_is_zero_whatever_stood_there_before() {
        let mut buffer = AlignedBuffer::default();
        for (len, padded) in
            [(100, 4096), (3, 50), (3, 4096), (0, 4096), (4097, 8192), (1, 8192), (8192, 8192), (0, 8192)]
        {
            buffer.clear();
            buffer.extend_from_slice(&vec![0xff; len]);
            buffer.resize(padded);
            assert_eq!(buffer.len(), padded);
            assert!(buffer[..len].iter().all(|byte| *byte == 0xff) && buffer[len..].iter().all(|byte| *byte == 0));
        }
        // What was written through the slice.
        buffer.fill(0xff);
        buffer.truncate(10);
        buffer.resize(20);
        assert_eq!(buffer[10..], [0; 10]);
    }

    #[test]
    fn appending_nothing_to_an_empty_buffer_allocates_nothing() {
        let mut buffer = AlignedBuffer::with_capacity(0);
        buffer.extend_from_slice(&[]);
        buffer.resize(0);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
    }
}
