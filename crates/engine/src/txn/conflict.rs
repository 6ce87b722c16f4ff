//! Conflict detection: a filter that says "no commit changed this key since that snapshot" without reading the data.
//!
//! Each slot holds the newest seqnum given to any key that hashes to it. A transaction whose keys' slots are all no
//! newer than its snapshot cannot conflict. A newer slot only says "perhaps": the commit path then looks the key up. So
//! it does for snapshots that are older than a change that was not noted, as none is while no transaction is open: a
//! slot is a cache miss.

use crate::base::checksum::hash_key;
use crate::base::num::usize_of;
use crate::base::{SeqNum, TableId};

/// 64 Ki slots of 8 bytes fit the second-level cache.
const SLOTS: usize = 1 << 16;

/// The newest change by hash of table and key. Guarded by the commit latch.
#[derive(Debug)]
pub struct RecentWrites {
    slots: Box<[SeqNum]>,
    /// The newest change that was not noted.
    skipped: SeqNum,
}

impl Default for RecentWrites {
    fn default() -> Self {
        Self { slots: vec![SeqNum::ZERO; SLOTS].into_boxed_slice(), skipped: SeqNum::ZERO }
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

    /// Leaves the changes up to `last` out, which is cheaper now and dearer for every transaction that has begun
    /// before.
    pub fn skip(&mut self, last: SeqNum) {
        self.skipped = last;
    }

    /// Whether `key` may have changed after `snapshot`; never false when it has.
    #[must_use]
    pub fn may_have_changed(&self, table: TableId, key: &[u8], snapshot: SeqNum) -> bool {
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
}
