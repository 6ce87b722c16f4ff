//! Layout policies: pure functions from the trees of a table to the next compaction that its layout wants, if any.

mod dead;
mod filters;
mod l0;
mod leveled;
mod load;
mod paid;
mod parked;
mod pressure;
mod slices;
#[cfg(test)]
mod tests;
mod tiered;
mod values;

pub use dead::{has_unseen_tombstones, pick_dead};
pub use filters::{bits_of_compaction, bits_of_flush, bits_of_load};
pub use load::places_of_load;

use std::ops::Bound;

use crate::base::{FileId, SeqNum};
use crate::tree::run::RunMeta;

use super::options::{Layout, TableOptions};
use super::version::{LEVELS, Place, RunHandle, Trees};

pub use paid::{Account, FILTER_NS, InMemory, Job, Paid, Price, extra_ns, near_key, pick_paid, pick_view};
pub use parked::{
    KEPT_PART, absorption_needs, bytes_of_absorption, is_absorption_due, leaves_worth, rewrite_needs, slices_of_tree,
};
pub use pressure::{FULL, pressure};
pub use slices::Slice;
pub use values::{LIVE_PERCENT, PACKED_PERCENT, ValueBytes, emptied, moved_bytes, pick_values};

/// How many runs in L0 make a compaction due.
pub const L0_TRIGGER: usize = 4;

/// From so many erasures of a table on, runs are rewritten only to get rid of some.
pub const ERASURES_MANY: usize = 1000;

/// Runs to be merged into one sorted sequence, and where that goes.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Runs taken from L0, newest first.
    pub l0: Vec<RunHandle>,
    /// Runs taken from levels, with the index of their level, from the top down; each list in key order.
    pub levels: Vec<(usize, Vec<RunHandle>)>,
    /// What takes the result.
    pub target: Place,
    /// Nothing older than the inputs lies below them in their key range: tombstones may go.
    pub bottom: bool,
}

impl Compaction {
    /// Merges runs of L0 and of levels above `target` into it, with all that they overlap there; `None` without runs.
    fn new(trees: &Trees, l0: Vec<RunHandle>, mut levels: Vec<(usize, Vec<RunHandle>)>, target: usize) -> Option<Self> {
        let range = span(l0.iter().chain(levels.iter().flat_map(|(_, runs)| runs)))?;
        let below = overlapping(trees, target, range);
        if !below.is_empty() {
            levels.push((target, below));
        }
        Some(Self::onto_target(trees, l0, levels, target))
    }

    /// Merges runs of L0 and of levels, with those of `target` already among them.
    fn onto_target(trees: &Trees, l0: Vec<RunHandle>, levels: Vec<(usize, Vec<RunHandle>)>, target: usize) -> Self {
        let mut compaction = Self { l0, levels, target: Place::Level(target), bottom: false };
        let of_target: usize =
            compaction.levels.iter().filter(|(level, _)| *level == target).map(|(_, runs)| runs.len()).sum();
        let met = span(compaction.inputs()).map_or(0, |range| overlapping(trees, target, range).len());
        assert_eq!(met, of_target, "the result of a compaction reaches over no run that stays beside it");
        // What the target brings along reaches further than what comes down to it, and may hide versions further below
        // there.
        compaction.bottom = span(compaction.inputs()).is_some_and(|range| is_bottom(trees, target, range));
        compaction
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &RunHandle> {
        self.l0.iter().chain(self.levels.iter().flat_map(|(_, runs)| runs))
    }

    /// The keys between the first and the last of the inputs, within which the result lies.
    #[must_use]
    pub fn range(&self) -> Option<(&[u8], &[u8])> {
        span(self.inputs())
    }

    /// The files that the result replaces.
    #[must_use]
    pub fn removed(&self) -> Vec<FileId> {
        self.inputs().map(|handle| handle.id).collect()
    }

    /// Bytes of the inputs: about as many as the result has at most.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|handle| handle.run.meta().bytes).sum()
    }

    /// Whether the inputs are disjoint already and none is in the target: they can be moved there without being read.
    /// Small runs are merged nevertheless, or a table written in key order would become more files than a process may
    /// open; so are runs whose tombstones may go.
    #[must_use]
    pub fn is_trivial_move(&self, options: &TableOptions) -> bool {
        let is_target = |level: usize| self.target == Place::Level(level);
        let drops = self.bottom && self.inputs().any(|handle| handle.run.meta().tombstones > 0);
        let merges = self.target == Place::L0 || self.levels.iter().any(|(level, _)| is_target(*level));
        if merges || drops || are_small(self.inputs(), options) {
            return false;
        }
        let mut ranges: Vec<_> = self.inputs().map(key_range).collect();
        ranges.sort_unstable();
        ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }
}

/// The next compaction that the table's layout wants, of those that need no more than `room` bytes of free space.
#[must_use]
pub fn pick(trees: &Trees, options: &TableOptions, room: u64) -> Option<Compaction> {
    match options.layout {
        Layout::Lsm => leveled::pick(trees, options, room),
        // What is parked over a B-tree.
        Layout::BTree | Layout::LsmTiered => tiered::pick(trees, options, room),
    }
}

/// The rewriting of the run that keeps the oldest erasure needed, where more than [`ERASURES_MANY`] are: every read
/// looks among them. Those that a snapshot older than `oldest` does not see must stay.
#[must_use]
pub fn pick_erased(trees: &Trees, oldest: SeqNum) -> Option<Compaction> {
    if trees.erasures.is_empty() || trees.erasures.len() <= ERASURES_MANY {
        return None;
    }
    let is_erased = |handle: &RunHandle| {
        let (low, high) = key_range(handle);
        trees.erasures.touch(low, Bound::Included(high), (handle.run.visible_from(), oldest))
    };
    let places =
        trees.levels.iter().enumerate().flat_map(|(level, runs)| runs.handles().map(move |run| (Some(level), run)));
    let places = trees.l0.iter().map(|run| (None, run.clone())).chain(places);
    let (level, run) = places.filter(|(_, run)| is_erased(run)).min_by_key(|(_, run)| run.run.visible_from())?;
    Some(match level {
        None => Compaction { l0: vec![run], levels: Vec::new(), target: Place::L0, bottom: false },
        Some(level) => Compaction::onto_target(trees, Vec::new(), vec![(level, vec![run])], level),
    })
}

/// The merge of runs of L0 among themselves that keeps them few while an older compaction of the table, of the runs in
/// `busy`, takes its time; of those that need no more than `room` bytes.
#[must_use]
pub fn pick_within_l0(trees: &Trees, busy: &[FileId], room: u64) -> Option<Compaction> {
    l0::pick(trees, busy, room, l0::RUNS_MAX_BESIDE)
}

/// Where the runs begin that lie below what a compaction writes: runs that end there overlap fewer of them when they go
/// down in their turn.
#[must_use]
pub fn cuts(trees: &Trees, target: Place) -> Vec<Vec<u8>> {
    let Place::Level(target) = target else { return Vec::new() };
    let below = occupied(trees).find(|level| *level > target);
    let runs = below.map_or_else(Vec::new, |level| trees.levels[level].handles().collect());
    runs.iter().map(|handle| handle.run.meta().smallest.clone()).collect()
}

/// The compaction that leaves a single sorted sequence in the last level; `None` without runs and, unless it is to be a
/// `rewrite`, when that is all there is and nothing in it can be dropped.
#[must_use]
pub fn pick_all(trees: &Trees, rewrite: bool) -> Option<Compaction> {
    let last = LEVELS - 1;
    let levels: Vec<_> =
        occupied(trees).map(|level| (level, trees.levels[level].handles().collect::<Vec<_>>())).collect();
    let clean = |(level, runs): &(usize, Vec<RunHandle>)| {
        let is_erased = |handle: &RunHandle| {
            let (low, high) = key_range(handle);
            trees.erasures.touch(low, Bound::Included(high), (handle.run.visible_from(), SeqNum::MAX))
        };
        *level == last && runs.iter().all(|handle| is_settled(handle.run.meta()) && !is_erased(handle))
    };
    if trees.l0.is_empty() && (levels.is_empty() || !rewrite) && levels.iter().all(clean) {
        return None;
    }
    Some(Compaction { l0: trees.l0.clone(), levels, target: Place::Level(last), bottom: trees.btree.is_none() })
}

/// The compaction that merges all of a level into the next one below that holds anything: of L0 for number 0, else of
/// the level whose index is one less. Leveled, L0 goes where its layout would take it; with nothing below it, it
/// becomes the last level. `None` when the level is empty, or is not L0 and lowest already.
#[must_use]
pub fn pick_level(trees: &Trees, options: &TableOptions, number: usize) -> Option<Compaction> {
    let (l0, levels, target) = match number.checked_sub(1) {
        None if options.layout == Layout::Lsm => return leveled::pick_l0(trees, options),
        None => (trees.l0.clone(), Vec::new(), occupied(trees).next().unwrap_or(LEVELS - 1)),
        Some(level) => {
            let target = occupied(trees).find(|below| *below > level)?;
            (Vec::new(), vec![(level, trees.levels.get(level)?.handles().collect())], target)
        }
    };
    Compaction::new(trees, l0, levels, target)
}

/// Bytes over which each level is compacted into the next; 0 for levels that the layout does not use now.
#[must_use]
pub fn targets(trees: &Trees, options: &TableOptions) -> [u64; LEVELS] {
    match options.layout {
        Layout::Lsm => leveled::Targets::of(trees, options).bytes,
        Layout::BTree | Layout::LsmTiered => [0; LEVELS],
    }
}

/// The indexes of the levels that hold runs, from the top down.
fn occupied(trees: &Trees) -> impl Iterator<Item = usize> + '_ {
    (0..LEVELS).filter(|level| !trees.levels[*level].runs.is_empty())
}

/// Whether nothing in a run of the last level can be dropped: an entry that every snapshot sees has seqnum zero, and no
/// older version of its key is left.
fn is_settled(run: &RunMeta) -> bool {
    run.tombstones == 0 && run.seqnum_max == SeqNum::ZERO
}

/// The smallest and largest user key of a run.
fn key_range(handle: &RunHandle) -> (&[u8], &[u8]) {
    let meta = handle.run.meta();
    (&meta.smallest, &meta.largest)
}

/// The smallest and largest user key of several runs.
fn span<'a>(runs: impl Iterator<Item = &'a RunHandle>) -> Option<(&'a [u8], &'a [u8])> {
    runs.map(key_range).reduce(|(low, high), (a, b)| (low.min(a), high.max(b)))
}

/// The runs of a level that touch the key range.
fn overlapping(trees: &Trees, level: usize, (low, high): (&[u8], &[u8])) -> Vec<RunHandle> {
    let touches = |handle: &RunHandle| {
        let (smallest, largest) = key_range(handle);
        smallest <= high && low <= largest
    };
    trees.levels[level].handles().filter(touches).collect()
}

/// Whether any tree below `level` holds keys in the range.
fn is_bottom(trees: &Trees, level: usize, range: (&[u8], &[u8])) -> bool {
    trees.btree.is_none() && (level + 1..LEVELS).all(|below| overlapping(trees, below, range).is_empty())
}

/// Whether runs have less than an eighth of the bytes that they may have, on average.
fn are_small<'a>(runs: impl Iterator<Item = &'a RunHandle>, options: &TableOptions) -> bool {
    let (count, bytes) = runs.fold((0, 0), |(count, bytes), handle| (count + 1, bytes + handle.run.meta().bytes));
    bytes < count * (options.run_bytes_max / 8)
}

fn bytes(runs: &[RunHandle]) -> u64 {
    runs.iter().map(|handle| handle.run.meta().bytes).sum()
}
