//! Decimals as text.

use std::fmt;
use std::str::FromStr;

use super::bits::{Decimal128, EXPONENT_MAX, EXPONENT_MIN, Unpacked};
use super::round::Unrounded;
use super::wide::Wide;
use crate::base::{Error, Result};

/// The digits that a coefficient takes before what follows counts as a fraction that is not zero.
const DIGITS_MAX: usize = 70;

impl Decimal128 {
    /// The decimal nearest to a number in text: an optional sign, digits with an optional point, an optional exponent;
    /// or `Infinity`, `Inf` or `NaN` in any case. Text beyond the range becomes infinite or zero.
    ///
    /// # Errors
    /// `BadValue` when the text is no number.
    pub fn parse_rounding(text: &str) -> Result<Self> {
        parse(text).map(|(decimal, _)| decimal)
    }

    /// The decimal nearest to a double's exact value, with up to 34 digits.
    #[must_use]
    pub fn from_f64(number: f64) -> Self {
        Self::from_f64_digits(number, 34)
    }

    /// The decimal nearest to a double with 15 digits, trailing zeros included, as MongoDB converts doubles in
    /// arithmetic and in `$toDecimal`.
    #[must_use]
    pub fn from_f64_15(number: f64) -> Self {
        Self::from_f64_digits(number, 15)
    }

    fn from_f64_digits(number: f64, digits: usize) -> Self {
        if number.is_nan() {
            return Self::NAN;
        }
        if number == 0.0 {
            return Self::finite(number.is_sign_negative(), 0, 0);
        }
        Self::parse_rounding(&format!("{number:.*e}", digits - 1)).unwrap_or(Self::NAN)
    }

    /// The nearest double.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        match self.unpack() {
            Unpacked::Nan => f64::NAN,
            Unpacked::Infinite { negative } => {
                if negative {
                    f64::NEG_INFINITY
                } else {
                    f64::INFINITY
                }
            }
            Unpacked::Finite { negative, coefficient, exponent } => {
                // The standard library rounds correctly, whatever the number of digits.
                let number = format!("{coefficient}e{exponent}").parse().unwrap_or(f64::NAN);
                if negative { -number } else { number }
            }
        }
    }
}

impl FromStr for Decimal128 {
    type Err = Error;

    /// A decimal of text that is exactly representable; see [`Decimal128::parse_rounding`] for the syntax.
    fn from_str(text: &str) -> Result<Self> {
        let (decimal, exact) = parse(text)?;
        if exact { Ok(decimal) } else { Err(Error::bad_value(format!("'{text}' is no decimal of 34 digits"))) }
    }
}

/// The nearest decimal and whether it is exactly the text's number.
fn parse(text: &str) -> Result<(Decimal128, bool)> {
    let wrong = || Error::bad_value(format!("'{text}' is no decimal number"));
    let (negative, rest) = match text.as_bytes() {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if rest.eq_ignore_ascii_case(b"nan") {
        return Ok((Decimal128::NAN, true));
    }
    if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
        return Ok((if negative { Decimal128::NEG_INFINITY } else { Decimal128::INFINITY }, true));
    }
    let (number, scale) = match rest.iter().position(|byte| byte.eq_ignore_ascii_case(&b'e')) {
        Some(at) => (&rest[..at], parse_exponent(&rest[at + 1..]).ok_or_else(wrong)?),
        None => (rest, 0),
    };
    let (mut coefficient, mut fraction, mut exponent) = (Wide::new(0), false, 0_i64);
    let (mut any, mut point) = (false, false);
    for byte in number {
        match byte {
            b'0'..=b'9' => {
                any = true;
                if coefficient.digits() < DIGITS_MAX {
                    coefficient = coefficient.times_power_of_ten(1).plus(Wide::new(u128::from(byte - b'0')));
                    exponent -= i64::from(point);
                } else {
                    fraction |= *byte != b'0';
                    exponent += i64::from(!point);
                }
            }
            b'.' if !point => point = true,
            _ => return Err(wrong()),
        }
    }
    if !any {
        return Err(wrong());
    }
    let exponent = exponent.saturating_add(scale);
    let bounded = exponent.clamp(i64::from(EXPONENT_MIN) - 200, i64::from(EXPONENT_MAX) + 200);
    let exponent = i32::try_from(bounded).map_err(|_| wrong())?;
    Ok(Unrounded { negative, coefficient, fraction, exponent }.round())
}

/// The number behind an `e`: an optional sign and digits; one out of the range of `i64` counts as its bound.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = digits.iter().fold(0_i64, |sum, digit| sum.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    // Far beyond any exponent, and far from an overflow where digits are counted in.
    let number = number.min(1 << 40);
    Some(if negative { -number } else { number })
}

impl fmt::Display for Decimal128 {
    /// Digits with a point, or with an exponent where the number is large or small, as IEEE 754 converts to text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (negative, coefficient, exponent) = match self.unpack() {
            Unpacked::Nan => return f.pad("NaN"),
            Unpacked::Infinite { negative } => return f.pad(if negative { "-Infinity" } else { "Infinity" }),
            Unpacked::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
        };
        let digits = coefficient.to_string();
        let count = i32::try_from(digits.len()).unwrap_or_default();
        let adjusted = exponent + count - 1;
        let sign = if negative { "-" } else { "" };
        if exponent > 0 || adjusted < -6 {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            return write!(f, "{sign}{first}{point}{rest}E{adjusted:+}");
        }
        if exponent == 0 {
            return write!(f, "{sign}{digits}");
        }
        let decimals = usize::try_from(-exponent).unwrap_or_default();
        let padded = format!("{digits:0>width$}", width = decimals + 1);
        let (whole, part) = padded.split_at(padded.len() - decimals);
        write!(f, "{sign}{whole}.{part}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_rounded_to_34_digits() {
        let rounded = |text: &str| Decimal128::parse_rounding(text).unwrap().to_string();
        assert_eq!(rounded("12345678901234567890123456789012345"), "1.234567890123456789012345678901234E+34");
        assert_eq!(rounded("12345678901234567890123456789012355"), "1.234567890123456789012345678901236E+34");
        assert_eq!(rounded(&format!("1.{}1", "0".repeat(200))), "1.000000000000000000000000000000000");
        assert_eq!(rounded(&format!("9.99{}e6144", "9".repeat(40))), "Infinity");
        assert_eq!(rounded("1e-6177"), "0E-6176");
        assert_eq!(rounded("6e-6177"), "1E-6176");
        assert_eq!(rounded("1E+6112"), "1.0E+6112");
        assert_eq!(rounded("1e99999999999999999999"), "Infinity");
        assert_eq!(rounded("-0e99999"), "-0E+6111");
        assert!("12345678901234567890123456789012345".parse::<Decimal128>().is_err());
        for text in ["", ".", "e5", "1e", "1e+", "1.2.3", "1,2", "--1", "infinit", " 1"] {
            assert!(Decimal128::parse_rounding(text).is_err(), "{text}");
        }
    }

    #[test]
    fn doubles_convert_with_15_digits_or_all() {
        assert_eq!(Decimal128::from_f64_15(2.5).to_string(), "2.50000000000000");
        assert_eq!(Decimal128::from_f64_15(0.1).to_string(), "0.100000000000000");
        assert_eq!(Decimal128::from_f64(0.1).to_string(), "0.1000000000000000055511151231257827");
        assert_eq!("0.1".parse::<Decimal128>().unwrap().to_f64(), 0.1);
        assert_eq!("4.9E-324".parse::<Decimal128>().unwrap().to_f64(), 5e-324);
        assert_eq!("1E+400".parse::<Decimal128>().unwrap().to_f64(), f64::INFINITY);
    }
}
