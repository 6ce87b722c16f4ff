//! The command's JSON lines for libFuzzer.

#![no_main]

#[path = "../../crates/cli/src/load/fuzzed.rs"]
mod fuzzed;
#[path = "../../crates/cli/src/load/key.rs"]
mod key;
#[path = "../../crates/cli/src/load/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    fuzzed::run(input);
});
