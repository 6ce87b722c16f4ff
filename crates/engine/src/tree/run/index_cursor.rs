//! A position in the index of one run.

use super::reader::Run;
use crate::base::Result;
use crate::block::{Block, BlockPointer, Bound};
use crate::cache::{Fill, SwipOf};
use crate::store::BlocksRead;
use crate::tree::cost::Costs;
use crate::tree::cursor::Limits;
use std::ops::Range;
use std::sync::Arc;

/// The value of [`IndexCursor::part`] before the first move.
pub(super) const NO_PART: usize = usize::MAX;

/// A part of the index of a run, and an entry in it, which leads to a leaf.
pub(super) struct IndexCursor {
    pub(super) run: Arc<Run>,
    pub(super) fill: Fill,
    pub(super) part: usize,
    pub(super) slot: usize,
    /// The current part, unless the run has it pinned.
    fetched: Option<Block>,
    pub(super) limits: Option<Arc<Limits>>,
    /// The cost of all moves so far.
    pub(super) costs: Costs,
}

impl IndexCursor {
    /// A cursor before its first move.
    pub(super) fn new(run: Arc<Run>, fill: Fill) -> Self {
        Self { run, fill, part: NO_PART, slot: 0, fetched: None, limits: None, costs: Costs::default() }
    }

    /// Goes on in another run, before the first move there.
    pub(super) fn change_run(&mut self, run: &Arc<Run>) {
        self.run = Arc::clone(run);
        (self.part, self.fetched) = (NO_PART, None);
    }

    /// Moves to the index entry whose leaf may hold `key`. Returns false when all keys of the run, or all keys of the
    /// part to which `key` belongs, are below it.
    pub(super) fn find_slot(&mut self, key: &[u8]) -> Result<bool> {
        if !self.find_part(key)? {
            return Ok(false);
        }
        self.slot = self.block().lower_bound(key);
        Ok(self.slot < self.block().count())
    }

    /// Moves to the part to which `key` belongs; returns false when all keys of the run are below it.
    pub(super) fn find_part(&mut self, key: &[u8]) -> Result<bool> {
        let part = self.run.top().lower_bound(key);
        if part == self.run.top().count() {
            self.part = NO_PART;
            return Ok(false);
        }
        self.load_part(part)?;
        Ok(true)
    }

    /// Whether no key of the run is within the limits.
    pub(super) fn is_outside_limits(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        limits.end_before(&self.run.meta().smallest) || self.run.meta().largest < limits.low
    }

    /// Whether all keys after the current leaf lie beyond the limits.
    pub(super) fn ends_here(&self) -> bool {
        let Some(high) = self.limits.as_ref().and_then(|limits| limits.high.as_deref()) else { return false };
        let index = self.block();
        let (separators, at) = if self.slot < index.count() { (index, self.slot) } else { (self.run.top(), self.part) };
        separators.compare_key(at, high).is_ge()
    }

    /// Whether all keys before the current leaf lie before the limits.
    pub(super) fn begins_here(&self) -> bool {
        let Some(limits) = &self.limits else { return false };
        let before = match (self.slot.checked_sub(1), self.part.checked_sub(1)) {
            (Some(slot), _) => self.block().compare_key(slot, &limits.low),
            (None, Some(part)) => self.run.top().compare_key(part, &limits.low),
            (None, None) => return true,
        };
        before.is_lt()
    }

    /// Moves to part `part`, which must exist.
    pub(super) fn load_part(&mut self, part: usize) -> Result<()> {
        if self.part == part {
            return Ok(());
        }
        if self.run.pinned_part(part).is_none() {
            let read = BlocksRead::so_far();
            self.fetched = Some(self.run.index_part(part, self.fill)?);
            self.costs.blocks_read += read.since();
        }
        self.costs.blocks += 1;
        self.part = part;
        Ok(())
    }

    /// The current part.
    pub(super) fn block(&self) -> &Block {
        index_of(&self.run, &self.fetched, self.part)
    }

    /// Prefetches the leaf of entry `slot` of the current part, if a swip leads to it.
    #[inline]
    pub(super) fn follow(&self, slot: usize) {
        if self.fill == Fill::Keep {
            self.run.trace(self.part, slot).inspect(|trace| _ = trace.swip.follow());
        }
    }

    /// The first step of a seek to `key` that needs no filter: moves to the part to which `key` belongs, narrows the
    /// search in it by heads, and prefetches what the next step reads. `None` when the seek cannot be prefetched.
    pub(super) fn prefetch_seek(&mut self, key: &[u8]) -> Result<Option<Bound>> {
        if self.is_outside_limits() {
            return Ok(None);
        }
        self.run.open_ends()?;
        let asks_filter = |limits: &Arc<Limits>| limits.prefix.is_some_and(|(rule, _)| self.run.knows_prefixes(rule));
        let is_direct = self.fill == Fill::Keep && !self.limits.as_ref().is_some_and(asks_filter);
        if !is_direct || !self.find_part(key)? {
            return Ok(None);
        }
        let bound = self.block().bound(key);
        if bound.at == self.block().count() {
            return Ok(None);
        }
        if !bound.sure {
            self.block().prefetch_bound(bound);
        }
        self.run.trace(self.part, bound.at).inspect(|trace| trace.prefetch());
        Ok(Some(bound))
    }

    /// The second step: moves to the entry that leads to the leaf, and prefetches the leaf. False when all keys of the
    /// part are below `key`.
    pub(super) fn prefetch_slot(&mut self, bound: Bound, key: &[u8]) -> Result<bool> {
        self.slot = self.block().lower_bound_from(bound, key);
        if self.slot == self.block().count() {
            return Ok(false);
        }
        let (pointer, swip) = self.leaf_at(self.slot)?;
        self.run.follow(swip, pointer);
        Ok(true)
    }

    /// Where the leaf of entry `slot` of the current part lies, and its swip if there is one.
    pub(super) fn leaf_at(&self, slot: usize) -> Result<(BlockPointer, Option<SwipOf<'_>>)> {
        self.run.leaf_at(self.block(), self.part, slot)
    }

    /// Prefetches the leaf of entry `slot` of the current part, if there is one: by its swip, or else what the cache
    /// knows of it.
    pub(super) fn prefetch_leaf(&self, slot: usize) {
        if slot < self.block().count()
            && let Ok((pointer, swip)) = self.leaf_at(slot)
            && !swip.is_some_and(SwipOf::follow)
        {
            self.run.cache.prefetch_step(self.run.file().instance(), pointer);
        }
    }
}

/// Part `part` of the index of `run`, which keeps it, or else it was fetched.
#[inline]
fn index_of<'c>(run: &'c Run, fetched: &'c Option<Block>, part: usize) -> &'c Block {
    run.pinned_part(part).or(fetched.as_ref()).expect("the part was loaded")
}

/// The part of the file where leaves within the limits lie, as far as this part of the index knows.
pub(super) fn wanted(run: &Run, limits: Option<&Limits>, index: &Block) -> Range<u64> {
    let mut wanted = 0..run.footer().leaves_end;
    let Some(limits) = limits else { return wanted };
    let leaf_of = |key: &[u8]| {
        let slot = index.lower_bound(key);
        if slot < index.count() { run.pointer(index, slot).ok() } else { None }
    };
    if let Some(first) = leaf_of(&limits.low).filter(|_| index.compare_key(0, &limits.low).is_lt()) {
        wanted.start = first.offset;
    }
    if let Some(last) = limits.high.as_deref().and_then(leaf_of) {
        wanted.end = last.end();
    }
    wanted
}
