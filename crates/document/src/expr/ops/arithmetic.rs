//! Arithmetic: sums, products, quotients, powers, rounding.

use super::summation::Sum;
use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::decimal::{Rounding, Unpacked};
use crate::bson::number::Number;
use crate::bson::{Decimal128, Kind, Value};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Env, Expression, function};
use crate::expr::value::{Val, error, int};

/// The number that a value is, and its type; nothing for null and missing.
pub(in crate::expr) fn number(call: &Call, value: &Val<'_>, code: i32) -> Result<Option<(Number, Kind)>> {
    match value.view() {
        None => Ok(None),
        Some(value) if value.is_nullish() => Ok(None),
        Some(value) => match value.as_number() {
            Some(number) => Ok(Some((number, value.kind()))),
            None => {
                let (name, kind) = (call.name, value.kind().name());
                Err(error(code, format!("{name} only supports numeric types, not {kind}")))
            }
        },
    }
}

/// Applies a function to the single argument when it is a number; null stays null.
pub(super) fn unary<'a>(
    call: &'a Call,
    env: &Env<'a>,
    apply: impl FnOnce(Number, Kind) -> Result<Value<'static>>,
) -> Result<Val<'a>> {
    let value = call.argument(0, env)?;
    match number(call, &value, 28765)? {
        None => Ok(Val::NULL),
        Some((number, kind)) => Ok(Val::View(apply(number, kind)?)),
    }
}

/// An integer in the type `kind`, or in 64 bits where it must be.
const fn integer(number: i64, kind: Kind) -> Value<'static> {
    match kind {
        Kind::Int64 => Value::Int64(number),
        _ => int32_or_64(number),
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
const fn int32_or_64(number: i64) -> Value<'static> {
    if number >= i32::MIN as i64 && number <= i32::MAX as i64 {
        Value::Int32(number as i32)
    } else {
        Value::Int64(number)
    }
}

function!(abs(call, env) {
    unary(call, env, |number, kind| match number {
        Number::Int(i64::MIN) => Err(error(28680, "can't take $abs of long long min")),
        Number::Int(number) => Ok(integer(number.abs(), kind)),
        Number::Double(number) => Ok(Value::Double(number.abs())),
        Number::Decimal(number) => Ok(Value::Decimal128(number.abs())),
    })
});

function!(add(call, env) {
    let mut sum = Sum::default();
    let mut date = None;
    for argument in &call.arguments {
        let value = argument.evaluate(env)?;
        match value.value() {
            Value::Null | Value::Undefined => return Ok(Val::NULL),
            Value::DateTime(millis) => {
                if date.replace(millis).is_some() {
                    return Err(error(16612, "only one date allowed in an $add expression"));
                }
            }
            value => match value.as_number() {
                Some(number) => sum.add(number, value.kind()),
                None => {
                    let what = format!("$add only supports numeric or date types, not {}", value.kind().name());
                    return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
                }
            },
        }
    }
    let Some(millis) = date else { return Ok(Val::View(sum.short_total())) };
    shifted(millis, sum.short_total(), false).map(Val::View)
});

/// A date some milliseconds later or earlier.
fn shifted(millis: i64, by: Value<'_>, back: bool) -> Result<Value<'static>> {
    let overflow = || Error::new(ErrorCode::OVERFLOW, "date overflow");
    let by = match by.as_number() {
        Some(Number::Int(by)) => by,
        Some(Number::Double(by)) => trunc_to_i64(by.round()).ok_or_else(overflow)?,
        Some(number) => number.to_decimal_rounded().ok_or_else(overflow)?,
        None => 0,
    };
    let shifted = if back { millis.checked_sub(by) } else { millis.checked_add(by) };
    shifted.map(Value::DateTime).ok_or_else(overflow)
}

trait Rounded {
    fn to_decimal_rounded(self) -> Option<i64>;
}

impl Rounded for Number {
    /// The nearest integer of a decimal, if it fits.
    fn to_decimal_rounded(self) -> Option<i64> {
        Number::Decimal(self.to_decimal().to_integral(Rounding::HalfEven)).to_exact_i64()
    }
}

/// The type that two numbers have together.
fn joined(a: Kind, b: Kind) -> Kind {
    let rank =
        |kind| [Kind::Int32, Kind::Int64, Kind::Double, Kind::Decimal128].iter().position(|other| *other == kind);
    if rank(a) >= rank(b) { a } else { b }
}

function!(subtract(call, env) {
    let (left, right) = (call.argument(0, env)?, call.argument(1, env)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(Val::NULL);
    }
    let (a, b) = (left.value(), right.value());
    Ok(Val::View(match (a, b) {
        (Value::DateTime(a), Value::DateTime(b)) => {
            Value::Int64(a.checked_sub(b).ok_or_else(|| Error::new(ErrorCode::OVERFLOW, "date overflow in $subtract"))?)
        }
        (Value::DateTime(a), b) if b.kind().is_number() => shifted(a, b, true)?,
        (a, b) => match (a.as_number(), b.as_number()) {
            (Some(Number::Int(x)), Some(Number::Int(y))) => match x.checked_sub(y) {
                Some(difference) => integer(difference, joined(a.kind(), b.kind())),
                None => Value::Double(nearest_f64(x) - nearest_f64(y)),
            },
            (Some(x), Some(y)) if joined(a.kind(), b.kind()) == Kind::Decimal128 => {
                Value::Decimal128(x.to_decimal().minus(y.to_decimal()))
            }
            (Some(x), Some(y)) => Value::Double(x.to_f64() - y.to_f64()),
            _ => {
                let what = format!("can't $subtract {} from {}", b.kind().name(), a.kind().name());
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
            }
        },
    }))
});

function!(multiply(call, env) {
    let mut product = Value::Int32(1);
    for argument in &call.arguments {
        let value = argument.evaluate(env)?;
        if value.is_nullish() {
            return Ok(Val::NULL);
        }
        let value = value.value();
        let Some(factor) = value.as_number() else {
            let what = format!("$multiply only supports numeric types, not {}", value.kind().name());
            return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
        };
        product = times(product, factor, value.kind());
    }
    Ok(Val::View(product))
});

/// A product in the joined type of its factors.
pub(in crate::expr) fn times(product: Value<'static>, factor: Number, kind: Kind) -> Value<'static> {
    let joined = joined(product.kind(), kind);
    match (product.as_number().unwrap_or(Number::Int(0)), factor) {
        (Number::Int(x), Number::Int(y)) => match x.checked_mul(y) {
            Some(product) => integer(product, joined),
            None => Value::Double(nearest_f64(x) * nearest_f64(y)),
        },
        (x, y) if joined == Kind::Decimal128 => Value::Decimal128(x.to_decimal().times(y.to_decimal())),
        (x, y) => Value::Double(x.to_f64() * y.to_f64()),
    }
}

/// The two numbers of an operator; nothing when one of them is null or missing.
type Pair = Option<((Number, Kind), (Number, Kind))>;

/// The two arguments of an operator as numbers, an error with a code for others.
fn pair<'a>(call: &'a Call, env: &Env<'a>, code: i32) -> Result<Pair> {
    let (left, right) = (call.argument(0, env)?, call.argument(1, env)?);
    if left.is_nullish() || right.is_nullish() {
        return Ok(None);
    }
    let known = |value: &Val<'_>| value.value().as_number().map(|number| (number, value.value().kind()));
    match (known(&left), known(&right)) {
        (Some(left), Some(right)) => Ok(Some((left, right))),
        _ => {
            let (name, left, right) = (call.name, left.type_name(), right.type_name());
            Err(error(code, format!("{name} only supports numeric types, not {left} and {right}")))
        }
    }
}

function!(divide(call, env) {
    let Some(((x, a), (y, b))) = pair(call, env, 14)? else { return Ok(Val::NULL) };
    let zero = crate::bson::number::compare(y, Number::Int(0)).is_eq();
    if zero {
        return Err(Error::bad_value("can't $divide by zero"));
    }
    Ok(Val::View(if joined(a, b) == Kind::Decimal128 {
        Value::Decimal128(x.to_decimal().divided_by(y.to_decimal()))
    } else {
        Value::Double(x.to_f64() / y.to_f64())
    }))
});

function!(modulo(call, env) {
    let Some(((x, a), (y, b))) = pair(call, env, 16611)? else { return Ok(Val::NULL) };
    let zero = crate::bson::number::compare(y, Number::Int(0)).is_eq();
    if zero {
        let code = if joined(a, b) == Kind::Decimal128 { 5_733_415 } else { 16610 };
        return Err(error(code, "can't $mod by zero"));
    }
    Ok(Val::View(match (x, y) {
        (x, y) if joined(a, b) == Kind::Decimal128 => Value::Decimal128(x.to_decimal().remainder(y.to_decimal())),
        (Number::Int(x), Number::Int(y)) => integer(x.wrapping_rem(y), joined(a, b)),
        (x, y) => Value::Double(x.to_f64() % y.to_f64()),
    }))
});

/// A decimal as a whole number; not a number when it has more than 34 digits before the point, as in MongoDB.
fn whole(number: Decimal128, rounding: Rounding) -> Decimal128 {
    let whole = number.quantized(0, rounding);
    match whole.unpack() {
        Unpacked::Finite { exponent: 0, .. } => whole,
        _ => Decimal128::NAN,
    }
}

function!(ceil(call, env) {
    unary(call, env, |number, kind| Ok(match number {
        Number::Int(number) => integer(number, kind),
        Number::Double(number) => Value::Double(number.ceil()),
        Number::Decimal(number) => Value::Decimal128(whole(number, Rounding::Ceiling)),
    }))
});

function!(floor(call, env) {
    unary(call, env, |number, kind| Ok(match number {
        Number::Int(number) => integer(number, kind),
        Number::Double(number) => Value::Double(number.floor()),
        Number::Decimal(number) => Value::Decimal128(whole(number, Rounding::Floor)),
    }))
});

function!(round(call, env) {
    rounded(call, env, Rounding::HalfEven)
});

function!(trunc(call, env) {
    rounded(call, env, Rounding::TowardZero)
});

fn rounded<'a>(call: &'a Call, env: &Env<'a>, rounding: Rounding) -> Result<Val<'a>> {
    let (value, place) = (call.argument(0, env)?, call.argument(1, env)?);
    let Some((number, kind)) = number(call, &value, 51081)? else { return Ok(Val::NULL) };
    let places = if call.has(1) {
        if place.is_nullish() {
            return Ok(Val::NULL);
        }
        let name = call.name;
        let given = place.value();
        let number = given.as_number().ok_or_else(|| {
            error(16004, format!("precision argument to {name} must be a number, found {}", place.type_name()))
        })?;
        let is_no_decimal = matches!(number, Number::Decimal(decimal) if decimal.is_nan());
        if number.trunc_to_i64().is_none() && !is_no_decimal {
            return Err(error(31109, format!("precision argument to {name} is out of range: {}", given.to_json())));
        }
        let exact = given
            .as_exact_i64()
            .ok_or_else(|| error(51082, format!("precision argument to {name} must be a integral value")))?;
        let range = format!("cannot apply {name} with precision value {exact} value must be in [-20, 100]");
        i32::try_from(exact).ok().filter(|places| (-20..=100).contains(places)).ok_or_else(|| error(51083, range))?
    } else {
        0
    };
    Ok(Val::View(match number {
        Number::Int(number) if places >= 0 => integer(number, kind),
        Number::Int(number) => rounded_integer(number, kind, places.unsigned_abs(), rounding)?,
        Number::Double(number) if places == 0 => Value::Double(match rounding {
            Rounding::TowardZero => number.trunc(),
            _ => number.round_ties_even(),
        }),
        Number::Double(number) if !number.is_finite() => Value::Double(number),
        Number::Double(number) => {
            let rounded = Decimal128::from_f64(number).quantized(-places, rounding).to_f64();
            Value::Double(if rounded == 0.0 { rounded.abs().copysign(number) } else { rounded })
        }
        Number::Decimal(number) => Value::Decimal128(number.quantized(-places, rounding)),
    }))
}

fn rounded_integer(number: i64, kind: Kind, zeros: u32, rounding: Rounding) -> Result<Value<'static>> {
    let Some(unit) = 10_i128.checked_pow(zeros) else { return Ok(integer(0, kind)) };
    let number = i128::from(number);
    let (whole, rest) = (number / unit, number % unit);
    let up = rounding == Rounding::HalfEven && (rest.abs() * 2 > unit || rest.abs() * 2 == unit && whole % 2 != 0);
    let rounded = (whole + if up { number.signum() } else { 0 }) * unit;
    let rounded = i64::try_from(rounded);
    rounded
        .map(|number| integer(number, kind))
        .map_err(|_| error(51080, "invalid conversion from Decimal128 result in $round"))
}

function!(sqrt(call, env) {
    unary(call, env, |number, _| {
        let negative = Err(error(28714, "$sqrt's argument must be greater than or equal to 0"));
        match number {
            Number::Decimal(number) if number.is_negative() && !number.is_zero() && !number.is_nan() => negative,
            Number::Decimal(number) => Ok(Value::Decimal128(number.square_root())),
            number if number.to_f64() < 0.0 => negative,
            number => Ok(Value::Double(number.to_f64().sqrt())),
        }
    })
});

function!(pow(call, env) {
    let (base, exponent) = (call.argument(0, env)?, call.argument(1, env)?);
    let (name_of_base, name) = (base.type_name(), exponent.type_name());
    if base.is_nullish() || exponent.is_nullish() {
        return Ok(Val::NULL);
    }
    let Some(x) = base.value().as_number() else {
        return Err(error(28762, format!("$pow's base must be numeric, not {name_of_base}")));
    };
    let Some(y) = exponent.value().as_number() else {
        return Err(error(28763, format!("$pow's exponent must be numeric, not {name}")));
    };
    let zero = |number| crate::bson::number::compare(number, Number::Int(0));
    if zero(x).is_eq() && zero(y).is_lt() && !y.is_nan() {
        return Err(error(28764, "$pow cannot take a base of 0 and a negative exponent"));
    }
    let kind = joined(base.value().kind(), exponent.value().kind());
    Ok(Val::View(match (x, y) {
        (x, y) if kind == Kind::Decimal128 => Value::Decimal128(super::transcendental::pow(x.to_decimal(), y.to_decimal())),
        (Number::Int(x), Number::Int(y)) => {
            let small = u32::try_from(y).ok();
            match small.and_then(|y| x.checked_pow(y)) {
                Some(power) => integer(power, kind),
                None if y >= 0 && (x == 0 || x == 1) => integer(x, kind),
                None if x == 1 => integer(1, kind),
                None if x == -1 => integer(if y % 2 == 0 { 1 } else { -1 }, kind),
                None => Value::Double(nearest_f64(x).powf(nearest_f64(y))),
            }
        }
        (x, y) => Value::Double(x.to_f64().powf(y.to_f64())),
    }))
});

function!(exp(call, env) {
    unary(call, env, |number, _| Ok(match number {
        Number::Decimal(number) => Value::Decimal128(super::transcendental::exp(number)),
        number => Value::Double(number.to_f64().exp()),
    }))
});

function!(sigmoid(call, env) {
    let value = call.argument(0, env)?;
    Ok(match number(call, &value, 14)? {
        None => Val::NULL,
        Some((Number::Decimal(number), _)) => {
            let one = Decimal128::from(1);
            let rest = super::transcendental::exp(number.negated());
            Val::View(Value::Decimal128(one.divided_by(one.plus(rest))))
        }
        Some((number, _)) => Val::View(Value::Double(1.0 / (1.0 + (-number.to_f64()).exp()))),
    })
});

/// `$sigmoid`: its operand is one expression, also when it is an array.
pub(in crate::expr) fn parse_sigmoid(
    parser: &mut Parser<'_>,
    name: &'static str,
    value: Value<'_>,
) -> Result<Expression> {
    Ok(Expression::Call(Call { name, function: sigmoid, arguments: vec![parser.parse(value)?] }))
}

fn is_positive(number: Number) -> bool {
    number.is_nan() || crate::bson::number::compare(number, Number::Int(0)).is_gt()
}

function!(ln(call, env) {
    unary(call, env, |number, _| {
        if !is_positive(number) {
            return Err(error(28766, "$ln's argument must be a positive number"));
        }
        Ok(match number {
            Number::Decimal(number) if !number.is_nan() => Value::Decimal128(super::transcendental::ln(number)),
            number => Value::Double(number.to_f64().ln()),
        })
    })
});

function!(log10(call, env) {
    unary(call, env, |number, _| {
        if !is_positive(number) {
            return Err(error(28761, "$log10's argument must be a positive number"));
        }
        Ok(match number {
            Number::Decimal(number) if !number.is_nan() => Value::Decimal128(super::transcendental::log10(number)),
            number => Value::Double(number.to_f64().log10()),
        })
    })
});

function!(log(call, env) {
    let (value, base) = (call.argument(0, env)?, call.argument(1, env)?);
    if value.is_nullish() || base.is_nullish() {
        return Ok(Val::NULL);
    }
    let (value_type, base_type) = (value.type_name(), base.type_name());
    let Some(x) = value.value().as_number() else {
        return Err(error(28756, format!("$log's argument must be numeric, not {value_type}")));
    };
    let Some(b) = base.value().as_number() else {
        return Err(error(28757, format!("$log's base must be numeric, not {base_type}")));
    };
    if !is_positive(x) {
        return Err(error(28758, "$log's argument must be a positive number"));
    }
    let base_is_right = b.is_nan() || is_positive(b) && !crate::bson::number::compare(b, Number::Int(1)).is_eq();
    if !base_is_right {
        return Err(error(28759, "$log's base must be a positive number not equal to 1"));
    }
    let decimal = joined(value.value().kind(), base.value().kind()) == Kind::Decimal128;
    // What is not a number is one of doubles, as in MongoDB.
    Ok(Val::View(if decimal && !x.is_nan() && !b.is_nan() {
        let (x, b) = (super::transcendental::ln(x.to_decimal()), super::transcendental::ln(b.to_decimal()));
        Value::Decimal128(x.divided_by(b))
    } else {
        Value::Double(x.to_f64().ln() / b.to_f64().ln())
    }))
});

/// Combines the integers of all arguments.
fn bits<'a>(call: &'a Call, env: &Env<'a>, start: i64, combine: fn(i64, i64) -> i64) -> Result<Val<'a>> {
    let (mut result, mut long, mut null) = (start, false, false);
    for value in call.all(env)? {
        match value.value() {
            Value::Int32(number) => result = combine(result, i64::from(number)),
            Value::Int64(number) => (result, long) = (combine(result, number), true),
            value if value.is_nullish() => null = true,
            value => {
                let (name, kind) = (call.name, value.kind().name());
                let what = format!("{name} only supports int and long operands, not {kind}.");
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, what));
            }
        }
    }
    Ok(if null { Val::NULL } else { Val::View(if long { Value::Int64(result) } else { int(result) }) })
}

function!(bit_and(call, env) { bits(call, env, -1, |a, b| a & b) });
function!(bit_or(call, env) { bits(call, env, 0, |a, b| a | b) });
function!(bit_xor(call, env) { bits(call, env, 0, |a, b| a ^ b) });

function!(bit_not(call, env) {
    let value = call.argument(0, env)?;
    Ok(match value.value() {
        Value::Int32(number) => Val::View(Value::Int32(!number)),
        Value::Int64(number) => Val::View(Value::Int64(!number)),
        value if value.is_nullish() => Val::NULL,
        value => {
            let what = format!("$bitNot only supports int and long, not {}.", value.kind().name());
            return Err(error(28765, what));
        }
    })
});
