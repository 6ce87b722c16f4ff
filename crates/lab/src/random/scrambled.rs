//! A zipfian distribution whose popular items lie all over the key space.

use super::generator::Random;
use super::zipfian::Zipfian;

/// The items that ranks are drawn from, before they are hashed.
const RANKS: u64 = 10_000_000_000;
/// Zeta of that many items and the constant 0.99, as YCSB has it.
const ZETA: f64 = 26.469_028_201_783_02;

/// Items below a number, a popular one anywhere among them: YCSB's `ScrambledZipfianGenerator`, which hashes a zipfian
/// rank of ten billion to an item.
///
/// Which items are popular depends on the number of items, and how skewed the draws are hardly does. The share of the
/// most popular item is 3.8 %, half of what a zipfian distribution over a million items gives its first.
#[derive(Clone, Debug)]
pub struct ScrambledZipfian {
    ranks: Zipfian,
    items: u64,
}

impl ScrambledZipfian {
    /// The distribution over `items` items, at least 1.
    #[must_use]
    pub fn new(items: u64) -> Self {
        Self { ranks: Zipfian::with_zeta(RANKS, Zipfian::THETA, ZETA), items }
    }

    /// The next item.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> u64 {
        fnv_hash64(self.ranks.draw(random)) % self.items
    }
}

/// YCSB's `Utils.fnvhash64`: FNV-1a of the eight bytes of a number, lowest first, and the absolute value of that as a
/// signed number.
#[must_use]
pub const fn fnv_hash64(value: u64) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 1_099_511_628_211;
    let mut hash = OFFSET_BASIS;
    let (mut rest, mut byte) = (value, 0);
    while byte < 8 {
        hash = (hash ^ (rest & 0xff)).wrapping_mul(PRIME);
        rest >>= 8;
        byte += 1;
    }
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;
    use spinney::base::num::usize_of;

    #[test]
    fn draws_fit_the_definition() {
        const ITEMS: u64 = 1_000;
        // The hash of the first ranks is followed one by one; that of the others, each of which is rare, spreads them
        // evenly.
        const FOLLOWED: u64 = 1_000_000;
        let scrambled = ScrambledZipfian::new(ITEMS);
        let even = (1.0 - scrambled.ranks.below(FOLLOWED)) / ITEMS as f64;
        let mut probabilities = vec![even; usize_of(ITEMS)];
        for (rank, probability) in (0..).zip(scrambled.ranks.probabilities(FOLLOWED)) {
            probabilities[usize_of(fnv_hash64(rank) % ITEMS)] += probability;
        }
        let mut random = Random::new(6);
        assert_draws_fit(&probabilities, 200_000, || scrambled.draw(&mut random));
    }

    #[test]
    fn the_known_zeta_is_the_sum() {
        // Euler and Maclaurin: the sum up to n is the sum up to m, the integral from m to n, and half of what the ends
        // differ.
        let (theta, few) = (Zipfian::THETA, 1_000_u64);
        let integral = ((RANKS as f64).powf(1.0 - theta) - (few as f64).powf(1.0 - theta)) / (1.0 - theta);
        let ends = ((RANKS as f64).powf(-theta) - (few as f64).powf(-theta)) / 2.0;
        let sum = (1..=few).map(|item| (item as f64).powf(-theta)).sum::<f64>() + integral + ends;
        assert!((sum - ZETA).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        // FNV-1a of eight zero bytes is a8c7f832281a39c5, a negative number.
        assert_eq!(fnv_hash64(0), 0x5738_07cd_d7e5_c63b);
        assert_eq!(fnv_hash64(0), 6_284_781_860_667_377_211);
    }
}
