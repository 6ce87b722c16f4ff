//! The traversal of sort keys and of `distinct`: the values of a path, with arrays taken apart.

use super::dotted::Part;
use crate::bson::{Array, Document, Value};

/// The values that the path of `parts` reaches in a document, as an index would hold them: an array at the end stands
/// for its values, an empty one for undefined, a field that is missing somewhere for null.
///
/// `add` is called with each value and with whether an array was taken apart on the way.
pub fn collect<'a>(document: Document<'a>, parts: &[Part], add: &mut dyn FnMut(Value<'a>)) {
    let Some((first, rest)) = parts.split_first() else { return add(Value::Document(document)) };
    match document.get(first.name()) {
        Some(value) => collect_value(value, rest, add),
        None => add(Value::Null),
    }
}

fn collect_value<'a>(value: Value<'a>, rest: &[Part], add: &mut dyn FnMut(Value<'a>)) {
    match value {
        Value::Array(array) if array.is_empty() => add(if rest.is_empty() { Value::Undefined } else { Value::Null }),
        Value::Array(array) if rest.is_empty() => array.values().for_each(add),
        _ if rest.is_empty() => add(value),
        Value::Document(document) => collect(document, rest, add),
        Value::Array(array) => collect_array(array, rest, add),
        _ => add(Value::Null),
    }
}

fn collect_array<'a>(array: Array<'a>, parts: &[Part], add: &mut dyn FnMut(Value<'a>)) {
    if let Some(value) = parts[0].index().and_then(|index| array.get(index)) {
        return collect_value(value, &parts[1..], add);
    }
    for value in array {
        match value {
            Value::Document(document) => collect(document, parts, add),
            _ => add(Value::Null),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::dotted::Path;
    use super::*;
    use crate::bson::DocumentBuf;

    #[test]
    fn arrays_are_taken_apart_as_an_index_does() {
        for (json, path, expected) in [
            (r#"{"a":[3,1]}"#, "a", "3 1"),
            (r#"{"a":[]}"#, "a", r#"{"$undefined":true}"#),
            (r#"{"a":[[1,2]]}"#, "a", "[1,2]"),
            (r#"{"a":[{"b":1},{"b":[2,3]},4,{}]}"#, "a.b", "1 2 3 null null"),
            (r#"{"a":[{"b":1},{"b":2}]}"#, "a.1.b", "2"),
            (r#"{"a":1}"#, "a.b", "null"),
            (r#"{}"#, "a", "null"),
        ] {
            let (document, mut seen) = (DocumentBuf::from_json(json).unwrap(), Vec::new());
            collect(document.view(), Path::new(path).parts(), &mut |value| seen.push(value.to_json()));
            assert_eq!(seen.join(" "), expected, "{json} {path}");
        }
    }
}
