//! How far compaction is behind, which is what slows writers.

use super::{L0_TRIGGER, Layout, TableOptions, Trees, bytes, l0, leveled};
use crate::base::num::u64_of;

/// So many runs in L0 over those that are wanted slow writers for the first time, and most. (Beside a compaction they are merged from twelve on: a
/// few flushes before.)
const RUNS_SLOW: (usize, usize) = (8, 40);
/// Pressure is counted in thousandths.
pub const FULL: u64 = 1000;

/// What the state of L0 asks of writers, from 0 (nothing) to [`FULL`].
///
/// Runs are kept few by merges within L0 as long as these keep up. What then grows is the bytes of L0, which are wanted up to half
/// of the level below: the more of them a compaction takes down, the less it writes for each. Where no compaction is due, waiting
/// would not help.
#[must_use]
pub fn pressure(trees: &Trees, options: &TableOptions) -> u64 {
    let wanted = match options.layout {
        Layout::Lsm => l0::RUNS_MAX,
        Layout::BTree | Layout::LsmTiered => l0::RUNS_MAX.max(options.fanout as usize),
    };
    let (slow, most) = RUNS_SLOW;
    let runs = share(u64_of(trees.l0.len()), u64_of(wanted + slow), u64_of(wanted + most));
    if options.layout != Layout::Lsm || trees.l0.len() < L0_TRIGGER {
        return runs;
    }
    let below = trees.levels[leveled::Targets::of(trees, options).base].bytes();
    let gathered = leveled::base_bytes(options) + below / 2;
    runs.max(share(bytes(&trees.l0), 2 * gathered, 6 * gathered))
}

/// Where a number lies between two others, in thousandths.
fn share(value: u64, low: u64, high: u64) -> u64 {
    (value.clamp(low, high) - low).saturating_mul(FULL) / (high - low).max(1)
}
