//! The generator: the same seed gives the same numbers on every machine.

/// A generator of random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded by splitmix64.
#[derive(Clone, Debug)]
pub struct Random([u64; 4]);

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| {
            state = state.wrapping_add(GOLDEN);
            mix(state)
        }))
    }

    /// The generator of item `index` of a data set, so that the item is the same whichever thread makes it, and when.
    #[must_use]
    pub fn of(seed: u64, index: u64) -> Self {
        Self::new(mix(seed ^ mix(index.wrapping_add(GOLDEN))))
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an endless source is no iterator")]
    pub fn next(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in `0..bound`, each as likely as the others (but for a bias below `bound / 2^64`).
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "no number is below 0");
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).expect("the high half of a 128-bit product")
    }

    /// As [`Random::below`] for 32-bit numbers.
    ///
    /// # Panics
    /// When `bound` is 0.
    pub fn below32(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(u64::from(bound))).expect("below a 32-bit bound")
    }

    /// A number from 0 up to but not including 1, a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Fills `bytes` with random ones.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&self.next().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The odd number nearest to 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Splitmix64's finaliser: a bijection that spreads neighbours over the whole range.
pub(crate) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b, mut c) = (Random::new(7), Random::new(7), Random::new(8));
        let numbers: Vec<u64> = (0..100).map(|_| a.next()).collect();
        assert!(numbers.iter().all(|&number| number == b.next()));
        assert!(numbers.iter().any(|&number| number != c.next()));
    }

    #[test]
    fn bounded_numbers_are_uniform() {
        let mut random = Random::new(1);
        assert_draws_fit(&[0.1; 10], 100_000, || random.below(10));
    }

    #[test]
    fn units_are_uniform_and_below_one() {
        let mut random = Random::new(4);
        assert_draws_fit(&[0.01; 100], 100_000, || {
            let unit = random.unit();
            assert!((0.0..1.0).contains(&unit));
            u64::from((0..100_u32).rfind(|&at| unit >= f64::from(at) / 100.0).unwrap())
        });
    }

    #[test]
    fn every_number_of_a_small_range_comes_and_none_beyond() {
        let mut random = Random::new(2);
        let mut seen = [false; 3];
        for _ in 0..100 {
            seen[random.below32(3) as usize] = true;
        }
        assert_eq!(seen, [true; 3]);
        assert_eq!(random.below(1), 0);
    }

    #[test]
    fn an_item_does_not_depend_on_the_items_before_it() {
        let first = Random::of(3, 41).next();
        assert_eq!(first, Random::of(3, 41).next());
        assert_ne!(first, Random::of(3, 42).next());
        assert_ne!(first, Random::of(4, 41).next());
    }

    #[test]
    fn a_fill_reaches_the_last_byte() {
        let mut bytes = [0; 13];
        let mut ored = [0; 13];
        let mut random = Random::new(5);
        for _ in 0..8 {
            random.fill(&mut bytes);
            ored.iter_mut().zip(bytes).for_each(|(all, byte)| *all |= byte);
        }
        assert!(ored.iter().all(|&byte| byte != 0));
    }
}
