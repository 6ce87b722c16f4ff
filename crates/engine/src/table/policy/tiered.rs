//! Tiered compaction: sorted sequences of similar size are merged into one; the oldest holds most of the data.
//!
//! A sequence is a run of L0 or a whole level. The number of sequences is bounded by the fanout, space by a limit on
//! what lies above the last sequence. (RocksDB calls this universal compaction.)

use super::compaction::Compaction;
use super::l0;
use super::runs::occupied;
use super::tuning::{L0_RUNS_MAX, L0_TRIGGER, SIZE_RATIO_PERCENT, SPACE_AMP_PERCENT};
use crate::table::level::{LEVELS, LevelId};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;

/// The next merge, newest sequences first.
pub(super) fn pick(trees: &Trees, options: &TableOptions, room: u64) -> Option<Compaction> {
    let merge = wanted(trees, options)?;
    if merge.needs(options) <= room { Some(merge) } else { l0::pick(trees, &[], room, L0_RUNS_MAX) }
}

fn wanted(trees: &Trees, options: &TableOptions) -> Option<Compaction> {
    let levels: Vec<usize> = occupied(trees).collect();
    let sizes: Vec<u64> = trees
        .l0
        .iter()
        .map(|handle| handle.run.meta().bytes)
        .chain(levels.iter().map(|level| trees.levels[*level].bytes()))
        .collect();
    if sizes.len() < L0_TRIGGER || trees.l0.is_empty() {
        return None;
    }
    let (last, above) = sizes.split_last()?;
    // Where the last one is a B-tree, it takes the others in by its own rule.
    if trees.btree.is_none() && above.iter().sum::<u64>() * 100 > last * SPACE_AMP_PERCENT {
        return Some(merge(trees, &levels, sizes.len()));
    }
    let mut together = sizes[0];
    let mut count = 1;
    while count < sizes.len() && sizes[count] * 100 <= together * (100 + SIZE_RATIO_PERCENT) {
        together += sizes[count];
        count += 1;
    }
    if count >= L0_TRIGGER {
        return Some(merge(trees, &levels, count));
    }
    let most = (options.fanout as usize).max(L0_TRIGGER);
    // Too many: merge the newest until the bound holds with the result counted as one.
    (sizes.len() > most).then(|| merge(trees, &levels, (sizes.len() - most + 1).max(2)))
}

/// The merges of the newest sequences, from the smallest on; of all there are also when that is one which lies in L0.
pub(super) fn merges(trees: &Trees) -> Vec<Compaction> {
    let levels: Vec<usize> = occupied(trees).collect();
    let all = trees.l0.len() + levels.len();
    let first = if levels.is_empty() { all.min(2) } else { 2 };
    (first.max(1)..=all).map(|count| merge(trees, &levels, count)).collect()
}

/// Merges the `count` newest sequences into the level just above the next older one.
fn merge(trees: &Trees, levels: &[usize], count: usize) -> Compaction {
    let from_l0 = count.min(trees.l0.len());
    let mut taken = count - from_l0;
    // Level 1 cannot give its place to runs from L0 while it is kept: take it along.
    if taken == 0 && from_l0 < trees.l0.len() {
        return merge(trees, levels, trees.l0.len());
    }
    if levels.get(taken) == Some(&0) {
        taken += 1;
    }
    let target = levels.get(taken).map_or(LEVELS - 1, |next| next - 1);
    let inputs = levels[..taken].iter().map(|level| (*level, trees.levels[*level].handles().collect())).collect();
    let bottom = taken == levels.len() && trees.btree.is_none();
    Compaction { l0: trees.l0[..from_l0].to_vec(), levels: inputs, target: LevelId::Level(target), bottom }
}
