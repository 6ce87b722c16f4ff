//! Filters with many values and branches: what they read and what planning them costs.

use spinney::env::sim::SimEnv;
use spinney_document::bson::{DocumentBuf, DocumentBuilder, Value};
use spinney_document::collection::WriteOptions;
use spinney_document::expr::Context;
use spinney_document::path::Sort;
use spinney_document::plan::{Hint, Query};
use spinney_document::query::Filter;
use spinney_document::{Collection, doc};
use spinney_testkit::cost::thread_time;

use super::collections::{json, open};

const DOCUMENTS: i32 = 8000;

/// Makes a filter, or a branch of one, of a number.
type Make = fn(i32) -> DocumentBuf;

/// Documents with an index on `k`, `b`, on `a` and `s`, and `t`, an array.
fn numbers(machine: &SimEnv) -> Collection {
    let db = open(machine);
    let numbers = db.collection_or_create("app.numbers").unwrap();
    let documents: Vec<_> = (0..DOCUMENTS)
        .map(|id| {
            let mut document = DocumentBuilder::new();
            document.append("_id", id).append("k", id).append("a", id % 100).append("b", id / 100);
            document.append("s", format!("{:03}", id % 500).as_str()).open_array("t").push(id).push(id + 1).close();
            document.finish()
        })
        .collect();
    numbers.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
    let specs = ["{\"k\":1}", "{\"a\":1,\"b\":-1}", "{\"s\":1}", "{\"t\":1}"];
    let specs: Vec<_> =
        specs.iter().enumerate().map(|(at, key)| json(&format!(r#"{{"key":{key},"name":"i{at}"}}"#))).collect();
    db.create_indexes("app.numbers", &specs).unwrap();
    numbers
}

fn within(field: &str, values: impl Iterator<Item = i32>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    let list = builder.open_document(field).open_array("$in");
    values.for_each(|value| {
        list.push(value);
    });
    builder.close().close();
    builder.finish()
}

fn either(branches: impl Iterator<Item = DocumentBuf>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.open_array("$or");
    branches.for_each(|branch| {
        builder.push(Value::Document(branch.view()));
    });
    builder.close();
    builder.finish()
}

fn query(filter: &DocumentBuf) -> Query {
    Query::new(Filter::parse(filter.view(), &Context::default()).unwrap())
}

/// The `_id`s that are found, the entries of indexes and the documents that were looked at.
fn run(numbers: &Collection, query: Query) -> (Vec<i64>, u64, u64) {
    let mut found = Vec::new();
    let mut execution = numbers.find(query).unwrap();
    while let Some(document) = execution.advance().unwrap() {
        found.push(document.view().get("_id").and_then(|id| id.as_exact_i64()).unwrap());
    }
    (found, execution.counts().keys.get(), execution.counts().documents.get())
}

/// The answer of a scan of all documents, in order.
fn scanned(numbers: &Collection, filter: &DocumentBuf) -> Vec<i64> {
    let scan = Query { hint: Some(Hint::Natural { reverse: false }), ..query(filter) };
    run(numbers, scan).0
}

#[test]
fn many_values_read_no_more_than_they_find() {
    let numbers = numbers(&SimEnv::new(1));
    for count in [1000, 1001, 1025, 3000] {
        for field in ["_id", "k", "t"] {
            let filter = within(field, (0..count).map(|at| at * 2));
            let (mut found, keys, documents) = run(&numbers, query(&filter));
            found.sort_unstable();
            assert_eq!(found, scanned(&numbers, &filter), "{field} in {count}");
            let most = found.len() as u64;
            assert!(documents <= most && keys <= 2 * most, "{field} in {count}: {keys} keys, {documents} documents");
        }
    }
}

#[test]
fn a_walk_over_many_values_has_the_order_of_the_index_in_both_directions() {
    let numbers = numbers(&SimEnv::new(1));
    for field in ["_id", "k"] {
        for direction in [1, -1] {
            let filter = within(field, (0..3000).map(|at| at * 2));
            let sort = Sort::parse(json(&format!(r#"{{"{field}":{direction}}}"#)).view(), None).unwrap();
            let sorted = Query { sort: Some(sort), ..query(&filter) };
            let (found, _, documents) = run(&numbers, sorted);
            let mut expected: Vec<_> = (0..3000_i64).map(|at| at * 2).collect();
            if direction < 0 {
                expected.reverse();
            }
            assert_eq!((found, documents), (expected, 3000), "{field} {direction}");
        }
    }
}

#[test]
fn many_branches_read_no_more_than_they_find() {
    let numbers = numbers(&SimEnv::new(1));
    let cases: [(&str, Make); 4] = [
        ("ids", |at| doc! {"_id": at * 3}),
        ("two fields", |at| doc! {"a": at % 100, "b": at / 100}),
        ("fields in turn", |at| match at % 3 {
            0 => doc! {"_id": at},
            1 => doc! {"k": at},
            _ => doc! {"a": at % 100, "b": at / 100},
        }),
        ("ranges", |at| json(&format!(r#"{{"k":{{"$gte":{},"$lt":{}}}}}"#, at * 4, at * 4 + 2))),
    ];
    for (name, branch) in cases {
        for count in [40, 60, 1500] {
            let filter = either((0..count).map(branch));
            let (mut found, keys, documents) = run(&numbers, query(&filter));
            found.sort_unstable();
            assert_eq!(found, scanned(&numbers, &filter), "{name}, {count}");
            let most = 2 * found.len() as u64;
            assert!(documents <= most && keys <= most, "{name}, {count}: {keys} keys, {documents} documents");
        }
    }
}

#[test]
fn conditions_beside_many_branches_are_asked_too() {
    let numbers = numbers(&SimEnv::new(1));
    // More than are planned with each branch.
    let mut filter = DocumentBuilder::new();
    filter.open_array("$and");
    filter.push(Value::Document(either((0..1500).map(|at| doc! {"k": at})).view()));
    filter.push(Value::Document(within("b", (0..200).map(|at| at * 2)).view()));
    filter.close();
    let filter = filter.finish();
    let (mut found, ..) = run(&numbers, query(&filter));
    found.sort_unstable();
    assert_eq!(found, scanned(&numbers, &filter));
    assert!(found.len() == 800, "{}", found.len());
}

#[test]
fn planning_costs_n_log_n() {
    let numbers = numbers(&SimEnv::new(1));
    let cases: [(&str, Make); 6] = [
        ("$in", |n| within("_id", (0..n).map(|at| at * 3))),
        ("$in on an array", |n| within("t", (0..n).map(|at| at * 3))),
        ("$or", |n| either((0..n / 4).map(|at| doc! {"_id": at}))),
        ("$or of two fields", |n| either((0..n / 4).map(|at| doc! {"a": at % 100, "b": at}))),
        ("$and of $in", |n| {
            let mut both = DocumentBuilder::new();
            both.open_array("$and");
            (0..2).for_each(|more| {
                both.push(Value::Document(within("_id", (0..n / 2).map(|at| at * (2 + more))).view()));
            });
            both.close();
            both.finish()
        }),
        ("$and of $ne", |n| {
            let mut all = DocumentBuilder::new();
            all.open_array("$and");
            (0..n / 4).for_each(|at| {
                all.push(Value::Document(json(&format!(r#"{{"k":{{"$ne":{}}}}}"#, at * 2)).view()));
            });
            all.close();
            all.finish()
        }),
    ];
    for (name, filter) in cases {
        // The time of the plan alone, the least of three: a query that finds nothing else is begun.
        let cost = |n: i32| {
            let filter = filter(n);
            let times = (0..3).map(|_| {
                let began = thread_time();
                drop(numbers.find(query(&filter)).unwrap());
                thread_time() - began
            });
            times.min().unwrap_or_default()
        };
        let (few, many) = (cost(4000), cost(32_000));
        // Eight times as many: 8 times the work, and the logarithm; 64 times if it were quadratic.
        assert!(many < few * 24, "{name}: {few:?} for 4,000, {many:?} for 32,000");
    }
}
