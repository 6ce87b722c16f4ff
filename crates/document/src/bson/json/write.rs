//! Writing documents and values as extended JSON.

use std::fmt::{self, Write};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::date;
use super::super::text::Text;
use super::super::view::{Array, Document, Value};

/// The first millisecond of the year 10,000, up to which the relaxed form writes dates as ISO 8601.
const YEAR_10000_MS: i64 = 253_402_300_800_000;

impl Document<'_> {
    /// The document as relaxed extended JSON without white space.
    #[must_use]
    pub fn to_json(self) -> String {
        Value::Document(self).to_json()
    }

    /// The document as canonical extended JSON, which keeps every type, without white space.
    #[must_use]
    pub fn to_canonical_json(self) -> String {
        Value::Document(self).to_canonical_json()
    }
}

impl Value<'_> {
    /// The value as relaxed extended JSON without white space.
    #[must_use]
    pub fn to_json(&self) -> String {
        text_of(self, false)
    }

    /// The value as canonical extended JSON, which keeps every type, without white space.
    #[must_use]
    pub fn to_canonical_json(&self) -> String {
        text_of(self, true)
    }
}

impl fmt::Display for Document<'_> {
    /// Relaxed extended JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, &Value::Document(*self), false)
    }
}

impl fmt::Debug for Document<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, &Value::Document(*self), true)
    }
}

impl fmt::Debug for Array<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, &Value::Array(*self), true)
    }
}

impl fmt::Display for Value<'_> {
    /// Relaxed extended JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write(f, self, false)
    }
}

fn text_of(value: &Value<'_>, canonical: bool) -> String {
    let mut text = String::new();
    write(&mut text, value, canonical).expect("a String takes any text");
    text
}

fn write(out: &mut impl Write, value: &Value<'_>, canonical: bool) -> fmt::Result {
    match value {
        Value::Double(number) => double(out, *number, canonical),
        Value::String(text) => string(out, *text),
        Value::Document(document) => members(out, *document, canonical),
        Value::Array(array) => {
            out.write_char('[')?;
            for (index, value) in array.values().enumerate() {
                if index > 0 {
                    out.write_char(',')?;
                }
                write(out, &value, canonical)?;
            }
            out.write_char(']')
        }
        Value::Binary(subtype, bytes) => {
            write!(out, r#"{{"$binary":{{"base64":"{}","subType":"{subtype:02x}"}}}}"#, STANDARD.encode(bytes))
        }
        Value::Undefined => out.write_str(r#"{"$undefined":true}"#),
        Value::ObjectId(id) => write!(out, r#"{{"$oid":"{id}"}}"#),
        Value::Bool(is) => write!(out, "{is}"),
        Value::DateTime(millis) if !canonical && (0..YEAR_10000_MS).contains(millis) => {
            write!(out, r#"{{"$date":"{}"}}"#, date::to_iso(*millis))
        }
        Value::DateTime(millis) => write!(out, r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#),
        Value::Null => out.write_str("null"),
        Value::Regex(regex) => {
            let (pattern, options) = regex.parts();
            let mut sorted = options.as_bytes().to_vec();
            sorted.sort_unstable();
            out.write_str(r#"{"$regularExpression":{"pattern":"#)?;
            string(out, pattern)?;
            out.write_str(r#","options":"#)?;
            string(out, Text::from_bytes(&sorted))?;
            out.write_str("}}")
        }
        Value::DbPointer(pointer) => {
            let (namespace, id) = pointer.parts();
            out.write_str(r#"{"$dbPointer":{"$ref":"#)?;
            string(out, namespace)?;
            write!(out, r#","$id":{{"$oid":"{id}"}}}}}}"#)
        }
        Value::Code(code) => wrapped_string(out, "$code", *code),
        Value::Symbol(text) => wrapped_string(out, "$symbol", *text),
        Value::CodeWithScope(code) => {
            let (code, scope) = code.parts();
            out.write_str(r#"{"$code":"#)?;
            string(out, code)?;
            out.write_str(r#","$scope":"#)?;
            members(out, scope, canonical)?;
            out.write_char('}')
        }
        Value::Int32(number) if canonical => write!(out, r#"{{"$numberInt":"{number}"}}"#),
        Value::Int32(number) => write!(out, "{number}"),
        Value::Timestamp(at) => write!(out, r#"{{"$timestamp":{{"t":{},"i":{}}}}}"#, at.time, at.increment),
        Value::Int64(number) if canonical => write!(out, r#"{{"$numberLong":"{number}"}}"#),
        Value::Int64(number) => write!(out, "{number}"),
        Value::Decimal128(number) => write!(out, r#"{{"$numberDecimal":"{number}"}}"#),
        Value::MaxKey => out.write_str(r#"{"$maxKey":1}"#),
        Value::MinKey => out.write_str(r#"{"$minKey":1}"#),
    }
}

fn members(out: &mut impl Write, document: Document<'_>, canonical: bool) -> fmt::Result {
    out.write_char('{')?;
    for (index, element) in document.elements().enumerate() {
        if index > 0 {
            out.write_char(',')?;
        }
        string(out, element.name)?;
        out.write_char(':')?;
        write(out, &element.value, canonical)?;
    }
    out.write_char('}')
}

fn double(out: &mut impl Write, number: f64, canonical: bool) -> fmt::Result {
    let text = match number {
        _ if number.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "Infinity".to_owned(),
        f64::NEG_INFINITY => "-Infinity".to_owned(),
        // The shortest digits that read back as the number.
        _ => match format!("{number:?}").split_once('e') {
            None => format!("{number:?}"),
            Some((digits, exponent)) => {
                let sign = if exponent.starts_with('-') { "" } else { "+" };
                format!("{digits}E{sign}{exponent}")
            }
        },
    };
    if canonical || !number.is_finite() { write!(out, r#"{{"$numberDouble":"{text}"}}"#) } else { out.write_str(&text) }
}

fn wrapped_string(out: &mut impl Write, key: &str, text: Text<'_>) -> fmt::Result {
    write!(out, r#"{{"{key}":"#)?;
    string(out, text)?;
    out.write_char('}')
}

fn string(out: &mut impl Write, text: Text<'_>) -> fmt::Result {
    out.write_char('"')?;
    let text = text.to_str_lossy();
    let mut rest = &*text;
    while let Some(at) = rest.find(|c: char| c < ' ' || matches!(c, '"' | '\\')) {
        out.write_str(&rest[..at])?;
        match rest.as_bytes()[at] {
            byte @ (b'"' | b'\\') => write!(out, "\\{}", char::from(byte))?,
            b'\n' => out.write_str("\\n")?,
            b'\r' => out.write_str("\\r")?,
            b'\t' => out.write_str("\\t")?,
            byte => write!(out, "\\u{byte:04x}")?,
        }
        rest = &rest[at + 1..];
    }
    out.write_str(rest)?;
    out.write_char('"')
}
