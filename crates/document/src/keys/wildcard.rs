//! The keys of a wildcard index: the path and the value of each leaf below a path, between the values of the other
//! fields of the index. A document without such a leaf has one key, with the least value as path and value, in an index
//! with other fields.

use super::encode::append;
use super::key_set::KeySet;
use super::pattern::{Direction, KeyField, is_named};
use super::types::TypeBits;
use crate::bson::{Document, Value, ValueBuf};
use crate::collation::Collation;

/// Which paths a wildcard index takes: those that the projection names and what is below them, or all others.
struct Projection<'p> {
    document: Option<Document<'p>>,
    including: bool,
}

impl Projection<'_> {
    fn takes(&self, path: &str) -> bool {
        let Some(document) = self.document else {
            // Without a projection `_id` is left out.
            return path != "_id" && !path.starts_with("_id.");
        };
        let below = |name: &str| path == name || path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let named = document.elements().find(|element| element.name.as_str().is_some_and(below));
        match named {
            Some(element) => truth(&element.value),
            None if below("_id") => false,
            None => !self.including,
        }
    }
}

/// Whether a projection's value includes a path.
fn truth(value: &Value<'_>) -> bool {
    match value {
        Value::Bool(is) => *is,
        other => other.as_f64().is_some_and(|number| number != 0.0),
    }
}

/// The paths that an index takes.
fn projection_of(projection: Option<Document<'_>>) -> Projection<'_> {
    let including = projection.is_some_and(|projection| {
        projection.elements().any(|element| !is_named(element.name, "_id") && truth(&element.value))
    });
    Projection { document: projection, including }
}

/// Whether a wildcard index has the leaves at a path.
#[must_use]
pub fn wildcard_takes(field: &KeyField, projection: Option<Document<'_>>, path: &str) -> bool {
    if field.path.is_empty() {
        return projection_of(projection).takes(path);
    }
    path == field.path || path.strip_prefix(&field.path).is_some_and(|rest| rest.starts_with('.'))
}

/// The values of the fields before and behind a wildcard.
#[derive(Clone, Copy)]
pub(super) struct Beside<'b> {
    pub(super) before: &'b [(Value<'b>, Direction)],
    pub(super) after: &'b [(Value<'b>, Direction)],
    /// The collation of the index.
    pub(super) collation: Option<&'b Collation>,
}

impl Beside<'_> {
    /// Appends a value as the collation of the index has it.
    fn put(&self, key: &mut Vec<u8>, types: &mut TypeBits, value: &Value<'_>, direction: Direction) {
        let collated = self.collation.and_then(|collation| collation.key_of(value));
        append(key, types, &collated.as_ref().map_or(*value, ValueBuf::view), direction);
    }
}

pub(super) fn extract(
    (at, field): (usize, &KeyField),
    beside: Beside<'_>,
    projection: Option<Document<'_>>,
    document: Document<'_>,
    keys: &mut KeySet,
) {
    // A wildcard below a path needs no projection, and takes everything there.
    let projection = projection_of(projection);
    let all = !field.path.is_empty();
    let mut walk = Walk { at, direction: field.direction(), beside, projection, all, prefix: &field.path, keys };
    walk.document(document, &mut String::new());
    let compound = !(beside.before.is_empty() && beside.after.is_empty());
    if compound && walk.keys.is_empty() {
        // The document is found by the other fields all the same.
        walk.push(&Value::MinKey, &Value::MinKey);
    }
}

struct Walk<'w> {
    /// Which field of the index the wildcard is.
    at: usize,
    direction: Direction,
    beside: Beside<'w>,
    projection: Projection<'w>,
    all: bool,
    prefix: &'w str,
    keys: &'w mut KeySet,
}

impl Walk<'_> {
    fn document(&mut self, document: Document<'_>, path: &mut String) {
        for element in document {
            let len = path.len();
            if len > 0 {
                path.push('.');
            }
            path.push_str(&element.name.to_str_lossy());
            self.value(&element.value, path);
            path.truncate(len);
        }
    }

    fn value(&mut self, value: &Value<'_>, path: &mut String) {
        match value {
            Value::Document(document) if !document.is_empty() => self.document(*document, path),
            Value::Array(array) if array.is_empty() => {
                self.keys.set_multikey(self.at, 0);
                self.leaf(&Value::Undefined, path);
            }
            Value::Array(array) => {
                self.keys.set_multikey(self.at, 0);
                for element in *array {
                    match element {
                        Value::Document(document) if !document.is_empty() => self.document(document, path),
                        leaf => self.leaf(&leaf, path),
                    }
                }
            }
            leaf => self.leaf(leaf, path),
        }
    }

    fn leaf(&mut self, value: &Value<'_>, path: &str) {
        let below = path == self.prefix || path.strip_prefix(self.prefix).is_some_and(|rest| rest.starts_with('.'));
        if if self.all { below } else { self.projection.takes(path) } {
            self.push(&Value::from(path), value);
        }
    }

    fn push(&mut self, path: &Value<'_>, value: &Value<'_>) {
        let (beside, direction) = (self.beside, self.direction);
        self.keys.push(|key, types| {
            beside.before.iter().for_each(|(value, direction)| beside.put(key, types, value, *direction));
            // A path is no text of the document.
            append(key, types, path, Direction::Ascending);
            beside.put(key, types, value, direction);
            beside.after.iter().for_each(|(value, direction)| beside.put(key, types, value, *direction));
        });
    }
}
