//! Numbers of the four types: their exact comparison, and conversions between them.

use std::cmp::Ordering;

use super::decimal::{Decimal128, Rounding, Unpacked};
use super::view::Value;
use crate::base::num::{nearest_f64, trunc_to_i64};

/// A number of one of the four types, by what it takes to compare it.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// An integer of 32 or 64 bits.
    Int(i64),
    /// A double.
    Double(f64),
    /// A decimal.
    Decimal(Decimal128),
}

/// The magnitude of a finite double or decimal that is not zero, against doubles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    /// The largest double that is not above the number.
    pub(crate) double: f64,
    /// Whether the number is that double.
    pub(crate) exact: bool,
}

/// A count as the least type of integers that has it: int32 where it fits, else int64.
#[must_use]
pub fn count(number: u64) -> Value<'static> {
    match i32::try_from(number) {
        Ok(number) => Value::Int32(number),
        Err(_) => Value::Int64(i64::try_from(number).unwrap_or(i64::MAX)),
    }
}

impl Value<'_> {
    /// The number, if the value is one.
    #[inline]
    #[must_use]
    pub const fn as_number(&self) -> Option<Number> {
        match self {
            Self::Int32(number) => Some(Number::Int(*number as i64)),
            Self::Int64(number) => Some(Number::Int(*number)),
            Self::Double(number) => Some(Number::Double(*number)),
            Self::Decimal128(number) => Some(Number::Decimal(*number)),
            _ => None,
        }
    }

    /// The number as an integer, if it is one that fits 64 bits; 2.0 is, 2.5 is not.
    #[must_use]
    pub fn as_exact_i64(&self) -> Option<i64> {
        self.as_number().and_then(Number::to_exact_i64)
    }

    /// The double nearest to the number, if the value is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        self.as_number().map(Number::to_f64)
    }
}

impl Number {
    /// The integer, if the number is one that fits 64 bits.
    #[must_use]
    pub fn to_exact_i64(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(number),
            Self::Double(number) => trunc_to_i64(number).filter(|_| number.trunc() == number),
            Self::Decimal(number) => {
                let integer = decimal_to_i64(number)?;
                (compare(Self::Int(integer), self) == Ordering::Equal).then_some(integer)
            }
        }
    }

    /// The integral part, if it fits 64 bits; NaN and infinities have none.
    #[must_use]
    pub fn trunc_to_i64(self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(number),
            Self::Double(number) => trunc_to_i64(number),
            Self::Decimal(number) => decimal_to_i64(number),
        }
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self {
            Self::Int(number) => nearest_f64(number),
            Self::Double(number) => number,
            Self::Decimal(number) => number.to_f64(),
        }
    }

    /// The decimal: exact for integers, of 15 digits for doubles, as MongoDB computes with them.
    #[must_use]
    pub fn to_decimal(self) -> Decimal128 {
        match self {
            Self::Int(number) => Decimal128::from(number),
            Self::Double(number) => Decimal128::from_f64_15(number),
            Self::Decimal(number) => number,
        }
    }

    /// Whether the number is NaN.
    #[inline]
    #[must_use]
    pub const fn is_nan(self) -> bool {
        match self {
            Self::Int(_) => false,
            Self::Double(number) => number.is_nan(),
            Self::Decimal(number) => number.is_nan(),
        }
    }
}

/// The integral part of a decimal, if it fits 64 bits.
fn decimal_to_i64(number: Decimal128) -> Option<i64> {
    let Unpacked::Finite { negative, coefficient, exponent } = number.to_integral(Rounding::TowardZero).unpack() else {
        return None;
    };
    if coefficient == 0 {
        return Some(0);
    }
    let scale = 10_i128.checked_pow(u32::try_from(exponent).ok()?)?;
    let magnitude = i128::try_from(coefficient).ok()?.checked_mul(scale)?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

/// The number in a value as MongoDB takes it for a whole one: doubles lose their fraction, decimals are rounded to
/// even, what is beyond 64 bits is cut, and NaN is 0.
#[must_use]
pub fn long_of(value: &Value<'_>) -> Option<i64> {
    let number = match value.as_number()? {
        number if number.is_nan() => return Some(0),
        Number::Decimal(decimal) => Number::Decimal(decimal.to_integral(Rounding::HalfEven)),
        number => number,
    };
    let end = if number.to_f64() < 0.0 { i64::MIN } else { i64::MAX };
    Some(number.trunc_to_i64().unwrap_or(end))
}

/// The order of two numbers by their exact values. NaN is equal to NaN and below all other numbers; -0 is equal to 0.
/// Nothing when one of the values is no number.
#[must_use]
pub fn compare_numbers(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    Some(compare(a.as_number()?, b.as_number()?))
}

/// The order of two numbers by their exact values; see [`compare_numbers`].
#[inline]
#[must_use]
pub fn compare(a: Number, b: Number) -> Ordering {
    match (a, b) {
        (Number::Int(a), Number::Int(b)) => a.cmp(&b),
        (Number::Double(a), Number::Double(b)) => compare_doubles(a, b),
        (Number::Int(a), Number::Double(b)) => compare_int_double(a, b),
        (Number::Double(a), Number::Int(b)) => compare_int_double(b, a).reverse(),
        (Number::Decimal(a), Number::Decimal(b)) => compare_decimals(a, b),
        (Number::Int(a), Number::Decimal(b)) => compare_decimals(Decimal128::from(a), b),
        (Number::Decimal(a), Number::Int(b)) => compare_decimals(a, Decimal128::from(b)),
        (Number::Double(a), Number::Decimal(b)) => compare_double_decimal(a, b),
        (Number::Decimal(a), Number::Double(b)) => compare_double_decimal(b, a).reverse(),
    }
}

fn compare_doubles(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| b.is_nan().cmp(&a.is_nan()))
}

fn compare_int_double(a: i64, b: f64) -> Ordering {
    match trunc_to_i64(b) {
        // The integral parts decide, else what is left of the double.
        Some(integral) => a.cmp(&integral).then_with(|| 0.0.partial_cmp(&b.fract()).unwrap_or(Ordering::Equal)),
        None if b.is_nan() => Ordering::Greater,
        None if b > 0.0 => Ordering::Less,
        None => Ordering::Greater,
    }
}

fn compare_decimals(a: Decimal128, b: Decimal128) -> Ordering {
    match (a.unpack(), b.unpack()) {
        (Unpacked::Nan, Unpacked::Nan) => Ordering::Equal,
        (Unpacked::Nan, _) => Ordering::Less,
        (_, Unpacked::Nan) => Ordering::Greater,
        (Unpacked::Infinite { negative: a }, Unpacked::Infinite { negative: b }) => b.cmp(&a),
        (Unpacked::Infinite { negative }, _) => {
            if negative {
                Ordering::Less
            } else {
                Ordering::Greater
            }
        }
        (_, Unpacked::Infinite { negative }) => {
            if negative {
                Ordering::Greater
            } else {
                Ordering::Less
            }
        }
        (
            Unpacked::Finite { negative, coefficient: x, exponent: e },
            Unpacked::Finite { negative: other, coefficient: y, exponent: f },
        ) => match (x, y) {
            (0, 0) => Ordering::Equal,
            (0, _) => {
                if other {
                    Ordering::Greater
                } else {
                    Ordering::Less
                }
            }
            (_, 0) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            _ if negative != other => other.cmp(&negative),
            _ if negative => magnitudes(y, f, x, e),
            _ => magnitudes(x, e, y, f),
        },
    }
}

/// The order of two positive numbers `x * 10^e` and `y * 10^f`.
fn magnitudes(x: u128, e: i32, y: u128, f: i32) -> Ordering {
    use super::decimal::wide::{Wide, digits};
    let exponent = |coefficient, exponent: i32| i32::try_from(digits(coefficient)).unwrap_or_default() + exponent;
    exponent(x, e).cmp(&exponent(y, f)).then_with(|| {
        // As many digits before the point: the exponents differ by less than 34.
        let shift = usize::try_from((e - f).unsigned_abs()).unwrap_or_default();
        if e >= f {
            Wide::new(x).times_power_of_ten(shift).cmp(&Wide::new(y))
        } else {
            Wide::new(x).cmp(&Wide::new(y).times_power_of_ten(shift))
        }
    })
}

fn compare_double_decimal(a: f64, b: Decimal128) -> Ordering {
    if a.is_nan() || b.is_nan() {
        return b.is_nan().cmp(&a.is_nan());
    }
    if b.is_zero() || a == 0.0 || a.is_infinite() || b.is_infinite() {
        // Zero or infinity is representable on both sides.
        return compare_decimals(Decimal128::from_f64(a), b);
    }
    let (negative, other) = (a < 0.0, b.is_negative());
    if negative != other {
        return other.cmp(&negative);
    }
    let floor = floor_of_decimal(b.abs());
    let order = compare_doubles(a.abs(), floor.double);
    // An equal double is below a number that lies between it and the next.
    let order = order.then(if floor.exact { Ordering::Equal } else { Ordering::Less });
    if negative { order.reverse() } else { order }
}

/// The largest double that is not above a finite decimal, which is above zero.
pub(crate) fn floor_of_decimal(number: Decimal128) -> Floor {
    let Unpacked::Finite { coefficient, exponent, .. } = number.unpack() else {
        return Floor { double: f64::MAX, exact: false };
    };
    let nearest = number.to_f64();
    if nearest.is_infinite() {
        return Floor { double: f64::MAX, exact: false };
    }
    if nearest == 0.0 {
        return Floor { double: 0.0, exact: false };
    }
    match compare_exact(nearest, coefficient, exponent) {
        Ordering::Greater => Floor { double: nearest.next_down(), exact: false },
        order => Floor { double: nearest, exact: order == Ordering::Equal },
    }
}

/// The exact order of a double above zero and `coefficient * 10^exponent`, which differ by less than the distance of
/// two doubles.
fn compare_exact(double: f64, coefficient: u128, exponent: i32) -> Ordering {
    let bits = double.to_bits();
    let (biased, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
    let (mantissa, power) = if biased == 0 { (fraction, 1) } else { (fraction | 1 << 52, biased) };
    // double = mantissa * 2^binary. Factors of both sides go where they are whole numbers.
    let binary = i64::try_from(power).unwrap_or_default() - 1075;
    let (mut left, mut right) = (Big::new(u128::from(mantissa)), Big::new(coefficient));
    let fives = exponent.unsigned_abs();
    if exponent >= 0 {
        right.times_power_of_five(fives)
    } else {
        left.times_power_of_five(fives)
    }
    let twos = binary - i64::from(exponent);
    let shift = usize::try_from(twos.unsigned_abs()).unwrap_or_default();
    if twos >= 0 {
        left.shift_left(shift)
    } else {
        right.shift_left(shift)
    }
    left.cmp(&right)
}

/// A large integer on the stack. The sides of [`compare_exact`] are nearly equal, and one of them is a decimal's
/// coefficient (113 bits), or a mantissa (53 bits), times powers below 2^1075 or 5^360, so both fit.
struct Big {
    limbs: [u64; Self::LIMBS],
    len: usize,
}

impl Big {
    const LIMBS: usize = 40;

    fn new(number: u128) -> Self {
        use crate::base::num::low64;
        let mut limbs = [0; Self::LIMBS];
        (limbs[0], limbs[1]) = (low64(number), low64(number >> 64));
        Self { limbs, len: 2 }
    }

    fn times(&mut self, factor: u64) {
        use crate::base::num::low64;
        let mut carry = 0_u128;
        for limb in &mut self.limbs[..self.len] {
            carry += u128::from(*limb) * u128::from(factor);
            *limb = low64(carry);
            carry >>= 64;
        }
        if carry != 0 {
            self.limbs[self.len] = low64(carry);
            self.len += 1;
        }
    }

    fn times_power_of_five(&mut self, exponent: u32) {
        const STEP: u32 = 27;
        for _ in 0..exponent / STEP {
            self.times(5_u64.pow(STEP));
        }
        self.times(5_u64.pow(exponent % STEP));
    }

    fn shift_left(&mut self, bits: usize) {
        let (whole, part) = (bits / 64, bits % 64);
        self.times(1 << part);
        self.limbs.copy_within(0..self.len, whole);
        self.limbs[..whole].fill(0);
        self.len += whole;
    }

    fn cmp(&self, other: &Self) -> Ordering {
        self.limbs.iter().rev().cmp(other.limbs.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Value<'static> {
        Value::Decimal128(text.parse().unwrap())
    }

    #[test]
    fn numbers_compare_by_exact_value() {
        let two53 = 9_007_199_254_740_992_i64;
        let ascending = [
            Value::Double(f64::NAN),
            decimal("-Infinity"),
            Value::Double(f64::MIN),
            decimal("-1.5"),
            Value::Double(-1e-320),
            Value::Int32(0),
            decimal("1E-6176"),
            Value::Double(5e-324),
            decimal("0.1"),
            Value::Double(0.1),
            Value::Int32(1),
            Value::Double(two53 as f64),
            Value::Int64(two53 + 1),
            Value::Int64(i64::MAX),
            Value::Double(2.0_f64.powi(63)),
            decimal("9223372036854775808.5"),
            Value::Double(f64::MAX),
            decimal("1.8E+308"),
            Value::Double(f64::INFINITY),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare_numbers(a, b), Some(i.cmp(&j)), "{a:?} {b:?}");
            }
        }
        for (a, b) in [
            (Value::Double(f64::NAN), decimal("NaN")),
            (Value::Double(-0.0), Value::Int32(0)),
            (decimal("-0E+10"), Value::Double(0.0)),
            (decimal("1.00"), Value::Int64(1)),
            (decimal("0.5"), Value::Double(0.5)),
            (Value::Double(two53 as f64), Value::Int64(two53)),
            (decimal("Infinity"), Value::Double(f64::INFINITY)),
            (decimal("1E+34"), Value::Decimal128(Decimal128::finite(false, 1000, 31))),
        ] {
            assert_eq!(compare_numbers(&a, &b), Some(Ordering::Equal), "{a:?} {b:?}");
        }
    }

    #[test]
    fn integers_of_numbers() {
        assert_eq!(decimal("9223372036854775807").as_exact_i64(), Some(i64::MAX));
        assert_eq!(decimal("9223372036854775808").as_exact_i64(), None);
        assert_eq!(decimal("-9223372036854775808").as_exact_i64(), Some(i64::MIN));
        assert_eq!(decimal("2.50").as_exact_i64(), None);
        assert_eq!(decimal("-2.50").as_number().unwrap().trunc_to_i64(), Some(-2));
        assert_eq!(decimal("1E+6000").as_exact_i64(), None);
        assert_eq!(decimal("0E+6000").as_exact_i64(), Some(0));
        assert_eq!(Value::Double(2.0).as_exact_i64(), Some(2));
        assert_eq!(Value::Double(f64::NAN).as_exact_i64(), None);
    }
}
