//! The order of values of all types, and the equality and hash that agree with it.
//!
//! Values of different classes are ordered by class. Within a class: numbers by exact value whatever their types, NaN
//! lowest; strings and symbols by bytes; documents field by field, each by class, then name, then value, and the
//! shorter first; arrays value by value; binary values by length, subtype, bytes; regular expressions by pattern, then
//! options. The order of encoded keys is this order.

use std::cmp::Ordering;
use std::hash::Hasher;

use super::number::{self, Number};
use super::text::Text;
use super::view::{Array, Document, Value};
use crate::base::num::u64_of;

/// The order of strings within values.
pub trait TextOrder {
    /// The order of two strings.
    fn compare_texts(&self, a: Text<'_>, b: Text<'_>) -> Ordering;
}

/// Strings in the order of their bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByBytes;

impl TextOrder for ByBytes {
    #[inline]
    fn compare_texts(&self, a: Text<'_>, b: Text<'_>) -> Ordering {
        a.cmp(&b)
    }
}

/// The order of two values.
#[must_use]
pub fn compare(a: &Value<'_>, b: &Value<'_>) -> Ordering {
    compare_by(&ByBytes, a, b)
}

/// The order of two values whose strings, also those within documents and arrays, are in an order of their own. Names
/// of fields are compared by bytes.
pub fn compare_by(texts: &impl TextOrder, a: &Value<'_>, b: &Value<'_>) -> Ordering {
    match (a, b) {
        (Value::Int32(a), Value::Int32(b)) => a.cmp(b),
        (Value::String(a) | Value::Symbol(a), Value::String(b) | Value::Symbol(b)) => texts.compare_texts(*a, *b),
        (Value::ObjectId(a), Value::ObjectId(b)) => a.cmp(b),
        (Value::Document(a), Value::Document(b)) => compare_documents_by(texts, *a, *b),
        (Value::Array(a), Value::Array(b)) => compare_arrays_by(texts, *a, *b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::DateTime(a), Value::DateTime(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        (Value::Binary(s, a), Value::Binary(t, b)) => compare_binaries((*s, a), (*t, b)),
        (Value::Regex(a), Value::Regex(b)) => a.parts().cmp(&b.parts()),
        (Value::Code(a), Value::Code(b)) => a.cmp(b),
        (Value::DbPointer(a), Value::DbPointer(b)) => {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            a.len().cmp(&b.len()).then_with(|| a.cmp(b))
        }
        (Value::CodeWithScope(a), Value::CodeWithScope(b)) => {
            let ((code, scope), (other, others)) = (a.parts(), b.parts());
            code.cmp(&other).then_with(|| compare_documents(scope, others))
        }
        _ => match (a.as_number(), b.as_number()) {
            (Some(a), Some(b)) => number::compare(a, b),
            _ => a.class().cmp(&b.class()),
        },
    }
}

/// Whether two values are equal in the order of values: 1 and 1.0 are, `{a: 1, b: 2}` and `{b: 2, a: 1}` are not.
#[inline]
#[must_use]
pub fn equal(a: &Value<'_>, b: &Value<'_>) -> bool {
    compare(a, b) == Ordering::Equal
}

/// The order of two documents.
#[must_use]
pub fn compare_documents(a: Document<'_>, b: Document<'_>) -> Ordering {
    compare_documents_by(&ByBytes, a, b)
}

fn compare_documents_by(texts: &impl TextOrder, a: Document<'_>, b: Document<'_>) -> Ordering {
    if a.as_bytes() == b.as_bytes() {
        return Ordering::Equal;
    }
    let (mut left, mut right) = (a.elements(), b.elements());
    loop {
        match (left.next(), right.next()) {
            (Some(a), Some(b)) => {
                let order = a.value.class().cmp(&b.value.class()).then_with(|| a.name.cmp(&b.name));
                let order = order.then_with(|| compare_by(texts, &a.value, &b.value));
                if order != Ordering::Equal {
                    return order;
                }
            }
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

/// The order of two arrays.
#[must_use]
pub fn compare_arrays(a: Array<'_>, b: Array<'_>) -> Ordering {
    compare_arrays_by(&ByBytes, a, b)
}

fn compare_arrays_by(texts: &impl TextOrder, a: Array<'_>, b: Array<'_>) -> Ordering {
    let (mut left, mut right) = (a.values(), b.values());
    loop {
        match (left.next(), right.next()) {
            (Some(a), Some(b)) => {
                let order = compare_by(texts, &a, &b);
                if order != Ordering::Equal {
                    return order;
                }
            }
            (a, b) => return a.is_some().cmp(&b.is_some()),
        }
    }
}

/// The length of a binary value that its order goes by: subtype 2 counts its inner length.
pub(crate) fn binary_len(subtype: u8, bytes: &[u8]) -> usize {
    bytes.len() + if subtype == 2 { 4 } else { 0 }
}

fn compare_binaries((subtype, a): (u8, &[u8]), (other, b): (u8, &[u8])) -> Ordering {
    let order = binary_len(subtype, a).cmp(&binary_len(other, b));
    order.then_with(|| subtype.cmp(&other)).then_with(|| a.cmp(b))
}

/// Feeds a value to a hasher such that equal values give equal hashes.
pub fn hash(value: &Value<'_>, state: &mut impl Hasher) {
    let class = value.class();
    state.write_u8(class as u8);
    match value {
        Value::String(text) | Value::Symbol(text) | Value::Code(text) => write(text.as_bytes(), state),
        Value::Document(document) => hash_document(*document, state),
        Value::Array(array) => {
            array.values().for_each(|value| hash(&value, state));
            state.write_u8(0);
        }
        Value::Binary(subtype, bytes) => {
            state.write_u8(*subtype);
            write(bytes, state);
        }
        Value::ObjectId(id) => state.write(&id.bytes()),
        Value::Bool(is) => state.write_u8(u8::from(*is)),
        Value::DateTime(number) => state.write_i64(*number),
        Value::Timestamp(timestamp) => state.write_u64(timestamp.bits()),
        Value::Regex(regex) => {
            let (pattern, options) = regex.parts();
            write(pattern.as_bytes(), state);
            write(options.as_bytes(), state);
        }
        Value::DbPointer(pointer) => write(pointer.as_bytes(), state),
        Value::CodeWithScope(code) => {
            let (code, scope) = code.parts();
            write(code.as_bytes(), state);
            hash_document(scope, state);
        }
        _ => {
            if let Some(number) = value.as_number() {
                hash_number(number, state);
            }
        }
    }
}

fn hash_document(document: Document<'_>, state: &mut impl Hasher) {
    for element in document {
        write(element.name.as_bytes(), state);
        hash(&element.value, state);
    }
    state.write_u8(0);
}

/// Equal numbers have the same nearest double, whatever their types, and integers the same integer.
fn hash_number(number: Number, state: &mut impl Hasher) {
    match number.to_exact_i64() {
        Some(integer) => state.write_i64(integer),
        None if number.is_nan() => state.write_u64(f64::NAN.to_bits()),
        None => state.write_u64(number.to_f64().to_bits()),
    }
}

fn write(bytes: &[u8], state: &mut impl Hasher) {
    state.write_u64(u64_of(bytes.len()));
    state.write(bytes);
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        equal(self, other)
    }
}

impl PartialEq for Document<'_> {
    fn eq(&self, other: &Self) -> bool {
        compare_documents(*self, *other) == Ordering::Equal
    }
}

impl PartialEq for Array<'_> {
    fn eq(&self, other: &Self) -> bool {
        compare_arrays(*self, *other) == Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use std::hash::DefaultHasher;

    use super::super::buf::DocumentBuf;
    use super::*;

    #[test]
    fn values_of_all_classes_are_in_order() {
        let json = r#"{"v":[{"$minKey":1},{"$undefined":true},null,{"$numberDouble":"NaN"},-1,0,1.5,"","a","a\u0000","b",
            {},{"a":1},{"a":1,"b":1},{"b":1},{"a":"x"},[],[0],[0,1],[1],
            {"$binary":{"base64":"","subType":"00"}},{"$binary":{"base64":"AA==","subType":"00"}},
            {"$binary":{"base64":"AA==","subType":"80"}},
            {"$binary":{"base64":"AAAAAAA=","subType":"00"}},{"$binary":{"base64":"AA==","subType":"02"}},
            {"$oid":"000000000000000000000000"},{"$oid":"000000000000000000000001"},false,true,
            {"$date":{"$numberLong":"-1"}},{"$date":{"$numberLong":"1"}},
            {"$timestamp":{"t":1,"i":2}},{"$timestamp":{"t":2,"i":1}},
            {"$regularExpression":{"pattern":"a","options":""}},{"$regularExpression":{"pattern":"a","options":"i"}},
            {"$dbPointer":{"$ref":"b","$id":{"$oid":"000000000000000000000000"}}},
            {"$code":"a"},{"$code":"a","$scope":{}},{"$maxKey":1}]}"#;
        let document = DocumentBuf::from_json(json).unwrap();
        let values: Vec<_> = document.view().get("v").unwrap().as_array().unwrap().values().collect();
        assert_eq!(values.len(), 39);
        for (i, a) in values.iter().enumerate() {
            for (j, b) in values.iter().enumerate() {
                assert_eq!(compare(a, b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn equal_values_of_different_types_have_equal_hashes() {
        let json = r#"{"a":[1,{"$numberDouble":"1.0"},{"$numberLong":"1"},{"$numberDecimal":"1.00"}],
            "b":[0,{"$numberDouble":"-0.0"},{"$numberDecimal":"-0E+3"}],
            "c":[0.5,{"$numberDecimal":"0.50"}], "d":["x",{"$symbol":"x"}],
            "e":[{"$numberDouble":"NaN"},{"$numberDecimal":"NaN"}],
            "f":[1e300,{"$numberDouble":"1e300"}], "g":[{"x":1},{"x":1.0}],
            "h":[{"$numberDouble":"Infinity"},{"$numberDecimal":"Infinity"}]}"#;
        let hash_of = |value: &Value<'_>| {
            let mut hasher = DefaultHasher::new();
            hash(value, &mut hasher);
            hasher.finish()
        };
        for group in DocumentBuf::from_json(json).unwrap().view() {
            let values: Vec<_> = group.value.as_array().unwrap().values().collect();
            for value in &values[1..] {
                assert!(equal(&values[0], value), "{value:?}");
                assert_eq!(hash_of(&values[0]), hash_of(value), "{value:?}");
            }
        }
    }
}
