//! Conflict detection: a filter that says "no commit changed this key since that snapshot" without reading the data.
//!
//! Each slot holds the newest seqnum given to any key that hashes to it. Merges that commute have slots of their own,
//! and conflict with what is in the others only. A transaction whose keys' slots are all no newer than its snapshot
//! cannot conflict. A newer slot only says "perhaps": the commit path then looks the key up. So it does for snapshots
//! that are older than a change that was not noted, as none is while no transaction is open: a slot is a cache miss.

use crate::base::checksum::hash_key;
use crate::base::num::usize_of;
use crate::base::{SeqNum, TableId};

/// 64 Ki slots of 8 bytes fit the second-level cache.
const SLOTS: usize = 1 << 16;

/// The newest change by hash of table and key. Guarded by the commit latch.
#[derive(Debug)]
pub struct RecentWrites {
    slots: Box<[SeqNum]>,
    /// The same of merges that commute; empty before the first.
    merges: Vec<SeqNum>,
    /// The newest change that was not noted.
    skipped: SeqNum,
}

impl Default for RecentWrites {
    fn default() -> Self {
        let slots = vec![SeqNum::ZERO; SLOTS].into_boxed_slice();
        Self { slots, merges: Vec::new(), skipped: SeqNum::ZERO }
    }
}

impl RecentWrites {
    fn slot(table: TableId, key: &[u8]) -> usize {
        let mixed = hash_key(key) ^ u64::from(table.0).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize_of(mixed >> 48)
    }

    /// Notes a change of `key`. Seqnums ascend from call to call.
    pub fn note(&mut self, table: TableId, key: &[u8], seqnum: SeqNum) {
        self.slots[Self::slot(table, key)] = seqnum;
    }

    /// Notes a merge into `key` that commutes with other merges. Seqnums ascend from call to call.
    pub fn note_merge(&mut self, table: TableId, key: &[u8], seqnum: SeqNum) {
        self.merges.resize(SLOTS, SeqNum::ZERO);
        self.merges[Self::slot(table, key)] = seqnum;
    }

    /// Leaves the changes up to `last` out, which is cheaper now and dearer for every transaction that has begun
    /// before.
    pub fn skip(&mut self, last: SeqNum) {
        self.skipped = last;
    }

    /// Whether `key` may have changed after `snapshot`; never false when it has.
    #[must_use]
    pub fn may_have_changed(&self, table: TableId, key: &[u8], snapshot: SeqNum) -> bool {
        let slot = Self::slot(table, key);
        self.skipped > snapshot
            || self.slots[slot] > snapshot
            || self.merges.get(slot).is_some_and(|seqnum| *seqnum > snapshot)
    }

    /// As [`Self::may_have_changed`], but for merges that commute.
    #[must_use]
    pub fn may_have_changed_otherwise(&self, table: TableId, key: &[u8], snapshot: SeqNum) -> bool {
        self.skipped > snapshot || self.slots[Self::slot(table, key)] > snapshot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_was_noted_or_skipped_may_have_changed_its_key() {
        let mut recent = RecentWrites::default();
        let changed =
            |recent: &RecentWrites, key: &[u8], snapshot| recent.may_have_changed(TableId(1), key, SeqNum(snapshot));
        recent.note(TableId(1), b"noted", SeqNum(5));
        assert!(changed(&recent, b"noted", 4) && !changed(&recent, b"noted", 5) && !changed(&recent, b"other", 4));
        recent.skip(SeqNum(7));
        assert!(changed(&recent, b"other", 6) && !changed(&recent, b"other", 7));
    }

    #[test]
    fn merges_that_commute_change_a_key_for_all_but_each_other() {
        let mut recent = RecentWrites::default();
        recent.note_merge(TableId(1), b"k", SeqNum(5));
        let (key, at) = ((TableId(1), b"k"), SeqNum(4));
        assert!(recent.may_have_changed(key.0, key.1, at) && !recent.may_have_changed_otherwise(key.0, key.1, at));
        recent.note(TableId(1), b"k", SeqNum(6));
        assert!(recent.may_have_changed_otherwise(key.0, key.1, at));
    }
}
