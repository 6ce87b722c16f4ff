//! Entries of indexes: their bytes, and what changes when a document does.
//!
//! # Format
//! An entry of a unique index has the fields as key, and the encoded `_id` and the type bits as value. An entry of any
//! other index has the fields and the encoded `_id` as key, and the type bits as value.

use std::cmp::Ordering;

use crate::base::{Error, ErrorCode, Result};
use crate::catalog::Index;
use crate::keys::{Key, KeySet};

/// The longest key of an entry in bytes.
pub(super) const ENTRY_KEY_BYTES_MAX: usize = 65_000;

/// An entry as the engine stores it, in memory that is used again and again.
#[derive(Debug, Default)]
pub(super) struct Entry {
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Entry {
    /// Becomes the entry of a key for a document with this encoded `_id`.
    #[inline]
    pub(super) fn set(&mut self, index: &Index, key: Key<'_>, id: &[u8]) -> Result<()> {
        self.key.clear();
        self.value.clear();
        self.key.extend_from_slice(key.fields);
        let to = if index.spec.unique { &mut self.value } else { &mut self.key };
        to.extend_from_slice(id);
        self.value.extend_from_slice(key.types);
        if self.key.len() > ENTRY_KEY_BYTES_MAX {
            let what = format!(
                "the key of index {} has {} bytes, and {ENTRY_KEY_BYTES_MAX} is the most",
                index.spec.name,
                self.key.len()
            );
            return Err(Error::new(ErrorCode::KEY_TOO_LONG, what));
        }
        Ok(())
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.key
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}

/// What becomes of a key when a document is replaced.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change<'k> {
    /// Only the old document has it.
    Removed(Key<'k>),
    /// Only the new document has it.
    Added(Key<'k>),
    /// Both have it, with other types.
    Retyped(Key<'k>),
}

/// The keys that differ between two sets, both in order.
pub(super) fn differences<'k>(old: &'k KeySet, new: &'k KeySet) -> impl Iterator<Item = Change<'k>> {
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    std::iter::from_fn(move || {
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(old), Some(new)) => old.fields.cmp(new.fields),
            };
            match order {
                Ordering::Less => return old.next().map(Change::Removed),
                Ordering::Greater => return new.next().map(Change::Added),
                Ordering::Equal => match (old.next(), new.next()) {
                    (Some(old), Some(new)) if old.types != new.types => return Some(Change::Retyped(new)),
                    _ => {}
                },
            }
        }
    })
}
