//! The operating system's files, clock, threads and randomness: by system calls on Linux, where files are direct, space
//! is reserved and given back, and pages of the log are mapped; by the standard library elsewhere.
//!
//! The only module of the engine that calls the operating system.

pub mod allocator;
#[cfg(target_os = "linux")]
mod file;
mod fs;
#[cfg(target_os = "linux")]
mod mapped;
mod origin;
#[cfg(all(target_os = "linux", feature = "io-uring"))]
mod ring;
mod std_file;
#[cfg(target_os = "linux")]
mod system_calls;
mod thread;

/// Stands for the rings in a build without them: nothing polls then.
#[cfg(all(target_os = "linux", not(feature = "io-uring")))]
mod ring {
    use std::os::fd::BorrowedFd;

    pub(super) const BYTES_MAX: usize = 64 << 10;

    pub(super) fn read(file: BorrowedFd<'_>, buffer: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
        rustix::io::pread(file, buffer, offset)
    }
}

use super::environment::Env;
use super::thread::{Clock, Random};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The real environment.
#[must_use]
pub fn env() -> Env {
    #[cfg(target_os = "linux")]
    return with_calls(false);
    #[cfg(not(target_os = "linux"))]
    return std_env();
}

/// The real environment, with files by the standard library alone.
#[must_use]
pub fn std_env() -> Env {
    env_with(fs::OsFileSystem::default())
}

/// The real environment, in which threads stay awake for small direct reads (see [`Env::os_polling`]).
///
/// # Errors
/// As [`Env::os_polling`].
pub fn polling() -> io::Result<Env> {
    #[cfg(all(target_os = "linux", feature = "io-uring"))]
    return ring::check().map(|()| with_calls(true));
    #[cfg(not(all(target_os = "linux", feature = "io-uring")))]
    return Err(io::Error::new(
        io::ErrorKind::Unsupported,
        "reads cannot be polled for: build spinney for Linux, with its Cargo feature `io-uring`",
    ));
}

#[cfg(target_os = "linux")]
fn with_calls(polls: bool) -> Env {
    env_with(fs::OsFileSystem { calls: Some(system_calls::SystemCalls::new(polls)) })
}

fn env_with(fs: fs::OsFileSystem) -> Env {
    Env {
        fs: Arc::new(fs),
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
    #[cfg(target_os = "linux")]
    fn next(&self) -> u64 {
        use rustix::rand::{GetRandomFlags, getrandom};

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

    /// The standard library seeds its hash maps with the system's randomness.
    #[cfg(not(target_os = "linux"))]
    fn next(&self) -> u64 {
        use std::hash::{BuildHasher, Hasher, RandomState};

        RandomState::new().build_hasher().finish()
    }
}

#[cfg(all(test, target_os = "linux"))]
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
