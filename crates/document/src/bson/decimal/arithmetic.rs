//! Sums, products, quotients and remainders of decimals, correctly rounded to 34 digits, half to even.

use super::bits::{Decimal128, Unpacked};
use super::round::Unrounded;
use super::wide::{Wide, digits, power_of_ten};

/// A finite number's parts.
#[derive(Clone, Copy)]
struct Finite {
    negative: bool,
    coefficient: u128,
    exponent: i32,
}

/// The digits by which a coefficient of 34 digits can be shifted to the left within 256 bits.
const SHIFT_MAX: usize = 42;

impl Decimal128 {
    /// The sum, with the smaller of the two exponents where it is exact.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (a, b) = match (self.unpack(), other.unpack()) {
            (Unpacked::Nan, _) | (_, Unpacked::Nan) => return Self::NAN,
            (Unpacked::Infinite { negative: a }, Unpacked::Infinite { negative: b }) if a != b => return Self::NAN,
            (Unpacked::Infinite { .. }, _) => return self,
            (_, Unpacked::Infinite { .. }) => return other,
            (Unpacked::Finite { negative, coefficient, exponent }, Unpacked::Finite { .. }) => {
                (Finite { negative, coefficient, exponent }, finite(other))
            }
        };
        let (a, b) = if a.exponent >= b.exponent { (a, b) } else { (b, a) };
        let distance = usize::try_from(a.exponent - b.exponent).unwrap_or_default();
        if a.coefficient == 0 {
            let negative = if b.coefficient == 0 { a.negative && b.negative } else { b.negative };
            return Self::finite(negative, b.coefficient, b.exponent);
        }
        let shift = distance.min(SHIFT_MAX);
        let exponent = a.exponent - i32::try_from(shift).unwrap_or_default();
        let large = Wide::new(a.coefficient).times_power_of_ten(shift);
        // What lies below the unit of the shifted number counts as a fraction.
        let (small, fraction) = match distance - shift {
            0 => (b.coefficient, false),
            below @ 1..=38 => (b.coefficient / power_of_ten(below), b.coefficient % power_of_ten(below) != 0),
            _ => (0, b.coefficient != 0),
        };
        let small = Wide::new(small);
        if a.negative == b.negative {
            let sum = Unrounded { negative: a.negative, coefficient: large.plus(small), fraction, exponent };
            return sum.round().0;
        }
        let (negative, coefficient) = match large.cmp(&small) {
            // A fraction is left only where `large` has at least 43 digits.
            std::cmp::Ordering::Equal => (false, Wide::new(0)),
            std::cmp::Ordering::Greater => (a.negative, large.minus(small).minus(Wide::new(u128::from(fraction)))),
            std::cmp::Ordering::Less => (b.negative, small.minus(large)),
        };
        Unrounded { negative, coefficient, fraction, exponent }.round().0
    }

    /// The difference.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        if other.is_nan() { other } else { self.plus(other.negated()) }
    }

    /// The product, with the sum of the exponents where it is exact.
    #[must_use]
    pub fn times(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        if self.is_nan() || other.is_nan() {
            return Self::NAN;
        }
        if self.is_infinite() || other.is_infinite() {
            return if self.is_zero() || other.is_zero() { Self::NAN } else { infinite(negative) };
        }
        let (a, b) = (finite(self), finite(other));
        let coefficient = Wide::product(a.coefficient, b.coefficient);
        Unrounded { negative, coefficient, fraction: false, exponent: a.exponent + b.exponent }.round().0
    }

    /// The quotient. A number divided by zero is infinite, zero divided by zero is not a number.
    #[must_use]
    pub fn divided_by(self, other: Self) -> Self {
        let negative = self.is_negative() != other.is_negative();
        if self.is_nan() || other.is_nan() || self.is_infinite() && other.is_infinite() {
            return Self::NAN;
        }
        if self.is_infinite() {
            return infinite(negative);
        }
        if other.is_infinite() {
            return Self::finite(negative, 0, super::bits::EXPONENT_MIN);
        }
        let (a, b) = (finite(self), finite(other));
        if b.coefficient == 0 {
            return if a.coefficient == 0 { Self::NAN } else { infinite(negative) };
        }
        let preferred = a.exponent - b.exponent;
        if a.coefficient == 0 {
            return Unrounded { negative, coefficient: Wide::new(0), fraction: false, exponent: preferred }.round().0;
        }
        // At least 35 digits of quotient: the last of 34 and what follows it.
        let shift = (35 + digits(b.coefficient)).saturating_sub(digits(a.coefficient));
        let (mut coefficient, rest) = Wide::new(a.coefficient).times_power_of_ten(shift).divide(b.coefficient);
        let mut exponent = preferred - i32::try_from(shift).unwrap_or_default();
        while rest == 0 && exponent < preferred {
            let (quotient, digit) = coefficient.divide(10);
            if digit != 0 {
                break;
            }
            (coefficient, exponent) = (quotient, exponent + 1);
        }
        Unrounded { negative, coefficient, fraction: rest != 0, exponent }.round().0
    }

    /// What is left of the number when a multiple of `other` is taken away, the quotient truncated toward zero; it has
    /// the sign of the number.
    #[must_use]
    pub fn remainder(self, other: Self) -> Self {
        if self.is_nan() || other.is_nan() || self.is_infinite() || other.is_zero() {
            return Self::NAN;
        }
        if other.is_infinite() {
            return self;
        }
        let (a, b) = (finite(self), finite(other));
        let exponent = a.exponent.min(b.exponent);
        let distance = usize::try_from((a.exponent - b.exponent).unsigned_abs()).unwrap_or_default();
        let coefficient = if a.exponent >= b.exponent {
            let scale = power_modulo(distance, b.coefficient);
            Wide::product(a.coefficient % b.coefficient, scale).divide(b.coefficient).1
        } else if digits(b.coefficient) + distance > 38 {
            // The divisor is larger than any number of 34 digits.
            a.coefficient
        } else {
            a.coefficient % (b.coefficient * power_of_ten(distance))
        };
        Self::finite(a.negative, coefficient, exponent)
    }

    /// The square root; of a negative number it is not a number.
    #[must_use]
    pub fn square_root(self) -> Self {
        let Unpacked::Finite { negative, coefficient, exponent } = self.unpack() else {
            return if self.is_negative() { Self::NAN } else { self };
        };
        if coefficient == 0 {
            return Self::finite(negative, 0, exponent.div_euclid(2));
        }
        if negative {
            return Self::NAN;
        }
        // An even exponent, and enough digits for 35 digits of root.
        let preferred = exponent.div_euclid(2);
        let odd = usize::from(exponent.rem_euclid(2) == 1);
        let shift = odd + 2 * (70 - digits(coefficient)).div_ceil(2);
        let shifted = Wide::new(coefficient).times_power_of_ten(shift);
        let (root, exact) = integer_root(shifted);
        let (mut root, mut exponent) = (root, (exponent - i32::try_from(shift).unwrap_or_default()) / 2);
        while exact && exponent < preferred && root % 10 == 0 {
            (root, exponent) = (root / 10, exponent + 1);
        }
        Unrounded { negative: false, coefficient: Wide::new(root), fraction: !exact, exponent }.round().0
    }
}

fn infinite(negative: bool) -> Decimal128 {
    if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY }
}

/// The parts of a number that the caller knows to be finite.
fn finite(number: Decimal128) -> Finite {
    match number.unpack() {
        Unpacked::Finite { negative, coefficient, exponent } => Finite { negative, coefficient, exponent },
        _ => Finite { negative: false, coefficient: 0, exponent: 0 },
    }
}

/// 10^exponent modulo `modulus`.
fn power_modulo(exponent: usize, modulus: u128) -> u128 {
    let times = |a, b| Wide::product(a, b).divide(modulus).1;
    let (mut power, mut base, mut rest) = (1 % modulus, 10 % modulus, exponent);
    while rest > 0 {
        if rest % 2 == 1 {
            power = times(power, base);
        }
        base = times(base, base);
        rest /= 2;
    }
    power
}

/// The integral part of a square root, and whether that is the root.
fn integer_root(square: Wide) -> (u128, bool) {
    let (mut low, mut high) = (0, u128::MAX >> 1);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if Wide::product(middle, middle) <= square {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    (low, Wide::product(low, low) == square)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str) -> Decimal128 {
        text.parse().unwrap()
    }

    #[test]
    fn sums() {
        for (a, b, sum) in [
            ("1", "2.50", "3.50"),
            ("1.10", "-1.10", "0.00"),
            ("-0", "-0", "-0"),
            ("0", "-0", "0"),
            ("1E+40", "1", "1.000000000000000000000000000000000E+40"),
            ("1E+6111", "1E-6176", "1.000000000000000000000000000000000E+6111"),
            ("1E+6111", "-1E-6176", "1.000000000000000000000000000000000E+6111"),
            ("9999999999999999999999999999999999", "1", "1.000000000000000000000000000000000E+34"),
            ("9.999999999999999999999999999999999E+6144", "1E+6144", "Infinity"),
            ("Infinity", "-Infinity", "NaN"),
            ("0E+10", "5", "5"),
            ("5E+10", "0", "50000000000"),
            ("1", "5E-34", "1.000000000000000000000000000000000"),
            ("1", "-4E-34", "0.9999999999999999999999999999999996"),
            ("1E+50", "-9999999999999999999999999999999999", "9.999999999999999000000000000000000E+49"),
        ] {
            assert_eq!(d(a).plus(d(b)).to_string(), sum, "{a} + {b}");
            assert_eq!(d(b).plus(d(a)).to_string(), sum, "{b} + {a}");
        }
    }

    #[test]
    fn products_and_quotients() {
        assert_eq!(d("1.10").times(d("2.0")).to_string(), "2.200");
        assert_eq!(
            d("9999999999999999999999999999999999").times(d("9999999999999999999999999999999999")).to_string(),
            "9.999999999999999999999999999999998E+67"
        );
        assert_eq!(d("0").times(d("-Infinity")).to_string(), "NaN");
        assert_eq!(d("1E-6176").times(d("0.5")).to_string(), "0E-6176");
        assert_eq!(d("3E-6176").times(d("0.5")).to_string(), "2E-6176");
        assert_eq!(d("1").divided_by(d("3")).to_string(), "0.3333333333333333333333333333333333");
        assert_eq!(d("2").divided_by(d("3")).to_string(), "0.6666666666666666666666666666666667");
        assert_eq!(d("10").divided_by(d("4")).to_string(), "2.5");
        assert_eq!(d("1.00").divided_by(d("1")).to_string(), "1.00");
        assert_eq!(d("100").divided_by(d("10")).to_string(), "10");
        assert_eq!(d("-1").divided_by(d("0")).to_string(), "-Infinity");
        assert_eq!(d("0").divided_by(d("0")).to_string(), "NaN");
        assert_eq!(
            d("1").divided_by(d("9999999999999999999999999999999999")).to_string(),
            "1.000000000000000000000000000000000E-34"
        );
    }

    #[test]
    fn remainders_and_roots() {
        assert_eq!(d("8.5").remainder(d("4")).to_string(), "0.5");
        assert_eq!(d("-7").remainder(d("3")).to_string(), "-1");
        assert_eq!(d("1E+6000").remainder(d("7")).to_string(), "1");
        assert_eq!(d("5").remainder(d("1E+6000")).to_string(), "5");
        assert_eq!(d("1").remainder(d("0")).to_string(), "NaN");
        assert_eq!(d("2").square_root().to_string(), "1.414213562373095048801688724209698");
        assert_eq!(d("4").square_root().to_string(), "2");
        assert_eq!(d("0.25").square_root().to_string(), "0.5");
        assert_eq!(d("1E+7").square_root().to_string(), "3162.277660168379331998893544432719");
        assert_eq!(d("-1").square_root().to_string(), "NaN");
    }

    #[test]
    fn rounding_to_an_exponent() {
        use super::super::round::Rounding;
        assert_eq!(d("2.5").to_integral(Rounding::HalfEven).to_string(), "2");
        assert_eq!(d("3.5").to_integral(Rounding::HalfEven).to_string(), "4");
        assert_eq!(d("-2.1").to_integral(Rounding::Floor).to_string(), "-3");
        assert_eq!(d("2.1").to_integral(Rounding::Ceiling).to_string(), "3");
        assert_eq!(d("-2.9").to_integral(Rounding::TowardZero).to_string(), "-2");
        assert_eq!(d("1.2345").quantized(-2, Rounding::HalfEven).to_string(), "1.23");
        assert_eq!(d("1E-6176").to_integral(Rounding::Ceiling).to_string(), "1");
        assert_eq!(d("12").quantized(1, Rounding::HalfEven).to_string(), "1E+1");
    }
}
