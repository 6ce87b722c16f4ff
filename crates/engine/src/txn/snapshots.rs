//! The live snapshots: what versions must be kept for.
//!
//! # Invariants
//! 1. A snapshot is registered under the latch under which [`Snapshots::live`] looks, with a seqnum published by then: a flush or
//!    compaction that does not know a snapshot started before it, and keeps all that snapshots from then on may see.

use crate::base::sync::{AtomicU64, Mutex};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use crate::base::SeqNum;

/// The registry of live snapshots, and the newest seqnum that new ones get.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// How many snapshots are live at each seqnum.
    live: Mutex<BTreeMap<SeqNum, usize>>,
    /// All changes up to here are complete in the memtables and as durable as they promised. Published by the publisher with
    /// `Release` to readers, who `Acquire` it and then find those changes.
    published: AtomicU64,
}

impl Snapshots {
    /// Registers a snapshot of all that is published; undo with [`Self::release`].
    pub fn take(&self) -> SeqNum {
        let mut live = self.live.lock();
        let seqnum = self.published();
        *live.entry(seqnum).or_insert(0) += 1;
        seqnum
    }

    /// Forgets a snapshot that [`Self::take`] gave. Says whether it was the oldest, and none like it is left.
    ///
    /// # Panics
    /// When it was released before.
    pub fn release(&self, seqnum: SeqNum) -> bool {
        let mut live = self.live.lock();
        let count = live.get_mut(&seqnum).expect("a snapshot is released once");
        *count -= 1;
        if *count > 0 {
            return false;
        }
        live.remove(&seqnum);
        live.first_key_value().is_none_or(|(oldest, _)| *oldest > seqnum)
    }

    /// The seqnums of live snapshots, ascending, and the least seqnum that later ones get.
    #[must_use]
    pub fn live(&self) -> (Vec<SeqNum>, SeqNum) {
        let live = self.live.lock();
        (live.keys().copied().collect(), self.published())
    }

    /// How many snapshots are live.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.lock().values().sum()
    }

    /// The newest published seqnum.
    #[must_use]
    pub fn published(&self) -> SeqNum {
        SeqNum(self.published.load(Ordering::Acquire))
    }

    /// Publishes all changes up to `seqnum`. Only the publisher calls this, with ascending seqnums.
    pub fn publish(&self, seqnum: SeqNum) {
        debug_assert!(self.published() <= seqnum);
        self.published.store(seqnum.0, Ordering::Release);
    }
}
