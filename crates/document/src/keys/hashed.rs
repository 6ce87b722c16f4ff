//! The hash of a value that hashed indexes keep: the first eight bytes of MD5 over a canonical form.
//!
//! # Format
//! The digest is over the seed 0 (i32), then each element: its class's number (i32), its name with a zero unless it is
//! the value itself, and its payload: numbers as i64, truncated; documents and arrays element by element, and at their
//! end an element of class 0 without a name; other values as documents have them. Integers are little-endian.

use md5::{Digest, Md5};

use crate::bson::buf::append_payload;
use crate::bson::number::Number;
use crate::bson::{Class, Document, Value};

/// The hash of a value; equal numbers of different types have the same.
#[must_use]
pub fn hash_value(value: &Value<'_>) -> i64 {
    let mut digest = Md5::new();
    digest.update(0_i32.to_le_bytes());
    hash_element(&mut digest, None, value);
    let digest = digest.finalize();
    digest.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)).unwrap_or_default()
}

/// The number of a class in the canonical form.
fn number_of(class: Class) -> i32 {
    match class {
        Class::MinKey => -1,
        Class::Undefined => 0,
        Class::Null => 5,
        Class::Number => 10,
        Class::String => 15,
        Class::Document => 20,
        Class::Array => 25,
        Class::Binary => 30,
        Class::ObjectId => 35,
        Class::Bool => 40,
        Class::DateTime => 45,
        Class::Timestamp => 47,
        Class::Regex => 50,
        Class::DbPointer => 55,
        Class::Code => 60,
        Class::CodeWithScope => 65,
        Class::MaxKey => 127,
    }
}

fn hash_element(digest: &mut Md5, name: Option<&[u8]>, value: &Value<'_>) {
    digest.update(number_of(value.class()).to_le_bytes());
    if let Some(name) = name {
        digest.update(name);
        digest.update([0]);
    }
    match value {
        Value::Document(document) => hash_members(digest, *document),
        Value::Array(array) => hash_members(digest, array.as_document()),
        Value::CodeWithScope(code) => {
            let (code, scope) = code.parts();
            digest.update(code.as_bytes());
            digest.update([0]);
            hash_members(digest, scope);
        }
        _ => match value.as_number() {
            Some(number) => digest.update(integer_of(number).to_le_bytes()),
            None => {
                let mut payload = Vec::new();
                append_payload(&mut payload, *value);
                digest.update(&payload);
            }
        },
    }
}

fn hash_members(digest: &mut Md5, document: Document<'_>) {
    for element in document {
        hash_element(digest, Some(element.name.as_bytes()), &element.value);
    }
    digest.update(0_i32.to_le_bytes());
    digest.update([0]);
}

/// The integral part, or the bound that a number is beyond; NaN counts as zero.
fn integer_of(number: Number) -> i64 {
    match number.trunc_to_i64() {
        Some(integer) => integer,
        None if number.is_nan() => 0,
        None if number.to_f64() > 0.0 => i64::MAX,
        None => i64::MIN,
    }
}
