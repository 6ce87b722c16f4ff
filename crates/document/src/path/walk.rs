//! The traversal of filters: all values that a path can mean in a document.
//!
//! A component is a field's name in a document. At an array it is applied to each document in the array, and, when it
//! is a position, to the value there as well. Only arrays that the path reaches by name or position are entered: an
//! array directly within an array is not. At the end of the path an array stands for its values and for itself.

use super::dotted::Part;
use crate::base::Result;
use crate::bson::{Array, Document, Value};

/// What an array at the end of a path stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrays {
    /// Its values, then itself.
    Values,
    /// Itself only.
    Whole,
}

/// A value that a path means.
#[derive(Clone, Copy, Debug)]
pub struct Found<'a> {
    /// The value; nothing where a document lacks the field.
    pub value: Option<Value<'a>>,
    /// The position in the outermost array on the way, if there was one.
    pub index: Option<usize>,
}

/// Calls `visit` with every value that the path of `parts` means in a document until it answers true. Whether it did.
///
/// # Errors
/// Those of `visit`.
pub fn walk<'a>(
    document: Document<'a>,
    parts: &[Part],
    arrays: Arrays,
    visit: &mut dyn FnMut(Found<'a>) -> Result<bool>,
) -> Result<bool> {
    Walk { arrays, visit }.document(document, parts, None)
}

/// Whether nothing but an empty name is left of a path, as of `a.`: at an array the path ends there, as in MongoDB.
fn ends_in_a_dot(rest: &[Part]) -> bool {
    matches!(rest, [last] if last.name().is_empty())
}

struct Walk<'v, 'a> {
    arrays: Arrays,
    visit: &'v mut dyn FnMut(Found<'a>) -> Result<bool>,
}

impl<'a> Walk<'_, 'a> {
    fn document(&mut self, document: Document<'a>, parts: &[Part], index: Option<usize>) -> Result<bool> {
        let Some((first, rest)) = parts.split_first() else {
            return (self.visit)(Found { value: Some(Value::Document(document)), index });
        };
        match document.get(first.name()) {
            Some(value) => self.value(value, rest, index),
            None => (self.visit)(Found { value: None, index }),
        }
    }

    fn value(&mut self, value: Value<'a>, rest: &[Part], index: Option<usize>) -> Result<bool> {
        match value {
            Value::Array(array) if rest.is_empty() || ends_in_a_dot(rest) => self.end_at_array(array, index),
            _ if rest.is_empty() => (self.visit)(Found { value: Some(value), index }),
            Value::Document(document) => self.document(document, rest, index),
            Value::Array(array) => self.array(array, rest, index),
            _ => (self.visit)(Found { value: None, index }),
        }
    }

    fn end_at_array(&mut self, array: Array<'a>, index: Option<usize>) -> Result<bool> {
        if self.arrays == Arrays::Values {
            for (at, value) in array.values().enumerate() {
                if (self.visit)(Found { value: Some(value), index: index.or(Some(at)) })? {
                    return Ok(true);
                }
            }
        }
        (self.visit)(Found { value: Some(Value::Array(array)), index })
    }

    /// An array within the path, of which `parts` is what is left, at least one.
    fn array(&mut self, array: Array<'a>, parts: &[Part], index: Option<usize>) -> Result<bool> {
        let Some((first, rest)) = parts.split_first() else { return Ok(false) };
        for (at, value) in array.values().enumerate() {
            let index = index.or(Some(at));
            if let Value::Document(document) = value
                && self.document(document, parts, index)?
            {
                return Ok(true);
            }
            if first.index() != Some(at) {
                continue;
            }
            let matched = match value {
                _ if rest.is_empty() => (self.visit)(Found { value: Some(value), index })?,
                Value::Document(document) => self.document(document, rest, index)?,
                Value::Array(array) => self.array(array, rest, index)?,
                _ => false,
            };
            if matched {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::super::dotted::Path;
    use super::*;
    use crate::bson::DocumentBuf;

    fn found(json: &str, path: &str, arrays: Arrays) -> String {
        let (document, mut seen) = (DocumentBuf::from_json(json).unwrap(), Vec::new());
        walk(document.view(), Path::new(path).parts(), arrays, &mut |found| {
            seen.push(found.value.map_or("-".to_owned(), |value| value.to_json()));
            Ok(false)
        })
        .unwrap();
        seen.join(" ")
    }

    #[test]
    fn arrays_are_entered_once_by_name_and_by_position() {
        for (json, path, expected) in [
            (r#"{"a":1}"#, "a", "1"),
            (r#"{"a":[1,[2]]}"#, "a", "1 [2] [1,[2]]"),
            (r#"{"a":1}"#, "a.b", "-"),
            (r#"{"a":[1,{"b":2},{"c":3},[{"b":4}]]}"#, "a.b", "2 -"),
            (r#"{"a":[]}"#, "a.b", ""),
            (r#"{"a":[{"b":[1,2]}]}"#, "a.b", "1 2 [1,2]"),
            (r#"{"a":[5,{"1":4},3]}"#, "a.1", r#"4 {"1":4}"#),
            (r#"{"a":[5,[2,4]]}"#, "a.1", "[2,4]"),
            (r#"{"a":[[5,6],7]}"#, "a.0.1", "6"),
            (r#"{"a":[{"b":1},{"b":2}]}"#, "a.1.b", "- - 2"),
            (r#"{"a":[1,{"":2}]}"#, "a.", r#"1 {"":2} [1,{"":2}]"#),
            (r#"{"a":{"":2}}"#, "a.", "2"),
        ] {
            assert_eq!(found(json, path, Arrays::Values), expected, "{json} {path}");
        }
        assert_eq!(found(r#"{"a":[1]}"#, "a", Arrays::Whole), "[1]");
    }
}
