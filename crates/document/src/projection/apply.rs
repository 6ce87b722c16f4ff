//! The application of a projection to a document.

use std::cell::Cell;

use super::tree::{Mode, Node, Tree};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::depth::check_levels;
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value, ValueBuf};
use crate::expr::Env;
use crate::expr::allowance::check_row;
use crate::expr::value::position as position_of;

/// What nodes need to know.
struct Apply<'a> {
    mode: Mode,
    env: Env<'a>,
    position: Option<usize>,
    /// The bytes of the values that were computed. All of them go into the document: those of a path into an array go
    /// there once for each of its values.
    computed: Cell<usize>,
}

pub(super) fn document(
    mode: Mode,
    tree: &Tree,
    document: Document<'_>,
    position: Option<usize>,
) -> Result<DocumentBuf> {
    let apply = Apply { mode, env: Env::new(document), position, computed: Cell::new(0) };
    let mut builder = DocumentBuilder::with_buffer(Vec::with_capacity(document.as_bytes().len()));
    apply.fields(tree, document, &mut builder)?;
    let made = builder.finish();
    check_levels(&Value::Document(made.view()))?;
    Ok(made)
}

impl Apply<'_> {
    /// Appends the projected fields of a document.
    fn fields(&self, tree: &Tree, document: Document<'_>, to: &mut DocumentBuilder) -> Result<()> {
        let mut seen = vec![false; tree.fields.as_slice().len()];
        for element in document {
            let Some(at) = tree.fields.place(element.name.as_bytes()) else {
                if self.mode != Mode::Include {
                    to.append_element(&element);
                }
                continue;
            };
            let again = std::mem::replace(&mut seen[at], true);
            match &tree.fields.as_slice()[at].1 {
                Node::Keep => {
                    to.append_element(&element);
                }
                Node::Drop => {}
                Node::Tree(inner) => {
                    if let Some(value) = self.value(inner, element.value)? {
                        to.append(element.name, value.view());
                    }
                }
                Node::Computed(expression) if self.mode == Mode::Add && !again => {
                    if let Some(value) = self.computed(expression)? {
                        to.append(element.name, value.view());
                    }
                }
                // Computed fields of an inclusion come behind the kept ones.
                Node::Computed(_) => seen[at] = again,
                node => {
                    if let Some(value) = self.array(node, element.value)? {
                        to.append(element.name, value.view());
                    }
                }
            }
        }
        for ((name, node), seen) in tree.fields.as_slice().iter().zip(seen) {
            match node {
                Node::Computed(expression) if !seen => {
                    if let Some(value) = self.computed(expression)? {
                        to.append(&**name, value.view());
                    }
                }
                Node::Tree(inner) if !seen && inner.computes() => {
                    let mut builder = DocumentBuilder::new();
                    self.fields(inner, Document::empty(), &mut builder)?;
                    let fresh = builder.finish();
                    to.append(&**name, &fresh);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn computed(&self, expression: &crate::expr::Expression) -> Result<Option<ValueBuf>> {
        let env = Env { root: self.env.root, current: self.env.current, locals: None, collation: None };
        let value = expression.within(&env)?.into_buf();
        let computed = self.computed.get() + value.as_ref().map_or(0, |value| value.payload().len());
        self.computed.set(computed);
        check_row(computed)?;
        Ok(value)
    }

    /// The projected value of a field with fields within; nothing when it is dropped.
    fn value(&self, tree: &Tree, value: Value<'_>) -> Result<Option<ValueBuf>> {
        match value {
            Value::Document(document) => {
                let mut builder = DocumentBuilder::new();
                self.fields(tree, document, &mut builder)?;
                Ok(Some(builder.finish().into()))
            }
            Value::Array(array) => {
                let mut kept = Vec::new();
                for value in array {
                    kept.extend(self.value(tree, value)?);
                }
                Ok(Some(ValueBuf::array(kept.iter().map(ValueBuf::view))))
            }
            other if tree.computes() => {
                // A value that is no document makes room for the computed fields.
                let _ = other;
                let mut builder = DocumentBuilder::new();
                self.fields(tree, Document::empty(), &mut builder)?;
                Ok(Some(builder.finish().into()))
            }
            other => Ok((self.mode != Mode::Include).then(|| other.into())),
        }
    }

    /// The part of an array that a node keeps.
    fn array(&self, node: &Node, value: Value<'_>) -> Result<Option<ValueBuf>> {
        let Value::Array(array) = value else {
            return Ok(match node {
                Node::Element(_) => None,
                _ => Some(value.into()),
            });
        };
        Ok(match node {
            Node::Slice { skip, limit } => Some(sliced(array, *skip, *limit)),
            Node::Element(filter) => {
                let mut found = None;
                for value in array {
                    let single = ValueBuf::array([value]);
                    if filter.matches_value(Some(single.view()))? {
                        found = Some(single);
                        break;
                    }
                }
                found
            }
            _ => {
                let wrong = |code, what| Error::new(ErrorCode::new(code), what);
                let position = self.position.ok_or_else(|| {
                    wrong(51246, "positional operator '.$' couldn't find a matching element in the array")
                })?;
                let value =
                    array.get(position).ok_or_else(|| wrong(51247, "positional operator '.$' element mismatch"))?;
                Some(ValueBuf::array([value]))
            }
        })
    }
}

fn sliced(array: Array<'_>, skip: Option<i64>, limit: i64) -> ValueBuf {
    let total = i64::try_from(array.count()).unwrap_or(i64::MAX);
    let (start, count) = match skip {
        None if limit < 0 => ((total + limit).max(0), -limit),
        None => (0, limit),
        Some(skip) if skip < 0 => ((total + skip).max(0), limit),
        Some(skip) => (skip, limit),
    };
    let size = |number| position_of(number).unwrap_or_default();
    ValueBuf::array(array.values().skip(size(start)).take(size(count)))
}
