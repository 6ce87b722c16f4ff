//! The filter of an open run: where its parts are, which of them are pinned in memory, and how often it rejects.

use super::filter::{LINE_BYTES, Layout, prefetch_line};
use super::filter_stats::FilterStats;
use crate::base::Result;
use crate::block::{Block, BlockPointer};
use crate::cache::{Cache, Fill};
use crate::store::BlockFile;
use crate::tree::branch::CacheReservation;
use std::sync::{Arc, OnceLock};

/// The filter of an open run.
#[derive(Debug)]
pub(super) struct OpenFilter {
    pub(super) layout: Layout,
    /// Where its parts lie in the file.
    pub(super) parts: Box<[BlockPointer]>,
    /// The parts that are pinned.
    pinned: Box<[OnceLock<Block>]>,
    /// How often it rejects.
    pub(super) stats: FilterStats,
}

impl OpenFilter {
    /// A filter whose parts `parts` point to; none is pinned yet.
    pub(super) fn new(layout: Layout, parts: Box<[BlockPointer]>) -> Self {
        let pinned = parts.iter().map(|_| OnceLock::new()).collect();
        Self { layout, parts, pinned, stats: FilterStats::new() }
    }

    /// Whether the filter lets a key or prefix with this hash pass. Pins the part that it reads if the filter rejects
    /// often and the cache grants the memory.
    #[inline]
    pub(super) fn may_contain(
        &self,
        file: &BlockFile,
        cache: &Arc<Cache>,
        reservation: &CacheReservation,
        hash: u64,
    ) -> Result<bool> {
        let (part, at) = self.layout.place(hash);
        let pointer = self.parts[part];
        let fetched;
        let block = match self.pinned(part) {
            Some(pinned) => pinned,
            None => {
                fetched = cache.get(file, pointer, Fill::Keep)?;
                if self.stats.rejects_often() {
                    reservation.pin(&self.pinned[part], fetched.memory_bytes(), || Some(fetched.in_pinned_memory()));
                }
                &fetched
            }
        };
        Ok(self.layout.may_contain(line(file, block, at, pointer)?, hash))
    }

    /// Prefetches the line that a probe for this hash reads, if its part is pinned.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let (part, at) = self.layout.place(hash);
        if let Some(block) = self.pinned(part) {
            prefetch_line(block, at);
        }
    }

    /// Part `part`, if it is pinned.
    #[inline]
    pub(super) fn pinned(&self, part: usize) -> Option<&Block> {
        self.pinned.get(part)?.get()
    }
}

/// The line at byte `at` of a part of a filter, which `pointer` points to.
#[inline]
pub(super) fn line<'b>(
    file: &BlockFile,
    part: &'b Block,
    at: usize,
    pointer: BlockPointer,
) -> Result<&'b [u8; LINE_BYTES]> {
    let line = part.bytes().get(at..).and_then(<[u8]>::first_chunk::<LINE_BYTES>);
    line.ok_or_else(|| file.corruption(pointer.offset, "this is not the part of the filter that it should be"))
}
