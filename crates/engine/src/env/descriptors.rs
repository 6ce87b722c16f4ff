//! Which of the files that are opened at their first use have a descriptor: at most a certain number, those used last.
//!
//! # Concurrency
//! A call to a file that has a descriptor takes no latch of this: it only marks its file as used (CLOCK, Corbató 1969).
//! The latch is taken by a call that had to open its file. While that looks for a file to close, it holds the latch of
//! none: it waits for the calls to the one that it closes, of which there are mostly none, since it was not used
//! lately.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use crate::base::sync::Mutex;

/// A file that can be closed and opened again.
pub(super) trait Closable: Send + Sync + Debug {
    /// Whether it was used since this was asked last.
    fn was_used(&self) -> bool;
    /// Closes the file if it is open and need not stay so; whether it did.
    fn close(&self) -> bool;
}

/// The files that have a descriptor.
#[derive(Debug)]
pub(super) struct Descriptors {
    max: usize,
    /// How many there are. Publishes nothing.
    open: AtomicUsize,
    /// The files in the order in which it is looked whether they were used. Some may be closed, or gone.
    clock: Mutex<VecDeque<Weak<dyn Closable>>>,
}

impl Descriptors {
    pub(super) fn new(max: usize) -> Self {
        Self { max, open: AtomicUsize::new(0), clock: Mutex::default() }
    }

    /// How many files have a descriptor.
    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// A file was opened: closes others that were not used for long where there are too many. The caller holds no latch
    /// of a file.
    pub(super) fn opened(&self, file: Weak<dyn Closable>) {
        self.open.fetch_add(1, Ordering::Relaxed);
        let mut clock = self.clock.lock();
        if clock.len() > 2 * self.max {
            clock.retain(|file| file.strong_count() > 0);
        }
        clock.push_back(file);
        // Each is looked at twice at most: the first time it may have been used.
        let mut looks = 2 * clock.len();
        drop(clock);
        while self.open() > self.max && looks > 0 {
            let Some((next, file)) = self.next() else { return };
            if file.was_used() || !file.close() {
                self.clock.lock().push_back(next);
            }
            looks -= 1;
        }
    }

    /// The next file of the clock that still exists.
    fn next(&self) -> Option<(Weak<dyn Closable>, Arc<dyn Closable>)> {
        let mut clock = self.clock.lock();
        while let Some(next) = clock.pop_front() {
            if let Some(file) = next.upgrade() {
                return Some((next, file));
            }
        }
        None
    }

    /// A file was closed.
    pub(super) fn closed(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
