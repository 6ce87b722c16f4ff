//! The live snapshots: what versions must be kept for.
//!
//! # Invariants
//! 1. A snapshot is registered under the latch under which [`Snapshots::live`] looks, with a seqnum published by then:
//!    a flush or compaction that does not know a snapshot started before it, and keeps all that snapshots from then on
//!    may see.
//! 2. `live` ascends: what is published does.

use crate::base::sync::{AtomicU64, Mutex};
use std::sync::atomic::Ordering;

use crate::base::SeqNum;

/// The registry of live snapshots, and the newest seqnum that new ones get.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// How many snapshots are live at each seqnum, ascending. Nearly all come and go at the end.
    live: Mutex<Vec<(SeqNum, usize)>>,
    /// All changes up to here are complete in the memtables and as durable as they promised. Published by the publisher
    /// with `Release`; readers load it with `Acquire` and then find those changes.
    published: AtomicU64,
}

impl Snapshots {
    /// Registers a snapshot of all that is published; undo with [`Self::release`].
    pub fn take(&self) -> SeqNum {
        let mut live = self.live.lock();
        let seqnum = self.published();
        match live.last_mut() {
            Some((newest, count)) if *newest == seqnum => *count += 1,
            _ => live.push((seqnum, 1)),
        }
        seqnum
    }

    /// Registers another snapshot like a live one.
    ///
    /// # Panics
    /// When no snapshot of that seqnum is live.
    pub fn take_again(&self, seqnum: SeqNum) {
        let mut live = self.live.lock();
        let at = live.binary_search_by_key(&seqnum, |(live, _)| *live).expect("there is a live one");
        live[at].1 += 1;
    }

    /// Forgets a snapshot that [`Self::take`] gave. Says whether it was the oldest, and none like it is left.
    ///
    /// # Panics
    /// When it was released before.
    pub fn release(&self, seqnum: SeqNum) -> bool {
        let mut live = self.live.lock();
        let at = live.binary_search_by_key(&seqnum, |(live, _)| *live).expect("a snapshot is released once");
        live[at].1 -= 1;
        if live[at].1 > 0 {
            return false;
        }
        live.remove(at);
        at == 0
    }

    /// The seqnums of live snapshots, ascending, and the least seqnum that later ones get.
    #[must_use]
    pub fn live(&self) -> (Vec<SeqNum>, SeqNum) {
        let live = self.live.lock();
        (live.iter().map(|(seqnum, _)| *seqnum).collect(), self.published())
    }

    /// How many snapshots are live.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.lock().iter().map(|(_, count)| count).sum()
    }

    /// The newest published seqnum.
    #[must_use]
    pub fn published(&self) -> SeqNum {
        SeqNum(self.published.load(Ordering::Acquire))
    }

    /// Publishes all changes up to `seqnum`. Only the publisher calls this, with ascending seqnums.
    ///
    /// # Panics
    /// When `seqnum` is below one that was published.
    pub fn publish(&self, seqnum: SeqNum) {
        assert!(self.published() <= seqnum, "changes are published in their order");
        self.published.store(seqnum.0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_says_whether_it_was_the_last_of_the_oldest() {
        let snapshots = Snapshots::default();
        let taken = [1, 2, 2, 3].map(|seqnum| {
            snapshots.publish(SeqNum(seqnum));
            snapshots.take()
        });
        assert_eq!(taken, [1, 2, 2, 3].map(SeqNum));
        assert_eq!(snapshots.live(), (vec![SeqNum(1), SeqNum(2), SeqNum(3)], SeqNum(3)));
        assert_eq!(snapshots.count(), 4);
        assert!(!snapshots.release(SeqNum(2)), "there is another");
        assert!(!snapshots.release(SeqNum(2)), "one is older");
        assert!(snapshots.release(SeqNum(1)));
        assert_eq!(snapshots.live(), (vec![SeqNum(3)], SeqNum(3)));
        assert!(snapshots.release(SeqNum(3)));
        assert_eq!(snapshots.count(), 0);
    }
}
