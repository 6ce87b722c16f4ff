//! Filters: documents such as `{a: {$gt: 5}, "b.c": "x"}` that say which documents match.
//!
//! - [`Filter::parse`] reads a filter strictly, with MongoDB's error codes, into a tree of [`Node`]s.
//! - [`Filter::matches`] tests a document in place; [`Filter::matches_at`] tells the position in an array as well that
//!   the positional operators use.
//! - [`bounds`] gives the intervals of values that a filter implies for a path, for use with an index.

pub mod bitmask;
pub mod bounds;
pub mod failure;
pub mod implied;
pub mod node;
pub mod parse;
pub mod predicate;
mod repeated;
pub mod schema;
mod schema_failure;
mod schema_parse;
mod switch;
pub mod types;

use std::sync::Arc;

use switch::Switch;

use crate::base::Result;
use crate::bson::Document;
use crate::expr::Context;

pub use bounds::{Bounds, Interval};
pub use node::{Node, Position};
pub use predicate::Predicate;

/// A compiled filter.
#[derive(Clone, Debug)]
pub struct Filter {
    root: Node,
    /// The parts of the root, by their places, whose branches are looked up by their values.
    switches: Option<Arc<[(usize, Switch)]>>,
}

impl Filter {
    /// Reads a filter.
    ///
    /// # Errors
    /// MongoDB's: mostly `BadValue` (2), `FailedToParse` (9) and `TypeMismatch` (14).
    pub fn parse(filter: Document<'_>, context: &Context) -> Result<Self> {
        Ok(Self::from_node(parse::document(filter, context, parse::Place::Top)?))
    }

    /// The filter that matches every document.
    #[must_use]
    pub const fn all() -> Self {
        Self { root: Node::And(Vec::new()), switches: None }
    }

    /// The filter of a tree.
    #[must_use]
    pub fn from_node(root: Node) -> Self {
        let switched = root.conjuncts().iter().enumerate().filter_map(|(at, part)| Some((at, Switch::of(part)?)));
        let switches: Vec<_> = switched.collect();
        let switches = (!switches.is_empty()).then(|| switches.into());
        Self { root, switches }
    }

    /// The same filter with the conditions on fields that its expressions imply, for which indexes may be used.
    #[must_use]
    pub fn with_implied(self) -> Self {
        let of = |node: &Node| match node {
            Node::Expression(expression) => implied::equalities(expression),
            _ => Vec::new(),
        };
        let implied: Vec<Node> = self.root.conjuncts().iter().flat_map(of).collect();
        if implied.is_empty() {
            return self;
        }
        let mut nodes = match self.root {
            Node::And(parts) => parts,
            node => vec![node],
        };
        nodes.extend(implied);
        Self::from_node(Node::And(nodes))
    }

    /// The tree.
    #[inline]
    #[must_use]
    pub const fn root(&self) -> &Node {
        &self.root
    }

    /// Whether the filter matches every document because it has no conditions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(&self.root, Node::And(nodes) if nodes.is_empty())
    }

    /// Whether a document matches.
    ///
    /// # Errors
    /// Those of the expressions in `$expr`, and of a regular expression that exceeds its limit.
    #[inline]
    pub fn matches(&self, document: Document<'_>) -> Result<bool> {
        self.test(document, None)
    }

    #[inline]
    fn test(&self, document: Document<'_>, position: Option<&Position>) -> Result<bool> {
        match &self.switches {
            None => self.root.matches(document, position),
            Some(switches) => self.switched(switches, document, position),
        }
    }

    fn switched(
        &self,
        switches: &[(usize, Switch)],
        document: Document<'_>,
        position: Option<&Position>,
    ) -> Result<bool> {
        for (at, part) in self.root.conjuncts().iter().enumerate() {
            let matched = match switches.iter().find(|(of, _)| *of == at) {
                Some((_, switch)) => switch.matches(document, position)?,
                None => part.matches(document, position)?,
            };
            if !matched {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a document matches, and where in the array that the last matching condition looked into.
    ///
    /// # Errors
    /// As [`Self::matches`].
    pub fn matches_at(&self, document: Document<'_>) -> Result<(bool, Option<usize>)> {
        let position = Position::default();
        let matched = self.test(document, Some(&position))?;
        Ok((matched, position.get()))
    }
}
