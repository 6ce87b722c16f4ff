//! Files and directories by name, by the standard library. Where it has system calls of its own, the environment opens
//! and syncs files by them.

use super::super::file::{Access, DirEntry, File, FileLock, FileSystem, OpenOptions};
use super::super::origin::Origin;
use super::origin::origin;
use super::std_file::StdFile;
#[cfg(target_os = "linux")]
use super::{super::file::sync_each, system_calls::SystemCalls};
use std::fs::{self, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file system of the operating system.
#[derive(Debug, Default)]
pub(super) struct OsFileSystem {
    /// What it uses instead of the standard library.
    #[cfg(target_os = "linux")]
    pub(super) calls: Option<SystemCalls>,
}

#[expect(clippy::disallowed_methods, reason = "these are the files of the environment")]
fn open(options: &fs::OpenOptions, path: &Path) -> io::Result<fs::File> {
    options.open(path)
}

impl FileSystem for OsFileSystem {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        #[cfg(target_os = "linux")]
        if let Some(calls) = &self.calls {
            return Ok(Arc::new(calls.open(path, options)?));
        }
        let mut open = fs::OpenOptions::new();
        let open = match options.access {
            Access::Read => open.read(true),
            Access::Write => open.read(true).write(true),
            Access::CreateNew => open.read(true).write(true).create_new(true),
        };
        Ok(Arc::new(StdFile(self::open(open, path)?)))
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        if path.as_os_str().is_empty() || path.is_dir() {
            return Ok(());
        }
        let parent = parent(path);
        self.create_dir_all(parent)?;
        match fs::create_dir(path) {
            // Another process was faster, and may not have synced the parent yet.
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
            _ => self.sync_dir(parent),
        }
    }

    /// Names that are not UTF-8 are left out: no file of the engine has one.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            match fs::metadata(entry.path()) {
                Ok(metadata) => {
                    let is_dir = metadata.is_dir();
                    entries.push(DirEntry { name, bytes: if is_dir { 0 } else { metadata.len() }, is_dir });
                }
                // Removed since it was read.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            fs::metadata(path).map(|metadata| metadata.nlink())
        }
        #[cfg(not(unix))]
        {
            fs::metadata(path)?;
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    /// On Windows a directory cannot be synced, and the file system keeps names by a journal of its own.
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(calls) = &self.calls {
            return calls.sync_dir(dir);
        }
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

    #[cfg(target_os = "linux")]
    fn sync_files(&self, dir: &Path, names: &[String]) -> Result<(), (PathBuf, io::Error)> {
        match &self.calls {
            Some(calls) => calls.sync_files(self, dir, names),
            None => sync_each(self, dir, names),
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

    /// The process says so itself; on Linux with the name of its program.
    fn lock_holder(&self, path: &Path) -> Option<String> {
        let id: u32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
        let name = fs::read_to_string(format!("/proc/{id}/comm")).ok();
        let name = name.map(|name| name.trim().escape_debug().to_string()).filter(|name| !name.is_empty());
        Some(name.map_or_else(|| format!("process {id}"), |name| format!("process {id} ({name})")))
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

/// The directory that holds `path`.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
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
