//! Reading the fields of a command, with the errors that clients know.

use spinney_document::bson::{Array, Document, Value};
use spinney_document::{Error, ErrorCode, Result};

/// The error of a field with a value of a wrong type.
#[must_use]
pub fn wrong_type(command: &str, field: &str, value: &Value<'_>, expected: &str) -> Error {
    let found = value.kind().name();
    let what = format!("BSON field '{command}.{field}' is the wrong type '{found}', expected type '{expected}'");
    Error::new(ErrorCode::TYPE_MISMATCH, what)
}

/// The error of a field that is missing.
#[must_use]
pub fn missing(command: &str, field: &str) -> Error {
    let what = format!("BSON field '{command}.{field}' is missing but a required field");
    Error::new(ErrorCode::IDL_FAILED_TO_PARSE, what)
}

/// The fields of a command's document, with the command's name for errors.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    command: &'a str,
    document: Document<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of the document of a command.
    #[must_use]
    pub const fn new(command: &'a str, document: Document<'a>) -> Self {
        Self { command, document }
    }

    /// The document.
    #[must_use]
    pub const fn document(self) -> Document<'a> {
        self.document
    }

    /// A field that is there and not null.
    #[must_use]
    pub fn value(self, name: &str) -> Option<Value<'a>> {
        self.document.get(name).filter(|value| !value.is_nullish())
    }

    /// A string.
    ///
    /// # Errors
    /// `TypeMismatch` (14).
    pub fn text(self, name: &str) -> Result<Option<&'a str>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| wrong_type(self.command, name, &value, "string"))
    }

    /// A string that must be there.
    ///
    /// # Errors
    /// `TypeMismatch` (14), `IDLFailedToParse` (40414).
    pub fn required_text(self, name: &str) -> Result<&'a str> {
        self.text(name)?.ok_or_else(|| missing(self.command, name))
    }

    /// A document.
    ///
    /// # Errors
    /// `TypeMismatch` (14).
    pub fn nested(self, name: &str) -> Result<Option<Document<'a>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_document().map(Some).ok_or_else(|| wrong_type(self.command, name, &value, "object"))
    }

    /// An array.
    ///
    /// # Errors
    /// `TypeMismatch` (14).
    pub fn array(self, name: &str) -> Result<Option<Array<'a>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_array().map(Some).ok_or_else(|| wrong_type(self.command, name, &value, "array"))
    }

    /// A truth value; numbers count as true unless they are zero.
    ///
    /// # Errors
    /// `TypeMismatch` (14).
    pub fn bool(self, name: &str) -> Result<Option<bool>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        truth(&value).map(Some).ok_or_else(|| wrong_type(self.command, name, &value, "bool"))
    }

    /// A whole number of any number type.
    ///
    /// # Errors
    /// `TypeMismatch` (14).
    pub fn number(self, name: &str) -> Result<Option<i64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        whole(&value).map(Some).ok_or_else(|| wrong_type(self.command, name, &value, "long"))
    }
}

/// Whether a bool or number is true.
#[must_use]
pub fn truth(value: &Value<'_>) -> Option<bool> {
    match value {
        Value::Bool(is) => Some(*is),
        _ => whole(value).map(|number| number != 0),
    }
}

/// The whole number that a number is, without its fraction.
#[must_use]
pub fn whole(value: &Value<'_>) -> Option<i64> {
    value.as_number()?.trunc_to_i64()
}
