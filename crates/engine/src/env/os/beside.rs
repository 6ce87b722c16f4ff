//! Reads and writes beside each other, or beside who wants them: a few threads of the process help.
//!
//! # Concurrency
//! A batch is a list of transfers that its owner and the helpers take from one by one. The owner takes too when it waits, so that a
//! batch is done even when no helper is free or could be started; it waits only for transfers that a helper is making. Helpers are
//! started when the first batch wants them, and sleep between batches; there are never more than [`HELPERS_MAX`].

use super::super::Transfer;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;

/// Threads that help. A device gives most of what it can at some ten reads in flight.
const HELPERS_MAX: usize = 12;

/// Several transfers, as their owner has them. Dropped, those are called off that were not begun, and the others are waited for.
#[derive(Debug)]
pub(super) struct Batch {
    shared: Arc<Shared>,
    count: usize,
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
    /// Asks for so many helpers to make the transfers.
    pub(super) fn begin(transfers: Vec<Transfer>, helpers: usize) -> Self {
        let count = transfers.len();
        let todo = Mutex::new(transfers.into_iter().enumerate().rev().collect());
        let (done, progress) = (Mutex::new(Vec::with_capacity(count)), Condvar::new());
        let shared = Arc::new(Shared { todo, done, progress });
        HELPERS.ask(&shared, helpers.min(HELPERS_MAX));
        Self { shared, count }
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
        self.settle();
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

/// The threads of this process that help, and what they are asked for.
struct Helpers {
    state: Mutex<State>,
    asked: Condvar,
}

struct State {
    /// A batch for each helper that it can use.
    batches: VecDeque<Arc<Shared>>,
    started: usize,
    idle: usize,
}

static HELPERS: Helpers =
    Helpers { state: Mutex::new(State { batches: VecDeque::new(), started: 0, idle: 0 }), asked: Condvar::new() };

impl Helpers {
    /// Asks for so many helpers.
    fn ask(&'static self, batch: &Arc<Shared>, count: usize) {
        let mut state = self.state.lock();
        let wanted = (state.batches.len() + count).saturating_sub(state.idle).min(HELPERS_MAX - state.started);
        for _ in 0..wanted {
            // Without a thread the owner does all by itself.
            if thread::Builder::new().name("spinney-io".to_owned()).spawn(|| self.help()).is_err() {
                break;
            }
            state.started += 1;
        }
        if state.started == 0 {
            return;
        }
        state.batches.extend(std::iter::repeat_n(batch, count).cloned());
        drop(state);
        for _ in 0..count {
            self.asked.notify_one();
        }
    }

    /// The life of a helper.
    fn help(&self) {
        loop {
            let mut state = self.state.lock();
            state.idle += 1;
            self.asked.wait_while(&mut state, |state| state.batches.is_empty());
            state.idle -= 1;
            let batch = state.batches.pop_front();
            drop(state);
            if let Some(batch) = batch {
                batch.work();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Access, OpenOptions, Transfer};
    use std::thread;

    #[test]
    fn each_read_of_a_batch_has_its_own_bytes_and_result() {
        let dir = tempfile::tempdir().unwrap();
        let options = OpenOptions { access: Access::CreateNew, direct: false };
        let file = super::super::env().fs.open(&dir.path().join("a"), options).unwrap();
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
    }
}
