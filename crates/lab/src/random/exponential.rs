//! The exponential distribution, rounded down to items.

use super::generator::Random;

/// Items from 0 up without an end, each less likely than the one before it by the same factor: YCSB's
/// `ExponentialGenerator`.
#[derive(Clone, Copy, Debug)]
pub struct Exponential {
    gamma: f64,
}

impl Exponential {
    /// The distribution with the share `share` of the draws below `range`. YCSB's defaults are 0.95 of the draws for a
    /// range of 0.8571428571 of the records.
    #[must_use]
    pub fn new(share: f64, range: f64) -> Self {
        Self { gamma: -(1.0 - share).ln() / range }
    }

    /// The next item.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down, and a cast saturates")]
    pub fn draw(&self, random: &mut Random) -> u64 {
        (-(1.0 - random.unit()).ln() / self.gamma) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn draws_fit_the_definition() {
        const RANGE: u32 = 300;
        let exponential = Exponential::new(0.95, f64::from(RANGE));
        let mut random = Random::new(10);
        // The share below an item, by the definition: 5 % beyond the range, 0.25 % beyond twice the range, and so on.
        let below = |item: u32| 1.0 - 0.05_f64.powf(f64::from(item) / f64::from(RANGE));
        let mut probabilities: Vec<f64> = (0..2 * RANGE).map(|item| below(item + 1) - below(item)).collect();
        probabilities.push(1.0 - below(2 * RANGE));
        assert_draws_fit(&probabilities, 100_000, || exponential.draw(&mut random).min(u64::from(2 * RANGE)));
    }
}
