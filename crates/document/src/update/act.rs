//! What update operators do with one value.

use super::array::{Pull, Push, added_to_set, popped};
use super::outcome::{Outcome, Told};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::number::Number;
use crate::bson::{Document, Kind, Value, ValueBuf, compare};
use crate::collation;

/// An operator at a path.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Set(ValueBuf),
    SetOnInsert(ValueBuf),
    Increment(ValueBuf),
    Multiply(ValueBuf),
    Min(ValueBuf),
    Max(ValueBuf),
    Unset,
    Push(Push),
    AddToSet(Vec<ValueBuf>),
    Pull(Pull),
    Pop {
        first: bool,
    },
    Bits(Vec<(Bits, ValueBuf)>),
    /// The value comes from another path, which loses it.
    Rename(super::path::UpdatePath),
}

/// An operation of `$bit`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    And,
    Or,
    Xor,
}

impl Act {
    /// The operator's name.
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Set(_) => "$set",
            Self::SetOnInsert(_) => "$setOnInsert",
            Self::Increment(_) => "$inc",
            Self::Multiply(_) => "$mul",
            Self::Min(_) => "$min",
            Self::Max(_) => "$max",
            Self::Unset => "$unset",
            Self::Push(_) => "$push",
            Self::AddToSet(_) => "$addToSet",
            Self::Pull(_) => "$pull",
            Self::Pop { .. } => "$pop",
            Self::Bits(_) => "$bit",
            Self::Rename(_) => "$rename",
        }
    }

    /// Whether the operator makes a field that is missing.
    pub(super) const fn creates(&self) -> bool {
        !matches!(self, Self::Unset | Self::Pull(_) | Self::Pop { .. } | Self::Rename(_))
    }

    /// What becomes of the value at `path`, or what is made where there is none.
    pub(super) fn on(&self, value: Option<Value<'_>>, path: &str, told: &Told<'_>) -> Result<Outcome> {
        let Told { document, collation } = *told;
        let outcome = match (self, value) {
            (Self::Set(new) | Self::SetOnInsert(new), _) => Outcome::New(new.clone()),
            (Self::Unset, _) => Outcome::Gone,
            (Self::Increment(by), None) => Outcome::New(by.clone()),
            (Self::Multiply(by), None) => {
                Outcome::New(product(&Value::Int32(0), &by.view()).unwrap_or(Value::Int32(0)).into())
            }
            (Self::Increment(by), Some(value)) => self.number(value, by, path, document, sum)?,
            (Self::Multiply(by), Some(value)) => self.number(value, by, path, document, product)?,
            (Self::Min(new) | Self::Max(new), None) => Outcome::New(new.clone()),
            (Self::Min(new), Some(value)) => {
                if collation::compare(collation, &new.view(), &value).is_lt() {
                    Outcome::New(new.clone())
                } else {
                    Outcome::Keep
                }
            }
            (Self::Max(new), Some(value)) => {
                if collation::compare(collation, &new.view(), &value).is_gt() {
                    Outcome::New(new.clone())
                } else {
                    Outcome::Keep
                }
            }
            (Self::Push(push), value) => push.on(value, path, told)?,
            (Self::AddToSet(values), value) => added_to_set(values, value, path, collation)?,
            (Self::Pull(pull), Some(value)) => pull.on(value, collation)?,
            (Self::Pop { first }, Some(value)) => popped(*first, value, path)?,
            (Self::Bits(operations), value) => bits(operations, value, path, document)?,
            (Self::Pull(_) | Self::Pop { .. } | Self::Rename(_), _) => Outcome::Keep,
        };
        // The identical value is no change; another type is. Arithmetic does not tell -0 from 0.
        let arithmetic = matches!(self, Self::Increment(_) | Self::Multiply(_));
        Ok(match (outcome, value) {
            (Outcome::New(new), Some(old))
                if arithmetic && new.kind() == old.kind() && compare(&new.view(), &old).is_eq() =>
            {
                Outcome::Keep
            }
            (Outcome::New(new), Some(old))
                if new.kind() == old.kind() && new.payload() == ValueBuf::from(old).payload() =>
            {
                Outcome::Keep
            }
            (outcome, _) => outcome,
        })
    }

    fn number(
        &self,
        value: Value<'_>,
        by: &ValueBuf,
        path: &str,
        document: Document<'_>,
        apply: Arithmetic,
    ) -> Result<Outcome> {
        let name = self.name();
        if value.as_number().is_none() {
            let id = document.get("_id").map_or_else(|| "null".to_owned(), |id| id.to_json());
            let what = format!(
                "Cannot apply {name} to a value of non-numeric type. {{_id: {id}}} has the field '{}' of non-numeric type {}",
                last(path),
                value.kind().name()
            );
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        }
        let overflow = || {
            Error::bad_value(format!(
                "Failed to apply {name} operations to current value ({}) for document",
                value.to_json()
            ))
        };
        Ok(Outcome::New(apply(&value, &by.view()).ok_or_else(overflow)?.into()))
    }
}

type Arithmetic = fn(&Value<'_>, &Value<'_>) -> Option<Value<'static>>;

/// The last component of a path.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// An integer in a type, or in 64 bits where it does not fit.
fn integer(number: i64, long: bool) -> Value<'static> {
    if long { Value::Int64(number) } else { i32::try_from(number).map_or(Value::Int64(number), Value::Int32) }
}

fn is_long(a: &Value<'_>, b: &Value<'_>) -> bool {
    a.kind() == Kind::Int64 || b.kind() == Kind::Int64
}

fn sum(a: &Value<'_>, b: &Value<'_>) -> Option<Value<'static>> {
    Some(match (a.as_number()?, b.as_number()?) {
        (Number::Int(x), Number::Int(y)) => integer(x.checked_add(y)?, is_long(a, b)),
        (x @ Number::Decimal(_), y) | (x, y @ Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal().plus(y.to_decimal()))
        }
        (x, y) => Value::Double(x.to_f64() + y.to_f64()),
    })
}

fn product(a: &Value<'_>, b: &Value<'_>) -> Option<Value<'static>> {
    Some(match (a.as_number()?, b.as_number()?) {
        (Number::Int(x), Number::Int(y)) => integer(x.checked_mul(y)?, is_long(a, b)),
        (x @ Number::Decimal(_), y) | (x, y @ Number::Decimal(_)) => {
            Value::Decimal128(x.to_decimal().times(y.to_decimal()))
        }
        (x, y) => Value::Double(x.to_f64() * y.to_f64()),
    })
}

fn bits(
    operations: &[(Bits, ValueBuf)],
    value: Option<Value<'_>>,
    path: &str,
    document: Document<'_>,
) -> Result<Outcome> {
    let (mut number, mut long) = match value {
        None => (0, false),
        Some(Value::Int32(number)) => (i64::from(number), false),
        Some(Value::Int64(number)) => (number, true),
        Some(other) => {
            let id = document.get("_id").map_or_else(|| "null".to_owned(), |id| id.to_json());
            let what = format!(
                "Cannot apply $bit to a value of non-integral type._id: {id} has the field {path} of non-integer type {}",
                other.kind().name()
            );
            return Err(Error::bad_value(what));
        }
    };
    for (operation, operand) in operations {
        let (operand, wide) = match operand.view() {
            Value::Int64(operand) => (operand, true),
            other => (other.as_exact_i64().unwrap_or_default(), false),
        };
        long |= wide;
        number = match operation {
            Bits::And => number & operand,
            Bits::Or => number | operand,
            Bits::Xor => number ^ operand,
        };
    }
    Ok(Outcome::New(integer(number, long).into()))
}
