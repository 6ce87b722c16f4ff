//! The next compaction of a table, by its layout, its range tombstones, or what the caller asks for.

use super::tuning::{L0_RUNS_MAX_DURING_COMPACTION, RANGE_TOMBSTONES_MANY};
use std::ops::Bound;

use super::compaction::Compaction;
use super::runs::{is_settled, key_range, occupied};
use super::{l0, leveled, tiered};
use crate::base::{FileId, SeqNum};
use crate::table::level::{LEVELS, LevelId, RunHandle};
use crate::table::options::{Layout, TableOptions};
use crate::table::trees::Trees;

/// The next compaction that the table's layout wants, of those that need no more than `room` bytes of free space.
#[must_use]
pub fn pick(trees: &Trees, options: &TableOptions, room: u64) -> Option<Compaction> {
    match options.layout {
        Layout::Lsm => leveled::pick(trees, options, room),
        // The delta runs over a B-tree.
        Layout::BTree | Layout::LsmTiered => tiered::pick(trees, options, room),
    }
}

/// The rewriting of the run that keeps the oldest range tombstone needed, where more than [`RANGE_TOMBSTONES_MANY`]
/// are: every read looks among them. Those that a snapshot older than `oldest` does not see must stay.
#[must_use]
pub fn pick_range_deleted(trees: &Trees, oldest: SeqNum) -> Option<Compaction> {
    if trees.range_tombstones.is_empty() || trees.range_tombstones.len() <= RANGE_TOMBSTONES_MANY {
        return None;
    }
    let is_erased = |handle: &RunHandle| {
        let (low, high) = key_range(handle);
        trees.range_tombstones.touch(low, Bound::Included(high), (handle.run.visible_from(), oldest))
    };
    let places =
        trees.levels.iter().enumerate().flat_map(|(level, runs)| runs.handles().map(move |run| (Some(level), run)));
    let places = trees.l0.iter().map(|run| (None, run.clone())).chain(places);
    let (level, run) = places.filter(|(_, run)| is_erased(run)).min_by_key(|(_, run)| run.run.visible_from())?;
    Some(match level {
        None => Compaction { l0: vec![run], levels: Vec::new(), target: LevelId::L0, bottom: false },
        Some(level) => Compaction::onto_target(trees, Vec::new(), vec![(level, vec![run])], level),
    })
}

/// The merge of runs of L0 among themselves that keeps them few while an older compaction of the table, of the runs in
/// `busy`, takes its time; of those that need no more than `room` bytes.
#[must_use]
pub fn pick_within_l0(trees: &Trees, busy: &[FileId], room: u64) -> Option<Compaction> {
    l0::pick(trees, busy, room, L0_RUNS_MAX_DURING_COMPACTION)
}

/// Where the runs begin that lie below what a compaction writes: runs that end there overlap fewer of them when they go
/// down in their turn.
#[must_use]
pub fn cuts(trees: &Trees, target: LevelId) -> Vec<Vec<u8>> {
    let LevelId::Level(target) = target else { return Vec::new() };
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
            trees.range_tombstones.touch(low, Bound::Included(high), (handle.run.visible_from(), SeqNum::MAX))
        };
        *level == last && runs.iter().all(|handle| is_settled(handle.run.meta()) && !is_erased(handle))
    };
    if trees.l0.is_empty() && (levels.is_empty() || !rewrite) && levels.iter().all(clean) {
        return None;
    }
    Some(Compaction { l0: trees.l0.clone(), levels, target: LevelId::Level(last), bottom: trees.btree.is_none() })
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
