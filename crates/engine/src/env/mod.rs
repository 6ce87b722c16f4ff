//! The outside world: files, time, threads and randomness, behind traits, so that a test can replace all of them.
//!
//! Nothing in the engine reaches the operating system except through an [`Env`]. [`os`] is the real one; [`sim`] lives
//! in memory, replays from a seed, and loses, tears and fails what a real machine may lose, tear and fail.

mod beside;
pub mod buffer;
mod database_files;
mod file;
mod origin;
pub mod os;
pub mod sim;
#[cfg(test)]
mod tests;
mod thread;

use std::io;
use std::sync::Arc;

pub use buffer::AlignedBuffer;
pub use database_files::DatabaseFiles;
pub use file::{Access, DirEntry, File, FileLock, FileSystem, InFlight, OpenOptions, Pages, Transfer};
pub use origin::Origin;
pub use thread::{Clock, Next, Random, Threads, Work, Worker};

/// The size and alignment in bytes of what direct I/O reads and writes, and of what a device writes atomically at best.
pub const SECTOR_BYTES: usize = 4096;

/// Everything that a database needs from outside.
#[derive(Clone, Debug)]
pub struct Env {
    /// Files and directories.
    pub fs: Arc<dyn FileSystem>,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Background work and waiting.
    pub threads: Arc<dyn Threads>,
    /// Randomness, for the identity of a new database only.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// The operating system's files, clock, threads and randomness.
    #[must_use]
    pub fn os() -> Self {
        os::env()
    }

    /// The same, in which threads stay awake for reads of up to 64 KiB past the page cache, for 200 us at most: they
    /// ask for the result and let others run in between, where they would sleep until they are woken. More reads at
    /// once and sooner, a fifth on a virtual machine, for all the processor's time while a read is under way, about
    /// three times as much a read. For machines with processors to spare.
    ///
    /// # Errors
    /// `Unsupported` without the Cargo feature `io-uring`; `PermissionDenied`, `Unsupported` or what the kernel says,
    /// when it has no `io_uring` for the process: before Linux 5.6, and in many containers.
    pub fn os_polling() -> io::Result<Self> {
        os::polling()
    }
}
