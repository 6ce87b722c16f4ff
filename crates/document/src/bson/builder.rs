//! The builder of documents: fields are appended to one buffer, nested documents and arrays included.

use smallvec::SmallVec;

use super::buf::{DocumentBuf, append_index, append_payload};
use super::kind::Kind;
use super::view::{Element, Value};
use crate::base::num::u32_of;

/// Appends fields to the bytes of a document.
///
/// ```
/// use spinney_document::bson::DocumentBuilder;
///
/// let mut builder = DocumentBuilder::new();
/// builder.append("name", "Ada").open_array("tags").push(1).push("x").close();
/// builder.open_document("at").append("x", 1.5).close();
/// let document = builder.finish();
/// assert_eq!(document.view().to_json(), r#"{"name":"Ada","tags":[1,"x"],"at":{"x":1.5}}"#);
/// ```
#[derive(Clone, Debug)]
pub struct DocumentBuilder {
    bytes: Vec<u8>,
    /// The documents and arrays that are not closed yet, the outermost first.
    open: SmallVec<[Frame; 8]>,
}

/// The bytes that a finished document may have allocated, however short it is.
const SLACK_BYTES_MAX: usize = 256;

/// An open document or array.
#[derive(Clone, Copy, Debug)]
struct Frame {
    start: usize,
    /// The name of an array's next value.
    next: usize,
}

impl DocumentBuilder {
    /// A builder of a document without fields yet.
    #[must_use]
    pub fn new() -> Self {
        Self::with_buffer(Vec::with_capacity(64))
    }

    /// A builder that uses the memory of `buffer`, whose contents are dropped.
    #[must_use]
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        buffer.extend_from_slice(&[0; 4]);
        Self { bytes: buffer, open: SmallVec::from_slice(&[Frame { start: 0, next: 0 }]) }
    }

    /// Appends a field.
    ///
    /// # Panics
    /// When the name holds a zero, which the format cannot express.
    #[inline]
    pub fn append<'v>(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value<'v>>) -> &mut Self {
        let value = value.into();
        self.head(value.kind(), name.as_ref());
        append_payload(&mut self.bytes, value);
        self
    }

    /// Appends a field of another document as it is.
    #[inline]
    pub fn append_element(&mut self, element: &Element<'_>) -> &mut Self {
        self.bytes.extend_from_slice(element.raw());
        self
    }

    /// Appends a field with the name and value of another document's field under a new name.
    #[inline]
    pub fn append_renamed(&mut self, name: impl AsRef<[u8]>, element: &Element<'_>) -> &mut Self {
        self.append(name, element.value)
    }

    /// Appends the fields of a document.
    #[inline]
    pub fn append_all(&mut self, document: super::view::Document<'_>) -> &mut Self {
        let bytes = document.as_bytes();
        self.bytes.extend_from_slice(bytes.get(4..bytes.len().saturating_sub(1)).unwrap_or_default());
        self
    }

    /// Begins a document as a field; fields go there until [`Self::close`].
    ///
    /// # Panics
    /// When the name holds a zero.
    pub fn open_document(&mut self, name: impl AsRef<[u8]>) -> &mut Self {
        self.head(Kind::Document, name.as_ref());
        self.open()
    }

    /// Begins an array as a field; values are pushed there until [`Self::close`].
    ///
    /// # Panics
    /// When the name holds a zero.
    pub fn open_array(&mut self, name: impl AsRef<[u8]>) -> &mut Self {
        self.head(Kind::Array, name.as_ref());
        self.open()
    }

    /// Appends a value to the open array.
    #[inline]
    pub fn push<'v>(&mut self, value: impl Into<Value<'v>>) -> &mut Self {
        let value = value.into();
        self.index(value.kind());
        append_payload(&mut self.bytes, value);
        self
    }

    /// Begins a document as the next value of the open array.
    pub fn push_document(&mut self) -> &mut Self {
        self.index(Kind::Document);
        self.open()
    }

    /// Begins an array as the next value of the open array.
    pub fn push_array(&mut self) -> &mut Self {
        self.index(Kind::Array);
        self.open()
    }

    /// Ends the innermost open document or array.
    ///
    /// # Panics
    /// When only the document itself is open, which [`Self::finish`] ends.
    pub fn close(&mut self) -> &mut Self {
        assert!(self.open.len() > 1, "nothing is open but the document itself");
        self.end();
        self
    }

    /// The size of the document so far, in bytes.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the innermost open document or array has no fields yet.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.last().is_none_or(|frame| self.bytes.len() == frame.start + 4)
    }

    /// The document. What is still open is closed.
    #[inline]
    #[must_use]
    pub fn finish(mut self) -> DocumentBuf {
        while !self.open.is_empty() {
            self.end();
        }
        // What is kept is counted by its length, so that no more than as much again may be allocated: a small document
        // that was projected from a large one would hold the memory of that.
        if self.bytes.capacity() > SLACK_BYTES_MAX && self.bytes.capacity() / 2 > self.bytes.len() {
            self.bytes.shrink_to_fit();
        }
        DocumentBuf::from_built(self.bytes)
    }

    #[inline]
    fn head(&mut self, kind: Kind, name: &[u8]) {
        assert!(!name.contains(&0), "a field's name holds a zero");
        self.bytes.push(kind.byte());
        self.bytes.extend_from_slice(name);
        self.bytes.push(0);
    }

    fn index(&mut self, kind: Kind) {
        self.bytes.push(kind.byte());
        let frame = self.open.last_mut().expect("the document is open until it is finished");
        append_index(&mut self.bytes, frame.next);
        frame.next += 1;
        self.bytes.push(0);
    }

    fn open(&mut self) -> &mut Self {
        self.open.push(Frame { start: self.bytes.len(), next: 0 });
        self.bytes.extend_from_slice(&[0; 4]);
        self
    }

    #[inline]
    fn end(&mut self) {
        if let Some(Frame { start, .. }) = self.open.pop() {
            self.bytes.push(0);
            let len = u32_of(self.bytes.len() - start).to_le_bytes();
            self.bytes[start..start + 4].copy_from_slice(&len);
        }
    }
}

impl Default for DocumentBuilder {
    fn default() -> Self {
        Self::new()
    }
}
