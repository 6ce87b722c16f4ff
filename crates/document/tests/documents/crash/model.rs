//! What a database must hold: collections with their documents, indexes and validators.

use std::collections::{BTreeMap, BTreeSet};

use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value, ValueBuf};
use spinney_document::{Database, Result};
use spinney_testkit::Rng;

use crate::collections::json;

/// The specifications that collections get indexes of.
pub(crate) const INDEXES: [&str; 8] = [
    r#"{"key":{"a":1},"name":"a"}"#,
    r#"{"key":{"b":-1,"a":1},"name":"ba"}"#,
    r#"{"key":{"u":1},"name":"u","unique":true,"sparse":true}"#,
    r#"{"key":{"$**":1},"name":"all"}"#,
    r#"{"key":{"b":"hashed"},"name":"hb"}"#,
    r#"{"key":{"a":1},"name":"part","partialFilterExpression":{"b":{"$gt":1}}}"#,
    r#"{"key":{"b":1},"name":"pu","unique":true,"partialFilterExpression":{"u":{"$gt":25}}}"#,
    r#"{"key":{"t":1},"name":"ttl","expireAfterSeconds":100}"#,
];

pub(crate) const NAMES: [&str; 3] = ["t.one", "t.two", "s.three"];

/// The validator that collections get.
pub(crate) const VALIDATOR: &str = r#"{"validator":{"b":{"$ne":3}}}"#;

/// The time at which documents expire.
pub(crate) const NOW_MS: i64 = 160_000;

/// A collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Shape {
    /// By `_id`.
    pub(crate) documents: BTreeMap<i64, String>,
    /// By name, and whether queries see it.
    pub(crate) indexes: BTreeMap<String, bool>,
    pub(crate) validated: bool,
}

pub(crate) type State = BTreeMap<String, Shape>;

/// The name of an index.
pub(crate) fn index_name(index: usize) -> String {
    json(INDEXES[index]).view().get("name").unwrap().as_str().unwrap().to_owned()
}

pub(crate) fn id_of(document: &DocumentBuf) -> i64 {
    document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap()
}

fn number(text: &str, field: &str) -> Option<i64> {
    json(text).view().get(field).and_then(|value| value.as_exact_i64())
}

/// The keys that a document has in the unique indexes, with their names.
fn unique_keys(text: &str) -> Vec<(&'static str, Option<i64>)> {
    let u = number(text, "u");
    let mut keys: Vec<_> = u.iter().map(|u| ("u", Some(*u))).collect();
    if u.is_some_and(|u| u > 25) {
        keys.push(("pu", number(text, "b")));
    }
    keys
}

impl Shape {
    /// Whether validator and unique indexes let a document in, in the place of one with its `_id`.
    pub(crate) fn takes(&self, id: i64, text: &str) -> bool {
        if self.validated && number(text, "b") == Some(3) {
            return false;
        }
        let keys: Vec<_> = unique_keys(text).into_iter().filter(|(name, _)| self.indexes.contains_key(*name)).collect();
        let others = self.documents.iter().filter(|(other, _)| **other != id);
        !others.flat_map(|(_, text)| unique_keys(text)).any(|key| keys.contains(&key))
    }

    /// Whether the documents can have an index.
    pub(crate) fn can_have(&self, index: &str) -> bool {
        let mut seen = BTreeSet::new();
        let keys = self.documents.values().flat_map(|text| unique_keys(text)).filter(|(name, _)| *name == index);
        keys.into_iter().all(|key| seen.insert(key))
    }

    /// Puts a document in, or in the place of another; whether that is allowed.
    pub(crate) fn put(&mut self, document: &DocumentBuf, replaces: bool) -> bool {
        let (id, text) = (id_of(document), document.view().to_canonical_json());
        let can = self.documents.contains_key(&id) == replaces && self.takes(id, &text);
        if can {
            self.documents.insert(id, text);
        }
        can
    }

    /// Removes what has expired, if there is an index for that.
    pub(crate) fn expire(&mut self) {
        if self.indexes.contains_key("ttl") {
            self.documents.retain(|_, text| {
                let document = json(text);
                let millis = |value: Value<'_>| match value {
                    Value::DateTime(millis) => Some(millis),
                    _ => None,
                };
                let least = match document.view().get("t") {
                    Some(Value::Array(array)) => array.values().filter_map(millis).min(),
                    other => other.and_then(millis),
                };
                least.is_none_or(|least| least > NOW_MS - 100_000)
            });
        }
    }
}

/// The state of a database, each of whose collections must be valid.
pub(crate) fn read(db: &Database) -> Result<State> {
    read_beside(db, 0)
}

/// As [`read`], of a database that has tables beside those of documents.
pub(crate) fn read_beside(db: &Database, others: usize) -> Result<State> {
    let (mut state, mut tables) = (State::new(), 1 + others);
    for name in db.list_databases() {
        for listed in db.list_collections(&name) {
            let namespace = format!("{name}.{}", listed.view().get("name").unwrap().as_str().unwrap());
            let collection = db.collection(&namespace)?.unwrap();
            let validation = collection.validate()?;
            assert!(validation.is_valid(), "{namespace}: {validation:?}");
            let schema = collection.schema();
            assert!(schema.indexes.iter().all(|index| index.ready), "{namespace}: an index that is not ready");
            let mut shape = Shape { validated: schema.options.validator.is_some(), ..Shape::default() };
            let indexes = schema.indexes.iter().map(|index| (index.spec.name.clone(), !index.spec.hidden));
            shape.indexes.extend(indexes);
            for document in collection.documents() {
                let document = document?;
                let id = document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap();
                shape.documents.insert(id, document.view().to_canonical_json());
            }
            assert_eq!(collection.count()?, u64::try_from(shape.documents.len()).unwrap(), "{namespace}: the count");
            tables += 1 + shape.indexes.len();
            state.insert(namespace, shape);
        }
    }
    assert_eq!(db.engine().tables()?.len(), tables, "tables that no collection or index has");
    Ok(state)
}

/// A document of few values, so that keys meet.
pub(crate) fn document(rng: &mut Rng, id: i64) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("_id", id);
    let number = |rng: &mut Rng| i32::try_from(rng.in_range(0..4)).unwrap();
    match rng.in_range(0..4) {
        0 => builder.append("a", number(rng)),
        1 => builder.append("a", f64::from(number(rng))),
        2 => builder.open_array("a").push(number(rng)).push("x").push(number(rng)).close(),
        _ => &mut builder,
    };
    if rng.chance(70) {
        builder.append("b", number(rng));
    }
    if rng.chance(40) {
        builder.append("u", i32::try_from(rng.in_range(0..30)).unwrap());
    }
    let date = |rng: &mut Rng| Value::DateTime(*rng.pick(&[0, 50_000, 60_001, 200_000]));
    match rng.in_range(0..6) {
        0 | 1 => builder.append("t", date(rng)),
        2 => builder.append("t", &ValueBuf::array([date(rng), date(rng), Value::Null])),
        3 => builder.append("t", 1),
        _ => &mut builder,
    };
    builder.append("pad", "p".repeat(rng.in_range(0..200)).as_str());
    builder.finish()
}
