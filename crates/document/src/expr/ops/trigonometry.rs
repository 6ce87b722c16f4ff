//! Trigonometry, of doubles and decimals.

use super::arithmetic::{number, unary};
use super::transcendental::{PI, atan as decimal_atan, exp, ln, sin_cos};
use crate::base::Result;
use crate::bson::number::Number;
use crate::bson::{Decimal128, Kind, Value};
use crate::expr::tree::{Call, Env, function};
use crate::expr::value::{Val, error};

fn d(number: i64) -> Decimal128 {
    Decimal128::from(number)
}

fn pi() -> Decimal128 {
    Decimal128::parse_rounding(PI).unwrap_or(d(3))
}

/// Applies a function whose argument must lie within `least` and `most`.
fn apply<'a>(
    call: &'a Call,
    env: &Env<'a>,
    (least, most, open): (f64, f64, bool),
    double: fn(f64) -> f64,
    decimal: fn(Decimal128) -> Decimal128,
) -> Result<Val<'a>> {
    unary(call, env, |number, _| {
        let x = number.to_f64();
        let within = if open { least < x && x < most } else { least <= x && x <= most };
        if !within && !number.is_nan() {
            let (open, close) = if open { ('(', ')') } else { ('[', ']') };
            let what = format!("cannot apply {} to {x}, value must be in {open}{least},{most}{close}", call.name);
            return Err(error(50989, what));
        }
        Ok(match number {
            Number::Decimal(number) if number.is_nan() => Value::Decimal128(number),
            Number::Decimal(number) => Value::Decimal128(decimal(number)),
            _ => Value::Double(double(x)),
        })
    })
}

const FINITE: (f64, f64, bool) = (f64::NEG_INFINITY, f64::INFINITY, true);
const ALL: (f64, f64, bool) = (f64::NEG_INFINITY, f64::INFINITY, false);
const UNIT: (f64, f64, bool) = (-1.0, 1.0, false);

fn asin_of(x: Decimal128) -> Decimal128 {
    let rest = d(1).minus(x.times(x));
    if rest.is_zero() {
        let half = pi().divided_by(d(2));
        return if x.is_negative() { half.negated() } else { half };
    }
    decimal_atan(x.divided_by(rest.square_root()))
}

fn sinh_of(x: Decimal128) -> Decimal128 {
    if x.is_zero() || x.is_infinite() { x } else { exp(x).minus(exp(x.negated())).divided_by(d(2)) }
}

fn cosh_of(x: Decimal128) -> Decimal128 {
    if x.is_infinite() { x.abs() } else { exp(x).plus(exp(x.negated())).divided_by(d(2)) }
}

function!(sin(call, env) { apply(call, env, FINITE, f64::sin, |x| sin_cos(x).0) });
function!(cos(call, env) { apply(call, env, FINITE, f64::cos, |x| sin_cos(x).1) });
function!(tan(call, env) {
    apply(call, env, FINITE, f64::tan, |x| {
        let (sin, cos) = sin_cos(x);
        sin.divided_by(cos)
    })
});
function!(asin(call, env) { apply(call, env, UNIT, f64::asin, asin_of) });
function!(acos(call, env) { apply(call, env, UNIT, f64::acos, |x| pi().divided_by(d(2)).minus(asin_of(x))) });
function!(atan(call, env) { apply(call, env, ALL, f64::atan, decimal_atan) });
function!(sinh(call, env) { apply(call, env, ALL, f64::sinh, sinh_of) });
function!(cosh(call, env) { apply(call, env, ALL, f64::cosh, cosh_of) });
function!(tanh(call, env) {
    apply(call, env, ALL, f64::tanh, |x| {
        if x.is_infinite() { d(if x.is_negative() { -1 } else { 1 }) } else { sinh_of(x).divided_by(cosh_of(x)) }
    })
});
function!(asinh(call, env) {
    apply(call, env, ALL, f64::asinh, |x| {
        if x.is_infinite() || x.is_zero() {
            return x;
        }
        let angle = ln(x.abs().plus(x.times(x).plus(d(1)).square_root()));
        if x.is_negative() { angle.negated() } else { angle }
    })
});
function!(acosh(call, env) {
    apply(call, env, (1.0, f64::INFINITY, false), f64::acosh, |x| {
        if x.is_infinite() { x } else { ln(x.plus(x.times(x).minus(d(1)).square_root())) }
    })
});
function!(atanh(call, env) {
    apply(call, env, UNIT, f64::atanh, |x| {
        let (above, below) = (d(1).plus(x), d(1).minus(x));
        if below.is_zero() || above.is_zero() {
            return Decimal128::from_f64(x.to_f64().atanh());
        }
        ln(above.divided_by(below)).divided_by(d(2))
    })
});
function!(degrees_to_radians(call, env) {
    apply(call, env, ALL, |x| x * (std::f64::consts::PI / 180.0), |x| x.times(pi().divided_by(d(180))))
});
function!(radians_to_degrees(call, env) {
    apply(call, env, ALL, |x| x * (180.0 / std::f64::consts::PI), |x| x.times(d(180).divided_by(pi())))
});

function!(atan2(call, env) {
    let (y, x) = (call.argument(0, env)?, call.argument(1, env)?);
    let (Some((y, a)), Some((x, b))) = (number(call, &y, 51044)?, number(call, &x, 51045)?) else { return Ok(Val::NULL) };
    if a != Kind::Decimal128 && b != Kind::Decimal128 {
        return Ok(Val::View(Value::Double(y.to_f64().atan2(x.to_f64()))));
    }
    let (y, x) = (y.to_decimal(), x.to_decimal());
    let angle = if x.is_zero() || y.is_zero() || x.is_infinite() || y.is_infinite() || x.is_nan() || y.is_nan() {
        let quarters = y.to_f64().atan2(x.to_f64()) / std::f64::consts::FRAC_PI_4;
        let nearest = quarters.round();
        match crate::base::num::trunc_to_i64(nearest) {
            Some(quarters) => pi().times(d(quarters)).divided_by(d(4)),
            None => Decimal128::from_f64(quarters),
        }
    } else {
        let angle = decimal_atan(y.divided_by(x));
        match (x.is_negative(), y.is_negative()) {
            (false, _) => angle,
            (true, false) => angle.plus(pi()),
            (true, true) => angle.minus(pi()),
        }
    };
    Ok(Val::View(Value::Decimal128(angle)))
});
