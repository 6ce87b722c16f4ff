//! One root of a B-tree and all that it reaches: a point in the tree's history that stays as it is while it is held.

use std::sync::{Arc, OnceLock};

use super::file::TreeFile;
use super::format::{TreeMeta, continues};
use super::free_list::read_free_list;
use crate::base::{FileId, Result};
use crate::block::{Block, BlockPointer};
use crate::cache::{Fill, SwipOf, Wanted};
use crate::store::Extent;
use crate::tree::branch::{Branch, CacheReservation};
use crate::tree::cursor::SeqnumBounds;

/// A root of a tree. What it reaches is neither changed nor reused before its last holder has let go.
#[derive(Debug)]
pub struct TreeRoot {
    pub(super) file: Arc<TreeFile>,
    pub(super) meta: TreeMeta,
    /// The topmost branch, if there is any: every lookup begins there.
    top: OnceLock<Branch>,
    reservation: CacheReservation,
    named_from: OnceLock<FileId>,
    /// The list of free space, once it was read: it stays as it is.
    free: OnceLock<Vec<Extent>>,
}

impl TreeRoot {
    pub(super) fn new(file: Arc<TreeFile>, meta: TreeMeta) -> Arc<Self> {
        let reservation = CacheReservation::new(&file.cache);
        let (top, named_from, free) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Arc::new(Self { file, meta, top, reservation, named_from, free })
    }

    /// No manifest before this one names the root.
    pub fn note_named(&self, manifest: FileId) {
        // A root is named once.
        _ = self.named_from.set(manifest);
    }

    /// A manifest before which none names the root.
    #[must_use]
    pub fn named_from(&self) -> FileId {
        self.named_from.get().copied().unwrap_or_default()
    }

    /// Where the root lies, and what it reaches.
    #[must_use]
    pub const fn meta(&self) -> &TreeMeta {
        &self.meta
    }

    /// The extents of the file that the root does not reach, ascending. Their list is read once.
    ///
    /// # Errors
    /// When their list cannot be read or is corrupt.
    pub fn free(&self) -> Result<&[Extent]> {
        match self.free.get() {
            Some(free) => Ok(free),
            None => read_free_list(&self.file, &self.meta).map(|free| &**self.free.get_or_init(|| free)),
        }
    }

    /// Between what seqnums the entries are.
    #[inline]
    #[must_use]
    pub fn seqnum_bounds(&self) -> SeqnumBounds {
        SeqnumBounds { smallest: self.meta.clean_to, largest: self.meta.seqnum_max.max(self.meta.clean_to) }
    }

    /// The branch that `pointer` names, `height` levels above the leaves; its front is prefetched. It is
    /// child `i` of the branch `above`, if that is kept.
    #[inline]
    pub(super) fn branch<'r>(
        &'r self,
        above: Option<(&'r Branch, usize)>,
        pointer: BlockPointer,
        height: u32,
        fill: Fill,
    ) -> Result<Step<'r>> {
        let kept = match above {
            None if height == self.meta.height => Some(self.top(pointer, fill)?),
            above => above.and_then(|(above, i)| above.child(i)),
        };
        if let Some(kept) = kept {
            kept.block().prefetch_search();
            return Ok(Step::Pinned(kept));
        }
        let branch = self.file.get(pointer, height, fill)?;
        branch.prefetch_search();
        let above = above.filter(|_| fill == Fill::Keep);
        let kept = above.and_then(|(above, i)| above.pin(i, &branch, height, &self.reservation));
        Ok(kept.map_or(Step::Fetched(branch), Step::Pinned))
    }

    /// [`Self::branch`] of several: those that are not in memory are read together.
    pub(super) fn branches<'r>(
        &'r self,
        above: &[Option<(&'r Branch, usize)>],
        pointers: &[BlockPointer],
        height: u32,
    ) -> Result<Vec<Step<'r>>> {
        if height == self.meta.height {
            return pointers.iter().map(|pointer| self.branch(None, *pointer, height, Fill::Keep)).collect();
        }
        let kept: Vec<_> = above.iter().map(|above| above.and_then(|(above, i)| above.child(i))).collect();
        let missing = || (0..kept.len()).filter(|at| kept[*at].is_none());
        let file = &self.file.blocks;
        let wanted = missing().map(|at| Wanted { file, pointer: pointers[at], swip: None });
        let fetched = self.file.cache.get_many(&wanted.collect::<Vec<_>>(), Fill::Keep)?;
        let mut steps: Vec<_> = kept.iter().map(|kept| kept.map(Step::Pinned)).collect();
        for (at, branch) in missing().zip(fetched) {
            self.file.check(&branch, pointers[at], height)?;
            let kept = above[at].and_then(|(above, i)| above.pin(i, &branch, height, &self.reservation));
            steps[at] = Some(kept.map_or(Step::Fetched(branch), Step::Pinned));
        }
        Ok(steps.into_iter().flatten().collect())
    }

    /// The leaf that `pointer` names; its front is prefetched. It is child `i` of the branch `above`, if that
    /// is kept.
    #[inline]
    pub(super) fn leaf(&self, above: Option<(&Branch, usize)>, pointer: BlockPointer, fill: Fill) -> Result<Block> {
        let swip = swip(above, pointer);
        _ = swip.is_some_and(SwipOf::follow);
        let leaf = self.file.cache.get_at(swip, &self.file.blocks, pointer, fill)?;
        self.file.check(&leaf, pointer, 0)?;
        leaf.prefetch_search();
        Ok(leaf)
    }

    /// Prefetches the memory that [`Self::branch`] and [`Self::leaf`] will read; true if that is the block itself.
    pub(super) fn prefetch_step(&self, above: Option<(&Branch, usize)>, pointer: BlockPointer) -> bool {
        if let Some(kept) = above.and_then(|(above, i)| above.child(i)) {
            kept.block().prefetch_search();
            return true;
        }
        self.file.cache.follow(swip(above, pointer), self.file.blocks.instance(), pointer)
    }

    /// Child `i` of a branch.
    #[inline]
    pub(super) fn child(&self, step: &Step<'_>, i: usize) -> Result<BlockPointer> {
        match step.pinned().and_then(|kept| kept.trace(i)) {
            Some(trace) => Ok(*trace.pointer),
            None => self.file.child(step.block(), i),
        }
    }

    /// The topmost branch, which `pointer` names. Lent, not cloned: all readers share the count of its holders.
    #[inline]
    fn top(&self, pointer: BlockPointer, fill: Fill) -> Result<&Branch> {
        if let Some(top) = self.top.get() {
            return Ok(top);
        }
        let block = self.file.get(pointer, self.meta.height, fill)?;
        let top = Branch::new(block, self.meta.height);
        let top = top.map_err(|_| self.file.corruption(pointer, "an entry of the tree's root is no pointer"))?;
        Ok(self.top.get_or_init(|| top))
    }

    /// The last branch on a path from the root, and the child that the path takes there, if the branch is kept.
    pub(super) fn pinned(&self, path: impl Iterator<Item = usize>) -> Option<(&Branch, usize)> {
        let (mut branch, mut path) = (self.top.get()?, path.peekable());
        while let Some(i) = path.next() {
            if path.peek().is_none() {
                return Some((branch, i));
            }
            branch = branch.child(i)?;
        }
        None
    }
}

/// The swip of a child of a kept branch, to which `pointer` leads, if it is a leaf.
#[inline]
pub(super) fn swip<'r>(above: Option<(&'r Branch, usize)>, pointer: BlockPointer) -> Option<SwipOf<'r>> {
    let trace = above.and_then(|(above, i)| above.trace(i))?;
    debug_assert_eq!(*trace.pointer, pointer);
    Some(trace.swip)
}

/// A branch on the way to a leaf.
#[derive(Debug)]
pub(super) enum Step<'r> {
    /// One that the root keeps: lent, not cloned, as all readers share the count of its holders.
    Pinned(&'r Branch),
    /// One from the cache.
    Fetched(Block),
}

impl<'r> Step<'r> {
    #[inline]
    pub(super) const fn block(&self) -> &Block {
        match self {
            Self::Pinned(branch) => branch.block(),
            Self::Fetched(branch) => branch,
        }
    }

    #[inline]
    pub(super) const fn pinned(&self) -> Option<&'r Branch> {
        match self {
            Self::Pinned(branch) => Some(branch),
            Self::Fetched(_) => None,
        }
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
