//! Documents made ready to be stored: `_id` is there, allowed, and first.

use std::borrow::Cow;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, ObjectId, Value};

/// A document that can be stored: as it is, or changed.
#[derive(Debug)]
pub enum Prepared<'d> {
    /// As it came.
    Same(Document<'d>),
    /// With `_id` added or moved to the front.
    Changed(DocumentBuf),
}

impl Prepared<'_> {
    /// The document.
    #[must_use]
    pub fn view(&self) -> Document<'_> {
        match self {
            Self::Same(document) => *document,
            Self::Changed(document) => document.view(),
        }
    }

    /// Its `_id`.
    #[must_use]
    pub fn id(&self) -> Value<'_> {
        self.view().first().map_or(Value::Null, |element| element.value)
    }
}

/// Makes a document ready to be stored; `new_id` makes an `_id` for one without.
///
/// # Errors
/// `InvalidIdField` (53), `DollarPrefixedFieldName` (52) and `BSONObjectTooLarge` (10334).
pub fn prepare(document: Document<'_>, new_id: impl FnOnce() -> ObjectId) -> Result<Prepared<'_>> {
    let prepared = match document.first() {
        Some(first) if first.name == "_id" => Prepared::Same(document),
        _ => {
            let mut builder = DocumentBuilder::with_buffer(Vec::with_capacity(document.as_bytes().len() + 32));
            match document.element("_id") {
                Some(id) => builder.append_element(&id),
                None => builder.append("_id", new_id()),
            };
            document.elements().filter(|element| element.name != "_id").for_each(|element| {
                builder.append_element(&element);
            });
            Prepared::Changed(builder.finish())
        }
    };
    check_id(&prepared.id())?;
    let len = prepared.view().as_bytes().len();
    if len > DOCUMENT_BYTES_MAX {
        let what = format!("object to insert too large. size in bytes: {len}, max size: {DOCUMENT_BYTES_MAX}");
        return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
    }
    Ok(prepared)
}

/// Refuses values that `_id` cannot have.
///
/// # Errors
/// `InvalidIdField` (53) and `DollarPrefixedFieldName` (52).
pub fn check_id(id: &Value<'_>) -> Result<()> {
    match id {
        Value::Array(_) | Value::Regex(_) | Value::Undefined => {
            let what = format!("The '_id' value cannot be of type {}", id.kind().name());
            Err(Error::new(ErrorCode::INVALID_ID_FIELD, what))
        }
        Value::Document(document) => {
            match document.elements().find(|element| element.name.as_bytes().starts_with(b"$")) {
                Some(element) => {
                    let name: Cow<'_, str> = element.name.to_str_lossy();
                    let what =
                        format!("_id fields may not contain '$'-prefixed fields: {name} is not valid for storage.");
                    Err(Error::new(ErrorCode::DOLLAR_PREFIXED_FIELD_NAME, what))
                }
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_added_or_moved_to_the_front() {
        let id = ObjectId::from_bytes([7; 12]);
        let prepare_json = |json: &str| {
            let document = DocumentBuf::from_json(json).unwrap();
            prepare(document.view(), || id).map(|prepared| prepared.view().to_json())
        };
        assert_eq!(prepare_json(r#"{"_id":1,"a":2}"#).unwrap(), r#"{"_id":1,"a":2}"#);
        assert_eq!(prepare_json(r#"{"a":2,"_id":1}"#).unwrap(), r#"{"_id":1,"a":2}"#);
        assert_eq!(prepare_json(r#"{"a":2}"#).unwrap(), format!(r#"{{"_id":{{"$oid":"{id}"}},"a":2}}"#));
        for (json, code) in
            [(r#"{"_id":[1]}"#, 53), (r#"{"_id":{"$undefined":true}}"#, 53), (r#"{"_id":{"$x":1}}"#, 52)]
        {
            assert_eq!(prepare_json(json).unwrap_err().code().number(), code, "{json}");
        }
    }
}
