//! `$median` and `$percentile`: what they are given, as expressions and as accumulators.

use crate::base::num::{nearest_f64, trunc_to_i64};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Value, ValueBuf};
use crate::expr::parser::Parser;
use crate::expr::tree::{Call, Expression, function};
use crate::expr::value::{Val, error};

/// The operand of either.
pub(crate) struct PercentileSpec<'v> {
    /// The numbers, an expression.
    pub(crate) input: Value<'v>,
    /// The shares of the numbers that lie below the results.
    pub(crate) shares: Vec<f64>,
    /// Whether the result is an array.
    pub(crate) many: bool,
}

impl<'v> PercentileSpec<'v> {
    /// Reads the operand.
    ///
    /// # Errors
    /// 7436100, 40415, 40414, 2, 14, and 7750301 to 7750303 for shares that are none.
    pub(crate) fn read(
        name: &str,
        operand: Value<'v>,
        parse: &mut dyn FnMut(Value<'v>) -> Result<Expression>,
    ) -> Result<Self> {
        let Value::Document(spec) = operand else {
            return Err(error(7_436_100, format!("specification must be an object; found {}", operand.to_json())));
        };
        let many = name == "$percentile";
        for element in spec {
            let known = element.name == "input" || element.name == "method" || many && element.name == "p";
            if !known {
                return Err(Error::new(
                    ErrorCode::IDL_UNKNOWN_FIELD,
                    format!("BSON field '{name}.{}' is an unknown field.", element.name),
                ));
            }
        }
        let missing = |field: &str| {
            Error::new(
                ErrorCode::IDL_FAILED_TO_PARSE,
                format!("BSON field '{name}.{field}' is missing but a required field"),
            )
        };
        let input = spec.get("input").ok_or_else(|| missing("input"))?;
        match spec.get("method").ok_or_else(|| missing("method"))? {
            Value::String(method) if method == "approximate" => {}
            Value::String(_) => {
                return Err(Error::bad_value("Currently only 'approximate' can be used as percentile 'method'"));
            }
            other => {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    format!(
                        "BSON field '{name}.method' is the wrong type '{}', expected type 'string'",
                        other.kind().name()
                    ),
                ));
            }
        }
        let mut shares = vec![0.5];
        if many {
            let p = parse(spec.get("p").ok_or_else(|| missing("p"))?)?;
            let wrong = || error(7_750_301, "The $percentile 'p' field must be an array of constant values");
            if !p.is_constant() {
                return Err(wrong());
            }
            let p = p.of(Document::empty())?;
            let Value::Array(array) = p.value() else { return Err(wrong()) };
            shares.clear();
            for value in array {
                let share = value
                    .as_f64()
                    .ok_or_else(|| error(7_750_302, "The $percentile 'p' field must be an array of numbers"))?;
                if !(0.0..=1.0).contains(&share) {
                    return Err(error(
                        7_750_303,
                        "The $percentile 'p' field must be an array of numbers from [0.0, 1.0]",
                    ));
                }
                shares.push(share);
            }
            if shares.is_empty() {
                return Err(wrong());
            }
        }
        Ok(Self { input, shares, many })
    }
}

/// The value below which a share of sorted numbers lies.
pub(crate) fn percentile(numbers: &[f64], share: f64) -> Option<f64> {
    numbers.get(percentile_at(numbers.len(), share)?).copied()
}

/// The place, among `count` sorted numbers, of the one below which a share of them lies.
pub(crate) fn percentile_at(count: usize, share: f64) -> Option<usize> {
    let last = count.checked_sub(1)?;
    let rank = (nearest_f64(i64::try_from(count).ok()?) * share).ceil() - 1.0;
    let at = trunc_to_i64(rank.max(0.0)).and_then(|rank| usize::try_from(rank).ok())?;
    Some(at.min(last))
}

pub(in crate::expr) fn parse(parser: &mut Parser<'_>, name: &'static str, value: Value<'_>) -> Result<Expression> {
    let PercentileSpec { input, shares, many } = PercentileSpec::read(name, value, &mut |value| parser.parse(value))?;
    let shares: Vec<Value<'_>> = shares.into_iter().map(Value::Double).collect();
    let shares = ValueBuf::array(shares);
    let arguments =
        vec![parser.parse(input)?, Expression::constant(shares.view()), Expression::constant(Value::Bool(many))];
    Ok(Expression::Call(Call { name, function: of_values, arguments }))
}

function!(of_values(call, env) {
    let input = call.argument(0, env)?;
    let mut numbers: Vec<f64> = match input.value() {
        Value::Array(array) => array.values().filter_map(|value| value.as_f64()).collect(),
        value => value.as_f64().into_iter().collect(),
    };
    numbers.retain(|number| !number.is_nan());
    numbers.sort_by(f64::total_cmp);
    let shares = call.argument(1, env)?;
    let shares = shares.value().as_array().into_iter().flatten().filter_map(|share| share.as_f64());
    let results: Vec<Value<'static>> =
        shares.map(|share| percentile(&numbers, share).map_or(Value::Null, Value::Double)).collect();
    if call.argument(2, env)?.truth() {
        return Ok(Val::Own(ValueBuf::array(results)));
    }
    Ok(Val::View(results.into_iter().next().unwrap_or(Value::Null)))
});
