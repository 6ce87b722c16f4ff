//! Where the runs of a bulk load go.

use super::runs::{key_range, overlapping};
use crate::table::level::{LEVELS, LevelId, RunHandle};
use crate::table::trees::Trees;

/// Where each of the runs goes, which are newer than all that the table holds and disjoint: to the lowest level that
/// may take it, in which no run reaches into the range of its keys and above which no tree does; if there is none, to
/// the front of L0. So of two places that hold a key, the one searched first is newer. A run that meets the range that
/// is `busy` goes to L0: a compaction may write to levels there.
#[must_use]
pub fn places_of_load(trees: &Trees, runs: &[RunHandle], busy: Option<(&[u8], &[u8])>) -> Vec<LevelId> {
    let place = |handle: &RunHandle| {
        let meta = handle.run.meta();
        let meets = |(low, high)| meta.overlaps(low, high);
        if busy.is_some_and(meets) || trees.l0.iter().map(key_range).any(meets) {
            return LevelId::L0;
        }
        let free = (0..LEVELS).take_while(|level| overlapping(trees, *level, key_range(handle)).is_empty());
        free.last().map_or(LevelId::L0, LevelId::Level)
    };
    runs.iter().map(place).collect()
}
