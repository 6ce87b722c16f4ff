//! Lays blocks into the free space of a tree file, one after another, and writes them a stretch at a time: a stretch is
//! written while the next is laid out.

use std::sync::Arc;

use crate::base::sync::Mutex;

use super::file::BlockFile;
use super::space::{Extent, STRETCH_UNITS, SpaceMap, UNIT_BYTES};
use super::write_behind::WriteBehind;
use crate::base::num::{round_up, u64_of, usize_of};
use crate::base::{Error, ErrorKind, Result};
use crate::block::{BlockPointer, Compression, frame};
use crate::env::AlignedBuffer;

/// The file grows by this part (1/8) of itself, within these bounds (256 KiB to 8 MiB).
const GROWTH_PART: u64 = 8;
const GROWTH_UNITS_MIN: u64 = (256 << 10) / UNIT_BYTES;
const GROWTH_UNITS_MAX: u64 = (8 << 20) / UNIT_BYTES;

const STRETCH_BYTES: usize = usize_of(STRETCH_UNITS * UNIT_BYTES);

/// Space taken from a map for blocks that no root reaches yet; given back when dropped, unless kept.
#[derive(Debug)]
pub struct Allocation {
    space: Arc<Mutex<SpaceMap>>,
    extents: Vec<Extent>,
    /// What was cut off the end of the file, which is still as long as before.
    cut: Option<Extent>,
}

impl Allocation {
    /// Bytes of the space taken.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.extents.iter().map(|extent| extent.units * UNIT_BYTES).sum()
    }

    /// The space stays taken: a root that reaches it was installed. Says how many bytes the file should have now, if it
    /// is to be made shorter.
    pub fn keep(mut self) -> Option<u64> {
        self.extents.clear();
        self.cut.take().map(Extent::offset)
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        let mut space = self.space.lock();
        if let Some(cut) = self.cut {
            assert_eq!(space.end(), cut.start, "nothing was added since the end was cut off");
            space.grow(cut.units);
        }
        for extent in &self.extents {
            space.release(*extent);
        }
    }
}

/// Writes blocks where a tree file has room. Nothing that any root reaches is overwritten, and nothing is durable
/// before the file is synced.
#[derive(Debug)]
pub struct ExtentWriter<'a> {
    file: &'a BlockFile,
    /// Stands before `allocation`, whose space is given back only when nothing is written to it any more.
    write_behind: WriteBehind,
    allocation: Allocation,
    /// Blocks of the current stretch that are not written yet; they belong at `at`.
    buffer: AlignedBuffer,
    /// A multiple of [`UNIT_BYTES`], as is `end`.
    at: u64,
    /// The end of the current stretch, which is the last extent of the allocation.
    end: u64,
    frame: Vec<u8>,
}

impl<'a> ExtentWriter<'a> {
    /// A writer into `file`, whose free space is in `space`.
    #[must_use]
    pub fn new(file: &'a BlockFile, space: &Arc<Mutex<SpaceMap>>) -> Self {
        let allocation = Allocation { space: Arc::clone(space), extents: Vec::new(), cut: None };
        let buffer = AlignedBuffer::with_capacity(STRETCH_BYTES);
        Self { file, write_behind: WriteBehind::default(), allocation, buffer, at: 0, end: 0, frame: Vec::new() }
    }

    /// Lays down the block of `image` and says where.
    ///
    /// # Errors
    /// When the file cannot be written, or cannot grow (`Full` when there is no room).
    pub fn append(&mut self, image: &[u8], compression: Compression) -> Result<BlockPointer> {
        let identity = self.file.identity();
        self.frame.clear();
        let mut pointer = frame::encode(image, compression, identity, self.position(), &mut self.frame);
        let bytes = round_up(u64_of(self.frame.len()), UNIT_BYTES);
        if self.position() + bytes > self.end {
            self.next_extent(bytes / UNIT_BYTES)?;
            pointer = frame::seal(&mut self.frame, identity, self.at);
        }
        let padded = self.buffer.len() + usize_of(bytes);
        self.buffer.extend_from_slice(&self.frame);
        self.buffer.resize(padded);
        self.frame.shrink_to(STRETCH_BYTES);
        if self.buffer.len() >= STRETCH_BYTES {
            self.write()?;
        }
        Ok(pointer)
    }

    /// Ends the current stretch and makes room for exactly `units` units, which the next block must fill. Then takes a
    /// large free end off the file. What is free after this is free when the writer finishes.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn reserve_last(&mut self, units: u64) -> Result<()> {
        self.next_extent(units)?;
        self.end_at(self.at + units * UNIT_BYTES);
        self.allocation.cut = self.allocation.space.lock().cut_tail();
        Ok(())
    }

    /// Writes what is left. The file is not synced.
    ///
    /// # Errors
    /// As [`Self::append`].
    pub fn finish(mut self) -> Result<Allocation> {
        self.write()?;
        self.write_behind.wait(self.file.path())?;
        self.end_at(self.at);
        Ok(self.allocation)
    }

    /// Waits for the write that is under way, when nothing will refer to what was written.
    ///
    /// # Errors
    /// `Io` or `Full` when it failed.
    pub fn abandon(mut self) -> Result<()> {
        self.write_behind.wait(self.file.path())
    }

    /// Where the next byte belongs.
    fn position(&self) -> u64 {
        self.at + u64_of(self.buffer.len())
    }

    fn write(&mut self) -> Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let (full, at) = (std::mem::take(&mut self.buffer), self.at);
        self.at += u64_of(full.len());
        let place = (self.file.file(), self.file.path());
        self.buffer = self.write_behind.write(place, self.file.stats(), (full, at))?;
        if self.buffer.capacity() > 2 * STRETCH_BYTES {
            self.buffer = AlignedBuffer::default();
        }
        self.buffer.reserve(STRETCH_BYTES);
        Ok(())
    }

    /// Turns to another stretch, of at least `units` units.
    fn next_extent(&mut self, units: u64) -> Result<()> {
        self.write()?;
        self.end_at(self.at);
        let stretch = self.take(units)?;
        self.allocation.extents.push(stretch);
        (self.at, self.end) = (stretch.offset(), stretch.offset() + stretch.units * UNIT_BYTES);
        Ok(())
    }

    /// Gives back what the current stretch has from `end` on.
    fn end_at(&mut self, end: u64) {
        if end == self.end {
            return;
        }
        let units = (self.end - end) / UNIT_BYTES;
        self.end = end;
        if let Some(stretch) = self.allocation.extents.last_mut() {
            stretch.units -= units;
            if stretch.units == 0 {
                self.allocation.extents.pop();
            }
        }
        self.allocation.space.lock().release(Extent { start: end / UNIT_BYTES, units });
    }

    fn take(&self, units: u64) -> Result<Extent> {
        if let Some(extent) = self.allocation.space.lock().allocate(units, false) {
            return Ok(extent);
        }
        // Where the disk has no room for a longer file, any hole will do.
        let full = match self.grow(units) {
            Err(error) if error.kind() != ErrorKind::Full => return Err(error),
            grown => grown.err(),
        };
        let extent = self.allocation.space.lock().allocate(units, true);
        extent.ok_or_else(|| full.unwrap_or_else(|| Error::new(ErrorKind::Full, "the tree's file cannot grow")))
    }

    fn grow(&self, units: u64) -> Result<()> {
        let end = self.allocation.space.lock().end();
        let units = units.max((end / GROWTH_PART).clamp(GROWTH_UNITS_MIN, GROWTH_UNITS_MAX));
        let bytes = (end + units) * UNIT_BYTES;
        self.file.file().allocate(bytes).map_err(|error| Error::io("extend", self.file.path(), error))?;
        self.allocation.space.lock().grow(units);
        Ok(())
    }
}
