//! The process in which something was opened: a child that is forked from it inherits the memory, but neither the
//! threads nor the right to write.

use crate::base::{Error, ErrorKind, Result};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// Remembers the process that it was made in.
#[derive(Clone, Copy, Debug)]
pub struct Origin(Mark);

#[derive(Clone, Copy, Debug)]
enum Mark {
    /// There are no processes.
    Anywhere,
    /// A number that reads as `here` in this process, and as another one in those forked from it.
    Number { number: &'static AtomicU64, here: u64 },
    /// The id of this process.
    Process(u32),
}

impl Origin {
    /// Where no process is ever forked.
    #[must_use]
    pub const fn anywhere() -> Self {
        Self(Mark::Anywhere)
    }

    /// A process in which `number` is `here`.
    pub(super) const fn of_number(number: &'static AtomicU64, here: u64) -> Self {
        Self(Mark::Number { number, here })
    }

    /// The process of this id.
    pub(super) const fn of_process(id: u32) -> Self {
        Self(Mark::Process(id))
    }

    /// Whether the caller runs in the process that this was made in.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        match self.0 {
            Mark::Anywhere => true,
            // The number of a process never changes.
            Mark::Number { number, here } => number.load(Ordering::Relaxed) == here,
            Mark::Process(id) => std::process::id() == id,
        }
    }

    /// Refuses in another process.
    ///
    /// # Errors
    /// `Forked`.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(forked()) }
    }

    /// As [`Self::check`], as an error of the system's calls.
    pub(super) fn check_io(&self) -> io::Result<()> {
        if self.is_here() { Ok(()) } else { Err(io::Error::other(forked())) }
    }
}

#[cold]
fn forked() -> Error {
    let message = "the database was opened by the process that this one was forked from, and only that can use it: \
                   open the database after the fork";
    Error::new(ErrorKind::Forked, message)
}
