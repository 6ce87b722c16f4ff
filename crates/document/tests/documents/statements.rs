//! Updates, deletes and the statements that change one document and return it.

use std::thread;

use spinney::env::sim::SimEnv;
use spinney_document::bson::{Document, DocumentBuf, ValueBuf};
use spinney_document::collection::{DeleteStatement, FindOneOptions, UpdateOptions, UpdateResult, WriteOptions};
use spinney_document::plan::{Hint, Query};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database, Result, doc};

use crate::collections::{entries, json, open};

fn collection(documents: &[&str]) -> (Database, Collection) {
    let db = open(&SimEnv::new(1));
    let collection = db.collection_or_create("app.c").unwrap();
    for document in documents {
        collection.insert_one(json(document).view()).unwrap();
    }
    (db, collection)
}

fn all(collection: &Collection) -> String {
    let documents: Vec<_> = collection.documents().map(|document| document.unwrap().view().to_json()).collect();
    documents.join(" ")
}

fn counts(result: &Result<UpdateResult>) -> (u64, u64, Option<String>) {
    let result = result.as_ref().unwrap();
    (result.matched, result.modified, result.upserted.as_ref().map(|id| id.view().to_string()))
}

fn code<T>(result: Result<T>) -> i32 {
    result.err().unwrap().code().number()
}

#[test]
fn one_document_or_all_are_updated() {
    let (_db, c) = collection(&[r#"{"_id":1,"a":1}"#, r#"{"_id":2,"a":1}"#, r#"{"_id":3,"a":2}"#]);
    assert_eq!(counts(&c.update_one(json(r#"{"a":1}"#).view(), json(r#"{"$inc":{"a":5}}"#).view())), (1, 1, None));
    assert_eq!(all(&c), r#"{"_id":1,"a":6} {"_id":2,"a":1} {"_id":3,"a":2}"#);
    // What is equal, type included, is matched and not modified.
    assert_eq!(counts(&c.update_many(doc! {}.view(), json(r#"{"$max":{"a":2}}"#).view())), (3, 1, None));
    assert_eq!(counts(&c.update_many(doc! {}.view(), json(r#"{"$set":{"a":2.0}}"#).view())), (3, 3, None));
    assert_eq!(counts(&c.update_one(doc! {"_id": 9}.view(), json(r#"{"$set":{"a":1}}"#).view())), (0, 0, None));
    let replaced = c.replace_one(doc! {"_id": 2}.view(), doc! {"b": 1}.view(), &UpdateOptions::default());
    assert_eq!(counts(&replaced), (1, 1, None));
    let by = json(r#"{"p":[{"$set":{"c":{"$add":["$_id",1]}}}]}"#);
    let pipeline = by.view().get("p").unwrap();
    assert_eq!(counts(&c.update_many(json(r#"{"_id":{"$gt":1}}"#).view(), pipeline)), (2, 2, None));
    assert_eq!(all(&c), r#"{"_id":1,"a":2.0} {"_id":2,"b":1,"c":3} {"_id":3,"a":2.0,"c":4}"#);
    assert_eq!(code(c.update_many(doc! {}.view(), doc! {"a": 1}.view())), 9);
    assert_eq!(code(c.replace_one(doc! {}.view(), json(r#"{"$set":{"a":1}}"#).view(), &UpdateOptions::default())), 9);
    assert_eq!(code(c.update_one(doc! {}.view(), json(r#"{"$set":{"_id":7}}"#).view())), 66);
}

#[test]
fn options_choose_variables_elements_and_the_document() {
    let (db, c) = collection(&[r#"{"_id":1,"a":[1,5,9]}"#, r#"{"_id":2,"a":[2,6]}"#]);
    let options = UpdateOptions {
        array_filters: Some(ValueBuf::array([json(r#"{"x":{"$gt":4}}"#).view().into()])),
        sort: Some(doc! {"_id": -1}),
        ..UpdateOptions::default()
    };
    c.update_one_with(doc! {}.view(), json(r#"{"$inc":{"a.$[x]":100}}"#).view(), &options).unwrap();
    assert_eq!(all(&c), r#"{"_id":1,"a":[1,5,9]} {"_id":2,"a":[2,106]}"#);
    c.update_one(doc! {"a": 5}.view(), json(r#"{"$set":{"a.$":0}}"#).view()).unwrap();
    assert_eq!(all(&c), r#"{"_id":1,"a":[1,0,9]} {"_id":2,"a":[2,106]}"#);
    let options = UpdateOptions { variables: Some(doc! {"wanted": 2}), ..UpdateOptions::default() };
    let filter = json(r#"{"$expr":{"$eq":["$_id","$$wanted"]}}"#);
    let pipeline = json(r#"{"p":[{"$set":{"a":"$$wanted"}}]}"#);
    let update = pipeline.view().get("p").unwrap();
    assert_eq!(counts(&c.update_many_with(filter.view(), update, &options)), (1, 1, None));
    assert_eq!(all(&c), r#"{"_id":1,"a":[1,0,9]} {"_id":2,"a":2}"#);
    db.create_indexes("app.c", &[json(r#"{"key":{"a":1},"name":"a_1"}"#)]).unwrap();
    let hinted = UpdateOptions { hint: Some(Hint::Name("a_1".into())), ..UpdateOptions::default() };
    assert_eq!(counts(&c.update_one_with(doc! {"a": 2}.view(), json(r#"{"$unset":{"a":1}}"#).view(), &hinted)).0, 1);
    let sorted = UpdateOptions { sort: Some(doc! {"a": 1}), ..UpdateOptions::default() };
    assert_eq!(code(c.update_many_with(doc! {}.view(), json(r#"{"$set":{"a":1}}"#).view(), &sorted)), 9);
}

#[test]
fn upserts_insert_what_filter_and_update_say() {
    let (_db, c) = collection(&[]);
    let upsert = UpdateOptions { upsert: true, ..UpdateOptions::default() };
    let update = json(r#"{"$set":{"b":2},"$setOnInsert":{"c":3}}"#);
    let done = c.update_one_with(doc! {"_id": 1, "a": 1}.view(), update.view(), &upsert);
    assert_eq!(counts(&done), (0, 0, Some("1".into())));
    assert_eq!(counts(&c.update_one_with(doc! {"_id": 1}.view(), update.view(), &upsert)), (1, 0, None));
    assert_eq!(all(&c), r#"{"_id":1,"a":1,"b":2,"c":3}"#);
    assert_eq!(counts(&c.replace_one(doc! {"_id": 2}.view(), doc! {"x": 1}.view(), &upsert)).2, Some("2".into()));
    let made = c.update_many_with(doc! {"k": 5}.view(), json(r#"{"$set":{"x":9}}"#).view(), &upsert).unwrap();
    assert!(made.upserted.unwrap().view().to_string().contains("ObjectId") || made.matched == 0);
    assert_eq!(c.update_many(doc! {"x": 9}.view(), json(r#"{"$set":{"y":1}}"#).view()).unwrap().matched, 1);
    let twice = json(r#"{"$and":[{"a":1},{"a":2}]}"#);
    assert_eq!(code(c.update_one_with(twice.view(), json(r#"{"$set":{"b":1}}"#).view(), &upsert)), 54);
}

#[test]
fn constraints_hold_and_only_changed_indexes_are_written() {
    let (db, c) = collection(&[r#"{"_id":1,"u":1,"v":{"w":1}}"#, r#"{"_id":2,"u":2,"v":{"w":2}}"#]);
    let specs = [
        r#"{"key":{"u":1},"name":"u","unique":true}"#,
        r#"{"key":{"v.w":1},"name":"vw"}"#,
        r#"{"key":{"u":1},"name":"part","partialFilterExpression":{"x":{"$gt":1}}}"#,
        r#"{"key":{"$**":1},"name":"all"}"#,
    ];
    db.create_indexes("app.c", &specs.map(json)).unwrap();
    assert_eq!(code(c.update_one(doc! {"_id": 2}.view(), json(r#"{"$set":{"u":1}}"#).view())), 11000);
    // The documents before the one that fails stay updated.
    let failed = c.update_many(doc! {}.view(), json(r#"{"$set":{"u":7}}"#).view());
    assert_eq!(code(failed), 11000);
    assert_eq!(all(&c), r#"{"_id":1,"u":7,"v":{"w":1}} {"_id":2,"u":2,"v":{"w":2}}"#);
    c.update_one(doc! {"_id": 1}.view(), json(r#"{"$set":{"v.x":1,"x":5}}"#).view()).unwrap();
    assert_eq!(entries(&c), "u=2 vw=2 part=1 all=6");
    c.update_one(doc! {"_id": 1}.view(), json(r#"{"$rename":{"v.w":"v.z"}}"#).view()).unwrap();
    c.update_one(doc! {"_id": 2}.view(), json(r#"{"$set":{"v":[{"w":4},{"w":5}]}}"#).view()).unwrap();
    assert_eq!(entries(&c), "u=2 vw=3 part=1 all=7");
    c.update_one(doc! {"_id": 2}.view(), json(r#"{"$set":{"v.1.w":6},"$unset":{"u":1}}"#).view()).unwrap();
    assert_eq!(entries(&c), "u=2 vw=3 part=1 all=6");
    db.modify_collection("app.c", json(r#"{"validator":{"x":{"$ne":6}}}"#).view()).unwrap();
    assert_eq!(code(c.update_one(doc! {"_id": 1}.view(), json(r#"{"$inc":{"x":1}}"#).view())), 121);
    let deep = format!(r#"{{"$set":{{"d{}":1}}}}"#, ".d".repeat(200));
    assert_eq!(code(c.update_one(doc! {"_id": 1}.view(), json(&deep).view())), 15);
    db.drop_indexes("app.c", "all").unwrap();
    let large = doc! {"$set": &doc! {"l": "x".repeat(9 << 20).as_str()}};
    c.update_one(doc! {"_id": 1}.view(), large.view()).unwrap();
    let large = doc! {"$set": &doc! {"m": "x".repeat(9 << 20).as_str()}};
    assert_eq!(code(c.update_one(doc! {"_id": 1}.view(), large.view())), 17419);
    assert_eq!(entries(&c), "u=2 vw=3 part=1");
}

#[test]
fn one_document_or_all_are_deleted() {
    let (db, c) = collection(&[]);
    db.create_indexes("app.c", &[json(r#"{"key":{"a":1},"name":"a_1"}"#)]).unwrap();
    for id in 0..2500 {
        c.insert_one(doc! {"_id": id, "a": id % 5}.view()).unwrap();
    }
    assert_eq!(c.delete_one(doc! {"a": 1}.view()).unwrap(), 1);
    assert_eq!(c.delete_one(doc! {"a": 9}.view()).unwrap(), 0);
    assert_eq!(c.delete_many(doc! {"a": 1}.view()).unwrap(), 499);
    assert_eq!(entries(&c), "a_1=2000");
    let touched = c.update_many(doc! {}.view(), json(r#"{"$inc":{"a":1}}"#).view()).unwrap();
    assert_eq!((touched.matched, touched.modified), (2000, 2000));
    assert_eq!(c.delete_many(doc! {}.view()).unwrap(), 2000);
    assert_eq!(entries(&c), "a_1=0");
}

#[test]
fn a_document_is_returned_before_or_after_its_change() {
    let (_db, c) = collection(&[r#"{"_id":1,"a":1,"b":1}"#, r#"{"_id":2,"a":2,"b":1}"#]);
    let shown = |found: Result<Option<DocumentBuf>>| found.unwrap().map(|document| document.view().to_json());
    let last = FindOneOptions { sort: Some(doc! {"a": -1}), ..FindOneOptions::default() };
    let update = json(r#"{"$inc":{"a":10}}"#);
    let before = shown(c.find_one_and_update(doc! {}.view(), update.view(), &last));
    assert_eq!(before.unwrap(), r#"{"_id":2,"a":2,"b":1}"#);
    let options = FindOneOptions { return_new: true, projection: Some(doc! {"a": 1, "_id": 0}), ..last.clone() };
    assert_eq!(shown(c.find_one_and_update(doc! {}.view(), update.view(), &options)).unwrap(), r#"{"a":22}"#);
    assert_eq!(shown(c.find_one_and_delete(doc! {}.view(), &last)).unwrap(), r#"{"_id":2,"a":22,"b":1}"#);
    assert_eq!(shown(c.find_one_and_delete(doc! {"_id": 7}.view(), &last)), None);
    let upsert = FindOneOptions { upsert: true, ..FindOneOptions::default() };
    assert_eq!(shown(c.find_one_and_replace(doc! {"_id": 5}.view(), doc! {"n": 1}.view(), &upsert)), None);
    let upsert = FindOneOptions { return_new: true, ..upsert };
    let made = shown(c.find_one_and_replace(doc! {"_id": 6}.view(), doc! {"n": 1}.view(), &upsert));
    assert_eq!(made.unwrap(), r#"{"_id":6,"n":1}"#);
    assert_eq!(code(c.find_one_and_replace(doc! {}.view(), update.view(), &upsert)), 9);
    assert_eq!(all(&c), r#"{"_id":1,"a":1,"b":1} {"_id":5,"n":1} {"_id":6,"n":1}"#);
    let sixth = FindOneOptions { variables: Some(doc! {"wanted": 6}), ..FindOneOptions::default() };
    let filter = json(r#"{"$expr":{"$eq":["$_id","$$wanted"]}}"#);
    assert_eq!(shown(c.find_one_and_delete(filter.view(), &sixth)).unwrap(), r#"{"_id":6,"n":1}"#);
}

/// An index with all fields that are shown made a document of these alone of it, which the update then stored.
#[test]
fn a_document_of_which_an_index_has_what_is_shown_stays_whole() {
    let (db, c) = collection(&[r#"{"_id":1,"a":1,"b":"kept"}"#, r#"{"_id":2,"a":2,"b":"gone"}"#]);
    db.create_indexes("app.c", &[json(r#"{"key":{"a":1},"name":"a"}"#)]).unwrap();
    for (shown, seen) in [(r#"{"a":1}"#, r#"{"_id":1,"a":1}"#), (r#"{"a":1,"_id":0}"#, r#"{"a":1}"#)] {
        let options = FindOneOptions { projection: Some(json(shown)), ..FindOneOptions::default() };
        let update = json(r#"{"$inc":{"n":1}}"#);
        let found = c.find_one_and_update(doc! {"a": 1}.view(), update.view(), &options).unwrap();
        assert_eq!(found.unwrap().view().to_json(), seen);
    }
    let options = FindOneOptions { projection: Some(json(r#"{"a":1}"#)), ..FindOneOptions::default() };
    assert!(c.find_one_and_delete(doc! {"a": 2}.view(), &options).unwrap().is_some());
    assert_eq!(all(&c), r#"{"_id":1,"a":1,"b":"kept","n":2}"#);
    assert!(c.validate().unwrap().problems.is_empty());
}

/// The first index had an entry of the document that the second one refused.
#[test]
fn a_document_with_a_key_that_is_too_long_leaves_no_entries() {
    let (db, c) = collection(&[]);
    let specs = ["a", "b"].map(|name| json(&format!(r#"{{"key":{{"{name}":1}},"name":"{name}"}}"#)));
    db.create_indexes("app.c", &specs).unwrap();
    let documents = [doc! {"_id": 1, "a": 1, "b": &*"x".repeat(70_000)}, doc! {"_id": 2, "a": 2, "b": "x"}];
    let views = documents.iter().map(DocumentBuf::view);
    let inserted = c.insert_many(views, false, WriteOptions::default()).unwrap();
    assert_eq!((inserted.inserted, inserted.errors.len()), (1, 1));
    assert_eq!(c.validate().unwrap().entries, [("a".to_owned(), 1), ("b".to_owned(), 1)]);
    assert!(c.validate().unwrap().problems.is_empty());
}

#[test]
fn a_transaction_sees_its_own_statements_and_fails_at_a_conflict() {
    let (db, c) = collection(&[r#"{"_id":1,"a":1}"#, r#"{"_id":2,"a":2}"#]);
    let mut txn = db.begin();
    let delete = |filter: Document<'_>| {
        DeleteStatement::new(Query::new(Filter::parse(filter, &Default::default()).unwrap()), true)
    };
    assert_eq!(txn.delete_matches(&c, &delete(doc! {"a": 1}.view())).unwrap(), 1);
    assert_eq!(txn.delete_matches(&c, &delete(doc! {"a": 1}.view())).unwrap(), 0);
    c.update_one(doc! {"_id": 2}.view(), json(r#"{"$set":{"a":3}}"#).view()).unwrap();
    let error = txn.delete_matches(&c, &delete(doc! {"a": 2}.view())).unwrap_err();
    assert_eq!(error.code().number(), 112);
    assert!(error.has_label("TransientTransactionError"));
    drop(txn);
    assert_eq!(all(&c), r#"{"_id":1,"a":1} {"_id":2,"a":3}"#);
}

#[test]
fn concurrent_updates_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let options = spinney::Options::default().durability(spinney::Durability::Buffered);
    let db = Database::open(dir.path().join("db"), options).unwrap();
    let c = &db.collection_or_create("app.c").unwrap();
    db.create_indexes("app.c", &[json(r#"{"key":{"n":1},"name":"n"}"#)]).unwrap();
    c.insert_many(
        (0..50).map(|id| doc! {"_id": id, "n": 0}).collect::<Vec<_>>().iter().map(DocumentBuf::view),
        true,
        Default::default(),
    )
    .unwrap();
    let work = |thread: usize| {
        for round in 0..40 {
            match (thread, round % 4) {
                (0, 0) => drop(c.update_many(doc! {}.view(), json(r#"{"$inc":{"n":1}}"#).view()).unwrap()),
                _ => drop(c.update_one(doc! {"_id": 7}.view(), json(r#"{"$inc":{"n":1}}"#).view()).unwrap()),
            }
            let upsert = UpdateOptions { upsert: true, ..UpdateOptions::default() };
            let key = doc! {"_id": 1000 + round};
            c.update_one_with(key.view(), json(r#"{"$inc":{"hits":1}}"#).view(), &upsert).unwrap();
        }
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || work(thread));
        }
    });
    let number =
        |id: i32, name: &str| c.find_by_id(id).unwrap().unwrap().view().get(name).unwrap().as_exact_i64().unwrap();
    assert_eq!(number(7, "n"), 10 + 30 + 3 * 40);
    assert_eq!(number(8, "n"), 10);
    assert!((1000..1040).all(|id| number(id, "hits") == 4));
    assert_eq!(entries(c), "n=90");
}
