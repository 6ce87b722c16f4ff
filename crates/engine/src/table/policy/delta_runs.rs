//! When changes are merged into a B-tree: at once where they are dense in it, else once its delta runs are.

use super::tuning::{
    DELTA_PERCENT, KEPT_PART, LEAVES_REWRITTEN_MIN_PART, LEAVES_REWRITTEN_PER_BYTE, RANGE_TOMBSTONES_MANY, SLICES_MAX,
};
use std::ops::Bound;

use super::dead::{part_of, seen_tombstones, tombstone_bytes};
use crate::base::SeqNum;
use crate::base::num::{u64_of, usize_of};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;
use crate::tree::btree::TreeMeta;
use crate::tree::btree::reach::range_deleted_percent;

/// How many leaves the flush of `bytes` bytes may rewrite.
#[must_use]
pub fn leaves_worth(tree: &TreeMeta, options: &TableOptions, bytes: u64) -> u64 {
    let leaf_bytes = tree.live_bytes() / tree.leaves.max(1);
    let most = (bytes * LEAVES_REWRITTEN_PER_BYTE).max(options.run_bytes_max / LEAVES_REWRITTEN_MIN_PART);
    most / leaf_bytes.max(1)
}

/// Whether the runs over the B-tree are dense enough to be merged into it; or as much of the tree was erased for all
/// snapshots from `oldest` on, or in more than [`RANGE_TOMBSTONES_MANY`] ranges.
#[must_use]
pub fn is_btree_merge_due(trees: &Trees, options: &TableOptions, oldest: SeqNum) -> bool {
    let Some(root) = &trees.btree else { return false };
    let parked = delta_bytes(trees);
    let dense = (parked + dead_bytes(trees, oldest)) * 100 >= root.meta().live_bytes() * DELTA_PERCENT;
    let small = root.meta().live_bytes() <= options.run_bytes_max / LEAVES_REWRITTEN_MIN_PART;
    let since = (root.meta().clean_to, oldest);
    let erased = || {
        range_deleted_percent(root, &trees.range_tombstones, since) >= DELTA_PERCENT
            || trees.range_tombstones.len() > RANGE_TOMBSTONES_MANY
                && trees.range_tombstones.touch(&[], Bound::Unbounded, since)
    };
    parked > 0 && (dense || small) || erased()
}

/// Bytes of the B-tree and of the runs over it.
#[must_use]
pub fn btree_merge_bytes(trees: &Trees) -> u64 {
    delta_bytes(trees) + trees.btree.as_ref().map_or(0, |root| root.meta().live_bytes())
}

/// Bytes of space that a merge of all runs into the B-tree needs that rewrites all of it: what is free in its file may
/// have been given back.
#[must_use]
pub fn rewrite_needs(trees: &Trees) -> u64 {
    let tree = trees.btree.as_ref().map_or(0, |root| root.meta().live_bytes());
    delta_puts_bytes(trees) + tree - dead_bytes(trees, SeqNum::MAX)
}

/// Bytes of space that the merge of all runs into the B-tree needs, besides what is free in its file, while no reader
/// holds an older root.
#[must_use]
pub fn btree_merge_needs(trees: &Trees, options: &TableOptions) -> u64 {
    let Some(root) = &trees.btree else { return 0 };
    let (live, slices) = (root.meta().live_bytes(), u64_of(slices_of_tree(trees, options, delta_bytes(trees))));
    let written = delta_puts_bytes(trees) + (live - dead_bytes(trees, SeqNum::MAX)) / slices;
    // More than this part of what is free was given back.
    written.saturating_sub(root.meta().free_bytes.min(live / KEPT_PART))
}

/// In how many slices of keys `bytes` bytes of changes are merged into the B-tree. Each makes a root of its own, and
/// the leaves that it replaced are free for the next. Until the last the changes stay where they are too, so that
/// operands would count twice, and go in at once; where ranges were erased since the last merge, the first one reaches
/// into all of the tree.
#[must_use]
pub fn slices_of_tree(trees: &Trees, options: &TableOptions, bytes: u64) -> usize {
    let Some(root) = &trees.btree else { return 1 };
    if options.merge.is_some()
        || trees.range_tombstones.touch(&[], Bound::Unbounded, (root.meta().clean_to, SeqNum::MAX))
    {
        return 1;
    }
    let bytes = bytes + dead_bytes(trees, SeqNum::MAX);
    let rewritten = root.meta().live_bytes().min(bytes.saturating_mul(LEAVES_REWRITTEN_PER_BYTE));
    usize_of(rewritten / (2 * options.run_bytes_max)).clamp(1, SLICES_MAX)
}

/// About how many bytes of a B-tree the tombstones in the runs over it hide, and range tombstones since the last merge,
/// of those that every snapshot from `oldest` on sees.
fn dead_bytes(trees: &Trees, oldest: SeqNum) -> u64 {
    let Some(root) = &trees.btree else { return 0 };
    let (meta, live) = (root.meta(), root.meta().live_bytes());
    let tombstones = trees.runs().map(|handle| seen_tombstones(&handle, oldest)).sum();
    let erased = match trees.range_tombstones.is_empty() {
        true => 0,
        false => range_deleted_percent(root, &trees.range_tombstones, (meta.clean_to, oldest)),
    };
    part_of(live, (tombstones, meta.entries)).max(part_of(live, (erased, 100)))
}

/// About how many bytes the runs over a B-tree bring into it. Tombstones that are more than the tree has entries hide
/// puts of these runs.
fn delta_puts_bytes(trees: &Trees) -> u64 {
    let runs: Vec<_> = trees.runs().collect();
    let metas = || runs.iter().map(|handle| handle.run.meta());
    let tombstones = metas().map(|meta| meta.tombstones).sum::<u64>();
    let in_tree = trees.btree.as_ref().map_or(0, |root| root.meta().entries);
    let puts = metas().map(|meta| meta.entries - meta.tombstones).sum();
    let bytes = delta_bytes(trees) - metas().map(tombstone_bytes).sum::<u64>();
    bytes - part_of(bytes, (tombstones.saturating_sub(in_tree), puts))
}

/// Bytes of the runs over a B-tree.
pub(super) fn delta_bytes(trees: &Trees) -> u64 {
    trees.runs().map(|handle| handle.run.meta().bytes).sum()
}
