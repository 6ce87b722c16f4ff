//! Targets for fuzzing: each takes any bytes to one of the engine's decoders, and panics when a promise is broken.
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
mod values;

pub use mutate::Inputs;

/// A decoder under test.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of the directory of its seeds.
    pub name: &'static str,
    /// Takes an input; says whether all of it was decoded, as it is or sealed.
    ///
    /// # Panics
    /// When a promise is broken.
    pub run: fn(&[u8]) -> bool,
    /// Inputs that are decoded: made from small databases.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All targets but that of the command's input, which lies beside what it tests.
pub const TARGETS: [Target; 8] = [
    Target { name: "block", run: block::run, seeds: block::seeds },
    Target { name: "btree", run: btree::run, seeds: btree::seeds },
    Target { name: "log", run: log::run, seeds: log::seeds },
    Target { name: "manifest", run: manifest::run, seeds: manifest::seeds },
    Target { name: "record", run: record::run, seeds: record::seeds },
    Target { name: "run", run: run::run, seeds: run::seeds },
    Target { name: "space", run: space::run, seeds: space::seeds },
    Target { name: "values", run: values::run, seeds: values::seeds },
];

/// Takes an input to the target of a name.
///
/// # Panics
/// When there is none, or a promise is broken.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|target| target.name == name).expect("a name of a target");
    (target.run)(input);
}
