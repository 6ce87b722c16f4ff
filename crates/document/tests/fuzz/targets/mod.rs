//! Targets for fuzzing over what clients of the document database send. `fuzz/` takes them to libFuzzer.
//!
//! The inputs of most are documents of BSON one behind the other: first a filter, an update or the like, then documents
//! that it is applied to. Their mutations change documents as trees, so that most inputs are still BSON.

mod bson;
mod commands;
mod json;
mod keys;
mod language;
mod seeds;
mod tree;

use spinney_document::bson::{Checks, DEPTH_MAX, Document, DocumentBuf};
use spinney_testkit::fuzz::{Target, bytes};

/// The targets, each with how many inputs it gets for one of the slowest.
pub(crate) const TARGETS: [(Target, u64); 11] = [
    (Target { name: "bson", run: bson::run, seeds: seeds::documents, mutate: either }, 60),
    (Target { name: "json", run: json::run, seeds: seeds::texts, mutate: bytes }, 40),
    (Target { name: "key_bytes", run: keys::bytes, seeds: seeds::keys, mutate: bytes }, 60),
    (Target { name: "key_order", run: keys::order, seeds: seeds::documents, mutate: tree::mutate }, 20),
    (Target { name: "index_keys", run: keys::of_index, seeds: seeds::indexes, mutate: tree::mutate }, 20),
    (Target { name: "filter", run: language::filter, seeds: seeds::filters, mutate: tree::mutate }, 20),
    (Target { name: "update", run: language::update, seeds: seeds::updates, mutate: tree::mutate }, 20),
    (Target { name: "projection", run: language::projection, seeds: seeds::projections, mutate: tree::mutate }, 20),
    (Target { name: "expression", run: language::expression, seeds: seeds::expressions, mutate: tree::mutate }, 20),
    (Target { name: "pipeline", run: language::pipeline, seeds: seeds::pipelines, mutate: tree::mutate }, 10),
    (Target { name: "commands", run: commands::run, seeds: seeds::commands, mutate: tree::mutate }, 1),
];

/// Takes an input to the target of a name.
#[allow(dead_code, reason = "only libFuzzer asks by name")]
pub(crate) fn run(name: &str, input: &[u8]) {
    let (target, _) = TARGETS.iter().find(|(target, _)| target.name == name).expect("a name of a target");
    (target.run)(input);
}

/// Changes an input of libFuzzer by the mutations of a target, every other time: its new length, or 0 for no change.
#[allow(dead_code, reason = "only libFuzzer brings its own bytes")]
pub(crate) fn mutated(name: &str, data: &mut [u8], size: usize, size_max: usize, seed: u32) -> usize {
    let mut rng = spinney_testkit::Rng::new(u64::from(seed));
    let (target, _) = TARGETS.iter().find(|(target, _)| target.name == name).expect("a name of a target");
    if rng.chance(50) {
        return 0;
    }
    let mut input = data[..size].to_vec();
    (target.mutate)(&mut input, &(target.seeds)(), &mut rng);
    let len = input.len().min(size_max);
    data[..len].copy_from_slice(&input[..len]);
    len
}

fn either(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut spinney_testkit::Rng) {
    if rng.chance(50) {
        bytes(input, seeds, rng);
    } else {
        tree::mutate(input, seeds, rng);
    }
}

/// The documents that an input is, up to the first bytes that are none; whether all are.
fn split(input: &[u8]) -> (Vec<Document<'_>>, bool) {
    let (mut rest, mut documents) = (input, Vec::new());
    while let Some(len) = rest.first_chunk().and_then(|len| usize::try_from(i32::from_le_bytes(*len)).ok()) {
        let Some((bytes, after)) = rest.split_at_checked(len) else { break };
        // As the server takes them.
        let Ok(document) = Document::parse_with(bytes, Checks { utf8: false, ..Checks::default() }) else { break };
        documents.push(document);
        rest = after;
    }
    (documents, rest.is_empty())
}

/// Any document that the library makes is one, however deep.
fn check_made(document: &DocumentBuf) {
    let checks = Checks { utf8: false, bytes_max: usize::MAX, depth_max: 8 * DEPTH_MAX };
    Document::parse_with(document.as_bytes(), checks).expect("what the library makes is BSON");
}
