//! Finding blocks by their frames: front to back through a file of which parts cannot be read.

use std::ops::Range;
use std::path::Path;

use super::leaves::{Leaves, Step};
use super::losses::LostRange;
use crate::base::num::{u64_of, usize_of};
use crate::base::{Error, Result};
use crate::block::frame::{FRAME_HEADER_BYTES, announced_bytes, pointer_to};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::store::BlockFile;
use crate::tree::run::RunMeta;

/// How much is read at once.
const WINDOW_BYTES: u64 = 1 << 20;
/// How much is given up where the system cannot read.
const PIECE_BYTES: usize = 4096;

/// Looks for intact frames in a file. What cannot be read counts as zeros.
#[derive(Debug)]
pub struct FrameScan {
    file: BlockFile,
    len: u64,
    /// Where in the file `window` begins.
    start: u64,
    window: Vec<u8>,
}

impl FrameScan {
    /// A scan of `file`, which must not be opened for direct I/O.
    ///
    /// # Errors
    /// `Io` when its length cannot be found out.
    pub fn new(file: BlockFile) -> Result<Self> {
        let len = file.len()?;
        Ok(Self { file, len, start: 0, window: Vec::new() })
    }

    /// The file.
    #[must_use]
    pub const fn file(&self) -> &BlockFile {
        &self.file
    }

    /// The intact block whose frame begins at `offset`.
    pub fn block_at(&mut self, offset: u64) -> Option<(BlockPointer, Block)> {
        let bytes = announced_bytes(self.bytes(offset, FRAME_HEADER_BYTES)?)?;
        let identity = self.file.identity();
        let pointer = pointer_to(self.bytes(offset, bytes)?, identity, offset)?;
        let at = usize_of(offset - self.start);
        self.file.parse(&self.window[at..at + bytes], pointer).ok().map(|block| (pointer, block))
    }

    /// The first intact block that begins in `offsets` at a multiple of `step`, from their start.
    pub fn block_in(&mut self, offsets: Range<u64>, step: usize) -> Option<(BlockPointer, Block)> {
        let end = offsets.end.min(self.len);
        (offsets.start..end).step_by(step).find_map(|offset| self.block_at(offset))
    }

    /// Bytes of the file; `None` when it ends before them.
    fn bytes(&mut self, offset: u64, bytes: usize) -> Option<&[u8]> {
        let end = offset.checked_add(u64_of(bytes)).filter(|end| *end <= self.len)?;
        if offset < self.start || self.start + u64_of(self.window.len()) < end {
            let stop = end.max(offset + WINDOW_BYTES).min(self.len);
            self.window.clear();
            self.window.resize(usize_of(stop - offset), 0);
            self.start = offset;
            self.fill();
        }
        self.window.get(usize_of(offset - self.start)..)?.get(..bytes)
    }

    /// Reads the window; where that fails, piece by piece.
    fn fill(&mut self) {
        let file = self.file.file();
        if file.read_at(&mut self.window, self.start).is_ok() {
            return;
        }
        for (at, piece) in (self.start..).step_by(PIECE_BYTES).zip(self.window.chunks_mut(PIECE_BYTES)) {
            if file.read_at(piece, at).is_err() {
                piece.fill(0);
            }
        }
    }
}

/// The leaves of a run, which lie back to back from the beginning of its file.
#[derive(Debug)]
pub struct RunLeaves {
    scan: FrameScan,
    meta: RunMeta,
    at: u64,
    /// The last key shown.
    key: Vec<u8>,
    entries: u64,
    /// Damage since then.
    damage: Option<Error>,
    /// The leaf behind the damage.
    next: Option<(BlockPointer, Block)>,
    ended: bool,
}

impl RunLeaves {
    /// The leaves in `file` of the run that `meta` describes.
    ///
    /// # Errors
    /// As [`FrameScan::new`].
    pub fn new(file: BlockFile, meta: RunMeta) -> Result<Self> {
        let (key, scan) = (meta.smallest.clone(), FrameScan::new(file)?);
        Ok(Self { scan, meta, at: 0, key, entries: 0, damage: None, next: None, ended: false })
    }

    fn show(&mut self, pointer: BlockPointer, leaf: Block) -> Step {
        leaf.key_into(leaf.count() - 1, &mut self.key);
        self.entries += u64_of(leaf.count());
        Step::Leaf(pointer, leaf)
    }

    /// What may have been between the last leaf and `to`.
    fn lost(&mut self, to: &[u8]) -> Option<Step> {
        let error = self.damage.take()?;
        Some(Step::Lost(LostRange::new(&self.key, Some(to), (self.scan.file.path(), self.at), &error)))
    }

    /// The end of the leaves. Damage here is none of theirs if all entries were seen.
    fn end(&mut self) -> Option<Step> {
        self.ended = true;
        if self.entries >= self.meta.entries {
            return None;
        }
        let largest = self.meta.largest.clone();
        self.lost(&largest)
    }
}

impl Leaves for RunLeaves {
    fn step(&mut self) -> Option<Step> {
        if let Some((pointer, leaf)) = self.next.take() {
            return Some(self.show(pointer, leaf));
        }
        if self.ended {
            return None;
        }
        let found = self.scan.block_at(self.at).or_else(|| {
            self.damage =
                Some(self.scan.file.corruption(self.at, "a damaged block: none whose checksum is right begins here"));
            self.scan.block_in(self.at..u64::MAX, 1)
        });
        // Behind the leaves come blocks of other kinds.
        let Some((pointer, leaf)) = found.filter(|(_, block)| block.kind() == BlockKind::Leaf && block.count() > 0)
        else {
            return self.end();
        };
        self.at = pointer.end();
        if self.damage.is_none() {
            return Some(self.show(pointer, leaf));
        }
        let mut first = Vec::new();
        leaf.key_into(0, &mut first);
        self.next = Some((pointer, leaf));
        self.lost(&first)
    }

    fn path(&self) -> &Path {
        self.scan.file.path()
    }
}
