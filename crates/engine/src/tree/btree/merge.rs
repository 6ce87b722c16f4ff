//! The merge: sorted changes go into the leaves that they belong to, and a new root comes out.
//!
//! One pass from left to right. A subtree without changes is kept as it is, without being read; a leaf with changes is
//! read, merged with them and written elsewhere, and so are the branches above it. The old root stays whole.

use super::file::TreeFile;
use super::format::{TreeMeta, continues};
use super::free_list::extent;
use super::output::Output;
use super::readahead::{ReadAhead, Walk};
use super::stream::{Border, Bounds};
use crate::base::num::u64_of;
use crate::base::{Entry, Error, ErrorKind, Result, SeqNum};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::store::{Extent, ExtentWriter};
use crate::tree::cursor::MergeSource;
use crate::tree::gc::GcRule;

/// Leaves after which a merge pauses.
const PAUSE_LEAVES: u64 = 256;

/// How many blocks and entries were read, and changes met.
#[derive(Clone, Copy, Debug, Default)]
struct Read {
    leaves: u64,
    branches: u64,
    entries: u64,
    changes: u64,
}

/// A merge under way.
pub(super) struct Merge<'a> {
    file: &'a TreeFile,
    changes: &'a mut dyn MergeSource,
    gc: &'a mut GcRule,
    /// Leaves without changes are rewritten too.
    rewrite: bool,
    /// Called every [`PAUSE_LEAVES`] leaves.
    pause: &'a mut dyn FnMut() -> Result<()>,
    output: Output<'a>,
    /// Blocks that the new root does not reach.
    freed: Vec<Extent>,
    read: Read,
    /// The tree to merge into is clean up to here.
    clean_to: SeqNum,
    /// The largest seqnum of the tree and of the changes met.
    newest: SeqNum,
    ahead: ReadAhead,
    /// The leaf to the left of what comes next was rewritten.
    rewrote: bool,
}

impl<'a> Merge<'a> {
    pub(super) fn new(
        file: &'a TreeFile,
        changes: &'a mut dyn MergeSource,
        gc: &'a mut GcRule,
        rewrite: bool,
        pause: &'a mut dyn FnMut() -> Result<()>,
        output: Output<'a>,
    ) -> Self {
        let (freed, read, ahead) = (Vec::new(), Read::default(), ReadAhead::default());
        let (clean_to, newest) = (SeqNum::ZERO, SeqNum::ZERO);
        Self { file, changes, gc, rewrite, pause, output, freed, read, clean_to, newest, ahead, rewrote: false }
    }

    /// What wrote the blocks, the blocks that the new root does not reach, and how many changes there were.
    pub(super) fn into_parts(self) -> (ExtentWriter<'a>, Vec<Extent>, u64) {
        (self.output.writer, self.freed, self.read.changes)
    }

    /// Merges all changes into the tree of `base`: what the new root is and reaches, except for the space of the file.
    ///
    /// # Errors
    /// When the changes or a block cannot be read, a block cannot be written, or the tree is not what `base` says.
    pub(super) fn run(&mut self, base: &TreeMeta) -> Result<TreeMeta> {
        self.gc.restart();
        let dropped_before = self.gc.dropped();
        (self.clean_to, self.newest) = (base.clean_to, base.seqnum_max);
        self.changes.first()?;
        let bounds = Bounds { lower: None, upper: None };
        match base.root {
            Some(root) if self.reached(&bounds) => {
                let block = self.block(base.height, root)?;
                self.subtree(base.height, root, block, bounds)?;
            }
            Some(root) => self.output.keep(base.height, Border { key: &[], continues: false }, root)?,
            None => self.merge_leaf(None, false, bounds)?,
        }
        let root = self.output.finish()?;
        let dropped = self.gc.dropped() - dropped_before;
        self.account(base, dropped, root)
    }

    /// Checks that no entry came or went unseen.
    fn account(&self, base: &TreeMeta, dropped: u64, root: Option<(BlockPointer, u32)>) -> Result<TreeMeta> {
        let (read, written) = (self.read, self.output.written);
        let replace = |all: u64, read: u64, written: u64| all.checked_sub(read).map(|rest| rest + written);
        let leaves = replace(base.leaves, read.leaves, written.leaves);
        let branches = replace(base.branches, read.branches, written.branches);
        let entries = replace(base.entries, read.entries, written.entries);
        let all_read = (read.leaves, read.branches, read.entries) == (base.leaves, base.branches, base.entries);
        match (leaves, branches, entries) {
            (Some(leaves), Some(branches), Some(entries))
                if read.entries + read.changes == written.entries + dropped && (all_read || !self.rewrite) =>
            {
                let (root, height) = root.map_or((None, 0), |(root, height)| (Some(root), height));
                let generation = base.generation + 1;
                let seqnum_max = self.newest;
                let clean_to = self.gc.clean_to(seqnum_max).max(base.clean_to);
                let (file_bytes, free_bytes, free_list) = (0, 0, None);
                Ok(TreeMeta {
                    root,
                    height,
                    leaves,
                    branches,
                    entries,
                    file_bytes,
                    free_bytes,
                    free_list,
                    generation,
                    seqnum_max,
                    clean_to,
                })
            }
            _ => {
                let path = self.file.path().display();
                let message = format!(
                    "{path}: a merge into {base:?} read {read:?}, wrote {written:?} and dropped {dropped} entries, which does not add up"
                );
                Err(Error::new(ErrorKind::Corruption, message))
            }
        }
    }

    /// Whether a subtree must be rewritten.
    fn reached(&self, bounds: &Bounds<'_>) -> bool {
        self.rewrite
            || self.changes.entry().is_some_and(|change| bounds.reach(change.key))
            // What may go of a key's versions is decided over all of them.
            || (self.rewrote && bounds.lower.is_some_and(|lower| lower.continues))
            || self.gc.erases_in(bounds.lower.map_or(&[], |lower| lower.key), bounds.end(), self.clean_to)
    }

    /// Merges into the subtree of `height` whose topmost block, in the cache or not, is `block`.
    fn subtree(
        &mut self,
        height: u32,
        pointer: BlockPointer,
        (block, cached): (Block, bool),
        bounds: Bounds<'_>,
    ) -> Result<()> {
        self.freed.push(extent(pointer));
        if height > 0 {
            self.read.branches += 1;
            return self.children(height, &block, bounds);
        }
        if !bounds.hold(&block) {
            return Err(self
                .file
                .corruption(pointer, "a leaf has keys outside of the bounds that its branch gives it"));
        }
        self.read.leaves += 1;
        if self.read.leaves.is_multiple_of(PAUSE_LEAVES) {
            (self.pause)()?;
        }
        self.read.entries += u64_of(block.count());
        self.merge_leaf(Some(&block), cached, bounds)
    }

    /// The block that `pointer` names, and whether it was in the cache.
    fn block(&self, height: u32, pointer: BlockPointer) -> Result<(Block, bool)> {
        let cached = self.file.cache.peek(self.file.blocks.instance(), pointer);
        let (block, is_cached) = match cached {
            Some(cached) => cached,
            None => (self.file.blocks.read(pointer)?, false),
        };
        self.file.check(&block, pointer, height)?;
        Ok((block, is_cached))
    }

    /// Merges into those children of `branch` that changes reach, and keeps the others.
    fn children(&mut self, height: u32, branch: &Block, bounds: Bounds<'_>) -> Result<()> {
        let (mut low, mut high) = (Vec::new(), Vec::new());
        branch.key_into(0, &mut high);
        for i in 0..branch.count() {
            std::mem::swap(&mut low, &mut high);
            let border = Border { key: &low, continues: continues(branch, i) };
            let lower = if i == 0 { bounds.lower } else { Some(border) };
            let mut upper = bounds.upper;
            if i + 1 < branch.count() {
                branch.key_into(i + 1, &mut high);
                upper = Some(Border { key: &high, continues: continues(branch, i + 1) });
            }
            let (pointer, bounds) = (self.file.child(branch, i)?, Bounds { lower, upper });
            if self.reached(&bounds) || !self.output.settle(height - 1)? {
                let block = match height {
                    1 => self.ahead.leaf(self.file, (branch, i), None, Fill::Merge, Walk::FORWARD)?,
                    _ => self.block(height - 1, pointer)?,
                };
                self.subtree(height - 1, pointer, block, bounds)?;
            } else {
                self.ahead.restart(1);
                self.output.keep(height - 1, border, pointer)?;
                self.rewrote = false;
            }
        }
        Ok(())
    }

    /// Merges the changes within `bounds` with the entries of `leaf`.
    fn merge_leaf(&mut self, leaf: Option<&Block>, cached: bool, bounds: Bounds<'_>) -> Result<()> {
        let Self { changes, gc, output, read, clean_to, newest, .. } = self;
        output.begin(bounds.lower, cached);
        let count = leaf.map_or(0, Block::count);
        let (mut i, mut key) = (0, leaf.map_or_else(Vec::new, |leaf| leaf.prefix().to_vec()));
        loop {
            let change = changes.entry().filter(|change| bounds.reach(change.key));
            if let Some(leaf) = leaf {
                let stop = change.map_or(count, |change| leaf.lower_bound(change.key));
                while i < stop {
                    let slot = leaf.slot(i);
                    key.truncate(leaf.prefix().len());
                    key.extend_from_slice(slot.suffix);
                    let value = leaf.bytes_at(slot.value_at, slot.value_len);
                    let entry = Entry { key: &key, seqnum: slot.seqnum, kind: slot.kind, value };
                    gc.push_from(*clean_to, &entry, &mut |entry| output.push(entry, true))?;
                    i += 1;
                }
            }
            let Some(change) = change else { break };
            read.changes += 1;
            output.source(changes.is_cached());
            let clean_to = if gc.compares_seqnums() { changes.seqnum_bounds().smallest } else { SeqNum::ZERO };
            *newest = change.seqnum.max(clean_to).max(*newest);
            gc.push_from(clean_to, &change, &mut |entry| output.push(entry, false))?;
            changes.next()?;
        }
        // What is held back must not come out behind a border that it lies before; behind that of its key the next leaf
        // is merged too.
        let continued = bounds.upper.filter(|upper| upper.continues).map(|upper| upper.key);
        gc.end_key_unless(continued, &mut |entry| output.push(entry, true))?;
        self.rewrote = true;
        Ok(())
    }
}
