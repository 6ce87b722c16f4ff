//! How a forked child is told from the process that it was forked from: by a number on a page of memory that the kernel
//! clears in the child (`MADV_WIPEONFORK`, Linux 4.14). To ask is one load. The id of the process would cost a system
//! call, and a handler of `pthread_atfork` does not run when a program forks by the system call itself.

use super::super::origin::Origin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a forked child finds cleared.
#[derive(Debug)]
#[repr(C)]
struct Page {
    /// The number of this process.
    number: AtomicU64,
    /// What is known of the workers that there were when the process began.
    inherited: AtomicU64,
}

/// No thread of this process has looked.
const UNKNOWN: u64 = 0;
/// There were none.
const NONE: u64 = 1;
/// There were some. They are no threads of this process.
const LOST: u64 = 2;

/// Workers that are threads of this process, or were threads of one that it was forked from at that moment.
static WORKERS: AtomicU64 = AtomicU64::new(0);

/// The page of this process and its descendants, where the kernel clears one.
fn page() -> Option<&'static Page> {
    static PAGE: OnceLock<Option<&'static Page>> = OnceLock::new();
    *PAGE.get_or_init(cleared_on_fork)
}

/// Counts a worker for as long as it lives.
#[derive(Debug)]
pub(super) struct Counted(());

impl Counted {
    pub(super) fn new() -> Self {
        // Before the first worker of this process is counted with those of others.
        has_lost_workers();
        WORKERS.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        WORKERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether this process was forked from one that had workers. What they had locked or waited for in the tables of
/// libraries is never released here.
pub(super) fn has_lost_workers() -> bool {
    let Some(Page { inherited, .. }) = page() else { return false };
    if inherited.load(Ordering::SeqCst) == UNKNOWN {
        // A worker of this process is counted only after another call has set this: then the exchange fails, and
        // changes nothing.
        let found = if WORKERS.load(Ordering::SeqCst) > 0 { LOST } else { NONE };
        let _looked = inherited.compare_exchange(UNKNOWN, found, Ordering::SeqCst, Ordering::SeqCst);
    }
    inherited.load(Ordering::SeqCst) == LOST
}

/// This process.
pub(super) fn origin() -> Origin {
    /// The next process to ask among this one and its descendants. Not on the page: no child has the number of one of
    /// its ancestors.
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let Some(Page { number, .. }) = page() else { return Origin::of_process(std::process::id()) };
    let new = NEXT.fetch_add(1, Ordering::Relaxed);
    let here = number.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|here| here, |_| new);
    Origin::of_number(number, here)
}

/// A page of zeros, here and in each process that is forked from now on. `None` where the kernel cannot do that.
#[cfg(target_os = "linux")]
fn cleared_on_fork() -> Option<&'static Page> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    use std::ptr;

    let len = rustix::param::page_size();
    // SAFETY: a new mapping at an address that the kernel chooses touches no memory that is in use.
    let page =
        unsafe { mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE) }.ok()?;
    // SAFETY: the page is the mapping that was just made, which nothing refers to yet.
    unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
    // SAFETY: the page is aligned, holds zeros, which are two numbers, is never unmapped, and is used by way of this
    // reference alone.
    Some(unsafe { &*page.cast::<Page>() })
}

/// Elsewhere each check asks for the id of the process.
#[cfg(not(target_os = "linux"))]
const fn cleared_on_fork() -> Option<&'static Page> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    #[test]
    fn workers_that_come_and_go_are_never_taken_for_those_of_another_process() {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !ended.load(Ordering::Relaxed) {
                        drop(Counted::new());
                    }
                });
            }
            let lost = (0..300_000_000).any(|_| has_lost_workers());
            ended.store(true, Ordering::Relaxed);
            assert!(!lost);
        });
    }
}
