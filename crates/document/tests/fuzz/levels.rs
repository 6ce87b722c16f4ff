//! The bound of nesting: a document of as many levels as one may have passes each kind of operation on a thread with
//! 256 KiB of stack, and one level more is refused.

use std::sync::Arc;
use std::thread;

use spinney::env::sim::SimEnv;
use spinney_document::Database;
use spinney_document::base::Environment;
use spinney_document::bson::depth::LEVELS_MAX;
use spinney_document::bson::{DEPTH_MAX, DocumentBuf, DocumentBuilder};
use spinney_document::command::{Client, Request, Service, ServiceOptions};

use super::children::STACK_BYTES;

pub(super) fn on_a_small_stack(run: fn()) {
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.expect("a thread").join().expect("it holds");
}

/// A document of so many levels, itself included, whose field `a` holds the others.
fn nested(levels: usize, arrays: bool) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("_id", 1);
    for level in 1..levels {
        match (level, arrays) {
            (_, false) => builder.open_document("a"),
            (1, true) => builder.open_array("a"),
            (_, true) => builder.push_array(),
        };
    }
    builder.finish()
}

/// A clock that stands still.
#[derive(Debug)]
struct Still;

impl Environment for Still {
    fn now_ms(&self) -> i64 {
        1_700_000_000_123
    }

    fn random(&self) -> u64 {
        9
    }
}

pub(super) fn service() -> Service {
    let options = spinney::Options::default().memory_bytes(16 << 20).log_segment_bytes(64 << 10);
    let env = SimEnv::new(3).env();
    let engine = spinney::Database::builder("/db").options(options).env(env).open().expect("an empty machine");
    let database = Database::with_parts(engine, Arc::new(Still)).expect("an empty database");
    Service::with_options(database, ServiceOptions { replica_set: true, ..ServiceOptions::default() })
}

/// The code of a command's error, or of its first write error; 0 for none.
pub(super) fn code(service: &Service, command: &DocumentBuf) -> i64 {
    let request = Request { database: "d", body: command.view(), sequences: &[], client: &Client::default() };
    let reply = service.run(&request);
    let failed = reply.view().get("writeErrors").and_then(|errors| errors.as_array()).and_then(|errors| errors.get(0));
    let failed = failed.and_then(|error| error.as_document()).unwrap_or(reply.view());
    failed.get("code").and_then(|code| code.as_exact_i64()).unwrap_or(0)
}

fn aggregate(stage: &DocumentBuf) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append("aggregate", "c").open_array("pipeline").push(stage).close().open_document("cursor").close();
    builder.finish()
}

/// A command on the collection `c`, with what `rest` appends.
fn command(name: &str, rest: impl FnOnce(&mut DocumentBuilder)) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    rest(builder.append(name, "c"));
    builder.finish()
}

fn insert(document: &DocumentBuf) -> DocumentBuf {
    command("insert", |to| {
        to.open_array("documents").push(document).close();
    })
}

pub(super) fn json(text: &str) -> DocumentBuf {
    DocumentBuf::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_document_of_all_levels_passes_each_operation_on_a_small_stack() {
    on_a_small_stack(|| {
        for arrays in [false, true] {
            let (service, document) = (service(), nested(DEPTH_MAX, arrays));
            let value = document.view().get("a").expect("it has the field");
            let run = |what: &str, command: &DocumentBuf| assert_eq!(code(&service, command), 0, "{what}, {arrays}");
            run("an index", &json(r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a"}]}"#));
            run("insert", &insert(&document));
            assert_eq!(code(&service, &insert(&nested(DEPTH_MAX + 1, arrays))), 15);
            let find = command("find", |to| {
                to.open_document("filter").append("a", value).close();
            });
            run("find", &find);
            let find = command("find", |to| {
                to.open_document("filter").open_document("a").open_array("$in").push(value).push(1);
            });
            run("find in", &find);
            run("sort", &json(r#"{"find":"c","sort":{"a":-1}}"#));
            run("distinct", &json(r#"{"distinct":"c","key":"a"}"#));
            run("update", &json(r#"{"update":"c","updates":[{"q":{},"u":{"$set":{"b":1}}}]}"#));
            run("update by a pipeline", &json(r#"{"update":"c","updates":[{"q":{},"u":[{"$set":{"c":"$a"}}]}]}"#));
            for stage in [
                r#"{"$group":{"_id":"$a","s":{"$addToSet":"$a"},"m":{"$max":"$a"}}}"#,
                r#"{"$project":{"e":{"$eq":["$a","$c"]},"i":{"$in":["$a",["$c"]]},"s":{"$setUnion":[["$a"],["$c"]]}}}"#,
                r#"{"$sort":{"a":1,"_id":-1}}"#,
                r#"{"$sortByCount":"$a"}"#,
                r#"{"$bucketAuto":{"groupBy":"$a","buckets":2}}"#,
                r#"{"$redact":"$$DESCEND"}"#,
                r#"{"$out":"o"}"#,
            ] {
                run(stage, &aggregate(&json(stage)));
            }
            let text = nested(DEPTH_MAX, arrays).view().to_canonical_json();
            assert_eq!(json(&text).as_bytes(), document.as_bytes());
            let delete = command("delete", |to| {
                to.open_array("deletes").push_document().append("limit", 0).open_document("q").append("a", value);
            });
            run("delete", &delete);
        }
    });
}

/// A value that an expression nests by steps had as many levels as the steps, and ended the process where it was
/// compared.
#[test]
fn a_computed_value_of_one_level_too_many_is_refused() {
    on_a_small_stack(|| {
        let service = service();
        assert_eq!(code(&service, &json(r#"{"insert":"c","documents":[{"_id":1}]}"#)), 0);
        for step in [r#"["$$value"]"#, r#"{"a":"$$value"}"#] {
            // The row around the value is a level, and a step a further one.
            for (steps, expected) in [(LEVELS_MAX - 2, 0), (LEVELS_MAX - 1, 15), (LEVELS_MAX, 15), (12_000, 15)] {
                let value =
                    format!(r#"{{"$reduce":{{"input":{{"$range":[0,{steps}]}},"initialValue":[],"in":{step}}}}}"#);
                let stage = format!(r#"{{"$project":{{"r":{value}}}}}"#);
                assert_eq!(code(&service, &aggregate(&json(&stage))), expected, "{steps} of {step}");
            }
        }
    });
}

/// An update whose path had a million components recursed over them.
#[test]
fn an_update_path_has_no_more_components_than_a_document_has_levels() {
    on_a_small_stack(|| {
        let service = service();
        assert_eq!(code(&service, &json(r#"{"insert":"c","documents":[{"_id":1}]}"#)), 0);
        let update = |components: usize| {
            let path = vec!["a"; components].join(".");
            json(&format!(r#"{{"update":"c","updates":[{{"q":{{}},"u":{{"$set":{{"{path}":1}}}}}}]}}"#))
        };
        assert_eq!(code(&service, &update(DEPTH_MAX - 1)), 0);
        assert_eq!(code(&service, &update(1_000_000)), 15);
    });
}
