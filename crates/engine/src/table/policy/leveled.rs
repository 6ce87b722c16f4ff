//! Leveled compaction, with level targets computed from the last level up, so that the number of levels is the least that the data
//! needs (RocksDB calls this dynamic level bytes).

use super::{
    Compaction, L0_TRIGGER, LEVELS, TableOptions, Trees, are_small, bytes, key_range, occupied, overlapping, span,
};
use crate::table::version::RunHandle;

/// The first level below L0 takes this many full files before it is compacted further.
const BASE_RUNS: u64 = 4;

/// How large each level may grow.
pub(super) struct Targets {
    /// The level that L0 is compacted into.
    pub(super) base: usize,
    /// Target bytes by level; 0 above the base.
    pub(super) bytes: [u64; LEVELS],
}

impl Targets {
    pub(super) fn of(trees: &Trees, options: &TableOptions) -> Self {
        let base_bytes = BASE_RUNS * options.run_bytes_max;
        let fanout = u64::from(options.fanout);
        let largest = (0..LEVELS).map(|level| trees.levels[level].bytes()).max().unwrap_or(0);
        let mut base = LEVELS - 1;
        let mut target = largest.max(base_bytes);
        let mut levels = [0; LEVELS];
        levels[base] = target;
        while base > 0 && target / fanout >= base_bytes {
            base -= 1;
            target /= fanout;
            levels[base] = target;
        }
        // A level that the data has outgrown downwards is drained first: it stays the base, with what target it has left.
        if let Some(top) = occupied(trees).next()
            && top < base
        {
            levels[top..base].fill(base_bytes.min(target / 2).max(1));
            base = top;
        }
        // The last level has nowhere to go.
        levels[LEVELS - 1] = u64::MAX;
        Self { base, bytes: levels }
    }
}

/// The compaction of the level that is furthest over its target, L0 first among equals.
pub(super) fn pick(trees: &Trees, options: &TableOptions) -> Option<Compaction> {
    let targets = Targets::of(trees, options);
    let l0_score = trees.l0.len() * 100 / L0_TRIGGER;
    let score = |level: usize| trees.levels[level].bytes().saturating_mul(100) / targets.bytes[level].max(1);
    let fullest = (targets.base..LEVELS - 1).map(|level| (score(level), level)).max_by_key(|(score, _)| *score);
    let (level_score, level) = fullest.unwrap_or((0, targets.base));
    if l0_score >= 100 && l0_score as u64 >= level_score {
        return l0_into(trees, targets.base, options);
    }
    (level_score > 100).then(|| level_into_next(trees, level)).flatten()
}

/// All of L0 into the level that takes it now.
pub(super) fn pick_l0(trees: &Trees, options: &TableOptions) -> Option<Compaction> {
    l0_into(trees, Targets::of(trees, options).base, options)
}

/// All of L0 with what it overlaps in the base level. Small runs that overlap nothing take in the run below them, until that has grown to
/// half its size: so a table written in key order is not left in crumbs.
fn l0_into(trees: &Trees, target: usize, options: &TableOptions) -> Option<Compaction> {
    let range = span(trees.l0.iter())?;
    let mut below = overlapping(trees, target, range);
    let neighbour = trees.levels[target].handles().take_while(|handle| key_range(handle).1 < range.0).last();
    if below.is_empty() && are_small(trees.l0.iter(), options) {
        below.extend(neighbour.filter(|handle| handle.run.meta().bytes < options.run_bytes_max / 2));
    }
    let levels = if below.is_empty() { Vec::new() } else { vec![(target, below)] };
    Some(Compaction::onto_target(trees, trees.l0.clone(), levels, target))
}

/// The run of the level that overlaps the next one least, for its size, with what it overlaps.
fn level_into_next(trees: &Trees, level: usize) -> Option<Compaction> {
    let target = level + 1;
    let cost = |handle: &RunHandle| {
        let below = span(std::iter::once(handle)).map_or(0, |range| bytes(&overlapping(trees, target, range)));
        below.saturating_mul(1000) / handle.run.meta().bytes.max(1)
    };
    let run = trees.levels[level].handles().min_by_key(cost)?;
    Compaction::new(trees, Vec::new(), vec![(level, vec![run])], target)
}
