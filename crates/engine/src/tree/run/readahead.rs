//! Reading leaves in a row: the longer the row, the more of the file is read at once. A walk that passes the cache by,
//! as a merge does, has the next span read while it works on this one.
//!
//! Walks that are short may make a row together, each going on where the one before it ended, as those that take the
//! oldest rows of a queue do. The run keeps in mind where the last leaf that was read ends, and a walk that reads the
//! next one of a long row puts the leaves behind it into the cache.

use super::reader::Run;
use crate::base::Result;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::cache::{Fill, SwipOf};
use crate::env::buffer::AlignedBuffer;
use crate::store::file::{BlockFile, SpanInFlight};
use std::ops::Range;

/// Bytes that the first read of a row in passing takes: a walk that passes the cache by is about to read much.
const BYPASS_BYTES_MIN: usize = 128 << 10;
/// Bytes that the first read ahead of any other row takes.
const KEEP_BYTES_MIN: usize = 32 << 10;
/// The longest read of a row in passing; there are up to two.
const BYPASS_BYTES_MAX: usize = 1 << 19;
const KEEP_BYTES_MAX: usize = 256 << 10;
/// Consecutive leaves after which a scan is not short any more, so that readahead pays.
const LONG_ROW: u32 = 3;

/// Reads leaves of one run, ahead of a walk that wants them one after the other, forward or backward.
#[derive(Debug)]
pub(super) struct ReadAhead {
    fill: Fill,
    held: Span,
    /// The part of the file behind `held` that is being read, if one is.
    next: Option<(Range<u64>, SpanInFlight)>,
    /// Where the leaf that was asked for last lies.
    last: Range<u64>,
    row: Row,
    /// How many bytes were last read at once.
    span: usize,
    /// Leaves that were not in the cache, of all runs so far.
    leaves_read: u64,
    /// Whether `held` was read for later walks too, and is not in the cache yet.
    for_others: bool,
}

/// A part of the file that was read.
#[derive(Debug, Default)]
struct Span {
    range: Range<u64>,
    buffer: AlignedBuffer,
    /// Where in the buffer it begins.
    at: usize,
}

impl Span {
    /// Reads another part of the file in the place of this one.
    fn read(&mut self, file: &BlockFile, range: Range<u64>) -> Result<()> {
        self.range = 0..0;
        self.at = file.read_span(range.start, usize_of(range.end - range.start), &mut self.buffer)?.start;
        self.range = range;
        Ok(())
    }

    /// The bytes of the file that the part is to hold.
    fn bytes(&self, range: Range<u64>) -> &[u8] {
        &self.buffer[self.at + usize_of(range.start - self.range.start)..][..usize_of(range.end - range.start)]
    }
}

/// The leaves asked for last, each next to the one before.
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
        let held = Span::default();
        Self { fill, held, next: None, last: 0..0, row: Row::NONE, span: 0, leaves_read: 0, for_others: false }
    }

    /// Forgets what was read, because another run comes next.
    pub(super) fn reset(&mut self) {
        (self.held.range, self.next, self.last, self.row, self.span) = (0..0, None, 0..0, Row::NONE, 0);
        self.for_others = false;
    }

    /// The bytes in the file of the leaf that was asked for last and was not in the cache, if they are still held.
    pub(super) fn frame(&self) -> Option<&[u8]> {
        holds(&self.held.range, &self.last).then(|| self.held.bytes(self.last.clone()))
    }

    /// Leaves that were not in the cache.
    pub(super) const fn leaves_read(&self) -> u64 {
        self.leaves_read
    }

    /// Whether the leaves asked for last are a row that is likely to go on, and to be found in the cache as far as it
    /// holds them.
    pub(super) fn goes_on(&self) -> bool {
        self.fill == Fill::Keep && self.row.leaves >= LONG_ROW
    }

    /// The leaf that `pointer` points to, which may be at hand in `swip`, and whether it was in the cache (for a merge:
    /// and was read there). `wanted` says in which part of the file it pays to read ahead.
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
            Fill::Keep => run.cache.lookup_at(swip, instance, pointer, Fill::Keep).map(|leaf| (leaf, true)),
            Fill::Merge => run.cache.peek(instance, pointer),
        };
        if let Some(cached) = cached {
            return Ok(cached);
        }
        self.leaves_read += 1;
        let walks_read = if self.fill == Fill::Keep { run.last_read.note(pointer) } else { 0 };
        let is_short = self.row.leaves < LONG_ROW && !self.row.backward;
        let leaf = if is_short && walks_read > u64::from(LONG_ROW) && !holds(&self.held.range, &self.last) {
            self.read_for_others(run, pointer)?
        } else {
            self.read(run, pointer, wanted)?
        };
        Ok(match self.fill {
            Fill::Keep => (run.cache.insert(instance, pointer, leaf), false),
            Fill::Bypass | Fill::Merge => (leaf, false),
        })
    }

    /// Reads a leaf and what is behind it, for the walks that will go on there.
    fn read_for_others(&mut self, run: &Run, pointer: BlockPointer) -> Result<Block> {
        let (file, end) = (run.file(), run.footer().leaves_end);
        let range = pointer.offset..end.min(pointer.offset + u64_of(KEEP_BYTES_MIN)).max(pointer.end());
        self.held.read(file, range)?;
        self.for_others = true;
        file.parse(self.held.bytes(self.last.clone()), pointer)
    }

    /// Puts the leaves behind that of entry `slot` of a part of the index into the cache that were read for others.
    pub(super) fn share(&mut self, run: &Run, index: &Block, slot: usize) {
        if !std::mem::take(&mut self.for_others) {
            return;
        }
        for slot in slot + 1..index.count() {
            let Ok(pointer) = run.pointer(index, slot) else { return };
            let leaf = pointer.offset..pointer.end();
            if !holds(&self.held.range, &leaf) {
                return;
            }
            // Read by itself when it is asked for, a leaf says what is wrong.
            let Ok(block) = run.file().parse(self.held.bytes(leaf), pointer) else { return };
            run.cache.insert(run.file().instance(), pointer, block);
            run.last_read.note(pointer);
        }
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
        let (file, leaf) = (run.file(), pointer.offset..pointer.end());
        if holds(&self.held.range, &leaf) {
            return file.parse(self.held.bytes(leaf), pointer);
        }
        if let Some((range, read)) = self.next.take()
            && holds(&(self.held.range.start..range.end), &leaf)
        {
            return self.turn(file, pointer, (range, read), wanted().end);
        }
        self.span = match self.fill {
            Fill::Bypass | Fill::Merge if self.row.leaves == 1 => BYPASS_BYTES_MIN,
            Fill::Bypass | Fill::Merge => (2 * self.span).clamp(BYPASS_BYTES_MIN, BYPASS_BYTES_MAX),
            Fill::Keep if self.row.leaves < LONG_ROW => 0,
            Fill::Keep => (2 * self.span).clamp(KEEP_BYTES_MIN, KEEP_BYTES_MAX),
        };
        if self.span <= usize_of32(pointer.bytes) {
            return file.read(pointer);
        }
        let wanted = wanted();
        let span = u64_of(self.span);
        let range = match self.row.backward {
            false => leaf.start..wanted.end.min(leaf.start + span).max(leaf.end),
            true => wanted.start.max(leaf.end.saturating_sub(span)).min(leaf.start)..leaf.end,
        };
        if usize_of(range.end - range.start) <= usize_of32(pointer.bytes) {
            return file.read(pointer);
        }
        self.held.read(file, range)?;
        self.begin_next(file, wanted.end, AlignedBuffer::default());
        file.parse(self.held.bytes(leaf), pointer)
    }

    /// Turns to the next span, which the leaf of `pointer` lies in, or begins before and ends in; and has the one
    /// behind it read.
    fn turn(
        &mut self,
        file: &BlockFile,
        pointer: BlockPointer,
        (range, read): (Range<u64>, SpanInFlight),
        wanted_end: u64,
    ) -> Result<Block> {
        let border = range.start.max(pointer.offset);
        let (buffer, place) = read.wait(file)?;
        let before = std::mem::replace(&mut self.held, Span { range, buffer, at: place.start });
        let rest = self.held.bytes(border..pointer.end());
        let leaf = match pointer.offset < border {
            true => file.parse(&[before.bytes(pointer.offset..border), rest].concat(), pointer),
            false => file.parse(rest, pointer),
        };
        self.begin_next(file, wanted_end, before.buffer);
        leaf
    }

    /// Begins to read the span behind the current one into `buffer`, if it is likely to be wanted.
    fn begin_next(&mut self, file: &BlockFile, wanted_end: u64, buffer: AlignedBuffer) {
        let goes_on = match self.fill {
            Fill::Keep => false,
            Fill::Merge => true,
            Fill::Bypass => self.row.leaves > 1 && !self.row.backward,
        };
        let start = self.held.range.end;
        let span = (2 * self.span).min(BYPASS_BYTES_MAX);
        let range = start..wanted_end.min(start + u64_of(span));
        if goes_on && !range.is_empty() {
            self.span = span;
            // Read by itself when it is asked for, a leaf says what is wrong.
            let read = file.begin_span(start, usize_of(range.end - start), buffer);
            self.next = read.ok().map(|read| (range, read));
        }
    }
}

fn holds(range: &Range<u64>, leaf: &Range<u64>) -> bool {
    range.start <= leaf.start && leaf.end <= range.end
}
