//! Numbers in a random order, each once, without a list of them.

use super::generator::{Random, mix};

/// A random permutation of the numbers below a bound: a Feistel network over the next power of two, walked until it is
/// below the bound (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). It takes no memory, whatever the
/// bound.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    items: u64,
    keys: [u64; ROUNDS],
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
}

const ROUNDS: usize = 6;

impl Permutation {
    /// The permutation of `0..items` that belongs to a seed; `items` is at least 1.
    #[must_use]
    pub fn new(seed: u64, items: u64) -> Self {
        let bits = (64 - (items - 1).leading_zeros()).max(2);
        let (low_bits, high_bits) = (bits.div_ceil(2), bits / 2);
        let mut random = Random::new(seed);
        Self {
            items,
            keys: std::array::from_fn(|_| random.next()),
            low_bits,
            low_mask: (1 << low_bits) - 1,
            high_mask: (1 << high_bits) - 1,
        }
    }

    /// The number at a place; both are below `items`.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        debug_assert!(place < self.items);
        let mut number = place;
        // Less than two turns on average, as at least half of the power of two is below the bound.
        loop {
            number = self.network(number);
            if number < self.items {
                return number;
            }
        }
    }

    /// Each round changes one half by a function of the other, so it can be undone: no two numbers become the same.
    fn network(&self, number: u64) -> u64 {
        let (mut low, mut high) = (number & self.low_mask, number >> self.low_bits);
        for keys in self.keys.chunks_exact(2) {
            high ^= mix(low ^ keys[0]) & self.high_mask;
            low ^= mix(high ^ keys[1]) & self.low_mask;
        }
        high << self.low_bits | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn every_number_comes_once() {
        for items in [1, 2, 3, 7, 64, 1_000, 4_096, 10_007] {
            let permutation = Permutation::new(items, items);
            let mut numbers: Vec<u64> = (0..items).map(|place| permutation.at(place)).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..items), "{items}");
        }
    }

    #[test]
    fn over_all_seeds_every_number_is_as_likely_at_a_place() {
        let mut seed = 0;
        assert_draws_fit(&[0.01; 100], 100_000, || {
            seed += 1;
            Permutation::new(seed, 100).at(7)
        });
    }

    #[test]
    fn the_step_from_one_number_to_the_next_is_random() {
        let permutation = Permutation::new(5, 100_000);
        let mut place = 0;
        assert_draws_fit(&[0.01; 100], 99_999, || {
            place += 1;
            (permutation.at(place) + 100_000 - permutation.at(place - 1)) % 100_000 / 1_000
        });
    }
}
