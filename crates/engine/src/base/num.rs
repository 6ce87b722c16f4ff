//! Conversions between numbers that cannot lose a value silently.

use std::time::Duration;

const _: () = assert!(usize::BITS == 64, "Spinney runs on 64-bit machines");

/// A count or offset as `u64`; never fails, because `usize` is 64 bits wide.
#[inline]
#[must_use]
pub const fn u64_of(value: usize) -> u64 {
    value as u64
}

/// A count or offset as `usize`; never fails, because `usize` is 64 bits wide.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "usize is 64 bits wide, asserted above")]
pub const fn usize_of(value: u64) -> usize {
    value as usize
}

/// A `u32` count or offset as `usize`.
#[inline]
#[must_use]
pub const fn usize_of32(value: u32) -> usize {
    value as usize
}

/// A length that the caller has bounded below 4 GiB.
///
/// # Panics
/// When the value does not fit, which is a bug in the caller.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "asserted on the line before")]
pub const fn u32_of(value: usize) -> u32 {
    assert!(value <= u32::MAX as usize, "a length over 4 GiB");
    value as u32
}

/// A time in nanoseconds; of more than 584 years the largest number.
#[inline]
#[must_use]
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The smallest multiple of `unit` (a power of two) that is not below `value`.
#[inline]
#[must_use]
pub const fn round_up(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two());
    (value + unit - 1) & !(unit - 1)
}

/// The largest multiple of `unit` (a power of two) that is not above `value`.
#[inline]
#[must_use]
pub const fn round_down(value: u64, unit: u64) -> u64 {
    debug_assert!(unit.is_power_of_two());
    value & !(unit - 1)
}

/// The whole part of a number that is not negative.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast keeps to the range of u64")]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_meets_its_bounds() {
        assert_eq!((round_up(0, 4096), round_up(1, 4096), round_up(4096, 4096)), (0, 4096, 4096));
        assert_eq!((round_down(4095, 4096), round_down(4096, 4096)), (0, 4096));
    }
}
