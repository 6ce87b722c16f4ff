//! What the policies ask of a table's runs: where they are, what keys they span, how large they are.

use std::sync::Arc;

use crate::base::{FileId, SeqNum};
use crate::table::level::{LEVELS, Level, RunHandle};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;
use crate::tree::run::{Run, RunMeta};

/// The indexes of the levels that hold runs, from the top down.
pub(super) fn occupied(trees: &Trees) -> impl Iterator<Item = usize> + '_ {
    (0..LEVELS).filter(|level| !trees.levels[*level].runs.is_empty())
}

/// Whether nothing in a run of the last level can be dropped: an entry that every snapshot sees has seqnum zero, and no
/// older version of its key is left.
pub(super) fn is_settled(run: &RunMeta) -> bool {
    run.tombstones == 0 && run.seqnum_max == SeqNum::ZERO
}

/// The smallest and largest user key of a run.
pub(super) fn key_range(handle: &RunHandle) -> (&[u8], &[u8]) {
    let meta = handle.run.meta();
    (&meta.smallest, &meta.largest)
}

/// The smallest and largest user key of several runs.
pub(super) fn span<'a>(runs: impl Iterator<Item = &'a RunHandle>) -> Option<(&'a [u8], &'a [u8])> {
    runs.map(key_range).reduce(|(low, high), (a, b)| (low.min(a), high.max(b)))
}

/// The runs of a level that touch the key range.
pub(super) fn overlapping(trees: &Trees, level: usize, (low, high): (&[u8], &[u8])) -> Vec<RunHandle> {
    // The runs of a level are disjoint, and in the order of their keys. There may be very many.
    let Level { ids, runs, .. } = &trees.levels[level];
    let from = runs.partition_point(|run| *run.meta().largest < *low);
    let until = runs.partition_point(|run| *run.meta().smallest <= *high).max(from);
    let handle = |(id, run): (&FileId, &Arc<Run>)| RunHandle { id: *id, run: Arc::clone(run) };
    ids[from..until].iter().zip(&runs[from..until]).map(handle).collect()
}

/// Whether any tree below `level` holds keys in the range.
pub(super) fn is_bottom(trees: &Trees, level: usize, range: (&[u8], &[u8])) -> bool {
    trees.btree.is_none() && (level + 1..LEVELS).all(|below| overlapping(trees, below, range).is_empty())
}

/// Whether runs have less than an eighth of the bytes that they may have, on average.
pub(super) fn are_small<'a>(runs: impl Iterator<Item = &'a RunHandle>, options: &TableOptions) -> bool {
    let (count, bytes) = runs.fold((0, 0), |(count, bytes), handle| (count + 1, bytes + handle.run.meta().bytes));
    bytes < count * (options.run_bytes_max / 8)
}

pub(super) fn bytes(runs: &[RunHandle]) -> u64 {
    runs.iter().map(|handle| handle.run.meta().bytes).sum()
}
