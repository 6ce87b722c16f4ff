//! The one rule for what may be dropped: which versions and tombstones a flush or compaction must still write.
//!
//! # Invariants
//! 1. For every live snapshot, the version of a key that it sees is kept, unless it is a tombstone that hides nothing.
//! 2. A version that no snapshot sees, now or later, is dropped.
//! 3. A tombstone is dropped only when nothing older than it can lie below (`bottom`) and every snapshot sees it.
//! 4. A kept version that every snapshot sees gets seqnum zero: no reader needs to compare it again.

use crate::base::{Entry, Kind, SeqNum};

/// What may be dropped, decided entry by entry over a stream in stored order (key ascending, seqnum descending).
#[derive(Debug)]
pub struct Retain {
    /// Seqnums of live snapshots, ascending; the last one stands for all snapshots to come.
    snapshots: Vec<SeqNum>,
    /// Nothing older than these entries lies in any other tree of the table.
    bottom: bool,
    key: Vec<u8>,
    started: bool,
    /// The index of the oldest snapshot that sees the newest version of `key` met so far, plus one; snapshots from there on are served.
    served_from: usize,
    dropped: u64,
}

impl Retain {
    /// A rule for the given live snapshots (in any order) and the seqnum that new snapshots get at least (`published`).
    #[must_use]
    pub fn new(mut snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> Self {
        snapshots.push(published);
        snapshots.sort_unstable();
        snapshots.dedup();
        Self { snapshots, bottom, key: Vec::new(), started: false, served_from: 0, dropped: 0 }
    }

    /// The seqnum with which `entry` is to be written, or `None` when it may be dropped.
    pub fn keep(&mut self, entry: &Entry<'_>) -> Option<SeqNum> {
        if !self.started || self.key != entry.key {
            self.started = true;
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.served_from = usize::MAX;
        }
        let kept = self.decide(entry);
        self.dropped += u64::from(kept.is_none());
        kept
    }

    fn decide(&mut self, entry: &Entry<'_>) -> Option<SeqNum> {
        // Snapshots from `seen` on see this version unless a newer one serves them.
        let seen = self.snapshots.partition_point(|snapshot| *snapshot < entry.seqnum);
        if seen == self.snapshots.len() {
            // Newer than every snapshot so far: some snapshot to come will see it.
            return Some(entry.seqnum);
        }
        if seen >= self.served_from {
            return None;
        }
        self.served_from = seen;
        if seen > 0 {
            return Some(entry.seqnum);
        }
        if self.bottom && entry.kind == Kind::Delete {
            return None;
        }
        Some(SeqNum::ZERO)
    }

    /// How many entries were dropped so far.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }
}
