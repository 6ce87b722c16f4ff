//! A set of three to five on simulated machines, by virtual time and from a seed: messages are lost and late, members
//! lose power, also within calls to the disk, links are cut by direction. Clients run commands of the document database
//! meanwhile: retryable writes to registers, which are linearizable; transactions that move between accounts, once
//! and whole; reads at a time at any member, which see one state; changes of collections and indexes. What has a limit
//! of time ends with it. After the last fault a member takes writes within seconds, each call is answered, no lock is
//! held, all members have the same, and each collection is valid.
//!
//! `SPINNEY_REPLICA_SEEDS` says how many seeds are run, a thread for each core, `SPINNEY_REPLICA_SEED` which is the
//! first.

mod client;
mod graphs;
mod history;
mod life;
mod limits;
mod member;
mod network;
mod turns;
mod workers;
mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use graphs::Graph;
use history::check;
use life::{regain, run};
use spinney_testkit::engine::panic_message;
use spinney_testkit::parallel;

/// The seed that is the first of all.
fn first() -> u64 {
    parallel::count_from_env("SPINNEY_REPLICA_SEED", 1)
}

#[test]
fn acknowledged_writes_are_kept_and_registers_are_linearizable() {
    let seeds = first()..first() + parallel::count_from_env("SPINNEY_REPLICA_SEEDS", 1000);
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
fn a_primary_that_regains_its_majority_applies_first_what_it_has_proposed() {
    (1..4).for_each(regain);
}

#[test]
fn what_waits_for_a_lost_majority_ends_by_its_limit_of_time() {
    (1..3).for_each(limits::check);
}

#[test]
fn a_seed_replays_its_run() {
    let seed = first();
    let (first, second) = (run(seed), run(seed));
    let differs = first.operations.iter().zip(&second.operations).find(|(first, second)| first != second);
    assert_eq!(differs, None, "the operations of seed {seed}");
    assert_eq!(first.operations.len(), second.operations.len(), "the operations of seed {seed}");
}

#[test]
#[expect(clippy::print_stdout, reason = "it also says what it found of graphs that promise nothing")]
fn writes_go_on_wherever_a_majority_is_connected() {
    let graphs = [Graph::all(3, true), Graph::all(4, true), Graph::all(5, true), Graph::all(3, false)].concat();
    // All of them when there is time; else some others with each first seed.
    let wanted = parallel::count_from_env("SPINNEY_REPLICA_GRAPHS", 150);
    let all = u64::try_from(graphs.len()).unwrap();
    let (hubs, going_on) = (AtomicU64::new(0), AtomicU64::new(0));
    let chosen = (0..wanted.min(all)).map(|number| (first() + number * all / wanted.min(all)) % all);
    parallel::each(chosen, |number| {
        let graph = &graphs[usize::try_from(number).unwrap()];
        let checked = catch_unwind(AssertUnwindSafe(|| graphs::check(number, graph)));
        let checked = checked.unwrap_or_else(|panic| Err(panic_message(&*panic).to_owned()));
        let goes_on = checked.map_err(|error| format!("graph {number}: {error}"))?;
        if graph.has_only_hubs() {
            hubs.fetch_add(1, Ordering::Relaxed);
            going_on.fetch_add(u64::from(goes_on), Ordering::Relaxed);
        }
        Ok(())
    })
    .unwrap_or_else(|error| panic!("{error}"));
    let (hubs, going_on) = (hubs.into_inner(), going_on.into_inner());
    println!("one member alone reaches a majority: writes went on within 5 s in {going_on} of {hubs} graphs");
}
