//! A target.

use super::mutate::Mutate;

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
    /// Inputs that are decoded, such as those made from small databases.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How an input is changed: [`bytes`](super::mutate::bytes), or a way that knows what the bytes mean.
    pub mutate: Mutate,
}
