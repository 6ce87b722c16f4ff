//! Entries of indexes: their bytes.
//!
//! # Format
//! An entry of a unique index has the fields as key, and the encoded `_id` and the types as value. An entry of any
//! other index has the fields and the encoded `_id` as key, and the types as value. In a capped collection the record
//! id, encoded as a number is, has the place of the `_id`.
//!
//! The types are the type bits of the fields. When the `_id` has type bits as well (most have none), they come first:
//! FF, their number of bytes (u16, big-endian), they. FF is no code of a type.

use super::state::Index;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Value, ValueBuf};
use crate::collation::Collation;
use crate::keys::{Direction, Key, TypeBits, append, field_len};

/// The longest key of an entry in bytes.
pub const ENTRY_KEY_BYTES_MAX: usize = 65_000;

/// What the types begin with when the `_id` has some.
const ID_TYPES: u8 = 0xFF;

/// An encoded `_id` with its type bits, in memory that is used again and again.
#[derive(Debug, Default)]
pub struct EncodedId {
    key: Vec<u8>,
    types: TypeBits,
}

/// An entry as the engine stores it, in memory that is used again and again.
#[derive(Debug, Default)]
pub struct IndexEntry {
    key: Vec<u8>,
    value: Vec<u8>,
}

/// The parts of a stored entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryParts<'e> {
    /// The encoded fields.
    pub fields: &'e [u8],
    /// Their type bits.
    pub types: &'e [u8],
    /// The encoded `_id`.
    pub id: &'e [u8],
    /// Its type bits.
    pub id_types: &'e [u8],
}

impl EncodedId {
    /// Becomes that of a value, in a collection with this collation.
    #[inline]
    pub fn set(&mut self, id: &Value<'_>, collation: Option<&Collation>) {
        self.key.clear();
        self.types.clear();
        let collated = collation.and_then(|collation| collation.key_of(id));
        let id = collated.as_ref().map_or(*id, ValueBuf::view);
        append(&mut self.key, &mut self.types, &id, Direction::Ascending);
    }

    /// Becomes the key of a document of a capped collection.
    pub fn set_record(&mut self, key: &[u8]) {
        self.key.clear();
        self.types.clear();
        self.key.extend_from_slice(key);
    }

    /// The key of the document.
    #[inline]
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl IndexEntry {
    /// Whether a key for the document with an `_id` can be an entry.
    ///
    /// # Errors
    /// `KeyTooLong` (17280).
    #[inline]
    pub fn check(index: &Index, key: Key<'_>, id: &EncodedId) -> Result<()> {
        let len = key.fields.len() + if index.spec.unique { 0 } else { id.key.len() };
        if len > ENTRY_KEY_BYTES_MAX {
            let name = &index.spec.name;
            let what = format!("the key of index {name} has {len} bytes, and {ENTRY_KEY_BYTES_MAX} is the most");
            return Err(Error::new(ErrorCode::KEY_TOO_LONG, what));
        }
        Ok(())
    }

    /// Becomes the entry of a key for the document with an `_id`.
    ///
    /// # Errors
    /// `KeyTooLong` (17280).
    #[inline]
    pub fn set(&mut self, index: &Index, key: Key<'_>, id: &EncodedId) -> Result<()> {
        Self::check(index, key, id)?;
        self.key.clear();
        self.value.clear();
        self.key.extend_from_slice(key.fields);
        let to = if index.spec.unique { &mut self.value } else { &mut self.key };
        to.extend_from_slice(&id.key);
        let id_types = id.types.as_bytes();
        if let (false, Ok(len)) = (id_types.is_empty(), u16::try_from(id_types.len())) {
            self.value.push(ID_TYPES);
            self.value.extend_from_slice(&len.to_be_bytes());
            self.value.extend_from_slice(id_types);
        }
        self.value.extend_from_slice(key.types);
        Ok(())
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// The value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }
}

impl<'e> EntryParts<'e> {
    /// The parts of an entry of an index with fields of these directions; nothing when the bytes are no entry.
    #[must_use]
    pub fn of(directions: &[Direction], unique: bool, key: &'e [u8], value: &'e [u8]) -> Option<Self> {
        let (fields, id, rest) = if unique {
            let (id, rest) = value.split_at_checked(field_len(value, Direction::Ascending)?)?;
            (key, id, rest)
        } else {
            let mut at = 0;
            for direction in directions {
                at += field_len(key.get(at..)?, *direction)?;
            }
            let (fields, id) = key.split_at_checked(at)?;
            (fields, id, value)
        };
        let (id_types, types) = types_of(rest)?;
        Some(Self { fields, types, id, id_types })
    }

    /// The type bits of the fields of an entry with this value.
    #[inline]
    #[must_use]
    pub fn types_of(unique: bool, value: &'e [u8]) -> Option<&'e [u8]> {
        let id = if unique { field_len(value, Direction::Ascending)? } else { 0 };
        Some(types_of(value.get(id..)?)?.1)
    }
}

/// The type bits of the `_id` and those of the fields.
#[inline]
fn types_of(types: &[u8]) -> Option<(&[u8], &[u8])> {
    match types.split_first() {
        Some((&ID_TYPES, rest)) => {
            let (len, rest) = rest.split_first_chunk::<2>()?;
            rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))
        }
        _ => Some((&[], types)),
    }
}
