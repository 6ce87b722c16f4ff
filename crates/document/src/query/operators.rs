//! The operators of a field's condition, such as `{$gt: 1, $lt: 5}`.

use super::bitmask::BitMask;
use super::node::Node;
use super::parse::{Place, all_of, document, is_operators, leaf, pattern_of};
use super::predicate::{Choices, Comparison, Predicate};
use super::types::Types;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Text, Value};
use crate::expr::Context;
use crate::path::Path;
use crate::pattern::Pattern;

/// Adds the parts of a document of operators on a path.
pub(super) fn parse(path: &Path, operators: Document<'_>, context: &Context, nodes: &mut Vec<Node>) -> Result<()> {
    for element in operators {
        let name = element.name.to_str_lossy();
        match &*name {
            "$regex" | "$options" => {
                // The two are read together, where the first of them stands.
                let first = operators.elements().find(|other| other.name == "$regex" || other.name == "$options");
                if first.is_some_and(|first| first.name == element.name) {
                    nodes.push(leaf(path, regex(operators)?));
                }
            }
            name => nodes.extend(operator(path, name, element.value, context)?),
        }
    }
    Ok(())
}

fn operator(path: &Path, name: &str, operand: Value<'_>, context: &Context) -> Result<Option<Node>> {
    let compare = |comparison| Predicate::compare(comparison, operand).map(|test| leaf(path, test));
    Ok(Some(match name {
        "$eq" => compare(Comparison::Equal)?,
        "$gt" => compare(Comparison::Greater)?,
        "$gte" => compare(Comparison::GreaterOrEqual)?,
        "$lt" => compare(Comparison::Less)?,
        "$lte" => compare(Comparison::LessOrEqual)?,
        "$ne" => {
            if matches!(operand, Value::Regex(_)) {
                return Err(Error::bad_value("Can't have regex as arg to $ne."));
            }
            Node::Not(Box::new(compare(Comparison::Equal)?))
        }
        "$in" => leaf(path, Predicate::In(choices(name, operand)?)),
        "$nin" => Node::Not(Box::new(leaf(path, Predicate::In(choices(name, operand)?)))),
        "$not" => not(path, operand, context)?,
        "$exists" => {
            let exists = leaf(path, Predicate::Exists);
            if truth(&operand) { exists } else { Node::Not(Box::new(exists)) }
        }
        "$type" => leaf(path, Predicate::Type(Types::parse(&operand)?)),
        "$mod" => leaf(path, modulo(operand)?),
        "$size" => leaf(path, Predicate::Size(size(operand)?)),
        "$all" => all(path, operand, context)?,
        "$elemMatch" => element_match(path, operand, context)?,
        "$bitsAllSet" => leaf(path, Predicate::Bits(BitMask::parse(name, &operand, true, true)?)),
        "$bitsAllClear" => leaf(path, Predicate::Bits(BitMask::parse(name, &operand, true, false)?)),
        "$bitsAnySet" => leaf(path, Predicate::Bits(BitMask::parse(name, &operand, false, true)?)),
        "$bitsAnyClear" => leaf(path, Predicate::Bits(BitMask::parse(name, &operand, false, false)?)),
        "$comment" => return Ok(None),
        "$near" | "$nearSphere" | "$geoNear" => {
            let what = "unable to find index for $geoNear query: there are no geospatial indexes";
            return Err(Error::new(ErrorCode::new(291), what));
        }
        "$geoWithin" | "$geoIntersects" | "$within" => {
            return Err(Error::new(
                ErrorCode::NOT_IMPLEMENTED,
                format!("{name}: geospatial queries are not supported"),
            ));
        }
        other => return Err(Error::bad_value(format!("unknown operator: {other}"))),
    }))
}

/// Whether a value counts as true: all but false, null, undefined and the zeros.
pub(crate) fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(is) => *is,
        Value::Null | Value::Undefined => false,
        Value::Double(number) => *number != 0.0,
        Value::Int32(number) => *number != 0,
        Value::Int64(number) => *number != 0,
        Value::Decimal128(number) => !number.is_zero(),
        _ => true,
    }
}

fn choices(name: &str, operand: Value<'_>) -> Result<Choices> {
    let Value::Array(array) = operand else { return Err(Error::bad_value(format!("{name} needs an array"))) };
    let (mut values, mut patterns) = (Vec::new(), Vec::new());
    for value in array {
        match value {
            Value::Document(document) if is_operators(document) => {
                return Err(Error::bad_value(format!("cannot nest $ under {name}")));
            }
            Value::Regex(regex) => {
                patterns.push(pattern_of(regex)?);
                values.push(value.into());
            }
            Value::Undefined => return Err(Error::bad_value("InMatchExpression equality cannot be undefined")),
            value => values.push(value.into()),
        }
    }
    Ok(Choices::new(values, patterns))
}

fn not(path: &Path, operand: Value<'_>, context: &Context) -> Result<Node> {
    match operand {
        Value::Regex(regex) => Ok(Node::Not(Box::new(leaf(path, Predicate::Regex(pattern_of(regex)?))))),
        Value::Document(operators) if operators.is_empty() => Err(Error::bad_value("$not cannot be empty")),
        Value::Document(operators) => {
            if !is_operators(operators) {
                let name = operators.first().map_or(Text::default(), |first| first.name);
                return Err(Error::bad_value(format!("unknown operator: {name}")));
            }
            let mut nodes = Vec::new();
            parse(path, operators, context, &mut nodes)?;
            Ok(Node::Not(Box::new(all_of(nodes))))
        }
        _ => Err(Error::bad_value("$not needs a regex or a document")),
    }
}

fn regex(operators: Document<'_>) -> Result<Predicate> {
    let text = |text: Text<'_>, what: &str| {
        let text = text.as_str().map(str::to_owned);
        text.filter(|text| !text.contains('\0'))
            .ok_or_else(|| Error::bad_value(format!("{what} must be UTF-8 and cannot contain an embedded null byte")))
    };
    let (mut source, mut options) = (None, None);
    for element in operators {
        if element.name == "$regex" {
            source = Some(match element.value {
                Value::String(pattern) | Value::Symbol(pattern) => text(pattern, "Regular expression")?,
                Value::Regex(regex) => {
                    let (pattern, flags) = regex.parts();
                    if !flags.is_empty() {
                        if options.is_some() {
                            return Err(Error::new(ErrorCode::new(51074), "options set in both $regex and $options"));
                        }
                        options = Some(text(flags, "Regular expression options")?);
                    }
                    text(pattern, "Regular expression")?
                }
                _ => return Err(Error::bad_value("$regex has to be a string")),
            });
        } else if element.name == "$options" {
            let Value::String(flags) = element.value else {
                return Err(Error::bad_value("$options has to be a string"));
            };
            if options.is_some() {
                return Err(Error::new(ErrorCode::new(51075), "options set in both $regex and $options"));
            }
            options = Some(text(flags, "Regular expression options")?);
        }
    }
    let source = source.ok_or_else(|| Error::bad_value("$options needs a $regex"))?;
    let mut options: Vec<char> = options.unwrap_or_default().chars().collect();
    options.sort_unstable();
    Ok(Predicate::Regex(Pattern::new(&source, &options.into_iter().collect::<String>())?))
}

fn modulo(operand: Value<'_>) -> Result<Predicate> {
    let Value::Array(array) = operand else { return Err(Error::bad_value("malformed mod, needs to be an array")) };
    let mut values = array.values();
    let (divisor, remainder) = match (values.next(), values.next(), values.next()) {
        (None, ..) => return Err(Error::bad_value("malformed mod, not enough elements")),
        (_, _, Some(_)) => return Err(Error::bad_value("malformed mod, too many elements")),
        (Some(divisor), remainder, None) => (divisor, remainder),
    };
    let whole = |value: &Value<'_>, what: &str| {
        let number =
            value.as_number().ok_or_else(|| Error::bad_value(format!("malformed mod, {what} not a number")))?;
        number.trunc_to_i64().ok_or_else(|| {
            Error::bad_value(format!("malformed mod, {what} value is invalid :: caused by :: out of range"))
        })
    };
    let divisor = whole(&divisor, "divisor")?;
    let Some(remainder) = remainder else { return Err(Error::bad_value("malformed mod, not enough elements")) };
    let remainder = whole(&remainder, "remainder")?;
    if divisor == 0 {
        return Err(Error::bad_value("divisor cannot be 0"));
    }
    Ok(Predicate::Mod(divisor, remainder))
}

fn size(operand: Value<'_>) -> Result<i64> {
    let shown = || operand.to_json();
    let failed = |what: &str| Error::bad_value(format!("Failed to parse $size. {what} in: $size: {}", shown()));
    if operand.as_number().is_none() {
        return Err(failed("Expected a number"));
    }
    match operand.as_exact_i64() {
        Some(count) if i32::try_from(count).is_ok_and(|count| count >= 0) => Ok(count),
        Some(count) if count > 0 => Err(failed("Cannot represent as an int")),
        Some(_) => Err(failed("Expected a non-negative number")),
        None => Err(failed("Expected an integer")),
    }
}

fn all(path: &Path, operand: Value<'_>, context: &Context) -> Result<Node> {
    let Value::Array(array) = operand else { return Err(Error::bad_value("$all needs an array")) };
    let elements = array.values().next().is_some_and(|first| element_match_of(&first).is_some());
    let mut nodes = Vec::new();
    for value in array {
        nodes.push(match (element_match_of(&value), value) {
            (Some(operand), _) if elements => element_match(path, operand, context)?,
            (None, _) if elements => return Err(Error::bad_value("$all/$elemMatch has to be consistent")),
            (_, Value::Document(document)) if is_operators(document) => {
                return Err(Error::bad_value("no $ expressions in $all"));
            }
            (_, Value::Regex(regex)) => leaf(path, Predicate::Regex(pattern_of(regex)?)),
            (_, value) => leaf(path, Predicate::compare(Comparison::Equal, value)?),
        });
    }
    Ok(if nodes.is_empty() { Node::Always(false) } else { all_of(nodes) })
}

/// The operand of a value `{$elemMatch: operand}`.
fn element_match_of<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    let first = value.as_document()?.first()?;
    (first.name == "$elemMatch").then_some(first.value)
}

fn element_match(path: &Path, operand: Value<'_>, context: &Context) -> Result<Node> {
    let Value::Document(conditions) = operand else { return Err(Error::bad_value("$elemMatch needs an Object")) };
    let logical = |name: Text<'_>| {
        ["$and", "$nor", "$or", "$where", "$expr", "$jsonSchema", "$text"].iter().any(|other| name == *other)
    };
    if is_operators(conditions) && conditions.first().is_some_and(|first| !logical(first.name)) {
        let mut nodes = Vec::new();
        parse(&Path::itself(), conditions, context, &mut nodes)?;
        return Ok(Node::ElementValue { path: path.clone(), node: Box::new(all_of(nodes)) });
    }
    let node = Box::new(document(conditions, context, Place::Element)?);
    Ok(Node::ElementDocument { path: path.clone(), node })
}
