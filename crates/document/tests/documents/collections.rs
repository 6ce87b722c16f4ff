//! Collections and indexes: what is written is found, constraints hold, and the catalog survives.

use std::sync::Arc;

use spinney::env::sim::SimEnv;
use spinney_document::base::Interrupt;
use spinney_document::bson::{Document, DocumentBuf, Value};
use spinney_document::catalog::IndexChanges;
use spinney_document::collection::WriteOptions;
use spinney_document::expr::Context;
use spinney_document::plan::Query;
use spinney_document::query::Filter;
use spinney_document::{Collection, Database, doc};

pub(crate) fn open(machine: &SimEnv) -> Database {
    Database::with_engine(spinney::Database::builder("/db").env(machine.env()).open().unwrap()).unwrap()
}

pub(crate) fn json(text: &str) -> DocumentBuf {
    DocumentBuf::from_json(text).unwrap()
}

fn all(collection: &Collection) -> String {
    let documents: Vec<_> = collection.documents().map(|document| document.unwrap().view().to_json()).collect();
    documents.join(" ")
}

/// The entries of each index, after a proof that they are right.
pub(crate) fn entries(collection: &Collection) -> String {
    let validation = collection.validate().unwrap();
    assert!(validation.is_valid(), "{validation:?}");
    let counts = validation.entries.iter().map(|(name, count)| format!("{name}={count}"));
    counts.collect::<Vec<_>>().join(" ")
}

fn index(spec: &str) -> Vec<DocumentBuf> {
    vec![json(spec)]
}

#[test]
fn documents_are_inserted_found_replaced_and_deleted() {
    let db = open(&SimEnv::new(1));
    let people = db.collection_or_create("app.people").unwrap();
    db.create_indexes("app.people", &index(r#"{"key":{"tags":1},"name":"tags_1"}"#)).unwrap();
    people.insert_one(json(r#"{"_id":2,"tags":["a","b"]}"#).view()).unwrap();
    people.insert_one(json(r#"{"tags":[],"_id":1}"#).view()).unwrap();
    let id = people.insert_one(json(r#"{"x":1}"#).view()).unwrap();
    assert!(matches!(id.view(), Value::ObjectId(_)));
    assert_eq!(entries(&people), "tags_1=4");
    assert_eq!(people.find_by_id(1).unwrap().unwrap().view().to_json(), r#"{"_id":1,"tags":[]}"#);
    assert_eq!(people.find_by_id(1.0).unwrap().unwrap().view().to_json(), r#"{"_id":1,"tags":[]}"#);
    assert!(people.find_by_id("1").unwrap().is_none());
    assert_eq!(people.replace_by_id(2, json(r#"{"tags":["b",1,1.0]}"#).view()).unwrap(), (true, true));
    assert_eq!(people.replace_by_id(2, json(r#"{"_id":2,"tags":["b",1,1.0]}"#).view()).unwrap(), (true, false));
    assert_eq!(people.replace_by_id(7, doc! {}.view()).unwrap(), (false, false));
    let error = people.replace_by_id(2, doc! {"_id": 3}.view()).unwrap_err();
    assert_eq!(error.code().number(), 66);
    assert_eq!(entries(&people), "tags_1=4");
    assert!(people.delete_by_id(&id).unwrap());
    assert!(!people.delete_by_id(&id).unwrap());
    assert_eq!(all(&people), r#"{"_id":1,"tags":[]} {"_id":2,"tags":["b",1,1.0]}"#);
    assert_eq!(entries(&people), "tags_1=3");
}

#[test]
fn a_change_of_type_alone_changes_the_entry() {
    let db = open(&SimEnv::new(1));
    let numbers = db.collection_or_create("app.numbers").unwrap();
    db.create_indexes("app.numbers", &index(r#"{"key":{"a":1},"name":"a_1"}"#)).unwrap();
    db.create_indexes("app.numbers", &index(r#"{"key":{"a":1,"b":1},"name":"ab","unique":true}"#)).unwrap();
    numbers.insert_one(json(r#"{"_id":1,"a":1}"#).view()).unwrap();
    for a in ["1.0", r#"{"$numberLong":"1"}"#, r#"{"$numberDecimal":"1.00"}"#, "1", "2"] {
        numbers.replace_by_id(1, json(&format!(r#"{{"_id":1,"a":{a}}}"#)).view()).unwrap();
        assert_eq!(entries(&numbers), "a_1=1 ab=1");
    }
}

#[test]
fn unique_keys_are_refused_with_their_pattern_and_value() {
    let db = open(&SimEnv::new(1));
    let people = db.collection_or_create("app.people").unwrap();
    let spec = r#"{"key":{"name":1,"at.x":-1},"name":"who","unique":true}"#;
    assert_eq!(db.create_indexes("app.people", &index(spec)).unwrap(), 1);
    people.insert_one(json(r#"{"_id":1,"name":"Ada","at":{"x":1}}"#).view()).unwrap();
    let error = people.insert_one(json(r#"{"_id":1}"#).view()).unwrap_err();
    let what = "E11000 duplicate key error collection: app.people index: _id_ dup key: { _id: 1 }";
    assert_eq!(error.message(), what);
    let error = people.insert_one(json(r#"{"_id":2,"name":"Ada","at":{"x":1.0}}"#).view()).unwrap_err();
    let what = r#"E11000 duplicate key error collection: app.people index: who dup key: { name: "Ada", at.x: 1.0 }"#;
    assert_eq!(error.message(), what);
    let shown = |bytes: &Option<Vec<u8>>| Document::parse(bytes.as_ref().unwrap()).unwrap().to_json();
    assert_eq!(shown(&error.details().key_pattern), r#"{"name":1,"at.x":-1}"#);
    assert_eq!(shown(&error.details().key_value), r#"{"name":"Ada","at.x":1.0}"#);
    people.insert_one(json(r#"{"_id":2,"name":"Ada"}"#).view()).unwrap();
    let error = people.replace_by_id(2, json(r#"{"name":"Ada","at":[{"x":5},{"x":1}]}"#).view()).unwrap_err();
    assert_eq!(error.code().number(), 11000);
    assert_eq!(entries(&people), "who=2");
    // Keys that one document has twice are no duplicates.
    people.insert_one(json(r#"{"_id":3,"name":"Bob","at":[{"x":5},{"x":5}]}"#).view()).unwrap();
    assert_eq!(entries(&people), "who=3");
}

#[test]
fn many_documents_are_inserted_without_those_that_cannot_be() {
    let db = open(&SimEnv::new(1));
    let items = db.collection_or_create("app.items").unwrap();
    db.create_indexes("app.items", &index(r#"{"key":{"a":1},"name":"a_1","unique":true}"#)).unwrap();
    let documents: Vec<_> =
        [r#"{"_id":1,"a":1}"#, r#"{"_id":1,"a":2}"#, r#"{"_id":[1]}"#, r#"{"_id":2,"a":1}"#, r#"{"_id":3,"a":3}"#]
            .map(json)
            .into();
    let views = || documents.iter().map(DocumentBuf::view);
    let ordered = items.insert_many(views(), true, WriteOptions::default()).unwrap();
    assert_eq!((ordered.inserted, ordered.errors.len(), ordered.errors[0].0), (1, 1, 1));
    items.delete_by_id(1).unwrap();
    let unordered = items.insert_many(views(), false, WriteOptions::default()).unwrap();
    let codes: Vec<_> = unordered.errors.iter().map(|(at, error)| (*at, error.code().number())).collect();
    assert_eq!((unordered.inserted, codes), (2, vec![(1, 11000), (2, 53), (3, 11000)]));
    assert_eq!(all(&items), r#"{"_id":1,"a":1} {"_id":3,"a":3}"#);
    assert_eq!(entries(&items), "a_1=2");
}

#[test]
fn the_catalog_survives_a_restart_and_so_do_renamed_collections() {
    let machine = SimEnv::new(1);
    let db = open(&machine);
    let old = db.collection_or_create("app.old").unwrap();
    db.create_indexes("app.old", &index(r#"{"key":{"a":1},"name":"a_1","sparse":true}"#)).unwrap();
    old.insert_one(json(r#"{"_id":1,"a":[1,2]}"#).view()).unwrap();
    old.insert_one(json(r#"{"_id":2}"#).view()).unwrap();
    db.create_collection("app.view", json(r#"{"viewOn":"old","pipeline":[]}"#).view()).unwrap();
    db.rename_collection("app.old", "other.new", false).unwrap();
    assert_eq!(old.namespace().as_str(), "other.new", "handles go on");
    old.insert_one(json(r#"{"_id":3,"a":3}"#).view()).unwrap();
    let uuid = old.schema().uuid;
    drop((db, old));
    let db = open(&machine);
    let new = db.collection("other.new").unwrap().unwrap();
    assert_eq!(all(&new), r#"{"_id":1,"a":[1,2]} {"_id":2} {"_id":3,"a":3}"#);
    assert_eq!(entries(&new), "a_1=3");
    assert_eq!((new.schema().uuid, new.schema().indexes[0].multikey()), (uuid, vec![1]));
    assert!(db.collection("app.old").unwrap().is_none());
    assert_eq!(db.collection("app.view").unwrap_err().code().number(), 166);
    assert_eq!(db.list_databases(), ["app", "other"]);
    assert_eq!(db.list_collections("app")[0].view().get("type").unwrap().as_str(), Some("view"));
    let indexes = db.list_indexes("other.new").unwrap();
    let listed: Vec<_> = indexes.iter().map(|spec| spec.view().to_json()).collect();
    assert_eq!(
        listed,
        [r#"{"v":2,"key":{"_id":1},"name":"_id_"}"#, r#"{"v":2,"key":{"a":1},"name":"a_1","sparse":true}"#]
    );
    assert!(db.drop_collection("other.new").unwrap());
    assert!(!db.drop_collection("other.new").unwrap());
    assert_eq!(new.insert_one(doc! {}.view()).unwrap_err().code().number(), 26);
    assert_eq!(db.engine().tables().unwrap().len(), 1, "only the catalog is left");
}

#[test]
fn indexes_are_built_over_what_is_there() {
    let db = open(&SimEnv::new(1));
    let items = db.collection_or_create("app.items").unwrap();
    let documents: Vec<_> = (0..2500).map(|n| json(&format!(r#"{{"_id":{n},"a":{},"b":[{n},1]}}"#, n / 2))).collect();
    items.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
    let specs = [json(r#"{"key":{"a":-1,"b":1},"name":"ab"}"#), json(r#"{"key":{"b":1},"name":"b","unique":false}"#)];
    assert_eq!(db.create_indexes("app.items", &specs).unwrap(), 2);
    assert_eq!(db.create_indexes("app.items", &specs).unwrap(), 0, "they are there");
    assert_eq!(entries(&items), "ab=4999 b=4999");
    assert_eq!(items.schema().indexes[0].multikey(), [0, 1]);
    let unique = index(r#"{"key":{"a":1},"name":"a_1","unique":true}"#);
    assert_eq!(db.create_indexes("app.items", &unique).unwrap_err().code().number(), 11000);
    assert_eq!(entries(&items), "ab=4999 b=4999");
    let conflict = |spec: &str| db.create_indexes("app.items", &index(spec)).unwrap_err().code().number();
    assert_eq!(conflict(r#"{"key":{"b":1},"name":"other"}"#), 85);
    assert_eq!(conflict(r#"{"key":{"c":1},"name":"b"}"#), 86);
    assert_eq!(conflict(r#"{"key":{"b":1},"name":"b","unique":true}"#), 86);
    db.drop_indexes("app.items", "b").unwrap();
    assert_eq!(db.drop_indexes("app.items", "b").unwrap_err().code().number(), 27);
    assert_eq!(db.drop_indexes("app.items", "_id_").unwrap_err().code().number(), 72);
    assert_eq!(entries(&items), "ab=4999");
    items.delete_by_id(0).unwrap();
    assert_eq!(entries(&items), "ab=4997");
}

#[test]
fn a_transaction_is_seen_when_it_commits_and_the_second_writer_fails() {
    let db = open(&SimEnv::new(1));
    let (a, b) = (db.collection_or_create("app.a").unwrap(), db.collection_or_create("app.b").unwrap());
    let (mut first, mut second) = (db.begin(), db.begin());
    first.insert(a.state(), doc! {"_id": 1}.view()).unwrap();
    first.insert(b.state(), doc! {"_id": 1}.view()).unwrap();
    assert!(first.find_by_id(a.state(), &1.into()).unwrap().is_some());
    assert!(a.find_by_id(1).unwrap().is_none());
    second.insert(b.state(), doc! {"_id": 1}.view()).unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().code().number(), 112);
    assert!(a.find_by_id(1).unwrap().is_some() && b.find_by_id(1).unwrap().is_some());
}

#[test]
fn a_change_waits_for_transactions_only_as_long_as_is_set() {
    let db = open(&SimEnv::new(1));
    let collection = db.collection_or_create("app.a").unwrap();
    assert_eq!(db.catalog().change_wait().as_secs(), 10);
    db.catalog().set_change_wait(0);
    let mut txn = db.begin();
    txn.insert(collection.state(), doc! {"_id": 1}.view()).unwrap();
    assert_eq!(db.drop_collection("app.a").unwrap_err().code().number(), 24);
    assert!(db.create_indexes("app.a", &index(r#"{"key":{"a":1},"name":"a"}"#)).is_err());
    txn.commit().unwrap();
    assert_eq!(entries(&collection), "");
    assert!(db.drop_collection("app.a").unwrap());
}

#[test]
fn a_change_of_a_name_in_use_is_refused() {
    let db = open(&SimEnv::new(1));
    db.create_collection("app.a", Document::empty()).unwrap();
    db.create_collection("app.b", Document::empty()).unwrap();
    let code = |result: Result<(), spinney_document::Error>| result.unwrap_err().code().number();
    db.create_collection("app.a", Document::empty()).unwrap();
    assert_eq!(code(db.create_collection("app.a", json(r#"{"validator":{"a":1}}"#).view())), 48);
    assert_eq!(code(db.create_collection("app.a", json(r#"{"viewOn":"b"}"#).view())), 48);
    assert_eq!(code(db.create_collection("App.a", Document::empty())), 13297);
    assert_eq!(code(db.create_collection("app.c", json(r#"{"timeseries":{"timeField":"t"}}"#).view())), 115);
    assert_eq!(code(db.create_collection("app.c", json(r#"{"unknown":1}"#).view())), 40415);
    assert_eq!(code(db.rename_collection("app.a", "app.b", false)), 48);
    assert_eq!(code(db.rename_collection("app.z", "app.y", false)), 26);
    db.rename_collection("app.a", "app.b", true).unwrap();
    db.drop_database("app").unwrap();
    assert!(db.list_databases().is_empty());
}

#[test]
fn partial_indexes_hold_the_documents_of_their_filter() {
    let db = open(&SimEnv::new(1));
    let items = db.collection_or_create("app.items").unwrap();
    items.insert_one(json(r#"{"_id":1,"a":1,"on":true}"#).view()).unwrap();
    let spec =
        r#"{"key":{"a":1},"name":"on","unique":true,"partialFilterExpression":{"on":true,"n":{"$exists":true}}}"#;
    db.create_indexes("app.items", &index(spec)).unwrap();
    assert_eq!(entries(&items), "on=0");
    items.insert_one(json(r#"{"_id":2,"a":1,"on":true,"n":null}"#).view()).unwrap();
    items.insert_one(json(r#"{"_id":3,"a":1,"on":false,"n":1}"#).view()).unwrap();
    assert_eq!(entries(&items), "on=1");
    let error = items.replace_by_id(3, json(r#"{"a":1,"on":true,"n":1}"#).view()).unwrap_err();
    assert_eq!(error.code().number(), 11000);
    items.replace_by_id(2, json(r#"{"a":1}"#).view()).unwrap();
    items.replace_by_id(3, json(r#"{"a":1,"on":true,"n":1}"#).view()).unwrap();
    assert_eq!(entries(&items), "on=1");
}

#[test]
fn validators_refuse_documents_by_level_and_action() {
    let machine = SimEnv::new(1);
    let db = open(&machine);
    let create = |name: &str, rest: &str| {
        let options = json(&format!(r#"{{"validator":{{"a":{{"$gt":0}}}}{rest}}}"#));
        db.create_collection(name, options.view()).unwrap();
        db.collection(name).unwrap().unwrap()
    };
    let (strict, warn) = (create("app.strict", ""), create("app.warn", r#","validationAction":"warn""#));
    let moderate = create("app.moderate", r#","validationLevel":"moderate""#);
    strict.insert_one(json(r#"{"_id":1,"a":1}"#).view()).unwrap();
    let error = strict.insert_one(json(r#"{"_id":2,"a":0}"#).view()).unwrap_err();
    assert_eq!((error.code().number(), error.message()), (121, "Document failed validation"));
    assert!(error.details().err_info.is_some());
    assert_eq!(strict.replace_by_id(1, json(r#"{"a":0}"#).view()).unwrap_err().code().number(), 121);
    warn.insert_one(json(r#"{"_id":2,"a":0}"#).view()).unwrap();
    assert_eq!(moderate.insert_one(json(r#"{"a":0}"#).view()).unwrap_err().code().number(), 121);
    drop((db, strict, warn, moderate));
    let strict = open(&machine).collection("app.strict").unwrap().unwrap();
    assert_eq!(strict.insert_one(json(r#"{"a":0}"#).view()).unwrap_err().code().number(), 121);
}

#[test]
fn documents_of_a_clustered_collection_expire_by_their_id() {
    let db = open(&SimEnv::new(1));
    let options = r#"{"clusteredIndex":{"key":{"_id":1},"unique":true},"expireAfterSeconds":10}"#;
    db.create_collection("app.events", json(options).view()).unwrap();
    let events = db.collection("app.events").unwrap().unwrap();
    let date = |millis: i64| format!(r#"{{"_id":{{"$date":{{"$numberLong":"{millis}"}}}}}}"#);
    for document in [date(-5), date(0), date(1000), date(1001), r#"{"_id":0}"#.to_owned(), r#"{"_id":"x"}"#.to_owned()]
    {
        events.insert_one(json(&document).view()).unwrap();
    }
    assert_eq!(events.expire(9_996).unwrap(), 1);
    assert_eq!(events.expire(11_000).unwrap(), 2);
    assert_eq!(events.documents().count(), 3);
    db.modify_collection("app.events", json(r#"{"expireAfterSeconds":null}"#).view()).unwrap();
    assert_eq!(events.expire(i64::MAX).unwrap(), 0);
    db.modify_collection("app.events", json(r#"{"expireAfterSeconds":0}"#).view()).unwrap();
    assert_eq!(events.expire(i64::MAX).unwrap(), 1);
    for refused in [r#"{"expireAfterSeconds":1}"#, &options.replace(":10", ":-1")] {
        let error = db.create_collection("app.refused", json(refused).view()).map(drop).unwrap_err();
        assert_eq!(error.code().number(), 72);
    }
}

#[test]
fn documents_expire_by_their_oldest_date() {
    let db = open(&SimEnv::new(1));
    let sessions = db.collection_or_create("app.sessions").unwrap();
    let date = |millis: i64| format!(r#"{{"$date":{{"$numberLong":"{millis}"}}}}"#);
    let specs = [
        json(r#"{"key":{"at":1},"name":"at","expireAfterSeconds":10}"#),
        json(r#"{"key":{"end":-1},"name":"end","expireAfterSeconds":0,"unique":true,"sparse":true}"#),
    ];
    db.create_indexes("app.sessions", &specs).unwrap();
    for document in [
        format!(r#"{{"_id":1,"at":{}}}"#, date(0)),
        format!(r#"{{"_id":2,"at":{}}}"#, date(5000)),
        format!(r#"{{"_id":3,"at":[{},{}]}}"#, date(90_000), date(1000)),
        format!(r#"{{"_id":4,"end":{}}}"#, date(11_000)),
        format!(r#"{{"_id":5,"end":{}}}"#, date(11_001)),
        r#"{"_id":6,"at":1,"end":"never"}"#.to_owned(),
        r#"{"_id":7}"#.to_owned(),
    ] {
        sessions.insert_one(json(&document).view()).unwrap();
    }
    assert_eq!(sessions.expire(9_999).unwrap(), 0);
    assert_eq!(sessions.expire(11_000).unwrap(), 3);
    let ids: Vec<_> =
        sessions.documents().map(|document| document.unwrap().view().get("_id").unwrap().to_json()).collect();
    assert_eq!(ids, ["2", "5", "6", "7"]);
    assert_eq!(entries(&sessions), "at=4 end=2");
    let changes = IndexChanges { hidden: Some(true), expire_after_seconds: Some(1), ..IndexChanges::default() };
    db.modify_index("app.sessions", "at", &changes).unwrap();
    let listed = db.list_indexes("app.sessions").unwrap()[1].view().to_json();
    assert_eq!(listed, r#"{"v":2,"key":{"at":1},"name":"at","hidden":true,"expireAfterSeconds":1}"#);
    assert_eq!(sessions.expire(6_000).unwrap(), 1);
    // By the clock of the machine, all dates are long past.
    assert_eq!(db.expire().unwrap(), 1);
    assert_eq!(db.modify_index("app.sessions", "x", &IndexChanges::default()).unwrap_err().code().number(), 27);
}

#[test]
fn validators_can_be_changed() {
    let db = open(&SimEnv::new(1));
    let items = db.collection_or_create("app.items").unwrap();
    let modify = |changes: &str| db.modify_collection("app.items", json(changes).view());
    modify(r#"{"validator":{"a":1}}"#).unwrap();
    assert_eq!(items.insert_one(json(r#"{"a":2}"#).view()).unwrap_err().code().number(), 121);
    modify(r#"{"validationLevel":"off"}"#).unwrap();
    items.insert_one(json(r#"{"a":2}"#).view()).unwrap();
    let options = items.schema().options.document().to_json();
    assert_eq!(options, r#"{"validator":{"a":1},"validationLevel":"off"}"#);
    modify(r#"{"validator":null,"validationLevel":null}"#).unwrap();
    assert_eq!(items.schema().options.document().to_json(), "{}");
    assert_eq!(modify(r#"{"viewOn":"b"}"#).unwrap_err().code().number(), 72);
}

#[test]
fn the_number_of_documents_is_known_also_while_writers_go_on() {
    let machine = SimEnv::new(1);
    let db = open(&machine);
    let things = db.collection_or_create("app.things").unwrap();
    for id in 0..10 {
        things.insert_one(doc! {"_id": id}.view()).unwrap();
    }
    // A transaction that is open while it is counted for the first time.
    let mut txn = db.begin();
    txn.insert(things.state(), doc! {"_id": 100}.view()).unwrap();
    assert_eq!(things.count().unwrap(), 10);
    txn.commit().unwrap();
    assert_eq!(things.count().unwrap(), 11);
    things.delete_by_id(3).unwrap();
    assert!(things.insert_one(doc! {"_id": 4}.view()).is_err());
    let mut undone = db.begin();
    undone.insert(things.state(), doc! {"_id": 101}.view()).unwrap();
    drop(undone);
    assert_eq!(things.count().unwrap(), 10);
    drop((things, db));
    assert_eq!(open(&machine).collection("app.things").unwrap().unwrap().count().unwrap(), 10);
}

#[test]
fn a_scan_that_finds_nothing_can_be_interrupted() {
    let db = open(&SimEnv::new(1));
    let things = db.collection_or_create("app.things").unwrap();
    let documents: Vec<_> = (0..1000).map(|id| doc! {"_id": id}).collect();
    things.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
    let nothing = Filter::parse(doc! {"a": 1}.view(), &Context::default()).unwrap();
    let interrupt = Arc::new(Interrupt::default());
    let mut scan = things.find(Query::new(nothing)).unwrap();
    let _working = interrupt.begin();
    interrupt.kill();
    assert_eq!(scan.advance().unwrap_err().code().number(), 11601);
}

/// Each collection of a database was dropped by a commit of its own and a change of the manifest of its own: 28 seconds
/// for 5,000 of them.
#[test]
fn a_database_is_dropped_by_few_commits_however_many_collections_it_has() {
    let machine = SimEnv::new(1);
    let options = spinney::Options::default().log_keep_bytes(1 << 20);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    let db = Database::with_engine(engine).unwrap();
    for number in 0..40 {
        db.create_collection(&format!("app.c{number}"), Document::empty()).unwrap();
    }
    db.create_collection("app.v", json(r#"{"viewOn":"c1","pipeline":[]}"#).view()).unwrap();
    db.create_collection("apple.c", Document::empty()).unwrap();
    db.create_indexes("app.c1", &[json(r#"{"key":{"a":1},"name":"a"}"#)]).unwrap();
    let (mut feed, tables) = (db.engine().changes(db.engine().log_end()).unwrap(), db.engine().tables().unwrap().len());
    // One that a transaction writes to is dropped alone, when the transaction has ended.
    let busy = db.collection("app.c7").unwrap().unwrap();
    let mut txn = db.begin();
    txn.insert_one(&busy, doc! {"_id": 1}.view()).unwrap();
    db.catalog().set_change_wait(0);
    assert_eq!(db.drop_database("app").unwrap_err().code().number(), 24);
    let left: Vec<_> = db.catalog().list(Some("app")).iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(left, ["app.c7"]);
    txn.commit().unwrap();
    db.drop_database("app").unwrap();
    assert_eq!(db.list_databases(), ["apple"]);
    assert_eq!(db.engine().tables().unwrap().len(), tables - 41);
    let commits = feed.by_ref().map(Result::unwrap).count();
    // The first 39 together, the insert, the last one, and the end of the database.
    assert_eq!(commits, 4);
    drop((feed, busy));
    let db = reopened(db, &machine);
    assert_eq!((db.list_databases(), db.engine().tables().unwrap().len()), (vec!["apple".to_owned()], tables - 41));
    db.create_collection("app.c1", Document::empty()).unwrap();
}

fn reopened(db: Database, machine: &SimEnv) -> Database {
    drop(db);
    open(machine)
}
