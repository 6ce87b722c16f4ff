//! Serde for the types of BSON that Rust has none of.
//!
//! Within this crate's conversions they pass as they are: as a newtype with a name that the serializer knows, of the
//! type's byte and the value's bytes. Other formats that people read get text: digits of ids, extended JSON.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde::de::{Error as _, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smallvec::SmallVec;

use super::super::buf::{DocumentBuf, ValueBuf};
use super::super::decimal::Decimal128;
use super::super::kind::Kind;
use super::super::object_id::ObjectId;
use super::super::view::{Timestamp, Value};

/// The name of the newtype that passes a value as it is.
pub(super) const AS_IS: &str = "$spinney_document::bson::Value";

/// A date: milliseconds since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime(i64);

impl DateTime {
    /// The date of milliseconds since 1970.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// The milliseconds since 1970.
    #[must_use]
    pub const fn millis(self) -> i64 {
        self.0
    }
}

impl From<SystemTime> for DateTime {
    fn from(time: SystemTime) -> Self {
        let whole = |duration: Duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX);
        match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(after) => Self(whole(after)),
            Err(before) => Self(-whole(before.duration())),
        }
    }
}

impl From<DateTime> for Value<'_> {
    fn from(date: DateTime) -> Self {
        Self::DateTime(date.0)
    }
}

/// A value as its type's byte and its bytes.
pub(super) fn to_bytes(value: Value<'_>) -> Vec<u8> {
    let value = ValueBuf::from(value);
    let mut bytes = Vec::with_capacity(value.payload().len() + 1);
    bytes.push(value.kind().byte());
    bytes.extend_from_slice(value.payload());
    bytes
}

/// The value that [`to_bytes`] wrote.
pub(super) fn from_bytes(bytes: &[u8]) -> Option<ValueBuf> {
    let (kind, payload) = bytes.split_first()?;
    Some(ValueBuf::from_parts(Kind::from_byte(*kind)?, SmallVec::from_slice(payload)))
}

/// A value as its type's byte and its bytes, or as text.
struct Parts<'v>(Value<'v>);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if serializer.is_human_readable() {
            return match &self.0 {
                Value::ObjectId(id) => serializer.collect_str(id),
                Value::Decimal128(number) => serializer.collect_str(number),
                other => serializer.serialize_str(&other.to_json()),
            };
        }
        serializer.serialize_bytes(&to_bytes(self.0))
    }
}

fn pass<S: Serializer>(value: Value<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_newtype_struct(AS_IS, &Parts(value))
}

/// Takes a value as it is, from its bytes; from other formats, a string.
struct Take;

impl<'de> Visitor<'de> for Take {
    type Value = ValueBuf;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of BSON")
    }

    fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> Result<ValueBuf, E> {
        from_bytes(bytes).ok_or_else(|| E::custom("no bytes of a value"))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ValueBuf, E> {
        Ok(Value::from(text).into())
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<ValueBuf, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn take<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ValueBuf, D::Error> {
    deserializer.deserialize_newtype_struct(AS_IS, Take)
}

fn wrong<E: serde::de::Error>(expected: &str, found: &ValueBuf) -> E {
    E::custom(format!("expected {expected}, found {}", found.kind().name()))
}

impl Serialize for ValueBuf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(self.view(), serializer)
    }
}

impl<'de> Deserialize<'de> for ValueBuf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        take(deserializer)
    }
}

impl Serialize for DocumentBuf {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(Value::Document(self.view()), serializer)
    }
}

impl<'de> Deserialize<'de> for DocumentBuf {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = take(deserializer)?;
        match value.view() {
            Value::Document(document) => Ok(document.into()),
            _ => Err(wrong("a document", &value)),
        }
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(Value::ObjectId(*self), serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = take(deserializer)?;
        match value.view() {
            Value::ObjectId(id) => Ok(id),
            Value::String(text) => text.to_str_lossy().parse().map_err(D::Error::custom),
            _ => Err(wrong("an ObjectId", &value)),
        }
    }
}

impl Serialize for Decimal128 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(Value::Decimal128(*self), serializer)
    }
}

impl<'de> Deserialize<'de> for Decimal128 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = take(deserializer)?;
        match value.view() {
            Value::Decimal128(number) => Ok(number),
            Value::Int32(number) => number.to_string().parse().map_err(D::Error::custom),
            Value::Int64(number) => number.to_string().parse().map_err(D::Error::custom),
            Value::Double(number) => Ok(Self::from_f64(number)),
            Value::String(text) => text.to_str_lossy().parse().map_err(D::Error::custom),
            _ => Err(wrong("a decimal number", &value)),
        }
    }
}

impl Serialize for DateTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(Value::DateTime(self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for DateTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = take(deserializer)?;
        match value.view() {
            Value::DateTime(millis) => Ok(Self(millis)),
            _ => Err(wrong("a date", &value)),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        pass(Value::Timestamp(*self), serializer)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = take(deserializer)?;
        match value.view() {
            Value::Timestamp(timestamp) => Ok(timestamp),
            _ => Err(wrong("a timestamp", &value)),
        }
    }
}
