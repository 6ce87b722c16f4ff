//! Failing calls of the file system, each by itself, and what a database must make of them.
//!
//! A workload runs once to trace its calls. Then it runs once more for each call, each fault that can strike that call,
//! and each of the two ways to fail: once, or from then on. So the list of cases is complete.
//!
//! # Invariants
//! What must hold after a call failed:
//! 1. The operation that met it gives an error that says what failed, or did without; it never gives wrong data and
//!    never panics.
//! 2. The database refuses all writes until it is opened again if a write or sync of log, manifest or data failed,
//!    and goes on rightly if something else did.
//! 3. After the next open, with or without a crash before, no acknowledged commit is missing (see [`crate::crash`]).

use crate::config::Config;
use crate::crash::{PATH, Progress, TABLES, World, identify, live, lock};
use crate::engine;
use crate::engine::Engine;
use crate::ops::{Change, Leave, Op, Write, generate_writes};
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::subject::Subject;
use spinney::env::sim::{Call, Fault, SimEnv};
use spinney::{Durability, Layout};
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// How many operations a workload has.
const OPS: usize = 40;

/// The workloads: a layout, an option set, and the seed of the operations.
const WORKLOADS: [(Layout, &str, u64); 5] = [
    (Layout::BTree, "tiny-everything", 0),
    (Layout::Lsm, "tiny-values-apart", 1),
    (Layout::LsmTiered, "tiny-everything", 2),
    (Layout::BTree, "tiny-log", 3),
    (Layout::Lsm, "tiny-memtables", 4),
];

/// What strikes.
const FAULTS: [Fault; 5] =
    [Fault::Error(ErrorKind::Other), Fault::NoSpace, Fault::ShortWrite, Fault::SyncLost, Fault::TooManyFiles];

/// What of a workload meets the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The workload itself, from the making of the database on.
    Live,
    /// The recovery from a power failure at its end.
    Recovery,
}

/// What came of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// Nobody was told: it could be done without.
    Nothing,
    /// The database could not be opened.
    Open,
    /// A call failed, and the database took writes again afterwards.
    Passing,
    /// The database took no writes until it was opened again.
    Poison,
}

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The number of the workload.
    pub workload: usize,
    /// What meets the fault.
    pub phase: Phase,
    /// The number of the call that fails, from the beginning of the phase.
    pub at: u64,
    /// The call that fails first.
    pub call: (Call, PathBuf),
    /// How it fails.
    pub fault: Fault,
    /// Whether later ones do, too.
    pub lasts: bool,
    /// The call reads back what was written just before, which is part of the writing.
    reads_back: bool,
}

/// How many workloads there are.
#[must_use]
pub const fn workloads() -> usize {
    WORKLOADS.len()
}

/// A workload about to run, or about to be recovered: each case begins with a copy of it.
#[derive(Debug)]
pub struct Workload {
    number: usize,
    phase: Phase,
    start: Run,
}

impl Workload {
    /// The workload of a number.
    ///
    /// # Errors
    /// What failed, without any fault.
    pub fn new(number: usize, phase: Phase) -> Result<Self, String> {
        let (layout, set, seed) = WORKLOADS[number];
        let (sim, config, progress) = (SimEnv::new(seed), Config::named(layout, set), Mutex::new(Progress::new()));
        let mut start = Run { sim, config, phase: Phase::Live, seed, lasts: false, progress };
        if phase == Phase::Recovery {
            start.play()?;
            World::new(start.sim.clone(), &start.config, seed).power_failure(&mut lock(&start.progress));
            start.phase = phase;
        }
        Ok(Self { number, phase, start })
    }

    /// All cases.
    ///
    /// # Errors
    /// What failed, without any fault.
    pub fn cases(&self) -> Result<Vec<Case>, String> {
        let run = self.start.fork();
        run.sim.begin_trace();
        let played = run.play()?;
        if played.met != Met::Nothing {
            return Err(format!("workload {}, {:?}: {:?} without a fault", self.number, self.phase, played.met));
        }
        let mut cases = Vec::new();
        let calls = run.sim.end_trace().calls;
        let numbers = 0..played.calls - self.start.sim.op_count();
        for ((index, call), at) in calls.iter().enumerate().zip(numbers) {
            let before = &calls[..index];
            // Its name is not durable yet.
            let mut written = before.iter().rev().take_while(|(before, _)| *before != Call::SyncDir);
            let reads_back = written.any(|before| *before == (Call::Sync, call.1.clone()));
            for fault in FAULTS.into_iter().filter(|fault| fault.can_strike(call.0)) {
                for lasts in [false, true] {
                    let (workload, phase, call) = (self.number, self.phase, call.clone());
                    cases.push(Case { workload, phase, at, call, fault, lasts, reads_back });
                }
            }
        }
        Ok(cases)
    }

    /// Runs a case.
    ///
    /// # Errors
    /// What was wrong.
    pub fn run(&self, case: &Case) -> Result<Met, String> {
        let run = Run { lasts: case.lasts, ..self.start.fork() };
        let at = run.sim.op_count() + case.at;
        if case.lasts {
            run.sim.fail_from(at, case.fault);
        } else {
            run.sim.fail_at(at, case.fault);
        }
        let met = catch_unwind(AssertUnwindSafe(|| run.examine(case)));
        let met = met.unwrap_or_else(|panic| Err(format!("panicked: {}", engine::panic_message(&*panic))));
        met.map_err(|message| format!("{case:?}, {}:\n{message}", run.config.name))
    }
}

/// A machine and what it has promised.
#[derive(Debug)]
struct Run {
    sim: SimEnv,
    config: Config,
    phase: Phase,
    seed: u64,
    /// All calls fail from the first on: which of them is told is not said.
    lasts: bool,
    progress: Mutex<Progress>,
}

impl Run {
    fn fork(&self) -> Self {
        let (sim, config, progress) = (self.sim.fork(), self.config.clone(), lock(&self.progress).clone());
        Self { sim, config, phase: self.phase, seed: self.seed, lasts: false, progress: Mutex::new(progress) }
    }

    /// Plays the phase to its end, or until the database takes no writes any more.
    fn play(&self) -> Result<Played, String> {
        let opened = Engine::open(Path::new(PATH), self.sim.env(), &self.config, TABLES);
        let mut engine = match opened {
            Ok(engine) => engine,
            Err(error) => {
                self.is_told(&format!("failed: {:?}: {error}", error.kind()))?;
                return Ok(self.played(Met::Open, None));
            }
        };
        if self.phase == Phase::Recovery {
            let met = self.health(&mut engine)?;
            let played = self.played(met, None);
            self.sim.clear_faults();
            let mut progress = lock(&self.progress);
            let version = identify(&engine, &progress.model, progress.durable)?;
            progress.recovered(version);
            return Ok(played);
        }
        let (mut met, mut at, in_open) = (Met::Nothing, None, self.sim.struck().is_some());
        for op in operations(self.seed) {
            let (before, durable) = {
                let progress = lock(&self.progress);
                (progress.model.version(), progress.durable)
            };
            let lived = live(&op, &mut engine, &self.progress);
            if let Err(message) = &lived {
                self.is_told(message)?;
            }
            if self.sim.struck().is_some() {
                if op == Op::Reopen(Leave::Drop) && at.is_none() && lived.is_ok() {
                    // Dropping tells nobody that the log could not be written: commits that were not acknowledged as
                    // durable may be gone.
                    self.sim.clear_faults();
                    let mut progress = lock(&self.progress);
                    let version = identify(&engine, &progress.model, durable)?;
                    progress.recovered(version);
                }
                met = met.max(match lived {
                    Err(_) => self.after_failure(&mut engine, before)?,
                    Ok(()) => self.health(&mut engine)?,
                });
                at.get_or_insert(op);
            }
            if matches!(met, Met::Open | Met::Poison) {
                break;
            }
        }
        drop(engine);
        Ok(Played { in_open, ..self.played(met, at) })
    }

    fn played(&self, met: Met, at: Option<Op>) -> Played {
        Played { met, at, in_open: false, calls: self.sim.op_count() }
    }

    /// Plays the phase with a fault, and examines what is left.
    fn examine(&self, case: &Case) -> Result<Met, String> {
        let played = self.play()?;
        if self.sim.struck().as_ref() != Some(&case.call) {
            return Err(format!("another call than before: {:?}", self.sim.struck()));
        }
        self.sim.clear_faults();
        let current = self.sim.read_file(Path::new(PATH).join("CURRENT")).unwrap_or_default();
        case.check(&played, &String::from_utf8_lossy(&current))?;
        let lost_sync = case.fault == Fault::SyncLost;
        let mut world = World { lost_sync, ..World::new(self.sim.clone(), &self.config, self.seed ^ case.at) };
        world.crash(&mut lock(&self.progress)).map_err(|message| format!("{}{message}", world.story))?;
        Ok(played.met)
    }

    /// Whether the database takes writes, while the fault may last.
    fn health(&self, engine: &mut Engine) -> Result<Met, String> {
        match engine.apply(&Op::Write(Vec::new(), None)) {
            Outcome::Done => Ok(Met::Nothing),
            found if tells_poison(&found) => self.is_told(&found.to_string()).map(|()| Met::Poison),
            found => Err(format!("neither works nor poisoned: {found}")),
        }
    }

    /// Finds out what the database does after a call that failed, when nothing fails any more; `before` is the model's
    /// version before it.
    fn after_failure(&self, engine: &mut Engine, before: u64) -> Result<Met, String> {
        if !engine.is_open() {
            return Ok(Met::Open);
        }
        if self.health(engine)? == Met::Poison {
            return Ok(Met::Poison);
        }
        self.sim.clear_faults();
        settle(engine, &mut lock(&self.progress), before)?;
        Ok(Met::Passing)
    }

    /// An error must tell of the call that failed, and name a file; a panic or wrong data is none.
    fn is_told(&self, message: &str) -> Result<(), String> {
        let is_error = ["Io: ", "Full: ", "Poisoned: "].iter().any(|kind| message.contains(&format!("failed: {kind}")));
        let is_named = ["injected fault", "Too many open files"].iter().any(|words| message.contains(words));
        match self.sim.struck() {
            Some((_, path))
                if is_error && is_named && (self.lasts || message.contains(&*database_of(&path).to_string_lossy())) =>
            {
                Ok(())
            }
            struck => Err(format!("not told, after {struck:?} failed: {message}")),
        }
    }
}

/// Random operations, and in the end compactions of many runs that find nothing in the cache: what a merge reads comes
/// from the disk.
fn operations(seed: u64) -> Vec<Op> {
    let mut rng = Rng::new(seed);
    let mut ops = generate_writes(seed, TABLES, OPS);
    // It is several commits, of which a fault may leave the first ones.
    ops.retain(|op| !matches!(op, Op::LoadBelow(..)));
    for table in 0..TABLES {
        ops.push(Op::Load(table, (0..60).map(|number| (vec![b'l', number], rng.bytes(300))).collect()));
        let change = |number| Change { table, key: vec![b'l', number], write: Write::Put(rng.bytes(300)) };
        ops.push(Op::Write((0..60).step_by(7).map(change).collect(), None));
        ops.push(Op::Flush(table));
    }
    ops.extend([Op::Reopen(Leave::Close), Op::Compact(0), Op::Compact(1)]);
    ops
}

/// Brings the model to what the database holds after an operation that failed and left it working: it was done or not,
/// nothing between.
///
/// # Errors
/// When it was done in part, or the database does not work.
pub(crate) fn settle(engine: &mut Engine, progress: &mut Progress, before: u64) -> Result<(), String> {
    engine.drop_slots();
    engine.renew_tables().map_err(|error| format!("creating a table again: {error}"))?;
    let probe = Change { table: 0, key: b"after the failure".to_vec(), write: Write::Put(b"works".to_vec()) };
    let probe = Op::Write(vec![probe], Some(Durability::Sync));
    let found = engine.apply(&probe);
    if found != Outcome::Done {
        return Err(format!("neither works nor poisoned after the failure: {probe}: {found}"));
    }
    let mut without = progress.model.clone();
    without.rewind(before);
    without.apply(&probe);
    let newest = progress.model.version();
    progress.model.rewind(newest);
    progress.model.apply(&probe);
    let state = engine.state().map_err(|error| format!("reading after a failure that went by: {error}"))?;
    if state == without.state_at(without.version()) {
        progress.model = without;
    } else if state != progress.model.state_at(progress.model.version()) {
        return Err("the failed operation was done in part".to_owned());
    }
    let version = progress.model.version();
    progress.recovered(version);
    Ok(())
}

pub(crate) fn tells_poison(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(message) if message.contains("takes no more until it is reopened"))
}

/// The directory of the database that a path is in, or of its copy.
fn database_of(path: &Path) -> PathBuf {
    path.components().take(2).collect()
}

/// How a phase went.
struct Played {
    met: Met,
    /// The operation in which the fault struck first, if the database was open.
    at: Option<Op>,
    /// It struck while the database was opened, which may be finished later.
    in_open: bool,
    /// How many calls the machine had seen at the end.
    calls: u64,
}

impl Case {
    /// Compares what came of the fault with what must. A read fails nothing but itself. A failed write or sync of log,
    /// manifest or data fails the database, but for that of a bulk load or a copy, to which nothing refers yet, and of
    /// a close, after which nothing comes; and that of the manifest's second file, on which nothing depends, fails
    /// nothing.
    fn check(&self, played: &Played, current: &str) -> Result<(), String> {
        use Call::{List, Lock, Read, Remove, Sync, SyncDir, Write, WriteDurable};
        // The drop of an open database reports nothing: that is what `close` is for.
        let is_untold = matches!(played.at, Some(Op::Reopen(Leave::Drop))) && played.met == Met::Nothing;
        let is_apart = is_untold || matches!(played.at, None | Some(Op::Load(..) | Op::Checkpoint));
        // An open for which there was no room is finished later.
        let is_of_open = played.in_open || matches!(played.at, Some(Op::Reopen(_)));
        let is_log = self.call.1.parent().is_some_and(|dir| dir.ends_with("log"));
        let name = self.call.1.file_name().unwrap_or_default().to_string_lossy();
        let is_manifest = name.ends_with(".manifest") && current.contains(&*name);
        let is_second = self.call.1.extension().is_some_and(|extension| extension == "manifest-copy");
        // Nothing refers to it before it is whole and has its name.
        let is_spare = name.ends_with(".spare.new");
        let right = match self.call.0 {
            _ if is_second => self.lasts || played.met != Met::Poison,
            List | Lock | Read | Remove if !self.lasts && !self.reads_back => played.met != Met::Poison,
            // Without space too: what was to be synced may be gone.
            Sync if (is_log || is_manifest) && !is_spare && !is_apart && !is_of_open => {
                matches!(played.met, Met::Poison | Met::Open)
            }
            SyncDir | Sync | Write | WriteDurable if self.fault != Fault::NoSpace && !is_apart => {
                matches!(played.met, Met::Poison | Met::Open)
            }
            _ => true,
        };
        if right {
            Ok(())
        } else {
            Err(format!("{:?}, in {:?}", played.met, played.at.as_ref().map(ToString::to_string)))
        }
    }
}
