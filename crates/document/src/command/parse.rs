//! The strict check of a command's fields by its declaration.

use super::request::Request;
use super::spec::{Declaration, Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Fields, Kind, Text, Value, first_repeated, long_of};

/// Reads the fields of a command and checks them: each is known, as its own or as a generic one, there once, and of its
/// type; none is missing.
///
/// # Errors
/// `IDLUnknownField` (40415), `IDLDuplicateField` (40413), `IDLFailedToParse` (40414), `TypeMismatch` (14),
/// `InvalidNamespace` (73) for what should be a collection's name, `BadValue` (2) for a number out of its range.
pub fn check<'r>(command: &Declaration, generic: &[Field], request: &Request<'r>) -> Result<Fields<'r>> {
    let fields = Fields::of(request.body);
    let (first, rest) = fields.as_slice().split_first().unzip();
    if let Some(first) = first {
        check_target(command, &first.value)?;
    }
    for element in rest.unwrap_or_default() {
        match command.fields.iter().find(|field| element.name == field.name) {
            Some(field) => check_field(command.name, field, &element.value)?,
            None => match generic.iter().find(|field| element.name == field.name) {
                Some(field) => check_field(command.name, field, &element.value)?,
                None if command.any_fields => {}
                None => {
                    let what = format!("BSON field '{}.{}' is an unknown field.", command.name, element.name);
                    return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
                }
            },
        }
    }
    check_once(command, request, &fields)?;
    for field in command.fields.iter().filter(|field| field.required) {
        let there = fields.get(field.name).is_some_and(|value| !is_absent(field, &value));
        if !there && !request.sequences.iter().any(|(name, _)| *name == field.name) {
            let what = format!("BSON field '{}.{}' is missing but a required field", command.name, field.name);
            return Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what));
        }
    }
    Ok(fields)
}

/// Checks that no field is there twice, in the body or beside it.
fn check_once(command: &Declaration, request: &Request<'_>, fields: &Fields<'_>) -> Result<()> {
    let twice = |name: &str| {
        let what = format!("BSON field '{}.{name}' is a duplicate field", command.name);
        Err(Error::new(ErrorCode::IDL_DUPLICATE_FIELD, what))
    };
    if let Some(name) = first_repeated(fields.as_slice().iter().map(|element| element.name.as_bytes())) {
        return twice(&Text::from_bytes(name).to_str_lossy());
    }
    for (at, (name, _)) in request.sequences.iter().enumerate() {
        let known = command.fields.iter().any(|field| field.name == *name && field.kind == FieldType::Documents);
        if !known {
            let what = format!("BSON field '{}.{name}' is an unknown field.", command.name);
            return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
        }
        let before = request.sequences.get(..at).unwrap_or_default();
        if before.iter().any(|(other, _)| other == name) || fields.get(name).is_some() {
            return twice(name);
        }
    }
    Ok(())
}

fn check_target(command: &Declaration, value: &Value<'_>) -> Result<()> {
    let name = command.name;
    match (command.target, value) {
        (Target::Collection, Value::String(_)) | (Target::CollectionOrDatabase, Value::String(_)) => Ok(()),
        (Target::CollectionOrDatabase, value) if value.as_f64() == Some(1.0) => Ok(()),
        (Target::CollectionOrDatabase, value) if value.kind().is_number() => Err(Error::bad_value(format!(
            "Invalid command format: the '{name}' field must specify a collection name or 1"
        ))),
        (Target::Collection | Target::CollectionOrDatabase, other) => {
            let what = format!("collection name has invalid type {}", other.kind().name());
            Err(Error::new(ErrorCode::INVALID_NAMESPACE, what))
        }
        (Target::Namespace, Value::String(_)) => Ok(()),
        (Target::Namespace, other) => Err(wrong_type(&format!("{name}.{name}"), other, &[Kind::String])),
        (Target::Value(kinds), other) if kinds.is_empty() || kinds.contains(&other.kind()) => Ok(()),
        (Target::Value(_), other) if other.is_nullish() => {
            let what = format!("BSON field '{name}.{name}' is missing but a required field");
            Err(Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what))
        }
        (Target::Value(kinds), other) => Err(wrong_type(&format!("{name}.{name}"), other, kinds)),
    }
}

/// Checks the value of a field.
///
/// # Errors
/// As [`check`].
pub fn check_field(command: &str, field: &Field, value: &Value<'_>) -> Result<()> {
    if is_absent(field, value) {
        return Ok(());
    }
    let (name, kinds) = (field.name, field.kind.kinds());
    if !kinds.is_empty() && !kinds.contains(&value.kind()) {
        return Err(wrong_type(&format!("{command}.{name}"), value, kinds));
    }
    if let (FieldType::Documents, Value::Array(documents)) = (field.kind, value) {
        let wrong = (0..).zip(documents.values()).find(|(_, value)| value.kind() != Kind::Document);
        if let Some((at, value)) = wrong {
            return Err(wrong_type(&format!("{command}.{name}.{at}"), &value, &[Kind::Document]));
        }
    }
    let number = || long_of(value);
    let bound = |sign: &str, bound: i64| {
        let what = format!("BSON field '{name}' value must be {sign} {bound}, actual value '{value}'");
        Err(Error::bad_value(what))
    };
    match (field.min, field.max) {
        (Some(min), _) if number().is_some_and(|number| number < min) => bound(">=", min),
        (_, Some(max)) if number().is_some_and(|number| number > max) => bound("<=", max),
        _ => Ok(()),
    }
}

/// Whether a field with this value is as good as none.
#[must_use]
pub fn is_absent(field: &Field, value: &Value<'_>) -> bool {
    let kinds = field.kind.kinds();
    field.nullable && value.is_nullish() && !kinds.is_empty() && !kinds.contains(&value.kind())
}

/// `TypeMismatch` (14) for a field such as `find.filter`.
#[must_use]
pub fn wrong_type(field: &str, value: &Value<'_>, expected: &[Kind]) -> Error {
    let names: Vec<_> = expected.iter().map(|kind| kind.name()).collect();
    let expected = match &names[..] {
        [one] => format!("expected type '{one}'"),
        _ => format!("expected types '[{}]'", names.join(", ")),
    };
    let what = format!("BSON field '{field}' is the wrong type '{}', {expected}", value.kind().name());
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}
