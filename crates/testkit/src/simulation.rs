//! Deterministic simulation: clients, background work and faults, all in one thread and all drawn from one seed.
//!
//! A run is a list of steps. Clients are the slots of [`crate::ops`]: they hold transactions, snapshots and scans open
//! while others go on. Background work goes on a step at a time, between the steps of the clients. What goes wrong goes
//! wrong in the middle of both.
//!
//! # Invariants
//! 1. What an operation gives is what the model gives, or an error that a fault explains.
//! 2. After a crash the invariants of [`crate::crash`] hold; after an error the database goes on, or refuses writes
//!    until it is opened again.
//! 3. Of damaged files it tells, or they do no harm: what is read is right, or a corruption.
//! 4. When the faults stop, everything that is pending ends, and commits go through.
//! 5. The same steps make the same calls.

use crate::config::Config;
use crate::crash::{PATH, Progress, TABLES, Tally, World, live, lock};
use crate::engine;
use crate::engine::Engine;
use crate::fault::{settle, tells_poison};
use crate::history;
use crate::ops::{Leave, Op, generate};
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::subject::Subject;
use spinney::Durability;
use spinney::env::sim::{Fault, SimEnv};
use std::fmt;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// How many operations a run has.
const OPS: usize = 160;

/// So many scans of a table of two trees pay for their merge.
const READS: usize = 6000;

/// Background work must be done after so many steps.
const WORK_MAX: u64 = 10_000;

/// What happens next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A client does something.
    Op(Op),
    /// A worker that was woken does a step: that which the number takes.
    Work(u64),
    /// Time passes, in milliseconds.
    Time(u64),
    /// The machine stops at the change of its disk after so many more, and what survives is drawn from the number
    /// behind it.
    Crash(u64, u64),
    /// The call after so many more fails, and, if it lasts, all later ones, until somebody meets it.
    Fail(u64, Fault, bool),
    /// A read of blocks is wrong once.
    Flip,
    /// Only so many more bytes fit the disk, until somebody meets that.
    Space(u64),
    /// A table is read so often that its reads pay for merges.
    Read(usize),
    /// A copy of the machine is damaged, in a way that the number decides.
    Damage(u64),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Op(op) => op.fmt(f),
            other => write!(f, "{other:?}"),
        }
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// A hash over all calls of the file system, their bytes and results.
    pub hash: u64,
    /// Calls of the file system.
    pub calls: u64,
    /// Crashes, those inside recovery among them.
    pub crashes: u64,
    /// Crashes inside recovery.
    pub second_crashes: u64,
    /// Operations that failed, after which the database went on.
    pub passing: u64,
    /// Times the database was poisoned.
    pub poisons: u64,
    /// Full disks that were refused, after which the database went on.
    pub full: u64,
    /// Damaged copies that were told of.
    pub damaged: u64,
    /// Keys that a filter let pass in vain.
    pub filter_misses: u64,
}

impl Summary {
    /// Adds what another run came to.
    pub fn add(&mut self, other: Self) {
        self.hash ^= other.hash;
        self.calls += other.calls;
        self.crashes += other.crashes;
        self.second_crashes += other.second_crashes;
        self.passing += other.passing;
        self.poisons += other.poisons;
        self.full += other.full;
        self.damaged += other.damaged;
        self.filter_misses += other.filter_misses;
    }
}

/// The steps of a seed. Each seed has odds of its own for what goes wrong.
#[must_use]
pub fn steps(seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed ^ 0x51b0);
    let odds: Vec<_> = (0..7).map(|_| *rng.pick(&[0, 0, 1, 2, 4])).collect();
    let works = *rng.pick(&[0, 1, 3]);
    let mut steps = Vec::new();
    let config = Config::random(&mut Rng::new(seed));
    for op in generate(seed, TABLES, OPS).into_iter().map(|op| config.fit(op)) {
        if matches!(op, Op::LoadBelow(..)) {
            // It is several commits, of which a fault may leave the first ones.
            continue;
        }
        steps.push(Step::Op(op));
        steps.extend((0..rng.in_range(0..works + 1)).map(|_| Step::Work(rng.number())));
        let few = |rng: &mut Rng, end: u64| rng.number() % end;
        for (kind, odds) in odds.iter().enumerate().filter(|(_, odds)| **odds > 0) {
            if !rng.chance(*odds) {
                continue;
            }
            if kind == 1 && rng.chance(30) {
                // What a merge reads then comes from the disk, and not from the cache.
                steps.push(Step::Op(Op::Reopen(Leave::Close)));
                steps.push(Step::Fail(few(&mut rng, 30), Fault::Error(ErrorKind::Other), false));
                steps.push(Step::Op(Op::Compact(rng.in_range(0..TABLES))));
                continue;
            }
            steps.push(match kind {
                0 => Step::Crash(few(&mut rng, 60), rng.number()),
                1 => Step::Fail(few(&mut rng, 80), fault(&mut rng), rng.chance(30)),
                2 => Step::Flip,
                3 => Step::Space(few(&mut rng, 400 << 10)),
                4 => Step::Damage(rng.number()),
                5 => Step::Read(rng.in_range(0..TABLES)),
                _ => Step::Time(few(&mut rng, 3000)),
            });
        }
    }
    steps
}

fn fault(rng: &mut Rng) -> Fault {
    *rng.pick(&[
        Fault::Error(ErrorKind::Other),
        Fault::NoSpace,
        Fault::ShortWrite,
        Fault::SyncLost,
        Fault::TooManyFiles,
    ])
}

/// Runs the steps on the machine of a seed.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64, steps: &[Step]) -> Result<Summary, String> {
    let run = catch_unwind(AssertUnwindSafe(|| Simulation::new(seed)?.run(steps)));
    run.unwrap_or_else(|panic| Err(format!("panicked: {}", engine::panic_message(&*panic))))
}

/// What is wrong with a seed, with as few steps as still show it, and the command that replays it.
#[must_use]
pub fn explain(seed: u64, message: &str) -> String {
    let short = history::shorten(&steps(seed), |steps| run(seed, steps).is_err());
    let shown = run(seed, &short).err().unwrap_or_else(|| message.to_owned());
    let lines: Vec<_> = short.iter().map(ToString::to_string).collect();
    let config = Config::random(&mut Rng::new(seed));
    format!(
        "seed {seed}, {}: {message}\n{:?}\n{:?}\nshortened to\n{}\nwhich fails with\n{shown}\nreplay: cargo xtask sim {seed}",
        config.name,
        config.options,
        config.table,
        lines.join("\n")
    )
}

struct Simulation {
    sim: SimEnv,
    config: Config,
    /// Nothing only while it is opened again.
    engine: Option<Engine>,
    progress: Mutex<Progress>,
    rng: Rng,
    /// A sync may drop what it should keep.
    loses_syncs: bool,
    /// Something was planned that may fail an operation.
    is_troubled: bool,
    summary: Summary,
    tally: Tally,
}

impl Simulation {
    fn new(seed: u64) -> Result<Self, String> {
        let (sim, config) = (SimEnv::new(seed), Config::random(&mut Rng::new(seed)));
        sim.set_lazy_workers(!seed.is_multiple_of(4));
        sim.begin_trace();
        let engine = Engine::open(Path::new(PATH), sim.env(), &config, TABLES);
        Ok(Self {
            sim,
            engine: Some(engine.map_err(|error| format!("creating the database: {error}"))?),
            config,
            progress: Mutex::new(Progress::new()),
            rng: Rng::new(seed ^ 0x0dd5),
            loses_syncs: false,
            is_troubled: false,
            summary: Summary::default(),
            tally: Tally::default(),
        })
    }

    fn run(mut self, steps: &[Step]) -> Result<Summary, String> {
        for (index, step) in steps.iter().enumerate() {
            self.step(step).map_err(|message| format!("step {index}: {step}\n{message}"))?;
        }
        self.end().map_err(|message| format!("at the end: {message}"))?;
        let trace = self.sim.end_trace();
        let calls = u64::try_from(trace.calls.len()).expect("calls fit in memory");
        let (crashes, second_crashes) = (self.tally.crashes, self.tally.in_recovery);
        Ok(Summary { hash: trace.hash, calls, crashes, second_crashes, ..self.summary })
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("there is an engine between steps")
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Op(op) => return self.op(op),
            Step::Work(choice) => drop(self.sim.work(*choice)),
            Step::Time(ms) => self.sim.advance(Duration::from_millis(*ms)),
            Step::Crash(later, seed) => {
                self.rng = Rng::new(*seed);
                self.sim.crash_at(self.sim.write_and_sync_count() + later);
                self.is_troubled = true;
            }
            Step::Fail(later, fault, lasts) => {
                let at = self.sim.op_count() + later;
                if *lasts {
                    self.sim.fail_from(at, *fault)
                } else {
                    self.sim.fail_at(at, *fault)
                }
                self.is_troubled = true;
                self.loses_syncs |= *fault == Fault::SyncLost;
            }
            Step::Flip => {
                self.sim.fail_next(Fault::FlippedRead, is_of_blocks);
                self.is_troubled = true;
            }
            Step::Space(bytes) => {
                self.sim.set_free(*bytes);
                self.is_troubled = true;
            }
            Step::Read(table) => self.read(*table)?,
            Step::Damage(seed) => return self.damage(*seed),
        }
        self.look_after()
    }

    fn op(&mut self, op: &Op) -> Result<(), String> {
        // Dropping tells nobody that the log could not be written, and that commits which were not acknowledged as
        // durable are gone; and see [`World::lost_sync`].
        let tells_nothing = *op == Op::Reopen(Leave::Drop) && self.is_troubled;
        if tells_nothing || (matches!(op, Op::Reopen(_)) && self.loses_syncs) {
            self.recover(false)?;
        }
        let before = lock(&self.progress).model.version();
        let engine = self.engine.as_mut().expect("there is an engine between steps");
        match live(op, engine, &self.progress) {
            Ok(()) => self.look_after(),
            Err(message) if self.is_troubled && !message.contains("panicked") => self.failed(before, &message),
            Err(message) => Err(message),
        }
    }

    /// Scans the first entry of a table again and again. What it is, other operations find out.
    fn read(&mut self, table: usize) -> Result<(), String> {
        let is_troubled = self.is_troubled;
        if !self.engine().is_open() {
            return Ok(());
        }
        match self.engine().read_often(table, READS) {
            Err(error) if !is_troubled => Err(format!("a scan failed: {error}")),
            _ => Ok(()),
        }
    }

    /// Finds out whether the machine stopped or the database was poisoned in the background.
    fn look_after(&mut self) -> Result<(), String> {
        if !self.is_troubled {
            return Ok(());
        }
        let is_poisoned = tells_poison(&self.engine().apply(&Op::Write(Vec::new(), None)));
        if self.sim.is_down() || is_poisoned { self.recover(is_poisoned) } else { Ok(()) }
    }

    /// An operation failed that may fail; the model was at `before`, and has done it.
    fn failed(&mut self, before: u64, message: &str) -> Result<(), String> {
        if self.sim.is_down() || !self.engine().is_open() {
            return self.recover(false);
        }
        let kinds = ["Io: ", "Full: ", "Poisoned: ", "Corruption: "];
        // A verification lists what it met.
        let is_met = [": at offset ", "injected fault"].iter().any(|words| message.contains(words));
        let is_found = message.starts_with("verify") && is_met;
        if !is_found && !kinds.iter().any(|kind| message.contains(&format!("failed: {kind}"))) {
            return Err(message.to_owned());
        }
        let is_poisoned = tells_poison(&self.engine().apply(&Op::Write(Vec::new(), None)));
        // The question may have met a stop that was planned: an open that found no room is finished by the next write.
        if self.sim.is_down() || is_poisoned {
            return self.recover(is_poisoned);
        }
        self.heal();
        let engine = self.engine.as_mut().expect("there is an engine between steps");
        settle(engine, &mut lock(&self.progress), before).map_err(|wrong| format!("{message}\n{wrong}"))?;
        self.summary.passing += 1;
        self.summary.full += u64::from(message.contains("Full: "));
        Ok(())
    }

    /// The process dies or the power fails, and the database is opened again.
    fn recover(&mut self, was_poisoned: bool) -> Result<(), String> {
        self.summary.poisons += u64::from(was_poisoned);
        self.count();
        let was_down = self.sim.is_down();
        let (rng, lost_sync) = (self.rng.fork(), self.loses_syncs);
        self.heal();
        let mut world = World { rng, lost_sync, ..World::new(self.sim.clone(), &self.config, 0) };
        let recovered = world.crash_of(self.engine.take(), &mut lock(&self.progress));
        self.engine = Some(recovered.map_err(|message| format!("{}{message}", world.story))?);
        self.tally.add(world.tally);
        self.tally.crashes += u64::from(was_down);
        Ok(())
    }

    /// Nothing fails any more.
    fn heal(&mut self) {
        self.sim.clear_faults();
        self.sim.crash_at(u64::MAX);
        self.sim.set_space(u64::MAX);
        (self.is_troubled, self.loses_syncs) = (false, false);
    }

    /// Takes the counters of the database over before it goes.
    fn count(&mut self) {
        if let Some(engine) = self.engine.as_ref().filter(|engine| engine.is_open()) {
            self.summary.filter_misses += engine.database().stats().reads.get_filter_misses;
        }
    }

    /// Damages a copy of the machine, and lets it go on.
    fn damage(&mut self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let (sim, progress) = (self.sim.fork(), lock(&self.progress).clone());
        sim.set_space(u64::MAX);
        let deceit = *rng.pick(&[None, Some(Fault::LostWrite), Some(Fault::MisdirectedWrite), Some(Fault::StaleRead)]);
        match deceit {
            Some(fault) => sim.fail_next(fault, is_of_blocks),
            None => flip(&sim, &mut rng),
        }
        let told = self.damaged(&sim, progress, &mut rng);
        let told = told.map_err(|message| format!("damaged by {deceit:?}: {message}"))?;
        self.summary.damaged += u64::from(told);
        Ok(())
    }

    /// Whether a damaged machine told of the damage; it may instead give what is right.
    fn damaged(&self, sim: &SimEnv, mut progress: Progress, rng: &mut Rng) -> Result<bool, String> {
        let mut engine = match Engine::open(Path::new(PATH), sim.env(), &self.config, TABLES) {
            Ok(engine) => engine,
            Err(error) => return is_corruption(&format!("{:?}: {error}", error.kind())),
        };
        let state = match engine.state() {
            Ok(state) => state,
            Err(error) => return is_corruption(&format!("{:?}: {error}", error.kind())),
        };
        let mut versions = (progress.written..=progress.model.version()).rev();
        let version = versions.find(|version| progress.model.state_at(*version) == state);
        progress.recovered(version.ok_or("wrong entries")?);
        let progress = Mutex::new(progress);
        for op in generate(rng.number(), TABLES, 15).into_iter().map(|op| self.config.fit(op)) {
            let verifies = op == Op::Verify;
            match live(&op, &mut engine, &progress) {
                Ok(()) => {}
                Err(_) if verifies => return Ok(true),
                Err(message) => return is_corruption(&message),
            }
        }
        let found = engine.apply(&Op::Verify);
        Ok(found != Outcome::Done)
    }

    /// The faults stop: everything that is pending ends, and the database works.
    fn end(&mut self) -> Result<(), String> {
        self.look_after()?;
        if self.is_troubled {
            // A stop that was planned would still come.
            self.recover(false)?;
        }
        self.engine().wait_idle().map_err(|error| format!("waiting for the background: {error}"))?;
        let mut left = WORK_MAX;
        while self.sim.work(left) {
            left = left.checked_sub(1).ok_or("background work never ends")?;
        }
        let end = [
            Op::Write(Vec::new(), Some(Durability::Sync)),
            Op::Sync,
            Op::Verify,
            Op::Checkpoint,
            Op::Reopen(Leave::Close),
            Op::Verify,
            Op::Checkpoint,
        ];
        self.count();
        let engine = self.engine.as_mut().expect("there is an engine between steps");
        let done = history::compare(&end, &mut lock(&self.progress).model, engine);
        self.engine = None;
        done.map(drop).map_err(|divergence| divergence.to_string())
    }
}

/// Whether a file holds blocks or values.
fn is_of_blocks(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "run" || extension == "tree" || extension == "values")
}

/// Flips a bit of a file of blocks, if there is one with bytes.
fn flip(sim: &SimEnv, rng: &mut Rng) {
    let entries = sim.env().fs.list(Path::new(PATH)).unwrap_or_default();
    let paths: Vec<_> = entries.into_iter().filter(|entry| entry.bytes > 0).collect();
    let paths: Vec<_> = paths.iter().filter(|entry| is_of_blocks(Path::new(&entry.name))).collect();
    if !paths.is_empty() {
        let entry = rng.pick(&paths);
        let damaged =
            sim.corrupt(Path::new(PATH).join(&entry.name), rng.number() % entry.bytes, 1 << rng.in_range(0..8));
        damaged.expect("the file is there and as long as it was");
    }
}

/// Whether an error tells of damage, or takes a damaged version of the format for a newer one; anything else is wrong.
fn is_corruption(message: &str) -> Result<bool, String> {
    let is_told = ["Corruption: ", "Unsupported: "].iter().any(|kind| message.contains(kind));
    let is_told = is_told || (message.contains("Poisoned: ") && message.contains("at offset"));
    if is_told && !message.contains("panicked") { Ok(true) } else { Err(message.to_owned()) }
}
