//! The key and the value of a JSON line: fields of it.

use anyhow::{Result, anyhow, bail};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use spinney::base::key::KEY_BYTES_MAX;
use std::borrow::Cow;
use std::fmt;

/// The key and the value of a line.
pub(super) fn row(line: &[u8], key: &str, value: Option<&str>) -> Result<(Vec<u8>, Option<String>)> {
    let Some(value) = value else { return Ok((of_line(line, key)?, None)) };
    let [raw_key, raw_value] = fields(line, [key, value])?;
    let Some(raw) = raw_value else { bail!("the object has no field `{value}`") };
    let text = if raw.starts_with('"') { serde_json::from_str(raw).map_err(explain)? } else { raw.to_owned() };
    Ok((key_of(raw_key, key)?, Some(text)))
}

/// The bytes of field `name` of the JSON object `line`: a string's text, or a number as it is written.
pub(super) fn of_line(line: &[u8], name: &str) -> Result<Vec<u8>> {
    let [raw] = fields(line, [name])?;
    key_of(raw, name)
}

/// The fields of a JSON object, each as it is written.
fn fields<'l, const N: usize>(line: &'l [u8], names: [&str; N]) -> Result<[Option<&'l str>; N]> {
    let Ok(line) = std::str::from_utf8(line) else { bail!("not UTF-8 text") };
    let mut json = serde_json::Deserializer::from_str(line);
    let found = Fields(names).deserialize(&mut json).and_then(|found| json.end().map(|()| found)).map_err(explain)?;
    Ok(found.map(|raw| raw.map(RawValue::get)))
}

fn key_of(raw: Option<&str>, name: &str) -> Result<Vec<u8>> {
    let Some(raw) = raw else { bail!("the object has no field `{name}`") };
    let key = match raw.as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw).map_err(explain)?,
        Some(b'-' | b'0'..=b'9') => raw.to_owned(),
        _ => bail!("the field `{name}` is neither a string nor a number"),
    };
    match key.len() {
        0 => bail!("the field `{name}` is empty, and a key is not"),
        len if len > KEY_BYTES_MAX => bail!("the field `{name}` has {len} bytes, and a key at most {KEY_BYTES_MAX}"),
        _ => Ok(key.into_bytes()),
    }
}

/// What is wrong with a line; it is the only line that the parser sees, so the parser's line number says nothing.
fn explain(error: serde_json::Error) -> anyhow::Error {
    if error.is_data() {
        return anyhow!("not a JSON object");
    }
    let words = error.to_string();
    anyhow!("not valid JSON: {}", words.replace(" at line 1 column ", " at column "))
}

/// Reads an object and takes some fields out of it; of several with a name the last counts.
struct Fields<'n, const N: usize>([&'n str; N]);

impl<'de, const N: usize> DeserializeSeed<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, const N: usize> Visitor<'de> for Fields<'_, N> {
    type Value = [Option<&'de RawValue>; N];

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = [None; N];
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if self.0.contains(&&*name) {
                let value: &RawValue = map.next_value()?;
                let same = found.iter_mut().zip(self.0).filter(|(_, wanted)| *wanted == name);
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

    fn key(line: &str) -> Result<String, String> {
        of_line(line.as_bytes(), "id").map(|key| String::from_utf8(key).unwrap()).map_err(|error| error.to_string())
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
    fn a_value_is_the_text_of_a_string_or_what_is_written() {
        let value = |line: &str| row(line.as_bytes(), "id", Some("v")).map(|(_, value)| value.unwrap());
        assert_eq!(value(r#"{"v": "x\ty", "id": 1}"#).unwrap(), "x\ty");
        assert_eq!(value(r#"{"id": 1, "v": -1.50e3}"#).unwrap(), "-1.50e3");
        assert_eq!(value(r#"{"id": 1, "v": [1, {"v": 2}]}"#).unwrap(), r#"[1, {"v": 2}]"#);
        assert_eq!(value(r#"{"id": 1}"#).unwrap_err().to_string(), "the object has no field `v`");
        assert_eq!(row(br#"{"id": "k"}"#, "id", Some("id")).unwrap(), (b"k".to_vec(), Some("k".to_owned())));
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
        assert_eq!(of_line(b"{\"id\": \"\xff\"}", "id").unwrap_err().to_string(), "not UTF-8 text");
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
