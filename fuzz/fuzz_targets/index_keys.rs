//! The target `index_keys` of the document database for libFuzzer, with its own mutations.

#![no_main]

#[path = "../../crates/document/tests/fuzz/targets/mod.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::run("index_keys", input));

libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    let len = targets::mutated("index_keys", data, size, max_size, seed);
    // What libFuzzer does to bytes, in the other half of the cases.
    if len == 0 { libfuzzer_sys::fuzzer_mutate(data, size, max_size) } else { len }
});
