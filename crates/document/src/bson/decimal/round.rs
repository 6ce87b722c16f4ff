//! Rounding: the decimal of a coefficient that may have more than 34 digits.

use super::bits::{COEFFICIENT_MAX, Decimal128, EXPONENT_MAX, EXPONENT_MIN, Unpacked};
use super::wide::{Wide, digits, power_of_ten};

/// How a number is rounded that has more digits than may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, and to an even digit when two are equally near.
    HalfEven,
    /// Toward zero.
    TowardZero,
    /// Toward negative infinity.
    Floor,
    /// Toward positive infinity.
    Ceiling,
}

/// A number that is not rounded yet: (-1)^negative × (coefficient + fraction) × 10^exponent, where the fraction is
/// zero, or above zero and below one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unrounded {
    pub(super) negative: bool,
    pub(super) coefficient: Wide,
    /// Whether the fraction is not zero.
    pub(super) fraction: bool,
    pub(super) exponent: i32,
}

impl Unrounded {
    /// The nearest decimal, and whether it is exactly the number.
    pub(super) fn round(self) -> (Decimal128, bool) {
        let excess = i32::try_from(self.coefficient.digits().saturating_sub(34)).expect("at most 77 digits");
        // The smallest exponent may force more digits to go.
        let dropped = excess.max(EXPONENT_MIN - self.exponent);
        let (mut coefficient, exact) = self.without_digits(dropped, Rounding::HalfEven);
        let mut exponent = self.exponent + dropped.max(0);
        if coefficient > COEFFICIENT_MAX {
            // Rounded up to 10^34.
            coefficient /= 10;
            exponent += 1;
        }
        if exponent > EXPONENT_MAX {
            if coefficient == 0 {
                exponent = EXPONENT_MAX;
            } else {
                // Zeros at the end make up for a large exponent.
                let zeros = exponent - EXPONENT_MAX;
                let room = 34 - digits(coefficient);
                match usize::try_from(zeros).ok().filter(|zeros| *zeros <= room) {
                    Some(zeros) => (coefficient, exponent) = (coefficient * power_of_ten(zeros), EXPONENT_MAX),
                    None if self.negative => return (Decimal128::NEG_INFINITY, false),
                    None => return (Decimal128::INFINITY, false),
                }
            }
        }
        (Decimal128::finite(self.negative, coefficient, exponent), exact)
    }

    /// The coefficient without its last digits, rounded, and whether nothing was lost.
    fn without_digits(self, count: i32, rounding: Rounding) -> (u128, bool) {
        let fits = "the digits that stay are at most 34";
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            let coefficient = self.coefficient.narrow().expect(fits);
            let up = self.fraction && rounds_up(rounding, self.negative, coefficient, Tail::Low);
            return (coefficient + u128::from(up), !self.fraction);
        };
        if count > self.coefficient.digits() {
            let exact = self.coefficient.is_zero() && !self.fraction;
            return (u128::from(!exact && rounds_up(rounding, self.negative, 0, Tail::Low)), exact);
        }
        // Two steps where the divisor has more than 128 bits; what the first drops is part of the fraction.
        let mut number = self;
        let first = count.saturating_sub(38);
        if first > 0 {
            let (quotient, rest) = number.coefficient.divide(power_of_ten(first));
            number.coefficient = quotient;
            number.fraction |= rest != 0;
        }
        let unit = power_of_ten(count - first);
        let (quotient, rest) = number.coefficient.divide(unit);
        let quotient = quotient.narrow().expect(fits);
        let tail = match rest.cmp(&(unit / 2)) {
            _ if rest == 0 && !number.fraction => return (quotient, true),
            std::cmp::Ordering::Less => Tail::Low,
            std::cmp::Ordering::Equal if !number.fraction => Tail::Half,
            _ => Tail::High,
        };
        (quotient + u128::from(rounds_up(rounding, self.negative, quotient, tail)), false)
    }
}

/// What is dropped, against half a unit of what stays; never zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tail {
    Low,
    Half,
    High,
}

fn rounds_up(rounding: Rounding, negative: bool, coefficient: u128, tail: Tail) -> bool {
    match rounding {
        Rounding::HalfEven => tail == Tail::High || tail == Tail::Half && coefficient % 2 == 1,
        Rounding::TowardZero => false,
        Rounding::Floor => negative,
        Rounding::Ceiling => !negative,
    }
}

impl Decimal128 {
    /// The number with the exponent `exponent`, rounded; numbers that would need more than 34 digits stay as they
    /// are, and so do infinities and NaN. `exponent` 0 rounds to an integer.
    #[must_use]
    pub fn quantized(self, exponent: i32, rounding: Rounding) -> Self {
        let Unpacked::Finite { negative, coefficient, exponent: own } = self.unpack() else { return self };
        let exponent = exponent.clamp(EXPONENT_MIN, EXPONENT_MAX);
        if own < exponent {
            let number = Unrounded { negative, coefficient: Wide::new(coefficient), fraction: false, exponent: own };
            let (coefficient, _) = number.without_digits(exponent - own, rounding);
            return Self::finite(negative, coefficient, exponent);
        }
        let zeros = usize::try_from(own - exponent).unwrap_or_default();
        if coefficient != 0 && digits(coefficient) + zeros > 34 {
            return self;
        }
        let coefficient = if coefficient == 0 { 0 } else { coefficient * power_of_ten(zeros) };
        Self::finite(negative, coefficient, exponent)
    }

    /// The number as an integer, rounded; it keeps an exponent above zero.
    #[must_use]
    pub fn to_integral(self, rounding: Rounding) -> Self {
        match self.unpack() {
            Unpacked::Finite { exponent, .. } if exponent < 0 => self.quantized(0, rounding),
            _ => self,
        }
    }
}
