//! What has changed since a snapshot: the look that decides whether a transaction conflicts.

use std::ops::Bound;

use crate::base::{Kind, Result, SeqNum};
use crate::cache::Fill;
use crate::tree::{Cursor, Limits, MergeSource};

use super::version::Version;

/// Entries of a range that are read at most; with more of them in the trees that have changed, the range counts as
/// changed.
const LOOKED_AT_MAX: usize = 10_000;

impl Version {
    /// Whether `key` has changed after `snapshot`, which is live.
    ///
    /// # Errors
    /// When a block cannot be read or is corrupt.
    pub fn changed(&self, key: &[u8], snapshot: SeqNum) -> Result<bool> {
        Ok(self.floor(key, SeqNum::MAX) > snapshot
            || self.get(key, SeqNum::MAX)?.is_some_and(|found| found.seqnum > snapshot))
    }

    /// Whether any key of `range` has changed after `snapshot`, which is live. It says so too when very many entries of
    /// the range lie in trees that have changed.
    ///
    /// # Errors
    /// As [`Self::changed`].
    pub fn range_changed(&self, range: &Limits, snapshot: SeqNum) -> Result<bool> {
        let high = range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let has_expired = self.expired_before(SeqNum::MAX) > snapshot;
        if has_expired || self.range_tombstones.touch(&range.low, high, (snapshot, SeqNum::MAX)) {
            return Ok(true);
        }
        let mut looks = LOOKED_AT_MAX;
        for mem in self.memtables().filter(|mem| mem.frozen_at().is_none_or(|at| at.next_seqnum > snapshot)) {
            if changed_in(&mut *mem.entries.cursor(), range, snapshot, &mut looks)? {
                return Ok(true);
            }
        }
        for handle in self.trees.runs().filter(|handle| handle.run.seqnum_bounds().largest > snapshot) {
            let meta = handle.run.meta();
            let touches = range.low <= meta.largest && !range.end_before(&meta.smallest);
            if touches && changed_in(&mut handle.run.cursor(Fill::Keep), range, snapshot, &mut looks)? {
                return Ok(true);
            }
        }
        match self.trees.btree.as_ref().filter(|root| root.seqnum_bounds().largest > snapshot) {
            Some(root) => changed_in(&mut root.cursor(Fill::Keep), range, snapshot, &mut looks),
            None => Ok(false),
        }
    }
}

/// Whether `key` has changed after `snapshot`, which is live, by anything but merges.
///
/// # Errors
/// As [`Version::changed`].
pub fn changed_but_by_merges(version: &Version, key: &[u8], snapshot: SeqNum) -> Result<bool> {
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
