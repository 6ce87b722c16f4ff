//! The strict reading of `$setWindowFields` and `$fill`.

use std::sync::Arc;

use super::spec::{Bound, Function, Output, Window, WindowFields};
use crate::aggregate::accumulator_parse;
use crate::aggregate::stage::{Parser, Stage, Stages, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Element, Value};
use crate::expr::{Context, Expression};
use crate::path::{Path, Sort};
use crate::projection::Projection;

fn failed(what: impl Into<String>) -> Error {
    Error::new(ErrorCode::FAILED_TO_PARSE, what)
}

/// The milliseconds of a unit of time of fixed length.
fn unit_of(value: Value<'_>) -> Result<i64> {
    let name = value.as_str().ok_or_else(|| failed("'unit' must be a string"))?;
    Ok(match name {
        "week" => 604_800_000,
        "day" => 86_400_000,
        "hour" => 3_600_000,
        "minute" => 60_000,
        "second" => 1000,
        "millisecond" => 1,
        "year" | "quarter" | "month" => return Err(error(5_490_710, "unit must be 'week' or smaller")),
        other => return Err(failed(format!("unknown time unit value: {other}"))),
    })
}

pub(in crate::aggregate) fn read(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(failed(format!(
            "the $setWindowFields stage specification must be an object, found {}",
            value.kind().name()
        )));
    };
    let (mut partition, mut sort, mut outputs) = (None, None, None);
    for element in spec {
        match (element.name.as_bytes(), element.value) {
            (b"partitionBy", value) => partition = Some(crate::expr::parse(value, parser.context)?),
            (b"sortBy", Value::Document(pattern)) => {
                sort = Some(Sort::parse(pattern, parser.context.collation.as_ref())?)
            }
            (b"output", Value::Document(fields)) => outputs = Some(fields),
            (b"sortBy" | b"output", other) => {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    format!(
                        "BSON field '$setWindowFields.{}' is the wrong type '{}', expected type 'object'",
                        element.name,
                        other.kind().name()
                    ),
                ));
            }
            _ => {
                return Err(Error::new(
                    ErrorCode::IDL_UNKNOWN_FIELD,
                    format!("BSON field '$setWindowFields.{}' is an unknown field.", element.name),
                ));
            }
        }
    }
    let fields = outputs.ok_or_else(|| {
        Error::new(
            ErrorCode::IDL_FAILED_TO_PARSE,
            "BSON field '$setWindowFields.output' is missing but a required field",
        )
    })?;
    let mut outputs = Vec::new();
    for element in fields {
        let path = element.name.to_str_lossy();
        crate::expr::parser::check_path(&path)?;
        let Value::Document(spec) = element.value else {
            return Err(failed(format!("The field '{path}' must be an object")));
        };
        let (function, window) = function(spec, sort.as_ref(), parser.context)?;
        outputs.push(Output { path: Path::new(&*path), function, window });
    }
    Ok(vec![Arc::new(WindowFields { name, partition, sort, outputs, collation: parser.context.collation.clone() })])
}

fn function(spec: Document<'_>, sort: Option<&Sort>, context: &Context) -> Result<(Function, Window)> {
    let (mut found, mut window, mut others) = (None, None, None);
    for element in spec {
        if element.name == "window" {
            let Value::Document(window_spec) = element.value else {
                return Err(failed("'window' field must be an object"));
            };
            window = Some(window_of(window_spec, sort)?);
        } else if element.name.as_bytes().starts_with(b"$") && found.is_none() {
            found = Some(element);
        } else {
            others = Some(element.name);
        }
    }
    let operator = found.ok_or_else(|| failed("Expected a $-prefixed window function"))?;
    if let Some(other) = others {
        let what = format!("Window function found an unknown argument: {other}");
        let of_ranks = ["$rank", "$denseRank", "$documentNumber"].iter().any(|name| operator.name == *name);
        return Err(if of_ranks { error(5_371_601, what) } else { failed(what) });
    }
    let function = operator_of(&operator, window.is_some(), sort, context)?;
    Ok((function, window.unwrap_or(Window::All)))
}

/// The function of an operator.
fn operator_of(operator: &Element<'_>, windowed: bool, sort: Option<&Sort>, context: &Context) -> Result<Function> {
    let name = operator.name.to_str_lossy();
    let needs_sort = |sort: Option<&Sort>| {
        if sort.is_some() {
            Ok(())
        } else {
            Err(error(
                5_371_602,
                format!("{name} must be specified with a top level sortBy expression with exactly one element"),
            ))
        }
    };
    let rank_like = || -> Result<()> {
        if windowed {
            return Err(error(5_371_601, format!("Rank style window functions take no other arguments: {name}")));
        }
        if !matches!(operator.value, Value::Document(document) if document.is_empty()) {
            return Err(error(5_371_603, format!("(None) {name} must be specified with '{{}}' as the value")));
        }
        needs_sort(sort.filter(|sort| sort.fields().len() == 1))
    };
    Ok(match &*name {
        "$rank" | "$denseRank" => {
            rank_like()?;
            Function::Rank { dense: &*name == "$denseRank" }
        }
        "$documentNumber" => {
            rank_like()?;
            Function::Number
        }
        "$shift" => {
            needs_sort(sort)?;
            shift(operator.value, context)?
        }
        "$derivative" | "$integral" => {
            needs_sort(sort)?;
            over_time(&name, operator.value, windowed, context)?
        }
        "$expMovingAvg" => {
            needs_sort(sort)?;
            moving_average(operator.value, context)?
        }
        "$covariancePop" | "$covarianceSamp" => covariance(&name, operator.value, context)?,
        "$linearFill" => {
            needs_sort(sort)?;
            Function::LinearFill(crate::expr::parse(operator.value, context)?)
        }
        "$locf" => Function::CarriedForward(crate::expr::parse(operator.value, context)?),
        other => {
            let accumulator = accumulator_parse::accumulator(other, operator.value, context)?;
            Function::Accumulate(accumulator.ok_or_else(|| failed(format!("Unrecognized window function, {other}")))?)
        }
    })
}

/// `$derivative` and `$integral`.
fn over_time(name: &str, value: Value<'_>, windowed: bool, context: &Context) -> Result<Function> {
    let Value::Document(spec) = value else { return Err(failed(format!("{name} expects an object"))) };
    let input = spec.get("input").ok_or_else(|| failed(format!("{name} requires an 'input' expression")))?;
    let (input, unit) = (crate::expr::parse(input, context)?, spec.get("unit").map(unit_of).transpose()?);
    if name == "$derivative" {
        if !windowed {
            return Err(failed("$derivative requires explicit window bounds"));
        }
        Ok(Function::Derivative { input, unit })
    } else {
        Ok(Function::Integral { input, unit })
    }
}

/// `$covariancePop` and `$covarianceSamp`: two expressions; other operands give null for every document.
fn covariance(name: &str, value: Value<'_>, context: &Context) -> Result<Function> {
    let pair = value.as_array().map(|array| array.values().collect::<Vec<_>>()).unwrap_or_default();
    Ok(match &pair[..] {
        [x, y] => {
            let (x, y) = (crate::expr::parse(*x, context)?, crate::expr::parse(*y, context)?);
            Function::Covariance { x, y, sample: name == "$covarianceSamp" }
        }
        // Other operands give null for every document.
        _ => Function::Covariance { x: Expression::Missing, y: Expression::Missing, sample: false },
    })
}

fn shift(value: Value<'_>, context: &Context) -> Result<Function> {
    let Value::Document(spec) = value else { return Err(failed("Argument to $shift must be an object")) };
    if let Some(unknown) =
        spec.elements().find(|element| !["output", "by", "default"].iter().any(|known| element.name == *known))
    {
        return Err(failed(format!("Unknown argument in $shift: {}", unknown.name)));
    }
    let by = spec.get("by").ok_or_else(|| failed("$shift requires 'by' as an integer value."))?;
    let by = by.as_exact_i64().ok_or_else(|| failed("'$shift:by' field must be an integer"))?;
    let output = spec.get("output").ok_or_else(|| failed("$shift requires an 'output' expression."))?;
    let default = match spec.get("default") {
        None => Value::Null.into(),
        Some(default) => {
            let default = crate::expr::parse(default, context)?;
            if !default.is_constant() {
                return Err(failed("'$shift:default' expression must yield a constant value."));
            }
            default.of(Document::empty())?.into_buf().unwrap_or_else(|| Value::Null.into())
        }
    };
    Ok(Function::Shift { output: crate::expr::parse(output, context)?, by, default })
}

fn moving_average(value: Value<'_>, context: &Context) -> Result<Function> {
    let Value::Document(spec) = value else { return Err(failed("$expMovingAvg must have an object argument")) };
    let input = spec.get("input").ok_or_else(|| failed("$expMovingAvg requires an 'input'"))?;
    let alpha = match (spec.get("N"), spec.get("alpha")) {
        (Some(n), None) => {
            let n = n
                .as_exact_i64()
                .filter(|n| *n > 0)
                .ok_or_else(|| failed("'N' field must be an integer greater than zero"))?;
            2.0 / (crate::base::num::nearest_f64(n) + 1.0)
        }
        (None, Some(alpha)) => {
            let alpha = alpha.as_f64().ok_or_else(|| failed("'alpha' must be a number"))?;
            if !(alpha > 0.0 && alpha < 1.0) {
                return Err(failed("'alpha' must be between 0 and 1 (exclusive)"));
            }
            alpha
        }
        _ => return Err(failed("$expMovingAvg requires either 'N' or 'alpha'")),
    };
    Ok(Function::MovingAverage { input: crate::expr::parse(input, context)?, alpha })
}

fn window_of(spec: Document<'_>, sort: Option<&Sort>) -> Result<Window> {
    if let Some(unknown) =
        spec.elements().find(|element| !["documents", "range", "unit"].iter().any(|known| element.name == *known))
    {
        return Err(failed(format!("'window' field must be 'documents', 'range' or 'unit', not {}", unknown.name)));
    }
    let unit = spec.get("unit").map(unit_of).transpose()?;
    match (spec.get("documents"), spec.get("range")) {
        (Some(_), Some(_)) => Err(failed("Window bounds can specify either 'documents' or 'range', not both.")),
        (Some(documents), None) => {
            if unit.is_some() {
                return Err(failed("'unit' is only valid with range-based bounds"));
            }
            let (low, high) = bounds(documents, true)?;
            let bounded = matches!(low, Bound::Offset(_)) || matches!(high, Bound::Offset(_));
            if bounded && sort.is_none() {
                return Err(error(5_339_901, "Document-based bounds require a sortBy"));
            }
            Ok(Window::Documents(low, high))
        }
        (None, Some(range)) => {
            if sort.is_none_or(|sort| sort.fields().len() != 1) {
                return Err(error(5_339_902, "Range-based bounds require sortBy a single field"));
            }
            if sort.is_some_and(|sort| sort.fields()[0].1) {
                return Err(error(8_947_401, "Range-based bounds require an ascending sort"));
            }
            let (low, high) = bounds(range, false)?;
            Ok(Window::Range(low, high, unit))
        }
        (None, None) if unit.is_some() => Err(failed("Window bounds can only specify 'unit' with range-based bounds.")),
        (None, None) => Ok(Window::All),
    }
}

fn bounds(value: Value<'_>, whole: bool) -> Result<(Bound, Bound)> {
    let pair = value.as_array().map(|array| array.values().collect::<Vec<_>>()).unwrap_or_default();
    let [low, high] = &pair[..] else { return Err(failed("Window bounds must be a 2-element array")) };
    let one = |value: &Value<'_>| match value {
        Value::String(name) if name == "unbounded" => Ok(Bound::Unbounded),
        Value::String(name) if name == "current" => Ok(Bound::Offset(0.0)),
        value if value.kind().is_number() => {
            if whole && value.as_exact_i64().is_none() {
                return Err(failed("Numeric document-based bounds must be an integer"));
            }
            Ok(Bound::Offset(value.as_f64().unwrap_or_default()))
        }
        other => Err(failed(format!("Window bounds must be 'unbounded', 'current', or a number: {}", other.to_json()))),
    };
    let (low, high) = (one(low)?, one(high)?);
    if let (Bound::Offset(low), Bound::Offset(high)) = (low, high)
        && low > high
    {
        return Err(error(5_339_900, "Lower bound must not exceed upper bound"));
    }
    Ok((low, high))
}

pub(in crate::aggregate) fn read_fill(parser: &Parser<'_>, name: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(failed(format!("The argument to $fill must be an object, but was type: {}", value.kind().name())));
    };
    if spec.get("partitionBy").is_some() && spec.get("partitionByFields").is_some() {
        let what = "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'";
        return Err(error(6_050_204, what));
    }
    let (mut partition, mut sort, mut fields) = (None, None, None);
    for element in spec {
        match (element.name.as_bytes(), element.value) {
            (b"partitionBy", value) => partition = Some(crate::expr::parse(value, parser.context)?),
            (b"partitionByFields", Value::Array(names)) => {
                let mut parts = Vec::new();
                for name in names {
                    let name = name
                        .as_str()
                        .ok_or_else(|| Error::new(ErrorCode::TYPE_MISMATCH, "partitionByFields must be strings"))?;
                    crate::expr::parser::check_path(name)?;
                    parts.push((name.replace('.', "\u{1}"), Expression::Field(Path::new(name))));
                }
                partition = Some(Expression::Document(parts));
            }
            (b"sortBy", Value::Document(pattern)) => {
                sort = Some(Sort::parse(pattern, parser.context.collation.as_ref())?)
            }
            (b"output", Value::Document(output)) => fields = Some(output),
            (b"partitionByFields" | b"sortBy" | b"output", other) => {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    format!("BSON field '$fill.{}' is the wrong type '{}'", element.name, other.kind().name()),
                ));
            }
            _ => {
                return Err(Error::new(
                    ErrorCode::IDL_UNKNOWN_FIELD,
                    format!("BSON field '$fill.{}' is an unknown field.", element.name),
                ));
            }
        }
    }
    let fields = fields.ok_or_else(|| {
        Error::new(ErrorCode::IDL_FAILED_TO_PARSE, "BSON field '$fill.output' is missing but a required field")
    })?;
    let (mut outputs, mut constants) = (Vec::new(), crate::bson::DocumentBuilder::new());
    for element in fields {
        let path = element.name.to_str_lossy();
        let Value::Document(how) = element.value else {
            return Err(failed(format!("$fill output '{path}' must be an object")));
        };
        let field = Expression::Field(Path::new(&*path));
        if let (None, Some(value)) = (how.get("method"), how.get("value")) {
            let path_text = format!("${path}");
            constants.open_document(&*path).open_array("$ifNull").push(Value::from(&path_text)).push(value);
            constants.close().close();
            continue;
        }
        let function = method_of(how, field, sort.is_some())?;
        outputs.push(Output { path: Path::new(&*path), function, window: Window::All });
    }
    let mut stages: Vec<Arc<dyn Stage>> =
        vec![Arc::new(WindowFields { name, partition, sort, outputs, collation: parser.context.collation.clone() })];
    if !constants.is_empty() {
        let constants = constants.finish();
        stages.push(crate::aggregate::reshape::added(
            "$addFields",
            Projection::of_added(constants.view(), parser.context)?,
        ));
    }
    Ok(stages)
}

/// The function of a method of `$fill`.
fn method_of(how: Document<'_>, field: Expression, sorted: bool) -> Result<Function> {
    match (how.get("method"), how.get("value")) {
        (Some(Value::String(method)), None) if method == "linear" => {
            if !sorted {
                return Err(failed("$fill with method 'linear' requires sortBy"));
            }
            Ok(Function::LinearFill(field))
        }
        (Some(Value::String(method)), None) if method == "locf" => Ok(Function::CarriedForward(field)),
        _ => Err(failed("$fill output needs either a 'method' of 'linear' or 'locf', or a 'value'")),
    }
}
