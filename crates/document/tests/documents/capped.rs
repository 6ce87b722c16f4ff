//! Capped collections: their order, their limits, and what they are made of.

use spinney::env::sim::SimEnv;
use spinney_document::bson::{DocumentBuf, Value};
use spinney_document::expr::Context;
use spinney_document::plan::{Hint, Query};
use spinney_document::query::Filter;
use spinney_document::{Collection, Database, doc};

use super::collections::{entries, json, open};

fn capped(db: &Database, options: &str) -> Collection {
    db.create_collection("d.c", json(options).view()).unwrap();
    db.collection("d.c").unwrap().unwrap()
}

fn ids(collection: &Collection) -> String {
    let ids = collection.documents().map(|document| document.unwrap().view().get("_id").unwrap().to_json());
    ids.collect::<Vec<_>>().join(" ")
}

fn found(collection: &Collection, filter: &str, change: impl FnOnce(&mut Query)) -> String {
    let mut query = Query::new(Filter::parse(json(filter).view(), &Context::default()).unwrap());
    change(&mut query);
    let ids = collection.find(query).unwrap();
    ids.map(|found| found.unwrap().view().get("_id").unwrap().to_json()).collect::<Vec<_>>().join(" ")
}

#[test]
fn documents_stay_in_the_order_of_their_inserts() {
    let db = open(&SimEnv::new(1));
    let log = capped(&db, r#"{"capped":true,"size":100000}"#);
    db.create_indexes("d.c", &[json(r#"{"key":{"a":1},"name":"a_1"}"#)]).unwrap();
    for id in [5, 3, 9, 1] {
        log.insert_one(doc! {"_id": id, "a": 10 - id}.view()).unwrap();
    }
    assert_eq!(ids(&log), "5 3 9 1");
    assert_eq!(found(&log, "{}", |_| {}), "5 3 9 1");
    assert_eq!(found(&log, "{}", |query| query.hint = Some(Hint::Natural { reverse: true })), "1 9 3 5");
    assert_eq!(found(&log, r#"{"_id":{"$gt":2}}"#, |_| {}), "3 5 9");
    assert_eq!(found(&log, r#"{"_id":9}"#, |_| {}), "9");
    assert_eq!(found(&log, r#"{"a":{"$gte":5}}"#, |query| query.limit = Some(2)), "5 3");
    assert_eq!(log.find_by_id(9).unwrap().unwrap().view().to_json(), r#"{"_id":9,"a":1}"#);
    assert!(log.find_by_id(4).unwrap().is_none());
    assert_eq!(log.insert_one(doc! {"_id": 3}.view()).unwrap_err().code().number(), 11000);
    // Neither a longer document nor another one after a deletion changes the order.
    log.update_one(json(r#"{"_id":3}"#).view(), &json(r#"{"$set":{"text":"much longer than before","a":0}}"#)).unwrap();
    assert_eq!(log.delete_many(json(r#"{"_id":9}"#).view()).unwrap(), 1);
    log.insert_one(doc! {"_id": 9, "a": 7}.view()).unwrap();
    assert_eq!(ids(&log), "5 3 1 9");
    assert_eq!(log.replace_by_id(5, doc! {"a": 2}.view()).unwrap(), (true, true));
    assert!(log.delete_by_id(1).unwrap());
    assert_eq!((ids(&log), entries(&log)), ("5 3 9".to_owned(), "_id_=3 a_1=3".to_owned()));
}

#[test]
fn the_oldest_documents_go_beyond_the_limits() {
    let machine = SimEnv::new(2);
    let db = open(&machine);
    let log = capped(&db, r#"{"capped":true,"size":1000,"max":4}"#);
    db.create_indexes("d.c", &[json(r#"{"key":{"tags":1},"name":"tags_1"}"#)]).unwrap();
    for id in 0..10 {
        log.insert_one(doc! {"_id": id, "tags": Value::Int32(id % 3)}.view()).unwrap();
    }
    assert_eq!((ids(&log), log.count().unwrap()), ("6 7 8 9".to_owned(), 4));
    // Some at once, of which only the last stay.
    let many: Vec<DocumentBuf> = (20..30).map(|id| doc! {"_id": id}).collect();
    assert_eq!(log.insert_many(many.iter().map(DocumentBuf::view), true, Default::default()).unwrap().inserted, 10);
    assert_eq!(ids(&log), "26 27 28 29");
    // By bytes: each of them takes more than half of the size; one that is larger than the size is taken.
    let text = "x".repeat(600);
    log.insert_one(doc! {"_id": 40, "text": &*text}.view()).unwrap();
    log.insert_one(doc! {"_id": 41, "text": &*text}.view()).unwrap();
    assert_eq!(ids(&log), "41");
    log.insert_one(doc! {"_id": 42, "text": &*"x".repeat(5000)}.view()).unwrap();
    assert_eq!((ids(&log), entries(&log)), ("42".to_owned(), "_id_=1 tags_1=1".to_owned()));
    drop((log, db));
    // What it holds is counted again when it is opened.
    let db = open(&machine);
    let log = db.collection("d.c").unwrap().unwrap();
    (50..55).for_each(|id| drop(log.insert_one(doc! {"_id": id}.view()).unwrap()));
    assert_eq!((ids(&log), entries(&log)), ("51 52 53 54".to_owned(), "_id_=4 tags_1=4".to_owned()));
    // Lower limits hold from the next insert on.
    db.modify_collection("d.c", doc! {"max": 2}.view()).unwrap();
    assert_eq!(ids(&log), "51 52 53 54");
    log.insert_one(doc! {"_id": 60}.view()).unwrap();
    assert_eq!(ids(&log), "54 60");
}

#[test]
fn transactions_do_not_write_to_capped_collections() {
    let db = open(&SimEnv::new(3));
    let log = capped(&db, r#"{"capped":true,"size":1000}"#);
    log.insert_one(doc! {"_id": 1}.view()).unwrap();
    let refused = db.transact(|txn| txn.insert_one(&log, doc! {"_id": 2}.view())).unwrap_err();
    assert_eq!(refused.code().number(), 263);
    let mut txn = db.begin();
    let old = txn.find_by_id(log.state(), &Value::Int32(1)).unwrap().unwrap();
    assert_eq!(txn.delete(log.state(), old.view()).unwrap_err().code().number(), 263);
    assert_eq!(ids(&log), "1");
}

#[test]
fn other_collections_become_capped_ones_with_their_newest_documents() {
    let db = open(&SimEnv::new(4));
    let plain = db.collection_or_create("d.p").unwrap();
    db.create_indexes("d.p", &[json(r#"{"key":{"a":1},"name":"a_1"}"#)]).unwrap();
    (0..50).for_each(|id| drop(plain.insert_one(doc! {"_id": id, "text": &*"x".repeat(100)}.view()).unwrap()));
    db.clone_as_capped("d.p", "d.copy", 400).unwrap();
    let copy = db.collection("d.copy").unwrap().unwrap();
    assert_eq!((ids(&copy), entries(&copy)), ("46 47 48 49".to_owned(), "_id_=4".to_owned()));
    assert_eq!(db.clone_as_capped("d.p", "d.copy", 400).unwrap_err().code().number(), 48);
    assert_eq!(db.clone_as_capped("d.none", "d.other", 400).unwrap_err().code().number(), 26);
    assert_eq!(db.clone_as_capped("d.p", "d.other", 0).unwrap_err().code().number(), 2);
    db.convert_to_capped("d.p", 100_000).unwrap();
    let converted = db.collection("d.p").unwrap().unwrap();
    assert_eq!((converted.count().unwrap(), entries(&converted)), (50, "_id_=50".to_owned()));
    assert_eq!(plain.insert_one(doc! {"_id": 99}.view()).unwrap_err().code().number(), 26);
    assert_eq!(db.list_indexes("d.p").unwrap().len(), 1);
    assert_eq!(db.list_collections("d").len(), 2);
}
