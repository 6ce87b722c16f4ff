//! Background work on a simulated machine, without a thread.
//!
//! # Concurrency
//! A worker has no thread. Its work runs inside [`Worker::wake`], in the caller's thread, until it wants to wait; a
//! wake from inside the work (or from another thread while it runs) makes it run once more. Work that waits at most
//! some time is woken when the clock is moved past that time, by a sleep or by [`super::SimEnv::advance`].
//!
//! When workers are lazy ([`super::SimEnv::set_lazy_workers`]) a wake only says that there is work, and
//! [`super::SimEnv::work`] does it, a step at a time: so work stays half done while its caller goes on. So they are
//! where threads take turns ([`super::SimEnv::set_turns`]), which hear of each wake.

use super::super::thread::{Next, Work, Worker};
use super::state::State;
use crate::base::debug::debug_by;
use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, ThreadId};
use std::sync::Arc;
use std::time::Duration;

/// How often work may ask to be called again at once before it is taken for a loop without end.
const AGAIN_MAX: u64 = 1_000_000;

/// A worker without a thread.
pub(super) struct SimWorker {
    name: String,
    machine: Arc<Mutex<State>>,
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
    pub(super) fn new(name: &str, machine: Arc<Mutex<State>>, work: Work) -> Self {
        Self { name: name.to_owned(), machine, state: Mutex::default(), work: Mutex::new(Some(work)) }
    }

    /// Whether the work wants to be woken at `now` at the latest.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.state.lock().due.is_some_and(|due| due <= now)
    }

    /// Runs the work, unless it is to wait for a turn.
    pub(super) fn wake(&self) {
        let (turns, lazy) = {
            let machine = self.machine.lock();
            (machine.turns.clone(), machine.lazy_workers)
        };
        if !lazy && turns.is_none() {
            return self.run(AGAIN_MAX);
        }
        self.state.lock().woken = true;
        turns.into_iter().for_each(|turns| turns.woken());
    }

    /// Whether it was woken and does not run.
    pub(super) fn is_waiting(&self) -> bool {
        let state = self.state.lock();
        state.woken && !state.stopped && state.runner.is_none()
    }

    /// Runs the work until it wants to wait, but at most `steps_max` steps. If it runs already, it runs once more.
    pub(super) fn run(&self, steps_max: u64) {
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
            let now = self.machine.lock().clock.now;
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
        let turns = self.machine.lock().turns.clone();
        let work = match turns {
            // A thread that rests in the work drops that when it goes on.
            Some(_) => self.work.try_lock().and_then(|mut work| work.take()),
            None => self.work.lock().take(),
        };
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
pub(super) struct SimWorkerHandle(pub(super) Arc<SimWorker>);

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

debug_by!(SimWorker, self => name: self.name);
