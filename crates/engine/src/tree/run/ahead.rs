//! Reading leaves in a row: the longer the row, the more of the file is read at once.

use super::Run;
use crate::base::Result;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::env::buffer::AlignedBuffer;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that the first read of a row in passing takes: whoever passes the cache by is about to read much.
const BYPASS_BYTES_MIN: usize = 128 << 10;
/// Bytes that the second read of any other row takes.
const KEEP_BYTES_MIN: usize = 32 << 10;
const BYPASS_BYTES_MAX: usize = 1 << 20;
const KEEP_BYTES_MAX: usize = 256 << 10;

/// Reads leaves of one run, ahead of who wants them one after the other.
#[derive(Debug)]
pub(super) struct ReadAhead {
    fill: Fill,
    buffer: AlignedBuffer,
    /// What part of the file the buffer holds, and where in the buffer it begins.
    held: Range<u64>,
    held_at: usize,
    /// Where the leaf that was asked for last ends, and how many bytes were last read at once.
    row_end: u64,
    span: usize,
}

impl ReadAhead {
    pub(super) fn new(fill: Fill) -> Self {
        Self { fill, buffer: AlignedBuffer::default(), held: 0..0, held_at: 0, row_end: u64::MAX, span: 0 }
    }

    /// Forgets what was read, because another run comes next.
    pub(super) fn reset(&mut self) {
        (self.held, self.row_end, self.span) = (0..0, u64::MAX, 0);
    }

    /// The leaf that `pointer` points to.
    pub(super) fn leaf(&mut self, run: &Run, pointer: BlockPointer) -> Result<Arc<Block>> {
        let in_row = pointer.offset == self.row_end;
        self.row_end = pointer.end();
        if self.fill == Fill::Bypass {
            return Ok(Arc::new(self.read(run, pointer, in_row)?));
        }
        let instance = run.file().instance();
        if let Some(leaf) = run.cache().lookup(instance, pointer, self.fill) {
            return Ok(leaf);
        }
        let leaf = self.read(run, pointer, in_row)?;
        Ok(run.cache().insert(instance, pointer, Arc::new(leaf)))
    }

    fn read(&mut self, run: &Run, pointer: BlockPointer, in_row: bool) -> Result<Block> {
        if !(self.held.start <= pointer.offset && pointer.end() <= self.held.end) {
            let (min, max) = match self.fill {
                Fill::Bypass => (BYPASS_BYTES_MIN, BYPASS_BYTES_MAX),
                Fill::Keep => (KEEP_BYTES_MIN, KEEP_BYTES_MAX),
            };
            self.span = match (in_row, self.fill) {
                (true, _) => (2 * self.span).clamp(min, max),
                (false, Fill::Bypass) => min,
                (false, Fill::Keep) => 0,
            };
            let left = usize_of(run.leaves_end().saturating_sub(pointer.offset));
            let bytes = self.span.min(left);
            if bytes <= usize_of32(pointer.bytes) {
                return run.file().read(pointer);
            }
            self.held = 0..0;
            self.held_at = run.file().read_span(pointer.offset, bytes, &mut self.buffer)?.start;
            self.held = pointer.offset..pointer.offset + u64_of(bytes);
        }
        let at = self.held_at + usize_of(pointer.offset - self.held.start);
        run.file().parse(&self.buffer[at..][..usize_of32(pointer.bytes)], pointer)
    }
}
