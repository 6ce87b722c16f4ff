//! The tree of a projection's paths.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::bson::FieldList;
use crate::expr::Expression;
use crate::query::Node as Filter;

/// Dotted paths of a projection.
pub type PlainPaths<'p> = SmallVec<[Cow<'p, str>; 4]>;

/// What is done with fields that a projection does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They are dropped.
    Include,
    /// They are kept.
    Exclude,
    /// They are kept; the fields that are named are computed.
    Add,
}

/// The fields of a document, by their names, in the order of the projection.
#[derive(Clone, Debug, Default)]
pub(super) struct Tree {
    pub(super) fields: FieldList<String, Node>,
}

/// What is done with a field.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// It is kept.
    Keep,
    /// It is dropped.
    Drop,
    /// It is computed.
    Computed(Expression),
    /// A part of an array: how many values are skipped (from the end when negative) and kept.
    Slice { skip: Option<i64>, limit: i64 },
    /// The first value of the array that matches.
    Element(Box<Filter>),
    /// The value of the array at the position where the filter matched.
    Positional,
    /// Fields within.
    Tree(Tree),
}

impl Tree {
    pub(super) fn is_empty(&self) -> bool {
        self.fields.as_slice().is_empty()
    }

    /// Whether something in the tree is computed.
    pub(super) fn computes(&self) -> bool {
        self.fields.as_slice().iter().any(|(_, node)| match node {
            Node::Computed(_) => true,
            Node::Tree(tree) => tree.computes(),
            _ => false,
        })
    }

    /// Calls `see` with each expression in the tree.
    pub(super) fn each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        for (_, node) in self.fields.as_slice() {
            match node {
                Node::Computed(expression) => see(expression),
                Node::Tree(tree) => tree.each_expression(see),
                _ => {}
            }
        }
    }

    /// The paths that are kept, if nothing else is done.
    pub(super) fn plain_paths(&self) -> Option<PlainPaths<'_>> {
        let mut paths = PlainPaths::new();
        for (name, node) in self.fields.as_slice() {
            match node {
                Node::Keep => paths.push(Cow::Borrowed(name)),
                Node::Drop => {}
                Node::Tree(tree) => {
                    paths.extend(tree.plain_paths()?.iter().map(|rest| Cow::Owned(format!("{name}.{rest}"))));
                }
                _ => return None,
            }
        }
        Some(paths)
    }
}
