//! The files that one open of a database uses. They are closed all at once, also those that a reader still holds, and
//! refuse calls in a forked child.
//!
//! Files that are opened with [`FileSystem::open_lazily`] share a bounded number of descriptors.
//!
//! # Invariants
//! 1. When [`DatabaseFiles::revoke`] has returned, no call to one of the files is under way and none will be made;
//!    their descriptors are closed, and no helper is left.
//! 2. In a process that was forked from the process that opened the database, no call reaches the file system.

use super::database_file::{DatabaseFile, Shared};
use super::descriptors::Descriptors;
use super::environment::Env;
use super::file::{DirEntry, File, FileLock, FileSystem, OpenOptions};
use super::transfer_batch::Helpers;
use crate::base::sync::{Mutex, RwLock};
use crate::base::{Error, ErrorKind, Result};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// The number of descriptors that files share which are opened lazily. Half of what a process may have by default on
/// Linux (1024), so that the log, and what else the program has, find some; and enough that the files which reads use
/// at a time seldom have to be opened again.
pub const DESCRIPTORS_MAX: usize = 512;

/// A file system for one open of a database.
#[derive(Debug)]
pub struct DatabaseFiles {
    /// A thread that opens a file looks at the file system again under the latch of `files`, from which the files are
    /// then revoked.
    shared: Arc<Shared>,
    files: Mutex<Vec<Weak<DatabaseFile>>>,
}

impl DatabaseFiles {
    /// The environment with files that can be revoked.
    ///
    /// # Errors
    /// `Forked` where the process was forked from one that had a database open.
    pub fn of(env: Env) -> Result<(Env, Arc<Self>)> {
        Self::with_descriptors(env, DESCRIPTORS_MAX)
    }

    /// As [`Self::of`], with this many descriptors for the files that are opened lazily.
    ///
    /// # Errors
    /// As [`Self::of`].
    pub fn with_descriptors(env: Env, descriptors: usize) -> Result<(Env, Arc<Self>)> {
        if env.threads.has_lost_workers() {
            let message = "this process was forked from one that had a database open, whose threads hold locks that nobody lets go here: \
                           fork before a database is opened or after it is closed, or run another program in the child";
            return Err(Error::new(ErrorKind::Forked, message));
        }
        let shared = Arc::new(Shared {
            fs: RwLock::new(Some(Arc::clone(&env.fs))),
            threads: Arc::clone(&env.threads),
            origin: env.threads.origin(),
            helpers: Helpers::new(Arc::clone(&env.threads)),
            descriptors: Descriptors::new(descriptors),
            lazy: Mutex::default(),
        });
        let files = Arc::new(Self { shared, files: Mutex::default() });
        Ok((Env { fs: Arc::<Self>::clone(&files), ..env }, files))
    }

    /// Closes all files and ends the helpers. Every later call fails with an error that says that the database was
    /// closed.
    pub fn revoke(&self) {
        drop(self.shared.fs.write().take());
        let files = std::mem::take(&mut *self.files.lock());
        let lazy = std::mem::take(&mut *self.shared.lazy.lock());
        for file in files.iter().chain(lazy.values().flatten()).filter_map(Weak::upgrade) {
            file.revoke();
        }
        self.shared.helpers.end();
    }

    /// How many descriptors the files have that were opened lazily.
    #[must_use]
    pub fn descriptors(&self) -> usize {
        self.shared.descriptors.open()
    }

    /// The file system, until the files are revoked.
    fn fs(&self) -> io::Result<Arc<dyn FileSystem>> {
        self.shared.fs()
    }

    /// Has the files of a name that is about to be removed stay open as long as they are held.
    fn keep_open(&self, path: &Path) -> io::Result<()> {
        self.held([path.to_owned()].into_iter()).iter().try_for_each(|file| file.keep_open())
    }

    /// The files of these paths that were opened lazily.
    fn held(&self, paths: impl Iterator<Item = PathBuf>) -> Vec<Arc<DatabaseFile>> {
        let lazy = self.shared.lazy.lock();
        paths.filter_map(|path| lazy.get(&path)).flatten().filter_map(Weak::upgrade).collect()
    }
}

impl FileSystem for DatabaseFiles {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = DatabaseFile::open(self.fs()?.open(path, options)?, Arc::clone(&self.shared));
        let mut open = self.files.lock();
        drop(self.fs()?);
        if open.len() == open.capacity() {
            open.retain(|file| file.strong_count() > 0);
            let more = open.len() + 1;
            open.reserve(more);
        }
        open.push(Arc::downgrade(&file));
        Ok(file)
    }

    fn open_lazily(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = DatabaseFile::lazy(path, options, Arc::clone(&self.shared));
        let mut lazy = self.shared.lazy.lock();
        drop(self.fs()?);
        lazy.entry(path.to_owned()).or_default().push(Arc::downgrade(&file));
        Ok(file)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.fs()?.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.fs()?.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs()?.rename(from, to)
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.fs()?.hard_link(from, to)
    }

    fn link_count(&self, path: &Path) -> io::Result<u64> {
        self.fs()?.link_count(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.keep_open(path)?;
        self.fs()?.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs()?.sync_dir(dir)
    }

    fn sync_files(&self, dir: &Path, names: &[String]) -> std::result::Result<(), (PathBuf, io::Error)> {
        let fs = self.fs().map_err(|error| (dir.to_owned(), error))?;
        let unsynced = self.held(names.iter().map(|name| dir.join(name)));
        unsynced.iter().for_each(|file| file.mark_unsynced(false));
        fs.sync_files(dir, names).inspect_err(|_| unsynced.iter().for_each(|file| file.mark_unsynced(true)))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.fs()?.lock(path)
    }

    fn lock_holder(&self, path: &Path) -> Option<String> {
        self.fs().ok()?.lock_holder(path)
    }

    fn lock_shared(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.fs()?.lock_shared(path)
    }

    fn is_locked(&self, path: &Path) -> io::Result<bool> {
        self.fs()?.is_locked(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.fs()?.free_bytes(dir)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs()?.absolute(path)
    }
}
