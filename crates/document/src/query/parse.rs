//! The strict reading of a filter into its tree.

use super::bitmask::BitMask;
use super::node::Node;
use super::predicate::{Choices, Comparison, Predicate};
use super::schema::Schema;
use super::types::Types;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Regex, Text, Value, is_reference, is_reference_field};
use crate::expr::Context;
use crate::expr::value::truth;
use crate::path::Path;
use crate::pattern::Pattern;

/// The code of the error for `$where`, as of a server of MongoDB on which JavaScript is disabled.
pub const NO_WHERE: i32 = 6_108_304;

/// Where a document of conditions stands: some operators are allowed in a whole filter only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The filter itself, or within its `$and`, `$or`, `$nor`.
    Top,
    /// In `$elemMatch` or `$pull`.
    Element,
}

/// The tree of a document of conditions on fields.
///
/// # Errors
/// MongoDB's.
pub fn document(filter: Document<'_>, context: &Context, place: Place) -> Result<Node> {
    let mut nodes = Vec::new();
    for element in filter {
        match element.name.as_bytes().strip_prefix(b"$") {
            // The fields of a reference are equal to values; no operators stand there.
            Some(_) if is_reference_field(element.name.as_bytes()) => {
                let test = Predicate::compare(Comparison::Equal, element.value, context.collation.as_ref())?;
                nodes.push(leaf(&Path::new(element.name), test));
            }
            Some(name) => nodes.extend(top_operator(name, element.value, context, place)?),
            None => field(&Path::new(element.name), element.value, context, &mut nodes)?,
        }
    }
    Ok(all_of(nodes))
}

/// A part that matches when all of `nodes` do.
fn all_of(mut nodes: Vec<Node>) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::And(nodes),
    }
}

fn top_operator(name: &[u8], operand: Value<'_>, context: &Context, place: Place) -> Result<Option<Node>> {
    let only_top = |what: &str| {
        let message = format!("{what} can only be applied to the top-level document");
        if place == Place::Top { Ok(()) } else { Err(Error::bad_value(message)) }
    };
    Ok(Some(match name {
        b"and" => all_of(list("$and", operand, context, place)?),
        b"or" => {
            let mut nodes = list("$or", operand, context, place)?;
            if nodes.len() == 1 { nodes.remove(0) } else { Node::Or(nodes) }
        }
        b"nor" => Node::Nor(list("$nor", operand, context, place)?),
        b"comment" => return Ok(None),
        b"alwaysTrue" | b"alwaysFalse" => {
            if operand.as_exact_i64() != Some(1) {
                let name = Text::from_bytes(name);
                return Err(Error::new(ErrorCode::FAILED_TO_PARSE, format!("${name} must be an integer value of 1")));
            }
            Node::Always(name == b"alwaysTrue")
        }
        b"jsonSchema" => {
            only_top("$jsonSchema")?;
            let Value::Document(schema) = operand else {
                return Err(Error::new(ErrorCode::TYPE_MISMATCH, "$jsonSchema must be an object"));
            };
            Node::Schema(Box::new(Schema::parse(schema)?))
        }
        b"expr" => {
            only_top("$expr")?;
            Node::Expression(Box::new(crate::expr::parse(operand, context)?))
        }
        b"sampleRate" => {
            let share =
                operand.as_f64().ok_or_else(|| Error::bad_value("argument to $sampleRate must be a numeric type"))?;
            if !(0.0..=1.0).contains(&share) {
                return Err(Error::bad_value("numeric argument to $sampleRate must be in [0, 1]"));
            }
            Node::Sample(Box::new(crate::expr::random(context)), share)
        }
        b"where" => {
            return Err(Error::new(ErrorCode::new(NO_WHERE), "no globalScriptEngine in $where parsing"));
        }
        b"text" => return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, "text index required for $text query")),
        other => {
            let name = Text::from_bytes(other);
            return Err(Error::bad_value(format!(
                "unknown top level operator: ${name}. If you have a field name that starts with a '$' symbol, consider \
                 using $getField or $setField."
            )));
        }
    }))
}

/// The parts of `$and`, `$or` and `$nor`.
fn list(name: &str, operand: Value<'_>, context: &Context, place: Place) -> Result<Vec<Node>> {
    let Value::Array(array) = operand else {
        return Err(Error::bad_value(format!("{name} must be an array")));
    };
    if array.is_empty() {
        return Err(Error::bad_value("$and/$or/$nor must be a nonempty array"));
    }
    let parse = |value: Value<'_>| match value {
        Value::Document(part) => document(part, context, place),
        _ => Err(Error::bad_value("$or/$and/$nor entries need to be full objects")),
    };
    array.values().map(parse).collect()
}

/// The parts of a field's condition: a value to be equal to, a regular expression, or a document of operators.
fn field(path: &Path, operand: Value<'_>, context: &Context, nodes: &mut Vec<Node>) -> Result<()> {
    match operand {
        Value::Document(operators) if is_operators(operators) => operators_of(path, operators, context, nodes),
        Value::Regex(regex) => {
            nodes.push(leaf(path, Predicate::Regex(pattern_of(regex)?)));
            Ok(())
        }
        operand => {
            nodes.push(leaf(path, Predicate::compare(Comparison::Equal, operand, context.collation.as_ref())?));
            Ok(())
        }
    }
}

fn leaf(path: &Path, test: Predicate) -> Node {
    Node::Leaf { path: path.clone(), test }
}

/// Whether a document is one of operators: its first name begins with a dollar, and it is no reference to a document.
#[must_use]
pub fn is_operators(document: Document<'_>) -> bool {
    document.first().is_some_and(|first| first.name.as_bytes().starts_with(b"$")) && !is_reference(document, true)
}

/// The same within `$elemMatch` and `$pull`, where a part of a reference is none of operators either.
#[must_use]
pub fn is_operators_of_element(document: Document<'_>) -> bool {
    is_operators(document) && !is_reference(document, false)
}

/// The compiled form of a regular expression.
///
/// # Errors
/// As [`Pattern::new`], and `BadValue` (2) when it is no UTF-8.
fn pattern_of(regex: Regex<'_>) -> Result<Pattern> {
    let (source, options) = regex.parts();
    let utf8 = |text: Text<'_>| {
        text.as_str().map(str::to_owned).ok_or_else(|| Error::bad_value("Regular expression is no UTF-8"))
    };
    Pattern::new(&utf8(source)?, &utf8(options)?)
}

/// Adds the parts of a document of operators on a path.
fn operators_of(path: &Path, operators: Document<'_>, context: &Context, nodes: &mut Vec<Node>) -> Result<()> {
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
    let collation = context.collation.as_ref();
    let compare = |comparison| Predicate::compare(comparison, operand, collation).map(|test| leaf(path, test));
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
        "$in" => leaf(path, Predicate::In(choices(name, operand, context)?)),
        "$nin" => Node::Not(Box::new(leaf(path, Predicate::In(choices(name, operand, context)?)))),
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

fn choices(name: &str, operand: Value<'_>, context: &Context) -> Result<Choices> {
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
    Ok(Choices::new(values, patterns, context.collation.as_ref()))
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
            operators_of(path, operators, context, &mut nodes)?;
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
            (_, value) => leaf(path, Predicate::compare(Comparison::Equal, value, context.collation.as_ref())?),
        });
    }
    Ok(if nodes.is_empty() { Node::Always(false) } else { all_of(nodes) })
}

/// The operand of a value `{$elemMatch: operand}`.
fn element_match_of<'a>(value: &Value<'a>) -> Option<Value<'a>> {
    let first = value.as_document()?.first()?;
    (first.name == "$elemMatch").then_some(first.value)
}

/// The conditions of operators on the values of one path.
///
/// # Errors
/// As [`document`].
pub fn value_condition(path: &str, operators: Document<'_>, context: &Context) -> Result<Node> {
    let mut nodes = Vec::new();
    operators_of(&Path::new(path), operators, context, &mut nodes)?;
    Ok(all_of(nodes))
}

/// The part that an array matches when one of its values meets the operators of `conditions`.
///
/// # Errors
/// As [`document`].
pub fn element_match_node(conditions: Value<'_>, context: &Context) -> Result<Node> {
    element_match(&Path::itself(), conditions, context)
}

fn element_match(path: &Path, operand: Value<'_>, context: &Context) -> Result<Node> {
    let Value::Document(conditions) = operand else { return Err(Error::bad_value("$elemMatch needs an Object")) };
    let logical = |name: Text<'_>| {
        ["$and", "$nor", "$or", "$where", "$expr", "$jsonSchema", "$text"].iter().any(|other| name == *other)
    };
    if is_operators_of_element(conditions) && conditions.first().is_some_and(|first| !logical(first.name)) {
        let mut nodes = Vec::new();
        operators_of(&Path::itself(), conditions, context, &mut nodes)?;
        return Ok(Node::ElementValue { path: path.clone(), node: Box::new(all_of(nodes)) });
    }
    let node = Box::new(document(conditions, context, Place::Element)?);
    Ok(Node::ElementDocument { path: path.clone(), node })
}
