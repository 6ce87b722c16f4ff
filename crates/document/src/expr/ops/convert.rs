//! Types and conversions between them.

use std::str::FromStr;

use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::decimal::Rounding;
use crate::bson::number::Number;
use crate::bson::{Decimal128, Kind, ObjectId, Timestamp, Value};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, function};
use crate::expr::value::{TEXT_BYTES_MAX, Val, error, too_large, truth};

function!(type_of(call, env) { Ok(Val::text(call.argument(0, env)?.type_name())) });
function!(is_number(call, env) { Ok(crate::expr::value::is_number(&call.argument(0, env)?).into()) });

/// A double as MongoDB prints it: six digits where they suffice to read it back, else all.
#[must_use]
pub(in crate::expr) fn double_text(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let plain = format!("{number}");
    let magnitude = number.abs();
    if number == 0.0 {
        return if number.is_sign_negative() { "-0".to_owned() } else { "0".to_owned() };
    }
    if (1e-4..1e16).contains(&magnitude) {
        return plain;
    }
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    with_exponent(mantissa, exponent)
}

/// Exponents have a sign and at least two digits.
fn with_exponent(mantissa: &str, exponent: &str) -> String {
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// A double with six significant digits, without zeros at the end, as `$toLower` and others take it for a text.
#[must_use]
pub(in crate::expr) fn short_double_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf".to_owned() } else { "-inf".to_owned() };
    }
    let text = format!("{number:.5e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = exponent.parse().unwrap_or_default();
    let without_zeros = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    match usize::try_from(5 - power) {
        Ok(decimals @ 0..=9) => without_zeros(&format!("{number:.decimals$}")),
        _ => with_exponent(&without_zeros(mantissa), exponent),
    }
}

/// A timestamp as `$toLower` and others take it for a text, such as `Jan  1 00:00:00:1`.
#[must_use]
pub(in crate::expr) fn timestamp_text(timestamp: Timestamp) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let civil = crate::bson::date::Civil::from_millis(i64::from(timestamp.time) * 1000);
    let month = usize::from(civil.month).checked_sub(1).and_then(|month| MONTHS.get(month)).unwrap_or(&"");
    let (day, hour, minute, second) = (civil.day, civil.hour, civil.minute, civil.second);
    format!("{month} {day:>2} {hour:02}:{minute:02}:{second:02}:{}", timestamp.increment)
}

/// A date as conversions print it.
#[must_use]
pub(in crate::expr) fn date_text(millis: i64) -> String {
    let civil = crate::bson::date::Civil::from_millis(millis);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
        civil.year, civil.month, civil.day, civil.hour, civil.minute, civil.second, civil.millisecond
    )
}

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::CONVERSION_FAILURE, what)
}

fn unsupported(from: &Value<'_>, to: &str) -> Error {
    failed(format!("Unsupported conversion from {} to {to} in $convert with no onError value", from.kind().name()))
}

/// How binary values and text are turned into each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    None,
    Base64,
    Base64Url,
    Hex,
    Utf8,
    Uuid,
    Auto,
}

/// A conversion that was asked for.
struct Conversion {
    to: Kind,
    subtype: u8,
    format: Format,
    base: Option<u32>,
    big_endian: bool,
}

impl Conversion {
    const fn plain(to: Kind) -> Self {
        Self { to, subtype: 0, format: Format::None, base: None, big_endian: false }
    }

    fn apply(&self, value: &Value<'_>) -> Result<Val<'static>> {
        Ok(match self.to {
            Kind::Double => Val::View(self.to_double(value)?),
            Kind::Int32 => Val::View(self.to_int(value, Kind::Int32)?),
            Kind::Int64 => Val::View(self.to_int(value, Kind::Int64)?),
            Kind::Decimal128 => Val::View(to_decimal(value)?),
            Kind::Bool => Val::View(Value::Bool(truth_of(value))),
            Kind::String => self.to_text(value)?,
            Kind::ObjectId => Val::View(to_object_id(value)?),
            Kind::DateTime => Val::View(to_date(value)?),
            Kind::Binary => self.to_binary(value)?,
            Kind::Document | Kind::Array => self.to_json(value)?,
            other => return Err(unsupported(value, other.name())),
        })
    }

    fn to_double(&self, value: &Value<'_>) -> Result<Value<'static>> {
        match value {
            Value::Binary(subtype, bytes) => {
                let mut bytes = stored_bytes(*subtype, bytes);
                if self.big_endian {
                    bytes.reverse();
                }
                to_double(&Value::Binary(0, &bytes))
            }
            value => to_double(value),
        }
    }

    fn to_json(&self, value: &Value<'_>) -> Result<Val<'static>> {
        if value.kind() == self.to {
            return Ok(Val::Own((*value).into()));
        }
        let Value::String(text) = value else { return Err(unsupported(value, self.to.name())) };
        let wrapped = format!("{{\"v\":{}}}", text.to_str_lossy());
        let document = crate::bson::DocumentBuf::from_json(&wrapped).map_err(|wrong| {
            failed(format!("Failed to parse JSON in $convert with no onError value: {}", wrong.message()))
        })?;
        match document.view().get("v") {
            Some(value) if value.kind() == self.to => Ok(Val::Own(value.into())),
            _ => Err(failed("the JSON text is of another type in $convert with no onError value")),
        }
    }

    fn to_int(&self, value: &Value<'_>, kind: Kind) -> Result<Value<'static>> {
        let range = |number: i64| match kind {
            Kind::Int32 => i32::try_from(number).map(Value::Int32).map_err(|_| out_of_range(value)),
            _ => Ok(Value::Int64(number)),
        };
        match value {
            Value::Bool(is) => range(i64::from(*is)),
            Value::DateTime(millis) if kind == Kind::Int64 => Ok(Value::Int64(*millis)),
            Value::Double(number) if !number.is_finite() => Err(failed(format!(
                "Attempt to convert {} value to integer type in $convert with no onError value",
                if number.is_nan() { "NaN" } else { "infinity" }
            ))),
            Value::Decimal128(number) if number.is_nan() || number.is_infinite() => Err(failed(
                "Attempt to convert NaN or infinity value to integer type in $convert with no onError value",
            )),
            Value::String(text) => {
                let text = text.to_str_lossy();
                let parsed = match self.base {
                    Some(base) => parse_based(&text, base),
                    None => parse_int(&text),
                };
                let wrong = || {
                    failed(format!(
                        "Failed to parse number '{text}' in $convert with no onError value: Did not consume whole string."
                    ))
                };
                range(parsed.ok_or_else(wrong)?).map_err(|_| {
                    failed(format!("Failed to parse number '{text}' in $convert with no onError value: Overflow"))
                })
            }
            Value::Binary(subtype, bytes) => {
                let bytes = stored_bytes(*subtype, bytes);
                let fits = kind == Kind::Int64 || bytes.len() <= 4;
                let number = integer_of_bytes(&bytes, self.big_endian).filter(|_| fits).ok_or_else(|| {
                    failed(
                        "Failed to convert BinData to a number in $convert with no onError value because of its length",
                    )
                })?;
                range(number)
            }
            value => match value.as_number() {
                Some(number) => range(number.trunc_to_i64().ok_or_else(|| out_of_range(value))?),
                None => Err(unsupported(value, kind.name())),
            },
        }
    }

    fn to_text(&self, value: &Value<'_>) -> Result<Val<'static>> {
        Ok(match value {
            Value::String(text) | Value::Symbol(text) => Val::text(text.as_bytes()),
            Value::Bool(is) => Val::text(is.to_string()),
            Value::Int32(number) => Val::text(self.int_text(i64::from(*number))),
            Value::Int64(number) => Val::text(self.int_text(*number)),
            Value::Double(number) => match (self.base, trunc_to_i64(*number)) {
                (Some(_), Some(whole)) if number.fract() == 0.0 => Val::text(self.int_text(whole)),
                _ => Val::text(double_text(*number)),
            },
            Value::Decimal128(number) => Val::text(number.to_string()),
            Value::ObjectId(id) => Val::text(id.to_string()),
            Value::DateTime(millis) => {
                let year = crate::bson::date::Civil::from_millis(*millis).year;
                if !(0..=9999).contains(&year) {
                    let what = format!(
                        "Could not convert date to string: date component was outside the supported range of 0-9999: {year}"
                    );
                    return Err(error(18537, what));
                }
                Val::text(date_text(*millis))
            }
            Value::Binary(subtype, bytes) => {
                // Twice the bytes at the most: what is too long is not made.
                let len = match self.format {
                    Format::Hex => bytes.len().saturating_mul(2),
                    Format::Utf8 => bytes.len(),
                    _ => bytes.len().div_ceil(3).saturating_mul(4),
                };
                if len >= TEXT_BYTES_MAX && self.format == Format::Utf8 {
                    return Err(too_large(len));
                }
                if len >= TEXT_BYTES_MAX {
                    return Err(failed("Resulting string value is too large in $convert with no onError value"));
                }
                Val::text(self.binary_text(*subtype, bytes)?)
            }
            Value::Document(_) | Value::Array(_) => Val::text(value.to_json()),
            other => return Err(unsupported(other, "string")),
        })
    }

    fn int_text(&self, number: i64) -> String {
        let sign = if number < 0 { "-" } else { "" };
        let magnitude = number.unsigned_abs();
        match self.base {
            Some(2) => format!("{sign}{magnitude:b}"),
            Some(8) => format!("{sign}{magnitude:o}"),
            Some(16) => format!("{sign}{magnitude:X}"),
            _ => number.to_string(),
        }
    }

    fn binary_text(&self, subtype: u8, bytes: &[u8]) -> Result<String> {
        use base64::Engine as _;
        let engine = &base64::engine::general_purpose::STANDARD;
        let uuid = || {
            uuid_text(bytes)
                .ok_or_else(|| failed("Failed to convert BinData to a UUID string in $convert with no onError value"))
        };
        Ok(match self.format {
            Format::Base64 => engine.encode(bytes),
            Format::Base64Url => base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes),
            Format::Hex => hex_of(bytes),
            Format::Utf8 => String::from_utf8(bytes.to_vec())
                .map_err(|_| failed("BinData is no valid UTF-8 in $convert with no onError value"))?,
            Format::Uuid if subtype == 4 => uuid()?,
            Format::Uuid => {
                return Err(failed(
                    "Only the UUID subtype (4) is allowed with the UUID format in $convert with no onError value",
                ));
            }
            Format::Auto if subtype == 4 => uuid()?,
            Format::Auto | Format::None => engine.encode(bytes),
        })
    }

    fn to_binary(&self, value: &Value<'_>) -> Result<Val<'static>> {
        use base64::Engine as _;
        let binary = |bytes: &[u8]| Val::Own(Value::Binary(self.subtype, bytes).into());
        match value {
            Value::Binary(subtype, bytes) if *subtype == self.subtype => Ok(binary(bytes)),
            Value::Binary(..) => Err(failed(
                "Conversions between different BinData subtypes are not supported in $convert with no onError value",
            )),
            Value::String(text) => {
                let text = text.to_str_lossy();
                let invalid = |what: &str| {
                    failed(format!("Input string is not {what} in $convert with no onError value: {text}"))
                };
                if self.subtype == 4 && !matches!(self.format, Format::Uuid | Format::Auto | Format::None) {
                    return Err(failed(
                        "Only the UUID format is allowed with subtype 4 in $convert with no onError value",
                    ));
                }
                let bytes = match self.format {
                    Format::Base64 => {
                        base64::engine::general_purpose::STANDARD.decode(&*text).map_err(|_| invalid("base64"))?
                    }
                    Format::Base64Url => base64::engine::general_purpose::URL_SAFE_NO_PAD
                        .decode(text.trim_end_matches('='))
                        .map_err(|_| invalid("base64url"))?,
                    Format::Hex => bytes_of_hex(&text).ok_or_else(|| invalid("hex"))?,
                    Format::Utf8 => text.as_bytes().to_vec(),
                    Format::Uuid => {
                        if self.subtype != 4 {
                            return Err(failed(
                                "Only the UUID subtype (4) is allowed with the UUID format in $convert with no onError value",
                            ));
                        }
                        bytes_of_uuid(&text).ok_or_else(|| invalid("a UUID"))?
                    }
                    Format::Auto | Format::None => bytes_of_uuid(&text).ok_or_else(|| invalid("a UUID"))?,
                };
                Ok(binary(&bytes))
            }
            Value::Int32(number) => Ok(binary(&ordered(number.to_le_bytes(), self.big_endian))),
            Value::Int64(number) => Ok(binary(&ordered(number.to_le_bytes(), self.big_endian))),
            Value::Double(number) => Ok(binary(&ordered(number.to_le_bytes(), self.big_endian))),
            other => Err(unsupported(other, "binData")),
        }
    }
}

/// The bytes of a binary value as they are stored: those of the old subtype 2 begin with their length.
fn stored_bytes(subtype: u8, bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    if subtype == 2 { [&length[..], bytes].concat() } else { bytes.to_vec() }
}

fn ordered<const N: usize>(mut little: [u8; N], big: bool) -> [u8; N] {
    if big {
        little.reverse();
    }
    little
}

fn integer_of_bytes(bytes: &[u8], big: bool) -> Option<i64> {
    let mut bytes = bytes.to_vec();
    if big {
        bytes.reverse();
    }
    match bytes.len() {
        1 => Some(i64::from(i8::from_le_bytes(bytes.try_into().ok()?))),
        2 => Some(i64::from(i16::from_le_bytes(bytes.try_into().ok()?))),
        4 => Some(i64::from(i32::from_le_bytes(bytes.try_into().ok()?))),
        8 => Some(i64::from_le_bytes(bytes.try_into().ok()?)),
        _ => None,
    }
}

fn hex_of(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02X}"))
}

fn bytes_of_hex(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len() / 2).map(|at| u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()).collect()
}

fn uuid_text(bytes: &[u8]) -> Option<String> {
    let hex = hex_of(bytes).to_ascii_lowercase();
    (bytes.len() == 16)
        .then(|| format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]))
}

fn bytes_of_uuid(text: &str) -> Option<Vec<u8>> {
    let dashes = text.char_indices().filter(|(_, c)| *c == '-').map(|(at, _)| at);
    if text.len() != 36 || !dashes.eq([8, 13, 18, 23]) {
        return None;
    }
    bytes_of_hex(&text.replace('-', ""))
}

fn out_of_range(value: &Value<'_>) -> Error {
    failed(format!("Conversion would overflow target type in $convert with no onError value: {}", value.to_json()))
}

fn parse_int(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn parse_based(text: &str, base: u32) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let digits = match base {
        16 => digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")).unwrap_or(digits),
        _ => digits,
    };
    i64::from_str_radix(digits, base).ok().map(|number| number * sign)
}

fn to_double(value: &Value<'_>) -> Result<Value<'static>> {
    Ok(Value::Double(match value {
        Value::Bool(is) => f64::from(u8::from(*is)),
        Value::DateTime(millis) => nearest_f64(*millis),
        Value::String(text) => {
            let text = text.to_str_lossy();
            parse_double(&text).ok_or_else(|| {
                failed(format!(
                    "Failed to parse number '{text}' in $convert with no onError value: Did not consume whole string."
                ))
            })?
        }
        Value::Decimal128(number) => {
            let double = number.to_f64();
            if double.is_infinite() && !number.is_infinite() {
                return Err(out_of_range(value));
            }
            double
        }
        Value::Binary(_, bytes) => match bytes.len() {
            4 => f64::from(f32::from_le_bytes((*bytes).try_into().unwrap_or_default())),
            8 => f64::from_le_bytes((*bytes).try_into().unwrap_or_default()),
            _ => {
                return Err(failed(
                    "Failed to convert BinData to a double in $convert with no onError value because of its length",
                ));
            }
        },
        value => value.as_f64().ok_or_else(|| unsupported(value, "double"))?,
    }))
}

fn parse_double(text: &str) -> Option<f64> {
    let trimmed = text.strip_prefix(['-', '+']).unwrap_or(text);
    let negative = text.starts_with('-');
    let special = match trimmed.to_ascii_lowercase().as_str() {
        "nan" => Some(f64::NAN),
        "inf" | "infinity" => Some(if negative { f64::NEG_INFINITY } else { f64::INFINITY }),
        _ => None,
    };
    if special.is_some() {
        return special;
    }
    if !trimmed.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let number = match trimmed.strip_prefix("0x").or_else(|| trimmed.strip_prefix("0X")) {
        Some(digits) => parse_hex_double(digits).map(|number| if negative { -number } else { number })?,
        None => f64::from_str(text).ok()?,
    };
    // What is too large or too small for a double is none.
    (number.is_finite() && (number != 0.0 || !has_digits(trimmed))).then_some(number)
}

/// Whether the digits of a number in text are not all zeros.
fn has_digits(text: &str) -> bool {
    let mantissa = text.split(['e', 'E', 'p', 'P']).next().unwrap_or_default();
    mantissa.trim_start_matches("0x").trim_start_matches("0X").chars().any(|c| c.is_ascii_hexdigit() && c != '0')
}

/// The decimal of a number in text: digits beyond 34 are cut off, and what is too large or too small for a decimal is
/// none.
fn parse_decimal(text: &str) -> Option<Decimal128> {
    let (mantissa, exponent) = text.find(['e', 'E']).map_or((text, ""), |at| text.split_at(at));
    let (mut cut, mut significant, mut is_fraction) = (String::with_capacity(text.len()), 0, false);
    for c in mantissa.chars() {
        is_fraction |= c == '.';
        let is_digit = c.is_ascii_digit();
        significant += usize::from(is_digit && (significant > 0 || c != '0'));
        match is_digit && significant > 34 {
            false => cut.push(c),
            true if !is_fraction => cut.push('0'),
            true => {}
        }
    }
    let decimal = Decimal128::parse_rounding(&(cut + exponent)).ok()?;
    let is_number = mantissa.contains(|c: char| c.is_ascii_digit());
    let is_lost = is_number && (decimal.is_infinite() || decimal.is_zero() && has_digits(mantissa));
    (!is_lost).then_some(decimal)
}

/// A number such as `1.8p-1` behind `0x`: hexadecimal digits, and a power of two.
fn parse_hex_double(text: &str) -> Option<f64> {
    let (digits, power) = match text.split_once(['p', 'P']) {
        Some((digits, power)) => (digits, i32::from_str(power).ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (mut number, mut scale) = (0.0_f64, 1.0_f64);
    for digit in whole.chars() {
        number = number * 16.0 + f64::from(digit.to_digit(16)?);
    }
    for digit in fraction.chars() {
        scale /= 16.0;
        number += scale * f64::from(digit.to_digit(16)?);
    }
    Some(number * 2.0_f64.powi(power))
}

fn to_decimal(value: &Value<'_>) -> Result<Value<'static>> {
    Ok(Value::Decimal128(match value {
        Value::Bool(is) => Decimal128::from(i32::from(*is)),
        Value::DateTime(millis) => Decimal128::from(*millis),
        Value::String(text) => {
            let text = text.to_str_lossy();
            parse_decimal(&text).ok_or_else(|| failed(format!("Failed to parse number '{text}' in $convert with no onError value: Failed to parse string to decimal")))?
        }
        value => value.as_number().ok_or_else(|| unsupported(value, "decimal"))?.to_decimal(),
    }))
}

fn truth_of(value: &Value<'_>) -> bool {
    truth(value)
}

fn to_object_id(value: &Value<'_>) -> Result<Value<'static>> {
    match value {
        Value::ObjectId(id) => Ok(Value::ObjectId(*id)),
        Value::String(text) => {
            let text = text.to_str_lossy();
            text.parse::<ObjectId>().map(Value::ObjectId).map_err(|_| {
                failed(format!("Failed to parse objectId '{text}' in $convert with no onError value: Invalid string length for parsing to OID, expected 24 but found {}", text.len()))
            })
        }
        other => Err(unsupported(other, "objectId")),
    }
}

fn to_date(value: &Value<'_>) -> Result<Value<'static>> {
    Ok(Value::DateTime(match value {
        Value::DateTime(millis) => *millis,
        Value::Timestamp(timestamp) => i64::from(timestamp.time) * 1000,
        Value::ObjectId(id) => id.millis(),
        Value::Int64(number) => *number,
        Value::Double(number) => trunc_to_i64(*number).ok_or_else(|| out_of_range(value))?,
        Value::Decimal128(number) => Number::Decimal(number.to_integral(Rounding::TowardZero))
            .to_exact_i64()
            .ok_or_else(|| out_of_range(value))?,
        Value::String(text) => super::date::parse::parse_date(&text.to_str_lossy(), None)
            .ok_or_else(|| failed(format!("Error parsing date string '{text}' in $convert with no onError value")))?,
        other => return Err(unsupported(other, "date")),
    }))
}

/// `$toInt` and its like.
fn converted<'a>(call: &'a Call, env: &Env<'a>, conversion: &Conversion) -> Result<Val<'a>> {
    let value = call.argument(0, env)?;
    if value.is_nullish() {
        return Ok(Val::NULL);
    }
    conversion.apply(&value.value())
}

function!(to_int(call, env) { converted(call, env, &Conversion::plain(Kind::Int32)) });
function!(to_long(call, env) { converted(call, env, &Conversion::plain(Kind::Int64)) });
function!(to_double_value(call, env) { converted(call, env, &Conversion::plain(Kind::Double)) });
function!(to_decimal_value(call, env) { converted(call, env, &Conversion::plain(Kind::Decimal128)) });
function!(to_bool(call, env) { converted(call, env, &Conversion::plain(Kind::Bool)) });
function!(to_string(call, env) { converted(call, env, &Conversion { format: Format::Auto, ..Conversion::plain(Kind::String) }) });
function!(to_object_id_value(call, env) { converted(call, env, &Conversion::plain(Kind::ObjectId)) });
function!(to_date_value(call, env) { converted(call, env, &Conversion::plain(Kind::DateTime)) });
function!(to_uuid(call, env) { converted(call, env, &Conversion { format: Format::Uuid, subtype: 4, ..Conversion::plain(Kind::Binary) }) });

/// The type that `to` names.
fn kind_of(value: &Value<'_>) -> Result<Kind> {
    let kinds = [
        Kind::Double,
        Kind::String,
        Kind::Document,
        Kind::Array,
        Kind::Binary,
        Kind::ObjectId,
        Kind::Bool,
        Kind::DateTime,
        Kind::Int32,
        Kind::Int64,
        Kind::Decimal128,
        Kind::Null,
        Kind::Regex,
        Kind::Timestamp,
        Kind::MinKey,
        Kind::MaxKey,
        Kind::Undefined,
        Kind::Code,
        Kind::Symbol,
        Kind::CodeWithScope,
        Kind::DbPointer,
    ];
    match value {
        Value::String(name) => kinds
            .into_iter()
            .find(|kind| *name == *kind.name())
            .ok_or_else(|| Error::bad_value(format!("Unknown type name: {name}"))),
        value => match value.as_exact_i64() {
            // The type of what is missing, to which nothing is converted.
            Some(0) => Err(failed("Unsupported conversion to missing in $convert with no onError value")),
            Some(number) => kinds.into_iter().find(|kind| i64::from(kind.number()) == number).ok_or_else(|| {
                Error::new(
                    ErrorCode::FAILED_TO_PARSE,
                    format!("In $convert, numeric value for 'to' does not correspond to a BSON type: {number}"),
                )
            }),
            None => Err(Error::new(
                ErrorCode::FAILED_TO_PARSE,
                format!("$convert's 'to' argument must be a string or number, but is {}", value.kind().name()),
            )),
        },
    }
}

fn format_of(value: &Val<'_>) -> Result<Option<Format>> {
    if value.is_nullish() {
        return Ok(None);
    }
    let Value::String(name) = value.value() else {
        return Err(error(
            4_341_114,
            format!("$convert requires that 'format' be a string, found: {}", value.type_name()),
        ));
    };
    Ok(Some(match name.as_bytes() {
        b"base64" => Format::Base64,
        b"base64url" => Format::Base64Url,
        b"hex" => Format::Hex,
        b"utf8" => Format::Utf8,
        b"uuid" => Format::Uuid,
        b"auto" => Format::Auto,
        _ => return Err(error(4_341_125, format!("Invalid 'format' argument for $convert: {name}"))),
    }))
}

/// `$convert`: input, to, onError, onNull, format, subtype, byteOrder, base.
mod argument {
    pub(super) const INPUT: usize = 0;
    pub(super) const TO: usize = 1;
    pub(super) const ON_ERROR: usize = 2;
    pub(super) const ON_NULL: usize = 3;
    pub(super) const FORMAT: usize = 4;
    pub(super) const SUBTYPE: usize = 5;
    pub(super) const BYTE_ORDER: usize = 6;
    pub(super) const BASE: usize = 7;
}

function!(convert(call, env) {
    let (input, to) = (call.argument(argument::INPUT, env)?, call.argument(argument::TO, env)?);
    // The other options are not looked at then.
    if input.is_nullish() {
        return if call.has(argument::ON_NULL) { call.argument(argument::ON_NULL, env) } else { Ok(Val::NULL) };
    }
    if to.is_nullish() {
        return Ok(Val::NULL);
    }
    let mut subtype = Val::View(Value::Int32(0));
    let target = match to.value() {
        Value::Document(document) => {
            subtype = document.get("subtype").map_or(subtype, |value| Val::Own(value.into()));
            let Some(kind) = document.get("type") else { return Err(Error::new(ErrorCode::FAILED_TO_PARSE, "$convert's 'to' needs a 'type'")) };
            kind_of(&kind)?
        }
        value => kind_of(&value)?,
    };
    if call.has(argument::SUBTYPE) {
        subtype = call.argument(argument::SUBTYPE, env)?;
    }
    let format = format_of(&call.argument(argument::FORMAT, env)?)?;
    let order = call.argument(argument::BYTE_ORDER, env)?;
    let big_endian = match order.value() {
        Value::Null | Value::Undefined => false,
        Value::String(name) if name == "little" => false,
        Value::String(name) if name == "big" => true,
        Value::String(name) => return Err(error(9_130_002, format!("Invalid 'byteOrder' argument for $convert: {name}"))),
        other => return Err(error(9_130_001, format!("$convert requires that 'byteOrder' be a string, found: {}", other.kind().name()))),
    };
    let base = call.argument(argument::BASE, env)?;
    let base = if base.is_nullish() {
        None
    } else {
        let number = base.value().as_exact_i64().and_then(|base| u32::try_from(base).ok());
        Some(number.filter(|base| [2, 8, 10, 16].contains(base)).ok_or_else(|| error(3_501_301, "In $convert, if specified, base must be 2, 8, 10 or 16"))?)
    };
    let subtype = subtype_of(&subtype)?;
    let binary = target == Kind::Binary && matches!(input.value(), Value::String(_)) || target == Kind::String && matches!(input.value(), Value::Binary(..));
    if binary && format.is_none() {
        return Err(error(4_341_115, "Format must be speficied when converting from 'binData' to 'string' or back"));
    }
    let conversion = Conversion { to: target, subtype, format: format.unwrap_or(Format::None), base, big_endian };
    match conversion.apply(&input.value()) {
        Ok(value) => Ok(value),
        Err(wrong) if call.has(argument::ON_ERROR) && wrong.code() == ErrorCode::CONVERSION_FAILURE => call.argument(argument::ON_ERROR, env),
        Err(wrong) => Err(wrong),
    }
});

fn subtype_of(value: &Val<'_>) -> Result<u8> {
    let number = value.value();
    if number.as_number().is_none() {
        return Err(error(4_341_108, format!("$convert's 'subtype' must be a number, but is {}", value.type_name())));
    }
    let whole = number
        .as_exact_i64()
        .ok_or_else(|| error(4_341_106, "In $convert, numeric 'subtype' argument is not an integer"))?;
    let byte = u8::try_from(whole).ok().filter(|byte| *byte <= 9 || *byte >= 128);
    byte.ok_or_else(|| {
        error(
            4_341_107,
            format!("In $convert, numeric value for 'subtype' does not correspond to a BinData type: {whole}"),
        )
    })
}

/// Reads `$convert`.
pub(in crate::expr) fn parse_convert(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    let failed = |what: String| Error::new(ErrorCode::FAILED_TO_PARSE, what);
    let Value::Document(document) = value else {
        return Err(failed(format!(
            "$convert expects an object of named arguments but found: {}",
            value.kind().name()
        )));
    };
    let names = ["input", "to", "onError", "onNull", "format", "subtype", "byteOrder", "base"];
    for element in document {
        if !names.iter().any(|known| element.name == *known) {
            return Err(failed(format!("$convert found an unknown argument: {}", element.name)));
        }
    }
    for required in ["input", "to"] {
        if document.get(required).is_none() {
            return Err(failed(format!("Missing '{required}' parameter to $convert")));
        }
    }
    let mut arguments = Vec::with_capacity(names.len());
    for name in names {
        let operand = document.get(name);
        // `to: {type: .., subtype: ..}` is not an expression.
        arguments.push(match operand {
            Some(Value::Document(to)) if name == "to" && to.get("type").is_some() => {
                let mut parts = Vec::new();
                for element in to {
                    parts.push((element.name.to_str_lossy().into_owned(), parser.parse(element.value)?));
                }
                Expression::Document(parts)
            }
            operand => parser.optional(operand)?,
        });
    }
    Ok(Expression::Call(Call { name, function: convert, arguments }))
}
