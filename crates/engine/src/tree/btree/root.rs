//! One root of a B-tree and all that it reaches: a point in the tree's history that stays as it is while it is held.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use super::cursor::BTreeCursor;
use super::file::TreeFile;
use super::format::{TreeMeta, continues};
use super::read_free_list;
use crate::base::num::u64_of;
use crate::base::sync::AtomicU64;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::store::Extent;
use crate::tree::lookup::{Answers, Ask, nothing};
use crate::tree::{Ages, Cursor, Found};

/// A root of a tree. What it reaches is neither changed nor reused before its last holder has let go.
#[derive(Debug)]
pub struct TreeRoot {
    pub(super) file: Arc<TreeFile>,
    pub(super) meta: TreeMeta,
    /// The topmost block, kept from its first use on: every lookup begins there.
    top: OnceLock<Block>,
    /// The branches below it, by their place in it: gets find them without the cache, and hold none of them. Each is kept from its first use on,
    /// as long as there is room.
    branches: OnceLock<Box<[OnceLock<Block>]>>,
    /// Bytes of memory that [`Self::branches`] may still take.
    room: AtomicU64,
}

/// The branches that a root keeps have at most this part of the cache's bytes, which does not count them once it has let go of them.
const KEPT_PART: u64 = 32;
/// And at most so many bytes.
const KEPT_BYTES_MAX: u64 = 16 << 20;

impl TreeRoot {
    pub(super) fn new(file: Arc<TreeFile>, meta: TreeMeta) -> Arc<Self> {
        let room = AtomicU64::new((file.cache.capacity() / KEPT_PART).min(KEPT_BYTES_MAX));
        Arc::new(Self { file, meta, top: OnceLock::new(), branches: OnceLock::new(), room })
    }

    /// Where the root lies, and what it reaches.
    #[must_use]
    pub const fn meta(&self) -> &TreeMeta {
        &self.meta
    }

    /// The extents of the file that the root does not reach, ascending.
    ///
    /// # Errors
    /// When their list cannot be read or is corrupt.
    pub fn free(&self) -> Result<Vec<Extent>> {
        read_free_list(&self.file, &self.meta)
    }

    /// Between what seqnums the entries are.
    #[inline]
    #[must_use]
    pub fn ages(&self) -> Ages {
        Ages { least: self.meta.clean_to, most: self.meta.seqnum_max.max(self.meta.clean_to) }
    }

    /// The newest version of `key` that `snapshot` sees, be it a tombstone. Its seqnum is at least that up to which the tree is clean.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn get(self: &Arc<Self>, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        let Some(mut pointer) = self.meta.root else { return Ok(None) };
        let (mut spread, mut i) = (false, 0);
        for height in (1..=self.meta.height).rev() {
            let below;
            let branch = match self.meta.height - height {
                0 => self.top(pointer, Fill::Keep)?,
                1 if let Some(kept) = self.kept(i, pointer)? => kept,
                _ => {
                    below = self.block(pointer, height, Fill::Keep)?;
                    &below
                }
            };
            i = route(branch, key);
            spread |= i + 1 < branch.count() && continues(branch, i + 1);
            pointer = self.file.child(branch, i)?;
        }
        let leaf = self.block(pointer, 0, Fill::Keep)?;
        match visible(&leaf, key, snapshot) {
            Some(i) => Ok(Some(self.found(leaf, i))),
            None if spread => self.get_spread(key, snapshot),
            None => Ok(None),
        }
    }

    /// [`Self::get`] of several keys, which ascend: blocks that are not in the cache are read together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(self: &Arc<Self>, asks: &[Ask<'_>], snapshot: SeqNum) -> Result<Answers> {
        let Some(root) = self.meta.root else { return Ok(nothing(asks.len())) };
        let mut blocks = vec![self.block(root, self.meta.height, Fill::Keep)?; asks.len()];
        let mut spread = vec![false; asks.len()];
        for height in (0..self.meta.height).rev() {
            let mut pointers = Vec::with_capacity(asks.len());
            for ((ask, branch), spread) in asks.iter().zip(&blocks).zip(&mut spread) {
                let i = route(branch, ask.key);
                *spread |= i + 1 < branch.count() && continues(branch, i + 1);
                pointers.push((&self.file.blocks, self.file.child(branch, i)?));
            }
            blocks = self.file.cache.get_many(&pointers, Fill::Keep)?;
            blocks.iter().for_each(|block| block.prefetch_search());
            for (block, (_, pointer)) in blocks.iter().zip(&pointers) {
                self.file.check(block, *pointer, height)?;
            }
            blocks.iter().zip(asks).for_each(|(block, ask)| block.prefetch_entries(ask.key));
        }
        let answer = |((ask, leaf), spread): ((&Ask<'_>, Block), bool)| match visible(&leaf, ask.key, snapshot) {
            Some(i) => Ok(Some(self.found(leaf, i))),
            None if spread => self.get_spread(ask.key, snapshot),
            None => Ok(None),
        };
        asks.iter().zip(blocks).zip(spread).map(answer).collect()
    }

    /// As [`Self::get`], when the versions of the key may lie in several leaves.
    #[cold]
    fn get_spread(self: &Arc<Self>, key: &[u8], snapshot: SeqNum) -> Result<Option<Found>> {
        let mut cursor = self.cursor(Fill::Keep);
        cursor.seek_ge(key)?;
        while let Some(entry) = cursor.entry().filter(|entry| entry.key == key) {
            if entry.seqnum <= snapshot {
                let (seqnum, kind) = (entry.seqnum.max(self.meta.clean_to), entry.kind);
                return Ok(cursor.value().map(|value| Found { seqnum, kind, value }));
            }
            cursor.next()?;
        }
        Ok(None)
    }

    /// Entry `i` of `leaf`.
    #[inline]
    fn found(&self, leaf: Block, i: usize) -> Found {
        let slot = leaf.slot(i);
        let (seqnum, kind, at, len) = (slot.seqnum.max(self.meta.clean_to), slot.kind, slot.value_at, slot.value_len);
        Found { seqnum, kind, value: leaf.pinned(at, len) }
    }

    /// A cursor over all entries. Blocks that it reads go into the cache as `fill` says.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, fill: Fill) -> BTreeCursor {
        BTreeCursor::new(Arc::clone(self), fill)
    }

    /// The block that `pointer` names, `height` levels above the leaves, on its way into the nearest cache.
    #[inline]
    pub(super) fn block(&self, pointer: BlockPointer, height: u32, fill: Fill) -> Result<Block> {
        // A small tree's only leaf is not kept: it may be large, and the cache counts it.
        if height == self.meta.height && height > 0 {
            return self.top(pointer, fill).cloned();
        }
        let block = self.file.get(pointer, height, fill)?;
        block.prefetch_search();
        Ok(block)
    }

    /// The topmost block, which `pointer` names, if it is a branch. Lent, as all readers share the count of who holds it.
    #[inline]
    fn top(&self, pointer: BlockPointer, fill: Fill) -> Result<&Block> {
        if let Some(top) = self.top.get() {
            return Ok(top);
        }
        let block = self.file.get(pointer, self.meta.height, fill)?;
        Ok(self.top.get_or_init(|| block))
    }

    /// Branch `i` below the topmost one, which `pointer` names; `None` when there is no room to keep it.
    #[inline]
    fn kept(&self, i: usize, pointer: BlockPointer) -> Result<Option<&Block>> {
        match self.branches.get().and_then(|branches| branches.get(i)?.get()) {
            Some(branch) => {
                branch.prefetch_search();
                Ok(Some(branch))
            }
            None if self.room.load(Ordering::Relaxed) == 0 => Ok(None),
            None => self.keep(i, pointer),
        }
    }

    /// As [`Self::kept`], the first time.
    #[cold]
    fn keep(&self, i: usize, pointer: BlockPointer) -> Result<Option<&Block>> {
        let count = self.top.get().map_or(0, Block::count);
        let branches = self.branches.get_or_init(|| (0..count).map(|_| OnceLock::new()).collect());
        let block = self.file.get(pointer, self.meta.height - 1, Fill::Keep)?;
        let bytes = u64_of(block.memory_bytes());
        let taken = self.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |room| room.checked_sub(bytes));
        if taken.is_err() {
            self.room.store(0, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(branches.get(i).map(|kept| kept.get_or_init(|| block)))
    }
}

/// The first child of `branch` that can hold `key`.
#[inline]
pub(super) fn route(branch: &Block, key: &[u8]) -> usize {
    let mut i = branch.upper_bound(key).saturating_sub(1);
    while i > 0 && continues(branch, i) && branch.compare_key(i, key).is_eq() {
        i -= 1;
    }
    i
}

/// The first version of `key` in `leaf` that `snapshot` sees.
#[inline]
fn visible(leaf: &Block, key: &[u8], snapshot: SeqNum) -> Option<usize> {
    let mut i = leaf.find(key)?;
    while leaf.seqnum(i) > snapshot {
        i += 1;
        if i == leaf.count() || leaf.compare_key(i, key).is_ne() {
            return None;
        }
    }
    Some(i)
}
