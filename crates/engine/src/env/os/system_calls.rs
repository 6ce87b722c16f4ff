//! What the environment does by system calls on Linux: files are opened for direct I/O, and syncs of directories do
//! without descriptors of their own and take in many files.

use super::super::file::{Access, FileSystem, OpenOptions, sync_each};
use super::file::OsFile;
use crate::base::sync::Mutex;
use rustix::fs::{CWD, Mode, OFlags, fsync, openat, syncfs};
use rustix::io::{Errno, retry_on_intr};
use rustix::system::uname;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// From this number of files on, one sync of the whole file system is faster than one of each, each of which waits for
/// the device. It also writes what other programs have written there.
const SYNC_TOGETHER: usize = 64;

/// Opens and syncs files by system calls.
#[derive(Debug)]
pub(super) struct SystemCalls {
    /// Whether small direct reads are waited for awake.
    polls: bool,
    /// Given up for the sync of a directory when the process has no other descriptor: the caller has made names there
    /// by then, and would not know whether they are durable.
    spare: Mutex<Option<OwnedFd>>,
}

impl SystemCalls {
    pub(super) fn new(polls: bool) -> Self {
        Self { polls, spare: Mutex::new(spare()) }
    }

    pub(super) fn open(&self, path: &Path, options: OpenOptions) -> io::Result<OsFile> {
        let flags = match options.access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        OsFile::new(open(path, flags)?, options.direct, self.polls)
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with_dir(dir, |fd| match retry_on_intr(|| fsync(&fd)) {
            // A file system that has no sync of directories says so; there is nothing more that could be done.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        })
    }

    /// As [`FileSystem::sync_files`], of the files of `fs`.
    pub(super) fn sync_files(
        &self,
        fs: &impl FileSystem,
        dir: &Path,
        names: &[String],
    ) -> Result<(), (PathBuf, io::Error)> {
        if names.len() < SYNC_TOGETHER || !tells_sync_errors() {
            return sync_each(fs, dir, names);
        }
        let synced = self.with_dir(dir, |fd| Ok(retry_on_intr(|| syncfs(&fd))?));
        synced.map_err(|error| (dir.to_owned(), error))
    }

    /// Has `act` use the directory's descriptor.
    fn with_dir<T>(&self, dir: &Path, act: impl FnOnce(OwnedFd) -> io::Result<T>) -> io::Result<T> {
        let opened = || open(dir, OFlags::RDONLY | OFlags::DIRECTORY);
        let error = match opened() {
            Ok(fd) => return act(fd),
            Err(error) => error,
        };
        let of_descriptors = [Errno::MFILE, Errno::NFILE].map(Errno::raw_os_error);
        if !error.raw_os_error().is_some_and(|code| of_descriptors.contains(&code)) {
            return Err(error);
        }
        let mut held = self.spare.lock();
        drop(held.take());
        let acted = opened().and_then(act);
        *held = spare();
        acted
    }
}

/// A descriptor of something that is always there.
fn spare() -> Option<OwnedFd> {
    open(Path::new("/"), OFlags::PATH).ok()
}

/// Whether the kernel tells by syncfs(2) that a write of a file failed: since Linux 5.8.
fn tells_sync_errors() -> bool {
    let name = uname();
    let mut numbers = name.release().to_str().unwrap_or_default().split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (5, 8)
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // The process's umask takes away from this what it wants.
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    Ok(retry_on_intr(|| openat(CWD, path, flags | OFlags::CLOEXEC, mode))?)
}
