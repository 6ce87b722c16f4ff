//! Read-ahead: leaves that follow each other in the tree and in the file are read in one go.
//!
//! A merge lays leaves down in the order of their keys, so that neighbours in the tree are often neighbours in the
//! file. A walk that goes on from leaf to leaf, either way, gets more of them per read each time, up to [`BYTES_MAX`].
//! A walk that passes the cache by, as a merge does, has the next of them read while it works on these.

use std::cmp::Ordering::{Equal, Less};
use std::collections::VecDeque;
use std::ops::Range;

use super::file::TreeFile;
use super::format::continues;
use super::free_list::extent;
use super::root::swip;
use crate::base::Result;
use crate::base::num::{usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::env::AlignedBuffer;
use crate::store::file::SpanInFlight;
use crate::store::space::UNIT_BYTES;
use crate::tree::branch::Branch;
use crate::tree::cursor::Limits;

/// The longest read ahead in bytes, unless one leaf is longer.
const BYTES_MAX: u64 = 256 << 10;

/// As many leaves as that may take.
const LEAVES_MAX: usize = usize_of(BYTES_MAX / UNIT_BYTES);

/// A walk that would read more leaves at once than this goes on for long.
const READ_ROW: usize = 4;

/// Where a walk over leaves goes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Walk<'a> {
    pub(super) backward: bool,
    pub(super) limits: Option<&'a Limits>,
}

impl Walk<'_> {
    /// Forward without end.
    pub(super) const FORWARD: Self = Self { backward: false, limits: None };

    /// The child of `branch` that comes after child `i` on the way, if it is one that can hold keys within the limits.
    pub(super) fn after(self, branch: &Block, i: usize) -> Option<usize> {
        let limits = self.limits;
        if self.backward {
            let border = |low: &[u8]| branch.compare_key(i, low).then(if continues(branch, i) { Equal } else { Less });
            let ends = i == 0 || limits.is_some_and(|limits| border(&limits.low).is_lt());
            return (!ends).then(|| i - 1);
        }
        let next = i + 1;
        let high = limits.and_then(|limits| limits.high.as_deref());
        let ends = next == branch.count() || high.is_some_and(|high| branch.compare_key(next, high).is_ge());
        (!ends).then_some(next)
    }

    /// Whether the limits end the way behind child `i` of `branch`, and not only the branch.
    pub(super) fn ends_at(self, branch: &Block, i: usize) -> bool {
        let last = if self.backward { i == 0 } else { i + 1 == branch.count() };
        !last && self.after(branch, i).is_none()
    }
}

/// Reads leaves one after another.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Leaves of the next read, if they are one after another in the file.
    leaves: usize,
    backward: bool,
    /// Leaves that were read and not asked for yet.
    ready: VecDeque<(BlockPointer, Block)>,
    /// Leaves that are being read, one after another in the file.
    next: Option<(Vec<BlockPointer>, SpanInFlight)>,
    buffer: AlignedBuffer,
}

impl ReadAhead {
    /// The next leaf asked for is not the one after the last: `leaves` are to be read with it.
    pub(super) fn restart(&mut self, leaves: usize) {
        self.leaves = leaves;
        self.ready.clear();
        self.next = None;
    }

    /// The leaf that is child `i` of `branch`, and whether it was in the cache. The leaf after it is prefetched.
    /// `above` is the same branch and child, if the root keeps the branch.
    ///
    /// # Errors
    /// When the leaf cannot be read, is corrupt, or is no leaf. That leaves after it are, is found when they are asked
    /// for.
    pub(super) fn leaf(
        &mut self,
        file: &TreeFile,
        (branch, i): (&Block, usize),
        above: Option<(&Branch, usize)>,
        fill: Fill,
        walk: Walk<'_>,
    ) -> Result<(Block, bool)> {
        let pointer = file.child(branch, i)?;
        if walk.backward != self.backward {
            self.backward = walk.backward;
            self.restart(1);
        }
        while let Some((ready, leaf)) = self.ready.pop_front() {
            if ready == pointer {
                return Ok((leaf, false));
            }
        }
        let (cache, instance) = (&file.cache, file.blocks.instance());
        let cached = match fill {
            Fill::Merge => cache.peek(instance, pointer),
            _ => cache.lookup_at(swip(above, pointer), instance, pointer, fill).map(|leaf| (leaf, true)),
        };
        let (leaf, was_cached) = match cached {
            Some(cached) => cached,
            None => (self.read(file, branch, i, fill, walk)?, false),
        };
        file.check(&leaf, pointer, 0)?;
        if was_cached && fill == Fill::Keep && self.leaves > READ_ROW {
            let _ = ask_ahead(file, branch, i, walk);
        }
        self.leaves = (2 * self.leaves).clamp(2, LEAVES_MAX);
        Ok((leaf, was_cached))
    }

    fn read(&mut self, file: &TreeFile, branch: &Block, i: usize, fill: Fill, walk: Walk<'_>) -> Result<Block> {
        let keep = |pointer, block| match fill {
            Fill::Keep => file.cache.insert(file.blocks.instance(), pointer, block),
            Fill::Bypass | Fill::Merge => block,
        };
        let first = file.child(branch, i)?;
        if let Some((row, span)) = self.read_row(file, (branch, i), first, walk)? {
            let bytes = &self.buffer[span];
            let low = if walk.backward { row[row.len() - 1] } else { first };
            for pointer in &row {
                let frame = &bytes[usize_of(pointer.offset - low.offset)..][..usize_of32(pointer.bytes)];
                let Ok(block) = file.blocks.parse(frame, *pointer) else { break };
                if file.check(&block, *pointer, 0).is_err() {
                    break;
                }
                self.ready.push_back((*pointer, keep(*pointer, block)));
            }
            if self.ready.len() > READ_ROW && fill != Fill::Keep && !walk.backward {
                self.begin_next(file, (branch, i + row.len() - 1), walk)?;
            }
            if let Some((_, leaf)) = self.ready.pop_front() {
                return Ok(leaf);
            }
        }
        // Read by itself, a leaf says what is wrong with it.
        file.blocks.read(first).map(|block| keep(first, block))
    }

    /// Reads leaf `i` of `branch`, which is `first`, and those after it; says which and where they are in the buffer.
    /// Nothing when there are none after it, or when they cannot be read.
    fn read_row(
        &mut self,
        file: &TreeFile,
        (branch, i): (&Block, usize),
        first: BlockPointer,
        walk: Walk<'_>,
    ) -> Result<Option<(Vec<BlockPointer>, Range<usize>)>> {
        if let Some((row, read)) = self.next.take_if(|(row, _)| row[0] == first) {
            let Ok((buffer, span)) = read.wait(&file.blocks) else { return Ok(None) };
            self.buffer = buffer;
            return Ok(Some((row, span)));
        }
        let row = self.row(file, branch, i, walk)?;
        if row.len() == 1 {
            return Ok(None);
        }
        let (offset, bytes) = span_of(&row, walk);
        let span = file.blocks.read_span(offset, bytes, &mut self.buffer);
        Ok(span.ok().map(|span| (row, span)))
    }

    /// Has the leaves behind leaf `i` of `branch` read as far as one read can get them, unless they are in the cache.
    fn begin_next(&mut self, file: &TreeFile, (branch, i): (&Block, usize), walk: Walk<'_>) -> Result<()> {
        let Some(next) = walk.after(branch, i) else { return Ok(()) };
        let row = self.row(file, branch, next, walk)?;
        if row.len() > 1 && file.cache.lookup(file.blocks.instance(), row[0], Fill::Bypass).is_none() {
            let (offset, bytes) = span_of(&row, walk);
            let read = file.blocks.begin_span(offset, bytes, std::mem::take(&mut self.buffer));
            self.next = read.ok().map(|read| (row, read));
        }
        Ok(())
    }

    /// Leaf `i` of `branch` and those after it on the way that the same read can get.
    fn row(&self, file: &TreeFile, branch: &Block, i: usize, walk: Walk<'_>) -> Result<Vec<BlockPointer>> {
        let first = file.child(branch, i)?;
        let (mut row, mut at, mut last) = (vec![first], i, first);
        while row.len() < self.leaves
            && let Some(next) = walk.after(branch, at)
        {
            let pointer = file.child(branch, next)?;
            let (low, high) = if walk.backward { (pointer, last) } else { (last, pointer) };
            let whole = |pointer: BlockPointer| extent(pointer).offset() == pointer.offset;
            let touch = whole(low) && whole(high) && extent(high).start == extent(low).end();
            let fits = high.end().max(first.end()).saturating_sub(low.offset.min(first.offset)) <= BYTES_MAX;
            if !touch || !fits || file.cache.lookup(file.blocks.instance(), pointer, Fill::Bypass).is_some() {
                break;
            }
            row.push(pointer);
            (at, last) = (next, pointer);
        }
        Ok(row)
    }
}

/// Where leaves that are one after another in the file begin, and how many bytes they take.
fn span_of(row: &[BlockPointer], walk: Walk<'_>) -> (u64, usize) {
    let (first, last) = (row[0], row[row.len() - 1]);
    let (low, high) = if walk.backward { (last, first) } else { (first, last) };
    (low.offset, usize_of(high.end() - low.offset))
}

/// Prefetches the leaf that a walk reaches after leaf `i` of `branch`, and what the cache knows of the leaf after that.
fn ask_ahead(file: &TreeFile, branch: &Block, i: usize, walk: Walk<'_>) -> Option<()> {
    let (cache, instance) = (&file.cache, file.blocks.instance());
    let next = walk.after(branch, i)?;
    cache.prefetch_step(instance, file.child(branch, next).ok()?);
    let behind = walk.after(branch, next)?;
    cache.prefetch_line(instance, file.child(branch, behind).ok()?);
    Some(())
}
