//! Changes that are committed together, in a form that is no engine's own.

use super::config::TableId;

/// Puts and deletes of any tables, in order. Cleared and used again, it allocates nothing.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    changes: Vec<Entry>,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    table: TableId,
    at: usize,
    key_len: usize,
    /// `None` for a delete.
    value_len: Option<usize>,
}

/// One change of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// The key gets this value, whether it had one or not.
    Put(TableId, &'a [u8], &'a [u8]),
    /// The key loses its value, if it had one.
    Delete(TableId, &'a [u8]),
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a put.
    pub fn put(&mut self, table: TableId, key: &[u8], value: &[u8]) {
        self.changes.push(Entry { table, at: self.bytes.len(), key_len: key.len(), value_len: Some(value.len()) });
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
    }

    /// Adds a delete.
    pub fn delete(&mut self, table: TableId, key: &[u8]) {
        self.changes.push(Entry { table, at: self.bytes.len(), key_len: key.len(), value_len: None });
        self.bytes.extend_from_slice(key);
    }

    /// Forgets all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.bytes.clear();
    }

    /// The number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether there is no change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The changes in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.changes.iter().map(|entry| {
            let (key, rest) = self.bytes[entry.at..].split_at(entry.key_len);
            match entry.value_len {
                Some(len) => Change::Put(entry.table, key, &rest[..len]),
                None => Change::Delete(entry.table, key),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_in_order() {
        let mut batch = Batch::new();
        batch.put(TableId(0), b"k", b"");
        batch.clear();
        batch.put(TableId(1), b"key", b"value");
        batch.delete(TableId(0), b"gone");
        batch.put(TableId(0), b"", b"v");
        let changes: Vec<_> = batch.iter().collect();
        assert_eq!(
            changes,
            [
                Change::Put(TableId(1), b"key", b"value"),
                Change::Delete(TableId(0), b"gone"),
                Change::Put(TableId(0), b"", b"v")
            ]
        );
        assert_eq!((batch.len(), batch.bytes(), batch.is_empty()), (3, 13, false));
    }
}
