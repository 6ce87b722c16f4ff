//! Numbers of 18 digits before the point and 81 behind it, for exponentials and logarithms whose 34 digits are to be
//! the right ones.

use std::cmp::Ordering;

use crate::bson::Decimal128;
use crate::bson::decimal::Unpacked;

/// The limbs of a number, each of nine digits.
const LIMBS: usize = 11;

/// How many of them are behind the point.
const FRACTION: usize = 9;

const BASE: u64 = 1_000_000_000;

/// The digits behind the point.
const PLACES: i32 = 81;

/// Beyond this no exponential is within the range of decimals.
const EXPONENT_MAX: f64 = 20_000.0;

const LN10: &str = "2302585092994045684017991454684364207601101488628772976033327900967572609677352480";

/// A number with a fixed point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fixed {
    negative: bool,
    /// The least significant one first.
    limbs: [u64; LIMBS],
}

impl Fixed {
    const ZERO: Self = Self { negative: false, limbs: [0; LIMBS] };

    /// The number of digits, of which `places` are behind the point; digits that have no place are cut off.
    fn new(negative: bool, digits: &str, places: i32) -> Self {
        let mut number = Self { negative, ..Self::ZERO };
        for (at, digit) in digits.bytes().rev().enumerate() {
            let place = i32::try_from(at).unwrap_or(i32::MAX).saturating_add(PLACES - places);
            let Ok(place) = usize::try_from(place) else { continue };
            if let Some(limb) = number.limbs.get_mut(place / 9) {
                *limb += u64::from(digit - b'0') * 10_u64.pow(u32::try_from(place % 9).unwrap_or_default());
            }
        }
        number
    }

    /// A decimal of up to 18 digits before the point.
    fn of(decimal: Decimal128) -> Self {
        match decimal.unpack() {
            Unpacked::Finite { negative, coefficient, exponent } => {
                Self::new(negative, &coefficient.to_string(), -exponent)
            }
            _ => Self::ZERO,
        }
    }

    fn of_integer(number: i64) -> Self {
        Self::new(number < 0, &number.unsigned_abs().to_string(), 0)
    }

    fn negated(self) -> Self {
        Self { negative: !self.negative, ..self }
    }

    fn is_zero(&self) -> bool {
        self.limbs.iter().all(|limb| *limb == 0)
    }

    fn compare_size(&self, other: &Self) -> Ordering {
        self.limbs.iter().rev().cmp(other.limbs.iter().rev())
    }

    fn plus(self, other: Self) -> Self {
        if self.negative == other.negative {
            let (mut sum, mut carry) = (self, 0);
            for (limb, more) in sum.limbs.iter_mut().zip(other.limbs) {
                let whole = *limb + more + carry;
                (*limb, carry) = (whole % BASE, whole / BASE);
            }
            return sum;
        }
        let (large, small) = if self.compare_size(&other).is_ge() { (self, other) } else { (other, self) };
        let (mut difference, mut borrow) = (large, 0);
        for (limb, less) in difference.limbs.iter_mut().zip(small.limbs) {
            let whole = *limb + BASE - less - borrow;
            (*limb, borrow) = (whole % BASE, u64::from(whole < BASE));
        }
        difference
    }

    fn times(self, other: Self) -> Self {
        let mut product = [0_u64; 2 * LIMBS];
        for (at, a) in self.limbs.iter().enumerate() {
            let mut carry = 0;
            for (more, b) in other.limbs.iter().enumerate() {
                let whole = product[at + more] + a * b + carry;
                (product[at + more], carry) = (whole % BASE, whole / BASE);
            }
            product[at + LIMBS] += carry;
        }
        let mut limbs = [0; LIMBS];
        limbs.copy_from_slice(&product[FRACTION..FRACTION + LIMBS]);
        Self { negative: self.negative != other.negative, limbs }
    }

    fn divided_by(self, divisor: u64) -> Self {
        let (mut quotient, mut rest) = (self, 0);
        for limb in quotient.limbs.iter_mut().rev() {
            let whole = rest * BASE + *limb;
            (*limb, rest) = (whole / divisor, whole % divisor);
        }
        quotient
    }

    /// The nearest decimal of the number times a power of ten.
    fn to_decimal(self, power: i64) -> Decimal128 {
        let digits: String = self.limbs.iter().rev().map(|limb| format!("{limb:09}")).collect();
        let sign = if self.negative { "-" } else { "" };
        // A number with digits to the end is not exact, and keeps its 34.
        let (digits, zeros) = match digits.trim_end_matches('0').trim_start_matches('0') {
            "" => return Decimal128::from(0),
            exact => (exact, digits.len() - digits.trim_end_matches('0').len()),
        };
        let zeros = i64::try_from(zeros).unwrap_or_default();
        // Zeros before the point are digits of a whole number.
        let kept = (zeros - i64::from(PLACES)).clamp(0, 18);
        let kept_zeros = "0".repeat(usize::try_from(kept).unwrap_or_default());
        let text = format!("{sign}{digits}{kept_zeros}E{}", power + zeros - kept - i64::from(PLACES));
        Decimal128::parse_rounding(&text).unwrap_or(Decimal128::NAN)
    }

    /// The exponential of a number of some units at the most, by its series.
    fn exp(self) -> Self {
        let one = Self::of_integer(1);
        let (mut sum, mut term) = (one, one);
        for n in 1..200 {
            term = term.times(self).divided_by(n);
            if term.is_zero() {
                break;
            }
            sum = sum.plus(term);
        }
        sum
    }
}

fn ln10() -> Fixed {
    Fixed::new(false, LN10, PLACES)
}

/// The exponential of a number, as a number of some units and the power of ten that it is to be multiplied by; nothing
/// where it is beyond all decimals.
fn exp_of(x: Fixed, near: f64) -> Option<(Fixed, i64)> {
    if near.abs() > EXPONENT_MAX {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, reason = "at most 20,000")]
    let k = (near / std::f64::consts::LN_10).round() as i64;
    let rest = x.plus(ln10().times(Fixed::of_integer(k)).negated());
    Some((rest.exp(), k))
}

/// The logarithm of a number above zero.
fn ln_of(x: Decimal128) -> Fixed {
    let Unpacked::Finite { coefficient, exponent, .. } = x.unpack() else { return Fixed::ZERO };
    let digits = coefficient.to_string();
    let places = i32::try_from(digits.len()).unwrap_or(i32::MAX) - 1;
    // x = m × 10^k, m from 1 to 10. Newton: y + m e^-y - 1 has twice as many right digits as y.
    let m = Fixed::new(false, &digits, places);
    let near = Decimal128::parse_rounding(&format!("{coefficient}E-{places}")).map_or(1.0, Decimal128::to_f64).ln();
    let mut y = Fixed::of(Decimal128::from_f64(near));
    for _ in 0..3 {
        y = y.plus(m.times(y.negated().exp())).plus(Fixed::of_integer(-1));
    }
    y.plus(ln10().times(Fixed::of_integer(i64::from(exponent) + i64::from(places))))
}

/// e to the power of a finite number, to 34 right digits; nothing where it is beyond all decimals.
pub(super) fn exp(x: Decimal128) -> Option<Decimal128> {
    let (number, power) = exp_of(Fixed::of(x), x.to_f64())?;
    Some(number.to_decimal(power))
}

/// The natural logarithm of a finite number above zero, to 34 right digits.
pub(super) fn ln(x: Decimal128) -> Decimal128 {
    ln_of(x).to_decimal(0)
}

/// The logarithm to base 10 of a finite number above zero, to 34 right digits.
pub(super) fn log10(x: Decimal128) -> Decimal128 {
    const LOG10_OF_E: &str = "434294481903251827651128918916605082294397005803666566114453783165864649208870774";
    ln_of(x).times(Fixed::new(false, LOG10_OF_E, PLACES)).to_decimal(0)
}

/// A number above zero to a power, to 34 right digits where the power has up to 34; nothing where the result is beyond
/// all decimals.
pub(super) fn pow(x: Decimal128, y: Decimal128) -> Option<Decimal128> {
    let near = y.to_f64() * ln(x).to_f64();
    if near.abs() > EXPONENT_MAX || y.to_f64().abs() > 1e17 {
        return None;
    }
    let (number, power) = exp_of(Fixed::of(y).times(ln_of(x)), near)?;
    Some(number.to_decimal(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal128 {
        Decimal128::parse_rounding(text).unwrap()
    }

    /// Computed with 60 digits by Python's `decimal`.
    #[test]
    fn the_34_digits_are_the_right_ones() {
        for (x, expected) in [
            ("1", "2.718281828459045235360287471352662"),
            ("-1", "0.3678794411714423215955237701614609"),
            ("0.5", "1.648721270700128146848650787814164"),
            ("100", "2.688117141816135448412625551580014E+43"),
            ("-2.5", "0.08208499862389879516952867446715981"),
        ] {
            assert_eq!(exp(decimal(x)).unwrap().to_string(), expected, "e^{x}");
        }
        assert_eq!(exp(decimal("1E-6143")).unwrap().to_string(), "1");
        for (x, expected) in [
            ("1", "0"),
            ("1.0", "0"),
            ("2", "0.6931471805599453094172321214581766"),
            ("10", "2.302585092994045684017991454684364"),
            ("0.1", "-2.302585092994045684017991454684364"),
            ("123.456", "4.815884817283263883109232105166526"),
            ("1E+6000", "13815.51055796427410410794872810619"),
        ] {
            assert_eq!(ln(decimal(x)).to_string(), expected, "ln {x}");
        }
        assert_eq!(log10(decimal("2")).to_string(), "0.3010299956639811952137388947244930");
        assert!(exp(decimal("1E+9")).is_none());
    }
}
