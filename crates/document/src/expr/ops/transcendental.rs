//! Exponentials and logarithms of decimals, to 34 digits, and their trigonometry to about 33: series over reduced
//! arguments.

use super::fixed;
use crate::bson::Decimal128;
use crate::bson::decimal::Rounding;
use crate::bson::number::Number;

fn d(number: i64) -> Decimal128 {
    Decimal128::from(number)
}

fn constant(text: &str) -> Decimal128 {
    Decimal128::parse_rounding(text).unwrap_or(d(0))
}

/// Pi, as trigonometry takes it.
pub(super) const PI: &str = "3.141592653589793238462643383279502884197";

fn is_negligible(term: Decimal128, sum: Decimal128) -> bool {
    term.is_zero() || term.abs().to_f64() < sum.abs().to_f64() * 1e-36
}

/// e to the power of a number.
pub(in crate::expr) fn exp(x: Decimal128) -> Decimal128 {
    if x.is_nan() {
        return x;
    }
    if x.is_infinite() {
        return if x.is_negative() { d(0) } else { x };
    }
    if x.is_zero() {
        return d(1);
    }
    fixed::exp(x).unwrap_or_else(|| beyond(x.is_negative()))
}

/// What is beyond all decimals: infinite, or too small for one.
fn beyond(is_small: bool) -> Decimal128 {
    if is_small { constant("1E-6176").times(constant("1E-10")) } else { constant("1E+6144").times(d(1000)) }
}

/// The natural logarithm of a positive number.
pub(in crate::expr) fn ln(x: Decimal128) -> Decimal128 {
    if x.is_nan() || x.is_infinite() {
        return x;
    }
    fixed::ln(x)
}

/// The decimal exponent of a number above zero.
fn scale_of(x: Decimal128) -> i64 {
    match x.unpack() {
        crate::bson::decimal::Unpacked::Finite { coefficient, exponent, .. } => {
            let digits = coefficient.checked_ilog10().unwrap_or_default();
            i64::from(exponent) + i64::from(digits)
        }
        _ => 0,
    }
}

/// The logarithm to base 10 of a positive number; exact for powers of ten.
pub(in crate::expr) fn log10(x: Decimal128) -> Decimal128 {
    if x.is_nan() || x.is_infinite() {
        return x;
    }
    let scale = scale_of(x);
    let power = constant(&format!("1E{scale}"));
    if crate::bson::number::compare(Number::Decimal(power), Number::Decimal(x)).is_eq() {
        return d(scale);
    }
    fixed::log10(x)
}

/// A number to a power: by squaring for whole exponents, else by logarithms.
pub(in crate::expr) fn pow(x: Decimal128, y: Decimal128) -> Decimal128 {
    if y.is_zero() {
        return d(1);
    }
    let whole = Number::Decimal(y).to_exact_i64();
    if let Some(n) = whole.filter(|n| n.unsigned_abs() < 100_000) {
        let (mut result, mut base, mut rest) = (d(1), x, n.unsigned_abs());
        while rest > 0 {
            if rest & 1 == 1 {
                result = result.times(base);
            }
            base = base.times(base);
            rest >>= 1;
        }
        return padded(if n < 0 { d(1).divided_by(result) } else { result });
    }
    if x.is_negative() && !x.is_zero() || x.is_nan() || y.is_nan() || x.is_infinite() || y.is_infinite() {
        return Decimal128::from_f64(x.to_f64().powf(y.to_f64()));
    }
    if x.is_zero() {
        return d(0);
    }
    fixed::pow(x, y).unwrap_or_else(|| beyond(y.times(ln(x)).is_negative()))
}

/// The same number with 34 digits.
fn padded(number: Decimal128) -> Decimal128 {
    if number.is_zero() {
        return constant("0E-6176");
    }
    match number.unpack() {
        crate::bson::decimal::Unpacked::Finite { coefficient, exponent, .. } => {
            let digits = coefficient.checked_ilog10().and_then(|log| i32::try_from(log).ok()).unwrap_or_default() + 1;
            number.quantized(exponent - (34 - digits), Rounding::HalfEven)
        }
        _ => number,
    }
}

/// Sine and cosine.
pub(in crate::expr) fn sin_cos(x: Decimal128) -> (Decimal128, Decimal128) {
    let pi = constant(PI);
    let turn = pi.times(d(2));
    let turns = x.divided_by(turn).to_integral(Rounding::HalfEven);
    let r = x.minus(turns.times(turn));
    let square = r.times(r).negated();
    let (mut sin, mut cos, mut sin_term, mut cos_term) = (r, d(1), r, d(1));
    for n in 1..60 {
        cos_term = cos_term.times(square).divided_by(d((2 * n - 1) * 2 * n));
        cos = cos.plus(cos_term);
        sin_term = sin_term.times(square).divided_by(d(2 * n * (2 * n + 1)));
        sin = sin.plus(sin_term);
        if is_negligible(sin_term, d(1)) && is_negligible(cos_term, d(1)) {
            break;
        }
    }
    (sin, cos)
}

/// The angle whose tangent is a number.
pub(in crate::expr) fn atan(x: Decimal128) -> Decimal128 {
    if x.is_nan() || x.is_zero() {
        return x;
    }
    let half_pi = constant(PI).divided_by(d(2));
    if x.is_infinite() {
        return if x.is_negative() { half_pi.negated() } else { half_pi };
    }
    if x.abs().to_f64() > 1.0 {
        let rest = atan(d(1).divided_by(x.abs()));
        let angle = half_pi.minus(rest);
        return if x.is_negative() { angle.negated() } else { angle };
    }
    // Halve the angle four times, then the series.
    let (mut z, mut halvings) = (x, 0_i64);
    while z.abs().to_f64() > 0.05 && halvings < 6 {
        z = z.divided_by(d(1).plus(d(1).plus(z.times(z)).square_root()));
        halvings += 1;
    }
    let square = z.times(z).negated();
    let (mut sum, mut power) = (z, z);
    for n in 1..60 {
        power = power.times(square);
        let term = power.divided_by(d(2 * n + 1));
        sum = sum.plus(term);
        if is_negligible(term, sum) {
            break;
        }
    }
    sum.times(d(1 << halvings))
}
