//! Unsigned integers of 256 bits, as far as decimals and their comparison need them.

use std::cmp::Ordering;

use crate::base::num::low64;

/// An unsigned integer of 256 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wide {
    high: u128,
    low: u128,
}

/// The powers of ten that fit 128 bits.
const POWERS: [u128; 39] = {
    let mut powers = [1; 39];
    let mut at = 1;
    while at < powers.len() {
        powers[at] = powers[at - 1] * 10;
        at += 1;
    }
    powers
};

/// A power of ten.
///
/// # Panics
/// When it does not fit 128 bits: above 38.
#[must_use]
pub const fn power_of_ten(exponent: usize) -> u128 {
    POWERS[exponent]
}

/// The number of decimal digits; zero has none.
#[must_use]
pub fn digits(number: u128) -> usize {
    POWERS.partition_point(|power| *power <= number)
}

impl Wide {
    /// A number of 128 bits.
    #[must_use]
    pub const fn new(low: u128) -> Self {
        Self { high: 0, low }
    }

    /// The product of two numbers of 128 bits.
    #[must_use]
    pub const fn product(a: u128, b: u128) -> Self {
        let ((a1, a0), (b1, b0)) = (halves(a), halves(b));
        let low = a0 * b0;
        let middle = a1 * b0 + (low >> 64);
        let other = a0 * b1 + low64(middle) as u128;
        let high = a1 * b1 + (middle >> 64) + (other >> 64);
        Self { high, low: other << 64 | low64(low) as u128 }
    }

    /// The number times a power of ten.
    ///
    /// # Panics
    /// When the product does not fit.
    #[must_use]
    pub fn times_power_of_ten(self, exponent: usize) -> Self {
        let mut product = self;
        let mut rest = exponent;
        while rest > 0 {
            let step = rest.min(38);
            let low = Self::product(product.low, power_of_ten(step));
            let high = Self::product(product.high, power_of_ten(step));
            assert!(high.high == 0, "a product of more than 256 bits");
            product =
                Self { high: high.low.checked_add(low.high).expect("the caller keeps to 77 digits"), low: low.low };
            rest -= step;
        }
        product
    }

    /// The number in 128 bits, if it fits.
    #[must_use]
    pub const fn narrow(self) -> Option<u128> {
        if self.high == 0 { Some(self.low) } else { None }
    }

    /// Whether it is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.high == 0 && self.low == 0
    }

    /// The sum.
    ///
    /// # Panics
    /// When it does not fit.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let (low, carry) = self.low.overflowing_add(other.low);
        Self { high: self.high + other.high + u128::from(carry), low }
    }

    /// The difference.
    ///
    /// # Panics
    /// When `other` is larger.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        let (low, borrow) = self.low.overflowing_sub(other.low);
        Self { high: self.high - other.high - u128::from(borrow), low }
    }

    /// Quotient and remainder.
    ///
    /// # Panics
    /// When the divisor is zero.
    #[must_use]
    pub fn divide(self, divisor: u128) -> (Self, u128) {
        if self.high == 0 {
            return (Self::new(self.low / divisor), self.low % divisor);
        }
        let (high, mut rest) = (self.high / divisor, self.high % divisor);
        let (divisor_high, _) = halves(divisor);
        if divisor_high == 0 {
            // Two steps of 64 bits: the remainder is below 2^64.
            let (upper, lower) = halves(self.low);
            let first = rest << 64 | upper;
            let second = (first % divisor) << 64 | lower;
            return (Self { high, low: ((first / divisor) << 64) | (second / divisor) }, second % divisor);
        }
        let mut low = 0;
        for bit in (0..128).rev() {
            let carry = rest >> 127;
            rest = (rest << 1) | (self.low >> bit & 1);
            low <<= 1;
            if carry == 1 || rest >= divisor {
                rest = rest.wrapping_sub(divisor);
                low |= 1;
            }
        }
        (Self { high, low }, rest)
    }

    /// The number of decimal digits; zero has none.
    #[must_use]
    pub fn digits(self) -> usize {
        match self.narrow() {
            Some(low) => digits(low),
            None => 38 + self.divide(power_of_ten(38)).0.digits(),
        }
    }
}

impl PartialOrd for Wide {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Wide {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.high, self.low).cmp(&(other.high, other.low))
    }
}

/// The upper and the lower 64 bits.
const fn halves(number: u128) -> (u128, u128) {
    (number >> 64, low64(number) as u128)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_divide_back() {
        for a in [1, 7, u128::MAX, 1 << 64, power_of_ten(34) - 1] {
            for b in [1, 3, u128::MAX, (1 << 64) - 1, power_of_ten(38)] {
                let product = Wide::product(a, b);
                assert_eq!(product.divide(b), (Wide::new(a), 0), "{a} {b}");
                if b > 1 {
                    assert_eq!(product.plus(Wide::new(1)).divide(b), (Wide::new(a), 1), "{a} {b}");
                    assert_eq!(product.minus(Wide::new(1)).divide(b), (Wide::new(a - 1), b - 1), "{a} {b}");
                }
            }
        }
        assert_eq!(Wide::new(1).times_power_of_ten(76).digits(), 77);
        assert_eq!((digits(0), digits(9), digits(10)), (0, 1, 2));
    }
}
