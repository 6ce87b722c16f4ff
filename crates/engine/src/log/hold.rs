//! Holds: segments that are kept for readers of the log, though no recovery needs them any more.

use super::segment::Live;
use crate::base::Lsn;
use std::collections::BTreeMap;

/// Names a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HoldId(u64);

/// A reader's hold.
#[derive(Debug)]
struct Hold {
    /// Everything that ends after it is held.
    position: Lsn,
    /// It is given up when it alone keeps more than so many bytes.
    bytes_max: u64,
}

/// The holds on a log. A hold that was given up is not among them any more.
#[derive(Debug, Default)]
pub(super) struct Holds {
    holds: BTreeMap<HoldId, Hold>,
    next: u64,
    /// No recovery needs the log before it.
    pub(super) released: Lsn,
}

impl Holds {
    /// Holds everything that ends after `position`.
    pub(super) fn add(&mut self, position: Lsn, bytes_max: u64) -> HoldId {
        let id = HoldId(self.next);
        self.next += 1;
        self.holds.insert(id, Hold { position, bytes_max });
        id
    }

    /// Moves a hold forward; false when it was given up.
    pub(super) fn advance(&mut self, id: HoldId, position: Lsn) -> bool {
        self.holds.get_mut(&id).map(|hold| hold.position = hold.position.max(position)).is_some()
    }

    /// Ends a hold.
    pub(super) fn remove(&mut self, id: HoldId) {
        self.holds.remove(&id);
    }

    /// How many of the segments in front, of which the first `free` are needed by no recovery, nobody holds. Gives up
    /// holds that keep more than they may.
    pub(super) fn free(&mut self, live: &[Live], free: usize) -> usize {
        let first = |hold: &Hold| needed_from(live, hold.position).min(free);
        let kept = |hold: &Hold| live[first(hold)..free].iter().map(|live| live.header.bytes).sum::<u64>();
        self.holds.retain(|_, hold| kept(hold) <= hold.bytes_max);
        self.holds.values().map(first).min().unwrap_or(free)
    }
}

/// The index of the first segment that holds anything at or after `position`. (There is always a last segment.)
pub(super) fn needed_from(live: &[Live], position: Lsn) -> usize {
    live.windows(2).position(|pair| pair[1].header.previous_end > position).unwrap_or(live.len() - 1)
}
