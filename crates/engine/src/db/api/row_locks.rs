//! What a transaction has locked.

use std::time::Duration;

use crate::base::Result;
use crate::txn::locks::{Owner, Target};

use super::handle::DatabaseHandle;

/// For so long a transaction waits for a lock, unless [`Transaction::set_lock_wait`] says otherwise.
pub(super) const LOCK_WAIT: Duration = Duration::from_secs(5);

/// What a transaction has locked; all is released when this is dropped.
#[derive(Debug)]
pub(super) struct RowLocks {
    db: DatabaseHandle,
    owner: Owner,
    targets: Vec<Target>,
}

impl RowLocks {
    pub(super) fn new(db: &DatabaseHandle) -> Self {
        Self { db: db.clone(), owner: db.core().commits.locks.owner(), targets: Vec::new() }
    }

    /// Locks targets in their order.
    pub(super) fn lock_all(&mut self, mut targets: Vec<Target>, limit: Duration) -> Result<()> {
        let free = self.db.core().commits.locks.lock_free(self.owner, &targets);
        let others = targets.split_off(free);
        self.targets.append(&mut targets);
        others.into_iter().try_for_each(|target| self.lock(target, limit))
    }

    pub(super) fn lock(&mut self, target: Target, limit: Duration) -> Result<()> {
        let core = self.db.core();
        let goes_on = || core.state.health.check_open();
        core.commits.locks.lock(self.owner, &target, (&core.state.env, limit), goes_on)?;
        self.targets.push(target);
        Ok(())
    }
}

impl Drop for RowLocks {
    fn drop(&mut self) {
        let core = self.db.core();
        if !core.state.health.is_forked() {
            core.commits.locks.release(self.owner, &self.targets);
        }
    }
}
