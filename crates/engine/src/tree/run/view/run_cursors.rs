//! Where a walk over a view is in each of its trees.

use crate::base::{Error, Result};
use crate::block::{Block, Bound, Shape};
use crate::cache::Fill;
use crate::store::BlocksRead;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Limits, Position};
use crate::tree::leaf_cursor::LeafCursor;
use crate::tree::run::index_cursor::wanted;
use crate::tree::run::readahead::ReadAhead;
use crate::tree::run::reader::Run;

/// A seat in each tree: the leaf where the walk was last.
pub(super) struct RunCursors {
    run_cursors: Box<[RunCursorState]>,
    fill: Fill,
    /// How each tree is read, once a leaf was not in the cache.
    readaheads: Vec<ReadAhead>,
    costs: Costs,
}

/// A leaf and where it lies in its tree, or none.
struct RunCursorState {
    run: usize,
    part: usize,
    leaf: usize,
    /// `None` while a place has it.
    block: Option<(Block, Shape)>,
    /// The part of the index, unless the run keeps it.
    index: Option<Block>,
    /// Blocks to count when a place gets the leaf: no place looked at them before.
    news: u64,
}

const NOWHERE: usize = usize::MAX;

impl RunCursorState {
    /// The part of the index where it is.
    #[inline]
    fn index_of<'s>(&'s self, run: &'s Run) -> &'s Block {
        run.pinned_part(self.part).or(self.index.as_ref()).expect("the part was fetched")
    }
}

impl RunCursors {
    /// Cursors for `trees` trees, in no leaf yet.
    pub(super) fn new(trees: usize, fill: Fill) -> Self {
        let run_cursor = |_| RunCursorState { run: NOWHERE, part: NOWHERE, leaf: 0, block: None, index: None, news: 0 };
        Self {
            run_cursors: (0..trees).map(run_cursor).collect(),
            fill,
            readaheads: Vec::new(),
            costs: Costs::default(),
        }
    }

    /// Whether the seat of a tree is in the leaf of this entry.
    #[inline]
    pub(super) fn are_at(&self, tree: usize, position: Position) -> bool {
        let run_cursor = &self.run_cursors[tree];
        (run_cursor.leaf, run_cursor.part, run_cursor.run) == (position.leaf, position.part, position.run)
    }

    /// What all has cost so far.
    pub(super) fn costs(&self) -> Costs {
        let read = self.readaheads.iter().map(ReadAhead::leaves_read).sum::<u64>();
        Costs { blocks_read: self.costs.blocks_read + read, ..self.costs }
    }

    /// Lets `place` have the leaf of a tree.
    #[inline]
    pub(super) fn lend(&mut self, tree: usize, place: &mut LeafCursor) {
        let run_cursor = &mut self.run_cursors[tree];
        place.swap_leaf(&mut run_cursor.block);
        self.costs.blocks += std::mem::take(&mut run_cursor.news);
    }

    /// Has the leaf of a tree back from `place`.
    #[inline]
    pub(super) const fn get_back(&mut self, tree: usize, place: &mut LeafCursor) {
        place.swap_leaf(&mut self.run_cursors[tree].block);
    }

    /// Moves to the leaf of an entry, which no cursor may be in.
    ///
    /// # Errors
    /// When it cannot be read, or is corrupt.
    pub(super) fn come(&mut self, tree: usize, run: &Run, position: Position, limits: Option<&Limits>) -> Result<()> {
        let Position { part, leaf, .. } = position;
        let trees = self.run_cursors.len();
        let run_cursor = &mut self.run_cursors[tree];
        if (run_cursor.run, run_cursor.part) != (position.run, part) {
            if run_cursor.run != position.run
                && let Some(ahead) = self.readaheads.get_mut(tree)
            {
                ahead.reset();
            }
            // Without a leaf until there is one.
            (run_cursor.run, run_cursor.part, run_cursor.leaf) = (position.run, part, NOWHERE);
            run_cursor.index = None;
            if run.pinned_part(part).is_none() {
                let read = BlocksRead::so_far();
                run_cursor.index = Some(run.index_part(part, self.fill)?);
                self.costs.blocks_read += read.since();
            }
            run_cursor.news += 1;
        }
        (run_cursor.leaf, run_cursor.block) = (NOWHERE, None);
        let index = run_cursor.index_of(run);
        let place @ (pointer, swip) = run.leaf_at(index, part, leaf)?;
        let cached = match self.fill {
            Fill::Keep if self.readaheads.is_empty() => {
                run.cache.lookup_at(swip, run.file().instance(), pointer, self.fill)
            }
            _ => None,
        };
        let block = match cached {
            Some(block) => block,
            None => {
                if self.readaheads.is_empty() {
                    self.readaheads.resize_with(trees, || ReadAhead::new(self.fill));
                }
                let ahead = &mut self.readaheads[tree];
                let (block, _) = ahead.leaf(run, place, || wanted(run, limits, index))?;
                ahead.share(run, index, leaf);
                block
            }
        };
        run.check_leaf(pointer, &block)?;
        run_cursor.news += 1;
        let shape = block.shape();
        (run_cursor.leaf, run_cursor.block) = (leaf, Some((block, shape)));
        Ok(())
    }

    /// Moves to the leaf of an entry, which no cursor may be in, if it is in memory, and prefetches the entry. Not
    /// where leaves are being read.
    pub(super) fn take(&mut self, tree: usize, run: &Run, position: Position) {
        let Position { run: number, part, leaf, at } = position;
        if self.readaheads.is_empty()
            && !self.are_at(tree, position)
            && let Some(trace) = run.trace(part, leaf)
            && let Some(block) = run.cache.at_hand(trace.swip)
            && run.check_leaf(*trace.pointer, &block).is_ok()
            && at < block.count()
        {
            let run_cursor = &mut self.run_cursors[tree];
            let news = 1 + u64::from((run_cursor.run, run_cursor.part) != (number, part));
            let shape = block.shape();
            block.prefetch_bound(Bound { at, sure: true });
            *run_cursor = RunCursorState { run: number, part, leaf, block: Some((block, shape)), index: None, news };
        }
    }

    /// What is wrong when the leaf where the seat of a tree is does not have the entry.
    #[cold]
    pub(super) fn changed(&self, tree: usize, run: &Run, Position { part, leaf, at, .. }: Position) -> Error {
        match run.leaf_at(self.run_cursors[tree].index_of(run), part, leaf) {
            Ok((pointer, _)) => run.changed(pointer, at),
            Err(error) => error,
        }
    }
}
