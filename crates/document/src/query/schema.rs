//! `$jsonSchema`: rules of JSON Schema, draft 4, with `bsonType` for the types of BSON.

use super::repeated::{hash_unordered, repeated};
use super::types::Types;
use crate::base::Result;
use crate::bson::number::{self, Number};
use crate::bson::{Array, Document, Kind, Value, ValueBuf, compare, equal};
use crate::pattern::Pattern;

/// A compiled schema: all of its rules must hold. A rule about one type holds for values of other types.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    pub(super) rules: Vec<Rule>,
}

/// One rule of a schema.
#[derive(Clone, Debug)]
pub(super) enum Rule {
    Types(Types),
    Enum(Vec<ValueBuf>),
    Maximum { value: ValueBuf, exclusive: bool },
    Minimum { value: ValueBuf, exclusive: bool },
    MultipleOf(ValueBuf),
    MaxLength(usize),
    MinLength(usize),
    Pattern(Pattern),
    MaxItems(usize),
    MinItems(usize),
    UniqueItems,
    Items { first: Vec<Schema>, rest: Others },
    MaxProperties(usize),
    MinProperties(usize),
    Required(Vec<String>),
    Properties { named: Vec<(String, Schema)>, patterns: Vec<(Pattern, Schema)>, others: Others },
    Dependencies(Vec<(String, Dependency)>),
    AllOf(Vec<Schema>),
    AnyOf(Vec<Schema>),
    OneOf(Vec<Schema>),
    Not(Box<Schema>),
}

/// What holds for values that no other rule names.
#[derive(Clone, Debug, Default)]
pub(super) enum Others {
    #[default]
    Allowed,
    Forbidden,
    Valid(Box<Schema>),
}

/// What the presence of a field demands.
#[derive(Clone, Debug)]
pub(super) enum Dependency {
    Fields(Vec<String>),
    Valid(Box<Schema>),
}

impl Schema {
    /// Whether a document is valid.
    ///
    /// # Errors
    /// Those of a regular expression that exceeds its limit.
    pub fn matches(&self, document: Document<'_>) -> Result<bool> {
        self.accepts(&Value::Document(document))
    }

    /// Whether a value is valid.
    pub(super) fn accepts(&self, value: &Value<'_>) -> Result<bool> {
        for rule in &self.rules {
            if !rule.accepts(value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Others {
    fn accepts(&self, value: &Value<'_>) -> Result<bool> {
        match self {
            Self::Allowed => Ok(true),
            Self::Forbidden => Ok(false),
            Self::Valid(schema) => schema.accepts(value),
        }
    }
}

impl Rule {
    fn accepts(&self, value: &Value<'_>) -> Result<bool> {
        match (self, value) {
            (Self::Types(types), value) => Ok(types.contains(value.kind())),
            (Self::Enum(values), value) => Ok(values.iter().any(|allowed| equal_unordered(&allowed.view(), value))),
            (Self::AllOf(schemas), value) => count_valid(schemas, value).map(|valid| valid == schemas.len()),
            (Self::AnyOf(schemas), value) => count_valid(schemas, value).map(|valid| valid > 0),
            (Self::OneOf(schemas), value) => count_valid(schemas, value).map(|valid| valid == 1),
            (Self::Not(schema), value) => schema.accepts(value).map(|valid| !valid),
            (rule, Value::String(text)) => rule.accepts_text(&text.to_str_lossy()),
            (rule, Value::Array(array)) => rule.accepts_array(*array),
            (rule, Value::Document(document)) => rule.accepts_document(*document),
            (rule, value) if value.kind().is_number() => Ok(rule.accepts_number(value)),
            _ => Ok(true),
        }
    }

    fn accepts_number(&self, value: &Value<'_>) -> bool {
        let within = |limit: &ValueBuf, exclusive: bool, side: std::cmp::Ordering| {
            let nan = |value: &Value<'_>| value.as_number().is_some_and(Number::is_nan);
            if nan(value) || nan(&limit.view()) {
                return nan(value) && nan(&limit.view()) && !exclusive;
            }
            let order = compare(value, &limit.view());
            order == side || order.is_eq() && !exclusive
        };
        match self {
            Self::Maximum { value: limit, exclusive } => within(limit, *exclusive, std::cmp::Ordering::Less),
            Self::Minimum { value: limit, exclusive } => within(limit, *exclusive, std::cmp::Ordering::Greater),
            Self::MultipleOf(divisor) => is_multiple(value, &divisor.view()),
            _ => true,
        }
    }

    fn accepts_text(&self, text: &str) -> Result<bool> {
        Ok(match self {
            Self::MaxLength(max) => text.chars().count() <= *max,
            Self::MinLength(min) => text.chars().count() >= *min,
            Self::Pattern(pattern) => pattern.is_match(text)?,
            _ => true,
        })
    }

    fn accepts_array(&self, array: Array<'_>) -> Result<bool> {
        Ok(match self {
            Self::MaxItems(max) => array.count() <= *max,
            Self::MinItems(min) => array.count() >= *min,
            Self::UniqueItems => repeated(array.values(), hash_unordered, equal_unordered).is_none(),
            Self::Items { first, rest } => {
                for (at, value) in array.values().enumerate() {
                    let valid = match first.get(at) {
                        Some(schema) => schema.accepts(&value)?,
                        None => rest.accepts(&value)?,
                    };
                    if !valid {
                        return Ok(false);
                    }
                }
                true
            }
            _ => true,
        })
    }

    fn accepts_document(&self, document: Document<'_>) -> Result<bool> {
        Ok(match self {
            Self::MaxProperties(max) => document.elements().count() <= *max,
            Self::MinProperties(min) => document.elements().count() >= *min,
            Self::Required(names) => names.iter().all(|name| document.get(name).is_some()),
            Self::Properties { named, patterns, others } => {
                for element in document {
                    let (name, mut known) = (element.name.to_str_lossy(), false);
                    if let Some((_, schema)) = named.iter().find(|(other, _)| *other == *name) {
                        known = true;
                        if !schema.accepts(&element.value)? {
                            return Ok(false);
                        }
                    }
                    for (pattern, schema) in patterns {
                        if pattern.is_match(&name)? {
                            known = true;
                            if !schema.accepts(&element.value)? {
                                return Ok(false);
                            }
                        }
                    }
                    if !known && !others.accepts(&element.value)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Dependencies(dependencies) => {
                for (_, dependency) in dependencies.iter().filter(|(name, _)| document.get(name).is_some()) {
                    let met = match dependency {
                        Dependency::Fields(names) => names.iter().all(|name| document.get(name).is_some()),
                        Dependency::Valid(schema) => schema.matches(document)?,
                    };
                    if !met {
                        return Ok(false);
                    }
                }
                true
            }
            _ => true,
        })
    }
}

fn count_valid(schemas: &[Schema], value: &Value<'_>) -> Result<usize> {
    schemas.iter().try_fold(0, |count, schema| Ok(count + usize::from(schema.accepts(value)?)))
}

fn is_multiple(value: &Value<'_>, divisor: &Value<'_>) -> bool {
    let (Some(value), Some(divisor)) = (value.as_number(), divisor.as_number()) else { return true };
    match (value, divisor) {
        (Number::Int(value), Number::Int(divisor)) => value.wrapping_rem(divisor) == 0,
        (value, divisor) => {
            let rest = value.to_decimal().remainder(divisor.to_decimal());
            number::compare(Number::Decimal(rest), Number::Int(0)).is_eq()
        }
    }
}

/// Whether two values are equal when the order of fields in documents does not count.
fn equal_unordered(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Document(a), Value::Document(b)) => {
            let other = |value: &Value<'_>, name| b.get(name).is_some_and(|other| equal_unordered(value, &other));
            a.elements().count() == b.elements().count()
                && a.elements().all(|element| other(&element.value, element.name.as_bytes()))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.count() == b.count() && a.values().zip(b.values()).all(|(a, b)| equal_unordered(&a, &b))
        }
        _ => a.kind() != Kind::Undefined && equal(a, b),
    }
}
