//! BSON: what passes the checks is read in place to its end, and the builder makes the same bytes of it.

use std::hash::{DefaultHasher, Hasher};

use spinney_document::bson::{
    Checks, Document, DocumentBuf, DocumentBuilder, Value, ValueBuf, compare, compare_documents, equal, hash,
};

pub(super) fn run(input: &[u8]) -> bool {
    let strict = Document::parse(input);
    let loose = Document::parse_with(input, Checks { utf8: false, ..Checks::default() });
    assert!(strict.is_err() || loose.is_ok(), "stricter checks refuse more");
    let Ok(document) = loose else { return false };
    assert_eq!(copy(document).as_bytes(), input, "the builder makes the bytes that were read");
    assert!(compare_documents(document, document).is_eq());
    let canonical = document.to_canonical_json();
    assert!(!document.to_json().is_empty());
    if strict.is_ok() {
        of_text(document, &canonical);
    }
    strict.is_ok()
}

/// A copy, made value by value.
fn copy(document: Document<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    for element in document {
        check_value(&element.value);
        assert!(document.get(element.name).is_some());
        match element.value {
            Value::Document(inner) => builder.append(element.name, &copy(inner)),
            // The builder numbers the values of arrays, whatever they were called.
            Value::Array(array) => {
                let inner = copy(array.as_document());
                assert_eq!(array.count(), inner.view().elements().count());
                builder.append_element(&element)
            }
            value => builder.append(element.name, value),
        };
    }
    builder.finish()
}

fn check_value(value: &Value<'_>) {
    let owned = ValueBuf::from(*value);
    assert_eq!(owned.kind(), value.kind());
    assert!(equal(value, &owned.view()) && compare(value, &owned.view()).is_eq());
    let hash_of = |value: &Value<'_>| {
        let mut hasher = DefaultHasher::new();
        hash(value, &mut hasher);
        hasher.finish()
    };
    assert_eq!(hash_of(value), hash_of(&owned.view()));
    match value {
        Value::Regex(regex) => drop(regex.parts()),
        Value::DbPointer(pointer) => drop(pointer.parts()),
        Value::CodeWithScope(code) => drop(copy(code.parts().1)),
        _ => {}
    }
}

/// Canonical text is read back as the same document; one whose names are those of extended JSON may be another one, or
/// none.
fn of_text(document: Document<'_>, canonical: &str) {
    let read = DocumentBuf::from_json(canonical);
    if canonical.matches("\"$").count() == wrappers(document) {
        let read = read.unwrap_or_else(|error| panic!("{canonical}: {error}"));
        assert!(compare_documents(read.view(), document).is_eq(), "{canonical}");
    } else if let Ok(read) = read {
        let again = DocumentBuf::from_json(&read.view().to_canonical_json());
        if let Ok(again) = again {
            assert!(compare_documents(read.view(), again.view()).is_eq(), "{canonical}");
        }
    }
}

/// How many names with `$` the canonical text of a document's values has, when its own names have none and its texts
/// begin with none.
fn wrappers(document: Document<'_>) -> usize {
    document.elements().map(|element| wrappers_of(&element.value)).sum()
}

fn wrappers_of(value: &Value<'_>) -> usize {
    match value {
        Value::Document(document) => wrappers(*document),
        Value::Array(array) => array.values().map(|value| wrappers_of(&value)).sum(),
        Value::String(_) | Value::Bool(_) | Value::Null => 0,
        Value::CodeWithScope(code) => 2 + wrappers(code.parts().1),
        // `$date` holds a `$numberLong`, `$dbPointer` a `$ref`, an `$id` and its `$oid`.
        Value::DateTime(_) => 2,
        Value::DbPointer(_) => 4,
        _ => 1,
    }
}
