//! The command's JSON lines for libFuzzer.

#![no_main]

#[path = "../../crates/cli/src/escape.rs"]
mod escape;
#[path = "../../crates/cli/src/load/fields.rs"]
mod fields;
#[path = "../../crates/cli/src/load/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/cli/src/load/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzed::run(input);
});
