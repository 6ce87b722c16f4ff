//! Deterministic random numbers, and the distributions that workloads draw from.

#[cfg(test)]
pub(crate) mod chi_square;
mod exponential;
mod generator;
mod geometric;
mod hotspot;
mod latest;
mod permutation;
mod scrambled;
mod zipfian;

pub use exponential::Exponential;
pub use generator::Random;
pub(crate) use generator::mix;
pub use geometric::Geometric;
pub use hotspot::Hotspot;
pub use latest::Latest;
pub use permutation::Permutation;
pub use scrambled::{ScrambledZipfian, fnv_hash64};
pub use zipfian::Zipfian;
