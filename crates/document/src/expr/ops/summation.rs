//! Sums of numbers of all types, as `$add`, `$sum` and `$avg` make them.

use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::bson::number::Number;
use crate::bson::{Decimal128, Kind, Value};

/// A running sum. Integers are added exactly, doubles with compensation, decimals as decimals; the type of the total is
/// the widest type that was added, a wider one where the total does not fit.
#[derive(Clone, Copy, Debug)]
pub struct Sum {
    integers: i128,
    double: f64,
    /// What rounding has taken from `double`.
    error: f64,
    decimal: Decimal128,
    widest: Widest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Widest {
    Int32,
    Int64,
    Double,
    Decimal,
}

impl Default for Sum {
    fn default() -> Self {
        Self { integers: 0, double: 0.0, error: 0.0, decimal: Decimal128::from(0), widest: Widest::Int32 }
    }
}

impl Sum {
    /// Adds a number of a type.
    #[inline]
    pub fn add(&mut self, number: Number, kind: Kind) {
        let widest = match kind {
            Kind::Int32 => Widest::Int32,
            Kind::Int64 => Widest::Int64,
            Kind::Decimal128 => Widest::Decimal,
            _ => Widest::Double,
        };
        self.widest = self.widest.max(widest);
        match number {
            Number::Int(number) => self.integers += i128::from(number),
            Number::Double(number) => self.add_double(number),
            Number::Decimal(number) => self.decimal = self.decimal.plus(number),
        }
    }

    /// Adds an integer of a type so many times.
    pub fn add_times(&mut self, number: i64, kind: Kind, times: u64) {
        if times > 0 {
            self.add(Number::Int(0), kind);
            self.integers += i128::from(number) * i128::from(times);
        }
    }

    /// Adds a number of a type for a mean, which is a double or a decimal.
    pub fn add_for_mean(&mut self, number: Number, kind: Kind) {
        self.add(number, if matches!(number, Number::Int(_)) { Kind::Double } else { kind });
    }

    #[inline]
    fn add_double(&mut self, number: f64) {
        let total = self.double + number;
        // Neumaier's compensation.
        let lost = if self.double.abs() >= number.abs() {
            (self.double - total) + number
        } else {
            (number - total) + self.double
        };
        self.double = total;
        if lost.is_finite() {
            self.error += lost;
        }
    }

    /// Adds the total of another sum.
    pub fn add_sum(&mut self, other: &Self) {
        self.integers += other.integers;
        self.add_double(other.double);
        self.error += other.error;
        self.decimal = self.decimal.plus(other.decimal);
        self.widest = self.widest.max(other.widest);
    }

    /// The total, where doubles become decimals with 15 digits.
    #[must_use]
    pub fn short_total(&self) -> Value<'static> {
        if self.widest == Widest::Decimal && (self.double != 0.0 || self.error != 0.0) {
            let double = Decimal128::from_f64_15(self.double + self.error);
            let rest = Self { double: 0.0, error: 0.0, ..*self };
            return Value::Decimal128(rest.to_decimal().plus(double));
        }
        self.total()
    }

    /// The total.
    #[must_use]
    pub fn total(&self) -> Value<'static> {
        match self.widest {
            Widest::Decimal => Value::Decimal128(self.to_decimal()),
            Widest::Double => Value::Double(self.to_f64()),
            widest => match (i32::try_from(self.integers), i64::try_from(self.integers)) {
                (Ok(total), _) if widest == Widest::Int32 => Value::Int32(total),
                (_, Ok(total)) => Value::Int64(total),
                _ => Value::Double(self.to_f64()),
            },
        }
    }

    /// The total as a double.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        let integers = match i64::try_from(self.integers) {
            Ok(integers) => nearest_f64(integers),
            Err(_) => self.integers.to_string().parse().unwrap_or(f64::NAN),
        };
        if self.double.is_finite() && integers != 0.0 {
            let mut sum = Self { integers: 0, ..*self };
            sum.add_double(integers);
            return sum.double + sum.error;
        }
        self.double + self.error
    }

    /// The total as a decimal.
    #[must_use]
    pub fn to_decimal(&self) -> Decimal128 {
        let integers = match i64::try_from(self.integers) {
            Ok(integers) => Decimal128::from(integers),
            Err(_) => Decimal128::parse_rounding(&self.integers.to_string()).unwrap_or(Decimal128::from(0)),
        };
        let mut total = self.decimal.plus(integers);
        if self.double != 0.0 || self.error != 0.0 {
            total = total.plus(Decimal128::from_f64(self.double)).plus(Decimal128::from_f64(self.error));
        }
        total
    }

    /// The mean of `count` numbers: a decimal if one was added, else a double.
    #[must_use]
    pub fn mean(&self, count: usize) -> Value<'static> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        if self.widest == Widest::Decimal {
            // Doubles that are integers take no digits behind the point with them.
            let whole = (self.error == 0.0).then(|| trunc_to_i64(self.double)).flatten();
            let total = match whole.filter(|whole| nearest_f64(*whole) == self.double) {
                Some(whole) => {
                    let exact = Self { double: 0.0, integers: self.integers + i128::from(whole), ..*self };
                    exact.to_decimal()
                }
                None => self.to_decimal(),
            };
            return Value::Decimal128(total.divided_by(Decimal128::from(count)));
        }
        Value::Double(self.to_f64() / nearest_f64(count))
    }
}
