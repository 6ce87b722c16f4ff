//! The error of a key that a unique index has already, and the documents that share a key.

use std::fmt::Write as _;

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Text, Value, ValueBuf};
use crate::catalog::index_entry::EntryParts;
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Index, Schema};
use crate::collation::{Collation, collation_key};
use crate::exec::stored::StoredDocument;
use crate::keys::{Direction, Key, TypeReader, decode_field};

/// `DuplicateKey` (11000) for an `_id`.
#[must_use]
pub fn duplicate_id(schema: &Schema, id: &Value<'_>) -> Error {
    let mut value = DocumentBuilder::new();
    match (&schema.options.collation, id) {
        (Some(collation), Value::String(text)) => {
            let key = collation.sort_key(*text);
            value.append("_id", &*collation_key(Text::from_bytes(&key)));
        }
        _ => {
            value.append("_id", *id);
        }
    }
    let collation = schema.options.collation.as_deref();
    error(schema, ID_INDEX, doc! {"_id": 1}.view(), collation, &value.finish())
}

/// `DuplicateKey` (11000) for a key of an index.
#[must_use]
pub fn duplicate_key(schema: &Schema, index: &Index, key: Key<'_>) -> Error {
    let (mut rest, mut types) = (key.fields, TypeReader::new(key.types));
    let mut value = DocumentBuilder::new();
    for field in index.spec.pattern.fields() {
        let Some((found, behind)) = decode_field(rest, field.direction(), &mut types) else { break };
        match (index.spec.pattern.collation(), found.view()) {
            (Some(_), Value::String(key)) => value.append(&field.path, &*collation_key(key)),
            (_, found) => value.append(&field.path, found),
        };
        rest = behind;
    }
    let pattern = &index.spec.pattern;
    error(schema, &index.spec.name, pattern.document(), pattern.collation(), &value.finish())
}

fn error(
    schema: &Schema,
    index: &str,
    pattern: Document<'_>,
    collation: Option<&Collation>,
    value: &DocumentBuf,
) -> Error {
    let mut shown = String::new();
    if let Some(collation) = collation {
        shown.push_str("collation: ");
        write_document(&mut shown, collation.document());
        shown.push(' ');
    }
    shown.push_str("dup key: ");
    write_document(&mut shown, value.view());
    let what = format!("E11000 duplicate key error collection: {} index: {index} {shown}", schema.namespace);
    Error::new(ErrorCode::DUPLICATE_KEY, what).with_key(pattern.as_bytes(), value.as_bytes())
}

/// Appends a document as MongoDB writes it in messages: `{ a: 1, b: "x" }`.
pub fn write_document(out: &mut String, document: Document<'_>) {
    out.push('{');
    for (index, element) in document.elements().enumerate() {
        out.push_str(if index == 0 { " " } else { ", " });
        out.push_str(&element.name.to_str_lossy());
        out.push_str(": ");
        write_value(out, &element.value);
    }
    out.push_str(if document.is_empty() { "}" } else { " }" });
}

/// Appends a value as MongoDB writes it in messages.
pub fn write_value(out: &mut String, value: &Value<'_>) {
    match value {
        Value::Double(number) if number.is_finite() => append(out, format_args!("{number:?}")),
        Value::String(text) | Value::Symbol(text) => append(out, format_args!("\"{text}\"")),
        Value::Document(document) => write_document(out, *document),
        Value::Array(array) => {
            out.push('[');
            for (index, value) in array.values().enumerate() {
                out.push_str(if index == 0 { " " } else { ", " });
                write_value(out, &value);
            }
            out.push_str(if array.is_empty() { "]" } else { " ]" });
        }
        Value::Binary(4, bytes) if bytes.len() == 16 => {
            out.push_str("UUID(\"");
            for (at, byte) in bytes.iter().enumerate() {
                out.push_str(if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" });
                append(out, format_args!("{byte:02x}"));
            }
            out.push_str("\")");
        }
        Value::Binary(subtype, bytes) => {
            append(out, format_args!("BinData({subtype}, "));
            bytes.iter().for_each(|byte| append(out, format_args!("{byte:02X}")));
            out.push(')');
        }
        Value::Undefined => out.push_str("undefined"),
        Value::ObjectId(id) => append(out, format_args!("ObjectId('{id}')")),
        Value::DateTime(millis) => append(out, format_args!("new Date({millis})")),
        Value::Regex(regex) => {
            let (pattern, options) = regex.parts();
            append(out, format_args!("/{pattern}/{options}"));
        }
        Value::Timestamp(at) => append(out, format_args!("Timestamp({}, {})", at.time, at.increment)),
        Value::Decimal128(number) => append(out, format_args!("{number}")),
        Value::MinKey => out.push_str("MinKey"),
        Value::MaxKey => out.push_str("MaxKey"),
        other => append(out, format_args!("{other}")),
    }
}

fn append(out: &mut String, arguments: std::fmt::Arguments<'_>) {
    out.write_fmt(arguments).expect("a String takes any text");
}

/// The `_id`s of documents that have the same key of an index that is not unique, a group for each such key, of up to
/// `max` groups.
///
/// # Errors
/// `DataCorruptionDetected` (374); those of the engine.
pub fn shared_keys(
    engine: &spinney::Database,
    collection: &CollectionState,
    index: &Index,
    max: usize,
) -> Result<Vec<Vec<ValueBuf>>> {
    let snapshot = engine.snapshot();
    let directions: Vec<Direction> = index.spec.pattern.directions().collect();
    let (mut shared, mut fields, mut group) = (Vec::new(), Vec::new(), Vec::new());
    let mut take = |group: &mut Vec<Vec<u8>>| -> Result<()> {
        if group.len() > 1 {
            let mut ids = Vec::with_capacity(group.len());
            for key in group.iter() {
                let document = snapshot.get(&collection.table, key)?.map(StoredDocument::new);
                ids.extend(document.and_then(|document| document.view().get("_id").map(ValueBuf::from)));
            }
            shared.push(ids);
        }
        group.clear();
        Ok(())
    };
    let mut entries = snapshot.range(&index.table, ..);
    let mut groups = 0;
    while let Some((key, value)) = entries.advance()? {
        let parts = EntryParts::of(&directions, index.spec.unique, key, value).ok_or_else(|| {
            let what = format!("index {} has an entry that is malformed", index.spec.name);
            Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, what)
        })?;
        if parts.fields != fields {
            groups += usize::from(group.len() > 1);
            take(&mut group)?;
            if groups >= max {
                return Ok(shared);
            }
            fields = parts.fields.to_vec();
        }
        group.push(parts.id.to_vec());
    }
    take(&mut group)?;
    Ok(shared)
}
