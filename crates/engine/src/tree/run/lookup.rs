//! Point lookups in a run: filter, index, leaf.

use super::leaf::{Look, check, look};
use super::reader::Run;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind, BlockPointer};
use crate::cache::{Fill, SwipOf};
use crate::tree::cost::Costs;
use crate::tree::cursor::Found;
use std::cmp::Ordering;

/// Where in the index of a run the lookup of a key begins.
#[derive(Clone, Copy, Debug)]
pub struct IndexPos {
    part: usize,
    slot: usize,
}

impl Run {
    /// The newest version of `key` that `snapshot` sees. `hash` is the key's ([`crate::base::checksum::hash_key`]).
    ///
    /// # Errors
    /// `Corruption` or `Io` when a block that the lookup needs cannot be read.
    pub fn get(&self, key: &[u8], hash: u64, snapshot: SeqNum) -> Result<Option<Found>> {
        self.get_at_cost((key, hash), None, snapshot, &mut Costs::default())
    }

    /// [`Self::get`], which adds to `costs`, and begins where [`Self::approach`] says.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn get_at_cost(
        &self,
        (key, hash): (&[u8], u64),
        start: Option<IndexPos>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        if !self.may_span(key) {
            return Ok(None);
        }
        self.open_ends()?;
        let mut unasked = self.filter().is_some().then_some(hash);
        if let Some(filter) = self.filter()
            && filter.stats.should_probe(hash)
        {
            let passes = self.passes(&mut unasked, costs)?;
            filter.stats.record(hash, !passes);
            if !passes {
                return Ok(None);
            }
        }
        let stops = costs.filter_stops;
        let found = self.search(key, start, &mut unasked, snapshot, costs)?;
        match (&found, unasked) {
            (None, _) if costs.filter_stops > stops => {}
            // As good as asked: where it was in memory, the search took about as long.
            (None, Some(_)) => costs.filter_stops += 1,
            (None, None) => {
                costs.trees += 1;
                costs.filter_misses += u64::from(self.filter().is_some());
            }
            (Some(_), _) => costs.trees += 1,
        }
        Ok(found)
    }

    /// Whether `key`, which has this hash, may be in the run, as far as its ends and its filter tell.
    ///
    /// # Errors
    /// When the filter cannot be read.
    pub fn may_hold(&self, key: &[u8], hash: u64) -> Result<bool> {
        Ok(*self.meta().smallest <= *key && *key <= *self.meta().largest && self.may_contain(hash)?)
    }

    /// Whether the filter lets a key or prefix with this hash pass.
    #[inline]
    pub(super) fn may_contain(&self, hash: u64) -> Result<bool> {
        self.open_ends()?;
        match self.filter() {
            Some(filter) => filter.may_contain(self.file(), &self.cache, &self.reservation, hash),
            None => Ok(true),
        }
    }

    /// Looks for `key`. `unasked` is its hash while the filter was not asked about it: it is before a block must be
    /// read.
    pub(super) fn search(
        &self,
        key: &[u8],
        start: Option<IndexPos>,
        unasked: &mut Option<u64>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        let (first, mut slot) = match start {
            Some(IndexPos { part, slot }) => (part, Some(slot)),
            None => (self.top().lower_bound(key), None),
        };
        for part in first..self.top().count() {
            let mut kept = self.kept_branch(part);
            let fetched;
            let index = match kept {
                Some(kept) => {
                    costs.blocks += 1;
                    kept.block()
                }
                None => {
                    let pointer = self.pointer(self.top(), part)?;
                    let Some(index) = self.block_for((pointer, None), BlockKind::Branch, unasked, costs)? else {
                        return Ok(None);
                    };
                    kept = self.keep(part, &index);
                    fetched = index;
                    &fetched
                }
            };
            for slot in slot.take().unwrap_or_else(|| index.lower_bound(key))..index.count() {
                let trace = kept.and_then(|kept| kept.trace(slot));
                let (pointer, swip) = self.leaf_of(trace, index, slot)?;
                _ = swip.is_some_and(SwipOf::follow);
                let leaf = self.block_for((pointer, swip), BlockKind::Leaf, unasked, costs)?;
                let Some(leaf) = leaf else { return Ok(None) };
                leaf.prefetch_search();
                let bound = leaf.bound(key);
                match look(leaf, bound, key, snapshot, self.visible_from()) {
                    Look::Found(found) => return Ok(Some(found)),
                    // Only behind a separator that is the key itself can there be older versions.
                    Look::TooNew if index.compare_key(slot, key) == Ordering::Equal => {}
                    Look::TooNew | Look::Absent => return Ok(None),
                }
            }
        }
        Ok(None)
    }

    /// A block on the way to a key; `None` when it is not in memory and the filter, if it is still `unasked`, says that
    /// it need not be read.
    #[inline]
    pub(super) fn block_for(
        &self,
        (pointer, swip): (BlockPointer, Option<SwipOf<'_>>),
        kind: BlockKind,
        unasked: &mut Option<u64>,
        costs: &mut Costs,
    ) -> Result<Option<Block>> {
        let block = match self.cache.lookup_at(swip, self.file().instance(), pointer, Fill::Keep) {
            Some(block) => block,
            None if !self.passes(unasked, costs)? => return Ok(None),
            None => self.cache.read(self.file(), pointer, Fill::Keep)?,
        };
        check(self.file(), pointer, &block, kind)?;
        costs.blocks += 1;
        Ok(Some(block))
    }

    /// Asks the filter about a hash, unless that was done, and says whether it lets the key pass.
    fn passes(&self, unasked: &mut Option<u64>, costs: &mut Costs) -> Result<bool> {
        let Some(hash) = unasked.take() else { return Ok(true) };
        costs.filters += 1;
        let passes = self.may_contain(hash)?;
        costs.filter_stops += u64::from(!passes);
        Ok(passes)
    }

    /// Probes the filter late, as if it rejected no key, or first.
    #[cfg(test)]
    pub(super) fn ask_late(&self, late: bool) {
        self.filter().iter().for_each(|filter| filter.stats.pretend(!late));
    }

    /// Prefetches the memory that a lookup of `key`, which has this hash, reads first: the filter, or else the leaf.
    /// Then it also says where in the index the lookup may begin.
    pub fn prefetch_step(&self, key: &[u8], hash: u64) -> Option<IndexPos> {
        if !self.may_span(key) || !self.is_read() {
            return None;
        }
        if let Some(filter) = self.filter().filter(|filter| filter.stats.rejects_often()) {
            filter.prefetch(hash);
            return None;
        }
        let part = self.top().lower_bound(key);
        let kept = self.kept_branch(part)?;
        let slot = kept.block().lower_bound(key);
        let trace = kept.trace(slot)?;
        self.follow(Some(trace.swip), *trace.pointer);
        Some(IndexPos { part, slot })
    }
}
