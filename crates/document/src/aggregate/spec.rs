//! The strict reading of specifications of stages: fields, each once and of its type.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::decimal::Rounding;
use crate::bson::number::Number;
use crate::bson::{Document, Text, Value, first_repeated};

/// The error for a field that a specification does not have: `IDLUnknownField` (40415).
pub(super) fn unknown(stage: &str, field: impl std::fmt::Display) -> Error {
    Error::new(ErrorCode::IDL_UNKNOWN_FIELD, format!("BSON field '{stage}.{field}' is an unknown field."))
}

/// The error for a value of another type: `TypeMismatch` (14).
pub(super) fn mismatch(stage: &str, field: impl std::fmt::Display, value: &Value<'_>, expected: &str) -> Error {
    let found = value.kind().name();
    let what = format!("BSON field '{stage}.{field}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}

/// The error for a field that is not there: 40414.
pub(super) fn missing(stage: &str, field: &str) -> Error {
    let what = format!("BSON field '{stage}.{field}' is missing but a required field");
    Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what)
}

/// Refuses a field that is there twice.
///
/// # Errors
/// `IDLDuplicateField` (40413).
pub fn check_once(stage: &str, spec: Document<'_>) -> Result<()> {
    match first_repeated(spec.elements().map(|element| element.name.as_bytes())) {
        None => Ok(()),
        Some(name) => {
            let what = format!("BSON field '{stage}.{}' is a duplicate field", Text::from_bytes(name));
            Err(Error::new(ErrorCode::new(40413), what))
        }
    }
}

/// The text of a field; nothing when it is missing or null.
pub(super) fn text(stage: &str, spec: Document<'_>, field: &str) -> Result<Option<String>> {
    match spec.get(field) {
        None => Ok(None),
        Some(value) if value.is_nullish() => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.to_str_lossy().into_owned())),
        Some(other) => Err(mismatch(stage, field, &other, "string")),
    }
}

/// The integer that a number stands for: the nearest, with half to the even one, of a decimal; a double without its
/// fraction. The greatest or the least one for numbers beyond them, 0 for what is no number.
pub(super) fn whole(number: Number) -> i64 {
    let rounded = match number {
        Number::Decimal(decimal) => Number::Decimal(decimal.to_integral(Rounding::HalfEven)),
        other => other,
    };
    let beyond = || match number.to_f64() {
        double if double > 0.0 => i64::MAX,
        double if double < 0.0 => i64::MIN,
        _ => 0,
    };
    rounded.trunc_to_i64().unwrap_or_else(beyond)
}
