//! What an update changed in a document, as change streams tell it.

use std::collections::HashSet;

use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value};

/// A part of a path: a field, or a position in an array.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Field(&'a [u8]),
    Position(usize),
}

/// A changed value; nothing for one that was removed.
#[derive(Debug)]
struct Entry<'a> {
    path: Vec<Part<'a>>,
    what: What<'a>,
}

#[derive(Debug)]
enum What<'a> {
    Set(Value<'a>),
    Removed,
    Truncated(usize),
}

/// The difference of two documents with the same `_id`: `{u: {path: value}, r: [path], t: [{field: path, newSize: n}],
/// d: {path: [parts]}}`, each where there is something; `d` has the paths with a component that is a number or has a
/// dot in it.
#[must_use]
pub fn describe(old: Document<'_>, new: Document<'_>) -> DocumentBuf {
    let mut entries = Vec::new();
    compare_documents(&[], old, new, &mut entries);
    let mut builder = DocumentBuilder::new();
    let sets = entries.iter().filter_map(|entry| match entry.what {
        What::Set(value) => Some((text(&entry.path), value)),
        _ => None,
    });
    let sets: Vec<_> = sets.collect();
    if !sets.is_empty() {
        builder.open_document("u");
        sets.iter().for_each(|(path, value)| {
            builder.append(path, *value);
        });
        builder.close();
    }
    if entries.iter().any(|entry| matches!(entry.what, What::Removed)) {
        builder.open_array("r");
        for entry in entries.iter().filter(|entry| matches!(entry.what, What::Removed)) {
            builder.push(Value::String(crate::bson::Text::from_bytes(&text(&entry.path))));
        }
        builder.close();
    }
    if entries.iter().any(|entry| matches!(entry.what, What::Truncated(_))) {
        builder.open_array("t");
        for entry in &entries {
            if let What::Truncated(len) = entry.what {
                let path = text(&entry.path);
                builder.push_document().append("field", Value::String(crate::bson::Text::from_bytes(&path)));
                builder.append("newSize", i32::try_from(len).unwrap_or(i32::MAX)).close();
            }
        }
        builder.close();
    }
    append_ambiguous(&entries, &mut builder);
    builder.finish()
}

fn append_ambiguous(entries: &[Entry<'_>], builder: &mut DocumentBuilder) {
    let is_ambiguous = |part: &Part<'_>| match part {
        Part::Field(name) => name.contains(&b'.') || (!name.is_empty() && name.iter().all(u8::is_ascii_digit)),
        Part::Position(_) => true,
    };
    let mut open = false;
    for entry in entries.iter().filter(|entry| entry.path.iter().any(is_ambiguous)) {
        if !open {
            builder.open_document("d");
            open = true;
        }
        builder.open_array(text(&entry.path));
        for part in &entry.path {
            match part {
                Part::Field(name) => builder.push(Value::String(crate::bson::Text::from_bytes(name))),
                Part::Position(at) => builder.push(i32::try_from(*at).unwrap_or(i32::MAX)),
            };
        }
        builder.close();
    }
    if open {
        builder.close();
    }
}

fn text(path: &[Part<'_>]) -> Vec<u8> {
    let mut text = Vec::new();
    for (at, part) in path.iter().enumerate() {
        if at > 0 {
            text.push(b'.');
        }
        match part {
            Part::Field(name) => text.extend_from_slice(name),
            Part::Position(at) => text.extend_from_slice(at.to_string().as_bytes()),
        }
    }
    text
}

fn joined<'a>(path: &[Part<'a>], part: Part<'a>) -> Vec<Part<'a>> {
    path.iter().copied().chain([part]).collect()
}

/// Walks over both documents at once: a field of the new one that comes earlier than in the old one is set again at the
/// end, as it was removed and added.
fn compare_documents<'a>(path: &[Part<'a>], old: Document<'a>, new: Document<'a>, found: &mut Vec<Entry<'a>>) {
    let (mut before, mut after) = (old.elements().peekable(), new.elements().peekable());
    let mut removed: Vec<&[u8]> = Vec::new();
    while let (Some(one), Some(other)) = (before.peek().copied(), after.peek().copied()) {
        let name = one.name.as_bytes();
        if one.name.as_bytes() == other.name.as_bytes() {
            if one.raw() != other.raw() {
                compare_values(joined(path, Part::Field(name)), one.value, other.value, found);
            }
            after.next();
        } else {
            removed.push(name);
        }
        before.next();
    }
    removed.extend(before.map(|element| element.name.as_bytes()));
    let added: Vec<_> = after.collect();
    let names: HashSet<&[u8]> = match removed.is_empty() {
        true => HashSet::new(),
        false => added.iter().map(|element| element.name.as_bytes()).collect(),
    };
    for name in removed {
        if !names.contains(name) {
            found.push(Entry { path: joined(path, Part::Field(name)), what: What::Removed });
        }
    }
    for element in added {
        let path = joined(path, Part::Field(element.name.as_bytes()));
        found.push(Entry { path, what: What::Set(element.value) });
    }
}

fn compare_values<'a>(path: Vec<Part<'a>>, old: Value<'a>, new: Value<'a>, found: &mut Vec<Entry<'a>>) {
    let start = found.len();
    let whole = match (old, new) {
        (Value::Document(old), Value::Document(new)) => {
            compare_documents(&path, old, new, found);
            new.as_bytes().len()
        }
        (Value::Array(old), Value::Array(new)) => {
            compare_arrays(&path, old, new, found);
            new.as_bytes().len()
        }
        _ => 0,
    };
    // A single part keeps its own path, as the operator of an update names it. Several that are no smaller than the
    // whole tell nothing.
    let parts: usize = found[start..].iter().map(Entry::bytes).sum();
    if whole == 0 || (found.len() != start + 1 && parts >= whole) {
        found.truncate(start);
        found.push(Entry { path, what: What::Set(new) });
    }
}

fn compare_arrays<'a>(path: &[Part<'a>], old: Array<'a>, new: Array<'a>, found: &mut Vec<Entry<'a>>) {
    let (before, after) = (old.count(), new.count());
    if after < before {
        found.push(Entry { path: path.to_vec(), what: What::Truncated(after) });
    }
    let mut olds = old.as_document().elements();
    for (at, element) in new.as_document().elements().enumerate() {
        let path = || joined(path, Part::Position(at));
        match olds.next() {
            Some(old) if same(&old, &element) => {}
            Some(old) => compare_values(path(), old.value, element.value, found),
            None => found.push(Entry { path: path(), what: What::Set(element.value) }),
        }
    }
}

/// Whether two values have the same type and bytes.
fn same(one: &crate::bson::Element<'_>, other: &crate::bson::Element<'_>) -> bool {
    let payload = |element: &crate::bson::Element<'_>| {
        let (kind, rest) = element.raw().split_first()?;
        Some((*kind, rest.get(element.name.len() + 1..)?.to_vec()))
    };
    payload(one) == payload(other)
}

impl Entry<'_> {
    /// About the bytes that the entry takes in a description.
    fn bytes(&self) -> usize {
        let value = match self.what {
            What::Set(Value::Document(document)) => document.as_bytes().len(),
            What::Set(Value::Array(array)) => array.as_bytes().len(),
            What::Set(Value::String(text)) => text.len() + 5,
            What::Set(Value::Binary(_, bytes)) => bytes.len() + 5,
            _ => 8,
        };
        // The last part of the path alone: the others are written for the whole as well.
        value + 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_as_small_as_they_can_be() {
        let long = format!(r#""{}""#, "x".repeat(100));
        for (old, new, described) in [
            (r#"{"_id":1,"a":1}"#, r#"{"_id":1,"a":2}"#, r#"{"u":{"a":2}}"#),
            (r#"{"_id":1,"a":1}"#, r#"{"_id":1,"a":1.0}"#, r#"{"u":{"a":1.0}}"#),
            (r#"{"_id":1,"a":1,"b":2}"#, r#"{"_id":1,"b":2,"c":3}"#, r#"{"u":{"c":3},"r":["a"]}"#),
            (r#"{"a":{"l":L,"b":1}}"#, r#"{"a":{"l":L,"b":2}}"#, r#"{"u":{"a.b":2}}"#),
            (r#"{"a":{"b":1}}"#, r#"{"a":{"b":{"c":1}}}"#, r#"{"u":{"a.b":{"c":1}}}"#),
            (r#"{"a":{"1":1}}"#, r#"{"a":{"1":2}}"#, r#"{"u":{"a.1":2},"d":{"a.1":["a","1"]}}"#),
            (r#"{"a":[{"1":1}]}"#, r#"{"a":[{"1":2}]}"#, r#"{"u":{"a.0.1":2},"d":{"a.0.1":["a",0,"1"]}}"#),
            (r#"{"a":{"b":1,"c":1}}"#, r#"{"a":{"b":2,"c":2}}"#, r#"{"u":{"a":{"b":2,"c":2}}}"#),
            (r#"{"a":[L,1,2]}"#, r#"{"a":[L,1,5,6]}"#, r#"{"u":{"a.2":5,"a.3":6},"d":{"a.2":["a",2],"a.3":["a",3]}}"#),
            (r#"{"a":[L,1,2]}"#, r#"{"a":[L,1]}"#, r#"{"t":[{"field":"a","newSize":2}]}"#),
            (r#"{"a":[L,1,2]}"#, r#"{"a":[1,2]}"#, r#"{"u":{"a":[1,2]}}"#),
            (r#"{"a":{"l":L,"0":1}}"#, r#"{"a":{"l":L,"0":2}}"#, r#"{"u":{"a.0":2},"d":{"a.0":["a","0"]}}"#),
            // A field that moved is set again.
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, r#"{"u":{"a":1}}"#),
        ] {
            let parse = |text: &str| DocumentBuf::from_json(&text.replace('L', &long)).unwrap();
            let (before, after) = (parse(old), parse(new));
            let found = describe(before.view(), after.view()).view().to_json();
            assert_eq!(found, described, "{old} {new}");
        }
    }
}
