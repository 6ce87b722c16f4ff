//! A view as lookups read it.

use super::layout::{EntryLocator, Group, PART_BITS, Part, RUN_BITS, TREE_BITS};
use crate::base::debug::debug_by;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind};
use crate::cache::{Fill, SwipOf, Wanted};
use crate::tree::branch::CacheReservation;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Found, Position};
use crate::tree::multi_get::{GetRequest, GetResults};
use crate::tree::run::leaf::found;
use crate::tree::run::reader::Run;
use std::cmp::Ordering;
use std::sync::Arc;

/// One sorted sequence: runs that ascend and do not touch.
pub type Tree = Arc<[Arc<Run>]>;

/// Whether there are so few trees and runs, and these so small, that a view can say where each entry lies.
#[must_use]
pub fn can_be_viewed(trees: &[Tree]) -> bool {
    let is_small = |run: &Arc<Run>| run.open_ends().is_ok() && run.top().count() <= 1 << PART_BITS;
    trees.len() <= 1 << TREE_BITS && trees.iter().all(|tree| tree.len() <= 1 << RUN_BITS && tree.iter().all(is_small))
}

/// The order of the entries of several trees.
pub struct View {
    /// Newest first.
    pub(super) trees: Box<[Tree]>,
    /// The separator of each part.
    pub(super) top: Block,
    pub(super) parts: Box<[Part]>,
    pub(super) entries: u64,
    /// A snapshot from here on sees all runs.
    pub(super) visible_from: SeqNum,
    /// No run has a filter.
    pub(super) is_bare: bool,
    pub(super) _room: CacheReservation,
}

/// Where a group, or one of its entries, is in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotPos {
    pub(super) part: usize,
    pub(super) group: usize,
    pub(super) at: usize,
}

impl View {
    /// The trees, newest first.
    #[must_use]
    pub fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Whether `snapshot` sees something of all runs, so that the view is of what it sees.
    #[must_use]
    pub fn is_seen_by(&self, snapshot: SeqNum) -> bool {
        self.visible_from <= snapshot
    }

    /// Whether several lookups together are faster by the view than without: where filters keep them out of nearly all
    /// trees they are not.
    #[must_use]
    pub const fn serves_many(&self) -> bool {
        self.is_bare
    }

    /// Entries of all trees together.
    #[must_use]
    pub const fn entries(&self) -> u64 {
        self.entries
    }

    /// Where a lookup or walk from `key` begins: the first group with a key that is not below it. Prefetches what
    /// the search reads there first.
    #[inline]
    #[must_use]
    pub fn prefetch_step(&self, key: &[u8]) -> Option<SlotPos> {
        let part = self.top.lower_bound(key);
        let group = self.parts.get(part)?.separators.lower_bound(key);
        let slot = SlotPos { part, group, at: 0 };
        self.group(slot).prefetch();
        Some(slot)
    }

    /// The newest version of `key` that `snapshot`, which sees something of all runs, sees. `start` is where
    /// [`Self::approach`] leads.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a block that the lookup needs cannot be read.
    pub fn get(
        &self,
        key: &[u8],
        start: Option<SlotPos>,
        snapshot: SeqNum,
        costs: &mut Costs,
    ) -> Result<Option<Found>> {
        costs.views += 1;
        let Some(group) = start else { return Ok(None) };
        let bound = self.group(group).bound(key);
        if bound.sure {
            return Ok(None);
        }
        let mut next = Some(SlotPos { at: bound.at, ..group });
        let mut is_same = false;
        while let Some(slot) = next {
            let locator = self.locator(slot);
            let (leaf, at, visible_from) = self.look_at(locator, costs)?;
            match if is_same { Ordering::Equal } else { leaf.compare_key(at, key) } {
                Ordering::Less => {}
                Ordering::Greater => return Ok(None),
                Ordering::Equal => {
                    let seqnum = leaf.seqnum(at).max(visible_from);
                    if seqnum <= snapshot {
                        return Ok(Some(found(leaf, at, seqnum)));
                    }
                    is_same = locator.is_followed_by_same_key();
                    if !is_same {
                        return Ok(None);
                    }
                }
            }
            next = self.after(slot);
        }
        Ok(None)
    }

    /// [`Self::get`] of several keys, which are approached together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(&self, requests: &[GetRequest<'_>], snapshot: SeqNum, costs: &mut Costs) -> Result<GetResults> {
        let starts: Vec<_> = requests.iter().map(|request| self.prefetch_step(request.key)).collect();
        let leaf_of = |(request, start): (&GetRequest<'_>, &Option<SlotPos>)| self.first_leaf((*start)?, request.key);
        let mut leaves: Vec<_> = requests.iter().zip(&starts).filter_map(leaf_of).collect();
        leaves.retain(|leaf| !leaf.swip.is_some_and(SwipOf::follow));
        // Those that are not in memory are read in parallel, and stay in memory until the search is done.
        let _read = match self.trees.first().and_then(|tree| tree.first()).filter(|_| !leaves.is_empty()) {
            Some(run) => run.cache.get_many(&leaves, Fill::Keep)?,
            None => Vec::new(),
        };
        requests.iter().zip(starts).map(|(request, start)| self.get(request.key, start, snapshot, costs)).collect()
    }

    /// The leaf that a lookup of `key`, which begins in this group, looks at, if one has it and the index part over it
    /// is in memory.
    pub(super) fn first_leaf(&self, group: SlotPos, key: &[u8]) -> Option<Wanted<'_>> {
        let bound = self.group(group).bound(key);
        if bound.sure {
            return None;
        }
        let (_, run, Position { part, leaf, .. }) = self.run_of(self.locator(SlotPos { at: bound.at, ..group }));
        let trace = run.trace(part, leaf)?;
        Some(Wanted { file: run.file(), pointer: *trace.pointer, swip: Some(trace.swip) })
    }

    /// The leaf of an entry, its number there, and what seqnum it has at least.
    pub(super) fn look_at(&self, locator: EntryLocator, costs: &mut Costs) -> Result<(Block, usize, SeqNum)> {
        let (_, run, Position { part, leaf, at, .. }) = self.run_of(locator);
        let fetched;
        let index = match run.pinned_part(part) {
            Some(kept) => kept,
            None => {
                fetched = run.index_part(part, Fill::Keep)?;
                &fetched
            }
        };
        let (pointer, swip) = run.leaf_at(index, part, leaf)?;
        _ = swip.is_some_and(SwipOf::follow);
        let block = run.block_for((pointer, swip), BlockKind::Leaf, &mut None, costs)?;
        let block = block.filter(|block| at < block.count()).ok_or_else(|| run.changed(pointer, at))?;
        Ok((block, at, run.visible_from()))
    }

    pub(super) fn group(&self, slot: SlotPos) -> Group<'_> {
        let part = &self.parts[slot.part];
        let (groups, long) = part.groups.split_at(part.groups_bytes);
        Group { bytes: &groups.as_chunks().0[slot.group], long }
    }

    pub(super) fn locator(&self, slot: SlotPos) -> EntryLocator {
        self.group(slot).locator(slot.at)
    }

    pub(super) fn run_of(&self, locator: EntryLocator) -> (usize, &Arc<Run>, Position) {
        let (tree, position) = locator.tree_and_position();
        (tree, &self.trees[tree][position.run], position)
    }

    /// The first spot of all.
    pub(super) const FIRST: SlotPos = SlotPos { part: 0, group: 0, at: 0 };

    pub(super) fn last(&self) -> SlotPos {
        self.last_of_group(self.last_group(self.parts.len() - 1))
    }

    pub(super) fn last_group(&self, part: usize) -> SlotPos {
        SlotPos { part, group: self.parts[part].separators.count() - 1, at: 0 }
    }

    pub(super) fn last_of_group(&self, slot: SlotPos) -> SlotPos {
        SlotPos { at: self.group(slot).count() - 1, ..slot }
    }

    /// The spot behind this one.
    pub(super) fn after(&self, slot: SlotPos) -> Option<SlotPos> {
        let next = SlotPos { at: slot.at + 1, ..slot };
        if next.at < self.group(slot).count() { Some(next) } else { self.after_group(slot) }
    }

    /// The first spot of the group behind that of this one.
    pub(super) fn after_group(&self, SlotPos { part, group, .. }: SlotPos) -> Option<SlotPos> {
        if group + 1 < self.parts[part].separators.count() {
            Some(SlotPos { part, group: group + 1, at: 0 })
        } else {
            (part + 1 < self.parts.len()).then_some(SlotPos { part: part + 1, group: 0, at: 0 })
        }
    }

    /// The spot before this one.
    pub(super) fn before(&self, SlotPos { part, group, at }: SlotPos) -> Option<SlotPos> {
        if at > 0 {
            Some(SlotPos { part, group, at: at - 1 })
        } else if group > 0 {
            Some(self.last_of_group(SlotPos { part, group: group - 1, at }))
        } else {
            Some(self.last_of_group(self.last_group(part.checked_sub(1)?)))
        }
    }
}

debug_by!(View, self => trees: self.trees.len(), entries: self.entries);
