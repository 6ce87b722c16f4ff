//! Documents and values that own their bytes.

use std::fmt;

use smallvec::SmallVec;

use super::decimal::Decimal128;
use super::kind::Kind;
use super::object_id::ObjectId;
use super::text::Text;
use super::view::{Array, Document, EMPTY_DOCUMENT, Timestamp, Value};
use crate::base::num::u32_of;

/// A document that owns its bytes. Made by a [`DocumentBuilder`](super::DocumentBuilder), the macro
/// [`doc!`](crate::doc), from extended JSON, or from a [`Document`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct DocumentBuf(Vec<u8>);

impl DocumentBuf {
    /// The document without fields.
    #[must_use]
    pub fn new() -> Self {
        Self(EMPTY_DOCUMENT.to_vec())
    }

    /// The bytes that a builder has completed.
    pub(crate) fn from_built(bytes: Vec<u8>) -> Self {
        debug_assert!(Document::from_checked_bytes(&bytes).is_some());
        Self(bytes)
    }

    /// A view of the document.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Document<'_> {
        Document::from_checked_bytes(&self.0).unwrap_or(Document::empty())
    }

    /// The bytes.
    #[inline]
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, owned.
    #[inline]
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Default for DocumentBuf {
    fn default() -> Self {
        Self::new()
    }
}

impl From<Document<'_>> for DocumentBuf {
    fn from(document: Document<'_>) -> Self {
        Self(document.as_bytes().to_vec())
    }
}

impl From<DocumentBuf> for Vec<u8> {
    fn from(document: DocumentBuf) -> Self {
        document.0
    }
}

impl fmt::Debug for DocumentBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// A value that owns its bytes: the type and the value as a document holds it. Numbers, dates, ids and short strings
/// need no allocation.
#[derive(Clone)]
pub struct ValueBuf {
    kind: Kind,
    bytes: SmallVec<[u8; 16]>,
}

impl ValueBuf {
    /// A value of a type in its bytes as a document has them behind the name.
    pub(crate) fn from_parts(kind: Kind, bytes: SmallVec<[u8; 16]>) -> Self {
        Self { kind, bytes }
    }

    /// The array with these values.
    #[must_use]
    pub fn array<'v>(values: impl IntoIterator<Item = Value<'v>>) -> Self {
        let mut bytes = SmallVec::from_slice(&[0; 4]);
        for (index, value) in values.into_iter().enumerate() {
            bytes.push(value.kind().byte());
            append_index(&mut bytes, index);
            bytes.push(0);
            append_payload(&mut bytes, value);
        }
        bytes.push(0);
        let len = u32_of(bytes.len()).to_le_bytes();
        bytes[..4].copy_from_slice(&len);
        Self { kind: Kind::Array, bytes }
    }

    /// A regular expression with a pattern and options, which are sorted; neither may hold a zero.
    #[must_use]
    pub fn regex(pattern: &str, options: &str) -> Self {
        let mut sorted: SmallVec<[u8; 8]> = options.bytes().filter(|byte| *byte != 0).collect();
        sorted.sort_unstable();
        let mut bytes: SmallVec<[u8; 16]> = pattern.bytes().filter(|byte| *byte != 0).collect();
        bytes.push(0);
        bytes.extend_from_slice(&sorted);
        bytes.push(0);
        Self { kind: Kind::Regex, bytes }
    }

    /// The type.
    #[inline]
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A view of the value.
    #[inline]
    #[must_use]
    pub fn view(&self) -> Value<'_> {
        Value::read(self.kind, &self.bytes).unwrap_or(Value::Null)
    }

    /// The bytes of the value as a document has them behind the name.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Value<'_>> for ValueBuf {
    fn from(value: Value<'_>) -> Self {
        let mut bytes = SmallVec::new();
        append_payload(&mut bytes, value);
        Self { kind: value.kind(), bytes }
    }
}

impl From<DocumentBuf> for ValueBuf {
    fn from(document: DocumentBuf) -> Self {
        Self { kind: Kind::Document, bytes: SmallVec::from_vec(document.0) }
    }
}

impl fmt::Debug for ValueBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.view().fmt(f)
    }
}

/// Somewhere to append bytes.
pub(crate) trait Bytes {
    fn append(&mut self, bytes: &[u8]);
}

impl Bytes for Vec<u8> {
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl<const N: usize> Bytes for SmallVec<[u8; N]>
where
    [u8; N]: smallvec::Array<Item = u8>,
{
    #[inline]
    fn append(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Appends a number in decimal digits, the name of an array's value.
pub(crate) fn append_index(to: &mut impl Bytes, index: usize) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), index);
    loop {
        at -= 1;
        digits[at] = b"0123456789"[rest % 10];
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    to.append(&digits[at..]);
}

/// Appends the bytes of a value as a document has them behind the name.
#[inline]
pub(crate) fn append_payload(to: &mut impl Bytes, value: Value<'_>) {
    match value {
        Value::Double(number) => to.append(&number.to_le_bytes()),
        Value::String(text) | Value::Code(text) | Value::Symbol(text) => {
            to.append(&u32_of(text.len() + 1).to_le_bytes());
            to.append(text.as_bytes());
            to.append(&[0]);
        }
        Value::Document(document) => to.append(document.as_bytes()),
        Value::Array(array) => to.append(array.as_bytes()),
        Value::Binary(2, bytes) => {
            to.append(&u32_of(bytes.len() + 4).to_le_bytes());
            to.append(&[2]);
            to.append(&u32_of(bytes.len()).to_le_bytes());
            to.append(bytes);
        }
        Value::Binary(subtype, bytes) => {
            to.append(&u32_of(bytes.len()).to_le_bytes());
            to.append(&[subtype]);
            to.append(bytes);
        }
        Value::Undefined | Value::Null | Value::MaxKey | Value::MinKey => {}
        Value::ObjectId(id) => to.append(&id.bytes()),
        Value::Bool(is) => to.append(&[u8::from(is)]),
        Value::DateTime(number) | Value::Int64(number) => to.append(&number.to_le_bytes()),
        Value::Regex(regex) => to.append(regex.as_bytes()),
        Value::DbPointer(pointer) => to.append(pointer.as_bytes()),
        Value::CodeWithScope(code) => to.append(code.as_bytes()),
        Value::Int32(number) => to.append(&number.to_le_bytes()),
        Value::Timestamp(timestamp) => to.append(&timestamp.bits().to_le_bytes()),
        Value::Decimal128(decimal) => to.append(&decimal.to_bytes()),
    }
}

macro_rules! values_from {
    ($($from:ty => |$x:ident| $value:expr;)*) => {
        $(impl<'a> From<$from> for Value<'a> {
            #[inline]
            fn from($x: $from) -> Self {
                $value
            }
        })*
    };
}

values_from! {
    f64 => |x| Value::Double(x);
    i32 => |x| Value::Int32(x);
    i64 => |x| Value::Int64(x);
    bool => |x| Value::Bool(x);
    Decimal128 => |x| Value::Decimal128(x);
    ObjectId => |x| Value::ObjectId(x);
    Timestamp => |x| Value::Timestamp(x);
    &'a str => |x| Value::String(Text::from(x));
    &'a String => |x| Value::String(Text::from(x));
    Text<'a> => |x| Value::String(x);
    Document<'a> => |x| Value::Document(x);
    Array<'a> => |x| Value::Array(x);
    &'a DocumentBuf => |x| Value::Document(x.view());
    &'a ValueBuf => |x| x.view();
}
