//! The fields of a row that are its key and its value: how arguments name them, and finding them in JSON.

use crate::escape::escape;
use anyhow::{Result, anyhow, bail};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use spinney::base::key::KEY_BYTES_MAX;
use std::borrow::Cow;
use std::fmt;

/// A field: the names on the way to it through nested objects, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    names: Vec<String>,
    /// As it is written in messages, and as the column of a file without nested objects is called.
    pub(super) text: String,
}

/// The fields of a key, at least one.
pub(crate) type KeyFields = Box<[Path]>;

/// Reads a path such as `a.b`.
pub(super) fn parse_path(text: &str) -> Result<Path, String> {
    match split(text, b',')?.as_slice() {
        [one] => path(one),
        _ => Err("it is one field; a comma in its name is \\,".to_owned()),
    }
}

/// Reads the fields of a key such as `a.b,c`.
pub(super) fn parse_key(text: &str) -> Result<KeyFields, String> {
    split(text, b',')?.iter().map(|field| path(field)).collect()
}

/// Reads the names of columns such as `a,b`.
pub(super) fn parse_columns(text: &str) -> Result<Box<[String]>, String> {
    split(text, b',')?.iter().map(|name| Ok(path(name)?.text)).collect()
}

fn path(text: &str) -> Result<Path, String> {
    let names: Vec<String> = split(text, b'.')?.into_iter().map(plain).collect();
    if names.iter().any(String::is_empty) {
        return Err(format!("`{text}` has an empty name"));
    }
    let text = names.join(".");
    Ok(Path { names, text })
}

/// A name without the backslashes before its characters.
fn plain(name: &str) -> String {
    let mut chars = name.chars();
    let next =
        |chars: &mut std::str::Chars<'_>| chars.next().and_then(|c| if c == '\\' { chars.next() } else { Some(c) });
    std::iter::from_fn(|| next(&mut chars)).collect()
}

/// Splits at a separator, but not behind a backslash.
fn split(text: &str, separator: u8) -> Result<Vec<&str>, String> {
    let (mut parts, mut from, mut bytes) = (Vec::new(), 0, text.bytes().enumerate());
    while let Some((at, byte)) = bytes.next() {
        if byte == b'\\' && !matches!(bytes.next(), Some((_, b'.' | b',' | b'\\'))) {
            return Err(format!("`{text}` has a backslash that is not before a dot, a comma or a backslash"));
        }
        if byte == separator {
            parts.push(&text[from..at]);
            from = at + 1;
        }
    }
    parts.push(&text[from..]);
    Ok(parts)
}

/// Makes a key of its fields' values. `key` has it afterwards.
pub(super) fn join(
    fields: &[Path],
    separator: &[u8],
    values: impl Iterator<Item = Result<impl AsRef<[u8]>>>,
    key: &mut Vec<u8>,
) -> Result<()> {
    key.clear();
    for (at, (field, value)) in fields.iter().zip(values).enumerate() {
        let value = value?;
        let (value, is_last) = (value.as_ref(), at + 1 == fields.len());
        if !is_last && !separator.is_empty() && value.windows(separator.len()).any(|part| part == separator) {
            bail!("the field `{}` contains the separator `{}`", field.text, escape(separator));
        }
        if at > 0 {
            key.extend_from_slice(separator);
        }
        key.extend_from_slice(value);
    }
    let (what, has) = match fields {
        [one] => (format!("the field `{}`", one.text), "has"),
        _ => ("the fields of the key".to_owned(), "have"),
    };
    match key.len() {
        0 => bail!("{what} {} empty, and a key is not", if has == "has" { "is" } else { "are" }),
        len if len > KEY_BYTES_MAX => bail!("{what} {has} {len} bytes, and a key at most {KEY_BYTES_MAX}"),
        _ => Ok(()),
    }
}

/// The fields of the JSON object in a line, each as it is written there; none for those that it has not.
pub(super) fn of_json<'l>(line: &'l [u8], fields: &[&Path]) -> Result<Vec<Option<&'l str>>> {
    let Ok(line) = std::str::from_utf8(line) else { bail!("not UTF-8 text") };
    let names: Vec<&str> = fields.iter().map(|field| &*field.names[0]).collect();
    let mut found = members(line, &names)?;
    for (field, found) in fields.iter().zip(&mut found) {
        for (depth, name) in field.names.iter().enumerate().skip(1) {
            let Some(raw) = found.take() else { break };
            if !raw.starts_with('{') {
                bail!("the field `{}` is not an object", field.names[..depth].join("."));
            }
            *found = members(raw, &[name])?.pop().flatten();
        }
    }
    Ok(found)
}

/// The text of a JSON string, or a number as it is written, as a part of a key.
pub(super) fn key_text<'l>(raw: Option<&'l str>, field: &Path) -> Result<Cow<'l, [u8]>> {
    let raw = raw.ok_or_else(|| missing(field))?;
    match raw.as_bytes().first() {
        Some(b'"') => Ok(Cow::Owned(serde_json::from_str::<String>(raw).map_err(explain)?.into_bytes())),
        Some(b'-' | b'0'..=b'9') => Ok(Cow::Borrowed(raw.as_bytes())),
        _ => bail!("the field `{}` is neither a string nor a number", field.text),
    }
}

/// The text of a JSON string, or what else there is as it is written, as a value.
pub(super) fn value_text<'l>(raw: Option<&'l str>, field: &Path) -> Result<Cow<'l, str>> {
    let raw = raw.ok_or_else(|| missing(field))?;
    if raw.starts_with('"') {
        Ok(Cow::Owned(serde_json::from_str(raw).map_err(explain)?))
    } else {
        Ok(Cow::Borrowed(raw))
    }
}

fn missing(field: &Path) -> anyhow::Error {
    anyhow!("the object has no field `{}`", field.text)
}

/// Members of a JSON object, each as it is written.
fn members<'l>(object: &'l str, names: &[&str]) -> Result<Vec<Option<&'l str>>> {
    let mut json = serde_json::Deserializer::from_str(object);
    let found = Members(names).deserialize(&mut json).and_then(|found| json.end().map(|()| found)).map_err(explain)?;
    Ok(found.into_iter().map(|raw| raw.map(RawValue::get)).collect())
}

/// What is wrong with a line; it is the only line that the parser sees, so the parser's line number says nothing.
fn explain(error: serde_json::Error) -> anyhow::Error {
    if error.is_data() {
        return anyhow!("not a JSON object");
    }
    let words = error.to_string();
    anyhow!("not valid JSON: {}", words.replace(" at line 1 column ", " at column "))
}

/// Reads an object and takes some members out of it; of several with a name the last counts.
struct Members<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Members<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = vec![None; self.0.len()];
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if self.0.contains(&&*name) {
                let value: &RawValue = map.next_value()?;
                let same = found.iter_mut().zip(self.0).filter(|(_, wanted)| **wanted == name);
                same.for_each(|(found, _)| *found = Some(value));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of a line.
    fn key_of(line: &[u8], fields: &str) -> Result<String, String> {
        let fields = parse_key(fields).unwrap();
        let mut key = Vec::new();
        let made = of_json(line, &fields.iter().collect::<Vec<_>>()).and_then(|found| {
            let texts = fields.iter().zip(found).map(|(field, raw)| key_text(raw, field));
            join(&fields, b"/", texts, &mut key)
        });
        made.map(|()| String::from_utf8(key).unwrap()).map_err(|error| error.to_string())
    }

    fn key(line: &str) -> Result<String, String> {
        key_of(line.as_bytes(), "id")
    }

    #[test]
    fn a_string_is_its_text_and_a_number_as_it_is_written() {
        assert_eq!(key(r#"{"a": [1, {"id": 2}], "id": "x\ty\u00e9"}"#).unwrap(), "x\tyé");
        assert_eq!(key(r#"{"id":17}"#).unwrap(), "17");
        assert_eq!(key(r#"{"id": -1.50e3 }"#).unwrap(), "-1.50e3");
        assert_eq!(key(r#"{"\u0069d": "escaped name"}"#).unwrap(), "escaped name");
        assert_eq!(key(r#"{"id": 1, "id": 2}"#).unwrap(), "2");
    }

    #[test]
    fn fields_of_nested_objects_and_keys_of_several() {
        let line = br#"{"a": {"b": {"c": "deep"}, "d": 7}, "a.b": "dotted", "e": "x/y", "c,d\\": 1, "n": null}"#;
        let key = |fields: &str| key_of(line, fields);
        assert_eq!(key("a.b.c").unwrap(), "deep");
        assert_eq!(key("a.d,a.b.c,e").unwrap(), "7/deep/x/y");
        assert_eq!(key("a\\.b,a.d").unwrap(), "dotted/7");
        assert_eq!(key("c\\,d\\\\").unwrap(), "1");
        assert_eq!(key("e,a.d").unwrap_err(), "the field `e` contains the separator `/`");
        assert_eq!(key("a.x").unwrap_err(), "the object has no field `a.x`");
        assert_eq!(key("x.y").unwrap_err(), "the object has no field `x.y`");
        assert_eq!(key("a.d.e").unwrap_err(), "the field `a.d` is not an object");
        assert_eq!(key("a.b").unwrap_err(), "the field `a.b` is neither a string nor a number");
        assert_eq!(key("n.x").unwrap_err(), "the field `n` is not an object");
        assert_eq!(key_of(br#"{"a": "", "b": ""}"#, "a,b").unwrap(), "/");
    }

    #[test]
    fn a_path_that_names_nothing_is_refused() {
        for text in ["", ".", "a.", "a,,b", ",a"] {
            assert!(parse_key(text).unwrap_err().contains("empty name"), "{text}");
        }
        assert!(parse_key("a\\b").unwrap_err().contains("backslash"));
        assert!(parse_key("a\\").unwrap_err().contains("backslash"));
        assert!(parse_path("a,b").unwrap_err().contains("one field"));
        assert_eq!(*parse_columns("a.b,c\\,d").unwrap(), ["a.b".to_owned(), "c,d".to_owned()]);
    }

    #[test]
    fn a_value_is_the_text_of_a_string_or_what_is_written() {
        let value = |line: &str| {
            let field = parse_path("v").unwrap();
            let raw = of_json(line.as_bytes(), &[&field])?.pop().flatten();
            value_text(raw, &field).map(|text| text.into_owned())
        };
        assert_eq!(value(r#"{"v": "x\ty", "id": 1}"#).unwrap(), "x\ty");
        assert_eq!(value(r#"{"id": 1, "v": -1.50e3}"#).unwrap(), "-1.50e3");
        assert_eq!(value(r#"{"id": 1, "v": [1, {"v": 2}]}"#).unwrap(), r#"[1, {"v": 2}]"#);
        assert_eq!(value(r#"{"id": 1}"#).unwrap_err().to_string(), "the object has no field `v`");
    }

    #[test]
    fn a_line_that_is_no_object_says_so() {
        for line in ["17", "[1]", "\"id\"", "null"] {
            assert_eq!(key(line).unwrap_err(), "not a JSON object", "{line}");
        }
    }

    #[test]
    fn a_line_that_is_no_json_says_where() {
        assert!(key(r#"{"id": 1"#).unwrap_err().starts_with("not valid JSON: EOF"));
        assert_eq!(key(r#"{"id": 1} x"#).unwrap_err(), "not valid JSON: trailing characters at column 11");
        assert!(key(r#"{"id": 01}"#).unwrap_err().starts_with("not valid JSON"));
        assert_eq!(key_of(b"{\"id\": \"\xff\"}", "id").unwrap_err(), "not UTF-8 text");
    }

    #[test]
    fn a_field_that_is_no_key_says_why() {
        assert_eq!(key("{}").unwrap_err(), "the object has no field `id`");
        for value in ["null", "true", "[]", "{}"] {
            let error = key(&format!("{{\"id\": {value}}}")).unwrap_err();
            assert_eq!(error, "the field `id` is neither a string nor a number");
        }
        assert!(key(r#"{"id": ""}"#).unwrap_err().contains("empty"));
        let longest = "k".repeat(KEY_BYTES_MAX);
        assert_eq!(key(&format!("{{\"id\": \"{longest}\"}}")).unwrap(), longest);
        assert!(key(&format!("{{\"id\": \"{longest}k\"}}")).unwrap_err().contains("65537 bytes"));
    }
}
