//! Files and directories, as the engine needs them.

use super::buffer::AlignedBuffer;
use crate::base::debug::debug_by;
use std::fmt::Debug;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A file that must not exist yet, for reading and writing.
    CreateNew,
}

/// What to open a file with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Reading, writing, or creating.
    pub access: Access,
    /// Pass the page cache by. Where the file system cannot, the file is opened buffered and [`File::alignment`] says
    /// 1.
    pub direct: bool,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The file's name without its directory.
    pub name: String,
    /// Its length in bytes (0 for a directory).
    pub bytes: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
}

/// A held lock on a path; released when dropped or when the process ends.
pub trait FileLock: Send + Sync + Debug {}

/// A file system.
pub trait FileSystem: Send + Sync + Debug {
    /// Opens a file.
    ///
    /// # Errors
    /// What the operating system says; `AlreadyExists` for [`Access::CreateNew`] on a name in use.
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>>;
    /// A file that exists when it is first used, which may open it only then, and close it between uses. Its name may
    /// be removed by this file system while it is used, and by no other.
    ///
    /// # Errors
    /// As [`FileSystem::open`]. Where the file is opened later, so do its calls.
    fn open_lazily(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        self.open(path, options)
    }
    /// Creates a directory and the missing ones above it, and syncs the parents that changed.
    ///
    /// # Errors
    /// What the operating system says.
    fn create_dir_all(&self, path: &Path) -> io::Result<()>;
    /// The names in a directory, sorted.
    ///
    /// # Errors
    /// `NotFound`, `NotADirectory`, or what the operating system says.
    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>>;
    /// Renames a file, replacing what was there. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// What the operating system says.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file a second name. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// What the operating system says (`CrossesDevices` between file systems).
    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// How many names a file has; `Unsupported` where that is not known.
    ///
    /// # Errors
    /// What the operating system says.
    fn link_count(&self, _path: &Path) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Removes a file's name. Durable after [`FileSystem::sync_dir`].
    ///
    /// # Errors
    /// What the operating system says.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// What the operating system says.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the data of files of a directory durable, as [`File::sync`] of each, whether they are open or not; then
    /// the directory's entries. Where the system can, one call does it for many files.
    ///
    /// # Errors
    /// What the operating system says, and of which path.
    fn sync_files(&self, dir: &Path, names: &[String]) -> Result<(), (PathBuf, io::Error)> {
        sync_each(self, dir, names)
    }
    /// Takes the exclusive lock on `path`, creating the file if need be, without waiting.
    ///
    /// # Errors
    /// `WouldBlock` when another handle, of this process or another, holds it.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>>;
    /// Names the process that holds the exclusive lock on `path`, as far as the system tells: `process 12 (name)`.
    fn lock_holder(&self, _path: &Path) -> Option<String> {
        None
    }
    /// Takes a shared lock on a file that is there, without waiting. Needs no right to write it, and works where
    /// nothing can be written.
    ///
    /// # Errors
    /// `WouldBlock` while another handle holds it exclusively, which [`FileSystem::is_locked`] does for a moment;
    /// `Unsupported` where a shared lock would keep others from writing the file; what the operating system says.
    fn lock_shared(&self, _path: &Path) -> io::Result<Box<dyn FileLock>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Whether a handle of this process or another holds a lock on a file that is there.
    ///
    /// # Errors
    /// What the operating system says.
    fn is_locked(&self, _path: &Path) -> io::Result<bool> {
        Ok(false)
    }
    /// Bytes that can still be written below `dir`.
    ///
    /// # Errors
    /// What the operating system says.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// `path` made absolute, so that a later change of the working directory does not move the database.
    ///
    /// # Errors
    /// What the operating system says.
    fn absolute(&self, path: &Path) -> io::Result<PathBuf>;
}

/// [`FileSystem::sync_files`] of one file after the other.
pub(super) fn sync_each<F: FileSystem + ?Sized>(
    fs: &F,
    dir: &Path,
    names: &[String],
) -> Result<(), (PathBuf, io::Error)> {
    for name in names {
        let path = dir.join(name);
        let file = fs.open(&path, OpenOptions { access: Access::Read, direct: false });
        file.and_then(|file| file.sync()).map_err(|error| (path, error))?;
    }
    fs.sync_dir(dir).map_err(|error| (dir.to_owned(), error))
}

/// A read or a write of a whole buffer, made in parallel with others ([`File::read_many`]) or with its owner
/// ([`File::begin`]).
#[derive(Debug)]
pub struct Transfer {
    /// What to read from or to write to.
    pub file: Arc<dyn File>,
    /// Where.
    pub offset: u64,
    /// What is written; or as long as what is read, which it holds afterwards.
    pub buffer: AlignedBuffer,
    /// How many bytes were read, as [`File::read_at`] says, or written.
    pub result: io::Result<usize>,
    is_write: bool,
}

impl Transfer {
    /// A read of `bytes` bytes at `offset`, not made yet.
    #[must_use]
    pub fn read(file: &Arc<dyn File>, offset: u64, bytes: usize) -> Self {
        Self::read_into(file, offset, AlignedBuffer::zeroed(bytes))
    }

    /// A read at `offset` of as many bytes as `buffer` is long, not made yet.
    #[must_use]
    pub fn read_into(file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) -> Self {
        Self { file: Arc::clone(file), offset, buffer, result: Ok(0), is_write: false }
    }

    /// A write of all of `buffer` at `offset`, not made yet.
    #[must_use]
    pub fn write(file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) -> Self {
        Self { is_write: true, ..Self::read_into(file, offset, buffer) }
    }

    /// Whether it is a write.
    pub(super) const fn is_write(&self) -> bool {
        self.is_write
    }

    /// Makes this transfer by itself.
    pub(super) fn make(&mut self) {
        self.result = match self.is_write {
            true => self.file.write_at(&self.buffer, self.offset).map(|()| self.buffer.len()),
            false => self.file.read_at(&mut self.buffer, self.offset),
        };
    }

    /// The same transfer to be made elsewhere; its buffer goes there.
    pub(super) fn take(&mut self) -> Self {
        let (file, buffer) = (Arc::clone(&self.file), std::mem::take(&mut self.buffer));
        Self { file, buffer, result: Ok(0), ..*self }
    }
}

/// A transfer that was begun. Dropped, it is called off, or waited for if it is under way: nothing reads or writes
/// afterwards.
pub struct InFlight(Box<dyn FnOnce() -> Transfer + Send + Sync>);

impl InFlight {
    /// A transfer that `end` waits for. When that is dropped instead, it calls the transfer off or waits for it.
    #[must_use]
    pub fn until(end: impl FnOnce() -> Transfer + Send + Sync + 'static) -> Self {
        Self(Box::new(end))
    }

    /// A transfer that is made at once.
    #[must_use]
    pub fn made(mut transfer: Transfer) -> Self {
        transfer.make();
        Self::until(|| transfer)
    }

    /// A transfer that is made when it is waited for.
    #[must_use]
    pub fn due(mut transfer: Transfer) -> Self {
        Self::until(|| {
            transfer.make();
            transfer
        })
    }

    /// Waits until the transfer is made.
    #[must_use]
    pub fn wait(self) -> Transfer {
        (self.0)()
    }
}

debug_by!(InFlight, self =>);

/// A part of a file in memory. What is copied into it is written to the file, and as safe from the end of the process
/// as by any other write.
pub trait Pages: Send + Debug {
    /// Writes all of `bytes` at `offset` of the file.
    ///
    /// # Panics
    /// When they do not lie within the range that was mapped.
    fn put(&mut self, bytes: &[u8], offset: u64);
}

/// An open file with positioned reads and writes. Usable by many threads at once.
///
/// On a direct file ([`File::alignment`] over 1) every offset, length and buffer address handed in is a multiple of the
/// alignment; those of reads need only be multiples of [`File::read_alignment`].
pub trait File: Send + Sync + Debug {
    /// Reads at `offset` until `buffer` is full or the file ends; says how many bytes were read.
    ///
    /// # Errors
    /// What the operating system says.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Makes several reads of this and other files of its environment, each as [`File::read_at`], in parallel where the
    /// system can; each has its own result.
    fn read_many(&self, reads: &mut [Transfer]) {
        reads.iter_mut().for_each(Transfer::make);
    }
    /// Begins a transfer of this or another file of its environment, which goes on in parallel with the caller where
    /// that saves time. Until the caller has waited for it, a write may not have been made, also in part; so until then
    /// none of its bytes may be read or written, and no [`File::sync`] counts for it.
    fn begin(&self, transfer: Transfer) -> InFlight {
        InFlight::made(transfer)
    }
    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// What the operating system says; the bytes are then written in part or not at all.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Maps a range of the file that was just written, so that it can be written again without a system call; `None`
    /// where that is not possible. Only for files that are not direct.
    fn map(&self, _range: Range<u64>) -> Option<Box<dyn Pages>> {
        None
    }
    /// Writes all of `bytes` at `offset` and returns when they are durable (the file's length too, if it grew).
    ///
    /// # Errors
    /// As [`File::write_at`].
    fn write_durable_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Makes the file's data, and what is needed to read it back, durable (`fdatasync`).
    ///
    /// # Errors
    /// What the operating system says. It must not be tried again: what failed to reach the device may be gone.
    fn sync(&self) -> io::Result<()>;
    /// The file's length in bytes.
    ///
    /// # Errors
    /// What the operating system says.
    fn len(&self) -> io::Result<u64>;
    /// Whether the file has no bytes.
    ///
    /// # Errors
    /// As [`File::len`].
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }
    /// Cuts or extends (with zeros) the file. Durable after [`File::sync`].
    ///
    /// # Errors
    /// What the operating system says.
    fn set_len(&self, bytes: u64) -> io::Result<()>;
    /// Reserves space for the first `bytes` bytes and extends the file to them; false where the file system cannot
    /// reserve and only extends.
    ///
    /// # Errors
    /// `StorageFull` when there is no room.
    fn allocate(&self, bytes: u64) -> io::Result<bool>;
    /// Gives the space of a byte range back; it reads as zeros afterwards. Does nothing where the file system cannot.
    ///
    /// # Errors
    /// What the operating system says.
    fn punch_hole(&self, offset: u64, bytes: u64) -> io::Result<()>;
    /// What offsets, lengths and buffer addresses must be a multiple of: [`super::SECTOR_BYTES`] for direct files, else
    /// 1.
    fn alignment(&self) -> usize;
    /// The same of reads, at most [`File::alignment`]: many devices can be read in smaller pieces than they are best
    /// written in.
    fn read_alignment(&self) -> usize;
}
