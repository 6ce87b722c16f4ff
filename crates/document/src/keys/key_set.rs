//! The keys of one document in one index.

use smallvec::SmallVec;

use super::types::TypeBits;
use crate::base::{Error, ErrorCode, Result};

/// Keys of a document in an index: their order in bytes, without duplicates. The memory is used again and again.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    bytes: Vec<u8>,
    entries: SmallVec<[Entry; 4]>,
    multikey: SmallVec<[u64; 4]>,
    types: TypeBits,
    /// Whether keys were left out because all of them would take more than [`BYTES_MAX`].
    is_full: bool,
}

/// The most bytes of the keys of one document: an array gives a key for each value, and each has all other fields.
const BYTES_MAX: usize = 64 << 20;

/// A key and its type bits, one behind the other.
#[derive(Clone, Copy, Debug)]
struct Entry {
    start: usize,
    types: usize,
    end: usize,
}

/// A key of a document in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'k> {
    /// The encoded fields.
    pub fields: &'k [u8],
    /// Their type bits.
    pub types: &'k [u8],
}

impl KeySet {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The keys in the order of their bytes.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Key<'_>> {
        self.entries.iter().map(|entry| Key {
            fields: &self.bytes[entry.start..entry.types],
            types: &self.bytes[entry.types..entry.end],
        })
    }

    /// Becomes the set of a document that the index does not take.
    pub fn reset(&mut self) {
        self.clear(0);
    }

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// For each field of the index, the components of its path that were arrays, a bit each from the lowest; the last
    /// bit stands for all components from the 64th.
    #[must_use]
    pub fn multikey(&self) -> &[u64] {
        &self.multikey
    }

    /// Begins the keys of another document.
    pub(super) fn clear(&mut self, fields: usize) {
        self.is_full = false;
        self.bytes.clear();
        self.entries.clear();
        self.multikey.clear();
        self.multikey.resize(fields, 0);
    }

    pub(super) fn set_multikey(&mut self, field: usize, component: usize) {
        self.multikey[field] |= 1 << component.min(63);
    }

    /// Appends a key whose fields `fill` writes.
    pub(super) fn push(&mut self, fill: impl FnOnce(&mut Vec<u8>, &mut TypeBits)) {
        let start = self.bytes.len();
        if start > BYTES_MAX {
            self.is_full = true;
            return;
        }
        self.types.clear();
        fill(&mut self.bytes, &mut self.types);
        let types = self.bytes.len();
        self.bytes.extend_from_slice(self.types.as_bytes());
        self.entries.push(Entry { start, types, end: self.bytes.len() });
    }

    /// Sorts the keys and drops those that are there already.
    ///
    /// # Errors
    /// `CannotBuildIndexKeys` (201) when they take more than [`BYTES_MAX`].
    pub(super) fn finish(&mut self) -> Result<()> {
        if self.is_full {
            let what = format!("the keys of a document in an index take more than {BYTES_MAX} bytes");
            return Err(Error::new(ErrorCode::CANNOT_BUILD_INDEX_KEYS, what));
        }
        if self.entries.len() > 1 {
            let bytes = &self.bytes;
            let fields = |entry: &Entry| &bytes[entry.start..entry.types];
            self.entries.sort_by(|a, b| fields(a).cmp(fields(b)));
            self.entries.dedup_by(|a, b| fields(a) == fields(b));
        }
        Ok(())
    }
}
