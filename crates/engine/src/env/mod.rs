//! The outside world: files, time, threads and randomness, behind traits, so that a test can replace all of them.
//!
//! Nothing in the engine reaches the operating system except through an [`Env`]. [`os`] is the real one; [`sim`] lives in
//! memory, replays from a seed, and loses, tears and fails what a real machine may lose, tear and fail.

pub mod buffer;
mod file;
pub mod os;
pub mod sim;
#[cfg(test)]
mod tests;
mod thread;

use std::sync::Arc;

pub use buffer::AlignedBuffer;
pub use file::{Access, DirEntry, File, FileLock, FileSystem, InFlight, OpenOptions, Pages, Transfer};
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
}
