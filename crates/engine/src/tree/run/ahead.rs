//! Reading leaves in a row: the longer the row, the more of the file is read at once.

use super::Run;
use crate::base::Result;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::cache::{Fill, SwipOf};
use crate::env::buffer::AlignedBuffer;
use std::ops::Range;

/// Bytes that the first read of a row in passing takes: whoever passes the cache by is about to read much.
const BYPASS_BYTES_MIN: usize = 128 << 10;
/// Bytes that the first read ahead of any other row takes.
const KEEP_BYTES_MIN: usize = 32 << 10;
const BYPASS_BYTES_MAX: usize = 1 << 20;
const KEEP_BYTES_MAX: usize = 256 << 10;
/// A row of so many leaves is no short scan any more, and reading ahead pays.
const LONG_ROW: u32 = 3;

/// Reads leaves of one run, ahead of who wants them one after the other, forward or backward.
#[derive(Debug)]
pub(super) struct ReadAhead {
    fill: Fill,
    buffer: AlignedBuffer,
    /// What part of the file the buffer holds, and where in the buffer it begins.
    held: Range<u64>,
    held_at: usize,
    /// Where the leaf that was asked for last lies.
    last: Range<u64>,
    row: Row,
    /// How many bytes were last read at once.
    span: usize,
}

/// The leaves asked for last, each beside the one before.
#[derive(Clone, Copy, Debug)]
struct Row {
    leaves: u32,
    backward: bool,
}

impl Row {
    const NONE: Self = Self { leaves: 0, backward: false };
}

impl ReadAhead {
    pub(super) fn new(fill: Fill) -> Self {
        Self { fill, buffer: AlignedBuffer::default(), held: 0..0, held_at: 0, last: 0..0, row: Row::NONE, span: 0 }
    }

    /// Forgets what was read, because another run comes next.
    pub(super) fn reset(&mut self) {
        (self.held, self.last, self.row, self.span) = (0..0, 0..0, Row::NONE, 0);
    }

    /// Whether the leaves asked for last are a row that is likely to go on, and to be found in the cache as far as it holds them.
    pub(super) fn goes_on(&self) -> bool {
        self.fill == Fill::Keep && self.row.leaves >= LONG_ROW
    }

    /// The leaf that `pointer` points to, which may be at hand in `swip`, and whether it was in the cache. `wanted` says in which part of
    /// the file it pays to read ahead.
    pub(super) fn leaf(
        &mut self,
        run: &Run,
        (pointer, swip): (BlockPointer, Option<SwipOf<'_>>),
        wanted: impl FnOnce() -> Range<u64>,
    ) -> Result<(Block, bool)> {
        self.row = self.row_with(pointer);
        self.last = pointer.offset..pointer.end();
        let instance = run.file().instance();
        let cached = match self.fill {
            Fill::Bypass => None,
            Fill::Keep | Fill::Merge => run.cache().lookup_at(swip, instance, pointer, self.fill),
        };
        if let Some(leaf) = cached {
            return Ok((leaf, true));
        }
        let leaf = self.read(run, pointer, wanted)?;
        Ok(match self.fill {
            Fill::Keep => (run.cache().insert(instance, pointer, leaf), false),
            Fill::Bypass | Fill::Merge => (leaf, false),
        })
    }

    /// The row that ends with the leaf of `pointer`.
    fn row_with(&self, pointer: BlockPointer) -> Row {
        let (follows, precedes) = (pointer.offset == self.last.end, pointer.end() == self.last.start);
        if self.last.is_empty() || !(follows || precedes) {
            return Row { leaves: 1, backward: false };
        }
        let goes_on = self.row.leaves == 1 || self.row.backward == precedes;
        Row { leaves: if goes_on { self.row.leaves + 1 } else { 2 }, backward: precedes }
    }

    fn read(&mut self, run: &Run, pointer: BlockPointer, wanted: impl FnOnce() -> Range<u64>) -> Result<Block> {
        if !(self.held.start <= pointer.offset && pointer.end() <= self.held.end) {
            self.span = match self.fill {
                Fill::Bypass | Fill::Merge if self.row.leaves == 1 => BYPASS_BYTES_MIN,
                Fill::Bypass | Fill::Merge => (2 * self.span).clamp(BYPASS_BYTES_MIN, BYPASS_BYTES_MAX),
                Fill::Keep if self.row.leaves < LONG_ROW => 0,
                Fill::Keep => (2 * self.span).clamp(KEEP_BYTES_MIN, KEEP_BYTES_MAX),
            };
            if self.span <= usize_of32(pointer.bytes) {
                return run.file().read(pointer);
            }
            let wanted = wanted();
            let span = u64_of(self.span);
            let ahead = match self.row.backward {
                false => pointer.offset..wanted.end.min(pointer.offset + span).max(pointer.end()),
                true => wanted.start.max(pointer.end().saturating_sub(span)).min(pointer.offset)..pointer.end(),
            };
            let bytes = usize_of(ahead.end - ahead.start);
            if bytes <= usize_of32(pointer.bytes) {
                return run.file().read(pointer);
            }
            self.held = 0..0;
            self.held_at = run.file().read_span(ahead.start, bytes, &mut self.buffer)?.start;
            self.held = ahead;
        }
        let at = self.held_at + usize_of(pointer.offset - self.held.start);
        run.file().parse(&self.buffer[at..][..usize_of32(pointer.bytes)], pointer)
    }
}
