//! How far compaction is behind, which is what slows writers.

use super::leveled;
use super::runs::bytes;
use super::tuning::{FULL, L0_RUNS_MAX, L0_TRIGGER, RUNS_SLOW, WAITING_SLOW};
use crate::base::num::u64_of;
use crate::table::level::LEVELS;
use crate::table::options::{Layout, TableOptions};
use crate::table::trees::Trees;

/// What the state of L0 and of levels over their targets asks of writers, from 0 (nothing) to [`FULL`].
///
/// Runs are kept few by merges within L0 as long as these keep up. What then grows is the bytes of L0, which are wanted
/// up to half of the level below: the more of them a compaction takes down, the less it writes for each. That level may
/// itself be over its target, so L0 and the levels above the last would together grow with the data, were it not for a
/// limit to what waits in them. Where no compaction is due, waiting would not help.
#[must_use]
pub fn pressure(trees: &Trees, options: &TableOptions) -> u64 {
    let wanted = match options.layout {
        Layout::Lsm => L0_RUNS_MAX,
        Layout::BTree | Layout::LsmTiered => L0_RUNS_MAX.max(options.fanout as usize),
    };
    let (slow, most) = RUNS_SLOW;
    let runs = share(u64_of(trees.l0.len()), u64_of(wanted + slow), u64_of(wanted + most));
    if options.layout != Layout::Lsm {
        return runs;
    }
    let targets = leveled::Targets::of(trees, options);
    let over = |level: usize| trees.levels[level].bytes().saturating_sub(targets.bytes[level]);
    let over: u64 = (targets.base..LEVELS).map(over).sum();
    let in_l0 = if trees.l0.len() < L0_TRIGGER { 0 } else { bytes(&trees.l0) };
    let gathered = leveled::base_bytes(options) + trees.levels[targets.base].bytes() / 2;
    let (slow, most) = WAITING_SLOW;
    let waiting = share(in_l0 + over, slow * options.run_bytes_max, most * options.run_bytes_max);
    runs.max(share(in_l0, 2 * gathered, 6 * gathered)).max(waiting)
}

/// Where a number lies between two others, in thousandths.
fn share(value: u64, low: u64, high: u64) -> u64 {
    (value.clamp(low, high) - low).saturating_mul(FULL) / (high - low).max(1)
}
