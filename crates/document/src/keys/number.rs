//! Numbers as bytes: one encoding of the exact value, whatever the type.
//!
//! # Format
//! For the magnitude x of a number, all integers big-endian:
//!
//! | tag | number | payload |
//! |---|---|---|
//! | 20 | NaN | none |
//! | 2B | zero | none |
//! | 2C | x < 1 | d, the largest double not above x: 8 bytes of `bits(d) << 2 \| (x != d)`; a tail if x != d |
//! | 2D to 34 | 1 <= x < 2^63 | `floor(x) << 1 \| (x has a fraction)` in 1 to 8 bytes; what a fraction f adds |
//! | 35 | x >= 2^63 | d as for 2C: 8 bytes of `bits(d) << 1 \| (x != d)`; a tail if x != d |
//!
//! A fraction f adds 7 bytes of `floor(f * 2^52) << 4 | (there is more)`, and a tail if there is more.
//!
//! Negative numbers have their tags mirrored around 2B, from 2A down to 21, and their payload complemented. Only
//! decimals have a tail: x = 0.c * 10^e where c has 34 digits; e + 6200 in 2 bytes, c in 15 bytes.

use super::sink::Sink;
use super::types::{self, TypeBits, TypeReader};
use crate::base::num::{low64, nearest_f64};
use crate::bson::Value;
use crate::bson::decimal::wide::{Wide, digits, power_of_ten};
use crate::bson::decimal::{Decimal128, EXPONENT_MIN, Unpacked};
use crate::bson::number::{Floor, floor_of_decimal};

pub(super) const NAN: u8 = 0x20;
pub(super) const ZERO: u8 = 0x2B;
const SMALL: u8 = 0x2C;
const LARGE: u8 = 0x35;
const TAIL_BYTES: usize = 17;
const TWO_POW_63: u64 = 1 << 63;

/// Appends tag and payload of a number that is not zero.
fn put(to: &mut Sink<'_>, negative: bool, tag: u8, payload: &[&[u8]]) {
    if negative {
        to.push(ZERO - (tag - ZERO));
        payload.iter().for_each(|part| to.extend_complemented(part));
    } else {
        to.push(tag);
        payload.iter().for_each(|part| to.extend(part));
    }
}

/// Appends an integer's magnitude `u`, shifted to the left by one, in as few bytes as it takes.
fn put_integral(to: &mut Sink<'_>, negative: bool, u: u64, fraction: &[&[u8]]) {
    let bytes = u.to_be_bytes();
    let skipped = (u.leading_zeros() / 8) as usize;
    let tag = LARGE - 1 - bytes_of(skipped);
    match fraction {
        [] => put(to, negative, tag, &[&bytes[skipped..]]),
        [fraction] => put(to, negative, tag, &[&bytes[skipped..], fraction]),
        [fraction, tail, ..] => put(to, negative, tag, &[&bytes[skipped..], fraction, tail]),
    }
}

/// A count below eight.
fn bytes_of(count: usize) -> u8 {
    count.to_le_bytes()[0]
}

#[inline]
pub(super) fn append_int(to: &mut Sink<'_>, number: i64) {
    let magnitude = number.unsigned_abs();
    match magnitude {
        0 => to.push(ZERO),
        TWO_POW_63 => {
            append_magnitude_as_double(to, true, Floor { double: 9_223_372_036_854_775_808.0, exact: true }, &[])
        }
        _ => put_integral(to, number < 0, magnitude << 1, &[]),
    }
}

pub(super) fn append_double(to: &mut Sink<'_>, types: &mut TypeBits, number: f64) {
    let (negative, magnitude) = (number.is_sign_negative(), number.abs());
    if number.is_nan() {
        types.default_type();
        to.push(NAN);
    } else if number == 0.0 {
        types.push(if negative { types::NEGATIVE_ZERO } else { types::DOUBLE });
        to.push(ZERO);
    } else if (1.0..9_223_372_036_854_775_808.0).contains(&magnitude) {
        let integral = crate::base::num::trunc_to_i64(magnitude).unwrap_or_default().unsigned_abs();
        let fraction = magnitude.fract();
        if fraction == 0.0 {
            types.push(types::DOUBLE);
            put_integral(to, negative, integral << 1, &[]);
        } else {
            types.default_type();
            // A double of at least one has at most 52 bits behind the point.
            let scaled = crate::base::num::trunc_to_i64(fraction * 4_503_599_627_370_496.0).unwrap_or_default();
            let bytes = (scaled.unsigned_abs() << 4).to_be_bytes();
            put_integral(to, negative, integral << 1 | 1, &[&bytes[1..]]);
        }
    } else {
        // -2^63 is an integer of 64 bits too, which is then the default type.
        if number == -9_223_372_036_854_775_808.0 {
            types.push(types::DOUBLE)
        } else {
            types.default_type()
        }
        append_magnitude_as_double(to, negative, Floor { double: magnitude, exact: true }, &[]);
    }
}

/// Appends a magnitude below one, or of at least 2^63.
fn append_magnitude_as_double(to: &mut Sink<'_>, negative: bool, floor: Floor, tail: &[u8]) {
    let more = u64::from(!floor.exact);
    let (tag, bits) = if floor.double < 1.0 {
        (SMALL, floor.double.to_bits() << 2 | more)
    } else {
        (LARGE, floor.double.to_bits() << 1 | more)
    };
    put(to, negative, tag, &[&bits.to_be_bytes(), if floor.exact { &[] } else { tail }]);
}

pub(super) fn append_decimal(to: &mut Sink<'_>, types: &mut TypeBits, number: Decimal128) {
    let biased = |exponent: i32| u16::try_from(exponent - EXPONENT_MIN).unwrap_or_default();
    let (negative, coefficient, exponent) = match number.unpack() {
        Unpacked::Nan => {
            types.push_exponent(types::DECIMAL, 0);
            return to.push(NAN);
        }
        Unpacked::Infinite { negative } => {
            types.push_exponent(types::DECIMAL, 0);
            let floor = Floor { double: f64::INFINITY, exact: true };
            return append_magnitude_as_double(to, negative, floor, &[]);
        }
        Unpacked::Finite { negative, coefficient: 0, exponent } => {
            let code = if negative { types::NEGATIVE_ZERO_DECIMAL } else { types::DECIMAL };
            types.push_exponent(code, biased(exponent));
            return to.push(ZERO);
        }
        Unpacked::Finite { negative, coefficient, exponent } => (negative, coefficient, exponent),
    };
    let count = digits(coefficient);
    let shortest = coefficient % 10 != 0;
    let magnitude = i32::try_from(count).unwrap_or_default() + exponent;
    let tail = || tail_of(coefficient, count, magnitude);
    let by_type_bits = |types: &mut TypeBits, tail: bool| {
        // A number with a tail is no double, so that a decimal is the default.
        if tail && shortest { types.default_type() } else { types.push_exponent(types::DECIMAL, biased(exponent)) }
    };
    if let Some((integral, fraction)) = in_integral_range(coefficient, exponent, magnitude) {
        match fraction {
            None => {
                by_type_bits(types, false);
                put_integral(to, negative, integral << 1, &[]);
            }
            Some((scaled, more)) => {
                by_type_bits(types, more);
                let bytes = (scaled << 4 | u64::from(more)).to_be_bytes();
                let tail = tail();
                let parts: [&[u8]; 2] = [&bytes[1..], &tail];
                put_integral(to, negative, integral << 1 | 1, if more { &parts } else { &parts[..1] });
            }
        }
    } else {
        let floor = floor_of_decimal(number.abs());
        by_type_bits(types, !floor.exact);
        append_magnitude_as_double(to, negative, floor, &tail());
    }
}

/// The integral part of a decimal's magnitude from 1 to below 2^63, and what is behind its point: the first 52 bits,
/// and whether there is more.
fn in_integral_range(coefficient: u128, exponent: i32, magnitude: i32) -> Option<(u64, Option<(u64, bool)>)> {
    if !(1..=19).contains(&magnitude) {
        return None;
    }
    let shift = usize::try_from(exponent.unsigned_abs()).ok()?;
    if exponent >= 0 {
        let integral = coefficient * power_of_ten(shift);
        return (integral < 1 << 63).then(|| (low64(integral), None));
    }
    let unit = power_of_ten(shift);
    let (integral, rest) = (coefficient / unit, coefficient % unit);
    if integral >= 1 << 63 {
        return None;
    }
    if rest == 0 {
        return Some((low64(integral), None));
    }
    let (scaled, more) = Wide::product(rest, 1 << 52).divide(unit);
    Some((low64(integral), Some((low64(scaled.narrow()?), more != 0))))
}

fn tail_of(coefficient: u128, count: usize, magnitude: i32) -> [u8; TAIL_BYTES] {
    let exponent = u16::try_from(magnitude + 6200).unwrap_or_default().to_be_bytes();
    let digits = (coefficient * power_of_ten(34 - count)).to_be_bytes();
    let mut tail = [0; TAIL_BYTES];
    tail[..2].copy_from_slice(&exponent);
    tail[2..].copy_from_slice(&digits[1..]);
    tail
}

/// The number of payload bytes behind a number's tag; `at` reads a byte behind the tag, complemented if the field is.
pub(super) fn payload_len(tag: u8, at: impl Fn(usize) -> Option<u8>) -> Option<usize> {
    let (mirrored, flip) = if tag < ZERO { (ZERO + (ZERO - tag), 0xFF) } else { (tag, 0) };
    let bit = |index: usize, mask: u8| at(index).map(|byte| (byte ^ flip) & mask != 0);
    Some(match mirrored {
        _ if tag == NAN || tag == ZERO => 0,
        SMALL | LARGE => 8 + if bit(7, 1)? { TAIL_BYTES } else { 0 },
        _ => {
            let len = usize::from(mirrored - SMALL);
            match bit(len - 1, 1)? {
                false => len,
                true => len + 7 + if bit(len + 6, 1)? { TAIL_BYTES } else { 0 },
            }
        }
    })
}

/// A number that is no decimal, at the start of a key whose bytes are complemented by `mask`: it, and how many bytes it
/// has. Nothing for decimals, which `code` or a tail tells, and for bytes that are no number.
#[inline]
pub(super) fn decode_plain(key: &[u8], mask: u8, code: u8) -> Option<(Value<'static>, usize)> {
    if code == types::DECIMAL || code == types::NEGATIVE_ZERO_DECIMAL {
        return None;
    }
    let tag = key.first()? ^ mask;
    let negative = tag < ZERO;
    let (mirrored, flip) = if negative { (ZERO + (ZERO - tag), !mask) } else { (tag, mask) };
    let signed = |double: f64| Value::Double(if negative { -double } else { double });
    if tag == NAN || mirrored <= SMALL || mirrored >= LARGE {
        return decode_rare(key, (tag, mirrored), flip, code);
    }
    let len = usize::from(mirrored - SMALL);
    let integral = read_flipped(key, 1, len, flip)?;
    let whole = (integral >> 1).cast_signed();
    if integral & 1 == 1 {
        let fraction = read_flipped(key, 1 + len, 7, flip)?;
        let behind = nearest_f64((fraction >> 4).cast_signed()) / 4_503_599_627_370_496.0;
        return (fraction & 1 == 0).then_some((signed(nearest_f64(whole) + behind), len + 8));
    }
    let whole = if code == types::DOUBLE {
        signed(nearest_f64(whole))
    } else {
        integer(if negative { -whole } else { whole }, code)
    };
    Some((whole, 1 + len))
}

/// As [`decode_plain`], of NaN, zero, and magnitudes that are stored as doubles, by their tag, also as that of the
/// magnitude.
fn decode_rare(key: &[u8], (tag, mirrored): (u8, u8), flip: u8, code: u8) -> Option<(Value<'static>, usize)> {
    match (tag, mirrored) {
        (NAN, _) => Some((Value::Double(f64::NAN), 1)),
        (ZERO, _) => {
            let zero = match code {
                types::INT64 => Value::Int64(0),
                types::DOUBLE => Value::Double(0.0),
                types::NEGATIVE_ZERO => Value::Double(-0.0),
                _ => Value::Int32(0),
            };
            Some((zero, 1))
        }
        (_, SMALL | LARGE) => {
            let bits = read_flipped(key, 1, 8, flip)?;
            let double = f64::from_bits(bits >> if mirrored == SMALL { 2 } else { 1 });
            let negative = tag < ZERO;
            let number = if negative && double == 9_223_372_036_854_775_808.0 && code != types::DOUBLE {
                Value::Int64(i64::MIN)
            } else {
                Value::Double(if negative { -double } else { double })
            };
            (bits & 1 == 0).then_some((number, 9))
        }
        _ => None,
    }
}

/// The big-endian number of `len` bytes of a key, 1 to 8, from its byte `at` on, each complemented by `flip`. It is one
/// load of eight bytes, of which those of other fields are shifted out, where the key has as many.
#[inline]
fn read_flipped(key: &[u8], at: usize, len: usize, flip: u8) -> Option<u64> {
    let load = |bytes: &[u8; 8]| u64::from_be_bytes(*bytes) ^ u64::from_ne_bytes([flip; 8]);
    let rest = key.get(at..)?;
    if let Some(bytes) = rest.first_chunk() {
        return Some(load(bytes) >> (64 - 8 * len));
    }
    let end = key.get(..at + len)?;
    match end.last_chunk() {
        Some(bytes) => Some(load(bytes) & (u64::MAX >> (64 - 8 * len))),
        None => Some(rest[..len].iter().fold(0, |sum, byte| sum << 8 | u64::from(byte ^ flip))),
    }
}

/// An integer of the type that a code says.
fn integer(number: i64, code: u8) -> Value<'static> {
    match i32::try_from(number) {
        Ok(small) if code != types::INT64 => Value::Int32(small),
        _ => Value::Int64(number),
    }
}

/// The decimal with a tag, its payload, neither complemented by a descending field, and its type bits.
pub(super) fn decode_decimal(tag: u8, payload: &[u8], types: &mut TypeReader<'_>) -> Option<Decimal128> {
    let code = types.next();
    let exponent = match code {
        types::DECIMAL | types::NEGATIVE_ZERO_DECIMAL => Some(i32::from(types.exponent()?) + EXPONENT_MIN),
        _ => None,
    };
    match (tag, exponent) {
        (NAN, _) => return Some(Decimal128::NAN),
        (ZERO, Some(exponent)) => {
            return Some(Decimal128::finite(code == types::NEGATIVE_ZERO_DECIMAL, 0, exponent));
        }
        _ => {}
    }
    let negative = tag < ZERO;
    let mut bytes = [0; 32];
    let bytes = bytes.get_mut(..payload.len())?;
    for (to, from) in bytes.iter_mut().zip(payload) {
        *to = if negative { !from } else { *from };
    }
    let magnitude = Magnitude::read(if negative { ZERO + (ZERO - tag) } else { tag }, bytes)?;
    let number = match (magnitude, exponent) {
        (magnitude, Some(exponent)) => with_exponent(magnitude.to_decimal(), exponent),
        (Magnitude::Tail(number), None) => shortest(number),
        _ => return None,
    };
    Some(if negative { number.negated() } else { number })
}

/// A magnitude that is not zero.
#[derive(Clone, Copy)]
enum Magnitude {
    Integral(u64),
    /// An integral part and 52 bits behind the point.
    Fraction(u64, u64),
    Double(f64),
    Tail(Decimal128),
}

impl Magnitude {
    fn read(tag: u8, bytes: &[u8]) -> Option<Self> {
        if tag == SMALL || tag == LARGE {
            let (bits, tail) = bytes.split_first_chunk()?;
            let bits = u64::from_be_bytes(*bits);
            if bits & 1 == 1 {
                return Self::read_tail(tail);
            }
            return Some(Self::Double(f64::from_bits(bits >> if tag == SMALL { 2 } else { 1 })));
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        let (integral, rest) = bytes.split_at_checked(usize::from(tag.checked_sub(SMALL)?))?;
        let integral = number(integral);
        if integral & 1 == 0 {
            return Some(Self::Integral(integral >> 1));
        }
        let (fraction, tail) = rest.split_at_checked(7)?;
        let fraction = number(fraction);
        if fraction & 1 == 1 { Self::read_tail(tail) } else { Some(Self::Fraction(integral >> 1, fraction >> 4)) }
    }

    fn read_tail(tail: &[u8]) -> Option<Self> {
        let (exponent, digits) = tail.split_first_chunk()?;
        let coefficient = digits.iter().fold(0_u128, |sum, byte| sum << 8 | u128::from(*byte));
        let exponent = i32::from(u16::from_be_bytes(*exponent)) - 6200 - 34;
        if coefficient > crate::bson::decimal::COEFFICIENT_MAX {
            return None;
        }
        // The least decimals have fewer than 34 digits.
        let missing = usize::try_from(EXPONENT_MIN - exponent).unwrap_or_default();
        let coefficient = coefficient.checked_div(10_u128.checked_pow(u32::try_from(missing).ok()?)?)?;
        let exponent = exponent.max(EXPONENT_MIN);
        (exponent <= crate::bson::decimal::EXPONENT_MAX)
            .then(|| Self::Tail(Decimal128::finite(false, coefficient, exponent)))
    }

    /// The decimal of a magnitude that was one.
    fn to_decimal(self) -> Decimal128 {
        match self {
            Self::Integral(number) => Decimal128::finite(false, u128::from(number), 0),
            Self::Double(number) if number.is_infinite() => Decimal128::INFINITY,
            Self::Double(number) => Decimal128::from_f64(number),
            Self::Fraction(integral, scaled) => {
                let fraction = Decimal128::finite(false, u128::from(scaled), 0);
                let fraction = fraction.divided_by(Decimal128::finite(false, 1 << 52, 0));
                Decimal128::finite(false, u128::from(integral), 0).plus(fraction)
            }
            Self::Tail(number) => number,
        }
    }
}

/// The same number with an exponent that its digits allow.
fn with_exponent(number: Decimal128, exponent: i32) -> Decimal128 {
    number.quantized(exponent, crate::bson::decimal::Rounding::HalfEven)
}

/// The same number without zeros at its end.
fn shortest(number: Decimal128) -> Decimal128 {
    let Unpacked::Finite { negative, mut coefficient, mut exponent } = number.unpack() else { return number };
    while coefficient != 0 && coefficient % 10 == 0 && exponent < crate::bson::decimal::EXPONENT_MAX {
        (coefficient, exponent) = (coefficient / 10, exponent + 1);
    }
    Decimal128::finite(negative, coefficient, exponent)
}
