//! Clients, background work, crashes, failing calls, full and damaged disks, all drawn from a seed, leave nothing wrong
//! and nothing pending.

use spinney::base::CoveragePoint;
use spinney_testkit::parallel;
use spinney_testkit::simulation::{self, Summary};
use std::sync::Mutex;

/// How many seeds are run unless more are asked for: enough to reach every event.
const SEEDS: u64 = 400;

#[test]
fn every_seed_ends_well_and_all_events_are_reached() {
    if let Ok(seed) = std::env::var("SPINNEY_SIM") {
        let seed = seed.parse().expect("SPINNEY_SIM is a number");
        let steps = simulation::steps(seed);
        steps.iter().enumerate().for_each(|(index, step)| eprintln!("{index:4} {step}"));
        let summary = simulation::run(seed, &steps);
        eprintln!("{:#?}", summary.unwrap_or_else(|message| panic!("{}", simulation::explain(seed, &message))));
        return;
    }
    let from = parallel::count_from_env("SPINNEY_SIM_FROM", 0);
    let seeds = parallel::count_from_env("SPINNEY_SIM_SEEDS", SEEDS);
    let total = Mutex::new(Summary::default());
    let run = |seed| {
        let summary = simulation::run(seed, &simulation::steps(seed));
        let summary = summary.map_err(|message| simulation::explain(seed, &message))?;
        total.lock().expect("nobody panics here").add(summary);
        Ok(())
    };
    parallel::each((0..seeds).map(|seed| from.wrapping_add(seed)), run).unwrap_or_else(|message| panic!("{message}"));
    let total = total.into_inner().expect("nobody panics here");
    eprintln!("{seeds} seeds from {from} on: {total:?}");
    if seeds < SEEDS {
        return;
    }
    let missed: Vec<_> = CoveragePoint::EVERY.into_iter().filter(|event| !event.is_reached()).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
    let Summary { second_crashes, passing, poisons, full, damaged, filter_misses, .. } = total;
    let reached = [second_crashes, passing, poisons, full, damaged, filter_misses];
    assert!(reached.iter().all(|count| *count > 0), "{total:?}");
}

#[test]
fn the_same_seed_makes_the_same_calls() {
    let mut hashes = Vec::new();
    for seed in 0..20 {
        let steps = simulation::steps(seed);
        let run = || simulation::run(seed, &steps).unwrap_or_else(|message| panic!("seed {seed}: {message}"));
        let (first, second) = (run(), run());
        assert_eq!(first, second, "seed {seed}");
        hashes.push(first.hash);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 20, "different seeds make different calls");
}
