//! The strict reading of a filter into its tree.

use super::node::Node;
use super::operators;
use super::predicate::{Comparison, Predicate};
use super::schema::Schema;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Regex, Text, Value};
use crate::expr::Context;
use crate::path::Path;
use crate::pattern::Pattern;

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
            Some(name) => nodes.extend(top_operator(name, element.value, context, place)?),
            None => field(&Path::new(element.name), element.value, context, &mut nodes)?,
        }
    }
    Ok(all_of(nodes))
}

/// A part that matches when all of `nodes` do.
pub(super) fn all_of(mut nodes: Vec<Node>) -> Node {
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
        b"where" => return Err(Error::bad_value("no JavaScript engine: $where is not supported")),
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
        Value::Document(operators) if is_operators(operators) => operators::parse(path, operators, context, nodes),
        Value::Regex(regex) => {
            nodes.push(leaf(path, Predicate::Regex(pattern_of(regex)?)));
            Ok(())
        }
        operand => {
            nodes.push(leaf(path, Predicate::compare(Comparison::Equal, operand)?));
            Ok(())
        }
    }
}

pub(super) fn leaf(path: &Path, test: Predicate) -> Node {
    Node::Leaf { path: path.clone(), test }
}

/// Whether a document is one of operators: its first name begins with a dollar, and it is no reference to a document.
#[must_use]
pub fn is_operators(document: Document<'_>) -> bool {
    let Some(first) = document.first() else { return false };
    let name = first.name.as_bytes();
    name.first() == Some(&b'$') && !(name == b"$ref" && document.get("$id").is_some())
}

/// The compiled form of a regular expression.
///
/// # Errors
/// As [`Pattern::new`], and `BadValue` (2) when it is no UTF-8.
pub(super) fn pattern_of(regex: Regex<'_>) -> Result<Pattern> {
    let (source, options) = regex.parts();
    let utf8 = |text: Text<'_>| {
        text.as_str().map(str::to_owned).ok_or_else(|| Error::bad_value("Regular expression is no UTF-8"))
    };
    Pattern::new(&utf8(source)?, &utf8(options)?)
}
