//! The files that one open of a database uses. They are closed all at once, also those that a reader still holds, and
//! refuse calls in a forked child.
//!
//! # Invariants
//! 1. When [`DatabaseFiles::revoke`] has returned, no call to one of the files is under way and none will be made;
//!    their descriptors are closed, and no helper is left.
//! 2. In a process that was forked from the process that opened the database, no call reaches the file system.

use super::environment::Env;
use super::file::{DirEntry, File, FileLock, FileSystem, InFlight, OpenOptions, Pages, Transfer};
use super::origin::Origin;
use super::thread::Threads;
use super::transfer_batch::{Batch, Helpers};
use crate::base::sync::{Mutex, RwLock};
use crate::base::{Error, ErrorKind, Result};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

/// A file system for one open of a database.
#[derive(Debug)]
pub struct DatabaseFiles {
    /// `None` once the files are revoked: it holds a descriptor too. A thread that opens a file looks at it again under
    /// the latch of `files`, from which the files are then revoked.
    fs: RwLock<Option<Arc<dyn FileSystem>>>,
    threads: Arc<dyn Threads>,
    origin: Origin,
    helpers: Helpers,
    files: Mutex<Vec<Weak<DatabaseFile>>>,
    this: Weak<Self>,
}

/// An open file, until it is revoked.
#[derive(Debug)]
struct DatabaseFile {
    /// Held for reading during each call, so that to revoke it waits for these.
    file: RwLock<Option<Arc<dyn File>>>,
    files: Arc<DatabaseFiles>,
}

impl DatabaseFiles {
    /// The environment with files that can be revoked.
    ///
    /// # Errors
    /// `Forked` where the process was forked from one that had a database open.
    pub fn of(env: Env) -> Result<(Env, Arc<Self>)> {
        if env.threads.has_lost_workers() {
            let message = "this process was forked from one that had a database open, whose threads hold locks that nobody lets go here: \
                           fork before a database is opened or after it is closed, or run another program in the child";
            return Err(Error::new(ErrorKind::Forked, message));
        }
        let files = Arc::new_cyclic(|this| Self {
            fs: RwLock::new(Some(Arc::clone(&env.fs))),
            threads: Arc::clone(&env.threads),
            origin: env.threads.origin(),
            helpers: Helpers::new(Arc::clone(&env.threads)),
            files: Mutex::default(),
            this: Weak::clone(this),
        });
        Ok((Env { fs: Arc::<Self>::clone(&files), ..env }, files))
    }

    /// Closes all files and ends the helpers. Every later call fails with an error that says that the database was
    /// closed.
    pub fn revoke(&self) {
        drop(self.fs.write().take());
        let files = std::mem::take(&mut *self.files.lock());
        for file in files.iter().filter_map(Weak::upgrade) {
            drop(file.file.write().take());
        }
        self.helpers.end();
    }

    /// The file system, until the files are revoked.
    fn fs(&self) -> io::Result<Arc<dyn FileSystem>> {
        self.origin.check_io()?;
        self.fs.read().clone().ok_or_else(closed)
    }
}

#[cold]
fn closed() -> io::Error {
    io::Error::other(Error::new(ErrorKind::Closed, "the database was closed"))
}

impl FileSystem for DatabaseFiles {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        let file = self.fs()?.open(path, options)?;
        let files = self.this.upgrade().ok_or_else(closed)?;
        let file = Arc::new(DatabaseFile { file: RwLock::new(Some(file)), files });
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

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.fs()?.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.fs()?.sync_dir(dir)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        self.fs()?.lock(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.fs()?.free_bytes(dir)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.fs()?.absolute(path)
    }
}

impl DatabaseFile {
    /// Makes a call.
    fn call<T>(&self, call: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        self.files.origin.check_io()?;
        match &*self.file.read() {
            Some(file) => call(&**file),
            None => Err(closed()),
        }
    }
}

impl File for DatabaseFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(|file| file.read_at(buffer, offset))
    }

    fn read_many(&self, reads: &mut [Transfer]) {
        let file = self.file.read().clone();
        match (reads, file) {
            // One thread does everything.
            (reads, Some(file)) if !self.files.threads.concurrent() => file.read_many(reads),
            (reads, None) => reads.iter_mut().for_each(Transfer::make),
            (reads, _) if reads.len() < 2 => reads.iter_mut().for_each(Transfer::make),
            (reads, _) => {
                let taken = reads.iter_mut().map(Transfer::take).collect();
                let batch = Batch::begin(taken, &self.files.helpers, reads.len() - 1);
                reads.iter_mut().zip(batch.end()).for_each(|(read, made)| *read = made);
            }
        }
    }

    fn begin(&self, transfer: Transfer) -> InFlight {
        match (self.alignment() > 1, transfer.is_write()) {
            _ if !self.files.threads.concurrent() => {
                let file = self.file.read().clone();
                match file {
                    Some(file) => file.begin(transfer),
                    None => InFlight::due(transfer),
                }
            }
            // Through the page cache the kernel writes behind and reads ahead by itself, and a copy is not worth a
            // thread's being woken.
            (false, true) => InFlight::made(transfer),
            (false, false) => InFlight::due(transfer),
            (true, _) => {
                let batch = Batch::begin(vec![transfer], &self.files.helpers, 1);
                InFlight::until(|| batch.end().pop().expect("a batch of one"))
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call(|file| file.write_at(bytes, offset))
    }

    fn map(&self, range: Range<u64>) -> Option<Box<dyn Pages>> {
        self.call(|file| Ok(file.map(range))).ok().flatten()
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.call(|file| file.write_durable_at(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        self.call(|file| file.sync())
    }

    fn len(&self) -> io::Result<u64> {
        self.call(|file| file.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.call(|file| file.set_len(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        self.call(|file| file.allocate(bytes))
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.call(|file| file.punch_hole(offset, bytes))
    }

    fn alignment(&self) -> usize {
        self.file.read().as_ref().map_or(1, |file| file.alignment())
    }

    fn read_alignment(&self) -> usize {
        self.file.read().as_ref().map_or(1, |file| file.read_alignment())
    }
}
