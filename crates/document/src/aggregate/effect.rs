//! What a stage reads of a document and what it leaves as it is, by the first components of paths.
//!
//! Filters move before stages that leave their fields as they are, and a pipeline that needs only some fields can read
//! them from an index.

use std::collections::BTreeSet;

use crate::expr::Expression;
use crate::path::Path;
use crate::projection::{Mode, Projection, Touch};
use crate::query::Node;

/// Some of a document's fields at its top level, or all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fields {
    /// These.
    Some(BTreeSet<Box<[u8]>>),
    /// The whole document.
    All,
}

/// The fields that a stage leaves as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passes {
    /// All but these; those that come out under these names are others.
    AllBut(BTreeSet<Box<[u8]>>),
    /// These; all others are gone or computed.
    Only(BTreeSet<Box<[u8]>>),
}

/// What a stage does to documents.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The fields that it looks at.
    pub reads: Fields,
    /// The fields that it leaves as they are.
    pub passes: Passes,
    /// The fields at whose places something comes out: those that pass, and those of which a part is kept or which
    /// others replace where they were.
    pub placed: Passes,
    /// Whether a filter on fields that pass may as well be applied before the stage.
    pub lets_filters_pass: bool,
}

impl Fields {
    /// No field.
    #[must_use]
    pub const fn none() -> Self {
        Self::Some(BTreeSet::new())
    }

    /// Adds the field that a path begins with.
    pub fn add(&mut self, path: &Path) {
        match (self, path.top()) {
            (this, []) => *this = Self::All,
            (Self::Some(names), name) => {
                names.insert(name.into());
            }
            (Self::All, _) => {}
        }
    }

    /// Adds the fields that an expression reads.
    pub fn add_expression(&mut self, expression: &Expression) {
        match expression {
            Expression::Field(path) | Expression::Root(path) => self.add(path),
            Expression::Document(fields) => fields.iter().for_each(|(_, of)| self.add_expression(of)),
            Expression::Array(items) => items.iter().for_each(|of| self.add_expression(of)),
            Expression::Call(call) => call.arguments.iter().for_each(|of| self.add_expression(of)),
            Expression::Collated(_, of) => self.add_expression(of),
            Expression::Constant(_)
            | Expression::Missing
            | Expression::Absent
            | Expression::Local(..)
            | Expression::Random(_) => {}
        }
    }

    /// Adds the fields that a part of a filter reads.
    pub fn add_filter(&mut self, node: &Node) {
        match node {
            Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => {
                nodes.iter().for_each(|node| self.add_filter(node))
            }
            Node::Not(node) => self.add_filter(node),
            Node::Leaf { path, .. } | Node::ElementDocument { path, .. } | Node::ElementValue { path, .. } => {
                self.add(path);
            }
            Node::Expression(expression) => self.add_expression(expression),
            Node::Schema(_) => *self = Self::All,
            Node::Sample(..) | Node::Always(_) => {}
        }
    }

    /// Adds the fields that a projection reads to compute others.
    pub fn add_projection(&mut self, projection: &Projection) {
        projection.each_field(&mut |name, touch| {
            if touch == Touch::Changed {
                self.add(&Path::new(name));
            }
        });
        projection.each_expression(&mut |expression| self.add_expression(expression));
    }

    /// Whether all of these fields pass.
    #[must_use]
    pub fn pass(&self, passes: &Passes) -> bool {
        match (self, passes) {
            (Self::Some(names), Passes::AllBut(others)) => names.is_disjoint(others),
            (Self::Some(names), Passes::Only(kept)) => names.is_subset(kept),
            (Self::All, Passes::AllBut(others)) => others.is_empty(),
            (Self::All, Passes::Only(_)) => false,
        }
    }
}

impl Passes {
    /// All fields.
    #[must_use]
    pub const fn all() -> Self {
        Self::AllBut(BTreeSet::new())
    }

    /// No field.
    #[must_use]
    pub const fn none() -> Self {
        Self::Only(BTreeSet::new())
    }

    /// All fields but those that paths begin with.
    pub fn all_but<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Self {
        Self::AllBut(paths.into_iter().map(|path| path.top().into()).collect())
    }

    /// The fields at whose places a projection leaves something.
    #[must_use]
    pub fn placed_by(projection: &Projection) -> Self {
        if projection.mode() != Mode::Include {
            return Self::all();
        }
        let mut names = BTreeSet::new();
        projection.each_field(&mut |name, touch| {
            if matches!(touch, Touch::Kept | Touch::Changed) {
                names.insert(name.into());
            }
        });
        Self::Only(names)
    }

    /// The fields that a projection leaves as they are.
    #[must_use]
    pub fn of_projection(projection: &Projection) -> Self {
        let (mut kept, mut others) = (BTreeSet::new(), BTreeSet::new());
        projection.each_field(&mut |name, touch| {
            if touch == Touch::Kept {
                kept.insert(name.into());
            } else {
                others.insert(name.into());
            }
        });
        match projection.mode() {
            Mode::Include => Self::Only(kept),
            Mode::Exclude | Mode::Add => Self::AllBut(others),
        }
    }
}

impl Effect {
    /// A stage that gives documents as they come, such as `$match` and `$sort`.
    #[must_use]
    pub const fn passing(reads: Fields, lets_filters_pass: bool) -> Self {
        Self { reads, passes: Passes::all(), placed: Passes::all(), lets_filters_pass }
    }

    /// A stage whose documents are made of what it reads alone, such as `$group`.
    #[must_use]
    pub const fn making(reads: Fields) -> Self {
        Self { reads, passes: Passes::none(), placed: Passes::none(), lets_filters_pass: false }
    }
}

/// Whether a part of a filter has an answer that depends on the document alone.
#[must_use]
pub fn is_deterministic(node: &Node) -> bool {
    match node {
        Node::And(nodes) | Node::Or(nodes) | Node::Nor(nodes) => nodes.iter().all(is_deterministic),
        Node::Not(node) | Node::ElementDocument { node, .. } | Node::ElementValue { node, .. } => {
            is_deterministic(node)
        }
        Node::Expression(expression) => !is_random(expression),
        Node::Sample(..) => false,
        Node::Leaf { .. } | Node::Schema(_) | Node::Always(_) => true,
    }
}

fn is_random(expression: &Expression) -> bool {
    match expression {
        Expression::Random(_) => true,
        Expression::Document(fields) => fields.iter().any(|(_, of)| is_random(of)),
        Expression::Array(items) => items.iter().any(is_random),
        Expression::Call(call) => call.arguments.iter().any(is_random),
        Expression::Collated(_, of) => is_random(of),
        _ => false,
    }
}
