//! Values as bytes whose order, byte by byte, is the order of values.
//!
//! # Format
//! A key is the concatenation of its fields. A field is a tag, the value's class ([`Class`]), and a payload that ends
//! by itself whatever tag follows. Neither 00 nor FF is a tag. A descending field has every byte complemented.
//!
//! | tag | value | payload |
//! |---|---|---|
//! | 08, 10, 14, F0 | MinKey, undefined or an empty array's element, null or missing, MaxKey | none |
//! | 20 to 35 | numbers | see the file `number.rs` |
//! | 40 | string, symbol | text: bytes with FF behind each 00, then 00; with a collation, of the sort key |
//! | 48 | document | for each field its class, its name as text, the value with its tag; then 00 |
//! | 50 | array | the values with their tags; then 00 |
//! | 58 | binary | length (one byte below 255, else FF and u32 big-endian; subtype 2 counts 4 more), subtype, bytes |
//! | 60 | object id | 12 bytes |
//! | 68, 69 | false, true | none |
//! | 70 | date | milliseconds with the sign bit flipped, big-endian |
//! | 78 | timestamp | time and increment, big-endian |
//! | 80 | regular expression | pattern and options as text |
//! | 88 | pointer to a document | length of the namespace, u32 big-endian; its bytes; 12 bytes |
//! | 90 | code | text |
//! | 98 | code with variables | text; the variables as a document's payload |

use super::number;
use super::pattern::Direction;
use super::sink::Sink;
use super::types::{self, TypeBits};
use crate::base::num::u32_of;
use crate::bson::order::binary_len;
use crate::bson::{Class, Document, Value};
use crate::collation::Collation;

/// The end of a document and of an array.
pub(super) const END: u8 = 0x00;

/// Appends a value to a key and its type bits to `types`.
#[inline]
pub fn append(key: &mut Vec<u8>, types: &mut TypeBits, value: &Value<'_>, direction: Direction) {
    let start = key.len();
    append_value(&mut Sink::new(key), types, value);
    if direction == Direction::Descending {
        key[start..].iter_mut().for_each(|byte| *byte = !*byte);
    }
}

/// Appends an `_id` to a key, of a collection with this collation. Its type bits are not kept: the document has the
/// value.
#[inline]
pub fn encode_id(key: &mut Vec<u8>, id: &Value<'_>, collation: Option<&Collation>) {
    match collation.and_then(|collation| collation.key_of(id)) {
        None => append(key, &mut TypeBits::new(), id, Direction::Ascending),
        Some(id) => append(key, &mut TypeBits::new(), &id.view(), Direction::Ascending),
    }
}

fn append_value(to: &mut Sink<'_>, types: &mut TypeBits, value: &Value<'_>) {
    match value {
        Value::Int32(number) => {
            types.default_type();
            return number::append_int(to, i64::from(*number));
        }
        Value::Int64(number) => {
            if i32::try_from(*number).is_ok() {
                types.push(types::INT64)
            } else {
                types.default_type()
            }
            return number::append_int(to, *number);
        }
        Value::Double(number) => return number::append_double(to, types, *number),
        Value::Decimal128(number) => return number::append_decimal(to, types, *number),
        Value::Bool(true) => return to.push(Class::Bool as u8 + 1),
        _ => to.push(value.class() as u8),
    }
    match value {
        Value::String(text) => {
            types.default_type();
            append_text(to, text.as_bytes());
        }
        Value::Symbol(text) => {
            types.push(types::SYMBOL);
            append_text(to, text.as_bytes());
        }
        Value::Document(document) => append_document(to, types, *document),
        Value::Array(array) => {
            array.values().for_each(|value| append_value(to, types, &value));
            to.push(END);
        }
        Value::Binary(subtype, bytes) => {
            let len = binary_len(*subtype, bytes);
            match u8::try_from(len) {
                Ok(len) if len < 0xFF => to.push(len),
                _ => {
                    to.push(0xFF);
                    to.extend(&u32_of(len).to_be_bytes());
                }
            }
            to.push(*subtype);
            to.extend(bytes);
        }
        Value::ObjectId(id) => to.extend(&id.bytes()),
        Value::DateTime(millis) => to.extend(&(millis.cast_unsigned() ^ 1 << 63).to_be_bytes()),
        Value::Timestamp(timestamp) => to.extend(&timestamp.bits().to_be_bytes()),
        Value::Regex(regex) => {
            let (pattern, options) = regex.parts();
            append_text(to, pattern.as_bytes());
            append_text(to, options.as_bytes());
        }
        Value::DbPointer(pointer) => {
            let (namespace, id) = pointer.parts();
            to.extend(&u32_of(namespace.len()).to_be_bytes());
            to.extend(namespace.as_bytes());
            to.extend(&id.bytes());
        }
        Value::Code(code) => append_text(to, code.as_bytes()),
        Value::CodeWithScope(code) => {
            let (code, scope) = code.parts();
            append_text(to, code.as_bytes());
            append_document(to, types, scope);
        }
        _ => {}
    }
}

fn append_document(to: &mut Sink<'_>, types: &mut TypeBits, document: Document<'_>) {
    for element in document {
        to.push(element.value.class() as u8);
        append_text(to, element.name.as_bytes());
        append_value(to, types, &element.value);
    }
    to.push(END);
}

#[inline]
fn append_text(to: &mut Sink<'_>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(0, rest) {
        to.extend(&rest[..=at]);
        to.push(0xFF);
        rest = &rest[at + 1..];
    }
    to.extend(rest);
    to.push(0);
}
