//! Conflict detection: a filter that says "nobody changed this key since that snapshot" without looking at the data.
//!
//! Each slot holds the newest seqnum given to any key that hashes to it. A transaction whose keys' slots are all no newer than its
//! snapshot cannot conflict. A newer slot only says "perhaps": the commit path then looks the key up.

use crate::base::checksum::hash_key;
use crate::base::num::usize_of;
use crate::base::{SeqNum, TableId};

/// 64 Ki slots of 8 bytes fit the second-level cache.
const SLOTS: usize = 1 << 16;

/// The newest change by hash of table and key. Guarded by the commit latch.
#[derive(Debug)]
pub struct RecentWrites {
    slots: Box<[SeqNum]>,
}

impl Default for RecentWrites {
    fn default() -> Self {
        Self { slots: vec![SeqNum::ZERO; SLOTS].into_boxed_slice() }
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

    /// Whether `key` may have changed after `snapshot`; never false when it has.
    #[must_use]
    pub fn may_have_changed(&self, table: TableId, key: &[u8], snapshot: SeqNum) -> bool {
        self.slots[Self::slot(table, key)] > snapshot
    }
}
