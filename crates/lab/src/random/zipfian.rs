//! The zipfian distribution: few items are drawn often, most hardly ever.

use super::generator::Random;

/// Items from 0 up, the k-th drawn about as often as `1 / (k + 1)^theta` says.
///
/// The generator is the one of Gray et al., "Quickly generating billion-record synthetic databases" (SIGMOD 1994), as
/// YCSB's `ZipfianGenerator` uses it: the first two items have their exact probability, the others one that a power
/// function approximates. A draw takes one random number whatever the number of items. Unlike YCSB's, which keeps the
/// number of items that it began with in one place of the formula, this one takes the current number everywhere when
/// items are added.
#[derive(Clone, Debug)]
pub struct Zipfian {
    items: u64,
    theta: f64,
    alpha: f64,
    /// The sum of `1 / k^theta` for k from 1 to `items`.
    zeta: f64,
    /// The same sum up to 2.
    zeta2: f64,
    eta: f64,
}

impl Zipfian {
    /// YCSB's constant.
    pub const THETA: f64 = 0.99;

    /// The distribution over `items` items, at least 1, with the constant [`Zipfian::THETA`]. The time that it takes
    /// grows with the number of items; clone it rather than make it again.
    #[must_use]
    pub fn new(items: u64) -> Self {
        Self::with_theta(items, Self::THETA)
    }

    /// The same with a constant of its own, above 0 and below 1; the larger, the more skewed.
    #[must_use]
    pub fn with_theta(items: u64, theta: f64) -> Self {
        Self::with_zeta(items, theta, zeta(0, items, theta, 0.0))
    }

    /// The same with a `zeta` that is known already.
    pub(super) fn with_zeta(items: u64, theta: f64, zeta: f64) -> Self {
        let zeta2 = 1.0 + 0.5_f64.powf(theta);
        let mut zipfian = Self { items, theta, alpha: 1.0 / (1.0 - theta), zeta, zeta2, eta: 0.0 };
        zipfian.update_eta();
        zipfian
    }

    /// The number of items.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items
    }

    /// Makes it a distribution over `items` items, in time that grows with those that are new. It never shrinks.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta = zeta(self.items, items, self.theta, self.zeta);
            self.items = items;
            self.update_eta();
        }
    }

    /// The next item.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounded down, and a cast saturates")]
    pub fn draw(&self, random: &mut Random) -> u64 {
        let unit = random.unit();
        let scaled = unit * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.zeta2 {
            return 1.min(self.items - 1);
        }
        let item = self.items as f64 * (self.eta * unit - self.eta + 1.0).powf(self.alpha);
        // The product may be rounded up to the number of items.
        (item as u64).min(self.items - 1)
    }

    /// Such that the power function goes on at 2, where the exact part ends.
    fn update_eta(&mut self) {
        let exact = 1.0 - self.zeta2 / self.zeta;
        // With one or two items there is nothing left for the power function.
        self.eta = if exact > 0.0 { (1.0 - (2.0 / self.items as f64).powf(1.0 - self.theta)) / exact } else { 0.0 };
    }

    /// The probability of an item below `item`: exact for this generator, whose power function is inverted here.
    #[cfg(test)]
    pub(super) fn below(&self, item: u64) -> f64 {
        match item {
            0 => 0.0,
            1 => 1.0 / self.zeta,
            2 => self.zeta2 / self.zeta,
            _ if item >= self.items => 1.0,
            _ => ((item as f64 / self.items as f64).powf(1.0 / self.alpha) - 1.0 + self.eta) / self.eta,
        }
    }

    /// The probabilities of the first items, by [`Zipfian::below`].
    #[cfg(test)]
    pub(super) fn probabilities(&self, items: u64) -> Vec<f64> {
        (0..items).map(|item| self.below(item + 1) - self.below(item)).collect()
    }
}

/// Adds `1 / k^theta` to `sum` for k from `from + 1` to `until`.
fn zeta(from: u64, until: u64, theta: f64, sum: f64) -> f64 {
    (from..until).fold(sum, |sum, item| sum + ((item + 1) as f64).powf(-theta))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::chi_square::assert_draws_fit;

    #[test]
    fn draws_fit_the_definition() {
        for (items, theta) in [(1_000, Zipfian::THETA), (1_000, 0.5), (100_000, Zipfian::THETA), (3, 0.8)] {
            let zipfian = Zipfian::with_theta(items, theta);
            let mut random = Random::new(items);
            assert_draws_fit(&zipfian.probabilities(items), 200_000, || zipfian.draw(&mut random));
        }
    }

    #[test]
    fn the_generator_is_near_the_zipfian_law() {
        let zipfian = Zipfian::new(1_000);
        let by_law = |item: usize| ((item + 1) as f64).powf(-Zipfian::THETA) / zipfian.zeta;
        let generated = zipfian.probabilities(1_000);
        let distance = generated.iter().enumerate().map(|(item, got)| (got - by_law(item)).abs()).sum::<f64>() / 2.0;
        assert!(distance < 0.05, "a share of {distance} of the draws goes elsewhere");
        assert!((generated[0] - by_law(0)).abs() < 1e-12 && (generated[1] - by_law(1)).abs() < 1e-12);
    }

    #[test]
    fn a_distribution_that_grew_is_the_one_made_large() {
        let (mut grown, made) = (Zipfian::new(10), Zipfian::new(1_000));
        (11..=1_000).for_each(|items| grown.grow(items));
        grown.grow(5);
        let (mut a, mut b) = (Random::new(1), Random::new(1));
        assert_eq!(grown.items(), 1_000);
        assert!((grown.zeta - made.zeta).abs() < 1e-9);
        assert!((0..10_000).all(|_| grown.draw(&mut a) == made.draw(&mut b)));
    }

    #[test]
    fn one_and_two_items_are_enough() {
        let mut random = Random::new(3);
        assert!((0..1_000).all(|_| Zipfian::new(1).draw(&mut random) == 0));
        let two = Zipfian::new(2);
        assert_draws_fit(&[1.0 / two.zeta, 1.0 - 1.0 / two.zeta], 10_000, || two.draw(&mut random));
    }
}
