//! Rust values to BSON and back, by serde.
//!
//! | Rust | BSON |
//! |---|---|
//! | `i8` to `i32`, `u8`, `u16` | int32 |
//! | `i64`, `u32`, `u64` | int64; a `u64` that does not fit is refused |
//! | `f32`, `f64` | double |
//! | `bool`, `char`, strings | boolean, string |
//! | bytes (as of `serde_bytes`) | binary of subtype 0 |
//! | `None`, `()` | null |
//! | sequences, tuples | array |
//! | maps with keys that are text, numbers or booleans; structs | document |
//! | enums | the variant's name; with data, a document of the name and the data |
//! | the types of BSON: `ObjectId`, `DateTime`, `Timestamp`, `Decimal128`, `ValueBuf`, `DocumentBuf` | themselves |
//!
//! Read back, a number fits each type that has its value: a double of 2 is read into an `i32`, one of 2.5 is not.

mod de;
mod error;
mod ser;
mod types;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::buf::{DocumentBuf, ValueBuf};
use super::view::{Document, Value};
use crate::base::{Error, Result};

pub use types::DateTime;

/// The document of a value that is serialized as a struct or a map.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use spinney_document::bson::convert::{from_document, to_document};
///
/// #[derive(Serialize, Deserialize, PartialEq, Debug)]
/// struct Person {
///     name: String,
///     age: Option<u8>,
/// }
///
/// let ada = Person { name: "Ada".into(), age: None };
/// let document = to_document(&ada)?;
/// assert_eq!(document.view().to_json(), r#"{"name":"Ada","age":null}"#);
/// assert_eq!(from_document::<Person>(document.view())?, ada);
/// # Ok::<(), spinney_document::Error>(())
/// ```
///
/// # Errors
/// `BadValue` (2) for a value that is no document, a number that does not fit, a name with a zero, and what the value's
/// own serialization says.
pub fn to_document<T: Serialize + ?Sized>(value: &T) -> Result<DocumentBuf> {
    match to_value(value)?.view() {
        Value::Document(document) => Ok(document.into()),
        other => Err(Error::bad_value(format!(
            "a document is serialized as a struct or map, not as {}",
            other.kind().name()
        ))),
    }
}

/// The BSON value of a value.
///
/// # Errors
/// As [`to_document`].
pub fn to_value<T: Serialize + ?Sized>(value: &T) -> Result<ValueBuf> {
    Ok(value.serialize(ser::ValueSerializer)?)
}

/// The value that a document is.
///
/// # Errors
/// `BadValue` (2) when the document does not have what the type needs: the message names the field and the types.
pub fn from_document<T: DeserializeOwned>(document: Document<'_>) -> Result<T> {
    from_value(Value::Document(document))
}

/// The value that a BSON value is.
///
/// # Errors
/// As [`from_document`].
pub fn from_value<T: DeserializeOwned>(value: Value<'_>) -> Result<T> {
    Ok(T::deserialize(de::ValueDeserializer(value))?)
}
