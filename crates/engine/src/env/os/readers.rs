//! Reads beside each other: a few threads of the process help whoever has several blocking reads to make at once.
//!
//! # Concurrency
//! A batch is a list of reads that its owner and the helpers take from one by one. The owner takes too, so that a batch is done
//! even when no helper is free or could be started; it waits at the end only for reads that a helper is making. Helpers are
//! started when the first batch wants them, and sleep between batches; there are never more than [`HELPERS_MAX`].

use super::super::{AlignedBuffer, BatchRead, File};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread;

/// Threads that help. A device gives most of what it can at some ten reads in flight.
const HELPERS_MAX: usize = 12;

/// A read of a batch: its number there, from what, where, and into what.
type Job = (usize, Arc<dyn File>, u64, AlignedBuffer);
/// A read that was made.
type Done = (usize, AlignedBuffer, io::Result<usize>);

/// Several reads.
pub(super) struct Batch {
    todo: Mutex<Vec<Job>>,
    done: Mutex<Vec<Done>>,
    /// Signalled with each read done.
    progress: Condvar,
}

impl Batch {
    /// Makes the reads, and returns when all are done.
    pub(super) fn read(reads: &mut [BatchRead]) {
        let job = |(number, read): (usize, &mut BatchRead)| {
            (number, Arc::clone(&read.file), read.offset, std::mem::take(&mut read.buffer))
        };
        let jobs = reads.iter_mut().enumerate().rev().map(job).collect();
        let (done, progress) = (Mutex::new(Vec::with_capacity(reads.len())), Condvar::new());
        let batch = Arc::new(Self { todo: Mutex::new(jobs), done, progress });
        HELPERS.ask(&batch, (reads.len() - 1).min(HELPERS_MAX));
        batch.work();
        let mut done = batch.done.lock();
        batch.progress.wait_while(&mut done, |done| done.len() < reads.len());
        for (number, buffer, result) in done.drain(..) {
            (reads[number].buffer, reads[number].result) = (buffer, result);
        }
    }

    /// Makes reads until none is left to begin.
    fn work(&self) {
        loop {
            let Some((number, file, offset, mut buffer)) = self.todo.lock().pop() else { return };
            let result = file.read_at(&mut buffer, offset);
            self.done.lock().push((number, buffer, result));
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
    batches: VecDeque<Arc<Batch>>,
    started: usize,
    idle: usize,
}

static HELPERS: Helpers =
    Helpers { state: Mutex::new(State { batches: VecDeque::new(), started: 0, idle: 0 }), asked: Condvar::new() };

impl Helpers {
    /// Asks for so many helpers.
    fn ask(&'static self, batch: &Arc<Batch>, count: usize) {
        let mut state = self.state.lock();
        let wanted = (state.batches.len() + count).saturating_sub(state.idle).min(HELPERS_MAX - state.started);
        for _ in 0..wanted {
            // Without a thread the owner reads by itself.
            if thread::Builder::new().name("spinney-read".to_owned()).spawn(|| self.help()).is_err() {
                break;
            }
            state.started += 1;
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
    use super::super::super::{Access, BatchRead, OpenOptions};
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
                        let reads = (0..40).map(|i| BatchRead::new(file, (first + i * 24) * 100 + round, 60));
                        let mut reads: Vec<_> = reads.chain([BatchRead::new(file, 99_990, 60)]).collect();
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
