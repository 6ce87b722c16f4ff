//! Type bits: what the encoding of values leaves out, because values that are equal have equal keys.
//!
//! # Format
//! Every number and every string of a key has a byte, in the order of the key; bytes of the default type at the end are
//! left out, so a key of default types has none. Codes, stored; never reuse:
//!
//! | code | number | string |
//! |---|---|---|
//! | 0 | the default type | string |
//! | 1 | | symbol |
//! | 2 | int64 | |
//! | 3 | double | |
//! | 4 | decimal, followed by its exponent + 6176, u16 big-endian | |
//! | 5 | negative zero as a double | |
//! | 6 | negative zero as a decimal, followed by its exponent | |
//!
//! The default type of an integer is int32 where it fits, int64 where that fits, else double; that of a number with a
//! fraction is double where it has its exact value. Other numbers are decimals without zeros at their end.

use smallvec::SmallVec;

/// The default type.
pub(super) const DEFAULT: u8 = 0;
/// A symbol.
pub(super) const SYMBOL: u8 = 1;
/// An integer of 64 bits that would fit 32.
pub(super) const INT64: u8 = 2;
/// A double that is an integer of 64 bits.
pub(super) const DOUBLE: u8 = 3;
/// A decimal whose value another type has too, or with zeros at its end.
pub(super) const DECIMAL: u8 = 4;
/// A double that is negative zero.
pub(super) const NEGATIVE_ZERO: u8 = 5;
/// A decimal that is negative zero.
pub(super) const NEGATIVE_ZERO_DECIMAL: u8 = 6;

/// The type bits of a key that is being encoded.
#[derive(Clone, Debug, Default)]
pub struct TypeBits {
    bytes: SmallVec<[u8; 16]>,
    /// Default types that no other type has followed yet.
    defaults: usize,
}

impl TypeBits {
    /// Type bits of an empty key.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins another key.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.defaults = 0;
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[inline]
    pub(super) fn default_type(&mut self) {
        self.defaults += 1;
    }

    pub(super) fn push(&mut self, code: u8) {
        self.bytes.extend(std::iter::repeat_n(DEFAULT, self.defaults));
        self.defaults = 0;
        self.bytes.push(code);
    }

    pub(super) fn push_exponent(&mut self, code: u8, biased: u16) {
        self.push(code);
        self.bytes.extend_from_slice(&biased.to_be_bytes());
    }
}

/// The type bits of a key that is being decoded.
#[derive(Clone, Copy, Debug, Default)]
pub struct TypeReader<'a>(&'a [u8]);

impl<'a> TypeReader<'a> {
    /// The type bits that were stored with a key.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Whether all types from here on are the default ones.
    #[inline]
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.0.is_empty()
    }

    /// The bits that were not read.
    #[inline]
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next code, which stays the next one.
    #[inline]
    pub(super) fn peek(&self) -> u8 {
        self.0.first().copied().unwrap_or(DEFAULT)
    }

    /// The next code.
    #[inline]
    pub(super) fn next(&mut self) -> u8 {
        match self.0.split_first() {
            Some((code, rest)) => {
                self.0 = rest;
                *code
            }
            None => DEFAULT,
        }
    }

    /// The exponent behind a decimal's code.
    pub(super) fn exponent(&mut self) -> Option<u16> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*bytes))
    }
}
