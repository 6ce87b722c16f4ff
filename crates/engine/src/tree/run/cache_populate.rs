//! Puts blocks of a new run into the cache: where those that it is made of were there and read, since a merge keeps
//! warm what was warm; and all others where the cache has room for them, so that the first read of them does not go to
//! the device.

use crate::base::num::u32_of;
use crate::block::{Block, BlockPointer};
use crate::cache::Cache;
use std::sync::Arc;

/// Which blocks of a run that is being written go into a cache.
#[derive(Debug)]
pub(super) struct CachePopulate {
    cache: Arc<Cache>,
    /// Entries now come from blocks in the cache, or from a memtable that is read.
    is_cached: bool,
    /// How many entries of the leaf in hand did.
    cached: u32,
    /// Some leaf was warm.
    any: bool,
}

impl CachePopulate {
    pub(super) const fn new(cache: Arc<Cache>) -> Self {
        Self { cache, is_cached: false, cached: 0, any: false }
    }

    /// Says where the entries that follow come from.
    #[inline]
    pub(super) const fn source(&mut self, is_cached: bool) {
        self.is_cached = is_cached;
    }

    /// An entry went into the leaf in hand.
    #[inline]
    pub(super) fn count(&mut self) {
        self.cached += u32::from(self.is_cached);
    }

    /// All `entries` entries of a copied leaf came from one source.
    pub(super) fn whole(&mut self, entries: usize) {
        self.cached = if self.is_cached { u32_of(entries) } else { 0 };
    }

    /// The current leaf was written, with `entries` entries. It goes into the cache like its sources when half of them
    /// come from the cache: a few would bring all neighbours of what is read into memory in place of others.
    pub(super) fn leaf(&mut self, instance: u64, pointer: BlockPointer, image: &[u8], entries: usize) {
        let cached = std::mem::take(&mut self.cached);
        let is_warm = cached > 0 && cached.saturating_mul(2) >= u32_of(entries);
        self.any |= is_warm;
        self.keep(instance, pointer, image, is_warm);
    }

    /// A part of the index or of the filter was written, which is read before a leaf is.
    pub(super) fn part(&self, instance: u64, pointer: BlockPointer, image: &[u8]) {
        self.keep(instance, pointer, image, self.any);
    }

    fn keep(&self, instance: u64, pointer: BlockPointer, image: &[u8], is_warm: bool) {
        if is_warm {
            drop(self.cache.insert(instance, pointer, Block::built(image)));
        } else {
            self.cache.populate(instance, pointer, image.len(), || Block::built(image));
        }
    }
}
