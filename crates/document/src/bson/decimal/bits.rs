//! The format of a decimal: sign, exponent and a binary integer of up to 34 decimal digits.
//!
//! # Format
//! 16 bytes, little-endian; from the highest bit:
//!
//! | bits | content |
//! |---|---|
//! | 1 | sign |
//! | 14 | exponent + 6176, when its first two bits are not both set |
//! | 113 | coefficient, at most 10^34 - 1; a larger one counts as zero |
//!
//! When the bits behind the sign are 11110 the number is infinite, when they are 11111 it is not a number. Other
//! numbers whose first two bits behind the sign are set have a coefficient that is too large, which counts as zero.

use std::fmt;

use crate::base::num::low64;

/// The largest coefficient: 34 nines.
pub const COEFFICIENT_MAX: u128 = 10_u128.pow(34) - 1;

/// The largest exponent of the coefficient's last digit.
pub const EXPONENT_MAX: i32 = 6111;

/// The smallest exponent of the coefficient's last digit.
pub const EXPONENT_MIN: i32 = -6176;

const SIGN: u64 = 1 << 63;
const INFINITE: u64 = 0b11110 << 58;
const NAN: u64 = 0b11111 << 58;

/// A decimal floating-point number of 128 bits. Equality of this type is equality of the bits, which tells 1.0 from
/// 1.00; [`compare_numbers`](super::super::compare_numbers) compares by value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Decimal128 {
    high: u64,
    low: u64,
}

/// The parts of a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpacked {
    /// (-1)^negative × coefficient × 10^exponent.
    Finite {
        /// The sign; zero has one too.
        negative: bool,
        /// At most [`COEFFICIENT_MAX`].
        coefficient: u128,
        /// From [`EXPONENT_MIN`] to [`EXPONENT_MAX`].
        exponent: i32,
    },
    /// Infinite, with a sign.
    Infinite {
        /// The sign.
        negative: bool,
    },
    /// Not a number.
    Nan,
}

impl Decimal128 {
    /// Zero with exponent zero.
    pub const ZERO: Self = Self::finite(false, 0, 0);
    /// One.
    pub const ONE: Self = Self::finite(false, 1, 0);
    /// Not a number.
    pub const NAN: Self = Self { high: NAN, low: 0 };
    /// Infinite.
    pub const INFINITY: Self = Self { high: INFINITE, low: 0 };
    /// Negative and infinite.
    pub const NEG_INFINITY: Self = Self { high: SIGN | INFINITE, low: 0 };

    /// The number with these bytes, in the order in which documents have them.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        let bits = u128::from_le_bytes(bytes);
        Self { high: low64(bits >> 64), low: low64(bits) }
    }

    /// The bytes, in the order in which documents have them.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 16] {
        ((self.high as u128) << 64 | self.low as u128).to_le_bytes()
    }

    /// The number with these parts.
    ///
    /// # Panics
    /// When coefficient or exponent are out of range.
    #[must_use]
    pub const fn finite(negative: bool, coefficient: u128, exponent: i32) -> Self {
        assert!(coefficient <= COEFFICIENT_MAX && exponent >= EXPONENT_MIN && exponent <= EXPONENT_MAX);
        let biased = (exponent - EXPONENT_MIN).unsigned_abs() as u64;
        let sign = if negative { SIGN } else { 0 };
        Self { high: sign | biased << 49 | low64(coefficient >> 64), low: low64(coefficient) }
    }

    /// The parts.
    #[must_use]
    pub const fn unpack(self) -> Unpacked {
        let negative = self.high & SIGN != 0;
        if self.high & NAN == NAN {
            return Unpacked::Nan;
        }
        if self.high & NAN == INFINITE {
            return Unpacked::Infinite { negative };
        }
        let large = self.high >> 61 & 3 == 3;
        let biased = if large { self.high >> 47 } else { self.high >> 49 } & 0x3FFF;
        let coefficient = (self.high as u128 & ((1 << 49) - 1)) << 64 | self.low as u128;
        let coefficient = if large || coefficient > COEFFICIENT_MAX { 0 } else { coefficient };
        // 14 bits fit.
        let exponent = i32::from_le_bytes([biased.to_le_bytes()[0], biased.to_le_bytes()[1], 0, 0]) + EXPONENT_MIN;
        Unpacked::Finite { negative, coefficient, exponent }
    }

    /// Whether it is not a number.
    #[must_use]
    pub const fn is_nan(self) -> bool {
        self.high & NAN == NAN
    }

    /// Whether it is infinite.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.high & NAN == INFINITE
    }

    /// Whether it is zero, of either sign.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self.unpack(), Unpacked::Finite { coefficient: 0, .. })
    }

    /// Whether its sign is negative; true of negative zero.
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.high & SIGN != 0
    }

    /// The number with the other sign.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self { high: self.high ^ SIGN, low: self.low }
    }

    /// The number without its sign.
    #[must_use]
    pub const fn abs(self) -> Self {
        Self { high: self.high & !SIGN, low: self.low }
    }
}

impl From<i32> for Decimal128 {
    fn from(number: i32) -> Self {
        Self::from(i64::from(number))
    }
}

impl From<i64> for Decimal128 {
    fn from(number: i64) -> Self {
        Self::finite(number < 0, u128::from(number.unsigned_abs()), 0)
    }
}

impl fmt::Debug for Decimal128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
