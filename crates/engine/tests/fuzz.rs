//! Every decoder gets its seeds and mutations of them: it never panics, and takes no memory that the bytes ask for.

#[path = "damage/memory.rs"]
mod memory;

use spinney_testkit::fuzz::{TARGETS, Target, suite};

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
    let share = |target: Target| SHARES.iter().find(|(name, _)| *name == target.name).expect("each has a share").1;
    suite::any_bytes_are_refused_or_read(TARGETS.map(|target| (target, share(target))), try_input);
}

#[test]
fn golden_seeds_are_read() {
    suite::golden_seeds_are_read(TARGETS, 200_000);
}

fn try_input(target: Target, input: &[u8]) -> Result<(), String> {
    let (done, bytes) = memory::peak_of(|| suite::caught(target, input));
    done?;
    if bytes > MEMORY_MAX_BYTES {
        return Err(format!("{bytes} bytes of memory for {} of input", input.len()));
    }
    Ok(())
}
