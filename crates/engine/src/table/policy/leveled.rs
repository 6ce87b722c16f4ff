//! Leveled compaction, with level targets computed from the last level up, so that the number of levels is the least
//! that the data needs (RocksDB calls this dynamic level bytes).

use super::compaction::Compaction;
use super::l0;
use super::runs::{are_small, bytes, key_range, overlapping, span};
use super::tuning::{BASE_RUNS, L0_RUNS_MAX, L0_TRIGGER, LEVEL_REWRITTEN_PER_BYTE};
use crate::table::level::{LEVELS, RunHandle};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;

/// How large each level may grow.
pub(super) struct Targets {
    /// The level that L0 is compacted into.
    pub(super) base: usize,
    /// Target bytes by level; 0 above the base.
    pub(super) bytes: [u64; LEVELS],
}

impl Targets {
    pub(super) fn of(trees: &Trees, options: &TableOptions) -> Self {
        let found = std::array::from_fn(|level| trees.levels[level].bytes());
        Self::of_bytes(&found, options)
    }

    /// The targets when the levels hold `found` bytes.
    pub(super) fn of_bytes(found: &[u64; LEVELS], options: &TableOptions) -> Self {
        let base_bytes = base_bytes(options);
        let fanout = u64::from(options.fanout);
        let largest = found.iter().copied().max().unwrap_or(0);
        let mut base = LEVELS - 1;
        let mut target = largest.max(base_bytes);
        let mut levels = [0; LEVELS];
        levels[base] = target;
        while base > 0 && target / fanout >= base_bytes {
            base -= 1;
            target /= fanout;
            levels[base] = target;
        }
        // A level that the data has outgrown downwards is drained first: it stays the base, with what target it has
        // left.
        if let Some(top) = found.iter().position(|bytes| *bytes > 0)
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

/// The bytes that the first level below L0 may take before another one is put between.
pub(super) fn base_bytes(options: &TableOptions) -> u64 {
    BASE_RUNS * options.run_bytes_max
}

/// The compaction of the level that is furthest over its target, L0 first among equals; before a level goes down, L0 is
/// merged within itself if it has too many runs.
pub(super) fn pick(trees: &Trees, options: &TableOptions, room: u64) -> Option<Compaction> {
    let targets = Targets::of(trees, options);
    let score = |level: usize| trees.levels[level].bytes().saturating_mul(100) / targets.bytes[level].max(1);
    let mut over: Vec<_> = (targets.base..LEVELS - 1).map(|level| (score(level), level)).collect();
    over.retain(|(score, _)| *score > 100);
    over.sort_unstable_by(|a, b| b.cmp(a));
    let down = l0_into(trees, targets.base, options).map(|down| (l0_score(&down), down));
    let down = down.filter(|(score, down)| *score >= 100 && down.needs(options) <= room);
    let fullest = over.first().map_or(0, |(score, _)| *score);
    match down {
        Some((score, down)) if score >= fullest => Some(down),
        down => l0::pick(trees, &[], room, L0_RUNS_MAX)
            .or_else(|| over.iter().find_map(|(_, level)| level_into_next(trees, *level, options, room)))
            .or(down.map(|(_, down)| down)),
    }
}

/// How urgent it is to take L0 down, in percent: it is due when it has [`L0_TRIGGER`] runs, and enough bytes that it
/// rewrites at most [`LEVEL_REWRITTEN_PER_BYTE`] bytes of the level below for each. Merges within L0 keep its runs few
/// until then.
fn l0_score(down: &Compaction) -> u64 {
    if down.l0.len() < L0_TRIGGER {
        return 0;
    }
    let below: u64 = down.levels.iter().map(|(_, runs)| bytes(runs)).sum();
    bytes(&down.l0).saturating_mul(100 * LEVEL_REWRITTEN_PER_BYTE) / below.max(1)
}

/// All of L0 into the level that takes it now.
pub(super) fn pick_l0(trees: &Trees, options: &TableOptions) -> Option<Compaction> {
    l0_into(trees, Targets::of(trees, options).base, options)
}

/// All of L0 with what it overlaps in the base level. Small runs that overlap nothing take in the run below them, until
/// that has grown to half its size: so a table written in key order is not left in crumbs.
pub(super) fn l0_into(trees: &Trees, target: usize, options: &TableOptions) -> Option<Compaction> {
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
fn level_into_next(trees: &Trees, level: usize, options: &TableOptions, room: u64) -> Option<Compaction> {
    let down = |run: RunHandle| Compaction::new(trees, Vec::new(), vec![(level, vec![run])], level + 1);
    // What it takes along there counts, for each byte that goes down.
    let cost = |down: &Compaction| {
        let moved = down.levels.first().map_or(0, |(_, runs)| bytes(runs));
        (down.bytes() - moved).saturating_mul(1000) / moved.max(1)
    };
    trees.levels[level].handles().filter_map(down).filter(|down| down.needs(options) <= room).min_by_key(cost)
}
