//! `$bucket`: groups of ranges that are given.

use std::sync::Arc;

use super::accumulator::Accumulator;
use super::accumulator_parse;
use super::group::Group;
use super::sort::SortStage;
use super::stage::{Parser, Stages, error};
use crate::base::Result;
use crate::bson::{Document, DocumentBuilder, Value, ValueBuf};
use crate::collation::compare;
use crate::expr::{Context, Expression};
use crate::path::Sort;

pub(super) type Fields = Vec<(String, Accumulator)>;

/// The fields of `output`; a count without it.
pub(super) fn output(value: Option<Value<'_>>, wrong: i32, context: &Context) -> Result<Fields> {
    let Some(value) = value else {
        return Ok(vec![("count".to_owned(), Accumulator::counting())]);
    };
    let Value::Document(spec) = value else {
        return Err(error(
            wrong,
            format!("The 'output' field must be an object, but found type: {}", value.kind().name()),
        ));
    };
    let mut fields = Vec::new();
    for element in spec {
        if element.name == "_id" {
            return Err(error(15948, "'_id' is a reserved output field name"));
        }
        fields.push((element.name.to_str_lossy().into_owned(), accumulator_parse::field(&element, context)?));
    }
    Ok(fields)
}

/// Whether a value is an expression as `groupBy` takes it.
pub(super) fn is_expression(value: &Value<'_>) -> bool {
    match value {
        Value::String(path) => path.as_bytes().starts_with(b"$"),
        Value::Document(document) => document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")),
        _ => false,
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let Value::Document(spec) = value else {
        return Err(error(
            40201,
            format!("Argument to $bucket stage must be an object, but found type: {}", value.kind().name()),
        ));
    };
    let (mut by, mut boundaries, mut default) = (None, None, None);
    for element in spec {
        match element.name.as_bytes() {
            b"groupBy" => {
                if !is_expression(&element.value) {
                    return Err(error(
                        40202,
                        format!(
                            "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression, but found: {}",
                            element.value.to_json()
                        ),
                    ));
                }
                by = Some(element.value);
            }
            b"boundaries" => boundaries = Some(boundaries_of(element.value, parser.context)?),
            b"default" => {
                let constant = crate::expr::parse(element.value, parser.context)?;
                if !constant.is_constant() {
                    return Err(error(
                        40195,
                        format!(
                            "The $bucket 'default' field must be a constant expression, but found: {}",
                            element.value.to_json()
                        ),
                    ));
                }
                default = constant.of(Document::empty())?.into_buf();
            }
            b"output" => {}
            _ => return Err(error(40197, format!("Unrecognized option to $bucket: {}.", element.name))),
        }
    }
    let fields = output(spec.get("output"), 40196, parser.context)?;
    let (Some(by), Some(boundaries)) = (by, boundaries) else {
        return Err(error(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified."));
    };
    if let (Some(default), Some(low), Some(high)) = (&default, boundaries.first(), boundaries.last()) {
        let order =
            |boundary: &ValueBuf| compare(parser.context.collation.as_deref(), &default.view(), &boundary.view());
        let within = order(low).is_ge() && order(high).is_lt();
        if within {
            return Err(error(
                40199,
                "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the highest boundary.",
            ));
        }
    }
    let collation = &parser.context.collation;
    let id = bucket_expression(by, &boundaries, default.as_ref(), parser.context)?;
    let group = Group::new(id, fields, collation.clone());
    Ok(vec![Arc::new(group), Arc::new(SortStage::new(Sort::by("_id", false, collation.clone())))])
}

/// The lower boundary of the bucket of a value, as a `$switch`.
fn bucket_expression(
    by: Value<'_>,
    boundaries: &[ValueBuf],
    default: Option<&ValueBuf>,
    context: &Context,
) -> Result<Expression> {
    let literal = |value: &ValueBuf| {
        let mut builder = DocumentBuilder::new();
        builder.append("$literal", value.view());
        builder.finish()
    };
    let mut builder = DocumentBuilder::new();
    builder.open_document("$switch").open_array("branches");
    for pair in boundaries.windows(2) {
        let (low, high) = (literal(&pair[0]), literal(&pair[1]));
        builder.push_document().open_document("case").open_array("$and");
        builder.push_document().open_array("$gte").push(by).push(&low).close().close();
        builder.push_document().open_array("$lt").push(by).push(&high).close().close();
        builder.close().close().append("then", &low).close();
    }
    builder.close();
    if let Some(default) = default {
        builder.append("default", &literal(default));
    }
    builder.close();
    let switch = builder.finish();
    crate::expr::parse(Value::Document(switch.view()), context)
}

fn boundaries_of(value: Value<'_>, context: &Context) -> Result<Vec<ValueBuf>> {
    let Value::Array(array) = value else {
        return Err(error(
            40200,
            format!("The $bucket 'boundaries' field must be an array, but found type: {}.", value.kind().name()),
        ));
    };
    let mut boundaries: Vec<ValueBuf> = Vec::new();
    for value in array {
        let constant = crate::expr::parse(value, context)?;
        if !constant.is_constant() {
            return Err(error(
                40191,
                format!(
                    "The $bucket 'boundaries' field must be an array of constant values, but found value: {}.",
                    value.to_json()
                ),
            ));
        }
        boundaries.push(constant.of(Document::empty())?.into_buf().unwrap_or_else(|| Value::Null.into()));
    }
    if boundaries.len() < 2 {
        return Err(error(
            40192,
            format!(
                "The $bucket 'boundaries' field must have at least 2 values, but found {} value(s).",
                boundaries.len()
            ),
        ));
    }
    for pair in boundaries.windows(2) {
        let (low, high) = (pair[0].view(), pair[1].view());
        if low.class() != high.class() {
            return Err(error(40193, "All values in the 'boundaries' option to $bucket must have the same type."));
        }
        if compare(context.collation.as_deref(), &low, &high).is_ge() {
            return Err(error(40194, "The 'boundaries' option to $bucket must be sorted in ascending order."));
        }
    }
    Ok(boundaries)
}
