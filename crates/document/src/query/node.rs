//! The tree of a filter, and how it is matched against a document.

use std::cell::Cell;

use super::predicate::Predicate;
use super::schema::Schema;
use crate::base::{Result, interrupt};
use crate::bson::{Document, Value};
use crate::expr::Expression;
use crate::path::{Arrays, Path, walk};

/// The position in an array at which the last condition matched.
pub type Position = Cell<Option<usize>>;

/// A part of a filter.
#[derive(Clone, Debug)]
pub enum Node {
    /// All of the parts match; also with no parts.
    And(Vec<Node>),
    /// One of the parts matches.
    Or(Vec<Node>),
    /// None of the parts matches.
    Nor(Vec<Node>),
    /// The part does not match.
    Not(Box<Node>),
    /// A condition on the values of a path.
    Leaf {
        /// The path.
        path: Path,
        /// The condition.
        test: Predicate,
    },
    /// `$elemMatch` with conditions on fields: a document in the array matches.
    ElementDocument {
        /// The path of the array.
        path: Path,
        /// The conditions.
        node: Box<Node>,
    },
    /// `$elemMatch` with operators: a value of the array matches. The paths of the conditions have no components.
    ElementValue {
        /// The path of the array.
        path: Path,
        /// The conditions.
        node: Box<Node>,
    },
    /// `$expr`: the expression is true.
    Expression(Box<Expression>),
    /// `$sampleRate`: a random number, and the share of documents that match.
    Sample(Box<Expression>, f64),
    /// `$jsonSchema`: the document is valid.
    Schema(Box<Schema>),
    /// `$alwaysTrue` and `$alwaysFalse`.
    Always(bool),
}

impl Node {
    /// The parts that all must match.
    #[must_use]
    pub fn conjuncts(&self) -> &[Self] {
        match self {
            Self::And(parts) => parts,
            other => std::slice::from_ref(other),
        }
    }

    /// How many conditions and values of `$in` the part has, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        match self {
            Self::And(nodes) | Self::Or(nodes) | Self::Nor(nodes) => 1 + nodes.iter().map(Self::weight).sum::<usize>(),
            Self::Not(node) | Self::ElementDocument { node, .. } | Self::ElementValue { node, .. } => 1 + node.weight(),
            Self::Leaf { test: Predicate::In(choices), .. } => 1 + choices.count(),
            Self::Leaf { .. } | Self::Expression(_) | Self::Sample(..) | Self::Schema(_) | Self::Always(_) => 1,
        }
    }

    /// Whether the part matches a document. `position` receives where in an array.
    ///
    /// # Errors
    /// Those of expressions and regular expressions.
    pub fn matches(&self, document: Document<'_>, position: Option<&Position>) -> Result<bool> {
        match self {
            Self::And(nodes) => {
                for node in nodes {
                    if !node.matches(document, position)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Or(nodes) => any(nodes, |node| node.matches(document, position)),
            Self::Nor(nodes) => any(nodes, |node| node.matches(document, None)).map(|matched| !matched),
            Self::Not(node) => node.matches(document, None).map(|matched| !matched),
            Self::Leaf { path, test } => leaf(document, path, test, position),
            Self::ElementDocument { path, node } => elements(document, path, position, &|value| match value {
                Value::Document(inner) => node.matches(inner, None),
                Value::Array(inner) => node.matches(inner.as_document(), None),
                _ => Ok(false),
            }),
            Self::ElementValue { path, node } => {
                elements(document, path, position, &|value| node.matches_value(Some(value)))
            }
            Self::Expression(expression) => expression.test(document),
            Self::Sample(random, share) => {
                Ok(random.of(document)?.value().as_f64().is_some_and(|random| random < *share))
            }
            Self::Schema(schema) => schema.matches(document),
            Self::Always(answer) => Ok(*answer),
        }
    }

    /// Whether the part, whose paths have no components, matches a value, as `$elemMatch` and `$pull` ask.
    ///
    /// # Errors
    /// As [`Self::matches`].
    pub fn matches_value(&self, value: Option<Value<'_>>) -> Result<bool> {
        match self {
            Self::And(nodes) => any(nodes, |node| node.matches_value(value).map(|matched| !matched)).map(|any| !any),
            Self::Or(nodes) => any(nodes, |node| node.matches_value(value)),
            Self::Nor(nodes) => any(nodes, |node| node.matches_value(value)).map(|matched| !matched),
            Self::Not(node) => node.matches_value(value).map(|matched| !matched),
            Self::Leaf { test, .. } => test.matches(value),
            Self::ElementDocument { node, .. } => match value {
                Some(Value::Array(array)) => any(array, |value| match value {
                    Value::Document(inner) => node.matches(inner, None),
                    Value::Array(inner) => node.matches(inner.as_document(), None),
                    _ => Ok(false),
                }),
                _ => Ok(false),
            },
            Self::ElementValue { node, .. } => match value {
                Some(Value::Array(array)) => any(array, |value| node.matches_value(Some(value))),
                _ => Ok(false),
            },
            Self::Expression(_) | Self::Sample(..) | Self::Schema(_) => match value {
                Some(Value::Document(document)) => self.matches(document, None),
                _ => Ok(false),
            },
            Self::Always(answer) => Ok(*answer),
        }
    }
}

fn any<T>(of: impl IntoIterator<Item = T>, test: impl Fn(T) -> Result<bool>) -> Result<bool> {
    for item in of {
        interrupt::work(1)?;
        if test(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn leaf(document: Document<'_>, path: &Path, test: &Predicate, position: Option<&Position>) -> Result<bool> {
    if let [part] = path.parts() {
        // The usual case, a field that is no array, needs no traversal.
        let value = document.get(part.name());
        if !matches!(value, Some(Value::Array(_))) {
            return test.matches(value);
        }
    }
    let arrays = if test.takes_arrays_whole() { Arrays::Whole } else { Arrays::Values };
    walk(document, path.parts(), arrays, &mut |found| {
        let matched = test.matches(found.value)?;
        if let (true, Some(position), Some(index)) = (matched, position, found.index) {
            position.set(Some(index));
        }
        Ok(matched)
    })
}

fn elements(
    document: Document<'_>,
    path: &Path,
    position: Option<&Position>,
    test: &dyn Fn(Value<'_>) -> Result<bool>,
) -> Result<bool> {
    walk(document, path.parts(), Arrays::Whole, &mut |found| {
        let Some(Value::Array(array)) = found.value else { return Ok(false) };
        for (at, value) in array.values().enumerate() {
            interrupt::work(1)?;
            if test(value)? {
                if let Some(position) = position {
                    position.set(Some(found.index.unwrap_or(at)));
                }
                return Ok(true);
            }
        }
        Ok(false)
    })
}
