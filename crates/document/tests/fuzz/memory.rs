//! An allocator that counts the memory of the process, and ends a process that was given a limit when it is exceeded.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts, by which nothing is published.
static LIVE: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Ends the process at the first allocation beyond so many bytes more than there are now.
pub(crate) fn limit(bytes: usize) {
    LIMIT.store(LIVE.load(Ordering::Relaxed) + bytes, Ordering::Relaxed);
}

fn take(bytes: usize) {
    let live = LIVE.fetch_add(bytes, Ordering::Relaxed) + bytes;
    if live > LIMIT.load(Ordering::Relaxed) {
        // The text needs no memory; without it the process ends all the same.
        drop(std::io::stderr().write_all(b"the process takes more memory than its limit\n"));
        std::process::abort();
    }
}

fn give(bytes: usize) {
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
}

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        take(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        take(size);
        give(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        give(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}
