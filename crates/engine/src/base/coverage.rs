//! Rare events that tests must have reached: a suite that never met a torn tail or a reused extent says nothing about
//! them.
//!
//! # Concurrency
//! Each event is a bit of one word of the process. It publishes nothing but itself, and is written once, so that a
//! thread that meets an event often only reads a word that no thread changes.

use std::sync::atomic::{AtomicU32, Ordering};

static REACHED: AtomicU32 = AtomicU32::new(0);

/// A rare event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoveragePoint {
    /// The log ended at what claims to be a record and is not.
    TornTail,
    /// A tombstone was dropped while a snapshot was open.
    TombstoneDropped,
    /// A run grew over its size because the versions of a key must not be parted.
    KeyKeptWhole,
    /// The versions of a key were parted by a border between two leaves of a B-tree.
    KeyParted,
    /// The database was poisoned.
    Poison,
    /// Space of a B-tree's file was given out that an older root had used.
    ExtentReused,
    /// A log segment was kept to be used again.
    SegmentRecycled,
    /// Parked runs went into their B-tree.
    BTreeMerged,
    /// Runs went to another level without being read.
    TrivialMove,
    /// A part of a compaction took the place of inputs while it went on.
    Slice,
    /// A part of a merge into a B-tree was put in place while it went on.
    TreeSlice,
    /// A range tombstone was left out because no snapshot and no tree needs it any more.
    RangeTombstoneRetired,
    /// A commit was refused because another came first.
    Conflict,
    /// A block was not what had been written there.
    CorruptBlock,
    /// A sorted view of trees was shown to readers.
    View,
    /// Trees were merged by a read-triggered compaction.
    ReadTriggeredMerge,
    /// A flush met a full disk and left everything as it was.
    FlushWithoutRoom,
    /// A merge took a leaf over as it was.
    LeafReused,
    /// A batch became a memtable of its own.
    Bypass,
}

impl CoveragePoint {
    /// Every event.
    pub const EVERY: [Self; 19] = [
        Self::TornTail,
        Self::TombstoneDropped,
        Self::KeyKeptWhole,
        Self::KeyParted,
        Self::Poison,
        Self::ExtentReused,
        Self::SegmentRecycled,
        Self::BTreeMerged,
        Self::TrivialMove,
        Self::Slice,
        Self::TreeSlice,
        Self::RangeTombstoneRetired,
        Self::Conflict,
        Self::CorruptBlock,
        Self::View,
        Self::ReadTriggeredMerge,
        Self::FlushWithoutRoom,
        Self::LeafReused,
        Self::Bypass,
    ];

    /// Notes that this was reached.
    #[inline]
    pub(crate) fn mark(self) {
        if !self.is_reached() {
            REACHED.fetch_or(1 << self as u32, Ordering::Relaxed);
        }
    }

    /// Whether this process has reached it.
    #[must_use]
    pub fn is_reached(self) -> bool {
        REACHED.load(Ordering::Relaxed) & (1 << self as u32) != 0
    }
}
