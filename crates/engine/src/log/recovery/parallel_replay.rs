//! Replay on several processors: the opening thread finds, checks and unpacks payloads, and workers apply them.
//!
//! Payloads go over in batches. While all workers have enough to do, the reading thread applies a batch itself, so
//! that every processor has work whatever takes longer. Where there are no threads it applies each payload as it
//! comes.
//!
//! # Invariants
//! 1. Every payload is applied once, in no order: [`Apply`] must not depend on the order. After
//!    [`ReplayWorkers::settle`] all that was read so far was applied, and nothing behind it: a moment of the log.
//! 2. Memory is bounded by a few batches, each of which ends with the payload that makes it large.

use super::progress::ReplayProgress;
use super::recover::{RecoveredLog, recover_live, recover_telling};
use crate::base::debug::debug_by;
use crate::base::sync::{Condvar, Mutex, MutexGuard};
use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Env, Next, Worker};
use std::collections::VecDeque;
use std::mem;
use std::path::Path;
use std::sync::Arc;

/// A batch is handed over when it has this number of bytes.
const BATCH_BYTES: usize = 96 << 10;
/// How many batches may wait for each worker: enough that none of them runs out of work while the reading thread
/// applies one.
const WAITING_MAX: usize = 16;
/// Memtables apply a third of what one thread reads in the same time: more workers would wait for that thread.
const WORKERS_MAX: usize = 3;

/// Applies one payload, whose first fragment begins at the position: several threads at once, in no order.
pub type Apply = dyn Fn(Lsn, &[u8]) -> Result<()> + Send + Sync;

/// Is told between two payloads how far the log was read: [`ReplayWorkers::settle`] then makes that the position before
/// which all is applied.
pub type AfterBatch<'a> = dyn FnMut(Lsn, &mut ReplayWorkers) -> Result<()> + 'a;

/// How a log is replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplayMode {
    /// Made durable first: a writer goes on with it.
    Recover,
    /// As it is, while another process may be writing it.
    ReadOnly,
}

/// As [`recover()`](super::recover::recover), but payloads are applied on several processors at once, in no order.
/// Calls `tell` at the beginning, after about every mebibyte of the log, and at the end. To read only, nothing is
/// synced, and the log ends where it ended at some moment of the call.
///
/// # Errors
/// As for [`recover()`](super::recover::recover); what `apply` and `after_batch` return.
pub fn replay(
    env: &Env,
    directory: &Path,
    (database, from, mode): (u64, Lsn, ReplayMode),
    tell: &mut dyn FnMut(ReplayProgress),
    apply: Arc<Apply>,
    after_batch: &mut AfterBatch<'_>,
) -> Result<RecoveredLog> {
    let mut workers = ReplayWorkers::start(env, apply);
    let mut visit = |start: Lsn, end: Lsn, payload: &[u8]| {
        if workers.add(start, payload)? { after_batch(end, &mut workers) } else { Ok(()) }
    };
    let recovered = match mode {
        ReplayMode::Recover => recover_telling(env, directory, database, from, tell, &mut visit),
        ReplayMode::ReadOnly => recover_live(env, directory, (database, from), tell, &mut visit),
    };
    // What could not be applied lies before what could not be read.
    workers.settle().and(recovered)
}

/// The workers that apply what is read.
pub struct ReplayWorkers {
    shared: Arc<Shared>,
    workers: Vec<Box<dyn Worker>>,
    /// The batch that the next payload goes to.
    filling: Batch,
}

/// What the reading thread and the workers share.
struct Shared {
    apply: Arc<Apply>,
    state: Mutex<State>,
    /// A batch came or was applied, or no more will come.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Batches that no thread has begun with.
    batches: VecDeque<Batch>,
    /// How many are being applied.
    applying: usize,
    /// Empty ones, whose memory goes round: asking for it and giving it back costs more than handing a batch over.
    empty: Vec<Batch>,
    /// The first error of a worker that was not returned yet.
    error: Option<Error>,
    ended: bool,
}

/// Payloads one after the other.
#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    /// Where each payload's first fragment begins, and where it ends in `bytes`.
    payloads: Vec<(Lsn, usize)>,
}

impl ReplayWorkers {
    fn start(env: &Env, apply: Arc<Apply>) -> Self {
        let shared = Arc::new(Shared { apply, state: Mutex::default(), changed: Condvar::new() });
        let worker = |_| {
            let shared = Arc::clone(&shared);
            let work = move || {
                shared.work();
                Next::Wait
            };
            env.threads.worker("replay", Box::new(work)).ok()
        };
        // Without a thread this one applies more, or all.
        let workers = (0..env.threads.others().min(WORKERS_MAX)).map_while(worker).collect();
        Self { shared, workers, filling: Batch::default() }
    }

    /// Applies a payload, or has it applied. Says whether the batch before the next payload ends with it.
    fn add(&mut self, start: Lsn, payload: &[u8]) -> Result<bool> {
        if self.workers.is_empty() {
            return (self.shared.apply)(start, payload).map(|()| true);
        }
        self.filling.add(start, payload);
        if self.filling.bytes.len() < BATCH_BYTES {
            return Ok(false);
        }
        let mut state = self.shared.state.lock();
        if state.error.is_some() {
            return Err(Error::new(ErrorKind::Closed, "what was read before could not be applied"));
        }
        let batch = mem::replace(&mut self.filling, state.empty.pop().unwrap_or_default());
        if state.batches.len() < WAITING_MAX * self.workers.len() {
            state.batches.push_back(batch);
            self.shared.changed.notify_all();
        } else {
            drop(self.shared.apply_batch(state, batch));
        }
        Ok(true)
    }

    /// Returns when everything that was read before has been applied.
    ///
    /// # Errors
    /// What [`Apply`] returned.
    pub fn settle(&mut self) -> Result<()> {
        let mut state = self.shared.state.lock();
        state.batches.push_back(mem::take(&mut self.filling));
        loop {
            if let Some(batch) = state.batches.pop_front() {
                state = self.shared.apply_batch(state, batch);
            } else if state.applying > 0 {
                self.shared.changed.wait(&mut state);
            } else {
                return state.error.take().map_or(Ok(()), Err);
            }
        }
    }
}

impl Drop for ReplayWorkers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.batches.clear();
        state.ended = true;
        self.shared.changed.notify_all();
        drop(state);
        self.workers.clear();
    }
}

debug_by!(ReplayWorkers, self => workers: self.workers.len());

impl Shared {
    /// A worker's life.
    fn work(&self) {
        let mut state = self.state.lock();
        while !state.ended {
            if let Some(batch) = state.batches.pop_front() {
                state = self.apply_batch(state, batch);
            } else {
                self.changed.wait(&mut state);
            }
        }
    }

    /// Applies a batch, without the latch.
    fn apply_batch<'a>(&'a self, mut state: MutexGuard<'a, State>, mut batch: Batch) -> MutexGuard<'a, State> {
        state.applying += 1;
        drop(state);
        let taken = batch.each(&*self.apply);
        batch.empty();
        let mut state = self.state.lock();
        state.applying -= 1;
        state.empty.push(batch);
        if let Err(error) = taken {
            state.error.get_or_insert(error);
        }
        self.changed.notify_all();
        state
    }
}

impl Batch {
    fn add(&mut self, start: Lsn, payload: &[u8]) {
        self.bytes.extend_from_slice(payload);
        self.payloads.push((start, self.bytes.len()));
    }

    fn each(&self, take: &Apply) -> Result<()> {
        let mut at = 0;
        for (start, to) in &self.payloads {
            take(*start, &self.bytes[at..*to])?;
            at = *to;
        }
        Ok(())
    }

    /// Forgets the payloads, and gives the memory back if a large commit has made it large.
    fn empty(&mut self) {
        if self.bytes.capacity() > 4 * BATCH_BYTES {
            *self = Self::default();
        }
        self.bytes.clear();
        self.payloads.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::num::usize_of;
    use crate::env::{Access, OpenOptions};
    use crate::log::{LogOptions, LogWriter, recover};

    /// Payloads of many sizes in three segments, with markers between them.
    fn fill(env: &Env, path: &Path) {
        let recovered = recover(env, path, 1, Lsn(0), &mut |_, _, _| Ok(())).unwrap();
        let log = LogWriter::open(env, path, LogOptions::default(), recovered).unwrap();
        for number in 0..3000u64 {
            let bytes = [0, 1, 100, 160, 5000, 700][usize_of(number % 6)] + usize_of(number % 500 / 499) * 300_000;
            let end = log.append_parts(&[&vec![u8::try_from(number % 256).unwrap(); bytes]]).unwrap();
            match number % 100 {
                0 => log.sync(end).unwrap(),
                1..50 => log.write(end).unwrap(),
                _ => {}
            }
        }
        log.close().unwrap();
    }

    /// The payloads of a log, and what ends it.
    type History = (Vec<(Lsn, Vec<u8>)>, String);

    fn ending(outcome: &Result<RecoveredLog>) -> String {
        outcome.as_ref().map_or_else(ToString::to_string, |recovered| format!("{:?}", recovered.summary()))
    }

    /// What one thread reads in order; the payload that begins at `refused` ends it.
    fn in_order(env: &Env, path: &Path, from: Lsn, refused: Option<Lsn>) -> History {
        let mut taken = Vec::new();
        let outcome = recover(env, path, 1, from, &mut |start, _, payload| {
            taken.push((start, payload.to_owned()));
            if refused == Some(start) { Err(Error::new(ErrorKind::Full, "enough")) } else { Ok(()) }
        });
        (taken, ending(&outcome))
    }

    /// What a replay applies, put in order; at each pause everything before it was applied, and nothing behind.
    fn replayed(env: &Env, path: &Path, from: Lsn, refused: Option<Lsn>) -> History {
        let taken = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&taken);
        let take = Arc::new(move |start, payload: &[u8]| {
            theirs.lock().push((start, payload.to_owned()));
            if refused == Some(start) { Err(Error::new(ErrorKind::Full, "enough")) } else { Ok(()) }
        });
        let (mut pauses, mut before) = (0, 0);
        let outcome = replay(env, path, (1, from, ReplayMode::Recover), &mut |_| (), take, &mut |end, workers| {
            pauses += 1;
            if pauses % 5 == 0 {
                workers.settle()?;
                let taken = taken.lock();
                assert!(taken.len() > before && taken.iter().all(|(start, _)| *start < end));
                before = taken.len();
            }
            Ok(())
        });
        let mut taken = taken.lock().clone();
        taken.sort();
        (taken, ending(&outcome))
    }

    #[test]
    fn workers_change_nothing_of_what_is_taken_in() {
        let (env, dir) = (Env::os(), tempfile::tempdir().unwrap());
        fill(&env, dir.path());
        let whole = in_order(&env, dir.path(), Lsn(0), None);
        assert_eq!(whole.0.len(), 3000);
        for round in 0..10 {
            let from = Lsn(round * 700_000);
            assert!(in_order(&env, dir.path(), from, None) == replayed(&env, dir.path(), from, None));
        }
    }

    #[test]
    fn an_error_ends_a_replay_wherever_it_is_met() {
        let (env, dir) = (Env::os(), tempfile::tempdir().unwrap());
        fill(&env, dir.path());
        let (whole, _) = in_order(&env, dir.path(), Lsn(0), None);
        for round in 0..10 {
            let (refused, _) = whole[round * 331];
            let (taken, ending) = replayed(&env, dir.path(), Lsn(0), Some(refused));
            assert!(ending.contains("enough"), "{ending}");
            assert!(taken.windows(2).all(|pair| pair[0].0 < pair[1].0), "none is applied twice");
            assert!(taken.iter().any(|(start, _)| *start == refused));
        }
    }

    #[test]
    fn what_stands_before_damage_is_taken_in() {
        let (env, dir) = (Env::os(), tempfile::tempdir().unwrap());
        fill(&env, dir.path());
        let mut segments: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        let file = env.fs.open(&segments[0], OpenOptions { access: Access::Write, direct: false }).unwrap();
        let mut endings = Vec::new();
        for at in (0..30).map(|round| 5000 + round * 13_973) {
            let mut byte = [0];
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 1], at).unwrap();
            let here = in_order(&env, dir.path(), Lsn(0), None);
            assert!(here == replayed(&env, dir.path(), Lsn(0), None), "{}", here.1);
            endings.push(here.1);
            file.write_at(&byte, at).unwrap();
        }
        assert!(endings.iter().filter(|ending| ending.contains("damaged")).count() >= 5, "{endings:#?}");
    }
}
