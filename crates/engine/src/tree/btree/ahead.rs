//! Read-ahead: leaves that follow each other in the tree and in the file are read in one go.
//!
//! A merge lays leaves down in the order of their keys, so that neighbours in the tree are often neighbours in the file. Who
//! goes on from leaf to leaf gets more of them per read each time, up to [`BYTES_MAX`].

use std::collections::VecDeque;
use std::sync::Arc;

use super::extent;
use super::file::TreeFile;
use crate::base::Result;
use crate::base::num::{usize_of, usize_of32};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::env::AlignedBuffer;
use crate::store::space::UNIT_BYTES;

/// The longest read ahead in bytes, unless one leaf is longer.
const BYTES_MAX: u64 = 256 << 10;

/// As many leaves as that may take.
const LEAVES_MAX: usize = usize_of(BYTES_MAX / UNIT_BYTES);

/// Reads leaves one after another.
#[derive(Debug, Default)]
pub(super) struct ReadAhead {
    /// Leaves of the next read, if they are one after another in the file.
    leaves: usize,
    /// Leaves that were read and not asked for yet.
    ready: VecDeque<(BlockPointer, Arc<Block>)>,
    buffer: AlignedBuffer,
}

impl ReadAhead {
    /// The next leaf asked for is not the one after the last; `leaves` are to be read with it.
    pub(super) fn restart(&mut self, leaves: usize) {
        self.leaves = leaves;
        self.ready.clear();
    }

    /// The leaf that is child `i` of `branch`, and whether it was in the cache.
    ///
    /// # Errors
    /// When the leaf cannot be read, is corrupt, or is no leaf. That leaves after it are, is found when they are asked for.
    pub(super) fn leaf(&mut self, file: &TreeFile, branch: &Block, i: usize, fill: Fill) -> Result<(Arc<Block>, bool)> {
        let pointer = file.child(branch, i)?;
        while let Some((ready, leaf)) = self.ready.pop_front() {
            if ready == pointer {
                return Ok((leaf, false));
            }
        }
        let cached = file.cache.lookup(file.blocks.instance(), pointer, fill);
        let (leaf, was_cached) = match cached {
            Some(leaf) => (leaf, true),
            None => (self.read(file, branch, i, fill)?, false),
        };
        file.check(&leaf, pointer, 0)?;
        self.leaves = (2 * self.leaves).clamp(2, LEAVES_MAX);
        Ok((leaf, was_cached))
    }

    fn read(&mut self, file: &TreeFile, branch: &Block, i: usize, fill: Fill) -> Result<Arc<Block>> {
        let keep = |pointer, block| match fill {
            Fill::Keep => file.cache.insert(file.blocks.instance(), pointer, Arc::new(block)),
            Fill::Bypass => Arc::new(block),
        };
        let row = self.row(file, branch, i)?;
        let (first, last) = (row[0], row[row.len() - 1]);
        if row.len() > 1
            && let Ok(span) = file.blocks.read_span(first.offset, usize_of(last.end() - first.offset), &mut self.buffer)
        {
            let bytes = &self.buffer[span];
            for pointer in &row {
                let frame = &bytes[usize_of(pointer.offset - first.offset)..][..usize_of32(pointer.bytes)];
                let Ok(block) = file.blocks.parse(frame, *pointer) else { break };
                if file.check(&block, *pointer, 0).is_err() {
                    break;
                }
                self.ready.push_back((*pointer, keep(*pointer, block)));
            }
            if let Some((_, leaf)) = self.ready.pop_front() {
                return Ok(leaf);
            }
        }
        // Read by itself, a leaf says what is wrong with it.
        file.blocks.read(first).map(|block| keep(first, block))
    }

    /// Leaf `i` of `branch` and those after it that the same read can get.
    fn row(&self, file: &TreeFile, branch: &Block, i: usize) -> Result<Vec<BlockPointer>> {
        let first = file.child(branch, i)?;
        let mut row = vec![first];
        let mut end = extent(first).end();
        for i in i + 1..branch.count().min(i + self.leaves) {
            let pointer = file.child(branch, i)?;
            let follows = extent(pointer).offset() == pointer.offset && extent(pointer).start == end;
            let fits = pointer.end().saturating_sub(first.offset) <= BYTES_MAX;
            if !follows || !fits || file.cache.lookup(file.blocks.instance(), pointer, Fill::Bypass).is_some() {
                break;
            }
            end = extent(pointer).end();
            row.push(pointer);
        }
        Ok(row)
    }
}
