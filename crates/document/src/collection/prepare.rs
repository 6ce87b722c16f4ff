//! Documents made ready to be stored: `_id` is there, allowed, and first.

use std::borrow::Cow;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::depth::is_deeper_than;
use crate::bson::{
    DEPTH_MAX, DOCUMENT_BYTES_MAX, Document, DocumentBuf, DocumentBuilder, Element, ObjectId, Timestamp, Value,
};

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
/// `InvalidIdField` (53), `BadValue` (2) for several `_id`s, `DollarPrefixedFieldName` (52), `BSONObjectTooLarge`
/// (10334) and `Overflow` (15) for one that is nested deeper than [`DEPTH_MAX`].
pub fn prepare(document: Document<'_>, new_id: impl FnOnce() -> ObjectId) -> Result<Prepared<'_>> {
    let prepared = match document.first() {
        Some(first) if first.name == "_id" => Prepared::Same(document),
        _ => {
            let mut builder = DocumentBuilder::with_buffer(Vec::with_capacity(document.as_bytes().len() + 32));
            match document.element("_id") {
                Some(id) => builder.append_element(&id),
                None => builder.append("_id", new_id()),
            };
            without_first_id(document).for_each(|element| {
                builder.append_element(&element);
            });
            Prepared::Changed(builder.finish())
        }
    };
    check_id(&prepared.id())?;
    check_one_id(prepared.view())?;
    let len = prepared.view().as_bytes().len();
    if len > DOCUMENT_BYTES_MAX {
        let what = format!("object to insert too large. size in bytes: {len}, max size: {DOCUMENT_BYTES_MAX}");
        return Err(Error::new(ErrorCode::BSON_OBJECT_TOO_LARGE, what));
    }
    if is_deeper_than(prepared.view(), DEPTH_MAX) {
        let what = format!("cannot insert document because it exceeds {DEPTH_MAX} levels of nesting");
        return Err(Error::new(ErrorCode::OVERFLOW, what));
    }
    Ok(prepared)
}

/// The fields of a document but for the first `_id`.
fn without_first_id(document: Document<'_>) -> impl Iterator<Item = Element<'_>> {
    let mut is_first = true;
    document.elements().filter(move |element| element.name != "_id" || !std::mem::take(&mut is_first))
}

/// Refuses a document that has several fields `_id`. Every way in which documents are stored comes by here.
///
/// # Errors
/// `BadValue` (2).
pub fn check_one_id(document: Document<'_>) -> Result<()> {
    if document.elements().filter(|element| element.name == "_id").nth(1).is_some() {
        return Err(Error::bad_value("can't have multiple _id fields in one document"));
    }
    Ok(())
}

/// A document with a time in the place of each field but `_id` that is the timestamp 0; nothing without such a field.
#[must_use]
pub fn stamped(document: Document<'_>, mut now: impl FnMut() -> Timestamp) -> Option<DocumentBuf> {
    let is_zero = |element: &Element<'_>| {
        matches!(element.value, Value::Timestamp(time) if time.bits() == 0) && element.name != "_id"
    };
    if !document.elements().any(|element| is_zero(&element)) {
        return None;
    }
    let mut builder = DocumentBuilder::with_buffer(Vec::with_capacity(document.as_bytes().len() + 32));
    for element in document {
        if is_zero(&element) {
            builder.append(element.name.as_bytes(), Value::Timestamp(now()));
        } else {
            builder.append_element(&element);
        }
    }
    Some(builder.finish())
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
    use crate::bson::Array;

    #[test]
    fn a_document_may_be_as_deep_as_it_can_be_read() {
        let nested = |levels: usize, array: bool| {
            let mut document = doc! {"": 1};
            for _ in 1..levels {
                let mut around = DocumentBuilder::new();
                let inner =
                    if array { Value::Array(Array::from_document(document.view())) } else { document.view().into() };
                around.append("", inner);
                document = around.finish();
            }
            document
        };
        for array in [false, true] {
            for (levels, deep) in [(DEPTH_MAX, false), (DEPTH_MAX + 1, true), (DEPTH_MAX + 19, true)] {
                let document = nested(levels, array);
                assert_eq!(is_deeper_than(document.view(), DEPTH_MAX), deep, "{levels}");
            }
        }
        let id = ObjectId::from_bytes([7; 12]);
        let refused = prepare(nested(DEPTH_MAX + 1, false).view(), || id).map(drop).unwrap_err();
        assert_eq!(refused.code(), ErrorCode::OVERFLOW);
    }

    #[test]
    fn timestamps_of_zero_become_times() {
        let stamp = |json: &str| {
            let document = DocumentBuf::from_json(json).unwrap();
            stamped(document.view(), || Timestamp::from_bits(5 << 32 | 1)).map(|stamped| stamped.view().to_json())
        };
        let zero = r#"{"$timestamp":{"t":0,"i":0}}"#;
        assert_eq!(stamp(&format!(r#"{{"_id":{zero},"a":{{"b":{zero}}}}}"#)), None);
        let shown = stamp(&format!(r#"{{"_id":{zero},"a":{zero},"b":[{zero}]}}"#)).unwrap();
        assert_eq!(shown, format!(r#"{{"_id":{zero},"a":{{"$timestamp":{{"t":5,"i":1}}}},"b":[{zero}]}}"#));
    }

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
