//! A share of the items gets a share of the draws.

use super::generator::Random;

/// Items below a number: the first ones are hot and get a share of the draws, evenly; the others get the rest, evenly.
/// YCSB's `HotspotIntegerGenerator`.
#[derive(Clone, Copy, Debug)]
pub struct Hotspot {
    hot_items: u64,
    cold_items: u64,
    hot_share: f64,
}

impl Hotspot {
    /// The distribution over `items` items, at least 1, of which the share `hot_items` (at least one item) gets the
    /// share `hot_draws` of the draws. YCSB's defaults are 0.2 and 0.8.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down, and a cast saturates")]
    pub fn new(items: u64, hot_items: f64, hot_draws: f64) -> Self {
        let hot_items = ((items as f64 * hot_items) as u64).clamp(1, items);
        let cold_items = items - hot_items;
        Self { hot_items, cold_items, hot_share: if cold_items == 0 { 1.0 } else { hot_draws } }
    }

    /// The next item.
    #[must_use]
    pub fn draw(&self, random: &mut Random) -> u64 {
        if random.unit() < self.hot_share {
            random.below(self.hot_items)
        } else {
            self.hot_items + random.below(self.cold_items)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn draws_fit_the_definition() {
        let hotspot = Hotspot::new(500, 0.2, 0.8);
        let mut random = Random::new(8);
        let probabilities: Vec<f64> = (0..500).map(|item| if item < 100 { 0.8 / 100.0 } else { 0.2 / 400.0 }).collect();
        assert_draws_fit(&probabilities, 100_000, || hotspot.draw(&mut random));
    }

    #[test]
    fn all_items_may_be_hot_and_one_always_is() {
        let mut random = Random::new(9);
        let (all, one) = (Hotspot::new(4, 1.0, 0.5), Hotspot::new(3, 0.0, 0.5));
        assert_draws_fit(&[0.25; 4], 10_000, || all.draw(&mut random));
        assert_draws_fit(&[0.5, 0.25, 0.25], 10_000, || one.draw(&mut random));
    }
}
