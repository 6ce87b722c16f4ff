//! The key of a JSON line: the value of one of its fields.

use anyhow::{Result, anyhow, bail};
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use spinney::base::key::KEY_BYTES_MAX;
use std::borrow::Cow;
use std::fmt;

/// The bytes of field `name` of the JSON object `line`: a string's text, or a number as it is written.
pub(super) fn of_line(line: &[u8], name: &str) -> Result<Vec<u8>> {
    let Ok(line) = std::str::from_utf8(line) else { bail!("not UTF-8 text") };
    let mut json = serde_json::Deserializer::from_str(line);
    let field = Field(name).deserialize(&mut json).and_then(|field| json.end().map(|()| field)).map_err(explain)?;
    let Some(raw) = field.map(RawValue::get) else { bail!("the object has no field `{name}`") };
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

/// Reads an object and takes one field out of it; of several with the name the last counts.
struct Field<'n>(&'n str);

impl<'de> DeserializeSeed<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Field<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == self.0 {
                found = Some(map.next_value()?);
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
