//! What the tests of Spinney share: random operations, a model of what they must do, and ways to compare the two.
//!
//! A test draws operations from a seed ([`ops`]), applies them to an engine under some [`config`] and to the [`model`],
//! and compares every outcome ([`history`]). Because outcomes never tell how a table is laid out, every configuration
//! must give the same history. [`crash`] lets a simulated machine crash at every change of its disk, and checks what is
//! left; [`fault`] lets its operations fail; [`simulation`] does all of that at once. [`interrupt`] lets another thread
//! act in the middle of an operation. [`fuzz`] takes any bytes to the decoders. [`golden`] compares text with files
//! under `testdata/`. [`isolation`] checks what concurrent transactions read. [`cost`] measures calls, and [`growth`]
//! how they grow.

pub mod config;
pub mod cost;
pub mod crash;
pub mod engine;
pub mod entry;
pub mod fault;
pub mod filters;
pub mod fuzz;
pub mod golden;
pub mod growth;
pub mod history;
pub mod interrupt;
pub mod isolation;
pub mod metamorphic;
pub mod model;
pub mod operators;
pub mod ops;
pub mod outcome;
pub mod pairs;
pub mod parallel;
pub mod rng;
pub mod simulation;
pub mod subject;

pub use config::Config;
pub use engine::Engine;
pub use growth::assert_growth;
pub use history::Divergence;
pub use model::Model;
pub use ops::Op;
pub use outcome::Outcome;
pub use rng::Rng;
pub use subject::Subject;
