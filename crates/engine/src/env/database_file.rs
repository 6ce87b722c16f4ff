//! A file of an open database, until it is revoked. It may be opened at its first use, and closed and opened again
//! between uses.
//!
//! # Invariants
//! 1. A file with bytes that were written and not synced stays open: what the sync says is of all writes to it.
//! 2. A file whose name is about to be removed while it is held is open from then on: no other name leads to it.

use std::collections::HashMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use super::buffer::SECTOR_BYTES;
use super::descriptors::{Closable, Descriptors};
use super::file::{File, FileSystem, InFlight, OpenOptions, Pages, Transfer};
use super::origin::Origin;
use super::thread::Threads;
use super::transfer_batch::{Batch, Helpers};
use crate::base::sync::{Mutex, RwLock};
use crate::base::{Error, ErrorKind};

/// What all files of a database share.
#[derive(Debug)]
pub(super) struct Shared {
    /// `None` once the files are revoked: it holds a descriptor too.
    pub(super) fs: RwLock<Option<Arc<dyn FileSystem>>>,
    pub(super) threads: Arc<dyn Threads>,
    pub(super) origin: Origin,
    pub(super) helpers: Helpers,
    pub(super) descriptors: Descriptors,
    /// The files that are opened at their first use.
    pub(super) lazy: Mutex<HashMap<PathBuf, Vec<Weak<DatabaseFile>>>>,
}

impl Shared {
    /// The file system, until the files are revoked.
    pub(super) fn fs(&self) -> io::Result<Arc<dyn FileSystem>> {
        self.origin.check_io()?;
        self.fs.read().clone().ok_or_else(closed)
    }
}

#[cold]
pub(super) fn closed() -> io::Error {
    io::Error::other(Error::new(ErrorKind::Closed, "the database was closed"))
}

/// A file, until it is revoked.
#[derive(Debug)]
pub(super) struct DatabaseFile {
    /// Held for reading during each call, so that to close or revoke it waits for these.
    slot: RwLock<Slot>,
    shared: Arc<Shared>,
    /// Of a file that is opened at its first use.
    lazy: Option<Lazy>,
}

#[derive(Debug)]
enum Slot {
    Open(Arc<dyn File>),
    /// The next call opens it.
    Closed,
    Revoked,
}

/// How a file is opened, and what is known of its use.
#[derive(Debug)]
struct Lazy {
    path: PathBuf,
    options: OpenOptions,
    this: Weak<DatabaseFile>,
    /// Its alignment for writes and reads, from the first opening on.
    alignment: OnceLock<(usize, usize)>,
    /// A call was made since the clock came by. Steers only.
    used: AtomicBool,
    /// Bytes may have been written that no sync has made durable.
    is_unsynced: AtomicBool,
    /// The name is gone, or about to go.
    is_nameless: AtomicBool,
}

impl DatabaseFile {
    /// A file that is open.
    pub(super) fn open(file: Arc<dyn File>, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { slot: RwLock::new(Slot::Open(file)), shared, lazy: None })
    }

    /// A file that its first use opens.
    pub(super) fn lazy(path: &Path, options: OpenOptions, shared: Arc<Shared>) -> Arc<Self> {
        let is = || AtomicBool::new(false);
        Arc::new_cyclic(|this| {
            let (this, path) = (Weak::clone(this), path.to_owned());
            let (used, is_unsynced, is_nameless) = (is(), is(), is());
            let lazy = Lazy { path, options, this, alignment: OnceLock::new(), used, is_unsynced, is_nameless };
            Self { slot: RwLock::new(Slot::Closed), shared, lazy: Some(lazy) }
        })
    }

    /// Closes the file for good.
    pub(super) fn revoke(&self) {
        let slot = std::mem::replace(&mut *self.slot.write(), Slot::Revoked);
        self.count_closed(&slot);
    }

    fn count_closed(&self, slot: &Slot) {
        if self.lazy.is_some() && matches!(slot, Slot::Open(_)) {
            self.shared.descriptors.closed();
        }
    }

    /// Opens the file if need be, and keeps it open from now on: its name is about to be removed.
    pub(super) fn keep_open(&self) -> io::Result<()> {
        let Some(lazy) = &self.lazy else { return Ok(()) };
        lazy.is_nameless.store(true, Ordering::Relaxed);
        match self.call(|_| Ok(())) {
            // There never was one, or its name is gone already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            kept => kept,
        }
    }

    /// Makes a call.
    fn call<T>(&self, call: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        self.shared.origin.check_io()?;
        let slot = self.slot.read();
        if let Slot::Open(file) = &*slot {
            if let Some(lazy) = &self.lazy {
                lazy.mark_used();
            }
            return call(&**file);
        }
        drop(slot);
        self.open_and_call(call)
    }

    #[cold]
    fn open_and_call<T>(&self, call: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        let mut slot = self.slot.write();
        let (file, is_new) = match (&*slot, &self.lazy) {
            (Slot::Open(file), _) => (Arc::clone(file), false),
            (Slot::Closed, Some(lazy)) => (lazy.open(&self.shared)?, true),
            _ => return Err(closed()),
        };
        *slot = Slot::Open(Arc::clone(&file));
        let called = call(&*file);
        drop((slot, file));
        if let Some(lazy) = self.lazy.as_ref().filter(|_| is_new) {
            lazy.mark_used();
            let this: Weak<Self> = Weak::clone(&lazy.this);
            self.shared.descriptors.opened(this);
        }
        called
    }

    /// The open file; a call opens it.
    fn file(&self) -> Option<Arc<dyn File>> {
        if let Slot::Open(file) = &*self.slot.read() {
            return Some(Arc::clone(file));
        }
        self.call(|_| Ok(())).ok()?;
        match &*self.slot.read() {
            Slot::Open(file) => Some(Arc::clone(file)),
            _ => None,
        }
    }

    /// As [`Self::call`], of a call that writes.
    fn change<T>(&self, call: impl FnOnce(&dyn File) -> io::Result<T>) -> io::Result<T> {
        self.mark_unsynced(true);
        self.call(call)
    }

    /// Says whether bytes may have been written that no sync has made durable.
    pub(super) fn mark_unsynced(&self, is_unsynced: bool) {
        self.lazy.iter().for_each(|lazy| lazy.is_unsynced.store(is_unsynced, Ordering::Relaxed));
    }

    /// The alignment for writes and reads. Where the file cannot be opened, what fits every file: the call that comes
    /// next tells.
    fn alignments(&self) -> (usize, usize) {
        let of = |file: &dyn File| (file.alignment(), file.read_alignment());
        match &self.lazy {
            None => match &*self.slot.read() {
                Slot::Open(file) => of(&**file),
                _ => (1, 1),
            },
            Some(lazy) => match lazy.alignment.get() {
                Some(alignment) => *alignment,
                None => self.call(|file| Ok(of(file))).unwrap_or((SECTOR_BYTES, SECTOR_BYTES)),
            },
        }
    }
}

impl Lazy {
    fn mark_used(&self) {
        // Mostly it is: a look leaves the line where it is.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    fn open(&self, shared: &Shared) -> io::Result<Arc<dyn File>> {
        let file = shared.fs()?.open(&self.path, self.options)?;
        self.alignment.get_or_init(|| (file.alignment(), file.read_alignment()));
        Ok(file)
    }
}

impl Closable for DatabaseFile {
    fn was_used(&self) -> bool {
        self.lazy.as_ref().is_some_and(|lazy| lazy.used.swap(false, Ordering::Relaxed))
    }

    fn close(&self) -> bool {
        let Some(lazy) = &self.lazy else { return false };
        let must_stay = || lazy.is_unsynced.load(Ordering::Relaxed) || lazy.is_nameless.load(Ordering::Relaxed);
        if must_stay() {
            return false;
        }
        let mut slot = self.slot.write();
        // Marked before the call that opened it, which the latch has waited for.
        if must_stay() {
            return false;
        }
        if !matches!(*slot, Slot::Open(_)) {
            // Nothing is to be closed, and the clock need not come by again.
            return true;
        }
        let open = std::mem::replace(&mut *slot, Slot::Closed);
        drop(slot);
        self.count_closed(&open);
        true
    }
}

impl Drop for DatabaseFile {
    fn drop(&mut self) {
        let Some(lazy) = &self.lazy else { return };
        self.count_closed(&self.slot.read());
        let mut files = self.shared.lazy.lock();
        if let Some(handles) = files.get_mut(&lazy.path) {
            handles.retain(|handle| handle.strong_count() > 0);
            if handles.is_empty() {
                files.remove(&lazy.path);
            }
        }
    }
}

impl File for DatabaseFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.call(|file| file.read_at(buffer, offset))
    }

    fn read_many(&self, reads: &mut [Transfer]) {
        match reads {
            // One thread does everything.
            reads if !self.shared.threads.concurrent() => match self.file() {
                Some(file) => file.read_many(reads),
                None => reads.iter_mut().for_each(Transfer::make),
            },
            reads if reads.len() < 2 => reads.iter_mut().for_each(Transfer::make),
            reads => {
                let taken = reads.iter_mut().map(Transfer::take).collect();
                let batch = Batch::begin(taken, &self.shared.helpers, reads.len() - 1);
                reads.iter_mut().zip(batch.end()).for_each(|(read, made)| *read = made);
            }
        }
    }

    fn begin(&self, transfer: Transfer) -> InFlight {
        if transfer.is_write() {
            self.mark_unsynced(true);
        }
        match (self.alignment() > 1, transfer.is_write()) {
            _ if !self.shared.threads.concurrent() => match self.file() {
                Some(file) => file.begin(transfer),
                None => InFlight::due(transfer),
            },
            // Through the page cache the kernel writes behind and reads ahead by itself, and a copy is not worth a
            // thread's being woken.
            (false, true) => InFlight::made(transfer),
            (false, false) => InFlight::due(transfer),
            (true, _) => {
                let batch = Batch::begin(vec![transfer], &self.shared.helpers, 1);
                InFlight::until(|| batch.end().pop().expect("a batch of one"))
            }
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(|file| file.write_at(bytes, offset))
    }

    fn map(&self, range: Range<u64>) -> Option<Box<dyn Pages>> {
        self.change(|file| Ok(file.map(range))).ok().flatten()
    }

    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.change(|file| file.write_durable_at(bytes, offset))
    }

    fn sync(&self) -> io::Result<()> {
        let was_unsynced = self.lazy.as_ref().is_some_and(|lazy| lazy.is_unsynced.swap(false, Ordering::Relaxed));
        self.call(|file| file.sync()).inspect_err(|_| {
            if was_unsynced {
                self.mark_unsynced(true);
            }
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.call(|file| file.len())
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.change(|file| file.set_len(bytes))
    }

    fn allocate(&self, bytes: u64) -> io::Result<bool> {
        self.change(|file| file.allocate(bytes))
    }

    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()> {
        self.call(|file| file.punch_hole(offset, bytes))
    }

    fn alignment(&self) -> usize {
        self.alignments().0
    }

    fn read_alignment(&self) -> usize {
        self.alignments().1
    }
}
