//! Many branches of an `$or` that each ask for a value of one path, of which only those are asked that a document may
//! match: a filter of n branches over the n documents that it finds would else ask n times n branches.

use super::node::{Node, Position};
use super::predicate::{Comparison, Predicate};
use crate::base::{Result, interrupt};
use crate::bson::{Document, Kind, Value, ValueBuf, compare};
use crate::path::{Arrays, Path, walk};

/// The fewest branches that are looked up by their values.
const MANY: usize = 16;

/// The most paths by whose values branches are looked up.
const PATHS_MAX: usize = 8;

/// The branches of an `$or` by the values that they ask for.
#[derive(Clone, Debug)]
pub(super) struct Switch {
    /// For each path the branches that ask for a value of it, in the order of the values.
    paths: Vec<(Path, Vec<(ValueBuf, Node)>)>,
    /// The others.
    rest: Vec<Node>,
}

impl Switch {
    /// The branches of an `$or`, when there are many; nothing when they are as well asked one by one.
    pub(super) fn of(node: &Node) -> Option<Self> {
        let Node::Or(branches) = node else { return None };
        if branches.len() < MANY {
            return None;
        }
        let mut this = Self { paths: Vec::new(), rest: Vec::new() };
        for branch in branches {
            let Some((path, value)) = asked(branch) else {
                this.rest.push(branch.clone());
                continue;
            };
            let branch = (ValueBuf::from(value), branch.clone());
            match this.paths.iter().position(|(known, _)| known == path) {
                Some(at) => this.paths[at].1.push(branch),
                None if this.paths.len() < PATHS_MAX => this.paths.push((path.clone(), vec![branch])),
                None => this.rest.push(branch.1),
            }
        }
        for (_, by_value) in &mut this.paths {
            by_value.sort_by(|(a, _), (b, _)| compare(&a.view(), &b.view()));
        }
        (this.rest.len() < branches.len() / 2).then_some(this)
    }

    /// Whether one of the branches matches. `position` receives where in an array.
    ///
    /// # Errors
    /// As [`Node::matches`].
    pub(super) fn matches(&self, document: Document<'_>, position: Option<&Position>) -> Result<bool> {
        for (path, by_value) in &self.paths {
            let matched = walk(document, path.parts(), Arrays::Values, &mut |found| {
                let Some(value) = found.value else { return Ok(false) };
                let from = by_value.partition_point(|(known, _)| compare(&known.view(), &value).is_lt());
                for (known, branch) in &by_value[from..] {
                    interrupt::work(1)?;
                    if compare(&known.view(), &value).is_ne() {
                        break;
                    }
                    if branch.matches(document, position)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            })?;
            if matched {
                return Ok(true);
            }
        }
        for branch in &self.rest {
            interrupt::work(1)?;
            if branch.matches(document, position)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// A path and a value that the documents have there which a branch matches: a scalar, compared as its bytes are.
fn asked(branch: &Node) -> Option<(&Path, Value<'_>)> {
    match branch {
        Node::Leaf { path, test: Predicate::Compare(Comparison::Equal, value) } => {
            let value = value.view();
            let is_scalar = value.kind().is_number()
                || matches!(
                    value.kind(),
                    Kind::String | Kind::ObjectId | Kind::Bool | Kind::DateTime | Kind::Timestamp | Kind::Binary
                );
            is_scalar.then_some((path, value))
        }
        Node::And(parts) => parts.iter().find_map(asked),
        _ => None,
    }
}
