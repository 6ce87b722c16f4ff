//! What a transaction has locked.

use std::time::Duration;

use crate::base::{Error, ErrorKind, Result};
use crate::txn::locks::{Owner, Patience, Target};

use super::handle::DatabaseHandle;

/// For so long a transaction waits for a lock, unless [`Transaction::set_lock_wait`] says otherwise.
const LOCK_WAIT: Duration = Duration::from_secs(5);

/// How long a wait goes on without a question to the program whether it is to.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// How a transaction waits for a lock.
#[derive(Clone, Copy, Debug)]
pub(super) struct LockWait {
    pub(super) limit: Duration,
    /// Says whether the wait goes on.
    pub(super) check: Option<fn() -> bool>,
}

impl Default for LockWait {
    fn default() -> Self {
        Self { limit: LOCK_WAIT, check: None }
    }
}

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
    pub(super) fn lock_all(&mut self, mut targets: Vec<Target>, wait: LockWait) -> Result<()> {
        let free = self.db.core().commits.locks.lock_free(self.owner, &targets);
        let others = targets.split_off(free);
        self.targets.append(&mut targets);
        others.into_iter().try_for_each(|target| self.lock(target, wait))
    }

    pub(super) fn lock(&mut self, target: Target, wait: LockWait) -> Result<()> {
        let core = self.db.core();
        let patience = Patience { limit: wait.limit, nap: wait.check.map_or(Duration::MAX, |_| CHECK_EVERY) };
        let goes_on = || {
            core.state.health.check_open()?;
            if wait.check.is_none_or(|check| check()) { Ok(()) } else { Err(ended()) }
        };
        core.commits.locks.lock(self.owner, &target, (&core.state.env, patience), goes_on)?;
        self.targets.push(target);
        Ok(())
    }
}

#[cold]
fn ended() -> Error {
    Error::new(ErrorKind::Timeout, "the program has ended the wait for a lock that another transaction holds")
}

impl Drop for RowLocks {
    fn drop(&mut self) {
        let core = self.db.core();
        if !core.state.health.is_forked() {
            core.commits.locks.release(self.owner, &self.targets);
        }
    }
}
