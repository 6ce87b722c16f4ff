//! After a crash at any change of the disk the database holds a prefix of its commits, with all that were acknowledged.

use spinney_testkit::crash::{self, Tally};
use spinney_testkit::parallel;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// From so many points on, every change of a workload is one; else every fourth is, so that fewer points still meet
/// many workloads.
const POINTS_OF_ALL: i64 = 10_000;

#[test]
fn every_crash_leaves_a_prefix_of_the_commits() {
    if let Ok(replay) = std::env::var("SPINNEY_SIM") {
        let (seed, point) = replay.split_once('@').expect("SPINNEY_SIM is seed@point");
        let (seed, point) = (seed.parse().expect("a number"), point.parse::<u64>().expect("a number"));
        let tally = crash::run(seed, move |now| now == point).unwrap_or_else(|message| panic!("{message}"));
        assert_eq!(tally.crashes, 1, "the workload of seed {seed} has no change {point}");
        return;
    }
    let points = i64::try_from(parallel::count_from_env("SPINNEY_CRASH_POINTS", 20_000)).expect("a small number");
    static LEFT: AtomicI64 = AtomicI64::new(0);
    LEFT.store(points, Ordering::Relaxed);
    let total = Mutex::new(Tally::default());
    let from = parallel::count_from_env("SPINNEY_CRASH_FROM", 0);
    let seeds = (from..).take_while(|_| LEFT.load(Ordering::Relaxed) > 0);
    let stride = if points < POINTS_OF_ALL { 4 } else { 1 };
    let last = AtomicU64::new(from);
    let run = |seed: u64| {
        last.fetch_max(seed, Ordering::Relaxed);
        let takes = move |point: u64| (point + seed).is_multiple_of(stride) && LEFT.fetch_sub(1, Ordering::Relaxed) > 0;
        let tally = crash::run(seed, takes)?;
        total.lock().expect("nobody panics here").add(tally);
        Ok(())
    };
    parallel::each(seeds, run).unwrap_or_else(|message| panic!("{message}"));
    let total = total.into_inner().expect("nobody panics here");
    eprintln!("seeds {from} to {}: {total:?}", last.load(Ordering::Relaxed));
    assert_eq!(i64::try_from(total.crashes), Ok(points));
    let reached = [total.process_crashes, total.lost, total.kept, total.in_recovery];
    assert!(points < 1000 || reached.iter().all(|count| *count > 0), "{total:?}");
}
