//! The outside world: files, time, threads and randomness, behind traits, so that a test can replace all of them.
//!
//! Nothing in the engine reaches the operating system except through an [`Env`]. [`os`] is the real one; `sim`, of the
//! Cargo feature `simulation`, lives in memory, replays from a seed, and loses, tears and fails what a real machine may
//! lose, tear and fail.

pub mod buffer;
mod database_file;
mod database_files;
#[cfg(test)]
mod descriptor_tests;
mod descriptors;
mod environment;
mod file;
mod origin;
pub mod os;
mod overlay;
#[cfg(any(test, feature = "simulation"))]
pub mod sim;
#[cfg(test)]
mod tests;
mod thread;
mod transfer_batch;

use std::io;

pub use buffer::{AlignedBuffer, SECTOR_BYTES};
pub use database_files::{DESCRIPTORS_MAX, DatabaseFiles};
pub use environment::Env;
pub use file::{Access, DirEntry, File, FileLock, FileSystem, InFlight, OpenOptions, Pages, Transfer};
pub use origin::Origin;
pub use overlay::OverlayFileSystem;
pub use thread::{Clock, Next, Random, Threads, Work, Worker};

impl Env {
    /// The operating system's files, clock, threads and randomness.
    #[must_use]
    pub fn os() -> Self {
        os::env()
    }

    /// The same, with files by the standard library alone: buffered, without space that is reserved or given back, and
    /// a system call more for each durable commit. It is what [`Env::os`] is on every system but Linux.
    #[must_use]
    pub fn std() -> Self {
        os::std_env()
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
