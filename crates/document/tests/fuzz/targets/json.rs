//! Extended JSON: any text is refused or read, and what is read survives being written.

use spinney_document::bson::{Document, DocumentBuf, compare_documents};

pub(super) fn run(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(document) = DocumentBuf::from_json(text) else { return false };
    Document::parse(document.as_bytes()).expect("what is read is BSON");
    let canonical = document.view().to_canonical_json();
    let again = DocumentBuf::from_json(&canonical).unwrap_or_else(|error| panic!("{canonical}: {error}"));
    assert!(compare_documents(document.view(), again.view()).is_eq(), "{canonical}");
    let relaxed = document.view().to_json();
    DocumentBuf::from_json(&relaxed).unwrap_or_else(|error| panic!("{relaxed}: {error}"));
    true
}
