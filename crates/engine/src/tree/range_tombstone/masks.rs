//! What range tombstones hide from one reader.

use std::sync::Arc;

use super::layers::TombstoneLayers;
use super::set::RangeTombstones;
use crate::base::SeqNum;

/// Segments that a seek past hidden entries skips at most: where a cursor cannot go as far, they are looked at
/// in vain.
const LEAP_MAX: usize = 64;

/// Sets of range tombstones, each as it is seen by a snapshot, and a seqnum before which nothing is seen at all.
#[derive(Clone, Debug, Default)]
pub struct Masks {
    sets: Vec<(Arc<RangeTombstones>, SeqNum)>,
    before: SeqNum,
}

impl TombstoneLayers {
    /// What they hide from `snapshot`.
    #[must_use]
    pub fn hiding(&self, snapshot: SeqNum) -> Masks {
        Masks::default().and(self, snapshot)
    }
}

impl Masks {
    /// Hides also what range tombstones hide from `snapshot`.
    #[must_use]
    pub fn and(mut self, layers: &TombstoneLayers, snapshot: SeqNum) -> Self {
        self.sets.extend(layers.sets().map(|set| (Arc::clone(set), snapshot)));
        self
    }

    /// Hides also all before a seqnum.
    #[must_use]
    pub fn before(self, seqnum: SeqNum) -> Self {
        Self { before: self.before.max(seqnum), ..self }
    }

    /// How many sets there are.
    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }
}

/// Keys between two borders, of which all have the same floor.
#[derive(Debug, Default)]
pub(super) struct MaskFragment {
    is_found: bool,
    /// In which segment of each set.
    segments: Vec<usize>,
    /// In which set the stretch begins and ends; none where it goes on to the first or the last key.
    start: Option<usize>,
    end: Option<usize>,
    /// In which set the floor is, if it is in one.
    covered_by: Option<usize>,
    floor: SeqNum,
}

impl MaskFragment {
    /// The seqnum below which nothing is seen here.
    pub(super) fn floor(&self) -> SeqNum {
        self.floor
    }

    /// Goes to the stretch that `key` lies in; false when it was there.
    #[inline]
    pub(super) fn go(&mut self, hiding: &Masks, key: &[u8]) -> bool {
        if self.is_found && self.holds(hiding, key) {
            return false;
        }
        self.find(hiding, key);
        true
    }

    #[inline]
    fn holds(&self, hiding: &Masks, key: &[u8]) -> bool {
        let end = self.end.and_then(|at| hiding.sets[at].0.end(self.segments[at]));
        let start = self.start.and_then(|at| hiding.sets[at].0.start(self.segments[at]));
        end.is_none_or(|end| key < end) && start.is_none_or(|start| start <= key)
    }

    fn find(&mut self, hiding: &Masks, key: &[u8]) {
        self.is_found = true;
        self.segments.resize(hiding.sets.len(), 0);
        (self.start, self.end, self.covered_by, self.floor) = (None, None, None, hiding.before);
        let (mut latest, mut soonest): (Option<&[u8]>, Option<&[u8]>) = (None, None);
        for (at, (set, snapshot)) in hiding.sets.iter().enumerate() {
            let segment = set.segment_near(self.segments[at], key);
            self.segments[at] = segment;
            let floor = set.floor_of(segment, *snapshot);
            if floor > self.floor {
                (self.floor, self.covered_by) = (floor, Some(at));
            }
            let (start, end) = (set.start(segment), set.end(segment));
            if start > latest {
                (latest, self.start) = (start, Some(at));
            }
            if end.is_some() && soonest.is_none_or(|soonest| end < Some(soonest)) {
                (soonest, self.end) = (end, Some(at));
            }
        }
    }

    /// The key from which on, after this stretch, entries may be seen that are not newer than `newest`, which is below
    /// the floor here.
    pub(super) fn beyond<'h>(&self, hiding: &'h Masks, newest: SeqNum) -> Option<&'h [u8]> {
        let at = self.covered_by?;
        let (set, snapshot) = &hiding.sets[at];
        let (here, most) = (self.segments[at], set.segments() - 1);
        let is_hidden = |segment: &usize| set.floor_of(*segment, *snapshot) > newest;
        set.end((here + 1..=most.min(here + LEAP_MAX)).take_while(is_hidden).last().unwrap_or(here))
    }

    /// The key before which, before this stretch, entries may be seen that are not newer than `newest`, which is below
    /// the floor here.
    pub(super) fn before<'h>(&self, hiding: &'h Masks, newest: SeqNum) -> Option<&'h [u8]> {
        let at = self.covered_by?;
        let (set, snapshot) = &hiding.sets[at];
        let here = self.segments[at];
        let is_hidden = |segment: &usize| set.floor_of(*segment, *snapshot) > newest;
        set.start((here.saturating_sub(LEAP_MAX)..here).rev().take_while(is_hidden).last().unwrap_or(here))
    }
}
