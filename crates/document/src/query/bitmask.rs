//! The bit operators: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::Value;

/// Positions of bits and what is demanded of them.
#[derive(Clone, Debug)]
pub struct BitMask {
    positions: Vec<u32>,
    /// Whether all of the positions must be so, not only one.
    all: bool,
    /// Whether they must be set, not clear.
    set: bool,
}

impl BitMask {
    /// Reads the operand of an operator: a number whose bits count, binary data, or an array of positions.
    ///
    /// # Errors
    /// `FailedToParse` (9) and `BadValue` (2).
    pub fn parse(name: &str, operand: &Value<'_>, all: bool, set: bool) -> Result<Self> {
        let positions = match operand {
            Value::Array(array) => array.values().map(|value| position(name, &value)).collect::<Result<_>>()?,
            Value::Binary(_, bytes) => (0..).zip(bytes.iter()).flat_map(|(at, byte)| bits(at * 8, *byte)).collect(),
            operand if operand.as_number().is_some() => {
                let bytes = number(name, operand)?.to_le_bytes();
                (0..).zip(bytes).flat_map(|(at, byte)| bits(at * 8, byte)).collect()
            }
            _ => {
                let what = format!("{name} takes an Array, a number, or a BinData but received: {}", operand.to_json());
                return Err(Error::bad_value(what));
            }
        };
        Ok(Self { positions, all, set })
    }

    pub(super) fn matches(&self, value: &Value<'_>) -> bool {
        let is_set = |position: u32| -> Option<bool> {
            Some(match value {
                Value::Binary(2, bytes) if position < 32 => u32::try_from(bytes.len()).ok()? >> position & 1 == 1,
                Value::Binary(subtype, bytes) => {
                    // Subtype 2 begins with its length.
                    let position = if *subtype == 2 { position - 32 } else { position };
                    let byte = bytes.get(usize::try_from(position / 8).ok()?).copied().unwrap_or_default();
                    byte >> (position % 8) & 1 == 1
                }
                value => value.as_exact_i64()? >> position.min(63) & 1 == 1,
            })
        };
        if !matches!(value, Value::Binary(..)) && value.as_exact_i64().is_none() {
            return false;
        }
        let mut so = self.positions.iter().map(|position| is_set(*position) == Some(self.set));
        if self.all { so.all(|so| so) } else { so.any(|so| so) }
    }
}

fn bits(first: u32, byte: u8) -> impl Iterator<Item = u32> {
    (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| first + bit)
}

/// A mask as a number: not negative, whole.
fn number(name: &str, operand: &Value<'_>) -> Result<i64> {
    let failed =
        |what: &str| Error::new(ErrorCode::FAILED_TO_PARSE, format!("{what} in: {name}: {}", operand.to_json()));
    match operand.as_exact_i64() {
        Some(number) if number < 0 => Err(failed("Expected a non-negative number")),
        Some(number) => Ok(number),
        None if operand.as_number().is_some_and(|number| number.is_nan()) => {
            Err(failed("Expected an integer, but found NaN"))
        }
        None => Err(failed("Expected an integer")),
    }
}

/// A position in a list.
fn position(name: &str, operand: &Value<'_>) -> Result<u32> {
    let wrong = |what: &str| {
        Error::bad_value(format!("Failed to parse bit position. {what} in: {name}: {}", operand.to_json()))
    };
    let number = operand.as_exact_i64().ok_or_else(|| {
        let what = if operand.as_number().is_some() { "Expected an integer" } else { "Expected a number" };
        Error::new(ErrorCode::BAD_VALUE, wrong(what).message())
    })?;
    let position = u32::try_from(number).ok().filter(|position| i32::try_from(*position).is_ok());
    position.ok_or_else(|| {
        if number < 0 { wrong("Expected a non-negative number") } else { wrong("Cannot represent as an int") }
    })
}
