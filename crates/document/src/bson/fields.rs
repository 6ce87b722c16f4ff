//! The fields of a document, read once for many lookups by name.

use super::view::{Document, Element, Value};

/// The fields of a document in their order: a lookup compares names and does not walk over the bytes again. Worth
/// making where more than two or three names are looked up, as in a command.
#[derive(Clone, Debug, Default)]
pub struct Fields<'a>(Vec<Element<'a>>);

impl<'a> Fields<'a> {
    /// The fields of a document.
    #[must_use]
    pub fn of(document: Document<'a>) -> Self {
        let mut fields = Vec::with_capacity(12);
        fields.extend(document.elements());
        Self(fields)
    }

    /// The value of the first field with a name. The name is taken as it is, dots included.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value<'a>> {
        self.0.iter().find(|element| element.name == *name).map(|element| element.value)
    }

    /// The fields in their order.
    #[must_use]
    pub fn as_slice(&self) -> &[Element<'a>] {
        &self.0
    }
}

/// The fields of a reference to a document of another collection (a DBRef).
const REFERENCE_FIELDS: [&[u8]; 3] = [b"$ref", b"$id", b"$db"];

/// Fields that MongoDB itself puts into documents, beside those of references.
const OWN_FIELDS: [&[u8]; 4] = [b"$sortKey", b"$recordId", b"$searchSortValues", b"$searchScore"];

/// Whether a name is one of the fields of a reference: `$ref`, `$id` or `$db`.
#[must_use]
pub fn is_reference_field(name: &[u8]) -> bool {
    REFERENCE_FIELDS.contains(&name)
}

/// Whether a component of a path may have a name: the only ones with a dollar in front are those of references, and of
/// fields that MongoDB itself makes.
#[must_use]
pub fn may_be_in_path(name: &[u8]) -> bool {
    !name.starts_with(b"$") || is_reference_field(name) || OWN_FIELDS.contains(&name)
}

/// Whether a document is a reference. One that is `complete` has the fields `$ref`, a string, and `$id`; else one of
/// the three is enough.
#[must_use]
pub fn is_reference(document: Document<'_>, complete: bool) -> bool {
    if !complete {
        return document.elements().any(|element| is_reference_field(element.name.as_bytes()));
    }
    let is_text = |name: &str| matches!(document.get(name), Some(Value::String(_)));
    is_text("$ref") && document.get("$id").is_some() && (document.get("$db").is_none() || is_text("$db"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;

    #[test]
    fn lookups_find_what_those_in_the_document_find() {
        let document = DocumentBuf::from_json(r#"{"a":1,"":2,"a":3,"a.b":4,"ab":null}"#).unwrap();
        let fields = Fields::of(document.view());
        for name in ["a", "", "a.b", "ab", "b", "aa"] {
            assert_eq!(fields.get(name), document.view().get(name), "{name}");
        }
        assert_eq!(fields.as_slice().len(), 5);
        assert_eq!(Fields::of(Document::empty()).get(""), None);
    }
}
