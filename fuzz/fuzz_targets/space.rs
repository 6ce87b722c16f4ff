//! The target `space` of `spinney_testkit::fuzz` for libFuzzer.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| spinney_testkit::fuzz::run("space", input));
