//! Simulated time, randomness and background work: all of it happens when the test, or the engine's caller, makes it
//! happen.
//!
//! # Concurrency
//! A worker has no thread. Its work runs inside [`Worker::wake`], in the caller's thread, until it wants to wait; a
//! wake from inside the work (or from another thread meanwhile) makes it run once more. Work that waits at most some
//! time is woken when the clock is moved past that time, by a sleep or by [`super::SimEnv::advance`].
//!
//! When workers are lazy ([`super::SimEnv::set_lazy_workers`]) a wake only says that there is work, and
//! [`super::SimEnv::work`] does it, a step at a time: so work stays half done while its caller goes on.

use super::super::thread::{Clock, Next, Random, Threads, Work, Worker};
use super::state::Machine;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, ThreadId};
use std::fmt;
use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often work may ask to be called again at once before it is taken for a loop without end.
const AGAIN_MAX: u64 = 1_000_000;

/// Where the wall clock stands when the machine is made: 2025-01-01 00:00 UTC.
const WALL_START: Duration = Duration::from_secs(1_735_689_600);

/// The clock, the randomness and the workers of a machine.
#[derive(Clone)]
pub(super) struct SimSystem(pub(super) Arc<Machine>);

impl SimSystem {
    /// Moves the clock, and runs the work that waited for a time now past.
    pub(super) fn advance(&self, time: Duration) {
        let now = {
            let mut state = self.0.state.lock();
            state.now += time;
            state.now
        };
        let workers = self.0.workers.lock().iter().filter_map(Weak::upgrade).collect::<Vec<_>>();
        for worker in workers {
            if worker.state.lock().due.is_some_and(|due| due <= now) {
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
        state.now += Duration::from_micros(1);
        state.now
    }

    fn wall(&self) -> Duration {
        let now = WALL_START + self.now();
        let ahead = self.0.state.lock().wall_ahead_secs;
        let by = Duration::from_secs(ahead.unsigned_abs());
        if ahead < 0 { now.saturating_sub(by) } else { now + by }
    }
}

impl Random for SimSystem {
    fn next(&self) -> u64 {
        self.0.state.lock().random.next()
    }
}

impl Threads for SimSystem {
    fn worker(&self, name: &str, work: Work) -> io::Result<Box<dyn Worker>> {
        let worker = Arc::new(SimWorker {
            name: name.to_owned(),
            clock: self.clone(),
            state: Mutex::default(),
            work: Mutex::new(Some(work)),
        });
        let mut workers = self.0.workers.lock();
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(Arc::downgrade(&worker));
        drop(workers);
        worker.wake();
        Ok(Box::new(SimWorkerHandle(worker)))
    }

    fn sleep(&self, time: Duration) {
        self.advance(time);
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

/// A worker without a thread.
pub(super) struct SimWorker {
    name: String,
    clock: SimSystem,
    state: Mutex<WorkerState>,
    /// Held while it runs, so that `stop` from another thread can wait for it.
    work: Mutex<Option<Work>>,
}

#[derive(Default)]
struct WorkerState {
    /// The thread that runs the work now.
    runner: Option<ThreadId>,
    /// A wake came while it ran.
    woken: bool,
    stopped: bool,
    /// When the work wants to be woken at the latest.
    due: Option<Duration>,
}

impl SimWorker {
    /// Runs the work, unless it is to wait for a turn.
    fn wake(&self) {
        if self.clock.0.state.lock().lazy_workers {
            self.state.lock().woken = true;
        } else {
            self.run(AGAIN_MAX);
        }
    }

    /// Whether it was woken and does not run.
    fn is_waiting(&self) -> bool {
        let state = self.state.lock();
        state.woken && !state.stopped && state.runner.is_none()
    }

    /// Runs the work until it wants to wait, but at most so many steps, unless it runs already: then it runs once more.
    fn run(&self, steps_max: u64) {
        {
            let mut state = self.state.lock();
            if state.stopped {
                return;
            }
            if state.runner.is_some() {
                state.woken = true;
                return;
            }
            state.runner = Some(thread::current().id());
            state.woken = false;
        }
        let _running = Running(self);
        let mut guard = self.work.lock();
        // Else another thread stopped it a moment ago.
        let Some(work) = guard.as_mut() else { return };
        for _ in 0..steps_max {
            let next = work();
            let now = self.clock.0.state.lock().now;
            let mut state = self.state.lock();
            if state.stopped {
                let work = guard.take();
                drop(guard);
                drop(state);
                // What the work owned may stop this very worker when it is dropped.
                drop(work);
                return;
            }
            state.due = match next {
                Next::Again if steps_max == AGAIN_MAX => continue,
                Next::Again => {
                    state.woken = true;
                    return;
                }
                Next::Wait => None,
                Next::WaitAtMost(time) => Some(now + time),
            };
            if steps_max < AGAIN_MAX || !std::mem::take(&mut state.woken) {
                state.runner = None;
                return;
            }
        }
        panic!("the work of {:?} never waits", self.name);
    }

    fn stop(&self) {
        {
            let mut state = self.state.lock();
            state.stopped = true;
            if state.runner == Some(thread::current().id()) {
                return;
            }
        }
        let work = self.work.lock().take();
        drop(work);
    }
}

/// Marks the worker as not running when its work returns or panics.
struct Running<'a>(&'a SimWorker);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.state.lock().runner = None;
    }
}

#[derive(Debug)]
struct SimWorkerHandle(Arc<SimWorker>);

impl Worker for SimWorkerHandle {
    fn wake(&self) {
        self.0.wake();
    }

    fn stop(&self) {
        self.0.stop();
    }
}

impl Drop for SimWorkerHandle {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl fmt::Debug for SimWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimWorker").field("name", &self.name).finish_non_exhaustive()
    }
}
