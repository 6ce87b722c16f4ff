//! Files and directories by the standard library alone: what the environment has where it knows no system calls of its
//! own. Files are buffered; space is not reserved, and that of freed blocks is not given back.

use super::super::file::{Access, DirEntry, File, FileLock, FileSystem, OpenOptions};
use super::super::origin::Origin;
use super::names;
use super::origin::origin;
use crate::base::num::u64_of;
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of the operating system, by the standard library.
#[derive(Debug)]
pub(super) struct StdFileSystem;

#[expect(clippy::disallowed_methods, reason = "these are the files of the environment")]
fn open(options: &fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    options.open(path)
}

impl FileSystem for StdFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let mut open = fs::OpenOptions::new();
        let open = match options.access {
            Access::Read => open.read(true),
            Access::Write => open.read(true).write(true),
            Access::CreateNew => open.read(true).write(true).create_new(true),
        };
        Ok(Arc::new(StdFile(self::open(open, path)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        names::create_dir_all(path, &|dir| self.sync_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        names::list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        names::link_count(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// On Windows a directory cannot be synced, and the file system keeps names by a journal of its own.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if cfg!(windows) {
            return Ok(());
        }
        let dir = open(fs::OpenOptions::new().read(true), dir)?;
        if !dir.metadata()?.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        match dir.sync_all() {
            // A file system that has no sync of directories says so; there is nothing more that could be done.
            Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(error),
            _ => Ok(()),
        }
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = open(fs::OpenOptions::new().read(true).write(true).create(true).truncate(false), path)?;
        match file.try_lock() {
            Ok(()) => {
                // Where a lock keeps others from reading the file too, they are not told.
                #[cfg(unix)]
                let _told = file.set_len(0).and_then(|()| io::Write::write_all(&mut &file, process_id().as_bytes()));
                Ok(Box::new(StdLock { file, origin: origin() }))
            }
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn lock_holder(&self, path: &Path) -> Option<String> {
        names::lock_holder(path)
    }

    /// Elsewhere a shared lock keeps the process that has the database open from writing the file.
    #[cfg(unix)]
    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        let file = open(fs::OpenOptions::new().read(true), path)?;
        match file.try_lock_shared() {
            Ok(()) => Ok(Box::new(StdLock { file, origin: origin() })),
            Err(TryLockError::WouldBlock) => Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    #[cfg(unix)]
    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        let file = open(fs::OpenOptions::new().read(true), path)?;
        match file.try_lock() {
            Ok(()) => file.unlock().map(|()| false),
            Err(TryLockError::WouldBlock) => Ok(true),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    #[cfg(unix)]
    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::io::retry_on_intr(|| rustix::fs::statvfs(dir))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    /// The standard library cannot tell: a disk is taken for large, and says itself when it is full.
    #[cfg(not(unix))]
    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        std::path::absolute(path)
    }
}

/// What a lock file says of the process that holds it.
#[cfg(unix)]
fn process_id() -> String {
    std::process::id().to_string()
}

#[derive(Debug)]
struct StdFile(fs::File);

impl StdFile {
    /// Reads by one call.
    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(&self.0, buffer, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(&self.0, buffer, offset);
    }

    /// Writes by one call, perhaps a part.
    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_at(&self.0, bytes, offset);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_write(&self.0, bytes, offset);
    }
}

impl File for StdFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..], offset + u64_of(filled)) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes, offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    offset += u64_of(written);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)?;
        self.sync()
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        if self.len()? < bytes {
            self.set_len(bytes)?;
        }
        Ok(false)
    }

    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn alignment(&self) -> usize {
        1
    }

    fn read_alignment(&self) -> usize {
        1
    }
}

/// A lock that belongs to the open file, and so also keeps a second handle of the same process out.
#[derive(Debug)]
struct StdLock {
    file: fs::File,
    origin: Origin,
}

impl FileLock for StdLock {}

impl Drop for StdLock {
    fn drop(&mut self) {
        // The open file is shared with the process that this one was forked from, and the lock is that one's.
        if self.origin.is_here() {
            // Closing is not enough while a child that was just forked still shares the open file. If this fails,
            // closing is the next best.
            let _unlocked = self.file.unlock();
        }
    }
}
