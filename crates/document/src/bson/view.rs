//! Documents, arrays and values, read in place from the bytes of a document without a copy.
//!
//! A [`Document`] is made by [`Document::parse`](super::validate), which checks everything once, or from bytes that
//! were checked before. Reading never panics, whatever the bytes: where they make no sense, iteration ends.

use super::decimal::Decimal128;
use super::kind::{Class, Kind};
use super::object_id::ObjectId;
use super::text::Text;
use crate::base::num::usize_of32;

/// The smallest document: its length and the closing zero.
pub const EMPTY_DOCUMENT: &[u8] = &[5, 0, 0, 0, 0];

/// A document as bytes: length, elements, zero. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Document<'a>(&'a [u8]);

/// An array as bytes: a document whose names are not looked at. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Array<'a>(&'a [u8]);

/// A field of a document: its type, name and value, and the bytes of all three.
#[derive(Clone, Copy, Debug)]
pub struct Element<'a> {
    /// The name.
    pub name: Text<'a>,
    /// The value.
    pub value: Value<'a>,
    raw: &'a [u8],
}

/// A value of any type, borrowed from the bytes of a document: 24 bytes, cheap to copy.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A 64-bit IEEE 754 number.
    Double(f64),
    /// Text.
    String(Text<'a>),
    /// A document.
    Document(Document<'a>),
    /// An array.
    Array(Array<'a>),
    /// A subtype and bytes (for subtype 2, those behind the inner length).
    Binary(u8, &'a [u8]),
    /// Deprecated: a value that is not defined.
    Undefined,
    /// An object id.
    ObjectId(ObjectId),
    /// True or false.
    Bool(bool),
    /// Milliseconds since 1970, UTC.
    DateTime(i64),
    /// Null.
    Null,
    /// A regular expression.
    Regex(Regex<'a>),
    /// Deprecated: a reference to a document of another collection.
    DbPointer(DbPointer<'a>),
    /// JavaScript.
    Code(Text<'a>),
    /// Deprecated: text, equal to a string.
    Symbol(Text<'a>),
    /// Deprecated: JavaScript with variables.
    CodeWithScope(CodeWithScope<'a>),
    /// A 32-bit integer.
    Int32(i32),
    /// Seconds and ordinal.
    Timestamp(Timestamp),
    /// A 64-bit integer.
    Int64(i64),
    /// A 128-bit decimal number.
    Decimal128(Decimal128),
    /// The greatest of all values.
    MaxKey,
    /// The least of all values.
    MinKey,
}

/// Seconds since 1970 and an ordinal within the second; ordered by both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since 1970.
    pub time: u32,
    /// The ordinal.
    pub increment: u32,
}

/// A regular expression as bytes: pattern, zero, options, zero.
#[derive(Clone, Copy, Debug)]
pub struct Regex<'a>(&'a [u8]);

/// A namespace and an id as bytes: a string, then twelve bytes.
#[derive(Clone, Copy, Debug)]
pub struct DbPointer<'a>(&'a [u8]);

/// Code and its variables as bytes: length, string, document.
#[derive(Clone, Copy, Debug)]
pub struct CodeWithScope<'a>(&'a [u8]);

/// The fields of a document, in the order in which they are stored.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    rest: &'a [u8],
}

/// The values of an array.
#[derive(Clone, Debug)]
pub struct ArrayValues<'a> {
    elements: Elements<'a>,
}

impl ArrayValues<'_> {
    /// The bytes of the values that are left.
    pub(crate) const fn bytes(&self) -> usize {
        self.elements.rest.len()
    }
}

impl<'a> Array<'a> {
    /// The array whose values are those of a document.
    #[must_use]
    pub const fn of_document(document: Document<'a>) -> Self {
        Self(document.0)
    }
}

impl<'a> Document<'a> {
    /// The document without fields.
    #[must_use]
    pub const fn empty() -> Document<'static> {
        Document(EMPTY_DOCUMENT)
    }

    /// The document in bytes that were checked when they came in, as those of a collection were: only the frame is
    /// checked again.
    #[must_use]
    pub fn from_checked_bytes(bytes: &'a [u8]) -> Option<Self> {
        let len = usize_of32(u32::from_le_bytes(*bytes.first_chunk()?));
        (len == bytes.len() && len >= EMPTY_DOCUMENT.len() && bytes[len - 1] == 0).then_some(Self(bytes))
    }

    /// All of its bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The fields in their order.
    #[inline]
    #[must_use]
    pub fn elements(self) -> Elements<'a> {
        Elements { rest: self.0.get(4..self.0.len().saturating_sub(1)).unwrap_or_default() }
    }

    /// The first field, if there is one.
    #[inline]
    #[must_use]
    pub fn first(self) -> Option<Element<'a>> {
        self.elements().next()
    }

    /// Whether there are no fields.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.len() <= EMPTY_DOCUMENT.len()
    }

    /// The value of the first field with a name. The name is taken as it is, dots included.
    #[inline]
    #[must_use]
    pub fn get(self, name: impl AsRef<[u8]>) -> Option<Value<'a>> {
        self.element(name).map(|element| element.value)
    }

    /// The first field with a name.
    #[inline]
    #[must_use]
    pub fn element(self, name: impl AsRef<[u8]>) -> Option<Element<'a>> {
        self.elements().find_named(name.as_ref())
    }
}

impl<'a> Array<'a> {
    /// The array without values.
    #[must_use]
    pub const fn empty() -> Array<'static> {
        Array(EMPTY_DOCUMENT)
    }

    /// The array in the bytes of a document.
    #[inline]
    #[must_use]
    pub const fn from_document(document: Document<'a>) -> Self {
        Self(document.0)
    }

    /// The document that has the array's values under their stored names, usually `0`, `1` and so on.
    #[inline]
    #[must_use]
    pub const fn as_document(self) -> Document<'a> {
        Document(self.0)
    }

    /// All of its bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The values in their order.
    #[inline]
    #[must_use]
    pub fn values(self) -> ArrayValues<'a> {
        ArrayValues { elements: self.as_document().elements() }
    }

    /// The values in the last bytes of the array, as [`ArrayValues::bytes`] counts them.
    pub(crate) fn last_values(self, bytes: usize) -> ArrayValues<'a> {
        let end = self.0.len().saturating_sub(1);
        ArrayValues { elements: Elements { rest: self.0.get(end.saturating_sub(bytes)..end).unwrap_or_default() } }
    }

    /// The value at a position from zero.
    #[must_use]
    pub fn get(self, index: usize) -> Option<Value<'a>> {
        self.values().nth(index)
    }

    /// The number of values, found by walking over them.
    #[must_use]
    pub fn count(self) -> usize {
        self.values().count()
    }

    /// Whether there are no values.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.len() <= EMPTY_DOCUMENT.len()
    }
}

impl<'a> Element<'a> {
    /// The bytes of the whole field: type, name, zero, value. A builder can append them as they are.
    #[inline]
    #[must_use]
    pub const fn raw(&self) -> &'a [u8] {
        self.raw
    }
}

impl<'a> Elements<'a> {
    /// The next field with this name; other fields are skipped without reading their values.
    fn find_named(&mut self, name: &[u8]) -> Option<Element<'a>> {
        loop {
            let (kind, found, at) = self.head()?;
            let len = payload_len(kind, self.rest.get(at..)?)?;
            let raw = self.rest.get(..at + len)?;
            self.rest = self.rest.get(at + len..)?;
            if found == name {
                return Some(Element { name: Text::from_bytes(found), value: Value::read(kind, &raw[at..])?, raw });
            }
        }
    }

    /// The type and name of the next field and where its value begins.
    #[inline]
    fn head(&self) -> Option<(Kind, &'a [u8], usize)> {
        let (first, rest) = self.rest.split_first()?;
        let kind = Kind::from_byte(*first)?;
        let len = name_len(rest)?;
        Some((kind, &rest[..len], len + 2))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Element<'a>;

    #[inline]
    fn next(&mut self) -> Option<Element<'a>> {
        let (kind, name, at) = self.head()?;
        let payload = self.rest.get(at..)?;
        let len = payload_len(kind, payload)?;
        let value = Value::read(kind, payload.get(..len)?)?;
        let (raw, rest) = self.rest.split_at_checked(at + len)?;
        self.rest = rest;
        Some(Element { name: Text::from_bytes(name), value, raw })
    }
}

impl<'a> Iterator for ArrayValues<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.elements.next().map(|element| element.value)
    }
}

impl<'a> IntoIterator for Document<'a> {
    type Item = Element<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.elements()
    }
}

impl<'a> IntoIterator for Array<'a> {
    type Item = Value<'a>;
    type IntoIter = ArrayValues<'a>;

    fn into_iter(self) -> ArrayValues<'a> {
        self.values()
    }
}

impl<'a> Value<'a> {
    /// The value of a type in its bytes as a document has them behind the name; nothing when they make no sense.
    #[inline]
    #[must_use]
    pub fn read(kind: Kind, bytes: &'a [u8]) -> Option<Self> {
        Some(match kind {
            Kind::Double => Self::Double(f64::from_le_bytes(*bytes.first_chunk()?)),
            Kind::String => Self::String(Text::from_bytes(string_in(bytes)?)),
            Kind::Document => Self::Document(Document(bytes)),
            Kind::Array => Self::Array(Array(bytes)),
            Kind::Binary => match (*bytes.get(4)?, bytes.get(5..)?) {
                (2, old) => Self::Binary(2, old.get(4..)?),
                (subtype, payload) => Self::Binary(subtype, payload),
            },
            Kind::Undefined => Self::Undefined,
            Kind::ObjectId => Self::ObjectId(ObjectId::from_bytes(*bytes.first_chunk()?)),
            Kind::Bool => Self::Bool(*bytes.first()? != 0),
            Kind::DateTime => Self::DateTime(i64::from_le_bytes(*bytes.first_chunk()?)),
            Kind::Null => Self::Null,
            Kind::Regex => Self::Regex(Regex(bytes)),
            Kind::DbPointer => Self::DbPointer(DbPointer(bytes)),
            Kind::Code => Self::Code(Text::from_bytes(string_in(bytes)?)),
            Kind::Symbol => Self::Symbol(Text::from_bytes(string_in(bytes)?)),
            Kind::CodeWithScope => Self::CodeWithScope(CodeWithScope(bytes)),
            Kind::Int32 => Self::Int32(i32::from_le_bytes(*bytes.first_chunk()?)),
            Kind::Timestamp => {
                let bits = u64::from_le_bytes(*bytes.first_chunk()?);
                Self::Timestamp(Timestamp::from_bits(bits))
            }
            Kind::Int64 => Self::Int64(i64::from_le_bytes(*bytes.first_chunk()?)),
            Kind::Decimal128 => Self::Decimal128(Decimal128::from_bytes(*bytes.first_chunk()?)),
            Kind::MaxKey => Self::MaxKey,
            Kind::MinKey => Self::MinKey,
        })
    }

    /// The type.
    #[inline]
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Double(_) => Kind::Double,
            Self::String(_) => Kind::String,
            Self::Document(_) => Kind::Document,
            Self::Array(_) => Kind::Array,
            Self::Binary(..) => Kind::Binary,
            Self::Undefined => Kind::Undefined,
            Self::ObjectId(_) => Kind::ObjectId,
            Self::Bool(_) => Kind::Bool,
            Self::DateTime(_) => Kind::DateTime,
            Self::Null => Kind::Null,
            Self::Regex(_) => Kind::Regex,
            Self::DbPointer(_) => Kind::DbPointer,
            Self::Code(_) => Kind::Code,
            Self::Symbol(_) => Kind::Symbol,
            Self::CodeWithScope(_) => Kind::CodeWithScope,
            Self::Int32(_) => Kind::Int32,
            Self::Timestamp(_) => Kind::Timestamp,
            Self::Int64(_) => Kind::Int64,
            Self::Decimal128(_) => Kind::Decimal128,
            Self::MaxKey => Kind::MaxKey,
            Self::MinKey => Kind::MinKey,
        }
    }

    /// The class in the order of values.
    #[inline]
    #[must_use]
    pub const fn class(&self) -> Class {
        self.kind().class()
    }

    /// The text of a string or symbol.
    #[inline]
    #[must_use]
    pub const fn as_text(&self) -> Option<Text<'a>> {
        match self {
            Self::String(text) | Self::Symbol(text) => Some(*text),
            _ => None,
        }
    }

    /// The text of a string, if it is UTF-8.
    #[inline]
    #[must_use]
    pub fn as_str(&self) -> Option<&'a str> {
        self.as_text().and_then(Text::as_str)
    }

    /// The document, if it is one.
    #[inline]
    #[must_use]
    pub const fn as_document(&self) -> Option<Document<'a>> {
        match self {
            Self::Document(document) => Some(*document),
            _ => None,
        }
    }

    /// The array, if it is one.
    #[inline]
    #[must_use]
    pub const fn as_array(&self) -> Option<Array<'a>> {
        match self {
            Self::Array(array) => Some(*array),
            _ => None,
        }
    }

    /// Whether the value is null or undefined.
    #[inline]
    #[must_use]
    pub const fn is_nullish(&self) -> bool {
        matches!(self, Self::Null | Self::Undefined)
    }
}

impl Timestamp {
    /// The timestamp of 64 bits: seconds in the upper half.
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        let [i, j, k, l, s, t, u, v] = bits.to_le_bytes();
        Self { time: u32::from_le_bytes([s, t, u, v]), increment: u32::from_le_bytes([i, j, k, l]) }
    }

    /// The 64 bits: seconds in the upper half. Their order is the order of timestamps.
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u64 {
        (self.time as u64) << 32 | self.increment as u64
    }
}

impl<'a> Regex<'a> {
    /// The expression in its bytes: pattern, zero, options, zero.
    #[inline]
    #[must_use]
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The pattern and the options, such as `im`.
    #[must_use]
    pub fn parts(self) -> (Text<'a>, Text<'a>) {
        let pattern = zero_in(self.0).unwrap_or(self.0.len());
        let options = self.0.get(pattern + 1..).unwrap_or_default();
        let options = &options[..zero_in(options).unwrap_or(options.len())];
        (Text::from_bytes(&self.0[..pattern]), Text::from_bytes(options))
    }
}

impl<'a> DbPointer<'a> {
    /// Its bytes: a string, then twelve bytes.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The namespace and the id.
    #[must_use]
    pub fn parts(self) -> (Text<'a>, ObjectId) {
        let (namespace, id) = self.0.split_at(self.0.len().saturating_sub(12));
        let id = id.first_chunk().copied().unwrap_or_default();
        (Text::from_bytes(string_in(namespace).unwrap_or_default()), ObjectId::from_bytes(id))
    }
}

impl<'a> CodeWithScope<'a> {
    /// Its bytes: length, string, document.
    #[inline]
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The code and its variables.
    #[must_use]
    pub fn parts(self) -> (Text<'a>, Document<'a>) {
        let code = self.0.get(4..).unwrap_or_default();
        let len = payload_len(Kind::String, code).unwrap_or_default().min(code.len());
        let scope = Document::from_checked_bytes(&code[len..]).unwrap_or(Document::empty());
        (Text::from_bytes(string_in(&code[..len]).unwrap_or_default()), scope)
    }
}

/// The length of the name that begins `bytes`, up to its zero. Most names are so short that eight bytes at a time are
/// done before a search of longer texts has begun.
#[inline]
pub(crate) fn name_len(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let (words, rest) = bytes.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        // The lowest bit that is set is the upper bit of the first byte that is zero.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(at * 8 + zeros.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|byte| *byte == 0).map(|at| words.len() * 8 + at)
}

/// Where the first zero is.
#[inline]
pub(crate) fn zero_in(bytes: &[u8]) -> Option<usize> {
    memchr::memchr(0, bytes)
}

/// The text of a string with its length before it and a zero behind it.
#[inline]
fn string_in(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(4..bytes.len().checked_sub(1)?)
}

/// The number of bytes of a value of a type that begins `bytes`, or nothing if they do not say. It may be more than
/// there are.
#[inline]
pub(crate) fn payload_len(kind: Kind, bytes: &[u8]) -> Option<usize> {
    let prefix = || Some(usize_of32(u32::from_le_bytes(*bytes.first_chunk()?)));
    Some(match kind {
        Kind::Double | Kind::DateTime | Kind::Timestamp | Kind::Int64 => 8,
        Kind::String | Kind::Code | Kind::Symbol => prefix()? + 4,
        Kind::Document | Kind::Array | Kind::CodeWithScope => prefix()?,
        Kind::Binary => prefix()? + 5,
        Kind::Undefined | Kind::Null | Kind::MaxKey | Kind::MinKey => 0,
        Kind::ObjectId => 12,
        Kind::Bool => 1,
        Kind::Regex => {
            let pattern = zero_in(bytes)? + 1;
            pattern + zero_in(bytes.get(pattern..)?)? + 1
        }
        Kind::DbPointer => prefix()? + 4 + 12,
        Kind::Int32 => 4,
        Kind::Decimal128 => 16,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_ends_at_its_first_zero() {
        for len in 0..40 {
            for behind in [&b""[..], b"\x01", b"\x00\x01\x80", b"\x80\x00\x00\x00\x00\x00\x00\x00\x00"] {
                // Bytes from which a subtraction borrows, and those with the upper bit.
                for byte in [1, 0x7F, 0x80, 0x81, 0xFF] {
                    let mut bytes = vec![byte; len];
                    assert_eq!(name_len(&bytes), None);
                    bytes.push(0);
                    bytes.extend(behind);
                    assert_eq!(name_len(&bytes), Some(len), "{bytes:?}");
                }
            }
        }
    }
}
