//! Targets as plain tests: all of their seeds, and mutations of those by number.

use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::mutate::Inputs;
use super::target::Target;
use crate::{engine, parallel};

/// Takes inputs to targets, to each as many for one of the slowest as it is given with: `SPINNEY_FUZZ` of that, 1,000
/// unless told, from the number `SPINNEY_FUZZ_FROM` on. `SPINNEY_FUZZ_ONLY` names the only target. `attempt` runs a
/// target with an input; [`caught`] is one.
///
/// # Panics
/// When an input breaks a promise, with the target's name and the number of the input.
pub fn any_bytes_are_refused_or_read(
    targets: impl IntoIterator<Item = (Target, u64)>,
    attempt: impl Fn(Target, &[u8]) -> Result<(), String> + Sync,
) {
    let share = parallel::count_from_env("SPINNEY_FUZZ", 1000);
    let first = parallel::count_from_env("SPINNEY_FUZZ_FROM", 0);
    let only = std::env::var("SPINNEY_FUZZ_ONLY").ok();
    let targets = targets.into_iter().filter(|(target, _)| only.as_ref().is_none_or(|it| it == target.name));
    let targets: Vec<_> = targets.map(|(target, times)| (target, stored(target), times)).collect();
    let mut cases = Vec::new();
    for (target, seeds, times) in &targets {
        let count = share * times;
        let part = count.div_ceil(32);
        cases.extend((0..32).map(|n| (*target, seeds, first + n * part..first + ((n + 1) * part).min(count))));
    }
    let done = AtomicU64::new(0);
    let run = |(target, seeds, numbers): (Target, &Vec<Vec<u8>>, Range<u64>)| {
        let inputs = Inputs::with(seeds, target.mutate);
        numbers.into_iter().try_for_each(|number| {
            // A count, by which nothing is published.
            done.fetch_add(1, Ordering::Relaxed);
            attempt(target, &inputs.input(number)).map_err(|message| format!("{} {number}: {message}", target.name))
        })
    };
    parallel::each(cases, run).unwrap_or_else(|message| panic!("{message}"));
    eprintln!("{} inputs", done.into_inner());
}

/// Runs a target; what its panic says.
///
/// # Errors
/// The message of the panic.
pub fn caught(target: Target, input: &[u8]) -> Result<(), String> {
    let done = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    done.map(drop).map_err(|panic| engine::panic_message(&*panic).to_owned())
}

/// All stored seeds are read to their end; with `SPINNEY_GOLDEN=rewrite` new ones are made before.
///
/// # Panics
/// When a seed is refused, a target has none, or they take `bytes_max` or more.
pub fn golden_seeds_are_read(targets: impl IntoIterator<Item = Target>, bytes_max: usize) {
    let (mut bytes, mut refused) = (0, Vec::new());
    for target in targets {
        if std::env::var("SPINNEY_GOLDEN").is_ok_and(|mode| mode == "rewrite") {
            let dir = dir(target);
            drop(fs::remove_dir_all(&dir));
            fs::create_dir_all(&dir).expect("the repository can be written");
            for (number, seed) in (target.seeds)().iter().enumerate() {
                fs::write(dir.join(format!("{number:02}")), seed).expect("the repository can be written");
            }
        }
        let seeds = stored(target);
        assert!(!seeds.is_empty(), "{}: no seeds", target.name);
        for (number, seed) in seeds.iter().enumerate() {
            bytes += seed.len();
            if !(target.run)(seed) {
                refused.push(format!("{number} of {}", target.name));
            }
        }
    }
    assert!(refused.is_empty(), "seeds are refused: {}; cargo xtask golden makes new ones", refused.join(", "));
    assert!(bytes < bytes_max, "{bytes} bytes of seeds");
}

fn dir(target: Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target.name)
}

/// The seeds in the repository.
fn stored(target: Target) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(dir(target)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable directory").path()).collect();
    paths.sort();
    paths.into_iter().map(|path| fs::read(path).expect("a readable file")).collect()
}
