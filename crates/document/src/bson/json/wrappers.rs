//! The objects of extended JSON that stand for values of types that JSON lacks, such as `{"$oid": "…"}`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use smallvec::SmallVec;

use super::super::buf::{DocumentBuf, ValueBuf, append_payload};
use super::super::date;
use super::super::decimal::Decimal128;
use super::super::kind::Kind;
use super::super::object_id::ObjectId;
use super::super::text::Text;
use super::super::view::{Document, Timestamp, Value};

/// Whether an object that begins with this key stands for a value.
pub(super) fn is_wrapper(key: &str) -> bool {
    matches!(
        key,
        "$oid"
            | "$symbol"
            | "$numberInt"
            | "$numberLong"
            | "$numberDouble"
            | "$numberDecimal"
            | "$binary"
            | "$uuid"
            | "$code"
            | "$scope"
            | "$timestamp"
            | "$regularExpression"
            | "$dbPointer"
            | "$date"
            | "$minKey"
            | "$maxKey"
            | "$undefined"
    )
}

/// The value that an object stands for, whose members are read already; nothing when it is malformed.
pub(super) fn unwrap(object: Document<'_>) -> Option<ValueBuf> {
    let mut members = object.elements();
    let first = members.next()?;
    let second = members.next();
    if members.next().is_some() {
        return None;
    }
    let key = first.name.as_str()?;
    if key == "$code" || key == "$scope" {
        return unwrap_code(object, second.is_some());
    }
    if second.is_some() {
        return None;
    }
    let text = || match first.value {
        Value::String(text) => text.as_str(),
        _ => None,
    };
    let simple = |value: Value<'_>| Some(ValueBuf::from(value));
    match key {
        "$oid" => simple(Value::ObjectId(text()?.parse::<ObjectId>().ok()?)),
        "$symbol" => simple(Value::Symbol(Text::from(text()?))),
        "$numberInt" => simple(Value::Int32(text()?.parse().ok()?)),
        "$numberLong" => simple(Value::Int64(text()?.parse().ok()?)),
        "$numberDouble" => simple(Value::Double(double(text()?)?)),
        "$numberDecimal" => simple(Value::Decimal128(text()?.parse::<Decimal128>().ok()?)),
        "$binary" => {
            let [bytes, subtype] = exactly(first.value.as_document()?, ["base64", "subType"])?;
            let subtype = subtype.as_str().filter(|text| matches!(text.len(), 1 | 2))?;
            let bytes = STANDARD.decode(string(bytes)?).ok()?;
            simple(Value::Binary(u8::from_str_radix(subtype, 16).ok()?, &bytes))
        }
        "$uuid" => simple(Value::Binary(4, &uuid(text()?)?)),
        "$timestamp" => {
            let [time, increment] = exactly(first.value.as_document()?, ["t", "i"])?;
            let part = |value: Value<'_>| u32::try_from(value.as_exact_i64()?).ok();
            simple(Value::Timestamp(Timestamp { time: part(time)?, increment: part(increment)? }))
        }
        "$regularExpression" => {
            let [pattern, options] = exactly(first.value.as_document()?, ["pattern", "options"])?;
            let (pattern, options) = (string(pattern)?, string(options)?);
            let zero = pattern.contains('\0') || options.contains('\0');
            (!zero).then(|| ValueBuf::regex(pattern, options))
        }
        "$dbPointer" => {
            let [namespace, id] = exactly(first.value.as_document()?, ["$ref", "$id"])?;
            let (Value::String(namespace), Value::ObjectId(id)) = (namespace, id) else { return None };
            let mut bytes = SmallVec::new();
            append_payload(&mut bytes, Value::String(namespace));
            bytes.extend_from_slice(&id.bytes());
            Some(ValueBuf::from_parts(Kind::DbPointer, bytes))
        }
        "$date" => match first.value {
            Value::Int64(millis) => simple(Value::DateTime(millis)),
            Value::String(text) => simple(Value::DateTime(date::from_iso(text.as_str()?)?)),
            _ => None,
        },
        "$minKey" if matches!(first.value, Value::Int32(1)) => simple(Value::MinKey),
        "$maxKey" if matches!(first.value, Value::Int32(1)) => simple(Value::MaxKey),
        "$undefined" if matches!(first.value, Value::Bool(true)) => simple(Value::Undefined),
        _ => None,
    }
}

fn unwrap_code(object: Document<'_>, two: bool) -> Option<ValueBuf> {
    let Value::String(code) = object.get("$code")? else { return None };
    if !two {
        return Some(ValueBuf::from(Value::Code(code)));
    }
    let scope = DocumentBuf::from(object.get("$scope")?.as_document()?);
    let mut bytes: SmallVec<[u8; 16]> = SmallVec::from_slice(&[0; 4]);
    append_payload(&mut bytes, Value::String(code));
    bytes.extend_from_slice(scope.as_bytes());
    let len = u32::try_from(bytes.len()).ok()?.to_le_bytes();
    bytes[..4].copy_from_slice(&len);
    Some(ValueBuf::from_parts(Kind::CodeWithScope, bytes))
}

/// The values of exactly these members, which may come in any order.
fn exactly<'a>(object: Document<'a>, names: [&str; 2]) -> Option<[Value<'a>; 2]> {
    (object.elements().count() == 2).then_some(())?;
    Some([object.get(names[0])?, object.get(names[1])?])
}

fn string(value: Value<'_>) -> Option<&str> {
    match value {
        Value::String(text) => text.as_str(),
        _ => None,
    }
}

fn double(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" => Some(f64::INFINITY),
        "-Infinity" => Some(f64::NEG_INFINITY),
        // The standard library reads more words.
        _ if text.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.eq_ignore_ascii_case(&b'e')) => None,
        _ => text.parse().ok(),
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens = [8, 13, 18, 23];
    let right = text.len() == 36 && text.bytes().enumerate().all(|(at, byte)| (byte == b'-') == hyphens.contains(&at));
    let digits = text.replace('-', "");
    if !right || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    Some(u128::from_str_radix(&digits, 16).ok()?.to_be_bytes())
}
