//! A file of blocks, open for reading them one by one.

use super::reads::BlocksRead;
use super::stats::StoreStats;
use crate::base::num::{round_down, round_up, u64_of, usize_of, usize_of32};
use crate::base::sync::thread_local;
use crate::base::{CoveragePoint, Error, Result};
use crate::block::{Block, BlockPointer, frame};
use crate::env::buffer::AlignedBuffer;
use crate::env::{Access, Env, File, InFlight, OpenOptions, Transfer};
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads of at most this many bytes use a buffer that each thread keeps.
const KEEP_BYTES: usize = 256 << 10;

thread_local! {
    static SCRATCH: RefCell<AlignedBuffer> = RefCell::default();
}

/// A number that no open file had before.
pub(super) fn new_instance() -> u64 {
    /// The last one given out. Publishes nothing: only that no number comes twice matters.
    static INSTANCES: AtomicU64 = AtomicU64::new(0);
    INSTANCES.fetch_add(1, Ordering::Relaxed) + 1
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

/// A read of bytes of a file that was begun. Dropped, it reads no more.
#[derive(Debug)]
pub struct SpanInFlight {
    read: InFlight,
    span: Range<u64>,
    offset: u64,
    bytes: usize,
}

impl SpanInFlight {
    /// Waits for the read of `file`, and says what it read and where the bytes are in it.
    ///
    /// # Errors
    /// As [`BlockFile::read_span`].
    pub fn wait(self, file: &BlockFile) -> Result<(AlignedBuffer, Range<usize>)> {
        let read = self.read.wait();
        let place = file.check_span(&self.span, self.offset, self.bytes, read.result)?;
        Ok((read.buffer, place))
    }
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
        let file = env.fs.open(path, OpenOptions { access, direct });
        let verb = if access == Access::CreateNew { "create" } else { "open" };
        let file = file.map_err(|error| Error::io(verb, path, error).of_read().unchanged())?;
        Ok(Self::from_file(file, path, identity, stats))
    }

    /// As [`BlockFile::open`], of a file that may be opened only when it is first used, and closed between uses.
    ///
    /// # Errors
    /// As [`BlockFile::open`].
    pub fn open_lazily(
        env: &Env,
        path: &Path,
        identity: u64,
        access: Access,
        direct: bool,
        stats: Arc<StoreStats>,
    ) -> Result<Self> {
        let file = env.fs.open_lazily(path, OpenOptions { access, direct });
        let file = file.map_err(|error| Error::io("open", path, error).of_read().unchanged())?;
        Ok(Self::from_file(file, path, identity, stats))
    }

    /// Opens the file now, if it is not.
    ///
    /// # Errors
    /// As [`BlockFile::open`].
    pub fn touch(&self) -> Result<()> {
        self.file.len().map(drop).map_err(|error| Error::io("open", &self.path, error).of_read().unchanged())
    }

    /// As [`BlockFile::open`], with a file that is open already.
    #[must_use]
    pub fn from_file(file: Arc<dyn File>, path: &Path, identity: u64, stats: Arc<StoreStats>) -> Self {
        Self { file, path: path.to_owned(), identity, instance: new_instance(), stats }
    }

    /// The same file under the number that its writer had, so that blocks which came to the cache as they were written
    /// are found.
    #[must_use]
    pub fn as_instance(self, instance: u64) -> Self {
        Self { instance, ..self }
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
        if bytes > KEEP_BYTES {
            read(&mut AlignedBuffer::default())
        } else {
            SCRATCH.with(|scratch| read(&mut scratch.borrow_mut()))
        }
    }

    /// Reads and checks blocks of several files, with reads in parallel where the system can.
    ///
    /// # Errors
    /// As [`BlockFile::read`], of the first block that has one.
    pub fn read_many(blocks: &[(&Self, BlockPointer)]) -> Result<Vec<Block>> {
        let (file, reads) = match blocks {
            [] => return Ok(Vec::new()),
            [(file, pointer)] => return Ok(vec![file.read(*pointer)?]),
            [(file, _), ..] => (file, blocks.iter().map(|(file, pointer)| file.batch_read(*pointer))),
        };
        let mut reads = reads.collect::<Result<Vec<_>>>()?;
        file.file.read_many(&mut reads);
        reads.into_iter().zip(blocks).map(|(read, (file, pointer))| file.parse_read(read, *pointer)).collect()
    }

    fn batch_read(&self, pointer: BlockPointer) -> Result<Transfer> {
        let span = self.span(pointer.offset, usize_of32(pointer.bytes))?;
        Ok(Transfer::read(&self.file, span.start, usize_of(span.end - span.start)))
    }

    fn parse_read(&self, read: Transfer, pointer: BlockPointer) -> Result<Block> {
        let count = read.result.map_err(|error| Error::io("read", &self.path, error).of_read())?;
        self.stats.count_read(read.buffer.len());
        let (at, bytes) = (usize_of(pointer.offset - read.offset), usize_of32(pointer.bytes));
        if count < at + bytes {
            return Err(self.cut(pointer.offset, bytes));
        }
        self.parse(&read.buffer[at..at + bytes], pointer)
    }

    /// Checks a frame that was read from where `pointer` points to, and makes a block of it: every block that is read
    /// comes by here.
    ///
    /// # Errors
    /// `Corruption` when it is not the block that was written there.
    pub fn parse(&self, frame: &[u8], pointer: BlockPointer) -> Result<Block> {
        BlocksRead::count();
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
        let span = self.span_into(offset, bytes, buffer)?;
        let read = self.file.read_at(&mut buffer[..usize_of(span.end - span.start)], span.start);
        self.check_span(&span, offset, bytes, read)
    }

    /// Begins to read `bytes` bytes at `offset` into `buffer`, which serves as in [`Self::read_span`].
    ///
    /// # Errors
    /// As [`Self::read_span`].
    pub fn begin_span(&self, offset: u64, bytes: usize, mut buffer: AlignedBuffer) -> Result<SpanInFlight> {
        let span = self.span_into(offset, bytes, &mut buffer)?;
        buffer.truncate(usize_of(span.end - span.start));
        let read = self.file.begin(Transfer::read_into(&self.file, span.start, buffer));
        Ok(SpanInFlight { read, span, offset, bytes })
    }

    /// The units that [`Self::span`] says; makes the buffer long enough for them.
    fn span_into(&self, offset: u64, bytes: usize, buffer: &mut AlignedBuffer) -> Result<Range<u64>> {
        let span = self.span(offset, bytes)?;
        let span_bytes = usize_of(span.end - span.start);
        if buffer.len() < span_bytes {
            buffer.resize(span_bytes);
        }
        Ok(span)
    }

    /// Where the wanted bytes are in what was read of `span`.
    fn check_span(
        &self,
        span: &Range<u64>,
        offset: u64,
        bytes: usize,
        read: io::Result<usize>,
    ) -> Result<Range<usize>> {
        let read = read.map_err(|error| Error::io("read", &self.path, error).of_read())?;
        self.stats.count_read(usize_of(span.end - span.start));
        let at = usize_of(offset - span.start);
        if read < at + bytes { Err(self.cut(offset, bytes)) } else { Ok(at..at + bytes) }
    }

    /// The units of the file that `bytes` bytes at `offset` lie in.
    fn span(&self, offset: u64, bytes: usize) -> Result<Range<u64>> {
        let unit = u64_of(self.file.read_alignment());
        let end = offset.checked_add(u64_of(bytes)).filter(|end| *end <= u64::MAX - unit);
        let end = end.ok_or_else(|| self.cut(offset, bytes))?;
        // A length from disk must not make us allocate more than there is.
        if bytes > KEEP_BYTES && self.len()? < end {
            return Err(self.cut(offset, bytes));
        }
        Ok(round_down(offset, unit)..round_up(end, unit))
    }

    #[cold]
    fn cut(&self, offset: u64, bytes: usize) -> Error {
        self.corruption(offset, format_args!("{bytes} bytes were expected and the file ends before them"))
    }

    /// An error that tells what is wrong at `offset` of this file.
    #[must_use]
    pub fn corruption(&self, offset: u64, what: impl fmt::Display) -> Error {
        CoveragePoint::CorruptBlock.mark();
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
        self.file.len().map_err(|error| Error::io("look at", &self.path, error).of_read())
    }
}
