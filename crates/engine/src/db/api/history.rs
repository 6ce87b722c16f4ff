//! What was overwritten of late, kept so that snapshots of earlier moments can be taken.

use crate::base::SeqNum;

use super::handle::DatabaseHandle;
use super::snapshot::Snapshot;

/// All versions from a moment on, of all tables: see
/// [`Database::keep_history`](crate::Database::keep_history). It costs the space of all that is overwritten, until
/// [`Self::forget_before`]; dropping it lets all be reclaimed.
#[derive(Debug)]
pub struct History {
    oldest: Snapshot,
}

impl History {
    pub(super) fn new(db: DatabaseHandle) -> Self {
        let core = db.core();
        // As with a snapshot: the latch is not taken in a forked process.
        let from = if core.state.health.is_forked() { SeqNum::ZERO } else { core.state.snapshots.begin_history() };
        Self { oldest: Snapshot::registered(db, from) }
    }

    /// The oldest seqnum of which a snapshot can be taken.
    #[must_use]
    pub fn oldest(&self) -> SeqNum {
        self.oldest.seqnum()
    }

    /// A view of all tables with the changes up to a seqnum, such as that of an earlier snapshot; nothing when it is
    /// before the history, or not visible to readers yet.
    #[must_use]
    pub fn snapshot_at(&self, seqnum: SeqNum) -> Option<Snapshot> {
        let db = self.oldest.db();
        let core = db.core();
        let is_kept = !core.state.health.is_forked() && self.oldest() <= seqnum && core.state.snapshots.take_at(seqnum);
        is_kept.then(|| Snapshot::registered(db.clone(), seqnum))
    }

    /// Lets go of what is older than a seqnum, of which a snapshot can still be taken. One that is before the history,
    /// or not visible yet, changes nothing.
    pub fn forget_before(&mut self, seqnum: SeqNum) {
        if let Some(oldest) = self.snapshot_at(seqnum) {
            self.oldest.db().core().state.snapshots.move_history(self.oldest(), Some(seqnum));
            self.oldest = oldest;
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        let core = self.oldest.db().core();
        if !core.state.health.is_forked() {
            // The snapshot is released behind it, and wakes the compactions.
            core.state.snapshots.move_history(self.oldest(), None);
        }
    }
}
