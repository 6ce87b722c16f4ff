//! Merges within L0: they keep the trees few that a read searches, while the levels below are compacted in large
//! pieces.
//!
//! A compaction of L0 into the level below rewrites most of that level, so it pays only when L0 has gathered a share of
//! it. Runs laid down until then, and while it goes on, are merged among themselves. (RocksDB: `FindIntraL0Compaction`,
//! from which the measure is; Pebble: intra-L0 compactions.)

use super::compaction::Compaction;
use super::runs::bytes;
use super::tuning::{L0_MERGED_MIN, L0_RUNS_MAX};
use crate::base::FileId;
use crate::base::num::u64_of;
use crate::table::level::{LevelId, RunHandle};
use crate::table::trees::Trees;

/// The merge of neighbours that writes the fewest bytes for each run that it saves. Runs of L0 from the first one in
/// `busy` on, which are the older ones, belong to a compaction that is under way.
///
/// Neighbours of similar size come first, and are the only ones as long as the others are few: a merge of them at least
/// doubles the run in which each of its entries lies, so that no entry is rewritten more often than the logarithm of
/// L0's size.
pub(super) fn pick(trees: &Trees, busy: &[FileId], room: u64, runs_max: usize) -> Option<Compaction> {
    if trees.l0.len() <= runs_max {
        return None;
    }
    let free = trees.l0.iter().take_while(|handle| !busy.contains(&handle.id)).count();
    let windows = (0..free).flat_map(|from| (from + L0_MERGED_MIN..=free).map(move |to| &trees.l0[from..to]));
    let is_due = |window: &&[RunHandle]| bytes(window) <= room && (free > L0_RUNS_MAX || are_similar(window));
    let cost = |window: &&[RunHandle]| bytes(window) / u64_of(window.len() - 1);
    let best = windows.filter(is_due).min_by_key(|window| (!are_similar(window), cost(window)))?;
    // Older runs of the same keys lie below: tombstones stay.
    Some(Compaction { l0: best.to_vec(), levels: Vec::new(), target: LevelId::L0, bottom: false })
}

/// Whether no run is larger than all others together.
fn are_similar(runs: &[RunHandle]) -> bool {
    let largest = runs.iter().map(|handle| handle.run.meta().bytes).max();
    largest.is_some_and(|largest| bytes(runs) >= 2 * largest)
}
