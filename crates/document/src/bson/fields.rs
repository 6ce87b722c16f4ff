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
