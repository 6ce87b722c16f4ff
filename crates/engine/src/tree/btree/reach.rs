//! How many leaves changes reach, which is what a merge of them rewrites; and how much of the tree is erased.

use super::root::TreeRoot;
use crate::base::num::u64_of;
use crate::base::{Result, SeqNum};
use crate::block::{Block, BlockPointer};
use crate::cache::Fill;
use crate::tree::cursor::MergeSource;
use crate::tree::range_tombstone::RangeTombstones;

/// How many leaves a merge of `changes` would rewrite at most: all, when the tree has no more than `most`; when
/// they are more than `most`, any number over it. Only branches are read.
///
/// # Errors
/// When the changes or a branch cannot be read or are corrupt.
pub fn leaves_reached(root: &TreeRoot, changes: &mut dyn MergeSource, most: u64) -> Result<u64> {
    if root.meta.leaves <= most {
        return Ok(root.meta.leaves);
    }
    let (mut reached, mut end) = (0, Vec::new());
    changes.first()?;
    while reached <= most
        && let Some(change) = changes.entry()
    {
        reached += 1;
        if !leaf_end(root, change.key, &mut end)? {
            break;
        }
        changes.seek_ge(&end)?;
    }
    Ok(reached)
}

/// Keys that split the tree into at most `pieces` pieces of about the same size; fewer when it has fewer leaves.
/// Only branches are read.
///
/// # Errors
/// When a branch cannot be read or is corrupt.
pub fn split_keys(root: &TreeRoot, pieces: usize) -> Result<Vec<Vec<u8>>> {
    let Some(pointer) = root.meta.root else { return Ok(Vec::new()) };
    let mut children = vec![(Vec::new(), pointer)];
    for height in (1..=root.meta.height).rev() {
        if children.len() >= pieces {
            break;
        }
        let mut below = Vec::new();
        for (border, pointer) in children {
            let step = root.branch(None, pointer, height, Fill::Keep)?;
            let branch = step.block();
            for i in 0..branch.count() {
                let mut key = border.clone();
                if i > 0 {
                    branch.key_into(i, &mut key);
                }
                below.push((key, root.file.child(branch, i)?));
            }
        }
        children = below;
    }
    let (count, pieces) = (children.len(), pieces.min(children.len()));
    Ok((1..pieces).map(|piece| std::mem::take(&mut children[piece * count / pieces].0)).collect())
}

/// The percent of the tree that range tombstones after `after` and up to `to` cover, as far as its topmost block
/// tells; 0 when it cannot be read: a reader that needs it meets the error.
#[must_use]
pub fn range_deleted_percent(
    root: &TreeRoot,
    range_tombstones: &RangeTombstones,
    (after, to): (SeqNum, SeqNum),
) -> u64 {
    let pointer = root.meta.root.filter(|_| !range_tombstones.is_empty());
    let top = pointer.and_then(|pointer| topmost(root, pointer).ok());
    let Some(top) = top else { return 0 };
    let (mut low, mut high) = (Vec::new(), Vec::new());
    let is_covered = |i: &usize| {
        top.key_into(*i, &mut low);
        top.key_into((*i + 1).min(top.count() - 1), &mut high);
        range_tombstones.cover(&low, &high, (after, to))
    };
    u64_of((0..top.count()).filter(is_covered).count()) * 100 / u64_of(top.count())
}

/// The topmost block, which `pointer` names.
fn topmost(root: &TreeRoot, pointer: BlockPointer) -> Result<Block> {
    match root.meta.height {
        0 => root.file.get(pointer, 0, Fill::Keep),
        height => root.branch(None, pointer, height, Fill::Keep).map(|step| step.block().clone()),
    }
}

/// Makes `end` the border behind the leaf for `key`; false when that is the last one.
fn leaf_end(root: &TreeRoot, key: &[u8], end: &mut Vec<u8>) -> Result<bool> {
    let Some(mut pointer) = root.meta.root else { return Ok(false) };
    let (mut found, mut above) = (false, None);
    for height in (1..=root.meta.height).rev() {
        let step = root.branch(above, pointer, height, Fill::Keep)?;
        let branch = step.block();
        let next = branch.upper_bound(key).max(1);
        if next < branch.count() {
            branch.key_into(next, end);
            found = true;
        }
        pointer = root.file.child(branch, next - 1)?;
        above = step.pinned().map(|kept| (kept, next - 1));
    }
    Ok(found)
}
