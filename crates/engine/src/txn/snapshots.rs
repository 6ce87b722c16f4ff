//! The live snapshots: what versions must be kept for.
//!
//! # Invariants
//! 1. A snapshot is registered under the latch under which [`Snapshots::live`] looks, with a seqnum published by then:
//!    a flush or compaction that does not know a snapshot started before it, and keeps all that snapshots from then on
//!    may see.
//! 2. The seqnums of live snapshots ascend.
//! 3. While a history is kept from a seqnum, a snapshot of that seqnum is live, and flushes and compactions are told
//!    that snapshots to come may see any seqnum from there on. A history begins at what is published by then, so a job
//!    that started before keeps what it needs.

use crate::base::sync::{AtomicU64, Mutex};
use std::sync::atomic::Ordering;

use crate::base::SeqNum;

/// The registry of live snapshots, and the newest seqnum that new ones get.
#[derive(Debug, Default)]
pub struct Snapshots {
    live: Mutex<Live>,
    /// All changes up to here are complete in the memtables and as durable as they promised. Published by the publisher
    /// with `Release`; readers load it with `Acquire` and then find those changes.
    published: AtomicU64,
}

#[derive(Debug, Default)]
struct Live {
    /// How many snapshots are live at each seqnum, ascending. Nearly all come and go at the end.
    snapshots: Vec<(SeqNum, usize)>,
    /// From where on all versions are kept, of each history.
    histories: Vec<SeqNum>,
}

impl Snapshots {
    /// Registers a snapshot of all that is published; undo with [`Self::release`].
    pub fn take(&self) -> SeqNum {
        let mut live = self.live.lock();
        let seqnum = self.published();
        live.add(seqnum);
        seqnum
    }

    /// Registers a snapshot of all up to a seqnum, if that is published and within a history; whether it did.
    pub fn take_at(&self, seqnum: SeqNum) -> bool {
        let mut live = self.live.lock();
        let is_kept = live.histories.iter().any(|from| *from <= seqnum) && seqnum <= self.published();
        if is_kept {
            live.add(seqnum);
        }
        is_kept
    }

    /// Keeps all versions from a live snapshot of all that is published on. The latch is held from the look at what is
    /// published.
    pub fn begin_history(&self) -> SeqNum {
        let mut live = self.live.lock();
        let from = self.published();
        live.add(from);
        live.histories.push(from);
        from
    }

    /// A history begins at another live snapshot, or ends.
    ///
    /// # Panics
    /// When there is none from `from` on.
    pub fn move_history(&self, from: SeqNum, to: Option<SeqNum>) {
        let mut live = self.live.lock();
        let at = live.histories.iter().position(|known| *known == from).expect("a history ends once");
        live.histories.swap_remove(at);
        live.histories.extend(to);
    }

    /// Registers another snapshot like a live one.
    ///
    /// # Panics
    /// When no snapshot of that seqnum is live.
    pub fn take_again(&self, seqnum: SeqNum) {
        let live = &mut self.live.lock().snapshots;
        let at = live.binary_search_by_key(&seqnum, |(live, _)| *live).expect("there is a live one");
        live[at].1 += 1;
    }

    /// Forgets a snapshot that was registered. Says whether it was the oldest, and none like it is left.
    ///
    /// # Panics
    /// When it was released before.
    pub fn release(&self, seqnum: SeqNum) -> bool {
        let live = &mut self.live.lock().snapshots;
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
        let published = self.published();
        let least = live.histories.iter().fold(published, |least, from| least.min(*from));
        (live.snapshots.iter().map(|(seqnum, _)| *seqnum).collect(), least)
    }

    /// How many snapshots are live.
    #[must_use]
    pub fn count(&self) -> usize {
        self.live.lock().snapshots.iter().map(|(_, count)| count).sum()
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

impl Live {
    fn add(&mut self, seqnum: SeqNum) {
        match self.snapshots.last_mut() {
            Some((newest, count)) if *newest == seqnum => *count += 1,
            Some((newest, _)) if *newest > seqnum => self.add_earlier(seqnum),
            _ => self.snapshots.push((seqnum, 1)),
        }
    }

    fn add_earlier(&mut self, seqnum: SeqNum) {
        match self.snapshots.binary_search_by_key(&seqnum, |(live, _)| *live) {
            Ok(at) => self.snapshots[at].1 += 1,
            Err(at) => self.snapshots.insert(at, (seqnum, 1)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_keeps_what_snapshots_from_its_begin_on_may_see() {
        let snapshots = Snapshots::default();
        snapshots.publish(SeqNum(3));
        assert!(!snapshots.take_at(SeqNum(3)), "there is no history");
        let from = snapshots.begin_history();
        snapshots.publish(SeqNum(9));
        assert_eq!(snapshots.live(), (vec![SeqNum(3)], SeqNum(3)), "later ones may see any seqnum from there on");
        assert_eq!([2, 6, 10].map(|seqnum| snapshots.take_at(SeqNum(seqnum))), [false, true, false]);
        assert_eq!(snapshots.take(), SeqNum(9));
        assert_eq!(snapshots.live(), ([3, 6, 9].map(SeqNum).to_vec(), SeqNum(3)));
        snapshots.move_history(from, Some(SeqNum(6)));
        assert!(snapshots.release(from));
        assert_eq!((snapshots.take_at(SeqNum(5)), snapshots.live().1), (false, SeqNum(6)));
        snapshots.move_history(SeqNum(6), None);
        assert_eq!(snapshots.live(), (vec![SeqNum(6), SeqNum(9)], SeqNum(9)));
    }

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
