//! Every decoder gets its seeds and mutations of them: it never panics, and takes no memory that the bytes ask for.

#[path = "damage/memory.rs"]
mod memory;

use spinney_testkit::fuzz::{Inputs, TARGETS, Target};
use spinney_testkit::{engine, parallel};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// What a target may take: its copies of the input, caches, and the windows in which logs are read.
const MEMORY_MAX_BYTES: isize = 24 << 20;

/// How many inputs a target gets for each that the slowest gets.
const SHARES: [(&str, u64); 8] = [
    ("block", 60),
    ("btree", 2),
    ("log", 1),
    ("manifest", 10),
    ("record", 60),
    ("run", 2),
    ("space", 20),
    ("values", 4),
];

#[test]
fn any_bytes_are_refused_or_read() {
    let share = parallel::count_from_env("SPINNEY_FUZZ", 1000);
    let first = parallel::count_from_env("SPINNEY_FUZZ_FROM", 0);
    let mut cases = Vec::new();
    for target in TARGETS {
        let count = share * SHARES.iter().find(|(name, _)| *name == target.name).expect("each has a share").1;
        let part = count.div_ceil(32);
        cases.extend((0..32).map(|n| (target, first + n * part..first + ((n + 1) * part).min(count))));
    }
    let run = |(target, numbers): (Target, std::ops::Range<u64>)| {
        let seeds = stored(target);
        let inputs = Inputs::new(&seeds);
        numbers.into_iter().try_for_each(|number| {
            try_input(target, &inputs.input(number)).map_err(|message| format!("{} {number}: {message}", target.name))
        })
    };
    parallel::each(cases, run).unwrap_or_else(|message| panic!("{message}"));
}

#[test]
fn golden_seeds_are_read() {
    let mut bytes = 0;
    for target in TARGETS {
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
            assert!(
                (target.run)(seed),
                "seed {number} of {} is refused: cargo xtask golden makes new ones",
                target.name
            );
        }
    }
    assert!(bytes < 200_000, "{bytes} bytes of seeds");
}

// ---------------------------------------------------------------------------------------------------------------------

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

fn try_input(target: Target, input: &[u8]) -> Result<(), String> {
    let (done, bytes) = memory::peak_of(|| catch_unwind(AssertUnwindSafe(|| (target.run)(input))));
    match done {
        Err(panic) => Err(engine::panic_message(&*panic).to_owned()),
        Ok(_) if bytes > MEMORY_MAX_BYTES => Err(format!("{bytes} bytes of memory for {} of input", input.len())),
        Ok(_) => Ok(()),
    }
}
