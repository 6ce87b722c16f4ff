//! That a database agrees with itself, and with what a salvage reported.

use std::collections::BTreeMap;
use std::path::Path;

use spinney_document::Database;
use spinney_document::bson::DocumentBuf;
use spinney_document::command::Service;

use crate::made::{COLLECTIONS, Truth, documents, done, found, options, run};
use crate::salvaged::Report;

/// A way to find documents by an index: the collection, the index, a filter and a projection.
const WAYS: &[(&str, &str, &str, &str)] = &[
    ("goods", "tags", r#"{"tags": "new"}"#, "{}"),
    ("goods", "tags", r#"{"tags": {"$gte": ""}, "price": {"$gte": 3}}"#, "{}"),
    ("goods", "code", r#"{"code": {"$gte": 0}}"#, "{}"),
    ("goods", "code", r#"{"code": {"$gte": 0}}"#, r#"{"_id": 0, "code": 1}"#),
    ("goods", "hashed", r#"{"price": 3}"#, "{}"),
    ("goods", "all", r#"{"more.a": {"$gte": 0}}"#, "{}"),
    ("goods", "all", r#"{"more.b.c": 2}"#, "{}"),
    ("goods", "at", r#"{"at": {"$gte": {"$date": {"$numberLong": "0"}}}}"#, "{}"),
    ("goods", "kind", r#"{"kind": {"$gte": ""}}"#, "{}"),
    ("goods", "kind", r#"{"kind": {"$gte": ""}}"#, r#"{"_id": 0, "kind": 1}"#),
    ("goods", "kind", r#"{"kind": "k3"}"#, r#"{"_id": 1, "kind": 1}"#),
    ("goods", "some", r#"{"price": {"$gt": 5}}"#, "{}"),
    ("goods", "maybe", r#"{"maybe": {"$gte": 0}}"#, "{}"),
    ("names", "name", r#"{"name": "ann 3"}"#, "{}"),
    ("names", "name", r#"{"name": {"$gte": "ann"}}"#, "{}"),
    ("names", "code", r#"{"code": {"$gte": 0}}"#, "{}"),
    ("events", "kind", r#"{"kind": {"$gte": ""}}"#, "{}"),
    ("events", "kind", r#"{"kind": {"$gte": ""}}"#, r#"{"_id": 0, "kind": 1}"#),
    ("events", "_id_", r#"{"_id": {"$gte": 0}}"#, "{}"),
    ("events", "_id_", r#"{"_id": {"$gte": ""}}"#, "{}"),
    ("tree", "kind", r#"{"kind": {"$gte": ""}}"#, "{}"),
    ("tree", "kind", r#"{"kind": "k2", "price": {"$lt": 9}}"#, r#"{"_id": 0, "kind": 1, "price": 1}"#),
    ("tree", "code", r#"{"code": {"$gte": 0}}"#, "{}"),
];

/// Checks a database that was salvaged; returns the number of documents that it lost.
pub(crate) fn check(dir: &Path, truth: &Truth, report: &Report, may_be_torn: bool) -> Result<u64, String> {
    let database = Database::open(dir, options()).map_err(|error| format!("it does not open: {error}"))?;
    let service = Service::new(database);
    let mut lost = 0;
    for collection in COLLECTIONS {
        let is_there = service.database().collection(&format!("shop.{collection}")).map_err(|e| e.to_string())?;
        let Some(handle) = is_there else {
            if !may_be_torn && !report.names_collection(collection) {
                return Err(format!("{collection} is gone, and not named"));
            }
            continue;
        };
        let there = documents(&service, collection);
        agrees(&service, collection, &there, report)?;
        let validation = handle.validate().map_err(|error| error.to_string())?;
        if !validation.is_valid() {
            return Err(format!("{collection} is not valid: {:?}", validation.problems));
        }
        let names = |id: &str| may_be_torn || report.names(collection, id);
        lost += compare(collection, &truth[collection], &there, names)
            .map_err(|what| format!("{what}: {}", report.text()))?;
    }
    let verified = service.database().engine().verify().map_err(|error| error.to_string())?;
    if verified.problem_count > 0 {
        return Err(format!("the tables are damaged: {:?}", verified.problems));
    }
    Ok(lost)
}

/// The count, each index and covered reads say what a scan does.
fn agrees(
    service: &Service,
    collection: &str,
    there: &BTreeMap<String, String>,
    report: &Report,
) -> Result<(), String> {
    let count = done(service, &format!(r#"{{"count": "{collection}"}}"#));
    let count = count.view().get("n").and_then(|n| n.as_exact_i64());
    if count != i64::try_from(there.len()).ok() {
        return Err(format!("{collection}: a scan has {} documents, the count is {count:?}", there.len()));
    }
    for (_, index, filter, projection) in WAYS.iter().filter(|way| way.0 == collection) {
        let by = |hint: &str| {
            let command = format!(
                r#"{{"find": "{collection}", "filter": {filter}, "projection": {projection}, "hint": {hint}, "batchSize": 100000}}"#
            );
            run(service, &command)
        };
        let expected = sorted(&found(&by(r#"{"$natural": 1}"#)).unwrap());
        let reply = by(&format!("\"{index}\""));
        match found(&reply).map(|found| sorted(&found)) {
            Some(found) if found == expected => {}
            Some(found) => {
                let (found, expected) = (found.len(), expected.len());
                return Err(format!("{collection} {filter} by {index}: {found}, a scan finds {expected}"));
            }
            None if report.leaves_out(collection, index) => {}
            None => return Err(format!("{collection} {filter} by {index}: {}", reply.view().to_json())),
        }
    }
    for id in there.keys() {
        let reply = done(service, &format!(r#"{{"find": "{collection}", "filter": {{"_id": {id}}}}}"#));
        if found(&reply).is_none_or(|found| found.len() != 1) {
            return Err(format!("{collection}: the document {id} is not found by its _id"));
        }
    }
    Ok(())
}

fn sorted(documents: &[DocumentBuf]) -> Vec<String> {
    let mut texts: Vec<_> = documents.iter().map(|document| document.view().to_canonical_json()).collect();
    texts.sort();
    texts
}

/// What is not as it was was named; returns the number of documents that are not there.
fn compare(
    collection: &str,
    was: &BTreeMap<String, String>,
    is: &BTreeMap<String, String>,
    names: impl Fn(&str) -> bool,
) -> Result<u64, String> {
    let mut lost = 0;
    for id in was.keys().chain(is.keys()) {
        if was.get(id) != is.get(id) && !names(id) {
            let (was, is) = (was.get(id), is.get(id));
            return Err(format!("{collection}: {id} was {was:?}, is {is:?}, and was not named"));
        }
        lost += u64::from(!is.contains_key(id));
    }
    Ok(lost)
}
