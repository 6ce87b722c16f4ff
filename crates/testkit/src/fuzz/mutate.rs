//! Inputs made from seeds: bits flipped, bytes put in, taken out, moved and exchanged between inputs, numbers set to
//! extremes.

use crate::rng::Rng;
use spinney::base::codec::put_varint;

/// A change of an input, which may take parts of seeds.
pub type Mutate = fn(&mut Vec<u8>, &[Vec<u8>], &mut Rng);

/// The inputs of a target: each is told by its number.
#[derive(Debug)]
pub struct Inputs<'a> {
    seeds: &'a [Vec<u8>],
    mutate: Mutate,
}

impl<'a> Inputs<'a> {
    /// Inputs from seeds, at least one, that [`bytes`] changes.
    #[must_use]
    pub const fn new(seeds: &'a [Vec<u8>]) -> Self {
        Self::with(seeds, bytes)
    }

    /// Inputs from seeds, at least one.
    #[must_use]
    pub const fn with(seeds: &'a [Vec<u8>], mutate: Mutate) -> Self {
        Self { seeds, mutate }
    }

    /// The input of a number: the seeds come first, as they are.
    ///
    /// # Panics
    /// When there are no seeds.
    #[must_use]
    pub fn input(&self, number: u64) -> Vec<u8> {
        if let Some(seed) = usize::try_from(number).ok().and_then(|number| self.seeds.get(number)) {
            return seed.clone();
        }
        let mut rng = Rng::new(number);
        let mut input = rng.pick(self.seeds).clone();
        for _ in 0..*rng.pick(&[1, 1, 1, 2, 3, 6]) {
            (self.mutate)(&mut input, self.seeds, &mut rng);
        }
        input
    }
}

/// Changes bytes as bytes: flips, puts in, takes out, moves, and numbers that are extremes.
///
/// # Panics
/// When there are no seeds.
pub fn bytes(input: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.in_range(0..input.len() + 1);
    let most = *rng.pick(&[1, 4, 16, 256]);
    let len = rng.in_range(0..most.min(input.len() - at) + 1);
    match rng.in_range(0..8) {
        0 | 1 if at < input.len() => input[at] ^= 1 << rng.in_range(0..8),
        2 => lay_over(input, at, &number(rng)),
        3 => drop(input.splice(at..at + len, number(rng))),
        4 => {
            let bytes = rng.bytes(most.min(16));
            drop(input.splice(at..at, bytes));
        }
        5 => drop(input.drain(at..at + len)),
        6 => {
            // From here, or from another seed.
            let from = if rng.chance(50) { input.clone() } else { rng.pick(seeds).clone() };
            let start = rng.in_range(0..from.len() + 1);
            let part = &from[start..from.len().min(start + most * 16)];
            if rng.chance(50) {
                drop(input.splice(at..at + len, part.iter().copied()));
            } else {
                lay_over(input, at, part);
            }
        }
        _ => input.truncate(at),
    }
}

/// Replaces what there is from `at` on.
fn lay_over(input: &mut [u8], at: usize, bytes: &[u8]) {
    let len = bytes.len().min(input.len() - at);
    input[at..at + len].copy_from_slice(&bytes[..len]);
}

/// A number that lengths and counts do not expect, in one of the ways in which numbers are stored.
fn number(rng: &mut Rng) -> Vec<u8> {
    let near = *rng.pick(&[0, 1, 7, 8, 16, 31, 32, 56, 63]);
    let number = (1_u64 << near).wrapping_sub(*rng.pick(&[0, 1, 2]));
    let number = *rng.pick(&[number, number, 0, u64::MAX, rng.clone().number() % 300]);
    match rng.in_range(0..4) {
        0 => {
            let mut out = Vec::new();
            put_varint(&mut out, number);
            out
        }
        width => number.to_le_bytes()[..1 << width].to_vec(),
    }
}
