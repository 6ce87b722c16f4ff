//! The shape of a command that reads: its names, paths and operators, with the kinds of values in the place of the
//! values. Query settings are found by its hash, and `explain`, profiles and `$currentOp` show that.
//!
//! A shape is a document such as
//! `{cmdNs: {db: "shop", coll: "orders"}, command: "find", filter: {total: {$gt: "?number"}}, sort: {total: 1}}`.

use sha2::{Digest, Sha256};

use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Element, Value};
use crate::query::parse::{is_operators, is_operators_of_element};

/// The shape of a command, such as `{find: "orders", filter: {..}}`, on a database.
#[must_use]
pub fn query_shape(database: &str, command: Document<'_>) -> DocumentBuf {
    let mut shape = DocumentBuilder::new();
    let Some(first) = command.first() else { return shape.finish() };
    shape.open_document("cmdNs").append("db", database);
    shape.append("coll", first.value.as_str().unwrap_or("$cmd.aggregate")).close();
    shape.append("command", &*first.name.to_str_lossy());
    for element in command.elements().skip(1) {
        append_field(&mut shape, &element);
    }
    shape.finish()
}

/// The hash of a shape, of 64 hexadecimal digits.
#[must_use]
pub fn query_shape_hash(shape: &DocumentBuf) -> String {
    Sha256::digest(shape.as_bytes()).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// Appends a field of a command, if it is part of the shape.
fn append_field(shape: &mut DocumentBuilder, field: &Element<'_>) {
    let name = field.name.to_str_lossy();
    match (&*name, field.value) {
        ("filter" | "query", Value::Document(filter)) => append_filter(shape, &name, filter),
        ("projection" | "fields", Value::Document(projection)) if !projection.is_empty() => {
            append_projection(shape, &name, projection);
        }
        ("pipeline", Value::Array(stages)) => append_pipeline(shape, &name, stages),
        ("sort" | "collation", Value::Document(kept)) if !kept.is_empty() => _ = shape.append(&*name, kept),
        ("min" | "max" | "let", Value::Document(values)) if !values.is_empty() => {
            shape.open_document(&*name);
            values.elements().for_each(|value| append_operand(shape, &value));
            shape.close();
        }
        ("key", Value::String(_)) => _ = shape.append_element(field),
        ("skip" | "limit", value) if value.as_f64().is_some_and(|number| number != 0.0) => {
            shape.append(&*name, "?number");
        }
        ("returnKey" | "showRecordId" | "tailable" | "awaitData", Value::Bool(true)) => {
            shape.append(&*name, true);
        }
        _ => {}
    }
}

/// Appends the shape of a filter.
fn append_filter(shape: &mut DocumentBuilder, name: &str, filter: Document<'_>) {
    match &conditions(filter)[..] {
        [] => shape.open_document(name).close(),
        [one] => shape.append(name, one),
        several => {
            shape.open_document(name).open_array("$and");
            several.iter().for_each(|one| _ = shape.push(one));
            shape.close().close()
        }
    };
}

fn filter_shape(filter: Document<'_>) -> DocumentBuf {
    match &conditions(filter)[..] {
        [] => DocumentBuf::new(),
        [one] => one.clone(),
        several => {
            let mut joined = DocumentBuilder::new();
            joined.open_array("$and");
            several.iter().for_each(|one| _ = joined.push(one));
            joined.close();
            joined.finish()
        }
    }
}

/// The shapes of the conditions of a filter, those of an `$and` among them.
fn conditions(filter: Document<'_>) -> Vec<DocumentBuf> {
    let mut found = Vec::new();
    for element in filter {
        let name = element.name.to_str_lossy();
        match (&*name, element.value) {
            ("$and", Value::Array(parts)) => {
                parts.values().filter_map(|part| part.as_document()).for_each(|part| found.extend(conditions(part)));
            }
            ("$or" | "$nor", Value::Array(parts)) => {
                let mut joined = DocumentBuilder::new();
                joined.open_array(&*name);
                parts.values().filter_map(|part| part.as_document()).for_each(|part| {
                    joined.push(&filter_shape(part));
                });
                joined.close();
                found.push(joined.finish());
            }
            ("$comment", _) => {}
            (name, _) if name.starts_with('$') => {
                let mut condition = DocumentBuilder::new();
                append_operand(&mut condition, &element);
                found.push(condition.finish());
            }
            (path, Value::Document(tests)) if is_operators(tests) => {
                found.extend(operators(tests).into_iter().map(|test| one(path, &test)));
            }
            (path, Value::Regex(..)) => found.push(one(path, &one("$regex", "?string"))),
            (path, value) => found.push(one(path, &one("$eq", &*placeholder(&value)))),
        }
    }
    found
}

/// A document of one field.
fn one<'v>(name: &str, value: impl Into<Value<'v>>) -> DocumentBuf {
    let mut document = DocumentBuilder::new();
    document.append(name, value);
    document.finish()
}

/// The shapes of operators that are asked of one path.
fn operators(tests: Document<'_>) -> Vec<DocumentBuf> {
    let mut found = Vec::new();
    for element in tests {
        let name = element.name.to_str_lossy();
        let test = match (&*name, element.value) {
            ("$not", Value::Document(inner)) => one("$not", &joined(&operators(inner))),
            ("$elemMatch", Value::Document(inner)) => {
                let of_values = inner.first().is_some_and(|first| {
                    is_operators_of_element(inner) && !matches!(first.name.as_bytes(), b"$and" | b"$or" | b"$nor")
                });
                let inner = if of_values { joined(&operators(inner)) } else { filter_shape(inner) };
                one("$elemMatch", &inner)
            }
            // They say what is asked as much as their names do.
            ("$exists" | "$type" | "$options", value) => one(&name, value),
            (name, value) => one(name, &*placeholder(&value)),
        };
        found.push(test);
    }
    found
}

/// The fields of documents in one.
fn joined(documents: &[DocumentBuf]) -> DocumentBuf {
    let mut joined = DocumentBuilder::new();
    documents.iter().for_each(|document| _ = joined.append_all(document.view()));
    joined.finish()
}

fn append_projection(shape: &mut DocumentBuilder, name: &str, projection: Document<'_>) {
    shape.open_document(name);
    for element in projection {
        match element.value {
            Value::Bool(_) => _ = shape.append_element(&element),
            value if value.kind().is_number() => {
                shape.append(element.name.as_bytes(), value.as_f64().is_none_or(|number| number != 0.0));
            }
            _ => append_operand(shape, &element),
        }
    }
    shape.close();
}

fn append_pipeline(shape: &mut DocumentBuilder, name: &str, stages: Array<'_>) {
    shape.open_array(name);
    for stage in stages.values() {
        match stage.as_document() {
            Some(stage) => {
                shape.push_document();
                stage.elements().for_each(|stage| append_stage(shape, &stage));
                shape.close();
            }
            None => _ = shape.push(&*placeholder(&stage)),
        }
    }
    shape.close();
}

fn append_stage(shape: &mut DocumentBuilder, stage: &Element<'_>) {
    let name = stage.name.to_str_lossy();
    match (&*name, stage.value) {
        ("$match", Value::Document(filter)) => append_filter(shape, &name, filter),
        ("$project", Value::Document(projection)) => append_projection(shape, &name, projection),
        ("$sort", Value::Document(_)) => _ = shape.append_element(stage),
        ("$facet", Value::Document(facets)) => {
            shape.open_document(&*name);
            for facet in facets {
                match facet.value {
                    Value::Array(stages) => append_pipeline(shape, &facet.name.to_str_lossy(), stages),
                    _ => append_operand(shape, &facet),
                }
            }
            shape.close();
        }
        _ => append_operand(shape, stage),
    }
}

/// The fields whose texts are names.
const NAMES: [&str; 24] = [
    "$count",
    "$unset",
    "$unionWith",
    "$out",
    "$merge",
    "as",
    "coll",
    "connectFromField",
    "connectToField",
    "db",
    "depthField",
    "field",
    "foreignField",
    "from",
    "granularity",
    "includeArrayIndex",
    "into",
    "localField",
    "on",
    "partitionByFields",
    "path",
    "unit",
    "whenMatched",
    "whenNotMatched",
];

/// Appends what a stage or an expression is given: names and paths stay.
fn append_operand(shape: &mut DocumentBuilder, element: &Element<'_>) {
    let name = element.name.to_str_lossy();
    match (&*name, element.value) {
        ("pipeline", Value::Array(stages)) => append_pipeline(shape, &name, stages),
        ("sortBy", Value::Document(_)) | ("$jsonSchema" | "preserveNullAndEmptyArrays", _) => {
            shape.append_element(element);
        }
        ("restrictSearchWithMatch", Value::Document(filter)) => append_filter(shape, &name, filter),
        ("$literal", value) => _ = shape.append("$literal", &*placeholder(&value)),
        (name, Value::String(_)) if NAMES.contains(&name) => _ = shape.append_element(element),
        (name, Value::Array(names)) if NAMES.contains(&name) && names.values().all(|name| name.as_str().is_some()) => {
            shape.append_element(element);
        }
        (name, Value::Document(inner)) => {
            shape.open_document(name);
            inner.elements().for_each(|inner| append_operand(shape, &inner));
            shape.close();
        }
        (name, Value::Array(values)) if has_paths(values) => {
            shape.open_array(name);
            values.as_document().elements().for_each(|value| append_value(shape, &value));
            shape.close();
        }
        (_, Value::String(path)) if path.as_bytes().starts_with(b"$") => _ = shape.append_element(element),
        (name, value) => _ = shape.append(name, &*placeholder(&value)),
    }
}

/// Appends an element of an array.
fn append_value(shape: &mut DocumentBuilder, element: &Element<'_>) {
    match element.value {
        Value::Document(inner) => {
            shape.push_document();
            inner.elements().for_each(|inner| append_operand(shape, &inner));
            shape.close();
        }
        Value::Array(inner) if has_paths(inner) => {
            shape.push_array();
            inner.as_document().elements().for_each(|value| append_value(shape, &value));
            shape.close();
        }
        Value::String(path) if path.as_bytes().starts_with(b"$") => _ = shape.push(element.value),
        value => _ = shape.push(&*placeholder(&value)),
    }
}

/// Whether an array has more than values.
fn has_paths(array: Array<'_>) -> bool {
    array.values().any(|value| match value {
        Value::Document(_) => true,
        Value::Array(inner) => has_paths(inner),
        Value::String(path) => path.as_bytes().starts_with(b"$"),
        _ => false,
    })
}

/// What stands for a value: its kind.
fn placeholder(value: &Value<'_>) -> std::borrow::Cow<'static, str> {
    let name = match value {
        Value::Array(array) => {
            let mut kinds: Vec<_> = array.values().map(|value| placeholder(&value)).collect();
            kinds.sort_unstable();
            kinds.dedup();
            return match &kinds[..] {
                [] => "[]".into(),
                [kind] => format!("?array<{kind}>").into(),
                _ => "?array<>".into(),
            };
        }
        value if value.kind().is_number() => "number",
        value => value.kind().name(),
    };
    format!("?{name}").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &str) -> String {
        let command = DocumentBuf::from_json(command).unwrap();
        query_shape("shop", command.view()).view().to_json()
    }

    #[test]
    fn values_are_told_by_their_kinds() {
        assert_eq!(
            of(r#"{"find": "c", "filter": {"a": 1, "b": {"$gt": "x", "$lt": "y"}}, "sort": {"a": -1}, "limit": 3}"#),
            r#"{"cmdNs":{"db":"shop","coll":"c"},"command":"find","filter":{"$and":[{"a":{"$eq":"?number"}},"#
                .to_owned()
                + r#"{"b":{"$gt":"?string"}},{"b":{"$lt":"?string"}}]},"sort":{"a":-1},"limit":"?number"}"#
        );
        assert_eq!(
            of(r#"{"distinct": "c", "key": "k", "query": {"a": {"$in": [1, 2]}, "b": {"$not": {"$size": 2}}}}"#),
            r#"{"cmdNs":{"db":"shop","coll":"c"},"command":"distinct","key":"k","query":{"$and":["#.to_owned()
                + r#"{"a":{"$in":"?array<?number>"}},{"b":{"$not":{"$size":"?number"}}}]}}"#
        );
        assert_eq!(
            of(r#"{"aggregate": 1, "pipeline": [{"$match": {"a": null}}, {"$group": {"_id": "$a", "n": {"$sum": 1}}},
                 {"$lookup": {"from": "d", "as": "d", "pipeline": [{"$match": {"x": "y"}}]}}, {"$limit": 5}]}"#),
            r#"{"cmdNs":{"db":"shop","coll":"$cmd.aggregate"},"command":"aggregate","pipeline":["#.to_owned()
                + r#"{"$match":{"a":{"$eq":"?null"}}},{"$group":{"_id":"$a","n":{"$sum":"?number"}}},"#
                + r#"{"$lookup":{"from":"d","as":"d","pipeline":[{"$match":{"x":{"$eq":"?string"}}}]}},"#
                + r#"{"$limit":"?number"}]}"#
        );
    }

    #[test]
    fn what_a_query_asks_matters_and_what_it_compares_with_does_not() {
        let same = [
            [r#"{"find": "c", "filter": {"a": 1}}"#, r#"{"find": "c", "filter": {"a": {"$eq": 7.5}}, "hint": "a_1"}"#],
            [
                r#"{"find": "c", "filter": {"$and": [{"a": 1}, {"b": 2}]}}"#,
                r#"{"find": "c", "filter": {"a": 1, "b": 2}}"#,
            ],
            [r#"{"find": "c", "projection": {"a": 1}}"#, r#"{"find": "c", "projection": {"a": true}, "batchSize": 3}"#],
        ];
        for [one, other] in same {
            assert_eq!(of(one), of(other));
        }
        let different = [
            r#"{"find": "c", "filter": {"a": 1}}"#,
            r#"{"find": "d", "filter": {"a": 1}}"#,
            r#"{"find": "c", "filter": {"a": "x"}}"#,
            r#"{"find": "c", "filter": {"a": 1}, "sort": {"a": 1}}"#,
            r#"{"find": "c", "filter": {"a": 1}, "sort": {"a": -1}}"#,
            r#"{"find": "c", "filter": {"a": 1}, "collation": {"locale": "fr"}}"#,
            r#"{"find": "c", "filter": {"a": {"$exists": true}}}"#,
            r#"{"find": "c", "filter": {"a": {"$exists": false}}}"#,
            r#"{"aggregate": "c", "pipeline": [{"$match": {"a": 1}}]}"#,
            r#"{"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$sort": {"a": 1}}]}"#,
            r#"{"aggregate": "c", "pipeline": [{"$match": {"a": 1}}, {"$sort": {"a": -1}}]}"#,
        ];
        let hashes: std::collections::BTreeSet<_> = different
            .iter()
            .map(|command| query_shape_hash(&query_shape("shop", DocumentBuf::from_json(command).unwrap().view())))
            .collect();
        assert_eq!(hashes.len(), different.len());
        assert!(hashes.iter().all(|hash| hash.len() == 64));
    }
}
