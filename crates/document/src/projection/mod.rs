//! Projections: which fields of a document a query or a pipeline keeps, and which it computes.
//!
//! [`Projection::parse`] reads the projection of a find (with `$slice`, `$elemMatch` and the positional `a.$`) or of a
//! `$project` stage; [`Projection::of_added`] reads `$addFields`, [`Projection::of_removed`] `$unset`.

mod apply;
mod parse;
mod tree;

use crate::base::Result;
use crate::bson::{Document, DocumentBuf, Value};
use crate::expr::{Context, Expression};

pub use parse::Use;
use tree::Tree;
pub use tree::{Mode, PlainPaths};

/// What becomes of a field at the top of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// It is kept as it is.
    Kept,
    /// It is dropped.
    Dropped,
    /// Another value takes its place.
    Replaced,
    /// A part of it is kept, or it is computed in part.
    Changed,
}

/// A compiled projection.
#[derive(Clone, Debug)]
pub struct Projection {
    mode: Mode,
    tree: Tree,
    positional: bool,
}

impl Projection {
    /// Reads a projection.
    ///
    /// # Errors
    /// MongoDB's, such as 31253 and 31254 for inclusions and exclusions together, 31249 and 31250 for paths of which
    /// one begins with another.
    pub fn parse(spec: Document<'_>, used_in: Use, context: &Context) -> Result<Self> {
        let parse::Parsed { mode, tree, positional } = parse::projection(spec, used_in, context)?;
        Ok(Self { mode, tree, positional })
    }

    /// Reads the fields of `$addFields` and `$set`.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_added(spec: Document<'_>, context: &Context) -> Result<Self> {
        Ok(Self { mode: Mode::Add, tree: parse::added(spec, context)?, positional: false })
    }

    /// The projection without some fields.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn of_removed(paths: &[String]) -> Result<Self> {
        Ok(Self { mode: Mode::Exclude, tree: parse::removed(paths)?, positional: false })
    }

    /// Whether a document stays as it is.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.mode != Mode::Include && self.tree.is_empty()
    }

    /// What the projection does with fields that it does not name.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.mode
    }

    /// Whether the projection needs the position at which the filter matched in an array.
    #[must_use]
    pub const fn needs_position(&self) -> bool {
        self.positional
    }

    /// The paths that are kept as they are, when the projection does nothing else: an index that has them covers it.
    #[must_use]
    pub fn plain_paths(&self) -> Option<PlainPaths<'_>> {
        (self.mode == Mode::Include).then(|| self.tree.plain_paths()).flatten()
    }

    /// Calls `see` with each field at the top that the projection names, and what becomes of it.
    pub fn each_field(&self, see: &mut dyn FnMut(&[u8], Touch)) {
        for (name, node) in self.tree.fields.as_slice() {
            see(
                name.as_bytes(),
                match node {
                    tree::Node::Keep => Touch::Kept,
                    tree::Node::Drop => Touch::Dropped,
                    tree::Node::Computed(_) => Touch::Replaced,
                    _ => Touch::Changed,
                },
            );
        }
    }

    /// Calls `see` with each expression that computes a field.
    pub fn each_expression(&self, see: &mut dyn FnMut(&Expression)) {
        self.tree.each_expression(see);
    }

    /// The projected document. `position` is where the filter matched in an array.
    ///
    /// # Errors
    /// Those of expressions, and of the positional operator when nothing matched in an array.
    pub fn apply(&self, document: Document<'_>, position: Option<usize>) -> Result<DocumentBuf> {
        apply::document(self.mode, &self.tree, document, position)
    }

    /// The projected document, where expressions see `root` as the whole document.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn apply_value(&self, value: Value<'_>) -> Result<DocumentBuf> {
        match value {
            Value::Document(document) => self.apply(document, None),
            _ => Ok(DocumentBuf::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(spec: &DocumentBuf) -> String {
        Projection::parse(spec.view(), Use::Find, &Context::new(0)).unwrap_err().to_string()
    }

    #[test]
    fn errors_name_the_whole_path() {
        assert!(wrong(&doc! {"a.b.c": 1, "a.b": &doc! {"c": 1}}).contains("Path collision at a.b.c"));
        assert!(wrong(&doc! {"a.b": 1, "a.b.c": 1}).contains("Path collision at a.b.c remaining portion c"));
        assert!(wrong(&doc! {"a": &doc! {"b": &doc! {}}}).contains("empty object at path 'a.b'"));
        assert!(wrong(&doc! {"a": &doc! {"b": 1, "c": 0}}).contains("Cannot do exclusion on field a.c"));
    }
}
