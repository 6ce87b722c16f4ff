//! The whole simulated machine: its disk, its clock, its faults, and the process that runs on it.

use super::cached::Cached;
use super::call::{Call, Trace};
use super::crash::{CrashProfile, power_crash};
use super::disk::{Disk, Node};
use super::fault::{Faults, Verdict, down};
use super::node::NodeId;
use super::rng::Rng;
use super::turns::Turns;
use crate::base::num::u64_of;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Called before each change with a fork of the machine.
pub(super) type Observer = Box<dyn FnMut(State) + Send>;

/// The state of a machine.
pub(super) struct State {
    pub(super) disk: Disk,
    pub(super) faults: Faults,
    pub(super) random: RandomStreams,
    pub(super) clock: SimClock,
    /// Whether direct files are direct.
    pub(super) direct: bool,
    /// Whether work waits for [`SimEnv::work`].
    pub(super) lazy_workers: bool,
    /// Who says which thread goes on, if anybody does.
    pub(super) turns: Option<Arc<dyn Turns>>,
    /// Counts processes: what an earlier one opened is dead.
    pub(super) process: u64,
    /// Files that are locked exclusively.
    pub(super) locks: BTreeSet<NodeId>,
    /// How many handles share the lock of a file.
    pub(super) shared_locks: BTreeMap<NodeId, u64>,
    /// What the last write to a file wrote over, and where; kept only while a stale read is planned.
    pub(super) overwritten: BTreeMap<NodeId, (u64, Vec<u8>)>,
    pub(super) observed: Observed,
}

/// Streams of random numbers, one for each purpose, so that one purpose does not change the outcome of another.
#[derive(Clone)]
pub(super) struct RandomStreams {
    /// Decides what survives a crash, and which bits a fault flips.
    pub(super) crash: Rng,
    /// What [`super::super::Random`] gives.
    pub(super) ids: Rng,
    /// Decides when an operation that was begun is made: at once or when it is waited for.
    pub(super) begun: Rng,
}

/// The clocks of a machine.
#[derive(Clone, Copy, Default)]
pub(super) struct SimClock {
    /// Time since the machine was made.
    pub(super) now: Duration,
    /// By how much the wall clock is ahead of it.
    pub(super) wall_ahead_secs: i64,
}

/// What a test is told of the calls.
#[derive(Default)]
pub(super) struct Observed {
    pub(super) observer: Option<Observer>,
    pub(super) trace: Option<Trace>,
    /// Reads that were made together with others.
    pub(super) batched_reads: u64,
    /// Bytes that were read from each file.
    pub(super) read_bytes: BTreeMap<PathBuf, u64>,
    /// Files that were opened past the page cache.
    pub(super) direct_opens: u64,
    /// How often the free space was asked for.
    pub(super) free_space_asked: u64,
    /// Bytes that were written to each file since it was synced.
    unsynced: BTreeMap<NodeId, u64>,
    /// The most that there were of a file.
    pub(super) unsynced_max: u64,
}

impl Observed {
    /// Bytes were read from a file.
    pub(super) fn read(&mut self, path: &Path, bytes: usize) {
        match self.read_bytes.get_mut(path) {
            Some(read) => *read += u64_of(bytes),
            None => drop(self.read_bytes.insert(path.to_owned(), u64_of(bytes))),
        }
    }

    /// Bytes were written to a file.
    pub(super) fn wrote(&mut self, node: NodeId, bytes: usize) {
        let unsynced = self.unsynced.entry(node).or_default();
        *unsynced += u64_of(bytes);
        self.unsynced_max = self.unsynced_max.max(*unsynced);
    }

    /// A file was synced.
    pub(super) fn synced(&mut self, node: NodeId) {
        self.unsynced.remove(&node);
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let mut crash = Rng::new(seed);
        let ids = Rng::new(crash.next());
        let begun = ids.clone();
        Self {
            disk: Disk::new(),
            faults: Faults::default(),
            random: RandomStreams { crash, ids, begun },
            clock: SimClock::default(),
            direct: true,
            lazy_workers: false,
            turns: None,
            process: 0,
            locks: BTreeSet::new(),
            shared_locks: BTreeMap::new(),
            overwritten: BTreeMap::new(),
            observed: Observed::default(),
        }
    }

    /// The same machine once more, just after its process died.
    pub(super) fn fork(&self) -> Self {
        let mut disk = self.disk.clone();
        disk.close_all_handles();
        Self {
            disk,
            faults: self.faults.fork(),
            random: self.random.clone(),
            clock: self.clock,
            direct: self.direct,
            lazy_workers: false,
            turns: None,
            process: self.process + 1,
            locks: BTreeSet::new(),
            shared_locks: BTreeMap::new(),
            overwritten: BTreeMap::new(),
            observed: Observed::default(),
        }
    }

    /// Ends the process; the machine, if it had stopped, is up again.
    pub(super) fn process_crash(&mut self) {
        self.process += 1;
        self.locks.clear();
        self.shared_locks.clear();
        self.disk.close_all_handles();
        self.faults.is_down = false;
        self.faults.crash_at = None;
    }

    pub(super) fn power_crash(&mut self, profile: CrashProfile) {
        power_crash(&mut self.disk, profile, &mut self.random.crash);
        self.process_crash();
    }

    /// Fails for a process that is gone or a machine that has stopped.
    pub(super) fn check(&self, process: u64) -> io::Result<()> {
        if process != self.process {
            return Err(io::Error::other("this process has crashed: take a new Env from SimEnv::env()"));
        }
        self.faults.check_up()
    }

    /// Counts a call and says what becomes of it.
    pub(super) fn judge(&mut self, process: u64, call: Call, path: &Path) -> io::Result<Verdict> {
        self.check(process)?;
        if call.is_change()
            && let Some(mut observer) = self.observed.observer.take()
        {
            observer(self.fork());
            self.observed.observer = Some(observer);
        }
        if let Some(trace) = &mut self.observed.trace {
            trace.call(call, path);
        }
        let verdict = self.faults.judge(call, path);
        if let (Some(trace), Ok(Verdict::Fail(_) | Verdict::Deceive(_) | Verdict::Crash)) =
            (&mut self.observed.trace, &verdict)
        {
            trace.note(1, b"struck");
        }
        verdict
    }

    /// Takes the place of an operation in a file and its bytes into the trace.
    pub(super) fn trace(&mut self, offset: u64, bytes: &[u8]) {
        if let Some(trace) = &mut self.observed.trace {
            trace.note(offset, bytes);
        }
    }

    /// An operation that changes nothing.
    pub(super) fn look<T>(
        &mut self,
        process: u64,
        (call, path): (Call, &Path),
        look: impl FnOnce(&Self) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.judge(process, call, path)? {
            Verdict::Go | Verdict::Crash | Verdict::Deceive(_) => look(self),
            Verdict::Fail(fault) => Err(fault.error()),
        }
    }

    /// An operation that is done or not, nothing between.
    pub(super) fn change<T>(
        &mut self,
        process: u64,
        (call, path): (Call, &Path),
        change: impl FnOnce(&mut Disk) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.judge(process, call, path)? {
            Verdict::Go | Verdict::Deceive(_) => change(&mut self.disk),
            Verdict::Crash => change(&mut self.disk).and(Err(down())),
            Verdict::Fail(fault) => Err(fault.error()),
        }
    }

    pub(super) fn create_file(&mut self, process: u64, path: &Path) -> io::Result<NodeId> {
        self.change(process, (Call::Create, path), |disk| disk.create(path, Node::File(Cached::default())))
    }
}
