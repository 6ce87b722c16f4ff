//! What operators hand on: a document, or the key of an index that leads to it.

use super::stored::StoredDocument;
use crate::aggregate::sorter::Sortable;
use crate::base::num::{u64_of, usize_of};
use crate::bson::Document;
use crate::catalog::index_entry::EntryParts;

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
    /// Becomes the row of an entry.
    pub(super) fn set(&mut self, parts: &EntryParts<'_>) {
        self.reset();
        self.id.extend_from_slice(parts.id);
        self.id_types.extend_from_slice(parts.id_types);
        self.key.extend_from_slice(parts.fields);
        self.types.extend_from_slice(parts.types);
    }

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

impl Sortable for Row {
    fn heap_bytes(&self) -> usize {
        let document = self.document.as_ref().map_or(0, |document| document.bytes().len());
        self.id.len() + self.id_types.len() + self.key.len() + self.types.len() + document
    }

    /// Each part with its length before it, but for the document, which is the last; the position with one added, and 0
    /// for none.
    fn as_bytes<'b>(&'b self, buffer: &'b mut Vec<u8>) -> &'b [u8] {
        let position = self.position.map_or(0, |position| u64_of(position) + 1);
        buffer.extend_from_slice(&position.to_le_bytes());
        buffer.push(u8::from(self.projected));
        for part in [&self.id, &self.id_types, &self.key, &self.types] {
            buffer.extend_from_slice(&u64_of(part.len()).to_le_bytes());
            buffer.extend_from_slice(part);
        }
        buffer.extend_from_slice(self.document.as_ref().map_or(&[], StoredDocument::bytes));
        buffer
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (position, rest) = bytes.split_first_chunk()?;
        let position = u64::from_le_bytes(*position).checked_sub(1).map(usize_of);
        let (projected, mut rest) = rest.split_first()?;
        let mut row = Self { position, projected: *projected != 0, ..Self::default() };
        for part in [&mut row.id, &mut row.id_types, &mut row.key, &mut row.types] {
            let (len, behind) = rest.split_first_chunk()?;
            let (bytes, behind) = behind.split_at_checked(usize_of(u64::from_le_bytes(*len)))?;
            part.extend_from_slice(bytes);
            rest = behind;
        }
        Document::from_checked_bytes(rest)?;
        row.document = Some(StoredDocument::copied(rest));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::DocumentBuf;

    #[test]
    fn a_row_comes_back_from_its_bytes() {
        let document = DocumentBuf::from_json(r#"{"_id":1,"a":[1,2]}"#).unwrap();
        let row = Row {
            id: vec![1, 2],
            id_types: vec![3],
            key: vec![4; 300],
            types: Vec::new(),
            document: Some(StoredDocument::built(document)),
            position: Some(7),
            projected: true,
        };
        let mut buffer = Vec::new();
        let bytes = row.as_bytes(&mut buffer).to_vec();
        let back = Row::from_bytes(&bytes).unwrap();
        assert_eq!((&back.id, &back.id_types, &back.key), (&row.id, &row.id_types, &row.key));
        assert_eq!((back.position, back.projected), (Some(7), true));
        assert_eq!(back.document.unwrap().bytes(), row.document.as_ref().unwrap().bytes());
        for len in 0..bytes.len() {
            assert!(Row::from_bytes(&bytes[..len]).is_none(), "{len}");
        }
    }
}
