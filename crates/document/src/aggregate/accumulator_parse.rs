//! The strict reading of accumulators.

use super::accumulator::{Accumulator, Kind};
use super::stage::error;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Element, Value};
use crate::expr::{Context, Expression, PercentileSpec, count_of, no_javascript};
use crate::path::Sort;

/// The accumulators that take one expression.
const UNARY: [&str; 13] = [
    "$sum",
    "$avg",
    "$min",
    "$max",
    "$first",
    "$last",
    "$push",
    "$addToSet",
    "$concatArrays",
    "$setUnion",
    "$mergeObjects",
    "$stdDevPop",
    "$stdDevSamp",
];

/// Reads the accumulator of a field: `{$sum: ..}`.
///
/// # Errors
/// 40234, 40238, 15952 and others.
pub(super) fn field(element: &Element<'_>, context: &Context) -> Result<Accumulator> {
    let name = element.name.to_str_lossy();
    if name.contains('.') {
        return Err(error(40235, format!("The field name '{name}' cannot contain '.'")));
    }
    if name.starts_with('$') {
        return Err(error(40236, format!("The field name '{name}' cannot be an operator name")));
    }
    let Value::Document(spec) = element.value else {
        return Err(error(40234, format!("The field '{name}' must be an accumulator object")));
    };
    let mut fields = spec.elements();
    let (Some(operator), None) = (fields.next(), fields.next()) else {
        return Err(if spec.is_empty() {
            error(40234, format!("The field '{name}' must be an accumulator object"))
        } else {
            error(40238, format!("The field '{name}' must specify one accumulator"))
        });
    };
    let operator_name = operator.name.to_str_lossy();
    if !operator_name.starts_with('$') {
        return Err(error(40234, format!("The field '{name}' must be an accumulator object")));
    }
    if operator.value.as_array().is_some() && UNARY.contains(&&*operator_name) {
        return Err(error(40237, format!("The {operator_name} accumulator is a unary operator")));
    }
    if matches!(operator.value, Value::MinKey | Value::MaxKey) && UNARY.contains(&&*operator_name) {
        // As in MongoDB, these two constants come out within a document.
        let mut wrapped = DocumentBuilder::new();
        wrapped.open_document("$literal").append("", operator.value).close();
        let wrapped = wrapped.finish();
        return accumulator(&operator_name, Value::Document(wrapped.view()), context)?
            .ok_or_else(|| error(15952, format!("unknown group operator '{operator_name}'")));
    }
    accumulator(&operator_name, operator.value, context)?
        .ok_or_else(|| error(15952, format!("unknown group operator '{operator_name}'")))
}

/// Reads the accumulator of a name, if there is one.
///
/// # Errors
/// Those of its operand.
pub(super) fn accumulator(name: &str, operand: Value<'_>, context: &Context) -> Result<Option<Accumulator>> {
    let kind = match name {
        "$sum" => Kind::Sum,
        "$avg" => Kind::Average,
        "$min" => Kind::Extreme(false),
        "$max" => Kind::Extreme(true),
        "$first" => Kind::End(false),
        "$last" => Kind::End(true),
        "$push" => Kind::Push,
        "$addToSet" => Kind::Set,
        "$concatArrays" => Kind::Concat,
        "$setUnion" => Kind::Union,
        "$mergeObjects" => Kind::Merge,
        "$stdDevPop" => Kind::Deviation(false),
        "$stdDevSamp" => Kind::Deviation(true),
        "$count" => {
            if operand.as_array().is_some() {
                return Err(error(40237, "The $count accumulator is a unary operator"));
            }
            if !matches!(operand, Value::Document(document) if document.is_empty()) {
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, "$count takes no arguments, i.e. $count:{}"));
            }
            return Ok(Some(Accumulator::counting()));
        }
        "$firstN" | "$lastN" | "$minN" | "$maxN" => return counted(name, operand, context).map(Some),
        "$top" | "$bottom" | "$topN" | "$bottomN" => return ordered(name, operand, context).map(Some),
        "$median" | "$percentile" => return percentile(name, operand, context).map(Some),
        "$accumulator" => return Err(no_javascript()),
        _ => return Ok(None),
    };
    Accumulator::new(kind, operand, context).map(Some)
}

fn counted(name: &str, operand: Value<'_>, context: &Context) -> Result<Accumulator> {
    let Value::Document(spec) = operand else {
        return Err(error(5_787_900, format!("specification must be an object; found {}", operand.to_json())));
    };
    if let Some(unknown) = spec.elements().find(|element| element.name != "n" && element.name != "input") {
        return Err(error(5_787_901, format!("Unknown argument for '{name}' operator: {}", unknown.name)));
    }
    let input = spec.get("input").ok_or_else(|| error(5_787_907, format!("Missing value for 'input' in '{name}'")))?;
    let n = spec.get("n").ok_or_else(|| error(5_787_906, format!("Missing value for 'n' in '{name}'")))?;
    let n = count(n, context)?;
    let kind = match name {
        "$firstN" => Kind::EndN(false, n),
        "$lastN" => Kind::EndN(true, n),
        "$minN" => Kind::ExtremeN(false, n),
        _ => Kind::ExtremeN(true, n),
    };
    Accumulator::new(kind, input, context)
}

/// The count, checked at once when it is constant.
fn count(n: Value<'_>, context: &Context) -> Result<Expression> {
    let n = crate::expr::parse(n, context)?;
    if n.is_constant() {
        count_of(&n.of(Document::empty())?).map_err(|wrong| error(7_548_606, wrong.message()))?;
    }
    Ok(n)
}

fn ordered(name: &str, operand: Value<'_>, context: &Context) -> Result<Accumulator> {
    let many = name.ends_with('N');
    let Value::Document(spec) = operand else {
        return Err(error(5_788_001, format!("specification must be an object; found {}", operand.to_json())));
    };
    for element in spec {
        let known = element.name == "sortBy" || element.name == "output" || many && element.name == "n";
        if !known {
            return Err(error(5_788_002, format!("Unknown argument to {name} '{}'", element.name)));
        }
    }
    let n = match spec.get("n") {
        Some(n) => Some(count(n, context)?),
        None if many => return Err(error(5_788_003, format!("Missing value for 'n' in {name}"))),
        None => None,
    };
    let output = spec.get("output").ok_or_else(|| error(5_788_004, format!("Missing value for 'output' in {name}")))?;
    let by = spec.get("sortBy").ok_or_else(|| error(5_788_005, format!("Missing value for 'sortBy' in {name}")))?;
    let Value::Document(pattern) = by else {
        return Err(error(5_788_604, format!("expected 'sortBy' to already be an object in the arguments to {name}")));
    };
    let sort = Sort::parse(pattern, context.collation.as_ref())?;
    Accumulator::new(Kind::Top(sort, name.starts_with("$bottom"), n), output, context)
}

fn percentile(name: &str, operand: Value<'_>, context: &Context) -> Result<Accumulator> {
    let PercentileSpec { input, shares, many } =
        PercentileSpec::read(name, operand, &mut |value| crate::expr::parse(value, context))?;
    Accumulator::new(Kind::Percentile(shares, many), input, context)
}
