//! Writes a new file of blocks front to back, in large writes, each made while the next is filled.

use super::file::new_instance;
use super::stats::StoreStats;
use super::write_behind::WriteBehind;
use crate::base::num::{round_up, u64_of, usize_of};
use crate::base::{Error, ErrorKind, Result};
use crate::block::{BlockPointer, Compression, frame};
use crate::env::buffer::AlignedBuffer;
use crate::env::{Access, Env, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are gathered before they are written; a multiple of the sector. There are up to two such buffers.
const BUFFER_BYTES: usize = 1 << 19;
const _: () = assert!(BUFFER_BYTES.is_multiple_of(crate::env::SECTOR_BYTES));

/// A new file of blocks that is being written.
///
/// After an error the file must not be used; nothing is tried again. The failure of a write is reported by the append
/// or finish after it. Dropping the writer leaves the file where it is, and nothing is written to it any more.
#[derive(Debug)]
pub struct BlockWriter {
    file: Arc<dyn File>,
    path: PathBuf,
    identity: u64,
    instance: u64,
    stats: Arc<StoreStats>,
    /// What was appended and not yet written; never full between calls.
    buffer: AlignedBuffer,
    /// Where in the file `buffer` belongs: a multiple of [`BUFFER_BYTES`].
    buffer_at: u64,
    write_behind: WriteBehind,
    frame: Vec<u8>,
    failed: bool,
    /// Whether the end of the file is followed by a sync.
    is_synced: bool,
}

impl BlockWriter {
    /// Creates the file, which must not exist yet. Its name is durable once its directory is synced.
    ///
    /// # Errors
    /// `Io` or `Full` when it cannot be created.
    pub fn create(env: &Env, path: &Path, identity: u64, direct: bool, stats: Arc<StoreStats>) -> Result<Self> {
        let options = OpenOptions { access: Access::CreateNew, direct };
        let file = env.fs.open(path, options).map_err(|error| Error::io("create", path, error).unchanged())?;
        let buffer = AlignedBuffer::with_capacity(BUFFER_BYTES);
        Ok(Self {
            file,
            path: path.to_owned(),
            identity,
            instance: new_instance(),
            stats,
            buffer,
            buffer_at: 0,
            write_behind: WriteBehind::default(),
            frame: Vec::new(),
            failed: false,
            is_synced: true,
        })
    }

    /// Leaves the sync of the file to the caller.
    pub const fn leave_sync(&mut self) {
        self.is_synced = false;
    }

    /// Appends a block and says where it is.
    ///
    /// # Errors
    /// `Io` or `Full` when the bytes cannot be written, `Poisoned` after an earlier error.
    pub fn append(&mut self, image: &[u8], compression: Compression) -> Result<BlockPointer> {
        let mut frame = std::mem::take(&mut self.frame);
        let pointer = frame::encode(image, compression, self.identity, self.position(), &mut frame);
        self.append_whole(frame, pointer)
    }

    /// Appends the frame of a block of whatever file, and says where the block is.
    ///
    /// # Errors
    /// As [`BlockWriter::append`].
    pub fn append_frame(&mut self, frame: &[u8]) -> Result<BlockPointer> {
        let mut ours = std::mem::take(&mut self.frame);
        ours.extend_from_slice(frame);
        let pointer = frame::seal(&mut ours, self.identity, self.position());
        self.append_whole(ours, pointer)
    }

    /// Appends a frame that belongs where the file ends, and keeps its memory for the next.
    fn append_whole(&mut self, mut frame: Vec<u8>, pointer: BlockPointer) -> Result<BlockPointer> {
        let appended = self.append_raw(&frame);
        frame.clear();
        frame.shrink_to(BUFFER_BYTES);
        self.frame = frame;
        appended.map(|()| pointer)
    }

    /// Appends bytes that are no block, such as a footer.
    ///
    /// # Errors
    /// As [`BlockWriter::append`].
    pub fn append_raw(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (front, rest) = bytes.split_at(bytes.len().min(BUFFER_BYTES - self.buffer.len()));
            self.buffer.extend_from_slice(front);
            if self.buffer.len() == BUFFER_BYTES {
                self.write_buffer()?;
                self.buffer_at += u64_of(BUFFER_BYTES);
            }
            bytes = rest;
        }
        Ok(())
    }

    /// Bytes appended so far: where the next block will be.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.buffer_at + u64_of(self.buffer.len())
    }

    /// What the checksums of the file's blocks are seeded with.
    #[must_use]
    pub const fn identity(&self) -> u64 {
        self.identity
    }

    /// The number under which the file may be opened for reading
    /// ([`BlockFile::as_instance`](super::BlockFile::as_instance)).
    #[must_use]
    pub const fn instance(&self) -> u64 {
        self.instance
    }

    /// Waits for the write that is under way, when the file is not to be finished.
    ///
    /// # Errors
    /// `Io` or `Full` when it failed.
    pub fn abandon(mut self) -> Result<()> {
        self.write_behind.wait(&self.path)
    }

    /// Writes the rest and forces the file, not its name, to the device (see [`Self::leave_sync`]). Says how many bytes
    /// it has.
    ///
    /// # Errors
    /// As [`BlockWriter::append`].
    pub fn finish(mut self) -> Result<u64> {
        let bytes = self.position();
        let padded = round_up(bytes, u64_of(self.file.alignment()));
        self.buffer.resize(usize_of(padded - self.buffer_at));
        if !self.buffer.is_empty() {
            self.write_buffer()?;
        }
        self.checked(|writer| writer.write_behind.wait(&writer.path))?;
        if padded != bytes {
            self.checked(|writer| writer.told("cut", writer.file.set_len(bytes)))?;
        }
        if self.is_synced {
            self.checked(|writer| writer.told("sync", writer.file.sync()))?;
            self.stats.count_sync();
        }
        Ok(bytes)
    }

    fn write_buffer(&mut self) -> Result<()> {
        let full = std::mem::take(&mut self.buffer);
        self.checked(|writer| {
            let Self { file, path, stats, write_behind, buffer, buffer_at, .. } = writer;
            *buffer = write_behind.write((file, path), stats, (full, *buffer_at))?;
            buffer.reserve(BUFFER_BYTES);
            Ok(())
        })
    }

    fn checked(&mut self, call: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.failed {
            let message = format!("cannot write {}: an earlier write failed", self.path.display());
            return Err(Error::new(ErrorKind::Poisoned, message));
        }
        let called = call(self);
        self.failed = called.is_err();
        called
    }

    fn told(&self, verb: &str, result: io::Result<()>) -> Result<()> {
        result.map_err(|error| Error::io(verb, &self.path, error))
    }
}
