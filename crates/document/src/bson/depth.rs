//! How deep documents and arrays are nested within a value, and the bound of it.
//!
//! Comparing, hashing, encoding and printing a value recurse into it, so the bound keeps each of them within a small
//! stack. Whatever builds a value checks it here, once, when the value is complete.

use super::validate::MESSAGE_DEPTH_MAX;
use super::view::{Document, Value};
use crate::base::{Error, ErrorCode, Result};

/// The most documents and arrays within each other that a value has, the outermost one included: the bound of messages.
pub const LEVELS_MAX: usize = MESSAGE_DEPTH_MAX;

/// The least bytes that a level of nesting takes: length, type, the end of a name, the end of the document.
const LEVEL_BYTES: usize = 7;

/// The most bytes of a value that cannot be nested more than [`LEVELS_MAX`] levels deep.
pub const SHALLOW_BYTES_MAX: usize = LEVELS_MAX * LEVEL_BYTES;

/// Whether documents and arrays are nested deeper than some levels; only those are looked at that are large enough.
#[must_use]
pub fn is_deeper_than(document: Document<'_>, levels: usize) -> bool {
    if levels == 0 {
        return true;
    }
    if document.as_bytes().len() <= levels * LEVEL_BYTES {
        return false;
    }
    document.elements().any(|element| match element.value {
        Value::Document(inner) => is_deeper_than(inner, levels - 1),
        Value::Array(inner) => is_deeper_than(inner.as_document(), levels - 1),
        Value::CodeWithScope(code) => is_deeper_than(code.parts().1, levels - 1),
        _ => false,
    })
}

/// Checks a value that was built.
///
/// # Errors
/// `Overflow` (15) when it is nested more than [`LEVELS_MAX`] levels deep.
#[inline]
pub fn check_levels(value: &Value<'_>) -> Result<()> {
    let document = match value {
        Value::Document(document) => *document,
        Value::Array(array) => array.as_document(),
        _ => return Ok(()),
    };
    if document.as_bytes().len() > SHALLOW_BYTES_MAX && is_deeper_than(document, LEVELS_MAX) {
        return Err(too_deep());
    }
    Ok(())
}

#[cold]
fn too_deep() -> Error {
    Error::new(ErrorCode::OVERFLOW, format!("the value is nested more than {LEVELS_MAX} levels deep"))
}
