//! The target `compressed` of the server for libFuzzer.

#![no_main]

#[path = "../../crates/server/tests/fuzz/targets.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::run("compressed", input));
