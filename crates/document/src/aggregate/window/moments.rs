//! What pairs of numbers that come and go are apart from their means.

use crate::base::num::nearest_f64;
use crate::expr::TwoDoubles;

/// The sums of the numbers of finite pairs and of their products. Each has some 106 bits, so that what rounding leaves
/// of a large number that is gone is small beside others.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Moments {
    count: i64,
    x: TwoDoubles,
    y: TwoDoubles,
    products: TwoDoubles,
    /// The pairs whose product is beyond doubles, which is in no sum.
    beyond: usize,
}

/// What is less than this part of the sums, 2^-96, is what rounding has left.
const NOISE: f64 = f64::from_bits((1023 - 96) << 52);

impl Moments {
    /// How many pairs there are.
    pub(super) const fn count(&self) -> i64 {
        self.count
    }

    /// Adds a pair of finite numbers.
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        match TwoDoubles::product(x, y) {
            product if product.to_f64().is_finite() => {
                self.products = self.products.plus(product);
                self.x.add(x);
                self.y.add(y);
            }
            _ => self.beyond += 1,
        }
    }

    /// Removes a pair that was added.
    pub(super) fn remove(&mut self, x: f64, y: f64) {
        self.count -= 1;
        if self.count == 0 {
            *self = Self::default();
            return;
        }
        match TwoDoubles::product(x, y) {
            product if product.to_f64().is_finite() => {
                self.products = self.products.plus(product.negated());
                self.x.add(-x);
                self.y.add(-y);
            }
            _ => self.beyond -= 1,
        }
    }

    /// The sum of the products of what the numbers of each pair are apart from their means.
    pub(super) fn apart(&self) -> f64 {
        if self.beyond > 0 {
            return f64::INFINITY;
        }
        let of_means = self.x.times(self.y).divided_by(nearest_f64(self.count));
        let apart = self.products.plus(of_means.negated()).to_f64();
        let noise = NOISE * (self.products.to_f64().abs() + of_means.to_f64().abs());
        if apart.abs() <= noise { 0.0 } else { apart }
    }
}
