//! A value read from the database: either its own bytes, or a view that keeps the block or memtable it lies in alive.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::memory::Image;

/// Memory that values can point into without a copy.
pub trait ByteSource: Send + Sync {
    /// The `len` bytes at position `at`, where both came from the source itself.
    fn bytes(&self, at: usize, len: usize) -> &[u8];
}

/// Bytes read from the database. Dereferences to a slice; cheap to clone when pinned.
#[derive(Clone)]
pub struct Value(Repr);

#[derive(Clone)]
enum Repr {
    Owned(Box<[u8]>),
    Shared { bytes: Image, at: usize, len: usize },
    Pinned { source: Arc<dyn ByteSource>, at: usize, len: usize },
}

impl Value {
    /// A value with bytes of its own.
    #[must_use]
    pub fn owned(bytes: &[u8]) -> Self {
        Self(Repr::Owned(bytes.into()))
    }

    /// A view of `len` bytes at `at` in `bytes`, which stay alive as long as the value.
    #[must_use]
    pub fn shared(bytes: Image, at: usize, len: usize) -> Self {
        Self(Repr::Shared { bytes, at, len })
    }

    /// A view of `len` bytes at `at` in `source`, which stays alive as long as the value.
    #[must_use]
    pub fn pinned(source: Arc<dyn ByteSource>, at: usize, len: usize) -> Self {
        Self(Repr::Pinned { source, at, len })
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Repr::Owned(bytes) => bytes,
            Repr::Shared { bytes, at, len } => &bytes[*at..at + len],
            Repr::Pinned { source, at, len } => source.bytes(*at, *len),
        }
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Eq for Value {}

impl<T: AsRef<[u8]> + ?Sized> PartialEq<T> for Value {
    fn eq(&self, other: &T) -> bool {
        **self == *other.as_ref()
    }
}

impl From<Value> for Vec<u8> {
    fn from(value: Value) -> Self {
        match value.0 {
            Repr::Owned(bytes) => bytes.into_vec(),
            Repr::Shared { .. } | Repr::Pinned { .. } => value.to_vec(),
        }
    }
}
