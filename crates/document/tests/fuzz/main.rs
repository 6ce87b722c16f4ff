//! Every reader of what clients send gets its seeds and mutations of them: it refuses or reads, and never panics.

mod amplified;
mod children;
mod growing;
mod levels;
mod long;
mod memory;
mod targets;

use spinney_testkit::fuzz::suite;

#[test]
fn any_bytes_are_refused_or_read() {
    suite::any_bytes_are_refused_or_read(targets::TARGETS, suite::caught);
}

#[test]
fn golden_seeds_are_read() {
    suite::golden_seeds_are_read(targets::TARGETS.map(|(target, _)| target), 200_000);
}
