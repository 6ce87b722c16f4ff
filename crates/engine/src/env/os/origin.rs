//! How a forked child is told from the process that it was forked from: by a number on a page of memory that the kernel clears in the child
//! (`MADV_WIPEONFORK`, Linux 4.14). To ask is one load. The id of the process would cost a system call, and a handler of `pthread_atfork` does
//! not run when a program forks by the system call itself.

use super::super::Origin;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// This process.
pub(super) fn origin() -> Origin {
    static NUMBER: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();
    /// The next process to ask among this one and its descendants. Not on the page: no child has the number of one of its ancestors.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Some(number) = *NUMBER.get_or_init(cleared_on_fork) else { return Origin::of_process(std::process::id()) };
    let new = NEXT.fetch_add(1, Ordering::Relaxed);
    let here = number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|here| here, |_| new);
    Origin::of_number(number, here)
}

/// A number that is 0 here, and in each process that is forked from now on. `None` where the kernel cannot do that.
fn cleared_on_fork() -> Option<&'static AtomicU64> {
    let len = rustix::param::page_size();
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
    let page =
        unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is the mapping that was just made, which nothing refers to yet.
    unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the page is aligned, holds zeros, which are a number, is never unmapped, and is used by way of this reference alone.
    Some(unsafe { &*page.cast::<AtomicU64>() })
}
