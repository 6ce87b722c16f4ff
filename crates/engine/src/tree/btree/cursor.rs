//! A walk over the entries of one root, which remembers the path from the root to its position.

use std::sync::Arc;

use super::readahead::{ReadAhead, Walk};
use super::root::{TreeRoot, route};
use crate::base::num::usize_of32;
use crate::base::{Entry, Error, ErrorKind, Result, Value};
use crate::block::{Block, BlockPointer, Bound};
use crate::cache::Fill;
use crate::store::BlocksRead;
use crate::tree::branch::Branch;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};
use crate::tree::leaf_cursor::{KeyBound, LeafCursor};

/// A branch on the path, and the child that the path takes.
#[derive(Debug)]
struct Step {
    branch: Block,
    child: usize,
}

/// A cursor over the entries of a [`TreeRoot`].
///
/// # Invariants
/// 1. When it is at an entry, its leaf is the block that the last step of `path` leads to.
/// 2. No leaf is empty, so that a leaf has a first and a last entry to step on.
#[derive(Debug)]
pub struct BTreeCursor {
    root: Arc<TreeRoot>,
    fill: Fill,
    /// From the root down; step `i` is at height `meta.height - i`.
    path: Vec<Step>,
    readahead: ReadAhead,
    here: LeafCursor,
    failed: bool,
    limits: Option<Arc<Limits>>,
    /// What was looked at so far.
    costs: Costs,
    /// The progress of a seek that was prefetched. The path leads there.
    progress: SeekProgress,
}

/// The progress of a seek to the first entry that is not below a key.
#[derive(Debug, Default)]
enum SeekProgress {
    /// Nowhere yet.
    #[default]
    Away,
    /// To this block.
    At(Block),
    /// To where the cache knows of the block below; then, `known`, to the block itself.
    Above { pointer: BlockPointer, known: bool },
    /// To this leaf, and as far in it as its heads tell.
    Leaf(Block, Bound),
    /// The rest is for the seek.
    Left,
}

impl BTreeCursor {
    /// A cursor over all entries of `root`, positioned nowhere. Blocks that it reads go into the cache as `fill` says.
    #[must_use]
    pub fn over(root: &Arc<TreeRoot>, fill: Fill) -> Self {
        let path = Vec::with_capacity(usize_of32(root.meta.height));
        Self {
            root: Arc::clone(root),
            fill,
            path,
            readahead: ReadAhead::default(),
            here: LeafCursor::nowhere(),
            failed: false,
            limits: None,
            costs: Costs::default(),
            progress: SeekProgress::Away,
        }
    }

    /// Makes a move that may read blocks; an error is final.
    fn go(&mut self, action: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        if self.failed {
            let message = format!("{}: the cursor failed before", self.root.file.path().display());
            return Err(Error::new(ErrorKind::Corruption, message));
        }
        self.progress = SeekProgress::Away;
        // What the action does not reach stays nowhere.
        let read = BlocksRead::so_far();
        let result = action(self);
        self.costs.blocks_read += read.since();
        if result.is_err() {
            self.failed = true;
            self.here.leave();
        }
        result
    }

    /// Walks from the root to the leaf that `choose` leads to.
    fn seek(&mut self, choose: impl Fn(&Block) -> usize) -> Result<Option<Block>> {
        self.path.clear();
        self.here.leave();
        self.readahead.restart(1);
        self.root.meta.root.map(|pointer| self.descend(pointer, choose)).transpose()
    }

    /// Walks from the block that the path leads to, and `pointer` names, to a leaf.
    fn descend(&mut self, mut pointer: BlockPointer, choose: impl Fn(&Block) -> usize) -> Result<Block> {
        loop {
            let block = self.block(pointer)?;
            if self.height() == 0 {
                return Ok(block);
            }
            let child = choose(&block);
            pointer = self.root.file.child(&block, child)?;
            self.path.push(Step { branch: block, child });
        }
    }

    /// The block that the path leads to, and `pointer` names.
    fn block(&mut self, pointer: BlockPointer) -> Result<Block> {
        self.costs.blocks += 1;
        let above = self.above();
        match self.height() {
            0 => self.root.leaf(above, pointer, self.fill),
            height => self.root.branch(above, pointer, height, self.fill).map(|step| step.block().clone()),
        }
    }

    /// The branch that the path ends in, and the child that it takes there, if the branch is kept.
    fn above(&self) -> Option<(&Branch, usize)> {
        self.root.pinned(self.path.iter().map(|step| step.child))
    }

    /// Goes one step, and prefetches the memory that the next step reads. `None` leaves the rest to the seek.
    fn seek_step_from(&mut self, progress: SeekProgress, key: &[u8]) -> Option<SeekProgress> {
        Some(match progress {
            SeekProgress::Away if self.fill == Fill::Keep && !self.failed => {
                self.here.leave();
                self.path.clear();
                self.readahead.restart(1);
                let root = self.root.meta.root?;
                SeekProgress::At(self.block(root).ok()?)
            }
            SeekProgress::At(leaf) if self.height() == 0 => {
                let bound = leaf.bound(key);
                leaf.prefetch_bound(bound);
                SeekProgress::Leaf(leaf, bound)
            }
            SeekProgress::At(branch) => {
                let child = route(&branch, key);
                let pointer = self.root.file.child(&branch, child).ok()?;
                self.path.push(Step { branch, child });
                let known = self.root.prefetch_step(self.above(), pointer);
                SeekProgress::Above { pointer, known }
            }
            SeekProgress::Above { pointer, known: false } => {
                let file = &self.root.file;
                file.cache
                    .prefetch_step(file.blocks.instance(), pointer)
                    .then_some(SeekProgress::Above { pointer, known: true })?
            }
            SeekProgress::Above { pointer, known: true } => SeekProgress::At(self.block(pointer).ok()?),
            SeekProgress::Away | SeekProgress::Leaf(..) | SeekProgress::Left => return None,
        })
    }

    /// Levels above the leaves of the block that the path leads to.
    fn height(&self) -> u32 {
        self.root.meta.height - u32::try_from(self.path.len()).expect("the path is as long as the tree is high")
    }

    /// Steps to the first entry of the leaf after the current one.
    fn next_leaf(&mut self) -> Result<()> {
        self.step_leaf(false)
    }

    /// Steps to the last entry of the leaf before the current one.
    fn prev_leaf(&mut self) -> Result<()> {
        self.step_leaf(true)
    }

    fn step_leaf(&mut self, backward: bool) -> Result<()> {
        self.here.leave();
        let limits = self.limits.clone();
        let walk = Walk { backward, limits: limits.as_deref() };
        while let Some(step) = self.path.last_mut() {
            if let Some(child) = walk.after(&step.branch, step.child) {
                step.child = child;
                return self.enter(walk);
            }
            if walk.ends_at(&step.branch, step.child) {
                break;
            }
            self.path.pop();
        }
        Ok(())
    }

    /// Steps to the first entry on the way below the block that the path leads to.
    fn enter(&mut self, walk: Walk<'_>) -> Result<()> {
        while let Some(Step { branch, child }) = self.path.last() {
            if self.height() == 0 {
                self.costs.blocks += 1;
                let above = self.root.pinned(self.path.iter().map(|step| step.child));
                let (leaf, _) = self.readahead.leaf(&self.root.file, (branch, *child), above, self.fill, walk)?;
                let index = if walk.backward { leaf.count() - 1 } else { 0 };
                self.here.stand(leaf, index);
                break;
            }
            let pointer = self.root.file.child(branch, *child)?;
            let branch = self.block(pointer)?;
            let child = if walk.backward { branch.count() - 1 } else { 0 };
            self.path.push(Step { branch, child });
        }
        Ok(())
    }
}

impl Cursor for BTreeCursor {
    fn first(&mut self) -> Result<()> {
        self.go(|cursor| {
            if let Some(leaf) = cursor.seek(|_| 0)? {
                cursor.here.stand(leaf, 0);
            }
            Ok(())
        })
    }

    fn last(&mut self) -> Result<()> {
        self.go(|cursor| {
            if let Some(leaf) = cursor.seek(|branch| branch.count() - 1)? {
                let last = leaf.count() - 1;
                cursor.here.stand(leaf, last);
            }
            Ok(())
        })
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        self.lazy_seek_ge(key)?;
        self.here.resolve();
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.go(|cursor| {
            let choose = |branch: &Block| branch.lower_bound(key).saturating_sub(1);
            let Some(leaf) = cursor.seek(choose)? else { return Ok(()) };
            match leaf.lower_bound(key).checked_sub(1) {
                Some(index) => cursor.here.stand(leaf, index),
                None => cursor.prev_leaf()?,
            }
            Ok(())
        })
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        if self.here.next_entry() {
            return Ok(());
        }
        if self.here.is_nowhere() { self.go(|_| Ok(())) } else { self.go(Self::next_leaf) }
    }

    #[inline]
    fn prev(&mut self) -> Result<()> {
        if self.here.prev_entry() {
            return Ok(());
        }
        if self.here.is_nowhere() { self.go(|_| Ok(())) } else { self.go(Self::prev_leaf) }
    }

    fn limit(&mut self, limits: &Arc<Limits>) {
        self.limits = Some(Arc::clone(limits));
    }

    fn costs(&self) -> Costs {
        self.costs
    }

    #[inline]
    fn entry(&self) -> Option<Entry<'_>> {
        self.here.entry()
    }

    #[inline]
    fn key(&self) -> Option<&[u8]> {
        self.here.key()
    }

    fn value(&self) -> Option<Value> {
        self.here.value()
    }
}

impl KeyCursor for BTreeCursor {
    #[inline]
    fn next_key_in_leaf(&mut self) -> bool {
        self.here.next_key()
    }
}

impl LazySeek for BTreeCursor {
    fn lazy_seek_ge(&mut self, key: &[u8]) -> Result<()> {
        let progress = std::mem::take(&mut self.progress);
        self.go(|cursor| {
            let (leaf, bound) = match progress {
                SeekProgress::Leaf(leaf, bound) => (leaf, bound),
                _ => {
                    let Some(leaf) = cursor.seek(|branch| route(branch, key))? else { return Ok(()) };
                    let bound = leaf.bound(key);
                    leaf.prefetch_entries(bound);
                    (leaf, bound)
                }
            };
            let index = leaf.lower_bound_from(bound, key);
            if index == leaf.count() {
                return cursor.next_leaf();
            }
            cursor.here.set_lazily(leaf, index);
            if !bound.sure {
                cursor.here.resolve();
            }
            Ok(())
        })
    }

    #[inline]
    fn lazy_key(&self) -> Option<KeyBound<'_>> {
        self.here.lazy_key()
    }

    #[inline]
    fn resolve(&mut self) -> Result<()> {
        self.here.resolve();
        Ok(())
    }

    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        let read = BlocksRead::so_far();
        self.progress = match std::mem::take(&mut self.progress) {
            done @ (SeekProgress::Leaf(..) | SeekProgress::Left) => done,
            progress => self.seek_step_from(progress, key).unwrap_or(SeekProgress::Left),
        };
        self.costs.blocks_read += read.since();
        !matches!(self.progress, SeekProgress::Leaf(..) | SeekProgress::Left)
    }
}

impl MergeSource for BTreeCursor {
    fn swap_leaf_cursor(&mut self, place: &mut LeafCursor) {
        std::mem::swap(&mut self.here, place);
    }

    fn seqnum_bounds(&self) -> SeqnumBounds {
        self.root.seqnum_bounds()
    }
}
