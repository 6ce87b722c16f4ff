//! The operating system's files, clock, threads and randomness (Linux).
//!
//! The only module of the engine that calls the operating system.

mod file;
mod fs;
mod mapped;
mod origin;
#[cfg(feature = "io-uring")]
mod ring;
mod thread;

/// Stands for the rings in a build without them: nothing polls then.
#[cfg(not(feature = "io-uring"))]
mod ring {
    use std::io;
    use std::os::fd::BorrowedFd;

    pub(super) const BYTES_MAX: usize = 64 << 10;

    pub(super) fn check() -> io::Result<()> {
        let message = "reads cannot be polled for: build spinney with its Cargo feature `io-uring`";
        Err(io::Error::new(io::ErrorKind::Unsupported, message))
    }

    pub(super) fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
        rustix::io::pread(file, buffer, offset)
    }
}

#[cfg(not(target_os = "linux"))]
compile_error!("env/os knows how to make bytes durable on Linux only");

use super::environment::Env;
use super::thread::{Clock, Random};
use rustix::rand::{GetRandomFlags, getrandom};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The real environment.
#[must_use]
pub fn env() -> Env {
    env_with(false)
}

/// The real environment, in which threads stay awake for small direct reads (see [`Env::os_polling`]).
///
/// # Errors
/// As [`Env::os_polling`].
pub fn polling() -> io::Result<Env> {
    ring::check()?;
    Ok(env_with(true))
}

fn env_with(polls: bool) -> Env {
    Env {
        fs: Arc::new(fs::OsFileSystem::new(polls)),
        clock: Arc::new(OsClock::start()),
        threads: Arc::new(thread::OsThreads),
        random: Arc::new(OsRandom),
    }
}

#[derive(Debug)]
struct OsClock {
    start: Instant,
}

impl OsClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock of the environment")]
    fn start() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for OsClock {
    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the clock of the environment")]
    fn wall(&self) -> Duration {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

#[derive(Debug)]
struct OsRandom;

impl Random for OsRandom {
    fn next(&self) -> u64 {
        let mut bytes = [0; 8];
        loop {
            // Up to 256 bytes come whole or not at all; a signal can only interrupt the wait for the first seed after
            // boot.
            match getrandom(&mut bytes, GetRandomFlags::empty()) {
                Ok(8) => return u64::from_ne_bytes(bytes),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => panic!("the kernel has no randomness: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, OpenOptions};
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    #[test]
    fn a_file_system_that_refuses_direct_io_gives_a_buffered_file() {
        // The process file system never does direct I/O.
        let options = OpenOptions { access: Access::Read, direct: true };
        let file = env().fs.open(Path::new("/proc/self/cmdline"), options).unwrap();
        assert_eq!(file.alignment(), 1);
        assert!(file.read_at(&mut [0; 100], 0).unwrap() > 0);
    }

    #[test]
    fn allocated_space_is_taken_and_punched_space_is_given_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let file = env().fs.open(&path, OpenOptions { access: Access::CreateNew, direct: false }).unwrap();
        let space = || std::fs::metadata(&path).unwrap().blocks() * 512;
        file.allocate(1 << 20).unwrap();
        assert!(space() >= 1 << 20);
        file.punch_hole(0, 1 << 20).unwrap();
        assert!(space() < 1 << 20);
        assert_eq!(file.len().unwrap(), 1 << 20);
    }

    #[test]
    fn the_working_directory_needs_no_creation() {
        env().fs.create_dir_all(Path::new("")).unwrap();
        env().fs.create_dir_all(Path::new(".")).unwrap();
    }
}
