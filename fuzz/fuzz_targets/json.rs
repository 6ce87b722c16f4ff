//! The target `json` of the document database for libFuzzer.

#![no_main]

#[path = "../../crates/document/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::run("json", input));
