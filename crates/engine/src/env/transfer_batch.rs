//! Batches of reads and writes that helper threads of the database make in parallel with each other and with the thread
//! that wants them.
//!
//! # Concurrency
//! A batch is a list of transfers that its owner and the helpers take from one by one. The owner takes too when it
//! waits, so that a batch is done even when no helper is free or could be started; it waits only for transfers that a
//! helper is making. Helpers are started when the first batch wants them, and sleep between batches; there are never
//! more than [`HELPERS_MAX`]. They end with the database.

use super::file::Transfer;
use super::origin::Origin;
use super::thread::{Next, Threads, Worker};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// Threads that help. A device gives most of what it can at some ten reads in flight.
const HELPERS_MAX: usize = 12;

/// Several transfers, as their owner has them. Dropped, those are called off that were not begun, and the others are
/// waited for.
#[derive(Debug)]
pub(super) struct Batch {
    shared: Arc<Shared>,
    count: usize,
    origin: Origin,
}

/// What the owner and the helpers share. Transfers are numbered.
#[derive(Debug)]
struct Shared {
    todo: Mutex<Vec<(usize, Transfer)>>,
    done: Mutex<Vec<(usize, Transfer)>>,
    /// Signalled with each transfer done.
    progress: Condvar,
}

impl Batch {
    /// Asks `wanted` helpers to make the transfers.
    pub(super) fn begin(transfers: Vec<Transfer>, helpers: &Helpers, wanted: usize) -> Self {
        let count = transfers.len();
        let todo = Mutex::new(transfers.into_iter().enumerate().rev().collect());
        let (done, progress) = (Mutex::new(Vec::with_capacity(count)), Condvar::new());
        let shared = Arc::new(Shared { todo, done, progress });
        helpers.ask(&shared, wanted.min(HELPERS_MAX));
        Self { shared, count, origin: helpers.threads.origin() }
    }

    /// Makes what is left, and returns all transfers when they are made.
    pub(super) fn end(mut self) -> Vec<Transfer> {
        self.shared.work();
        let mut done = self.settle();
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, transfer)| transfer).collect()
    }

    /// Waits for all transfers that were begun; there is nothing to wait for afterwards.
    fn settle(&mut self) -> Vec<(usize, Transfer)> {
        let begun = std::mem::take(&mut self.count) - self.shared.todo.lock().drain(..).count();
        let mut done = self.shared.done.lock();
        self.shared.progress.wait_while(&mut done, |done| done.len() < begun);
        std::mem::take(&mut done)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // A helper of the process that this one was forked from is not there to be waited for.
        if self.origin.is_here() {
            self.settle();
        }
    }
}

impl Shared {
    /// Makes transfers until none is left to begin.
    fn work(&self) {
        loop {
            let Some((number, mut transfer)) = self.todo.lock().pop() else { return };
            transfer.make();
            self.done.lock().push((number, transfer));
            self.progress.notify_one();
        }
    }
}

/// The threads that help, and what they are asked for.
#[derive(Debug)]
pub(super) struct Helpers {
    threads: Arc<dyn Threads>,
    asked: Arc<Asked>,
    /// By their numbers. Taken before what they are asked for.
    workers: Mutex<Workers>,
}

#[derive(Debug, Default)]
struct Workers {
    started: Vec<Box<dyn Worker>>,
    ended: bool,
}

/// What helpers are asked for.
#[derive(Debug, Default)]
struct Asked(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// A batch for each helper that it can use.
    batches: VecDeque<Arc<Shared>>,
    /// The numbers of the helpers that sleep.
    idle: Vec<usize>,
}

impl Helpers {
    /// No helpers yet.
    pub(super) fn new(threads: Arc<dyn Threads>) -> Self {
        Self { threads, asked: Arc::default(), workers: Mutex::default() }
    }

    /// Asks `count` helpers to work on a batch.
    fn ask(&self, batch: &Arc<Shared>, count: usize) {
        let mut workers = self.workers.lock();
        if workers.ended {
            return;
        }
        let mut state = self.asked.0.lock();
        let busy = workers.started.len() - state.idle.len();
        let wanted = (state.batches.len() + count + busy).min(HELPERS_MAX);
        let sleep = state.idle.len();
        let woken = state.idle.split_off(sleep - count.min(sleep));
        state.batches.extend(std::iter::repeat_n(batch, count).cloned());
        drop(state);
        while workers.started.len() < wanted {
            let (asked, number) = (Arc::clone(&self.asked), workers.started.len());
            // Without a thread the owner does all by itself.
            let Ok(worker) = self.threads.worker("io", Box::new(move || asked.help(number))) else { break };
            workers.started.push(worker);
        }
        if workers.started.is_empty() {
            self.asked.0.lock().batches.clear();
        }
        woken.iter().for_each(|number| workers.started[*number].wake());
    }

    /// Ends the helpers. What they are asked for from now on the owners do.
    pub(super) fn end(&self) {
        let started = {
            let mut workers = self.workers.lock();
            workers.ended = true;
            std::mem::take(&mut workers.started)
        };
        started.iter().for_each(|worker| worker.stop());
        *self.asked.0.lock() = State::default();
    }
}

impl Asked {
    /// Works on batches until none is left that wants a helper.
    fn help(&self, number: usize) -> Next {
        loop {
            let mut state = self.0.lock();
            let Some(batch) = state.batches.pop_front() else {
                if !state.idle.contains(&number) {
                    state.idle.push(number);
                }
                return Next::Wait;
            };
            drop(state);
            batch.work();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Access, DatabaseFiles, Env, OpenOptions, Transfer};
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn each_read_of_a_batch_has_its_own_bytes_and_result() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions { access: Access::CreateNew, direct: false };
        let (env, files) = DatabaseFiles::of(Env::os()).unwrap();
        let file = env.fs.open(&dir.path().join("a"), options).unwrap();
        let byte = |offset: u64| u8::try_from(offset / 100 % 251).unwrap();
        file.write_at(&(0..100_000).map(byte).collect::<Vec<_>>(), 0).unwrap();
        thread::scope(|scope| {
            for first in 0..4 {
                let file = &file;
                scope.spawn(move || {
                    for round in 0..50 {
                        let reads = (0..40).map(|i| Transfer::read(file, (first + i * 24) * 100 + round, 60));
                        let mut reads: Vec<_> = reads.chain([Transfer::read(file, 99_990, 60)]).collect();
                        file.read_many(&mut reads);
                        for read in &reads {
                            let there = 60.min(100_000 - usize::try_from(read.offset).unwrap());
                            assert_eq!(*read.result.as_ref().unwrap(), there);
                            assert!((read.offset..).zip(&read.buffer[..there]).all(|(at, found)| *found == byte(at)));
                        }
                    }
                });
            }
        });
        files.revoke();
        assert_eq!(Arc::strong_count(&file), 1);
    }
}
