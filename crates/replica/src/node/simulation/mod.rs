//! A set of three on simulated machines, by virtual time and from a seed: messages are lost and late, members are cut
//! off and lose power, clients write and read registers meanwhile.
//!
//! `SPINNEY_REPLICA_SEEDS` says how many seeds are run, `SPINNEY_REPLICA_SEED` which is the first.

mod history;
mod world;

use std::env;

use history::check;
use world::{regain, run};

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn acknowledged_writes_are_kept_and_registers_are_linearizable() {
    let first = number("SPINNEY_REPLICA_SEED", 1);
    for seed in first..first + number("SPINNEY_REPLICA_SEEDS", 3) {
        let outcome = run(seed);
        if let Err(error) = check(&outcome) {
            panic!("seed {seed}: {error}\nreplay: SPINNEY_REPLICA_SEED={seed} SPINNEY_REPLICA_SEEDS=1");
        }
    }
}

#[test]
fn a_primary_that_regains_its_majority_in_its_term_applies_first_what_it_has_proposed() {
    (1..4).for_each(regain);
}

#[test]
fn a_seed_replays_its_run() {
    let seed = number("SPINNEY_REPLICA_SEED", 1);
    let (first, second) = (run(seed), run(seed));
    let differs = first.operations.iter().zip(&second.operations).find(|(first, second)| first != second);
    assert_eq!(differs, None, "the operations of seed {seed}");
    assert_eq!(first.operations.len(), second.operations.len(), "the operations of seed {seed}");
}
