//! Conditions on one value.

use std::cmp::Ordering;
use std::sync::Arc;

use super::bitmask::BitMask;
use super::types::Types;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::number::Number;
use crate::bson::{self, Class, Value, ValueBuf};
use crate::collation::{Collated, Collation, compare, has_text};
use crate::pattern::Pattern;

/// A condition on a value that a path means, or on there being none.
#[derive(Clone, Debug)]
pub enum Predicate {
    /// `$eq`, `$gt`, `$gte`, `$lt`, `$lte`.
    Compare(Comparison, ValueBuf),
    /// The same with an operand that is or has strings, by a collation.
    Collated(Comparison, ValueBuf, Arc<Collation>),
    /// `$in`.
    In(Choices),
    /// `$regex`.
    Regex(Pattern),
    /// `$exists: true`.
    Exists,
    /// `$type`.
    Type(Types),
    /// `$mod`: divisor and remainder.
    Mod(i64, i64),
    /// `$size`; a count that no array has matches nothing.
    Size(i64),
    /// `$bitsAllSet` and so on.
    Bits(BitMask),
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `$eq`.
    Equal,
    /// `$gt`.
    Greater,
    /// `$gte`.
    GreaterOrEqual,
    /// `$lt`.
    Less,
    /// `$lte`.
    LessOrEqual,
}

/// The values and regular expressions of `$in`.
#[derive(Clone, Debug, Default)]
pub struct Choices {
    values: Vec<ValueBuf>,
    patterns: Vec<Pattern>,
    null: bool,
    texts: bool,
    /// How the strings of values are compared; nothing as well when they have none.
    collation: Collated,
}

impl Choices {
    /// The choices of these values and patterns.
    #[must_use]
    pub fn new(mut values: Vec<ValueBuf>, patterns: Vec<Pattern>, collation: Option<&Arc<Collation>>) -> Self {
        let texts = values.iter().any(|value| has_text(&value.view()));
        let collation = collation.filter(|_| texts).cloned();
        values.sort_by(|a, b| compare(collation.as_deref(), &a.view(), &b.view()));
        values.dedup_by(|a, b| compare(collation.as_deref(), &a.view(), &b.view()).is_eq());
        let null = values.iter().any(|value| matches!(value.view(), Value::Null));
        Self { values, patterns, null, texts, collation }
    }

    /// How the strings of the values are compared; nothing as well when they have none.
    #[must_use]
    pub const fn collation(&self) -> &Collated {
        &self.collation
    }

    /// The values in order, each once.
    #[must_use]
    pub fn values(&self) -> &[ValueBuf] {
        &self.values
    }

    /// How many values and regular expressions there are.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.values.len() + self.patterns.len()
    }

    /// Whether some of the values are or have strings.
    #[must_use]
    pub const fn has_texts(&self) -> bool {
        self.texts
    }

    /// The regular expressions.
    #[must_use]
    pub fn patterns(&self) -> &[Pattern] {
        &self.patterns
    }

    fn matches(&self, value: Option<Value<'_>>) -> Result<bool> {
        let Some(value) = value else { return Ok(self.null) };
        if self.values.binary_search_by(|choice| compare(self.collation.as_deref(), &choice.view(), &value)).is_ok() {
            return Ok(true);
        }
        for pattern in &self.patterns {
            if matches_pattern(pattern, &value)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Predicate {
    /// Whether a value, or the lack of one, meets the condition.
    ///
    /// # Errors
    /// Those of a regular expression that exceeds its limit.
    #[inline]
    pub fn matches(&self, value: Option<Value<'_>>) -> Result<bool> {
        Ok(match (self, value) {
            (Self::Compare(comparison, operand), value) => comparison.matches(value, &operand.view(), bson::compare),
            (Self::Collated(comparison, operand, collation), value) => {
                comparison.matches(value, &operand.view(), |a, b| collation.compare(a, b))
            }
            (Self::In(choices), value) => choices.matches(value)?,
            (_, None) => false,
            (Self::Exists, Some(_)) => true,
            (Self::Regex(pattern), Some(value)) => matches_pattern(pattern, &value)?,
            (Self::Type(types), Some(value)) => types.contains(value.kind()),
            (Self::Mod(divisor, remainder), Some(value)) => {
                let number = value.as_number().and_then(Number::trunc_to_i64);
                number.is_some_and(|number| number.wrapping_rem(*divisor) == *remainder)
            }
            (Self::Size(size), Some(value)) => {
                value.as_array().is_some_and(|array| i64::try_from(array.count()) == Ok(*size))
            }
            (Self::Bits(mask), Some(value)) => mask.matches(&value),
        })
    }

    /// Whether an array at the end of the path is tested itself, not value by value.
    #[must_use]
    pub const fn takes_arrays_whole(&self) -> bool {
        matches!(self, Self::Size(_) | Self::Exists)
    }

    /// The comparison with a value.
    ///
    /// # Errors
    /// `BadValue` (2) for undefined, and for an order by a regular expression.
    pub fn compare(comparison: Comparison, operand: Value<'_>, collation: Option<&Arc<Collation>>) -> Result<Self> {
        match operand {
            Value::Undefined => Err(Error::new(ErrorCode::BAD_VALUE, "cannot compare to undefined")),
            Value::Regex(_) if comparison != Comparison::Equal => {
                Err(Error::bad_value("Can't have RegEx as arg to predicate over field"))
            }
            operand => Ok(Self::by(comparison, operand, collation)),
        }
    }

    /// The equality to a value.
    #[must_use]
    pub fn equal(operand: Value<'_>, collation: Option<&Arc<Collation>>) -> Self {
        Self::by(Comparison::Equal, operand, collation)
    }

    fn by(comparison: Comparison, operand: Value<'_>, collation: Option<&Arc<Collation>>) -> Self {
        match collation {
            Some(collation) if has_text(&operand) => Self::Collated(comparison, operand.into(), Arc::clone(collation)),
            _ => Self::Compare(comparison, operand.into()),
        }
    }

    /// The comparison, if the condition is one, with its operand and the collation of that.
    #[must_use]
    pub fn as_comparison(&self) -> Option<(Comparison, Value<'_>, Option<&Collation>)> {
        match self {
            Self::Compare(comparison, operand) => Some((*comparison, operand.view(), None)),
            Self::Collated(comparison, operand, collation) => Some((*comparison, operand.view(), Some(collation))),
            _ => None,
        }
    }
}

impl Comparison {
    const fn takes_equal(self) -> bool {
        matches!(self, Self::Equal | Self::GreaterOrEqual | Self::LessOrEqual)
    }

    #[inline]
    fn matches(
        self,
        value: Option<Value<'_>>,
        operand: &Value<'_>,
        compare: impl Fn(&Value<'_>, &Value<'_>) -> Ordering,
    ) -> bool {
        let Some(value) = value else {
            return match operand {
                Value::Null => self.takes_equal(),
                operand => self.across_classes(operand),
            };
        };
        let class = value.class();
        if class != operand.class() {
            return self.across_classes(operand);
        }
        if class == Class::Number
            && let (Some(a), Some(b)) = (value.as_number(), operand.as_number())
            && (a.is_nan() || b.is_nan())
        {
            return a.is_nan() && b.is_nan() && self.takes_equal();
        }
        let order = compare(&value, operand);
        match self {
            Self::Equal => order == Ordering::Equal,
            Self::Greater => order == Ordering::Greater,
            Self::GreaterOrEqual => order != Ordering::Less,
            Self::Less => order == Ordering::Less,
            Self::LessOrEqual => order != Ordering::Greater,
        }
    }

    /// Only the least and the greatest value are compared with values of other classes.
    const fn across_classes(self, operand: &Value<'_>) -> bool {
        match self {
            Self::Equal => false,
            Self::Greater | Self::GreaterOrEqual => matches!(operand, Value::MinKey),
            Self::Less | Self::LessOrEqual => matches!(operand, Value::MaxKey),
        }
    }
}

fn matches_pattern(pattern: &Pattern, value: &Value<'_>) -> Result<bool> {
    match value {
        Value::String(text) | Value::Symbol(text) => match text.as_str() {
            Some(text) => pattern.is_match(text),
            None => pattern.is_match(&text.to_str_lossy()),
        },
        Value::Regex(regex) => {
            let (source, options) = regex.parts();
            Ok(source == pattern.source() && options == pattern.options())
        }
        _ => Ok(false),
    }
}
