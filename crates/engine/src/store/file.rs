//! A file of blocks, open for reading them one by one.

use super::StoreStats;
use crate::base::num::{round_down, round_up, u64_of, usize_of, usize_of32};
use crate::base::{Error, Result};
use crate::block::{Block, BlockPointer, frame};
use crate::env::buffer::AlignedBuffer;
use crate::env::{Access, Env, File, OpenOptions};
use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads of at most this many bytes use a buffer that each thread keeps.
const KEEP_BYTES: usize = 256 << 10;

thread_local! {
    static SCRATCH: RefCell<AlignedBuffer> = RefCell::default();
}

/// An open file of blocks.
#[derive(Debug)]
pub struct BlockFile {
    file: Arc<dyn File>,
    path: PathBuf,
    identity: u64,
    instance: u64,
    stats: Arc<StoreStats>,
}

impl BlockFile {
    /// Opens the file at `path`, whose blocks were written under `identity`.
    ///
    /// # Errors
    /// `Io` when the file cannot be opened.
    pub fn open(
        env: &Env,
        path: &Path,
        identity: u64,
        access: Access,
        direct: bool,
        stats: Arc<StoreStats>,
    ) -> Result<Self> {
        let file = env.fs.open(path, OpenOptions { access, direct }).map_err(|error| Error::io("open", path, error))?;
        Ok(Self::from_file(file, path, identity, stats))
    }

    /// As [`BlockFile::open`], with a file that is open already.
    #[must_use]
    pub fn from_file(file: Arc<dyn File>, path: &Path, identity: u64, stats: Arc<StoreStats>) -> Self {
        /// The last instance number given out. Publishes nothing: only that no number comes twice matters.
        static INSTANCES: AtomicU64 = AtomicU64::new(0);
        let instance = INSTANCES.fetch_add(1, Ordering::Relaxed) + 1;
        Self { file, path: path.to_owned(), identity, instance, stats }
    }

    /// Reads and checks the block that `pointer` points to.
    ///
    /// # Errors
    /// `Corruption` when it is not the block that was written there, `Io` when it cannot be read.
    pub fn read(&self, pointer: BlockPointer) -> Result<Block> {
        let bytes = usize_of32(pointer.bytes);
        let read = |buffer: &mut AlignedBuffer| {
            let frame = self.read_span(pointer.offset, bytes, buffer)?;
            self.parse(&buffer[frame], pointer)
        };
        if bytes > KEEP_BYTES { read(&mut AlignedBuffer::default()) } else { SCRATCH.with_borrow_mut(read) }
    }

    /// Checks a frame that was read from where `pointer` points to, and makes a block of it.
    ///
    /// # Errors
    /// `Corruption` when it is not the block that was written there.
    pub fn parse(&self, frame: &[u8], pointer: BlockPointer) -> Result<Block> {
        let image =
            frame::decode(frame, self.identity, pointer).map_err(|error| self.corruption(pointer.offset, error))?;
        Block::parse(image).map_err(|_| self.corruption(pointer.offset, "the block breaks the rules of its format"))
    }

    /// Reads `bytes` bytes at `offset` into `buffer`, and says where in the buffer they are.
    ///
    /// The buffer is only ever made longer, so that it serves one read after the other without being cleared.
    ///
    /// # Errors
    /// `Corruption` when the file ends before them, `Io` when they cannot be read.
    pub fn read_span(&self, offset: u64, bytes: usize, buffer: &mut AlignedBuffer) -> Result<Range<usize>> {
        let unit = u64_of(self.file.alignment());
        let cut = || self.corruption(offset, format_args!("{bytes} bytes were expected and the file ends before them"));
        let end = offset.checked_add(u64_of(bytes)).filter(|end| *end <= u64::MAX - unit).ok_or_else(cut)?;
        let start = round_down(offset, unit);
        let span = usize_of(round_up(end, unit) - start);
        if buffer.len() < span {
            // A length from disk must not make us allocate more than there is.
            if span > KEEP_BYTES && self.len()? < end {
                return Err(cut());
            }
            buffer.resize(span);
        }
        let read =
            self.file.read_at(&mut buffer[..span], start).map_err(|error| Error::io("read", &self.path, error))?;
        self.stats.count_read(span);
        let frame = usize_of(offset - start)..usize_of(end - start);
        if read < frame.end { Err(cut()) } else { Ok(frame) }
    }

    /// An error that tells what is wrong at `offset` of this file.
    #[must_use]
    pub fn corruption(&self, offset: u64, what: impl fmt::Display) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    /// A number that no other open file of this process has or had: what a cache knows the file's blocks by.
    #[inline]
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.instance
    }

    /// What the checksums of the file's blocks are seeded with.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// The file's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file itself.
    #[must_use]
    pub const fn file(&self) -> &Arc<dyn File> {
        &self.file
    }

    /// The counters that the file's reads go to.
    #[must_use]
    pub const fn stats(&self) -> &Arc<StoreStats> {
        &self.stats
    }

    /// The file's length in bytes, as the operating system says.
    ///
    /// # Errors
    /// `Io` when it does not say.
    #[expect(clippy::len_without_is_empty, reason = "a file of blocks is not a collection")]
    pub fn len(&self) -> Result<u64> {
        self.file.len().map_err(|error| Error::io("look at", &self.path, error))
    }
}
