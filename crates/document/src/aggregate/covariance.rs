//! The covariance of pairs of numbers, by running means.

use crate::base::num::nearest_f64;
use crate::bson::number::Number;
use crate::bson::{Decimal128, Kind, Value, ValueBuf};
use crate::expr::Sum;

/// What is known of the pairs so far. It is computed in decimals once one of the numbers is a decimal.
#[derive(Debug, Default)]
pub(super) struct Covariance {
    /// The pairs of finite numbers.
    count: i64,
    x: Sum,
    y: Sum,
    /// The sum of the products of what pairs are apart from the means.
    products: Sum,
    not_a_number: bool,
    infinite: (bool, bool),
    is_decimal: bool,
}

impl Covariance {
    /// Adds a pair; one that is not of two numbers is left out.
    pub(super) fn add(&mut self, x: &Value<'_>, y: &Value<'_>) {
        let (Some(first), Some(second)) = (x.as_number(), y.as_number()) else { return };
        self.is_decimal |= x.kind() == Kind::Decimal128 || y.kind() == Kind::Decimal128;
        let (a, b) = (first.to_f64(), second.to_f64());
        let infinite = |number: Number, double: f64| match number {
            Number::Decimal(decimal) => decimal.is_infinite() || decimal.is_nan(),
            _ => !double.is_finite(),
        };
        let apart = [(first, a), (second, b)];
        if apart.iter().any(|(number, double)| infinite(*number, *double)) {
            for (number, double) in apart.into_iter().filter(|(number, double)| infinite(*number, *double)) {
                self.not_a_number |= number.is_nan();
                self.infinite.0 |= double == f64::INFINITY;
                self.infinite.1 |= double == f64::NEG_INFINITY;
            }
            return;
        }
        // From the mean of x before the pair, and from that of y with it.
        let before = self.mean(&self.x);
        self.count += 1;
        self.x.add(first, x.kind());
        self.y.add(second, y.kind());
        if self.count > 1 {
            let product = times(minus(first, before), minus(second, self.mean(&self.y)));
            let kind = if matches!(product, Number::Decimal(_)) { Kind::Decimal128 } else { Kind::Double };
            self.products.add(product, kind);
        }
    }

    fn mean(&self, sum: &Sum) -> Number {
        match sum.short_total() {
            Value::Decimal128(total) => Number::Decimal(total.divided_by(Decimal128::from(self.count.max(1)))),
            total => Number::Double(total.as_f64().unwrap_or_default() / nearest_f64(self.count.max(1))),
        }
    }

    /// The covariance of all pairs, or, of a sample, of what they are taken from; null for too few.
    pub(super) fn result(&self, sample: bool) -> ValueBuf {
        let divisor = if sample { self.count - 1 } else { self.count };
        let special = match (self.not_a_number, self.infinite) {
            (true, _) | (_, (true, true)) => Some(f64::NAN),
            (_, (true, false)) => Some(f64::INFINITY),
            (_, (false, true)) => Some(f64::NEG_INFINITY),
            _ => None,
        };
        match (divisor, special) {
            (..=0, _) => Value::Null.into(),
            // One pair is not apart from its mean, whatever else there is.
            _ if self.count < 2 => Value::Double(0.0).into(),
            (_, Some(special)) if self.is_decimal => Value::Decimal128(Decimal128::from_f64(special)).into(),
            (_, Some(special)) => Value::Double(special).into(),
            (divisor, None) => match self.products.total() {
                Value::Decimal128(total) => Value::Decimal128(total.divided_by(Decimal128::from(divisor))).into(),
                total => Value::Double(total.as_f64().unwrap_or_default() / nearest_f64(divisor)).into(),
            },
        }
    }
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
