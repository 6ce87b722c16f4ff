//! A sorted view of several trees of runs: in what order their entries come. So a walk over all of them searches once,
//! and looks at those entries only that it comes to, in which tree they ever are.
//!
//! Source: Zhong, Chen, Wu and Jiang: "REMIX: Efficient Range Query for LSM-trees", FAST 2021. Theirs is stored, of all
//! trees, and compares keys by looking at entries; this one is in memory, of the small trees over a large one, and has
//! the heads of keys, so that a merge with the large tree looks at those entries only that come first.
//!
//! # Layout
//! The top leads to *parts* and a part to *groups*, by separators, as the index of a run leads to its leaves. A group
//! is 320 bytes long:
//!
//! | offset | bytes | field |
//! |---|---|---|
//! | 0 | 2 | number of entries, 1 to 24 |
//! | 2 | 2 | `p`, the length of a prefix that all keys share |
//! | 4 | 4 | where the prefix begins behind the groups of the part, if it does not fit here |
//! | 8 | 24 | the prefix, if `p` is at most 24 |
//! | 32 | 4 n | heads: the next four bytes of each key as a big-endian number, padded with zeros |
//! | 128 | 8 n | where each entry lies: tree, run, part of its index, leaf, place in that |
//!
//! A search looks at two cache lines of it. All numbers are little-endian; nothing of this is ever stored.
//!
//! # Invariants
//! 1. The entries are those of the trees; keys ascend, and for one key the entries of newer trees come first, each in
//!    the order of its tree.
//! 2. The trees never change.

mod builder;
mod cursor;
mod seats;
#[cfg(test)]
mod tests;

pub use builder::ViewBuilder;
pub use cursor::ViewCursor;

use super::format::INDEX_PART_BYTES;
use super::reader::{Run, found};
use crate::base::memory::Image;
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::base::prefetch::prefetch;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockKind, Bound, search};
use crate::cache::{Fill, SwipOf, Wanted};
use crate::tree::branch::Room;
use crate::tree::cost::Costs;
use crate::tree::cursor::{Found, Position};
use crate::tree::lookup::{Answers, Ask};
use crate::tree::place::Near;
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// Entries of a group.
const GROUP_ENTRIES: usize = 24;
const PREFIX_LEN_AT: usize = 2;
const PREFIX_AT_AT: usize = 4;
const PREFIX_AT: usize = 8;
const HEADS_AT: usize = 32;
const LIES_AT: usize = HEADS_AT + 4 * GROUP_ENTRIES;
/// Bytes of a group.
const GROUP_BYTES: usize = LIES_AT + 8 * GROUP_ENTRIES;
const _: () = assert!(LIES_AT == 128 && GROUP_BYTES == 320);

/// Bytes that an entry takes in memory, about.
pub const ENTRY_BYTES: u64 = (GROUP_BYTES / GROUP_ENTRIES) as u64 + 2;

/// One sorted sequence: runs that ascend and do not touch.
pub type Tree = Arc<[Arc<Run>]>;

/// Whether there are so few trees and runs, and these so small, that a view can say where each entry lies.
#[must_use]
pub fn can_be_viewed(trees: &[Tree]) -> bool {
    let is_small = |run: &Arc<Run>| run.top().count() <= 1 << PART_BITS;
    trees.len() <= 1 << TREE_BITS && trees.iter().all(|tree| tree.len() <= 1 << RUN_BITS && tree.iter().all(is_small))
}

/// The order of the entries of several trees.
pub struct View {
    /// Newest first.
    trees: Box<[Tree]>,
    /// The separator of each part.
    top: Block,
    parts: Box<[Part]>,
    entries: u64,
    /// A snapshot from here on sees all runs.
    visible_from: SeqNum,
    /// No run has a filter.
    is_bare: bool,
    _room: Room,
}

/// A row of groups.
struct Part {
    /// The separator of each group: not below its keys, and not above those of the next.
    separators: Block,
    /// The groups, then the prefixes that are too long for them.
    groups: Image,
    /// Where the groups end.
    groups_bytes: usize,
}

/// Where a group, or one of its entries, is in the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    part: usize,
    group: usize,
    at: usize,
}

/// Where an entry lies: tree, run, part of its index, leaf, place in the leaf, and whether the next entry of the view
/// is of the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lie(u64);

/// Bits of the fields of a [`Lie`], from the lowest.
const LIE_BITS: [u32; 6] = [1, AT_BITS, LEAF_BITS, PART_BITS, RUN_BITS, TREE_BITS];
const AT_BITS: u32 = 17;
const LEAF_BITS: u32 = 13;
const PART_BITS: u32 = 14;
const RUN_BITS: u32 = 13;
const TREE_BITS: u32 = 6;
const _: () = assert!(1 + AT_BITS + LEAF_BITS + PART_BITS + RUN_BITS + TREE_BITS == u64::BITS);
// An entry has nine bytes at least: its head, where it lies, and the length of its suffix. A pointer of the index has
// more.
const _: () = assert!((1 << 20) / 9 < 1 << AT_BITS && INDEX_PART_BYTES / 9 < 1 << LEAF_BITS);

impl Lie {
    /// `None` where a number is too large.
    fn new(tree: usize, position: Position) -> Option<Self> {
        let Position { run, part, leaf, at } = position;
        let (mut lie, mut shift) = (0, 0);
        for (number, bits) in [0, at, leaf, part, run, tree].into_iter().zip(LIE_BITS) {
            let number = u64_of(number);
            if number >> bits != 0 {
                return None;
            }
            lie |= number << shift;
            shift += bits;
        }
        Some(Self(lie))
    }

    const fn followed_by_same_key(self) -> Self {
        Self(self.0 | 1)
    }

    const fn is_followed_by_same_key(self) -> bool {
        self.0 & 1 != 0
    }

    fn tree_and_position(self) -> (usize, Position) {
        let (mut left, mut bits) = (self.0, LIE_BITS.into_iter());
        let mut next = || {
            let bits = bits.next().unwrap_or(0);
            let number = usize_of(left & ((1 << bits) - 1));
            left >>= bits;
            number
        };
        let (_, at, leaf, part, run, tree) = (next(), next(), next(), next(), next(), next());
        (tree, Position { run, part, leaf, at })
    }
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

    /// A cursor over the entries of all trees.
    #[must_use]
    pub fn cursor(self: &Arc<Self>, fill: Fill) -> ViewCursor {
        ViewCursor::new(Arc::clone(self), fill)
    }

    /// Where a lookup or walk from `key` begins: the first group with a key that is not below it. Asks for what is
    /// looked at there first.
    #[inline]
    #[must_use]
    pub fn approach(&self, key: &[u8]) -> Option<Spot> {
        let part = self.top.lower_bound(key);
        let group = self.parts.get(part)?.separators.lower_bound(key);
        let spot = Spot { part, group, at: 0 };
        self.group(spot).prefetch();
        Some(spot)
    }

    /// The newest version of `key` that `snapshot`, which sees something of all runs, sees. `start` is where
    /// [`Self::approach`] leads.
    ///
    /// # Errors
    /// `Corruption` or `Io` when a block that the lookup needs cannot be read.
    pub fn get(&self, key: &[u8], start: Option<Spot>, snapshot: SeqNum, costs: &mut Costs) -> Result<Option<Found>> {
        costs.views += 1;
        let Some(group) = start else { return Ok(None) };
        let bound = self.group(group).bound(key);
        if bound.sure {
            return Ok(None);
        }
        let mut next = Some(Spot { at: bound.at, ..group });
        let mut is_same = false;
        while let Some(spot) = next {
            let lie = self.lie(spot);
            let (leaf, at, visible_from) = self.look_at(lie, costs)?;
            match if is_same { Ordering::Equal } else { leaf.compare_key(at, key) } {
                Ordering::Less => {}
                Ordering::Greater => return Ok(None),
                Ordering::Equal => {
                    let seqnum = leaf.seqnum(at).max(visible_from);
                    if seqnum <= snapshot {
                        return Ok(Some(found(leaf, at, seqnum)));
                    }
                    is_same = lie.is_followed_by_same_key();
                    if !is_same {
                        return Ok(None);
                    }
                }
            }
            next = self.after(spot);
        }
        Ok(None)
    }

    /// [`Self::get`] of several keys, which are approached together.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn get_many(&self, asks: &[Ask<'_>], snapshot: SeqNum, costs: &mut Costs) -> Result<Answers> {
        let starts: Vec<_> = asks.iter().map(|ask| self.approach(ask.key)).collect();
        let leaf_of = |(ask, start): (&Ask<'_>, &Option<Spot>)| self.first_leaf((*start)?, ask.key);
        let mut leaves: Vec<_> = asks.iter().zip(&starts).filter_map(leaf_of).collect();
        leaves.retain(|leaf| !leaf.swip.is_some_and(SwipOf::follow));
        // Those that are in no memory are read beside each other, and stay for as long as they are looked at.
        let _read = match self.trees.first().and_then(|tree| tree.first()).filter(|_| !leaves.is_empty()) {
            Some(run) => run.cache().get_many(&leaves, Fill::Keep)?,
            None => Vec::new(),
        };
        asks.iter().zip(starts).map(|(ask, start)| self.get(ask.key, start, snapshot, costs)).collect()
    }

    /// The leaf that a lookup of `key`, which begins in this group, looks at, if one has it and the index part over it
    /// is in memory.
    fn first_leaf(&self, group: Spot, key: &[u8]) -> Option<Wanted<'_>> {
        let bound = self.group(group).bound(key);
        if bound.sure {
            return None;
        }
        let (_, run, Position { part, leaf, .. }) = self.run_of(self.lie(Spot { at: bound.at, ..group }));
        let trace = run.trace(part, leaf)?;
        Some(Wanted { file: run.file(), pointer: trace.pointer(), swip: Some(trace.swip()) })
    }

    /// The leaf of an entry, its number there, and what seqnum it has at least.
    fn look_at(&self, lie: Lie, costs: &mut Costs) -> Result<(Block, usize, SeqNum)> {
        let (_, run, Position { part, leaf, at, .. }) = self.run_of(lie);
        let fetched;
        let index = match run.kept_part(part) {
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

    fn group(&self, spot: Spot) -> Group<'_> {
        let part = &self.parts[spot.part];
        let (groups, long) = part.groups.split_at(part.groups_bytes);
        Group { bytes: &groups.as_chunks().0[spot.group], long }
    }

    fn lie(&self, spot: Spot) -> Lie {
        self.group(spot).lie(spot.at)
    }

    fn run_of(&self, lie: Lie) -> (usize, &Arc<Run>, Position) {
        let (tree, position) = lie.tree_and_position();
        (tree, &self.trees[tree][position.run], position)
    }

    /// The first spot of all.
    const FIRST: Spot = Spot { part: 0, group: 0, at: 0 };

    fn last(&self) -> Spot {
        self.last_of_group(self.last_group(self.parts.len() - 1))
    }

    fn last_group(&self, part: usize) -> Spot {
        Spot { part, group: self.parts[part].separators.count() - 1, at: 0 }
    }

    fn last_of_group(&self, spot: Spot) -> Spot {
        Spot { at: self.group(spot).count() - 1, ..spot }
    }

    /// The spot behind this one.
    fn after(&self, spot: Spot) -> Option<Spot> {
        let next = Spot { at: spot.at + 1, ..spot };
        if next.at < self.group(spot).count() { Some(next) } else { self.after_group(spot) }
    }

    /// The first spot of the group behind that of this one.
    fn after_group(&self, Spot { part, group, .. }: Spot) -> Option<Spot> {
        if group + 1 < self.parts[part].separators.count() {
            Some(Spot { part, group: group + 1, at: 0 })
        } else {
            (part + 1 < self.parts.len()).then_some(Spot { part: part + 1, group: 0, at: 0 })
        }
    }

    /// The spot before this one.
    fn before(&self, Spot { part, group, at }: Spot) -> Option<Spot> {
        if at > 0 {
            Some(Spot { part, group, at: at - 1 })
        } else if group > 0 {
            Some(self.last_of_group(Spot { part, group: group - 1, at }))
        } else {
            Some(self.last_of_group(self.last_group(part.checked_sub(1)?)))
        }
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("trees", &self.trees.len()).field("entries", &self.entries).finish_non_exhaustive()
    }
}

/// A group, and the long prefixes of its part.
#[derive(Clone, Copy)]
struct Group<'v> {
    bytes: &'v [u8; GROUP_BYTES],
    long: &'v [u8],
}

impl<'v> Group<'v> {
    fn u16_at(self, at: usize) -> usize {
        usize::from(self.bytes[at]) | usize::from(self.bytes[at + 1]) << 8
    }

    fn count(self) -> usize {
        self.u16_at(0)
    }

    fn prefix(self) -> &'v [u8] {
        let len = self.u16_at(PREFIX_LEN_AT);
        if len <= HEADS_AT - PREFIX_AT {
            return &self.bytes[PREFIX_AT..][..len];
        }
        let at = self.bytes[PREFIX_AT_AT..].first_chunk().map_or(0, |at| usize_of32(u32::from_le_bytes(*at)));
        &self.long[at..][..len]
    }

    fn heads(self) -> &'v [[u8; 4]] {
        &self.bytes[HEADS_AT..LIES_AT].as_chunks().0[..self.count()]
    }

    fn lie(self, at: usize) -> Lie {
        Lie(u64::from_le_bytes(self.bytes[LIES_AT..].as_chunks().0[at]))
    }

    /// What is known of the key of entry `at`.
    fn near(self, at: usize) -> Near<'v> {
        Near { prefix: self.prefix(), next: u32::from_le_bytes(self.heads()[at]) }
    }

    /// The first entry that is not below `key`, as far as heads tell.
    fn bound(self, key: &[u8]) -> Bound {
        search::bound(self.prefix(), self.heads(), key)
    }

    /// Asks for what a search looks at.
    fn prefetch(self) {
        prefetch(self.bytes.as_ptr(), LIES_AT);
    }

    /// Asks for where the entries lie.
    fn prefetch_lies(self) {
        prefetch(self.bytes[LIES_AT..].as_ptr(), GROUP_BYTES - LIES_AT);
    }

    /// How many entries from `at` on have the same head.
    fn ties(self, at: usize) -> usize {
        let heads = &self.heads()[at..];
        heads.iter().take_while(|head| **head == heads[0]).count()
    }
}
