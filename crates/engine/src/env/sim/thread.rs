//! Simulated time, randomness and background work: all of it happens when the test, or the engine's caller, makes it
//! happen.

use super::super::thread::{Clock, Random, Threads, Work, Worker};
use super::machine::Machine;
use super::worker::{SimWorker, SimWorkerHandle};
use crate::base::num::{u64_of, usize_of};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// What the wall clock shows when the machine is made: 2025-01-01 00:00 UTC.
const WALL_START: Duration = Duration::from_secs(1_735_689_600);

/// The clock, the randomness and the workers of a machine.
#[derive(Clone)]
pub(super) struct SimSystem(pub(super) Arc<Machine>);

impl SimSystem {
    /// Moves the clock, and runs the work that waited for a time now past.
    pub(super) fn advance(&self, time: Duration) {
        let now = {
            let mut state = self.0.state.lock();
            state.clock.now += time;
            state.clock.now
        };
        let workers = self.0.workers.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for worker in workers {
            if worker.is_due(now) {
                worker.wake();
            }
        }
    }

    /// Does a step of the work that waits for one, of the worker that `choice` takes; false when none waits.
    pub(super) fn work(&self, choice: u64) -> bool {
        let mut workers = self.0.workers.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        workers.retain(|worker| worker.is_waiting());
        let Some(index) = choice.checked_rem(u64_of(workers.len())) else { return false };
        workers[usize_of(index)].run(1);
        true
    }
}

impl Clock for SimSystem {
    fn now(&self) -> Duration {
        let mut state = self.0.state.lock();
        state.clock.now += Duration::from_micros(1);
        state.clock.now
    }

    fn wall(&self) -> Duration {
        let now = WALL_START + self.now();
        let ahead = self.0.state.lock().clock.wall_ahead_secs;
        let by = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { now.saturating_sub(by) } else { now + by }
    }
}

impl Random for SimSystem {
    fn next(&self) -> u64 {
        self.0.state.lock().random.ids.next()
    }
}

impl Threads for SimSystem {
    fn worker(&self, name: &str, work: Work) -> io::Result<Box<dyn Worker>> {
        let worker = Arc::new(SimWorker::new(name, Arc::clone(&self.0.state), work));
        let mut workers = self.0.workers.lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&worker));
        drop(workers);
        worker.wake();
        Ok(Box::new(SimWorkerHandle(worker)))
    }

    fn sleep(&self, time: Duration) {
        let turns = self.0.state.lock().turns.clone();
        match turns {
            Some(turns) => turns.rest(time),
            None => self.advance(time),
        }
    }

    fn others(&self) -> usize {
        0
    }

    fn concurrent(&self) -> bool {
        false
    }
}

impl fmt::Debug for SimSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimSystem")
    }
}
