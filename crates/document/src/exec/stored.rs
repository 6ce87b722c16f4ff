//! Documents as they are read from the engine.

use std::fmt;

use spinney::Range;

use crate::base::Result;
use crate::bson::{Document, DocumentBuf};

/// A document as it is stored: in memory that the engine lends, or copied.
#[derive(Clone)]
pub struct StoredDocument(Repr);

#[derive(Clone)]
enum Repr {
    Lent(spinney::Value),
    Owned(DocumentBuf),
}

impl StoredDocument {
    pub(crate) const fn new(value: spinney::Value) -> Self {
        Self(Repr::Lent(value))
    }

    /// A copy of bytes that are a document.
    pub(crate) fn copied(bytes: &[u8]) -> Self {
        Self(Repr::Lent(spinney::Value::owned(bytes)))
    }

    /// A document that was made of an index's keys.
    pub(crate) const fn built(document: DocumentBuf) -> Self {
        Self(Repr::Owned(document))
    }

    /// A view of the document.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Document<'_> {
        match &self.0 {
            Repr::Lent(value) => Document::from_checked_bytes(value).unwrap_or(Document::empty()),
            Repr::Owned(document) => document.view(),
        }
    }

    /// The bytes as they are stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Lent(value) => value,
            Repr::Owned(document) => document.as_bytes(),
        }
    }

    /// The same document with bytes of its own.
    #[must_use]
    pub fn into_buf(self) -> DocumentBuf {
        match self.0 {
            Repr::Lent(_) => self.to_buf(),
            Repr::Owned(document) => document,
        }
    }

    /// A copy that owns its bytes.
    #[must_use]
    pub fn to_buf(&self) -> DocumentBuf {
        DocumentBuf::from(self.view())
    }
}

impl fmt::Debug for StoredDocument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// The documents of a collection in the order of `_id`, as a snapshot sees them.
#[derive(Debug)]
pub struct Documents(Range);

impl Documents {
    pub(crate) fn new(range: Range) -> Self {
        Self(range)
    }

    /// The next document, which lives until the next call.
    ///
    /// # Errors
    /// Those of the engine; nothing follows an error.
    pub fn advance(&mut self) -> Result<Option<Document<'_>>> {
        let entry = self.0.advance()?;
        Ok(entry.map(|(_, value)| Document::from_checked_bytes(value).unwrap_or(Document::empty())))
    }
}

impl Iterator for Documents {
    type Item = Result<DocumentBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().map(|document| document.map(DocumentBuf::from)).transpose()
    }
}
