//! Every reader of what comes by a connection gets its seeds and mutations of them: it refuses or reads, never panics,
//! and takes no memory that the bytes ask for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../../../engine/tests/damage/memory.rs"]
mod memory;
mod targets;

use spinney_testkit::fuzz::{Target, suite};

/// What a target may take. A compressed body grows to what it names, 48 MB at most, and its buffer to twice that; the
/// windows of the decompressors are not counted, since they are taken by C.
const MEMORY_MAX_BYTES: isize = 128 << 20;

#[test]
fn any_bytes_are_refused_or_read() {
    suite::any_bytes_are_refused_or_read(targets::TARGETS, attempt);
}

#[test]
fn golden_seeds_are_read() {
    suite::golden_seeds_are_read(targets::TARGETS.map(|(target, _)| target), 50_000);
}

fn attempt(target: Target, input: &[u8]) -> Result<(), String> {
    let (done, bytes) = memory::peak_of(|| suite::caught(target, input));
    done?;
    if bytes > MEMORY_MAX_BYTES {
        return Err(format!("{bytes} bytes of memory for {} of input", input.len()));
    }
    Ok(())
}
