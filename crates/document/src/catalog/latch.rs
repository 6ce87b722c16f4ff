//! The lock of a collection: transactions that write to the collection share it, and a change of its schema has it
//! alone.
//!
//! # Concurrency
//! One mutex, held for a few instructions, guards the counts of those that have the lock and of those that wait to have
//! it alone; a condition variable wakes who waits. While somebody waits to have it alone, nobody begins to share it, so
//! that a change gets its turn. A thread that has it shared must not ask for it again.
//!
//! Each wait ends with the thread's operation ([`interrupt`]).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::base::{Result, interrupt};

/// The lock.
#[derive(Debug, Default)]
pub(super) struct Latch {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many have it shared.
    shared: usize,
    /// Whether somebody has it alone.
    alone: bool,
    /// How many wait to have it alone.
    waiting: usize,
}

impl State {
    const fn may_share(&self) -> bool {
        !self.alone && self.waiting == 0
    }

    const fn is_free(&self) -> bool {
        !self.alone && self.shared == 0
    }
}

/// The lock, shared with others.
#[derive(Debug)]
pub(super) struct Shared(Arc<Latch>);

/// The lock, held by nobody else.
#[derive(Debug)]
pub(super) struct Alone<'l>(&'l Latch);

impl Latch {
    /// Shares the lock, when nobody has it alone or waits for that.
    ///
    /// # Errors
    /// Those of [`interrupt::wait`].
    pub(super) fn share(self: &Arc<Self>) -> Result<Shared> {
        match self.share_for(Duration::ZERO) {
            Some(shared) => Ok(shared),
            None => interrupt::wait(|nap| self.share_for(nap)),
        }
    }

    /// As [`Self::share`], but waits no longer than `wait`.
    pub(super) fn share_for(self: &Arc<Self>, wait: Duration) -> Option<Shared> {
        let mut state = self.state.lock();
        if !state.may_share() {
            self.changed.wait_while_for(&mut state, |state| !state.may_share(), wait);
        }
        if !state.may_share() {
            return None;
        }
        state.shared += 1;
        Some(Shared(Arc::clone(self)))
    }

    /// Has the lock alone, when nobody else has it; nothing when that takes longer than `wait`.
    ///
    /// # Errors
    /// Those of [`interrupt::wait`].
    pub(super) fn take_alone(&self, wait: Duration) -> Result<Option<Alone<'_>>> {
        self.state.lock().waiting += 1;
        let taken = interrupt::wait_within(wait, |nap| {
            let mut state = self.state.lock();
            if !state.is_free() {
                self.changed.wait_while_for(&mut state, |state| !state.is_free(), nap);
            }
            state.is_free().then(|| state.alone = true)
        });
        let mut state = self.state.lock();
        state.waiting -= 1;
        if matches!(taken, Ok(Some(()))) {
            return Ok(Some(Alone(self)));
        }
        self.wake(state);
        taken.map(|_| None)
    }

    fn wake(&self, state: MutexGuard<'_, State>) {
        drop(state);
        self.changed.notify_all();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.shared -= 1;
        if state.shared == 0 && state.waiting > 0 {
            self.0.wake(state);
        }
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.alone = false;
        self.0.wake(state);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;

    use super::*;
    use crate::base::{ErrorCode, Interrupt};

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn it_is_shared_or_held_alone() {
        let latch = Arc::new(Latch::default());
        let (first, second) = (latch.share().unwrap(), latch.share().unwrap());
        assert!(latch.take_alone(SHORT).unwrap().is_none());
        drop(first);
        assert!(latch.take_alone(Duration::ZERO).unwrap().is_none());
        drop(second);
        let alone = latch.take_alone(SHORT).unwrap().unwrap();
        assert!(latch.share_for(SHORT).is_none());
        drop(alone);
        assert!(latch.share_for(SHORT).is_some());
    }

    #[test]
    fn who_waits_to_have_it_alone_comes_before_those_who_share_it_later() {
        let latch = Arc::new(Latch::default());
        let first = latch.share().unwrap();
        let (had, order) = channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                let alone = latch.take_alone(LONG).unwrap().unwrap();
                had.send("alone").unwrap();
                drop(alone);
            });
            while latch.share_for(Duration::ZERO).is_some() {
                thread::yield_now();
            }
            scope.spawn(|| {
                let shared = latch.share().unwrap();
                had.send("shared").unwrap();
                drop(shared);
            });
            assert!(order.recv_timeout(SHORT * 10).is_err());
            drop(first);
            assert_eq!([order.recv().unwrap(), order.recv().unwrap()], ["alone", "shared"]);
        });
    }

    #[test]
    fn waits_end_with_the_operation_and_leave_nothing() {
        let latch = Arc::new(Latch::default());
        let killed = Arc::new(Interrupt::default());
        killed.kill();
        let code = |result: Result<()>| result.unwrap_err().code();
        let shared = latch.share().unwrap();
        {
            let _working = killed.begin();
            assert_eq!(code(latch.take_alone(LONG).map(drop)), ErrorCode::INTERRUPTED);
        }
        drop((latch.share_for(Duration::ZERO).unwrap(), shared));
        let alone = latch.take_alone(SHORT).unwrap().unwrap();
        {
            let _working = killed.begin();
            assert_eq!(code(latch.share().map(drop)), ErrorCode::INTERRUPTED);
        }
        drop(alone);
        assert!(latch.take_alone(Duration::ZERO).unwrap().is_some());
    }
}
