//! Targets for fuzzing: each takes any bytes to one of the engine's decoders, and panics when a promise is broken.
//! [`suite`] runs targets of other crates too.
//!
//! The same functions serve libFuzzer (`fuzz/`, by `cargo xtask fuzz`) and a plain test, which runs them over the seeds
//! in `fuzz/seeds/` and over mutations of those ([`Inputs`]).
//!
//! Checksums keep mutated bytes from the code behind them, so a target reads its input twice: as it is, and sealed anew
//! (`seal`).

mod block;
mod btree;
mod log;
mod manifest;
mod mutate;
mod record;
mod run;
mod seal;
mod small;
mod space;
mod sparse;
pub mod suite;
mod target;
mod values;

pub use mutate::{Inputs, Mutate, bytes};
pub use target::Target;

/// A target whose inputs are bytes.
const fn target(name: &'static str, run: fn(&[u8]) -> bool, seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds, mutate: bytes }
}

/// The engine's targets. Those of the command, the documents and the server lie beside what they test.
pub const TARGETS: [Target; 8] = [
    target("block", block::run, block::seeds),
    target("btree", btree::run, btree::seeds),
    target("log", log::run, log::seeds),
    target("manifest", manifest::run, manifest::seeds),
    target("record", record::run, record::seeds),
    target("run", run::run, run::seeds),
    target("space", space::run, space::seeds),
    target("values", values::run, values::seeds),
];

/// Takes an input to the target of a name.
///
/// # Panics
/// When there is none, or a promise is broken.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a name of a target");
    (target.run)(input);
}
