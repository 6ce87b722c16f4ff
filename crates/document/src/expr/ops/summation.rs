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

/// A running sum that numbers leave again, as the windows of `$setWindowFields` move on.
///
/// Numbers that are not finite are counted apart, so that the sum is finite again behind them; integers and decimals
/// are subtracted; doubles are subtracted from an unevaluated sum of two doubles, so that what rounding takes from the
/// one is in the other. The type is that of the numbers that are there: integers give the narrowest that holds the
/// total.
#[derive(Clone, Copy, Debug)]
pub struct RemovableSum {
    integers: i128,
    /// Of doubles below [`LARGE`].
    small: TwoDoubles,
    /// Of other doubles, times [`LARGE_SCALE`]: their sum overflows for a while perhaps.
    large: TwoDoubles,
    decimal: Decimal128,
    doubles: usize,
    decimals: usize,
    not_numbers: usize,
    infinite: usize,
    negative_infinite: usize,
}

/// Doubles from this absolute value on, 2^896, are summed apart.
const LARGE: f64 = f64::from_bits((1023 + 896) << 52);

/// 2^-128: 2^127 scaled doubles have a finite sum.
const LARGE_SCALE: f64 = f64::from_bits((1023 - 128) << 52);

/// An unevaluated sum of two doubles, of which the first is the sum rounded to nearest (T. J. Dekker 1971, D. E.
/// Knuth's TwoSum): some 106 bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct TwoDoubles {
    sum: f64,
    rest: f64,
}

impl TwoDoubles {
    /// The product of two numbers, exactly where it does not underflow.
    #[must_use]
    pub fn product(a: f64, b: f64) -> Self {
        let sum = a * b;
        Self { sum, rest: a.mul_add(b, -sum) }
    }

    /// Adds a number.
    #[inline]
    pub fn add(&mut self, number: f64) {
        let total = self.sum + number;
        let of_number = total - self.sum;
        let rest = self.rest + ((self.sum - (total - of_number)) + (number - of_number));
        self.sum = total + rest;
        self.rest = rest - (self.sum - total);
    }

    /// The sum with another one.
    #[must_use]
    pub fn plus(mut self, other: Self) -> Self {
        self.add(other.sum);
        self.add(other.rest);
        self
    }

    /// The same with the other sign.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { sum: -self.sum, rest: -self.rest }
    }

    /// The product with another one.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let mut product = Self::product(self.sum, other.sum);
        product.add(self.sum * other.rest + self.rest * other.sum);
        product
    }

    /// The quotient by a number.
    #[must_use]
    pub fn divided_by(self, divisor: f64) -> Self {
        let quotient = self.sum / divisor;
        let left = self.plus(Self::product(quotient, divisor).negated());
        let mut divided = Self { sum: quotient, rest: 0.0 };
        divided.add(left.to_f64() / divisor);
        divided
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.sum + self.rest
    }
}

impl Default for RemovableSum {
    fn default() -> Self {
        Self {
            integers: 0,
            small: TwoDoubles::default(),
            large: TwoDoubles::default(),
            decimal: Decimal128::from(0),
            doubles: 0,
            decimals: 0,
            not_numbers: 0,
            infinite: 0,
            negative_infinite: 0,
        }
    }
}

impl RemovableSum {
    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        match number {
            Number::Int(number) => self.integers += i128::from(number),
            Number::Double(number) => {
                self.doubles += 1;
                match self.uncounted(number) {
                    Some(count) => *count += 1,
                    None => self.add_double(number),
                }
            }
            Number::Decimal(number) => {
                self.decimals += 1;
                match self.uncounted_decimal(number) {
                    Some(count) => *count += 1,
                    None => self.decimal = self.decimal.plus(number),
                }
            }
        }
    }

    /// Removes a number that was added.
    pub fn remove(&mut self, number: Number) {
        match number {
            Number::Int(number) => self.integers -= i128::from(number),
            Number::Double(number) => {
                self.doubles -= 1;
                match self.uncounted(number) {
                    Some(count) => *count -= 1,
                    None => self.add_double(-number),
                }
                if self.doubles == 0 {
                    (self.small, self.large) = Default::default();
                }
            }
            Number::Decimal(number) => {
                self.decimals -= 1;
                match self.uncounted_decimal(number) {
                    Some(count) => *count -= 1,
                    None => self.decimal = self.decimal.minus(number),
                }
                if self.decimals == 0 {
                    self.decimal = Decimal128::from(0);
                }
            }
        }
    }

    /// The count of the doubles like one that is not finite.
    fn uncounted(&mut self, number: f64) -> Option<&mut usize> {
        match number {
            number if number.is_finite() => None,
            number if number.is_nan() => Some(&mut self.not_numbers),
            f64::INFINITY => Some(&mut self.infinite),
            _ => Some(&mut self.negative_infinite),
        }
    }

    fn uncounted_decimal(&mut self, number: Decimal128) -> Option<&mut usize> {
        match (number.is_nan(), number.is_infinite()) {
            (true, _) => Some(&mut self.not_numbers),
            (_, true) => self.uncounted(number.to_f64()),
            _ => None,
        }
    }

    fn add_double(&mut self, number: f64) {
        if number.abs() < LARGE {
            self.small.add(number);
        } else {
            self.large.add(number * LARGE_SCALE);
        }
    }

    /// NaN or an infinity, when a number that is not finite is there.
    fn not_finite(&self) -> Option<Value<'static>> {
        let double = match (self.not_numbers, self.infinite, self.negative_infinite) {
            (0, 0, 0) => return None,
            (0, 1.., 0) => f64::INFINITY,
            (0, 0, 1..) => f64::NEG_INFINITY,
            _ => f64::NAN,
        };
        Some(match self.decimals {
            0 => Value::Double(double),
            _ => Value::Decimal128(Decimal128::from_f64(double)),
        })
    }

    /// The same as a sum of finite numbers.
    fn finite(&self) -> Sum {
        let doubles = match self.large {
            TwoDoubles { sum: 0.0, rest: 0.0 } => self.small,
            mut all => {
                all.add(self.small.sum * LARGE_SCALE);
                all.add(self.small.rest * LARGE_SCALE);
                TwoDoubles { sum: all.sum / LARGE_SCALE, rest: all.rest / LARGE_SCALE }
            }
        };
        let widest = match (self.decimals, self.doubles) {
            (1.., _) => Widest::Decimal,
            (0, 1..) => Widest::Double,
            (0, 0) => Widest::Int32,
        };
        Sum { integers: self.integers, double: doubles.sum, error: doubles.rest, decimal: self.decimal, widest }
    }

    /// The total.
    #[must_use]
    pub fn total(&self) -> Value<'static> {
        self.not_finite().unwrap_or_else(|| self.finite().total())
    }

    /// The total, where doubles become decimals with 15 digits.
    #[must_use]
    pub fn short_total(&self) -> Value<'static> {
        self.not_finite().unwrap_or_else(|| self.finite().short_total())
    }

    /// The total as a double.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        match self.total() {
            Value::Decimal128(total) => total.to_f64(),
            total => total.as_f64().unwrap_or_default(),
        }
    }

    /// The mean of `count` numbers: a decimal if there is one, else a double.
    #[must_use]
    pub fn mean(&self, count: usize) -> Value<'static> {
        self.not_finite().unwrap_or_else(|| self.finite().mean(count))
    }
}
