//! The covariance of pairs of numbers, by running means, which pairs leave again.

use super::moments::Moments;
use crate::base::num::nearest_f64;
use crate::bson::number::Number;
use crate::bson::{Decimal128, Value, ValueBuf};
use crate::expr::RemovableSum;

/// The covariance of the pairs of a window. It is computed in decimals while one of the numbers is a decimal.
#[derive(Debug, Default)]
pub(super) struct Covariance {
    /// The pairs of finite numbers.
    count: i64,
    x: RemovableSum,
    y: RemovableSum,
    /// The sum of the products of what pairs are apart from the means.
    products: RemovableSum,
    /// The same from sums of many bits, which count once a pair has left: of the decimals the nearest doubles.
    moments: Moments,
    has_lost: bool,
    not_numbers: usize,
    infinite: (usize, usize),
    decimals: usize,
}

/// A pair of numbers; nothing for values of which one is no number.
pub(super) type Pair = Option<(Number, Number)>;

/// What a number is that is not finite.
fn not_finite(number: Number) -> Option<f64> {
    let double = number.to_f64();
    match number {
        Number::Decimal(decimal) if decimal.is_nan() => Some(f64::NAN),
        Number::Decimal(decimal) => decimal.is_infinite().then_some(double),
        _ => (!double.is_finite()).then_some(double),
    }
}

impl Covariance {
    /// Adds a pair; one that is not of two numbers is left out.
    pub(super) fn add(&mut self, pair: Pair) {
        let Some((x, y)) = pair else { return };
        self.decimals += usize::from(is_decimal(x, y));
        if not_finite(x).is_some() || not_finite(y).is_some() {
            self.count_not_finite((x, y), |count| *count += 1);
            return;
        }
        self.moments.add(x.to_f64(), y.to_f64());
        // From the mean of x without the pair, and from that of y with it.
        let without = minus(x, self.mean(&self.x));
        self.count += 1;
        self.x.add(x);
        self.y.add(y);
        if self.count > 1 {
            self.products.add(times(without, minus(y, self.mean(&self.y))));
        }
    }

    /// Removes a pair that was added.
    pub(super) fn remove(&mut self, pair: Pair) {
        let Some((x, y)) = pair else { return };
        self.decimals -= usize::from(is_decimal(x, y));
        if not_finite(x).is_some() || not_finite(y).is_some() {
            self.count_not_finite((x, y), |count| *count -= 1);
            return;
        }
        self.moments.remove(x.to_f64(), y.to_f64());
        self.has_lost = self.count > 1;
        if self.count == 1 {
            (self.count, self.x, self.y, self.products) = Default::default();
            return;
        }
        let with = minus(y, self.mean(&self.y));
        self.count -= 1;
        self.x.remove(x);
        self.y.remove(y);
        self.products.remove(times(minus(x, self.mean(&self.x)), with));
    }

    fn count_not_finite(&mut self, (x, y): (Number, Number), change: impl Fn(&mut usize)) {
        for double in [x, y].into_iter().filter_map(not_finite) {
            change(match double {
                f64::INFINITY => &mut self.infinite.0,
                f64::NEG_INFINITY => &mut self.infinite.1,
                _ => &mut self.not_numbers,
            });
        }
    }

    fn mean(&self, sum: &RemovableSum) -> Number {
        match sum.short_total() {
            Value::Decimal128(total) => Number::Decimal(total.divided_by(Decimal128::from(self.count.max(1)))),
            total => Number::Double(total.as_f64().unwrap_or_default() / nearest_f64(self.count.max(1))),
        }
    }

    /// The covariance of all pairs, or, of a sample, of what they are taken from; null for too few.
    pub(super) fn result(&self, of_sample: bool) -> ValueBuf {
        let divisor = if of_sample { self.count - 1 } else { self.count };
        let special = match (self.not_numbers, self.infinite) {
            (1.., _) | (0, (1.., 1..)) => Some(f64::NAN),
            (0, (1.., 0)) => Some(f64::INFINITY),
            (0, (0, 1..)) => Some(f64::NEG_INFINITY),
            (0, (0, 0)) => None,
        };
        match (divisor, special) {
            (..=0, _) => Value::Null.into(),
            // One pair is not apart from its mean, whatever else there is.
            _ if self.count < 2 => Value::Double(0.0).into(),
            (_, Some(special)) if self.decimals > 0 => Value::Decimal128(Decimal128::from_f64(special)).into(),
            (_, Some(special)) => Value::Double(special).into(),
            (divisor, None) if self.has_lost && self.decimals == 0 => {
                Value::Double(self.moments.apart() / nearest_f64(divisor)).into()
            }
            (divisor, None) => match self.products.total() {
                Value::Decimal128(total) => Value::Decimal128(total.divided_by(Decimal128::from(divisor))).into(),
                total => Value::Double(total.as_f64().unwrap_or_default() / nearest_f64(divisor)).into(),
            },
        }
    }
}

fn is_decimal(x: Number, y: Number) -> bool {
    matches!(x, Number::Decimal(_)) || matches!(y, Number::Decimal(_))
}

fn to_decimal(number: Number) -> Decimal128 {
    match number {
        Number::Int(number) => Decimal128::from(number),
        Number::Double(number) => Decimal128::from_f64_15(number),
        Number::Decimal(number) => number,
    }
}

fn minus(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Number::Decimal(to_decimal(a).minus(to_decimal(b))),
        _ => Number::Double(a.to_f64() - b.to_f64()),
    }
}

fn times(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Decimal(_), _) | (_, Number::Decimal(_)) => Number::Decimal(to_decimal(a).times(to_decimal(b))),
        _ => Number::Double(a.to_f64() * b.to_f64()),
    }
}
