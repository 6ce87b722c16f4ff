//! Conversions between numbers that cannot lose a value silently.

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

/// The low 64 bits of a number.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the upper half is what the caller drops")]
pub const fn low64(value: u128) -> u64 {
    value as u64
}

/// A signed number as an unsigned one with the sign in the lowest bit: 0, -1, 1, -2 and so on are 0, 1, 2, 3.
#[inline]
#[must_use]
pub const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

/// The number of which [`zigzag`] made another.
#[inline]
#[must_use]
pub const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// The integral part of a double as `i64`, if it has one that fits; NaN and infinities have none.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the range is checked on the line before")]
pub fn trunc_to_i64(value: f64) -> Option<i64> {
    // Both bounds are exact doubles: -2^63, and 2^63, which is excluded.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value).then_some(value as i64)
}

/// The double nearest to an integer.
#[inline]
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "the nearest double is what the function promises")]
pub const fn nearest_f64(value: i64) -> f64 {
    value as f64
}
