//! Crashes at every change of the disk, and what must be left after each.
//!
//! A workload runs once on a simulated machine. Before each change of its disk the machine is forked, and the fork
//! crashes, recovers and is examined while the workload waits. So every write, sync, rename and removal is a crash
//! point, and a run costs little.
//!
//! # Invariants
//! What must hold after each crash:
//! 1. All tables together hold the state after some commit M: a prefix of the commits, nothing else, nothing in part.
//! 2. M is not before the last commit that was acknowledged as surviving that crash.
//! 3. `verify` finds nothing, and the database goes on as the model does from M, through another crash too.

use crate::config::Config;
use crate::engine::Engine;
use crate::model::Model;
use crate::ops::{Leave, Op, generate_writes};
use crate::outcome::Outcome;
use crate::rng::Rng;
use crate::subject::Subject;
use crate::{engine, history};
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Durability, Layout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const TABLES: usize = 2;
pub(crate) const PATH: &str = "/db";

/// How many operations a workload has.
const OPS: usize = 80;

/// How many operations follow a crash.
const OPS_AFTER: usize = 12;

/// What was reached, so that a test can tell that it tested something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Crashes that were examined.
    pub crashes: u64,
    /// Crashes of the process only.
    pub process_crashes: u64,
    /// Crashes that took commits back.
    pub lost: u64,
    /// Crashes that kept commits which were not acknowledged as durable.
    pub kept: u64,
    /// Crashes inside recovery.
    pub in_recovery: u64,
    /// Acknowledgements after which everything that they promised was found durable at once.
    pub proofs: u64,
}

impl Tally {
    /// Adds another tally.
    pub fn add(&mut self, other: Self) {
        self.crashes += other.crashes;
        self.process_crashes += other.process_crashes;
        self.lost += other.lost;
        self.kept += other.kept;
        self.in_recovery += other.in_recovery;
        self.proofs += other.proofs;
    }
}

/// How far a workload has come; the observer of the machine looks at it in the middle of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// With the operation that runs.
    pub(crate) model: Model,
    /// The last version acknowledged as surviving a power loss.
    pub(crate) durable: u64,
    /// The last version acknowledged as surviving the end of the process.
    pub(crate) written: u64,
    /// The operation that runs.
    op: String,
    tally: Tally,
    failure: Option<String>,
}

impl Progress {
    /// Nothing was done yet.
    pub(crate) fn new() -> Self {
        Self {
            model: Model::new(TABLES),
            durable: 0,
            written: 0,
            op: "create the database".to_owned(),
            tally: Tally::default(),
            failure: None,
        }
    }

    /// Goes back to what was found durable.
    pub(crate) fn recovered(&mut self, version: u64) {
        self.model.rewind(version);
        (self.durable, self.written) = (version, version);
    }
}

/// Runs the workload of a seed and crashes it at all points, counted in changes of the disk, that `takes` picks.
///
/// # Errors
/// What was wrong after the first crash at which something was wrong, and how to replay it.
pub fn run(seed: u64, mut takes: impl FnMut(u64) -> bool + Send + 'static) -> Result<Tally, String> {
    let (sim, mut work) = (SimEnv::new(seed), Rng::new(!seed));
    // Half of them leave memtables sealed, and runs uncompacted, while commits go on.
    sim.set_lazy_workers(seed.is_multiple_of(2));
    let config = config_of(seed);
    let progress = Arc::new(Mutex::new(Progress::new()));
    let (seen, seen_config) = (Arc::clone(&progress), config.clone());
    sim.observe(Some(Box::new(move |fork| {
        let point = fork.write_and_sync_count();
        if takes(point) {
            observe(fork, seed, point, &seen_config, &mut lock(&seen));
        }
    })));
    let started = Engine::open(Path::new(PATH), sim.env(), &config, TABLES);
    let mut engine =
        started.map_err(|error| format!("seed {seed}, {}: creating the database: {error}", config.name))?;
    for op in generate_writes(seed, TABLES, OPS).into_iter().map(|op| config.fit(op)) {
        let durable = lock(&progress).durable;
        if work.chance(40) {
            let _has_worked = sim.work(work.number());
        }
        live(&op, &mut engine, &progress).map_err(|message| format!("seed {seed}, {}: {message}", config.name))?;
        let mut progress = lock(&progress);
        if progress.durable > durable {
            let mut world = World::new(sim.fork(), &config, seed);
            world.prove(&progress).map_err(|message| {
                format!("seed {seed}, {}, acknowledged before it was durable: {op}\n{message}", config.name)
            })?;
            progress.tally.add(world.tally);
        }
        if progress.failure.is_some() {
            break;
        }
    }
    // Dropping the database changes the disk too.
    drop(engine);
    let mut progress = lock(&progress);
    progress.failure.take().map_or(Ok(progress.tally), Err)
}

/// Layouts take turns, and so do option sets that make much happen within few operations.
pub(crate) fn config_of(seed: u64) -> Config {
    let mut rng = Rng::new(seed);
    let layout = *rng.pick(&[Layout::BTree, Layout::Lsm, Layout::LsmTiered]);
    let set = *rng.pick(&[
        "tiny-everything",
        "tiny-everything",
        "tiny-values-apart",
        "tiny-values-apart",
        "tiny-memtables",
        "tiny-log",
        "fanout-2",
        "filtered",
        "time-to-live",
        "plain",
    ]);
    let mut config = Config { merges: rng.chance(50), ..Config::named(layout, set) };
    config.options.compaction_threads = *rng.pick(&[1, 4]);
    config
}

/// Examines one crash, and notes what was wrong.
fn observe(fork: SimEnv, seed: u64, point: u64, config: &Config, progress: &mut Progress) {
    if progress.failure.is_some() {
        return;
    }
    let rng = Rng::new(seed ^ point.wrapping_mul(0x2545_f491_4f6c_dd1d));
    let mut world = World { rng, ..World::new(fork, config, seed) };
    let examined = catch_unwind(AssertUnwindSafe(|| world.examine(progress.clone())));
    let examined = examined.unwrap_or_else(|panic| Err(format!("panicked: {}", engine::panic_message(&*panic))));
    progress.tally.add(world.tally);
    if let Err(message) = examined {
        progress.failure = Some(format!(
            "seed {seed}, {}, crash before change {point}, during: {}\n{}{message}\nreplay: cargo xtask sim {seed}@{point}",
            config.name, progress.op, world.story
        ));
    }
}

/// Applies an operation to both, compares, and notes what was acknowledged.
pub(crate) fn live(op: &Op, engine: &mut Engine, progress: &Mutex<Progress>) -> Result<(), String> {
    let (before, expected) = {
        let mut progress = lock(progress);
        progress.op = op.to_string();
        (progress.model.version(), progress.model.apply(op))
    };
    let found = engine.apply(op);
    if found != expected {
        return Err(format!("{op}\n  expected {expected}\n  found    {found}"));
    }
    let mut progress = lock(progress);
    let version = progress.model.version();
    let committed = version > before;
    let durability = op.durability().map(|own| own.unwrap_or(engine.config().options.durability));
    match durability {
        Some(Durability::Sync) if committed => (progress.durable, progress.written) = (version, version),
        Some(Durability::Buffered) if committed => progress.written = version,
        Some(_) => {}
        // What recovery found is durable before the first read.
        // A load makes the commits before it durable too.
        None if matches!(op, Op::Load(..)) && !committed => {}
        None if matches!(
            op,
            Op::Sync | Op::Reopen(_) | Op::Load(..) | Op::LoadBelow(..) | Op::Recreate(_) | Op::RecreateAll
        ) =>
        {
            (progress.durable, progress.written) = (version, version)
        }
        None => {}
    }
    Ok(())
}

pub(crate) fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().expect("no thread panics while it holds the progress")
}

/// A forked machine on its way through crashes.
pub(crate) struct World<'a> {
    pub(crate) sim: SimEnv,
    pub(crate) config: &'a Config,
    pub(crate) rng: Rng,
    /// What happened, for a failure.
    pub(crate) story: String,
    pub(crate) tally: Tally,
    /// Whether a sync dropped what it should have kept: then a process that dies may lose what a power failure may.
    pub(crate) lost_sync: bool,
}

impl<'a> World<'a> {
    pub(crate) fn new(sim: SimEnv, config: &'a Config, seed: u64) -> Self {
        Self { sim, config, rng: Rng::new(seed), story: String::new(), tally: Tally::default(), lost_sync: false }
    }

    /// Crash, check, some more operations, crash, check.
    fn examine(&mut self, mut progress: Progress) -> Result<(), String> {
        self.tally.crashes += 1;
        let mut engine = self.crash(&mut progress)?;
        let shared = Mutex::new(progress);
        for op in generate_writes(self.rng.number(), TABLES, OPS_AFTER).into_iter().map(|op| self.config.fit(op)) {
            self.story += &format!("{op}\n");
            live(&op, &mut engine, &shared)?;
        }
        drop(engine);
        let mut progress = lock(&shared).clone();
        let mut engine = self.crash(&mut progress)?;
        let end = [Op::Write(Vec::new(), None), Op::Verify, Op::Reopen(Leave::Close), Op::Verify, Op::Checkpoint];
        history::compare(&end, &mut progress.model, &mut engine).map_err(|divergence| divergence.to_string())?;
        Ok(())
    }

    /// Crashes, recovers, and takes the model back to the commit that recovery found.
    pub(crate) fn crash(&mut self, progress: &mut Progress) -> Result<Engine, String> {
        self.crash_of(None, progress)
    }

    /// As [`Self::crash`], of a machine on which the database is open.
    pub(crate) fn crash_of(&mut self, running: Option<Engine>, progress: &mut Progress) -> Result<Engine, String> {
        let (mut oldest, newest) = (self.pull_the_plug(progress), progress.model.version());
        // What it still does, it does to files that it has no more.
        drop(running);
        let mut engine = self.recover(progress.durable, &mut oldest)?;
        let version = identify(&engine, &progress.model, oldest)?;
        self.tally.lost += u64::from(version < newest);
        self.tally.kept += u64::from(version > oldest);
        self.story += &format!("recovered commit {version}, of {oldest} acknowledged and {newest} begun\n");
        progress.recovered(version);
        if self.lost_sync || self.rng.chance(10) {
            // What recovery found is durable before the first read.
            let mut world = World::new(self.sim.fork(), self.config, self.rng.number());
            world.prove(progress).map_err(|message| format!("found, and not durable: {message}"))?;
        }
        match engine.apply(&Op::Verify) {
            Outcome::Done => Ok(engine),
            problems => Err(format!("verify after recovery: {problems}")),
        }
    }

    /// Ends the process or cuts the power; the oldest version that must survive it.
    fn pull_the_plug(&mut self, progress: &Progress) -> u64 {
        self.sim.reseed(self.rng.number());
        if self.rng.chance(if self.lost_sync { 60 } else { 15 }) {
            self.story += "the process dies\n";
            self.tally.process_crashes += 1;
            self.sim.process_crash();
            return if self.lost_sync { progress.durable } else { progress.written };
        }
        self.cut_the_power();
        progress.durable
    }

    /// What was acknowledged a moment ago is durable now: it must survive a power failure that takes everything else
    /// back.
    fn prove(&mut self, progress: &Progress) -> Result<(), String> {
        self.tally.proofs += 1;
        self.sim.power_crash(CrashProfile::Strict);
        let engine = Engine::open(Path::new(PATH), self.sim.env(), self.config, TABLES);
        let engine = engine.map_err(|error| format!("opening the database: {error}"))?;
        identify(&engine, &progress.model, progress.durable).map(drop)
    }

    /// Cuts the power, and leaves the machine without opening the database.
    pub(crate) fn power_failure(&mut self, progress: &mut Progress) {
        self.sim.reseed(self.rng.number());
        self.cut_the_power();
        progress.written = progress.durable;
    }

    fn cut_the_power(&mut self) {
        let profile = *self.rng.pick(&CrashProfile::EVERY);
        self.story += &format!("the power fails, {profile:?}\n");
        self.sim.power_crash(profile);
    }

    /// Opens the database; now and then the power fails meanwhile, up to three times. What then must survive is no more
    /// than what is `durable`, until the first recovery is through.
    fn recover(&mut self, durable: u64, oldest: &mut u64) -> Result<Engine, String> {
        let mut is_recovered = false;
        let open = |sim: &SimEnv| Engine::open(Path::new(PATH), sim.env(), self.config, TABLES);
        for _ in 0..3 {
            if !self.rng.chance(30) {
                break;
            }
            let later = u64::try_from(self.rng.in_range(0..40)).expect("below 40");
            self.sim.crash_at(self.sim.write_and_sync_count() + later);
            let opened = open(&self.sim);
            let crashed = self.sim.is_down();
            if let (false, Err(error)) = (crashed, &opened) {
                return Err(format!("opening the database: {error}"));
            }
            drop(opened);
            is_recovered |= !crashed;
            *oldest = if is_recovered { *oldest } else { durable };
            self.tally.in_recovery += u64::from(crashed);
            self.story += if crashed { "crashed in recovery\n" } else { "recovered before the next crash\n" };
            self.cut_the_power();
        }
        open(&self.sim).map_err(|error| format!("opening the database: {error}"))
    }
}

/// The commit after which the tables were as they are now, from `oldest` on.
pub(crate) fn identify(engine: &Engine, model: &Model, oldest: u64) -> Result<u64, String> {
    let state = engine.state().map_err(|error| format!("reading what is left: {error}"))?;
    let version = (oldest..=model.version()).rev().find(|version| model.state_at(*version) == state);
    version.ok_or_else(|| explain(&state, model, oldest))
}

/// How the state differs from the nearest commit that would be right.
fn explain(state: &[Vec<crate::outcome::Pair>], model: &Model, oldest: u64) -> String {
    use crate::outcome::{show, show_bytes};
    if let Some(version) = (0..oldest).rev().find(|version| model.state_at(*version) == state) {
        return format!("acknowledged commits are lost: only commit {version} is left of {oldest}");
    }
    let wrong = |version: u64| {
        let mut lines = Vec::new();
        for (table, (found, expected)) in state.iter().zip(model.state_at(version)).enumerate() {
            let extra = found.iter().filter(|pair| !expected.contains(pair)).map(|pair| ("found", pair));
            let missing = expected.iter().filter(|pair| !found.contains(pair)).map(|pair| ("expected", pair));
            for (what, (key, value)) in extra.chain(missing) {
                lines.push(format!("  {what} t{table} {} = {}\n", show_bytes(key), show(Some(value))));
            }
        }
        (lines.len(), version, lines)
    };
    let (_, version, lines) = (oldest..=model.version()).map(wrong).min().unwrap_or_default();
    format!(
        "the state is that of no commit from {oldest} to {}; nearest is {version}:\n{}",
        model.version(),
        lines.concat()
    )
}
