//! Document databases with all kinds of collections and indexes, and what they hold.

use std::collections::BTreeMap;
use std::path::Path;

use spinney::{Durability, Options};
use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::{Client, Request, Service};
use spinney_testkit::rng::Rng;

/// The collections.
pub(crate) const COLLECTIONS: [&str; 5] = ["goods", "names", "events", "tree", "clustered"];

/// The documents of each collection: the canonical extended JSON of each `_id`, and of the document.
pub(crate) type Truth = BTreeMap<&'static str, BTreeMap<String, String>>;

/// Small files: segments of 64 KiB, and memtables that are flushed when the test says so.
pub(crate) fn options() -> Options {
    let options = Options::default().memory_bytes(4 << 20).log_segment_bytes(64 << 10).log_bytes_max(1 << 20);
    options.durability(Durability::Buffered)
}

/// Runs a command in JSON.
pub(crate) fn run(service: &Service, command: &str) -> DocumentBuf {
    let command = DocumentBuf::from_json(command).unwrap();
    let client = Client::default();
    service.run(&Request { database: "shop", body: command.view(), sequences: &[], client: &client })
}

/// Runs a command in JSON, which must be done.
pub(crate) fn done(service: &Service, command: &str) -> DocumentBuf {
    let reply = run(service, command);
    let ok = reply.view().get("ok").and_then(|ok| ok.as_exact_i64());
    let is_done = ok == Some(1) && reply.view().get("writeErrors").is_none();
    assert!(is_done, "{command}: {}", reply.view().to_json());
    reply
}

/// The documents that a `find` in JSON shows.
pub(crate) fn found(reply: &DocumentBuf) -> Option<Vec<DocumentBuf>> {
    let cursor = reply.view().get("cursor")?.as_document()?;
    let batch = cursor.get("firstBatch")?.as_array()?;
    Some(batch.values().filter_map(|document| document.as_document().map(DocumentBuf::from)).collect())
}

const COMMANDS: [&str; 10] = [
    r#"{"create": "goods"}"#,
    r#"{"create": "names", "collation": {"locale": "en", "strength": 2}}"#,
    r#"{"create": "events", "capped": true, "size": 100000, "max": 90}"#,
    r#"{"create": "tree", "storageEngine": {"spinney": {"layout": "btree"}}}"#,
    r#"{"create": "clustered", "clusteredIndex": {"key": {"_id": 1}, "unique": true}}"#,
    r#"{"create": "cheap", "viewOn": "goods", "pipeline": [{"$match": {"price": {"$lt": 10}}}]}"#,
    r#"{"createIndexes": "goods", "indexes": [
        {"key": {"tags": 1, "price": -1}, "name": "tags"}, {"key": {"code": 1}, "name": "code", "unique": true},
        {"key": {"price": "hashed"}, "name": "hashed"}, {"key": {"more.$**": 1}, "name": "all"},
        {"key": {"at": 1}, "name": "at", "expireAfterSeconds": 2000000000}, {"key": {"kind": 1}, "name": "kind"},
        {"key": {"price": 1}, "name": "some", "partialFilterExpression": {"price": {"$gt": 5}}},
        {"key": {"maybe": 1}, "name": "maybe", "sparse": true}]}"#,
    r#"{"createIndexes": "names", "indexes": [{"key": {"name": 1}, "name": "name"}, {"key": {"code": 1}, "name": "code", "unique": true}]}"#,
    r#"{"createIndexes": "events", "indexes": [{"key": {"kind": 1}, "name": "kind"}]}"#,
    r#"{"createIndexes": "tree", "indexes": [{"key": {"kind": 1, "price": 1}, "name": "kind", "storageEngine": {"spinney": {"layout": "btree"}}}, {"key": {"code": 1}, "name": "code", "unique": true}]}"#,
];

/// An `_id` of a collection, as JSON.
fn id_of(collection: &str, number: usize) -> String {
    match (collection, number % 3) {
        ("clustered", _) => format!(r#"{{"$date": {{"$numberLong": "{}"}}}}"#, 1_700_000_000_000_u64 + number as u64),
        ("names", _) => format!(r#""Name {number}""#),
        (_, 0) => format!("{number}"),
        (_, 1) => format!(r#""text {number}""#),
        _ => format!(r#"{{"$oid": "65f00000000000000{number:07x}"}}"#),
    }
}

/// A document of a collection, as JSON.
fn document_of(collection: &str, number: usize, code: usize, rng: &mut Rng) -> String {
    let (id, price) = (id_of(collection, number), rng.in_range(0..60) as f64 / 4.0);
    let tags = *rng.pick(&["[]", r#"["new"]"#, r#"["new", "red"]"#, "\"one\""]);
    let maybe = if rng.chance(30) { format!(r#", "maybe": {}"#, rng.in_range(0..9)) } else { String::new() };
    let filler = "x".repeat(rng.in_range(0..200));
    format!(
        r#"{{"_id": {id}, "code": {code}, "kind": "k{}", "price": {price}, "tags": {tags}, "name": "Ann {}",
            "at": {{"$date": {{"$numberLong": "{}"}}}}, "more": {{"a": {}, "b": [1, {{"c": {}}}]}}, "filler": "{filler}"{maybe}}}"#,
        rng.in_range(0..7),
        rng.in_range(0..30),
        1_790_000_000_000_u64 + number as u64,
        rng.in_range(0..5),
        rng.in_range(0..5),
    )
}

/// Makes a database, and closes it.
pub(crate) fn make(path: &Path, rng: &mut Rng) -> Truth {
    let service = Service::new(Database::open(path, options()).unwrap());
    COMMANDS.iter().for_each(|command| drop(done(&service, command)));
    let (rounds, mut number) = (rng.in_range(2..6), 0);
    for round in 0..rounds {
        for collection in COLLECTIONS {
            change(&service, collection, &mut number, rng);
        }
        match rng.in_range(0..5) {
            0 | 1 => service.database().engine().flush().unwrap(),
            2 => {
                let tables = service.database().engine().tables().unwrap();
                rng.pick(&tables).flush().unwrap();
            }
            3 if round > 0 => service.database().engine().tables().unwrap().iter().for_each(|t| t.compact().unwrap()),
            _ => {}
        }
    }
    let truth = COLLECTIONS.map(|collection| (collection, documents(&service, collection))).into();
    let engine = service.database().engine().clone();
    engine.sync().unwrap();
    // One that is dropped was not closed in order: its counts are not stored.
    let is_closed = rng.chance(70);
    drop(service);
    if is_closed {
        engine.close().unwrap();
    }
    truth
}

/// Inserts, updates and deletes some documents.
fn change(service: &Service, collection: &str, number: &mut usize, rng: &mut Rng) {
    let inserted: Vec<String> = (0..rng.in_range(5..60))
        .map(|_| {
            *number += 1;
            document_of(collection, *number, *number, rng)
        })
        .collect();
    done(service, &format!(r#"{{"insert": "{collection}", "documents": [{}]}}"#, inserted.join(",")));
    let there: Vec<_> = documents(service, collection).into_keys().collect();
    for _ in 0..rng.in_range(0..12) {
        let id = rng.pick(&there).clone();
        let (kind, price) = (rng.in_range(0..7), rng.in_range(0..60) as f64 / 4.0);
        *number += 1;
        let update = format!(
            r#"{{"q": {{"_id": {id}}}, "u": {{"$set": {{"kind": "k{kind}", "price": {price}, "code": {number}}}}}}}"#
        );
        done(service, &format!(r#"{{"update": "{collection}", "updates": [{update}]}}"#));
    }
    if collection == "events" {
        return;
    }
    for _ in 0..rng.in_range(0..8) {
        let id = rng.pick(&there).clone();
        let gone = find_one(service, collection, &id);
        done(service, &format!(r#"{{"delete": "{collection}", "deletes": [{{"q": {{"_id": {id}}}, "limit": 1}}]}}"#));
        // Its unique key goes to another document: were it to come back, the index could not be built.
        if let (Some(code), true) = (gone, rng.chance(50)) {
            *number += 1;
            let document = document_of(collection, *number, code, rng);
            done(service, &format!(r#"{{"insert": "{collection}", "documents": [{document}]}}"#));
        }
    }
}

/// The code of a document, if it is there.
fn find_one(service: &Service, collection: &str, id: &str) -> Option<usize> {
    let reply = done(service, &format!(r#"{{"find": "{collection}", "filter": {{"_id": {id}}}}}"#));
    let code = found(&reply)?.first()?.view().get("code")?.as_exact_i64()?;
    usize::try_from(code).ok()
}

/// All documents of a collection, by a scan.
pub(crate) fn documents(service: &Service, collection: &str) -> BTreeMap<String, String> {
    let command = format!(r#"{{"find": "{collection}", "hint": {{"$natural": 1}}, "batchSize": 100000}}"#);
    let found = found(&done(service, &command)).unwrap();
    let pair = |document: &DocumentBuf| {
        let json = document.view().to_canonical_json();
        (id_json(document), json)
    };
    found.iter().map(pair).collect()
}

/// The canonical extended JSON of the `_id` of a document.
pub(crate) fn id_json(document: &DocumentBuf) -> String {
    let id = document.view().get("_id").unwrap();
    let mut only = spinney_document::bson::DocumentBuilder::new();
    only.append("i", id);
    let json = only.finish().view().to_canonical_json();
    json.strip_prefix(r#"{"i":"#).and_then(|json| json.strip_suffix('}')).unwrap().to_owned()
}
