//! The newest items are the most popular.

use super::generator::Random;
use super::zipfian::Zipfian;

/// Items below a number that grows, zipfian from the newest down: YCSB's `SkewedLatestGenerator`, but for its item 0,
/// which is never drawn there.
#[derive(Clone, Debug)]
pub struct Latest(Zipfian);

impl Latest {
    /// The distribution over `items` items, at least 1. The time that it takes grows with them; clone it rather than
    /// make it again.
    #[must_use]
    pub fn new(items: u64) -> Self {
        Self(Zipfian::new(items))
    }

    /// There are so many items now.
    pub fn grow(&mut self, items: u64) {
        self.0.grow(items);
    }

    /// The next item.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> u64 {
        self.0.items() - 1 - self.0.draw(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn draws_fit_the_definition_before_and_after_growth() {
        let mut latest = Latest::new(100);
        let mut random = Random::new(7);
        for items in [100, 5_000] {
            latest.grow(items);
            let mut probabilities = latest.0.probabilities(items);
            probabilities.reverse();
            assert_draws_fit(&probabilities, 100_000, || latest.draw(&mut random));
        }
    }
}
