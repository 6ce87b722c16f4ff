//! A set of three on simulated machines, by virtual time and from a seed: messages are lost and late, members are cut
//! off and lose power, clients write and read registers meanwhile.
//!
//! `SPINNEY_REPLICA_SEEDS` says how many seeds are run, a thread for each core, `SPINNEY_REPLICA_SEED` which is the
//! first.

mod history;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use history::check;
use spinney_testkit::engine::panic_message;
use spinney_testkit::parallel;
use world::{regain, run};

/// The seed that is the first of all.
fn first() -> u64 {
    parallel::count_from_env("SPINNEY_REPLICA_SEED", 1)
}

#[test]
fn acknowledged_writes_are_kept_and_registers_are_linearizable() {
    let seeds = first()..first() + parallel::count_from_env("SPINNEY_REPLICA_SEEDS", 500);
    parallel::each(seeds, |seed| {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
        let checked = match &outcome {
            Ok(outcome) => check(outcome),
            Err(panic) => Err(panic_message(&**panic).to_owned()),
        };
        let replay = format!("replay: SPINNEY_REPLICA_SEED={seed} SPINNEY_REPLICA_SEEDS=1");
        checked.map_err(|error| format!("seed {seed}: {error}\n{replay}"))
    })
    .unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn a_primary_that_regains_its_majority_in_its_term_applies_first_what_it_has_proposed() {
    (1..4).for_each(regain);
}

#[test]
fn a_seed_replays_its_run() {
    let seed = first();
    let (first, second) = (run(seed), run(seed));
    let differs = first.operations.iter().zip(&second.operations).find(|(first, second)| first != second);
    assert_eq!(differs, None, "the operations of seed {seed}");
    assert_eq!(first.operations.len(), second.operations.len(), "the operations of seed {seed}");
}
