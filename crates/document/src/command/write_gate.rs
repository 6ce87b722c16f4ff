//! The gate that writes go through: `fsync` with `lock` closes it, `fsyncUnlock` opens it again.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::base::{Error, ErrorCode, Interrupt, Result};

/// How long a wait goes on without a look at whether it should end.
const NAP: Duration = Duration::from_millis(50);

/// How many locks there are, and how many writes run.
#[derive(Debug, Default)]
pub struct WriteGate {
    counts: Mutex<Counts>,
    /// A lock was taken back, or the last write ended.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Counts {
    locks: i64,
    writes: usize,
}

/// A write that runs; it has ended when this is dropped.
#[derive(Debug)]
pub struct Writing<'g> {
    gate: &'g WriteGate,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        let mut counts = self.gate.counts.lock();
        counts.writes -= 1;
        if counts.writes == 0 && counts.locks > 0 {
            self.gate.changed.notify_all();
        }
    }
}

impl WriteGate {
    /// Begins a write, which waits while there is a lock. `check` is asked now and then whether the wait may go on.
    ///
    /// # Errors
    /// Those of `check`.
    pub fn enter(&self, mut check: impl FnMut() -> Result<()>) -> Result<Writing<'_>> {
        let mut counts = self.counts.lock();
        while counts.locks > 0 {
            check()?;
            self.changed.wait_for(&mut counts, NAP);
        }
        counts.writes += 1;
        Ok(Writing { gate: self })
    }

    /// Begins a write, unless there is a lock.
    #[must_use]
    pub fn try_enter(&self) -> Option<Writing<'_>> {
        let mut counts = self.counts.lock();
        if counts.locks > 0 {
            return None;
        }
        counts.writes += 1;
        Some(Writing { gate: self })
    }

    /// Keeps writes from beginning, waits for those that run, and returns how many locks there are now. The wait ends
    /// when the limit of time of `waiting` is over.
    ///
    /// # Errors
    /// `LockTimeout` (24) when the writes take too long, those of `interrupt`; there is no lock then.
    pub fn lock(&self, interrupt: &Interrupt, waiting: &Interrupt) -> Result<i64> {
        let mut counts = self.counts.lock();
        counts.locks += 1;
        while counts.writes > 0 {
            let in_time = waiting.check().map_err(|_| {
                Error::new(ErrorCode::LOCK_TIMEOUT, "Fsync lock timed out: writes that run take too long")
            });
            if let Err(error) = interrupt.check().and(in_time) {
                counts.locks -= 1;
                self.changed.notify_all();
                return Err(error);
            }
            self.changed.wait_for(&mut counts, NAP);
        }
        Ok(counts.locks)
    }

    /// Takes a lock back, and returns how many are left.
    ///
    /// # Errors
    /// `IllegalOperation` (20) when there is none.
    pub fn unlock(&self) -> Result<i64> {
        let mut counts = self.counts.lock();
        if counts.locks == 0 {
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, "fsyncUnlock called when not locked"));
        }
        counts.locks -= 1;
        if counts.locks == 0 {
            self.changed.notify_all();
        }
        Ok(counts.locks)
    }

    /// Whether there is a lock.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.counts.lock().locks > 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_write_waits_until_all_locks_are_taken_back() {
        let (gate, interrupt, done) = (WriteGate::default(), Interrupt::default(), AtomicBool::new(false));
        assert_eq!(gate.lock(&interrupt, &interrupt).unwrap(), 1);
        assert_eq!(gate.lock(&interrupt, &interrupt).unwrap(), 2);
        assert!(gate.try_enter().is_none());
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                drop(gate.enter(|| Ok(())).unwrap());
                done.store(true, Ordering::SeqCst);
            });
            assert_eq!(gate.unlock().unwrap(), 1);
            assert!(!done.load(Ordering::SeqCst));
            assert_eq!(gate.unlock().unwrap(), 0);
            writer.join().unwrap();
        });
        assert_eq!(gate.unlock().unwrap_err().code(), ErrorCode::ILLEGAL_OPERATION);
        assert!(gate.try_enter().is_some());
    }

    #[test]
    fn a_lock_that_waits_for_a_write_for_too_long_is_none() {
        let (gate, interrupt, waiting) = (WriteGate::default(), Interrupt::default(), Interrupt::default());
        let write = gate.try_enter();
        waiting.kill();
        assert_eq!(gate.lock(&interrupt, &waiting).unwrap_err().code(), ErrorCode::LOCK_TIMEOUT);
        assert!(!gate.is_locked());
        drop(write);
        assert_eq!(gate.lock(&interrupt, &waiting).unwrap(), 1);
    }

    #[test]
    fn a_write_that_waits_can_be_ended() {
        let (gate, interrupt) = (WriteGate::default(), Interrupt::default());
        gate.lock(&interrupt, &interrupt).unwrap();
        interrupt.kill();
        assert_eq!(gate.enter(|| interrupt.check()).unwrap_err().code(), ErrorCode::INTERRUPTED);
    }
}
