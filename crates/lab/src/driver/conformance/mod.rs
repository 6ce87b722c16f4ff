//! What every driver must do, as checks that any engine can be put through.
//!
//! Keys have 1 to 500 bytes, since some engines take no more and none takes an empty one.

mod ground;
mod opening;
mod reads;
mod transactions;
mod views;
mod writes;

use super::engine::Engine;
use super::lacks::{Lacks, unless_lacking};
use anyhow::{Result, bail};
use ground::Ground;
use std::path::Path;

/// A check of a driver.
#[derive(Clone, Copy)]
struct Check {
    /// What is true of a driver that passes.
    name: &'static str,
    /// An engine may answer with [`Lacks`].
    may_lack: bool,
    run: fn(&Ground<'_>) -> Result<()>,
}

const CHECKS: &[Check] = &[
    must("what is put is got", writes::what_is_put_is_got),
    must("changes of a batch apply in their order", writes::changes_apply_in_order),
    must("small and large keys and values come back", writes::sizes),
    may("a batch of two tables is seen whole", writes::batches_are_seen_whole),
    must("scans visit what a model has", reads::scans),
    may("a read of many keys finds what single reads find", reads::many_keys),
    may("a view stays as others write, and moves on", views::stays_and_moves_on),
    may("a transaction sees its own writes, and nobody else does", transactions::isolated),
    may("a rollback leaves nothing", transactions::rollback),
    may("reads in a transaction match a model", transactions::model),
    may("transactions of two threads lose no update", transactions::threads),
    must("what was synced is there after a reopen", opening::reopen),
    must("the store's verbs do no harm", opening::verbs),
    must("every durability opens or is lacking", opening::durabilities),
];

const fn must(name: &'static str, run: fn(&Ground<'_>) -> Result<()>) -> Check {
    Check { name, may_lack: false, run }
}

const fn may(name: &'static str, run: fn(&Ground<'_>) -> Result<()>) -> Check {
    Check { name, may_lack: true, run }
}

/// Puts an engine through all checks, with databases in new directories below `dir`, which exists. Returns the checks
/// that it had no way to do, with what it lacks.
///
/// # Errors
/// All checks that failed, by name, and how.
pub fn conformance(engine: &dyn Engine, dir: &Path) -> Result<Vec<(&'static str, Lacks)>> {
    let (mut lacking, mut failed) = (Vec::new(), Vec::new());
    for (number, check) in CHECKS.iter().enumerate() {
        let ground = Ground { engine, dir: dir.join(format!("{}-{number}", engine.name())) };
        match unless_lacking((check.run)(&ground)) {
            Ok(Ok(())) => {}
            Ok(Err(lacks)) if check.may_lack => lacking.push((check.name, lacks)),
            Ok(Err(lacks)) => failed.push(format!("{}: {lacks}", check.name)),
            Err(error) => failed.push(format!("{}: {error:#}", check.name)),
        }
    }
    if failed.is_empty() {
        return Ok(lacking);
    }
    bail!("{} does not conform:\n  {}", engine.name(), failed.join("\n  "))
}
