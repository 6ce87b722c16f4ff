//! Collations of collections and indexes: what is stored goes by them, and they survive.

use spinney::env::sim::SimEnv;
use spinney_document::bson::{DocumentBuf, Value};
use spinney_document::collection::find_and_modify::FindOneOptions;
use spinney_document::collection::update::UpdateOptions;
use spinney_document::doc;
use spinney_document::expr::Context;
use spinney_document::pipeline::aggregation::AggregateOptions;
use spinney_document::plan::{Plan, Query};
use spinney_document::query::Filter;

use super::collections::{entries, json, open};

const IGNORES_CASE: &str = r#"{"locale":"en","strength":2}"#;

#[test]
fn ids_and_keys_that_are_equal_by_the_collation_are_the_same_also_after_a_restart() {
    let machine = SimEnv::new(1);
    let db = open(&machine);
    db.create_collection("d.c", doc! {"collation": &json(IGNORES_CASE)}.view()).unwrap();
    let specs = [r#"{"key":{"x":1},"name":"x","unique":true}"#, r#"{"key":{"y":"hashed"},"name":"y"}"#];
    db.create_indexes("d.c", &specs.map(json)).unwrap();
    db.collection("d.c").unwrap().unwrap().insert_one(json(r#"{"_id":"Ada","x":["One",1],"y":"z"}"#).view()).unwrap();
    drop(db);
    let db = open(&machine);
    let collection = db.collection("d.c").unwrap().unwrap();
    assert_eq!(entries(&collection), "x=2 y=1");
    assert_eq!(collection.find_by_id("ADA").unwrap().unwrap().view().get("_id"), Some(Value::from("Ada")));
    for (document, index) in [(r#"{"_id":"aDA"}"#, "_id_"), (r#"{"_id":2,"x":"oNE"}"#, "x")] {
        let error = collection.insert_one(json(document).view()).unwrap_err();
        assert_eq!(error.code().number(), 11000, "{document}");
        let named = format!("index: {index} collation: {{ locale: \"en\"");
        assert!(error.message().contains(&named), "{}", error.message());
    }
    // Another key by the collation of the index, and the same.
    let (mut matched, mut modified) = (0, 0);
    for (filter, change) in [(r#"{"x":"ONE"}"#, r#"{"$set":{"x":"ONE"}}"#), (r#"{"y":"Z"}"#, r#"{"$set":{"x":"two"}}"#)]
    {
        let updated = collection.update_many(json(filter).view(), json(change).view()).unwrap();
        (matched, modified) = (matched + updated.matched, modified + updated.modified);
        assert_eq!(entries(&collection), "x=1 y=1");
    }
    assert_eq!((matched, modified), (2, 2));
    assert!(collection.delete_by_id("ada").unwrap());
    assert_eq!(entries(&collection), "x=0 y=0");
}

#[test]
fn statements_and_pipelines_take_a_collation_of_their_own() {
    let db = open(&SimEnv::new(2));
    let collection = db.collection_or_create("d.c").unwrap();
    collection.insert_one(json(r#"{"_id":1,"x":"a"}"#).view()).unwrap();
    let (filter, change) = (doc! {"x": "A"}, json(r#"{"$set":{"n":1}}"#));
    let matched = |collation: Option<&str>| {
        let options = UpdateOptions { collation: collation.map(json), ..UpdateOptions::default() };
        collection.update_one_with(filter.view(), change.view(), &options).unwrap().matched
    };
    assert_eq!((matched(None), matched(Some(IGNORES_CASE)), matched(Some("{}"))), (0, 1, 0));
    let options = FindOneOptions { collation: Some(json(IGNORES_CASE)), ..FindOneOptions::default() };
    assert!(collection.find_one_and_update(filter.view(), change.view(), &options).unwrap().is_some());
    let stages = json(r#"{"v":[{"$match":{"x":"A"}},{"$project":{"_id":{"$cmp":["$x","A"]}}}]}"#);
    let stages = stages.view().get("v").unwrap().as_array().unwrap();
    let rows = |collation: Option<&str>| {
        let options = AggregateOptions { collation: collation.map(json), ..AggregateOptions::default() };
        let rows = collection.aggregate_with(stages, options).unwrap();
        rows.map(|row| row.unwrap().view().to_json()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((rows(None).as_str(), rows(Some(IGNORES_CASE)).as_str()), ("", r#"{"_id":0}"#));
    let typed = db.typed::<serde_json::Value>("d.c").unwrap();
    assert_eq!(typed.find(filter.clone()).count().unwrap(), 0);
    assert_eq!(typed.find(filter.clone()).collation(json(IGNORES_CASE)).count().unwrap(), 1);
}

#[test]
fn an_index_serves_strings_of_its_own_collation_and_numbers_of_any() {
    let db = open(&SimEnv::new(3));
    let collection = db.collection_or_create("d.c").unwrap();
    let spec = format!(r#"{{"key":{{"x":1}},"name":"x","collation":{IGNORES_CASE}}}"#);
    db.create_indexes("d.c", &[json(&spec)]).unwrap();
    for id in 0..50 {
        collection.insert_one(json(&format!(r#"{{"_id":{id},"x":"v{id}"}}"#)).view()).unwrap();
    }
    let plan = |filter: &str, collation: &str| {
        let collation: DocumentBuf = json(collation);
        let collation = spinney_document::collation::Collation::parse(&Value::Document(collation.view())).unwrap();
        let context = Context::default().collated(collation);
        let mut query = Query::new(Filter::parse(json(filter).view(), &context).unwrap());
        query.counts = true;
        match collection.find(query).unwrap().plan() {
            Plan::Covered(scan) if scan.index.is_some() => "covered",
            Plan::Scan(scan) if scan.index.is_some() => "index",
            _ => "collection",
        }
    };
    assert_eq!(plan(r#"{"x":"V7"}"#, IGNORES_CASE), "covered");
    assert_eq!(plan(r#"{"x":{"$gt":"V7","$ne":"v8"}}"#, IGNORES_CASE), "index");
    assert_eq!(plan(r#"{"x":"V7"}"#, r#"{"locale":"en"}"#), "collection");
    assert_eq!(plan(r#"{"x":"v7"}"#, r#"{"locale":"simple"}"#), "collection");
    assert_eq!(plan(r#"{"x":{"$in":["v7",1]}}"#, r#"{"locale":"simple"}"#), "collection");
    assert_eq!(plan(r#"{"x":{"$gt":5}}"#, r#"{"locale":"simple"}"#), "covered");
}
