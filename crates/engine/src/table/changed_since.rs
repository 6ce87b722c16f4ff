//! What has changed since a snapshot: the look that decides whether a transaction conflicts.

use std::ops::Bound;

use crate::base::{Kind, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::btree::BTreeCursor;
use crate::tree::run::RunCursor;
use crate::tree::{Cursor, Limits, MergeSource};

use super::version::Version;

/// Entries of a range that are read at most; with more of them in the trees that have changed, the range counts as
/// changed.
const LOOKED_AT_MAX: usize = 10_000;

/// Whether `key` has changed after `snapshot`, which is live.
///
/// # Errors
/// When a block cannot be read or is corrupt.
pub fn key_changed(version: &Version, key: &[u8], snapshot: SeqNum) -> Result<bool> {
    Ok(version.floor(key, SeqNum::MAX) > snapshot
        || version.get(key, SeqNum::MAX)?.is_some_and(|found| found.seqnum > snapshot))
}

/// Whether `key` has changed after `snapshot`, which is live, by anything but merges.
///
/// # Errors
/// As [`key_changed`].
pub fn key_changed_but_by_merges(version: &Version, key: &[u8], snapshot: SeqNum) -> Result<bool> {
    if version.floor(key, SeqNum::MAX) > snapshot {
        return Ok(true);
    }
    let mut versions = version.cursor(Fill::Keep, SeqNum::MAX);
    versions.seek_ge(key)?;
    while let Some(entry) = versions.entry().filter(|entry| entry.key == key) {
        // Entries of a bulk load have the seqnum of their run.
        if entry.seqnum.max(versions.seqnum_bounds().smallest) <= snapshot {
            break;
        }
        if entry.kind != Kind::Merge {
            return Ok(true);
        }
        versions.next()?;
    }
    Ok(false)
}

/// Whether any key of `range` has changed after `snapshot`, which is live. It says so too when very many entries of
/// the range lie in trees that have changed.
///
/// # Errors
/// As [`key_changed`].
pub fn range_changed(version: &Version, range: &Limits, snapshot: SeqNum) -> Result<bool> {
    let high = range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let has_expired = version.expired_before(SeqNum::MAX) > snapshot;
    if has_expired || version.range_tombstones.touch(&range.low, high, (snapshot, SeqNum::MAX)) {
        return Ok(true);
    }
    let mut looks = LOOKED_AT_MAX;
    for mem in version.memtables().filter(|mem| mem.sealed_at().is_none_or(|at| at.next_seqnum > snapshot)) {
        if changed_in(&mut *mem.entries.cursor(), range, snapshot, &mut looks)? {
            return Ok(true);
        }
    }
    for handle in version.trees.runs().filter(|handle| handle.run.seqnum_bounds().largest > snapshot) {
        let meta = handle.run.meta();
        let touches = range.low <= meta.largest && !range.end_before(&meta.smallest);
        if touches && changed_in(&mut RunCursor::over(&handle.run, Fill::Keep), range, snapshot, &mut looks)? {
            return Ok(true);
        }
    }
    match version.trees.btree.as_ref().filter(|root| root.seqnum_bounds().largest > snapshot) {
        Some(root) => changed_in(&mut BTreeCursor::over(root, Fill::Keep), range, snapshot, &mut looks),
        None => Ok(false),
    }
}

/// Whether a tree has an entry in `range` that is newer than `snapshot`; or more than are to be looked at.
fn changed_in(tree: &mut dyn MergeSource, range: &Limits, snapshot: SeqNum, looks: &mut usize) -> Result<bool> {
    tree.seek_ge(&range.low)?;
    while let Some(entry) = tree.entry().filter(|entry| !range.end_before(entry.key)) {
        if *looks == 0 || entry.seqnum.max(tree.seqnum_bounds().smallest) > snapshot {
            return Ok(true);
        }
        *looks -= 1;
        tree.next()?;
    }
    Ok(false)
}
