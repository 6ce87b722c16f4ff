//! The values that expressions compute: borrowed from documents where they come from there, owned where they are new.

use crate::base::num::usize_of;
use crate::base::{Error, Result};
use crate::bson::{Array, Document, DocumentBuf, Kind, Text, Value, ValueBuf};

/// The bytes from which on a text is too large for expressions.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// 16493, for a text of at least [`TEXT_BYTES_MAX`].
#[must_use]
pub fn too_large(bytes: usize) -> Error {
    error(16493, format!("a string of {bytes} bytes is too large, it must have fewer than {TEXT_BYTES_MAX}"))
}

/// A value, or the lack of one, that an expression gives.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    /// No value: a field that is missing, `$$REMOVE`.
    Missing,
    /// A value that lives in a document or in the expression.
    View(Value<'a>),
    /// A new value.
    Own(ValueBuf),
}

impl<'a> Val<'a> {
    /// Null.
    pub const NULL: Val<'static> = Val::View(Value::Null);

    /// The value; nothing when it is missing.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Option<Value<'_>> {
        match self {
            Self::Missing => None,
            Self::View(value) => Some(*value),
            Self::Own(value) => Some(value.view()),
        }
    }

    /// The value; null when it is missing.
    #[inline]
    #[must_use]
    pub fn value(&self) -> Value<'_> {
        self.view().unwrap_or(Value::Null)
    }

    /// Whether it is null, undefined or missing.
    #[inline]
    #[must_use]
    pub fn is_nullish(&self) -> bool {
        self.view().is_none_or(|value| value.is_nullish())
    }

    /// Whether it is missing.
    #[inline]
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        matches!(self, Self::Missing)
    }

    /// Whether it counts as true: all but false, null, undefined, missing and the zeros.
    #[inline]
    #[must_use]
    pub fn truth(&self) -> bool {
        self.view().is_some_and(|value| truth(&value))
    }

    /// The name of its type in error messages; `missing` for none.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        self.view().map_or("missing", |value| value.kind().name())
    }

    /// The same value, independent of where it came from.
    #[must_use]
    pub fn into_owned(self) -> Val<'static> {
        match self {
            Self::Missing => Val::Missing,
            Self::View(value) => Val::Own(value.into()),
            Self::Own(value) => Val::Own(value),
        }
    }

    /// The same value as an owned one; nothing when it is missing.
    #[must_use]
    pub fn into_buf(self) -> Option<ValueBuf> {
        match self {
            Self::Missing => None,
            Self::View(value) => Some(value.into()),
            Self::Own(value) => Some(value),
        }
    }

    /// New text.
    #[must_use]
    pub fn text(text: impl AsRef<[u8]>) -> Val<'static> {
        Val::Own(Value::String(Text::from_bytes(text.as_ref())).into())
    }

    /// A new document.
    #[must_use]
    pub fn document(document: DocumentBuf) -> Val<'static> {
        Val::Own(document.into())
    }
}

impl<'a> From<Value<'a>> for Val<'a> {
    fn from(value: Value<'a>) -> Self {
        Self::View(value)
    }
}

impl From<bool> for Val<'_> {
    fn from(is: bool) -> Self {
        Self::View(Value::Bool(is))
    }
}

/// Whether a value counts as true.
#[must_use]
pub fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(is) => *is,
        Value::Null | Value::Undefined => false,
        Value::Double(number) => *number != 0.0,
        Value::Int32(number) => *number != 0,
        Value::Int64(number) => *number != 0,
        Value::Decimal128(number) => !number.is_zero(),
        _ => true,
    }
}

/// An integer as the narrower of the two types that holds it.
#[must_use]
pub fn int(number: i64) -> Value<'static> {
    i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
}

/// A count as a 32-bit integer, or a 64-bit one where it must be.
#[must_use]
pub fn count(number: usize) -> Val<'static> {
    Val::View(int(i64::try_from(number).unwrap_or(i64::MAX)))
}

/// The position that an integer is, if it is not negative.
#[must_use]
pub fn position(number: i64) -> Option<usize> {
    u64::try_from(number).ok().map(usize_of)
}

/// An error with a numbered code.
#[must_use]
pub fn error(code: i32, message: impl Into<String>) -> Error {
    Error::new(crate::base::ErrorCode::new(code), message)
}

/// The values of an array that may be `Val`'s own.
#[must_use]
pub fn as_array<'v>(value: &'v Val<'_>) -> Option<Array<'v>> {
    match value.view() {
        Some(Value::Array(array)) => Some(array),
        _ => None,
    }
}

/// The document that a value is.
#[must_use]
pub fn as_document<'v>(value: &'v Val<'_>) -> Option<Document<'v>> {
    match value.view() {
        Some(Value::Document(document)) => Some(document),
        _ => None,
    }
}

/// The text of a string; symbols count as strings.
#[must_use]
pub fn as_text<'v>(value: &'v Val<'_>) -> Option<Text<'v>> {
    value.view().and_then(|value| value.as_text())
}

/// The integer that a number is exactly, within 32 bits, or an error with a code.
///
/// # Errors
/// `code` with `message` when it is none.
pub fn exact_i32(value: &Value<'_>, code: i32, message: &str) -> Result<i32> {
    let exact = value.as_exact_i64().and_then(|number| i32::try_from(number).ok());
    exact.ok_or_else(|| error(code, format!("{message}, found: {}", value.to_json())))
}

/// Whether a type is one of the numbers.
#[must_use]
pub fn is_number(value: &Val<'_>) -> bool {
    value.view().is_some_and(|value| value.kind().is_number())
}

/// The kind of a value, if it is not missing.
#[must_use]
pub fn kind(value: &Val<'_>) -> Option<Kind> {
    value.view().map(|value| value.kind())
}
