//! Decimal numbers of IEEE 754-2008 with 128 bits: 34 digits, exponents from -6176 to 6111.
//!
//! `bits` is the format in memory and on disk, `text` parses and prints, `wide` has integers of 256 bits, `round`
//! makes a decimal of a wide coefficient, `arithmetic` computes.

mod arithmetic;
mod bits;
mod round;
mod text;
pub mod wide;

pub use bits::{COEFFICIENT_MAX, Decimal128, EXPONENT_MAX, EXPONENT_MIN, Unpacked};
pub use round::Rounding;
