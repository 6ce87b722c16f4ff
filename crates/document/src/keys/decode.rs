//! Reading keys back: where a field ends, and its value.

use smallvec::SmallVec;

use super::encode::END;
use super::number;
use super::pattern::Direction;
use super::types::{self, TypeReader};
use crate::base::num::{u32_of, usize_of32};
use crate::bson::buf::append_payload;
use crate::bson::{DEPTH_MAX, DocumentBuilder, Kind, ObjectId, Text, Timestamp, Value, ValueBuf};

/// A key from a position on, read through a mask that undoes a descending field.
#[derive(Clone, Copy)]
struct Source<'k> {
    key: &'k [u8],
    at: usize,
    mask: u8,
    /// The documents and arrays around the position while values are read.
    depth: usize,
}

/// The number of bytes of the first field of a key, or nothing if the bytes are no key.
#[must_use]
pub fn field_len(key: &[u8], direction: Direction) -> Option<usize> {
    let mut source = Source::new(key, direction);
    source.skip()?;
    Some(source.at)
}

/// The value of the first field of a key, with the types that were stored beside it, and the rest of the key. Null is
/// what a missing field is read as.
#[must_use]
pub fn decode_field<'k>(
    key: &'k [u8],
    direction: Direction,
    types: &mut TypeReader<'_>,
) -> Option<(ValueBuf, &'k [u8])> {
    let mut source = Source::new(key, direction);
    let value = source.value(types)?;
    Some((value, key.get(source.at..)?))
}

/// As [`decode_field`], of a number that is no decimal, in no memory of its own; nothing for all other values, and then
/// `types` is as it was.
#[inline]
#[must_use]
pub fn decode_number<'k>(
    key: &'k [u8],
    direction: Direction,
    types: &mut TypeReader<'_>,
) -> Option<(Value<'static>, &'k [u8])> {
    let (number, len) = number::decode_plain(key, mask_of(direction), types.peek())?;
    types.next();
    Some((number, key.get(len..)?))
}

/// The rest of a key behind its first field, whose types are read over.
#[inline]
#[must_use]
pub fn skip_field<'k>(key: &'k [u8], direction: Direction, types: &mut TypeReader<'_>) -> Option<&'k [u8]> {
    if types.is_default() {
        return key.get(field_len(key, direction)?..);
    }
    match decode_number(key, direction, types) {
        Some((_, rest)) => Some(rest),
        None => Some(decode_field(key, direction, types)?.1),
    }
}

/// What the bytes of a field are complemented by.
const fn mask_of(direction: Direction) -> u8 {
    match direction {
        Direction::Ascending => 0,
        Direction::Descending => 0xFF,
    }
}

impl<'k> Source<'k> {
    fn new(key: &'k [u8], direction: Direction) -> Self {
        Self { key, at: 0, mask: mask_of(direction), depth: 0 }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.key.get(self.at + ahead).map(|byte| byte ^ self.mask)
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = self.peek(0)?;
        self.at += 1;
        Some(byte)
    }

    fn bytes(&mut self, len: usize) -> Option<SmallVec<[u8; 32]>> {
        let bytes = self.key.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        let mut copy = SmallVec::from_slice(bytes);
        if self.mask != 0 {
            copy.iter_mut().for_each(|byte| *byte ^= self.mask);
        }
        Some(copy)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(*self.bytes(4)?.first_chunk()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_be_bytes(*self.bytes(8)?.first_chunk()?))
    }

    /// Moves behind a text.
    fn skip_text(&mut self) -> Option<()> {
        loop {
            let rest = self.key.get(self.at..)?;
            self.at += memchr::memchr(self.mask, rest)? + 1;
            if self.peek(0) != Some(0xFF) {
                return Some(());
            }
            self.at += 1;
        }
    }

    fn text(&mut self) -> Option<SmallVec<[u8; 32]>> {
        let mut text = SmallVec::new();
        loop {
            let rest = self.key.get(self.at..)?;
            let zero = memchr::memchr(self.mask, rest)?;
            text.extend_from_slice(&rest[..zero]);
            self.at += zero + 1;
            if self.peek(0) != Some(0xFF) {
                break;
            }
            // A zero of the text itself.
            text.push(self.mask);
            self.at += 1;
        }
        if self.mask != 0 {
            text.iter_mut().for_each(|byte| *byte ^= self.mask);
        }
        Some(text)
    }

    /// The length of a binary value's bytes and its subtype.
    fn binary_head(&mut self) -> Option<(usize, u8)> {
        let len = match self.byte()? {
            0xFF => usize_of32(self.u32()?),
            short => usize::from(short),
        };
        let subtype = self.byte()?;
        Some((len.checked_sub(if subtype == 2 { 4 } else { 0 })?, subtype))
    }

    /// Moves behind a value. `depth` counts the documents and arrays around the position, so that no recursion is
    /// needed.
    fn skip(&mut self) -> Option<()> {
        // For each open document or array, whether it is a document.
        let mut open: SmallVec<[bool; 16]> = SmallVec::new();
        loop {
            let mut tag = self.byte()?;
            if tag == END {
                open.pop()?;
            } else {
                if open.last() == Some(&true) {
                    self.skip_text()?;
                    tag = self.byte()?;
                }
                self.skip_payload(tag, &mut open)?;
            }
            if open.is_empty() {
                return Some(());
            }
        }
    }

    fn skip_payload(&mut self, tag: u8, open: &mut SmallVec<[bool; 16]>) -> Option<()> {
        match tag {
            0x20..=0x35 => self.at += number::payload_len(tag, |index| self.peek(index))?,
            0x40 | 0x90 => self.skip_text()?,
            0x48 => open.push(true),
            0x50 => open.push(false),
            0x58 => {
                let (len, _) = self.binary_head()?;
                self.at = self.at.checked_add(len)?;
            }
            0x60 => self.at += 12,
            0x70 | 0x78 => self.at += 8,
            0x80 => {
                self.skip_text()?;
                self.skip_text()?;
            }
            0x88 => {
                let len = usize_of32(self.u32()?);
                self.at = self.at.checked_add(len)?.checked_add(12)?;
            }
            0x98 => {
                self.skip_text()?;
                open.push(true);
            }
            0x08 | 0x10 | 0x14 | 0x68 | 0x69 | 0xF0 => {}
            _ => return None,
        }
        (self.at <= self.key.len()).then_some(())
    }

    fn value(&mut self, types: &mut TypeReader<'_>) -> Option<ValueBuf> {
        let tag = self.byte()?;
        let simple = |value: Value<'_>| Some(ValueBuf::from(value));
        match tag {
            0x08 => simple(Value::MinKey),
            0x10 => simple(Value::Undefined),
            0x14 => simple(Value::Null),
            0x20..=0x35 => {
                if let Some((number, len)) = number::decode_plain(&self.key[self.at - 1..], self.mask, types.peek()) {
                    types.next();
                    self.at += len - 1;
                    return simple(number);
                }
                let len = number::payload_len(tag, |index| self.peek(index))?;
                let payload = self.bytes(len)?;
                simple(number::decode_decimal(tag, &payload, types)?.into())
            }
            0x40 => {
                let symbol = types.next() == types::SYMBOL;
                let text = self.text()?;
                let text = Text::from_bytes(&text);
                simple(if symbol { Value::Symbol(text) } else { Value::String(text) })
            }
            0x48 => {
                let mut builder = DocumentBuilder::new();
                self.enter()?;
                self.members(types, &mut builder)?;
                self.depth -= 1;
                Some(builder.finish().into())
            }
            0x50 => {
                let mut values = Vec::new();
                self.enter()?;
                while self.peek(0)? != END {
                    values.push(self.value(types)?);
                }
                self.at += 1;
                self.depth -= 1;
                Some(ValueBuf::array(values.iter().map(ValueBuf::view)))
            }
            0x58 => {
                let (len, subtype) = self.binary_head()?;
                simple(Value::Binary(subtype, &self.bytes(len)?))
            }
            0x60 => simple(Value::ObjectId(ObjectId::from_bytes(*self.bytes(12)?.first_chunk()?))),
            0x68 | 0x69 => simple(Value::Bool(tag == 0x69)),
            0x70 => simple(Value::DateTime((self.u64()? ^ 1 << 63).cast_signed())),
            0x78 => simple(Value::Timestamp(Timestamp::from_bits(self.u64()?))),
            0xF0 => simple(Value::MaxKey),
            _ => self.rare_value(tag, types),
        }
    }

    fn rare_value(&mut self, tag: u8, types: &mut TypeReader<'_>) -> Option<ValueBuf> {
        let mut bytes: SmallVec<[u8; 16]> = SmallVec::new();
        match tag {
            0x80 => {
                for _ in 0..2 {
                    let text = self.text()?;
                    if text.contains(&0) {
                        return None;
                    }
                    bytes.extend_from_slice(&text);
                    bytes.push(0);
                }
                Some(ValueBuf::from_parts(Kind::Regex, bytes))
            }
            0x88 => {
                let len = usize_of32(self.u32()?);
                append_payload(&mut bytes, Value::String(Text::from_bytes(&self.bytes(len)?)));
                bytes.extend_from_slice(&self.bytes(12)?);
                Some(ValueBuf::from_parts(Kind::DbPointer, bytes))
            }
            0x90 => Some(ValueBuf::from(Value::Code(Text::from_bytes(&self.text()?)))),
            0x98 => {
                bytes.extend_from_slice(&[0; 4]);
                append_payload(&mut bytes, Value::Code(Text::from_bytes(&self.text()?)));
                let mut scope = DocumentBuilder::new();
                self.enter()?;
                self.members(types, &mut scope)?;
                self.depth -= 1;
                bytes.extend_from_slice(scope.finish().as_bytes());
                let len = u32_of(bytes.len()).to_le_bytes();
                bytes[..4].copy_from_slice(&len);
                Some(ValueBuf::from_parts(Kind::CodeWithScope, bytes))
            }
            _ => None,
        }
    }

    /// One level deeper; no document that was checked is as deep as this refuses.
    fn enter(&mut self) -> Option<()> {
        self.depth += 1;
        (self.depth <= 2 * DEPTH_MAX).then_some(())
    }

    /// The fields of a document up to its end.
    fn members(&mut self, types: &mut TypeReader<'_>, builder: &mut DocumentBuilder) -> Option<()> {
        while self.byte()? != END {
            let name = self.text()?;
            let value = self.value(types)?;
            if name.contains(&0) {
                return None;
            }
            builder.append(&*name, &value);
        }
        Some(())
    }
}
