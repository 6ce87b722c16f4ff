//! The keys of a wildcard index: the path and the value of each leaf below a path.

use super::encode::append;
use super::key_set::KeySet;
use super::pattern::{Direction, KeyField, is_named};
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

pub(super) fn extract(
    (field, direction): (&KeyField, Direction),
    collation: Option<&Collation>,
    projection: Option<Document<'_>>,
    document: Document<'_>,
    keys: &mut KeySet,
) {
    // A wildcard below a path needs no projection, and takes everything there.
    let projection = projection_of(projection);
    let mut walk = Walk { direction, collation, projection, all: !field.path.is_empty(), prefix: &field.path, keys };
    walk.document(document, &mut String::new());
}

struct Walk<'w> {
    direction: Direction,
    collation: Option<&'w Collation>,
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
                self.keys.set_multikey(0, 0);
                self.leaf(&Value::Undefined, path);
            }
            Value::Array(array) => {
                self.keys.set_multikey(0, 0);
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
            let direction = self.direction;
            let collated = self.collation.and_then(|collation| collation.key_of(value));
            let value = collated.as_ref().map_or(*value, ValueBuf::view);
            self.keys.push(|key, types| {
                append(key, types, &Value::from(path), Direction::Ascending);
                append(key, types, &value, direction);
            });
        }
    }
}
