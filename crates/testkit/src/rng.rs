//! A small deterministic source of random numbers: splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
//! Generators).

use std::ops::Range;

/// Random numbers from a seed; the same seed gives the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// The numbers of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A source of its own for one part of a run, so that a change in one part leaves the others as they were.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self(self.number())
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in `range`.
    ///
    /// # Panics
    /// When the range is empty.
    pub fn in_range(&mut self, range: Range<usize>) -> usize {
        assert!(!range.is_empty(), "no number lies in {range:?}");
        let span = u64::try_from(range.end - range.start).expect("usize has at most 64 bits");
        range.start + usize::try_from(self.number() % span).expect("less than the span, which is a usize")
    }

    /// True in `percent` of 100 cases.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.in_range(0..100) < percent
    }

    /// One of `choices`.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.in_range(0..choices.len())]
    }

    /// The position of a weight, drawn in proportion to the weights.
    ///
    /// # Panics
    /// When all weights are zero.
    pub fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.in_range(0..weights.iter().sum());
        weights
            .iter()
            .position(|weight| {
                let hit = left < *weight;
                left = left.saturating_sub(*weight);
                hit
            })
            .expect("the number drawn is below the sum")
    }

    /// Random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_published_numbers() {
        let mut rng = Rng::new(1_234_567);
        assert_eq!([rng.number(), rng.number()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn weights_of_zero_are_never_drawn_and_all_others_are() {
        let mut rng = Rng::new(1);
        let mut drawn = [0; 4];
        for _ in 0..1000 {
            drawn[rng.weighted(&[1, 0, 2, 1])] += 1;
        }
        assert!(drawn[0] > 0 && drawn[1] == 0 && drawn[2] > drawn[0] && drawn[3] > 0, "{drawn:?}");
    }
}
