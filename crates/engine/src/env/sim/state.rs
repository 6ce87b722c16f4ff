//! The whole simulated machine: its disk, its clock, its faults, and the process that runs on it.

use super::cached::Cached;
use super::crash::{CrashProfile, power_crash};
use super::disk::{Disk, Node, NodeId};
use super::fault::{Effect, Faults, Verdict, down};
use super::rng::Rng;
use super::{SimEnv, SimWorker};
use crate::base::sync::Mutex;
use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::Weak;
use std::time::Duration;

/// Called before each change with a fork of the machine.
pub(super) type Observer = Box<dyn FnMut(SimEnv) + Send>;

/// What all handles on one machine share.
pub(super) struct Machine {
    pub(super) state: Mutex<State>,
    /// Workers that still exist, in the order they were made.
    pub(super) workers: Mutex<Vec<Weak<SimWorker>>>,
}

/// The state of a machine.
pub(super) struct State {
    pub(super) disk: Disk,
    pub(super) faults: Faults,
    /// Decides what survives a crash.
    pub(super) rng: Rng,
    /// What [`super::super::Random`] gives; apart from `rng`, so that asking for an id does not change what survives.
    pub(super) random: Rng,
    /// Time since the machine was made.
    pub(super) now: Duration,
    /// Whether direct files are direct.
    pub(super) direct: bool,
    /// Counts processes: what an earlier one opened is dead.
    pub(super) process: u64,
    /// Locked files.
    pub(super) locks: BTreeSet<NodeId>,
    pub(super) observer: Option<Observer>,
    /// Reads that were made together with others.
    pub(super) batched_reads: u64,
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let random = Rng::new(rng.next());
        Self {
            disk: Disk::new(),
            faults: Faults::default(),
            rng,
            random,
            now: Duration::ZERO,
            direct: true,
            process: 0,
            locks: BTreeSet::new(),
            observer: None,
            batched_reads: 0,
        }
    }

    /// The same machine once more, just after its process died.
    pub(super) fn fork(&self) -> Self {
        let mut disk = self.disk.clone();
        disk.close_all_handles();
        Self {
            disk,
            faults: self.faults.fork(),
            rng: self.rng.clone(),
            random: self.random.clone(),
            now: self.now,
            direct: self.direct,
            process: self.process + 1,
            locks: BTreeSet::new(),
            observer: None,
            batched_reads: 0,
        }
    }

    /// Ends the process; the machine, if it had stopped, is up again.
    pub(super) fn process_crash(&mut self) {
        self.process += 1;
        self.locks.clear();
        self.disk.close_all_handles();
        self.faults.is_down = false;
        self.faults.crash_at = None;
    }

    pub(super) fn power_crash(&mut self, profile: CrashProfile) {
        power_crash(&mut self.disk, profile, &mut self.rng);
        self.process_crash();
    }

    /// Fails for a process that is gone or a machine that has stopped.
    pub(super) fn check(&self, process: u64) -> io::Result<()> {
        if process != self.process {
            return Err(io::Error::other("this process has crashed: take a new Env from SimEnv::env()"));
        }
        self.faults.check_up()
    }

    /// Counts an operation and says what becomes of it.
    pub(super) fn judge(&mut self, process: u64, effect: Effect) -> io::Result<Verdict> {
        self.check(process)?;
        if effect == Effect::Change
            && let Some(mut observer) = self.observer.take()
        {
            observer(SimEnv::of(self.fork()));
            self.observer = Some(observer);
        }
        self.faults.judge(effect)
    }

    /// An operation that changes nothing.
    pub(super) fn look<T>(&mut self, process: u64, look: impl FnOnce(&Self) -> io::Result<T>) -> io::Result<T> {
        match self.judge(process, Effect::Look)? {
            Verdict::Go | Verdict::Crash => look(self),
            Verdict::Fail(fault) => Err(fault.error()),
        }
    }

    /// An operation that is done or not, nothing between.
    pub(super) fn change<T>(&mut self, process: u64, change: impl FnOnce(&mut Disk) -> io::Result<T>) -> io::Result<T> {
        match self.judge(process, Effect::Change)? {
            Verdict::Go => change(&mut self.disk),
            Verdict::Crash => change(&mut self.disk).and(Err(down())),
            Verdict::Fail(fault) => Err(fault.error()),
        }
    }

    pub(super) fn create_file(&mut self, process: u64, path: &Path) -> io::Result<NodeId> {
        self.change(process, |disk| disk.create(path, Node::File(Cached::default())))
    }
}
