//! Files and directories by name.

use super::super::file::{Access, DirEntry, File, FileLock, FileSystem, OpenOptions, sync_each};
use super::super::origin::Origin;
use super::file::OsFile;
use super::names;
use super::origin::origin;
use crate::base::sync::Mutex;
use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, flock, fsync, ftruncate, link, openat, rename, statvfs, syncfs, unlink,
};
use rustix::io::{Errno, pwrite, retry_on_intr};
use rustix::system::uname;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// From this number of files on, one sync of the whole file system is faster than one of each, each of which waits for
/// the device. It also writes what other programs have written there.
const SYNC_TOGETHER: usize = 64;

/// The file system of the operating system.
#[derive(Debug)]
pub(super) struct OsFileSystem {
    /// Whether small direct reads are waited for awake.
    polls: bool,
    /// Given up for the sync of a directory when the process has no other descriptor: the caller has made names there
    /// by then, and would not know whether they are durable.
    spare: Mutex<Option<OwnedFd>>,
}

impl OsFileSystem {
    pub(super) fn new(polls: bool) -> Self {
        Self { polls, spare: Mutex::new(spare()) }
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

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let flags = match options.access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
            Access::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
        };
        Ok(Arc::new(OsFile::new(open(path, flags)?, options.direct, self.polls)?))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        names::create_dir_all(path, &|dir| self.sync_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        names::list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rename(from, to)?)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(link(from, to)?)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        names::link_count(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Ok(unlink(path)?)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.with_dir(dir, |fd| match retry_on_intr(|| fsync(&fd)) {
            // A file system that has no sync of directories says so; there is nothing more that could be done.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(error) => Err(error.into()),
        })
    }

    fn sync_files(&self, dir: &Path, names: &[String]) -> Result<(), (PathBuf, io::Error)> {
        if names.len() < SYNC_TOGETHER || !tells_sync_errors() {
            return sync_each(self, dir, names);
        }
        let synced = self.with_dir(dir, |fd| Ok(retry_on_intr(|| syncfs(&fd))?));
        synced.map_err(|error| (dir.to_owned(), error))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let fd = open(path, OFlags::RDWR | OFlags::CREATE)?;
        retry_on_intr(|| flock(&fd, FlockOperation::NonBlockingLockExclusive))?;
        // Only to tell others who holds it: that it cannot be written, on a full disk, changes nothing.
        let id = std::process::id().to_string();
        let _told = ftruncate(&fd, 0).and_then(|()| pwrite(&fd, id.as_bytes(), 0));
        Ok(Box::new(OsLock { fd, origin: origin() }))
    }

    fn lock_holder(&self, path: &Path) -> Option<String> {
        names::lock_holder(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let fd = open(path, OFlags::RDONLY)?;
        retry_on_intr(|| flock(&fd, FlockOperation::NonBlockingLockShared))?;
        Ok(Box::new(OsLock { fd, origin: origin() }))
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let fd = open(path, OFlags::RDONLY)?;
        match retry_on_intr(|| flock(&fd, FlockOperation::NonBlockingLockExclusive)) {
            Ok(()) => {
                // Closing is not enough while a child that was just forked still shares the open file.
                flock(&fd, FlockOperation::Unlock)?;
                Ok(false)
            }
            Err(Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = retry_on_intr(|| statvfs(dir))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }
}

/// Whether the kernel tells by syncfs(2) that a write of a file failed: since Linux 5.8.
fn tells_sync_errors() -> bool {
    let name = uname();
    let mut numbers = name.release().to_str().unwrap_or_default().split(|char: char| !char.is_ascii_digit());
    let mut number = || numbers.next().and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    (number(), number()) >= (5, 8)
}

/// A lock by flock(2), which belongs to the open file and so also keeps a second handle of the same process out.
#[derive(Debug)]
struct OsLock {
    fd: OwnedFd,
    origin: Origin,
}

impl FileLock for OsLock {}

impl Drop for OsLock {
    fn drop(&mut self) {
        // The open file is shared with the process that this one was forked from, and the lock is that one's.
        if !self.origin.is_here() {
            return;
        }
        // Closing is not enough while a child that was just forked still shares the open file. It cannot fail on a
        // locked file, and if it did, closing would be the next best.
        let _unlocked = flock(&self.fd, FlockOperation::Unlock);
    }
}

fn open(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    // The process's umask takes away from this what it wants.
    let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH;
    Ok(retry_on_intr(|| openat(CWD, path, flags | OFlags::CLOEXEC, mode))?)
}
