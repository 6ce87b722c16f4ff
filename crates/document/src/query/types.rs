//! Sets of types, as `$type` and `$jsonSchema` take them.

use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Kind, Value};

/// A set of types.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types {
    /// A bit a type: its byte, or 30 and 31 for the greatest and the least value.
    bits: u32,
}

/// All types.
const KINDS: [Kind; 21] = [
    Kind::Double,
    Kind::String,
    Kind::Document,
    Kind::Array,
    Kind::Binary,
    Kind::Undefined,
    Kind::ObjectId,
    Kind::Bool,
    Kind::DateTime,
    Kind::Null,
    Kind::Regex,
    Kind::DbPointer,
    Kind::Code,
    Kind::Symbol,
    Kind::CodeWithScope,
    Kind::Int32,
    Kind::Timestamp,
    Kind::Int64,
    Kind::Decimal128,
    Kind::MaxKey,
    Kind::MinKey,
];

const fn bit(kind: Kind) -> u32 {
    match kind {
        Kind::MaxKey => 1 << 30,
        Kind::MinKey => 1 << 31,
        other => 1 << other.byte(),
    }
}

impl Types {
    /// The set with one more type.
    #[must_use]
    pub const fn with(self, kind: Kind) -> Self {
        Self { bits: self.bits | bit(kind) }
    }

    /// The four types of numbers.
    #[must_use]
    pub const fn numbers() -> Self {
        Self { bits: 0 }.with(Kind::Double).with(Kind::Int32).with(Kind::Int64).with(Kind::Decimal128)
    }

    /// The types of both sets.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self { bits: self.bits | other.bits }
    }

    /// Whether a type is in the set.
    #[inline]
    #[must_use]
    pub const fn contains(self, kind: Kind) -> bool {
        self.bits & bit(kind) != 0
    }

    /// Whether there are no types.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// The types in the set.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        KINDS.into_iter().filter(move |kind| self.contains(*kind))
    }

    /// The set of a type's name, such as `int` or `number`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        if name == "number" {
            return Some(Self::numbers());
        }
        KINDS.into_iter().find(|kind| kind.name() == name).map(|kind| Self::default().with(kind))
    }

    /// The set that one operand of `$type` is: a name or a number.
    ///
    /// # Errors
    /// `TypeMismatch` (14) for another operand, `BadValue` (2) for a name or number without a type.
    pub fn parse_one(operand: &Value<'_>) -> Result<Self> {
        match operand {
            Value::String(name) => {
                let named = name.as_str().and_then(Self::named);
                named.ok_or_else(|| Error::bad_value(format!("Unknown type name alias: {name}")))
            }
            operand if operand.as_number().is_some() => {
                let number = operand.as_exact_i64();
                let kind = KINDS.into_iter().find(|kind| number == Some(i64::from(kind.number())));
                let found = kind.map(|kind| Self::default().with(kind));
                found.ok_or_else(|| Error::bad_value(format!("Invalid numerical type code: {}", operand.to_json())))
            }
            _ => Err(Error::new(ErrorCode::TYPE_MISMATCH, "type must be represented as a number or a string")),
        }
    }

    /// The set that the operand of `$type` is: a name, a number, or an array of these.
    ///
    /// # Errors
    /// As [`Self::parse_one`], and `FailedToParse` (9) for an empty array.
    pub fn parse(operand: &Value<'_>) -> Result<Self> {
        let Value::Array(array) = operand else { return Self::parse_one(operand) };
        if array.is_empty() {
            return Err(Error::new(ErrorCode::FAILED_TO_PARSE, "a must match at least one type"));
        }
        array.values().try_fold(Self::default(), |set, operand| Ok(set.union(Self::parse_one(&operand)?)))
    }
}
