//! Memory straight from the system and straight back to it, so that what is dropped does not linger in an allocator.
//!
//! Miri knows no huge pages, and sanitizers do not see system calls that are made directly and take memory that is
//! mapped again for memory in use: for both, and where the system is no Unix, it comes from the allocator.

use std::alloc::Layout;

pub use system::{map, unmap};

/// The alignment and unit of huge pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The alignment of all pages, at least.
const PAGE_BYTES: usize = 4 << 10;

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, PAGE_BYTES).expect("pages are far below isize::MAX")
}

#[cfg(all(unix, not(any(miri, sanitized))))]
mod system {
    use std::alloc::handle_alloc_error;
    use std::ptr::{self, NonNull};

    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

    use super::{HUGE_PAGE_BYTES, layout};

    /// `len` zero bytes, aligned to pages; from [`HUGE_PAGE_BYTES`] on aligned to, and lying on, huge pages where there
    /// are enough of them.
    ///
    /// # Panics
    /// When `len` is zero.
    #[must_use]
    pub fn map(len: usize) -> NonNull<u8> {
        assert!(len > 0, "no pages have no address");
        if len < HUGE_PAGE_BYTES {
            return map_pages(len);
        }
        let slack = map_pages(len + HUGE_PAGE_BYTES);
        // The last place, which the next mapping will end at: neighbours are one mapping to the system, which limits
        // their number.
        let front = match slack.align_offset(HUGE_PAGE_BYTES) {
            0 => HUGE_PAGE_BYTES,
            front => front,
        };
        // SAFETY: `slack` is longer by a huge page than what stays; the ends were just mapped and hold nothing.
        unsafe {
            let memory = slack.add(front);
            unmap_pages(slack, front);
            unmap_pages(memory.add(len), HUGE_PAGE_BYTES - front);
            // Without huge pages the memory works as well, only slower.
            #[cfg(target_os = "linux")]
            rustix::mm::madvise(memory.as_ptr().cast(), len, rustix::mm::Advice::LinuxHugepage).ok();
            memory
        }
    }

    fn map_pages(len: usize) -> NonNull<u8> {
        // SAFETY: a new mapping touches no memory that is in use.
        let memory =
            unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) };
        let memory = memory.ok().and_then(|memory| NonNull::new(memory.cast()));
        memory.unwrap_or_else(|| handle_alloc_error(layout(len)))
    }

    /// Gives back what [`map`] returned for `len`.
    ///
    /// # Safety
    /// The memory is not in use any more.
    pub unsafe fn unmap(memory: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { unmap_pages(memory, len) }
    }

    /// # Safety
    /// The memory, which [`map_pages`] returned, is not in use any more.
    unsafe fn unmap_pages(memory: NonNull<u8>, len: usize) {
        if len > 0 {
            // Where the system has no room to note one more hole between mappings, the pages stay.
            // SAFETY: the caller's promise.
            unsafe { munmap(memory.as_ptr().cast(), len) }.ok();
        }
    }
}

#[cfg(any(not(unix), miri, sanitized))]
mod system {
    use std::alloc::{alloc_zeroed, dealloc};
    use std::ptr::NonNull;

    use super::layout;

    /// `len` zero bytes, aligned to pages.
    ///
    /// # Panics
    /// When `len` is zero.
    #[must_use]
    pub fn map(len: usize) -> NonNull<u8> {
        assert!(len > 0, "no pages have no address");
        // SAFETY: the layout is not empty.
        NonNull::new(unsafe { alloc_zeroed(layout(len)) }).expect("there is memory")
    }

    /// Gives back what [`map`] returned for `len`.
    ///
    /// # Safety
    /// The memory is not in use any more.
    pub unsafe fn unmap(memory: NonNull<u8>, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { dealloc(memory.as_ptr(), layout(len)) }
    }
}
