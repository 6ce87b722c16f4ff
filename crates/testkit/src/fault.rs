//! Failing operations of the file system, and what a database must make of them.
//!
//! # Invariants
//! What must hold after an operation of the file system failed, once or for good:
//! 1. The call that met it gives an error, or did without; it never gives wrong data and never panics.
//! 2. The database goes on rightly, or refuses all writes until it is opened again.
//! 3. After the next open, with or without a crash before, no acknowledged commit is missing (see [`crate::crash`]).

use crate::crash::{PATH, Progress, TABLES, Tally, World, config_of, live, lock};
use crate::history::Subject;
use crate::ops::{Change, Leave, Write, generate_writes};
use crate::{Engine, Op, Outcome, Rng, engine};
use spinney::Durability;
use spinney::env::sim::{Fault, SimEnv};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

/// How many operations a workload has.
const OPS: usize = 40;

/// What came of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Met {
    /// The workload ended without meeting it.
    Nothing,
    /// The database could not be opened.
    Open,
    /// A call failed, and the database took writes again afterwards.
    Passing,
    /// A call failed, and the database took no writes until it was opened again.
    Poison,
}

/// How many operations of the file system the workload of a seed has.
///
/// # Errors
/// What failed, without any fault.
pub fn count(seed: u64) -> Result<u64, String> {
    let sim = SimEnv::new(seed);
    match meet(seed, &sim)? {
        (Met::Nothing, count) => Ok(count),
        (met, _) => Err(format!("seed {seed}: {met:?} without a fault")),
    }
}

/// Runs the workload of a seed with a fault in the operation numbered `at` of the file system, and, if it `lasts`, in all later ones.
///
/// # Errors
/// What was wrong.
pub fn run(seed: u64, at: u64, fault: Fault, lasts: bool) -> Result<Met, String> {
    let sim = SimEnv::new(seed);
    if lasts {
        sim.fail_from(at, fault);
    } else {
        sim.fail_at(at, fault);
    }
    let met = catch_unwind(AssertUnwindSafe(|| meet(seed, &sim)));
    let met = met.unwrap_or_else(|panic| Err(format!("panicked: {}", engine::panic_message(&*panic))));
    met.map(|(met, _)| met).map_err(|message| {
        let lasts = if lasts { " for good" } else { "" };
        format!("seed {seed}, {}, operation {at} fails{lasts} with {fault:?}:\n{message}", config_of(seed).name)
    })
}

/// Runs the workload until it fails, and examines what is left. Says also how many operations of the file system there were before.
fn meet(seed: u64, sim: &SimEnv) -> Result<(Met, u64), String> {
    let config = config_of(seed);
    let mut world =
        World { sim: sim.clone(), config: &config, rng: Rng::new(seed), story: String::new(), tally: Tally::default() };
    let progress = Mutex::new(Progress::new());
    let mut met = Met::Nothing;
    match Engine::open(Path::new(PATH), sim.env(), &config, TABLES) {
        Err(_) => met = Met::Open,
        Ok(mut engine) => {
            for op in generate_writes(seed, TABLES, OPS) {
                let before = lock(&progress).model.version();
                // Dropping tells nobody that the database was poisoned by work in the background, and that commits which were not
                // acknowledged as durable may be gone; verifying tells of the files that the work left half written, until the next open.
                if matches!(op, Op::Reopen(Leave::Drop) | Op::Verify) && is_poisoned(&mut engine) {
                    met = Met::Poison;
                    break;
                }
                if let Err(message) = live(&op, &mut engine, &progress) {
                    world.story = format!("{message}\n");
                    is_error(&message)?;
                    sim.clear_faults();
                    met = after_failure(&mut engine, &mut lock(&progress), before)?;
                    break;
                }
            }
        }
    }
    let count = sim.op_count();
    sim.clear_faults();
    world.crash(&mut lock(&progress)).map_err(|message| format!("{}{message}", world.story))?;
    Ok((met, count))
}

/// Finds out what the database does after a call that failed, when nothing fails any more; `before` is the model's version before that call.
fn after_failure(engine: &mut Engine, progress: &mut Progress, before: u64) -> Result<Met, String> {
    if !engine.is_open() {
        return Ok(Met::Open);
    }
    let probe = Change { table: 0, key: b"after the failure".to_vec(), write: Write::Put(Vec::new()) };
    let probe = Op::Write(vec![probe], Some(Durability::Sync));
    match engine.apply(&probe) {
        Outcome::Done => {}
        found if tells_poison(&found) => return Ok(Met::Poison),
        found => return Err(format!("neither works nor poisoned after the failure: {probe}: {found}")),
    }
    // Writes go on, so the call that failed has done nothing, or all that it should.
    let mut without = progress.model.clone();
    without.rewind(before);
    without.apply(&probe);
    progress.model.apply(&probe);
    let state = engine.state().map_err(|error| format!("reading after a failure that went by: {error}"))?;
    if state == without.state_at(without.version()) {
        progress.model = without;
    } else if state != progress.model.state_at(progress.model.version()) {
        return Err("the failed call was done in part".to_owned());
    }
    progress.durable = progress.model.version();
    Ok(Met::Passing)
}

/// Whether the database takes no more writes.
fn is_poisoned(engine: &mut Engine) -> bool {
    tells_poison(&engine.apply(&Op::Write(Vec::new(), None)))
}

fn tells_poison(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(message) if message.starts_with("Poisoned: "))
}

/// An error is right; a panic or wrong data is not.
fn is_error(message: &str) -> Result<(), String> {
    let right = ["Io: ", "Full: ", "Poisoned: "].iter().any(|kind| message.contains(&format!("failed: {kind}")));
    if right { Ok(()) } else { Err(message.to_owned()) }
}
