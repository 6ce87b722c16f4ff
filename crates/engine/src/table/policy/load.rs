//! Where the runs of a bulk load go.

use super::{key_range, overlapping, span};
use crate::table::version::{LEVELS, RunHandle, Trees};

/// The index of the lowest level that may take runs which are newer than all that the table holds: no tree above it and none in it may
/// reach into the range of their keys. `None`: only L0, in front of its runs.
#[must_use]
pub fn level_for(trees: &Trees, runs: &[RunHandle]) -> Option<usize> {
    let (low, high) = span(runs.iter())?;
    let in_l0 = trees.l0.iter().map(key_range).any(|(smallest, largest)| smallest <= high && low <= largest);
    let free = (0..LEVELS).take_while(|level| !in_l0 && overlapping(trees, *level, (low, high)).is_empty());
    free.last()
}
