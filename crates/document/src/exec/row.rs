//! What operators hand on: a document, or the key of an index that leads to it.

use super::stored::StoredDocument;

/// A row. Its memory is used for one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Row {
    /// The encoded `_id`.
    pub(super) id: Vec<u8>,
    /// Its type bits.
    pub(super) id_types: Vec<u8>,
    /// The encoded fields of the index that was scanned; empty for the collection itself.
    pub(super) key: Vec<u8>,
    /// Their type bits.
    pub(super) types: Vec<u8>,
    /// The document, once it was read.
    pub(super) document: Option<StoredDocument>,
    /// Where in an array the filter matched.
    pub(super) position: Option<usize>,
    /// Whether the document is as the projection shows it.
    pub(super) projected: bool,
}

impl Row {
    /// Becomes another row.
    pub(super) fn reset(&mut self) {
        self.id.clear();
        self.id_types.clear();
        self.key.clear();
        self.types.clear();
        self.document = None;
        self.position = None;
        self.projected = false;
    }
}
