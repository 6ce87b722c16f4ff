//! Documents as they are read from the engine.

use std::fmt;

use spinney::Range;

use crate::base::Result;
use crate::bson::{Document, DocumentBuf};

/// A document in memory that the engine lends.
#[derive(Clone)]
pub struct StoredDocument(spinney::Value);

impl StoredDocument {
    pub(crate) fn new(value: spinney::Value) -> Self {
        Self(value)
    }

    /// A view of the document.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Document<'_> {
        Document::from_checked_bytes(&self.0).unwrap_or(Document::empty())
    }

    /// The bytes as they are stored.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
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
