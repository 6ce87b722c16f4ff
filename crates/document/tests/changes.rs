//! Change streams as clients use them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use spinney::Options;
use spinney::env::sim::SimEnv;
use spinney_document::aggregate::{Pipeline, Run};
use spinney_document::base::{Environment, Interrupt, System};
use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::changes::{ChangeStream, StreamOptions, Watched};
use spinney_document::command::{Client, Request, Service};
use spinney_document::expr::Context;
use spinney_document::{Database, doc};

fn open(machine: &SimEnv, keep: u64) -> Service {
    let options = Options::default().log_keep_bytes(keep);
    let engine = spinney::Database::builder("/db").options(options).env(machine.env()).open().unwrap();
    Service::new(Database::with_engine(engine).unwrap())
}

fn command(service: &Service, database: &str, command: &DocumentBuf) -> DocumentBuf {
    let client = Client::default();
    service.run(&Request { database, body: command.view(), sequences: &[], client: &client })
}

fn run(service: &Service, text: &str) -> String {
    let reply = command(service, "app", &DocumentBuf::from_json(text).unwrap()).view().to_json();
    assert!(reply.contains(r#""ok":1.0"#), "{text}\n{reply}");
    reply
}

fn run_admin(service: &Service, text: &str) {
    let reply = command(service, "admin", &DocumentBuf::from_json(text).unwrap()).view().to_json();
    assert!(reply.contains(r#""ok":1.0"#), "{text}\n{reply}");
}

/// A cursor of a stream.
struct Stream<'s> {
    service: &'s Service,
    id: i64,
    collection: String,
    /// The newest `postBatchResumeToken`.
    token: DocumentBuf,
}

impl<'s> Stream<'s> {
    /// Opens a stream over a collection, or over the database for `1`.
    fn open(service: &'s Service, collection: &str, options: &str, stages: &str) -> (Self, Vec<DocumentBuf>) {
        let name = if collection == "1" { "1".to_owned() } else { format!("\"{collection}\"") };
        let text =
            format!(r#"{{"aggregate":{name},"pipeline":[{{"$changeStream":{options}}}{stages}],"cursor":{{}}}}"#);
        let reply = command(service, "app", &DocumentBuf::from_json(&text).unwrap());
        assert!(reply.view().to_json().contains(r#""ok":1.0"#), "{text}\n{}", reply.view().to_json());
        let collection = if collection == "1" { "$cmd.aggregate" } else { collection };
        let mut stream = Self { service, id: 0, collection: collection.to_owned(), token: DocumentBuf::new() };
        let batch = stream.read(&reply, "firstBatch");
        (stream, batch)
    }

    fn read(&mut self, reply: &DocumentBuf, batch: &str) -> Vec<DocumentBuf> {
        let cursor = reply.view().get("cursor").unwrap().as_document().unwrap();
        self.id = cursor.get("id").unwrap().as_exact_i64().unwrap();
        self.token = cursor.get("postBatchResumeToken").unwrap().as_document().unwrap().into();
        let documents = cursor.get(batch).unwrap().as_array().unwrap();
        documents.values().map(|document| document.as_document().unwrap().into()).collect()
    }

    fn next_batch(&mut self, size: i64) -> Result<Vec<DocumentBuf>, String> {
        let mut builder = DocumentBuilder::new();
        builder.append("getMore", self.id).append("collection", self.collection.as_str()).append("maxTimeMS", 50_i64);
        if size > 0 {
            builder.append("batchSize", size);
        }
        let reply = command(self.service, "app", &builder.finish());
        if reply.view().get("code").is_some() {
            return Err(reply.view().to_json());
        }
        Ok(self.read(&reply, "nextBatch"))
    }

    /// The events, without what differs from run to run.
    fn events(&mut self) -> Vec<String> {
        self.next_batch(0).unwrap().iter().map(short).collect()
    }
}

fn short(event: &DocumentBuf) -> String {
    let mut builder = DocumentBuilder::new();
    for element in event.view() {
        let name = element.name.to_str_lossy();
        if matches!(&*name, "_id" | "clusterTime" | "wallTime" | "collectionUUID" | "lsid" | "operationDescription") {
            continue;
        }
        builder.append_element(&element);
    }
    builder.finish().view().to_json()
}

fn token(event: &DocumentBuf) -> String {
    event.view().get("_id").unwrap().as_document().unwrap().to_json()
}

const NS: &str = r#""ns":{"db":"app","coll":"c"}"#;

#[test]
fn events_tell_what_happened_to_documents() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"insert":"c","documents":[{"_id":0}]}"#);
    let (mut stream, first) = Stream::open(&service, "c", "{}", "");
    assert!(first.is_empty());
    assert!(stream.events().is_empty());
    run(
        &service,
        r#"{"insert":"c","documents":[{"_id":2,"a":1},{"_id":1,"l":["a long text in an array, to be kept",1,2]}]}"#,
    );
    run(&service, r#"{"insert":"other","documents":[{"_id":2}]}"#);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":2},"u":{"$set":{"b":{"c":1}},"$unset":{"a":1}}}]}"#);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$pop":{"l":1}}}]}"#);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":2},"u":{"x":1}}]}"#);
    // What changes nothing is no event.
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":2},"u":{"$set":{"x":1}}}]}"#);
    run(&service, r#"{"delete":"c","deletes":[{"q":{"_id":2},"limit":1}]}"#);
    let told = [
        format!(r#"{{"operationType":"insert","fullDocument":{{"_id":2,"a":1}},{NS},"documentKey":{{"_id":2}}}}"#),
        format!(
            r#"{{"operationType":"insert","fullDocument":{{"_id":1,"l":["a long text in an array, to be kept",1,2]}},{NS},"documentKey":{{"_id":1}}}}"#
        ),
        format!(
            r#"{{"operationType":"update",{NS},"documentKey":{{"_id":2}},"updateDescription":{{"updatedFields":{{"b":{{"c":1}}}},"removedFields":["a"],"truncatedArrays":[]}}}}"#
        ),
        format!(
            r#"{{"operationType":"update",{NS},"documentKey":{{"_id":1}},"updateDescription":{{"updatedFields":{{}},"removedFields":[],"truncatedArrays":[{{"field":"l","newSize":2}}]}}}}"#
        ),
        format!(r#"{{"operationType":"replace","fullDocument":{{"_id":2,"x":1}},{NS},"documentKey":{{"_id":2}}}}"#),
        format!(r#"{{"operationType":"delete",{NS},"documentKey":{{"_id":2}}}}"#),
    ];
    assert_eq!(stream.events(), told);
    assert!(stream.events().is_empty());
}

#[test]
fn a_stream_goes_on_behind_any_event_also_after_a_restart() {
    let machine = SimEnv::new(1);
    let service = open(&machine, 1 << 20);
    let (mut stream, _) = Stream::open(&service, "1", "{}", "");
    let begin = stream.token.clone();
    run(&service, r#"{"insert":"c","documents":[{"_id":3},{"_id":1},{"_id":2}]}"#);
    run(&service, r#"{"insert":"d","documents":[{"_id":{"$numberLong":"7"}}]}"#);
    run(&service, r#"{"delete":"d","deletes":[{"q":{},"limit":0}]}"#);
    run_admin(&service, r#"{"renameCollection":"app.c","to":"app.e"}"#);
    run(&service, r#"{"drop":"d"}"#);
    let events = stream.next_batch(0).unwrap();
    assert_eq!(events.len(), 7, "{:?}", events.iter().map(short).collect::<Vec<_>>());
    assert!(short(&events[4]).contains(r#""documentKey":{"_id":7}"#));
    let all: Vec<String> = events.iter().map(short).collect();
    let tokens: Vec<String> = events.iter().map(token).collect();
    assert!(tokens.is_sorted());
    let time = events[1].view().get("clusterTime").unwrap();
    let time_text = DocumentBuf::from(spinney_document::doc! {"startAtOperationTime": time}.view()).view().to_json();
    let end = stream.token.clone();
    drop(service);
    machine.process_crash();
    let service = open(&machine, 1 << 20);
    run(&service, r#"{"insert":"e","documents":[{"_id":9}]}"#);
    for (at, token) in tokens.iter().enumerate() {
        let (mut stream, mut batch) = Stream::open(&service, "1", &format!(r#"{{"resumeAfter":{token}}}"#), "");
        while batch.len() < 7 - at {
            let more = stream.next_batch(2).unwrap();
            assert!(!more.is_empty());
            batch.extend(more);
        }
        let shown: Vec<String> = batch.iter().map(short).collect();
        assert_eq!(shown[..6 - at], all[at + 1..], "{at}");
        assert!(shown[6 - at].contains(r#""_id":9"#));
    }
    let from = |options: &str| {
        let (mut stream, mut batch) = Stream::open(&service, "1", options, "");
        batch.extend(stream.next_batch(0).unwrap());
        batch.iter().map(short).collect::<Vec<_>>()
    };
    assert_eq!(from(&format!(r#"{{"startAfter":{}}}"#, begin.view().to_json())).len(), 8);
    assert_eq!(from(&format!(r#"{{"resumeAfter":{}}}"#, end.view().to_json())).len(), 1);
    // The three inserts are one commit, and have one time.
    assert_eq!(from(&time_text).len(), 8);
    assert!(from(r#"{"startAtOperationTime":{"$timestamp":{"t":4294967295,"i":1}}}"#).is_empty());
}

/// With expanded events a path is shown in its parts where its text could be another path: numbers that are names,
/// positions, names with dots.
#[test]
fn paths_with_several_meanings_are_shown_in_their_parts() {
    let service = open(&SimEnv::new(1), 1 << 20);
    let long = "x".repeat(60);
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1,"long":"{long}","a":[1,"{long}"]}}]}}"#));
    let (mut stream, _) = Stream::open(&service, "c", r#"{"showExpandedEvents":true}"#, "");
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a.0":2,"7":1,"b":1}}}]}"#);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"b":2}}}]}"#);
    let shown = |event: &DocumentBuf| {
        let told = event.view().get("updateDescription").and_then(|told| told.as_document()).unwrap();
        told.get("disambiguatedPaths").and_then(|paths| paths.as_document()).unwrap().to_json()
    };
    let events = stream.next_batch(0).unwrap();
    assert_eq!(events.iter().map(shown).collect::<Vec<_>>(), [r#"{"a.0":["a",0],"7":["7"]}"#, "{}"]);
}

/// A pipeline that changes the `_id` of an event takes away what the stream is resumed by.
#[test]
fn a_stream_fails_when_its_pipeline_changes_the_token_of_an_event() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"create":"c"}"#);
    for (stages, fails) in [
        (r#",{"$project":{"_id":0}}"#, true),
        (r#",{"$set":{"_id":{"_data":"x"}}}"#, true),
        (r#",{"$set":{"other":1}}"#, false),
        (r#",{"$match":{"operationType":"none"}},{"$project":{"_id":0}}"#, false),
    ] {
        let (mut stream, _) = Stream::open(&service, "c", "{}", stages);
        run(&service, r#"{"insert":"c","documents":[{}]}"#);
        let read = stream.next_batch(0);
        assert_eq!(read.is_err(), fails, "{stages}: {read:?}");
        assert!(read.err().is_none_or(|refused| refused.contains(r#""code":280,"#)), "{stages}");
    }
}

#[test]
fn a_stream_ends_with_its_collection() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    let (mut of_database, _) = Stream::open(&service, "1", r#"{"showExpandedEvents":true}"#, "");
    let (mut stream, _) = Stream::open(&service, "c", "{}", "");
    run(&service, r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a_1"}]}"#);
    run(&service, r#"{"drop":"c"}"#);
    let events = stream.next_batch(0).unwrap();
    let told: Vec<String> = events.iter().map(short).collect();
    assert_eq!(told, [format!(r#"{{"operationType":"drop",{NS}}}"#), r#"{"operationType":"invalidate"}"#.to_owned()]);
    assert_eq!(stream.id, 0);
    // It can be begun behind its end, but not resumed there.
    run(&service, r#"{"insert":"c","documents":[{"_id":5}]}"#);
    let end = token(&events[1]);
    let (mut again, mut batch) = Stream::open(&service, "c", &format!(r#"{{"startAfter":{end}}}"#), "");
    batch.extend(again.next_batch(0).unwrap());
    assert!(short(&batch[0]).contains(r#""documentKey":{"_id":5}"#) && batch.len() == 1);
    let text = format!(r#"{{"aggregate":"c","pipeline":[{{"$changeStream":{{"resumeAfter":{end}}}}}],"cursor":{{}}}}"#);
    let refused = command(&service, "app", &DocumentBuf::from_json(&text).unwrap()).view().to_json();
    assert!(refused.contains(r#""code":260,"#), "{refused}");
    run(&service, r#"{"dropDatabase":1}"#);
    let kinds: Vec<String> = of_database
        .next_batch(0)
        .unwrap()
        .iter()
        .map(|event| event.view().get("operationType").unwrap().as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["createIndexes", "drop", "create", "insert", "drop", "dropDatabase", "invalidate"]);
}

#[test]
fn whole_documents_are_shown_before_and_after() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"create":"c","changeStreamPreAndPostImages":{"enabled":true}}"#);
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"a":1}]}"#);
    let options = r#"{"fullDocument":"required","fullDocumentBeforeChange":"required"}"#;
    let (mut required, _) = Stream::open(&service, "c", options, "");
    let (mut lookup, _) = Stream::open(&service, "c", r#"{"fullDocument":"updateLookup"}"#, "");
    run(
        &service,
        r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"a":1}}},{"q":{"_id":1},"u":{"$inc":{"a":1}}}]}"#,
    );
    let told = required.events();
    assert!(
        told[0].contains(r#""fullDocument":{"_id":1,"a":2}"#)
            && told[0].contains(r#""fullDocumentBeforeChange":{"_id":1,"a":1}"#)
    );
    assert!(
        told[1].contains(r#""fullDocument":{"_id":1,"a":3}"#)
            && told[1].contains(r#""fullDocumentBeforeChange":{"_id":1,"a":2}"#)
    );
    assert!(lookup.events().iter().all(|event| event.contains(r#""fullDocument":{"_id":1,"a":3}"#)));
    run(&service, r#"{"collMod":"c","changeStreamPreAndPostImages":{"enabled":false}}"#);
    run(&service, r#"{"delete":"c","deletes":[{"q":{},"limit":0}]}"#);
    let failed = required.next_batch(0).unwrap_err();
    assert!(failed.contains(r#""code":47,"#), "{failed}");
    let (mut available, _) = Stream::open(&service, "c", &options.replace("required", "whenAvailable"), "");
    run(&service, r#"{"insert":"c","documents":[{"_id":1,"a":1}]}"#);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$inc":{"a":1}}}]}"#);
    assert!(available.events()[1].contains(r#""fullDocument":null"#));
}

#[test]
fn a_collection_that_a_transaction_creates_is_told_of_before_its_documents() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"create":"other"}"#);
    let stages = r#",{"$project":{"operationType":1,"documentKey":1}}"#;
    let (mut stream, _) = Stream::open(&service, "c", r#"{"showExpandedEvents":true}"#, stages);
    let session = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},"txnNumber":{"$numberLong":"4"},"autocommit":false"#;
    run(&service, &format!(r#"{{"create":"c","startTransaction":true,{session}}}"#));
    run(&service, &format!(r#"{{"createIndexes":"c","indexes":[{{"key":{{"a":1}},"name":"a"}}],{session}}}"#));
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1,"a":1}}],{session}}}"#));
    assert!(stream.events().is_empty());
    run_admin(&service, &format!(r#"{{"commitTransaction":1,{session}}}"#));
    assert_eq!(
        stream.events(),
        [
            r#"{"operationType":"create"}"#,
            r#"{"operationType":"createIndexes"}"#,
            r#"{"operationType":"insert","documentKey":{"_id":1}}"#
        ]
    );
}

#[test]
fn transactions_are_shown_when_they_commit_and_pipelines_filter() {
    let service = open(&SimEnv::new(1), 1 << 20);
    run(&service, r#"{"create":"c"}"#);
    let stages = r#",{"$match":{"operationType":"insert"}},{"$project":{"documentKey":1,"txnNumber":1}}"#;
    let (mut stream, _) = Stream::open(&service, "c", "{}", stages);
    let session = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}},"txnNumber":{"$numberLong":"4"},"autocommit":false"#;
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":2}}],"startTransaction":true,{session}}}"#));
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1}}],{session}}}"#));
    run(
        &service,
        &format!(r#"{{"update":"c","updates":[{{"q":{{}},"u":{{"$set":{{"a":1}}}},"multi":true}}],{session}}}"#),
    );
    assert!(stream.events().is_empty());
    run_admin(&service, &format!(r#"{{"commitTransaction":1,{session}}}"#));
    assert_eq!(
        stream.events(),
        [r#"{"txnNumber":4,"documentKey":{"_id":2}}"#, r#"{"txnNumber":4,"documentKey":{"_id":1}}"#]
    );
    run(&service, r#"{"delete":"c","deletes":[{"q":{},"limit":0}]}"#);
    let before = stream.token.clone();
    assert!(stream.events().is_empty());
    assert!(stream.token.view().to_json() > before.view().to_json());
    let (mut broken, _) = Stream::open(&service, "c", "{}", r#",{"$project":{"_id":0}}"#);
    run(&service, r#"{"insert":"c","documents":[{"_id":1}]}"#);
    assert!(broken.next_batch(0).unwrap_err().contains(r#""code":280,"#));
}

#[test]
fn large_events_are_shown_in_fragments_behind_each_of_which_a_stream_goes_on() {
    let service = open(&SimEnv::new(1), 1 << 30);
    run(&service, r#"{"create":"c","changeStreamPreAndPostImages":{"enabled":true}}"#);
    let long = |letter: &str| letter.repeat(9 << 20);
    run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":1,"v":"{}"}}]}}"#, long("a")));
    let (split, before) = (r#",{"$changeStreamSplitLargeEvent":{}}"#, r#"{"fullDocumentBeforeChange":"required"}"#);
    let (mut stream, _) = Stream::open(&service, "c", before, split);
    let (mut whole, _) = Stream::open(&service, "c", before, "");
    run(
        &service,
        &format!(r#"{{"update":"c","updates":[{{"q":{{"_id":1}},"u":{{"$set":{{"v":"{}"}}}}}}]}}"#, long("b")),
    );
    run(&service, r#"{"insert":"c","documents":[{"_id":2}]}"#);
    let refused = whole.next_batch(0).unwrap_err();
    assert!(refused.contains(r#""code":10334,"#) && refused.contains("NonResumableChangeStreamError"), "{refused}");
    let number = |event: &DocumentBuf| event.view().get("splitEvent").map(|split| split.to_string());
    let first = stream.next_batch(1).unwrap().remove(0);
    assert_eq!(number(&first).unwrap(), r#"{"fragment":1,"of":2}"#);
    let second = stream.next_batch(1).unwrap().remove(0);
    assert_eq!(number(&second).unwrap(), r#"{"fragment":2,"of":2}"#);
    assert_eq!(
        stream.events(),
        [format!(r#"{{"operationType":"insert","fullDocument":{{"_id":2}},{NS},"documentKey":{{"_id":2}}}}"#)]
    );
    let behind = format!(r#"{{"fullDocumentBeforeChange":"required","resumeAfter":{}}}"#, token(&first));
    let (mut again, batch) = Stream::open(&service, "c", &behind, split);
    let events = if batch.is_empty() { again.next_batch(0).unwrap() } else { batch };
    assert_eq!((events.len(), token(&events[0])), (2, token(&second)));
    let without = format!(r#"{{"aggregate":"c","pipeline":[{{"$changeStream":{behind}}}],"cursor":{{}}}}"#);
    let refused = command(&service, "app", &DocumentBuf::from_json(&without).unwrap()).view().to_json();
    assert!(refused.contains(r#""code":280,"#), "{refused}");
    let (mut last, batch) = Stream::open(&service, "c", &format!(r#"{{"resumeAfter":{}}}"#, token(&second)), split);
    let events = if batch.is_empty() { last.next_batch(0).unwrap() } else { batch };
    assert_eq!(events.len(), 1);
}

#[test]
fn what_the_log_has_lost_is_told() {
    let without = open(&SimEnv::new(1), 0);
    let text = r#"{"aggregate":"c","pipeline":[{"$changeStream":{}}],"cursor":{}}"#;
    let refused = command(&without, "app", &DocumentBuf::from_json(text).unwrap()).view().to_json();
    assert!(refused.contains(r#""code":40573,"#), "{refused}");
    let machine = SimEnv::new(2);
    let service = open(&machine, 1);
    let (stream, _) = Stream::open(&service, "1", "{}", "");
    let begin = stream.token.view().to_json();
    // Older positions go with the segments of the log.
    for round in 0..40 {
        let filler = "x".repeat(1 << 20);
        run(&service, &format!(r#"{{"insert":"c","documents":[{{"_id":{round},"f":"{filler}"}}]}}"#));
        service.database().engine().flush().unwrap();
    }
    drop(service);
    let service = open(&machine, 1);
    for start in
        [format!(r#""resumeAfter":{begin}"#), r#""startAtOperationTime":{"$timestamp":{"t":1,"i":1}}"#.to_owned()]
    {
        let text = format!(r#"{{"aggregate":1,"pipeline":[{{"$changeStream":{{{start}}}}}],"cursor":{{}}}}"#);
        let refused = command(&service, "app", &DocumentBuf::from_json(&text).unwrap()).view().to_json();
        assert!(refused.contains(r#""code":286,"#), "{refused}");
    }
}

#[test]
fn streams_over_internal_databases_are_refused() {
    let service = open(&SimEnv::new(1), 1 << 20);
    let stream = DocumentBuf::from_json(r#"{"aggregate":1,"pipeline":[{"$changeStream":{}}],"cursor":{}}"#).unwrap();
    for database in ["admin", "config", "local"] {
        let reply = command(&service, database, &stream).view().to_json();
        assert!(reply.contains(r#""code":73"#), "{database}: {reply}");
    }
}

/// The clock of the system, which counts how often it is read.
#[derive(Debug, Default)]
struct Counted(AtomicUsize);

impl Environment for Counted {
    fn now_ms(&self) -> i64 {
        self.0.fetch_add(1, Ordering::Relaxed);
        System.now_ms()
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

fn stream(db: &Database, watched: Watched) -> ChangeStream {
    let run = Run::new(Context::default());
    ChangeStream::open(db, watched, StreamOptions::default(), Pipeline::default(), run).unwrap()
}

/// A stream shows what is durable. Where commits are not when they are acknowledged, it waited for ever.
#[test]
fn a_stream_that_waits_shows_commits_that_nothing_else_makes_durable() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().log_keep_bytes(1 << 20).durability(spinney::Durability::Buffered);
    let db = Database::with_engine(spinney::Database::open(dir.path().join("db"), options).unwrap()).unwrap();
    let c = db.collection_or_create("app.c").unwrap();
    let mut waiting = stream(&db, Watched::All);
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::park_timeout(Duration::from_millis(50));
            c.insert_one(doc! {"x": 1}.view()).unwrap();
        });
        waiting.wait(System.now_ms() + 10_000, &Interrupt::default()).unwrap();
    });
    assert!(waiting.advance().unwrap().is_some());
}

/// An idle stream looked for commits, and at the clock, ten times a second, and on a member of a replica set a hundred
/// times: 1,500 of them took a processor.
#[test]
fn a_stream_that_waits_sleeps_until_a_commit_or_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let engine = spinney::Database::open(dir.path().join("db"), Options::default().log_keep_bytes(1 << 20)).unwrap();
    let clock = Arc::new(Counted::default());
    let db = Database::with_parts(engine, Arc::<Counted>::clone(&clock)).unwrap();
    let c = db.collection_or_create("app.c").unwrap();
    let mut idle = stream(&db, Watched::All);
    let interrupt = Interrupt::default();
    let looks = clock.0.load(Ordering::Relaxed);
    idle.wait(System.now_ms() + 700, &interrupt).unwrap();
    let looks = clock.0.load(Ordering::Relaxed) - looks;
    assert!(looks <= 4, "an idle stream has looked at the clock {looks} times in 700 ms");
    thread::scope(|scope| {
        // A commit wakes it.
        let waiting = scope.spawn(|| {
            let mut waiting = stream(&db, Watched::Database("app".to_owned()));
            waiting.wait(System.now_ms() + 60_000, &Interrupt::default()).unwrap();
            waiting.advance().unwrap().is_some()
        });
        while !waiting.is_finished() {
            c.insert_one(doc! {"x": 1}.view()).unwrap();
            thread::park_timeout(Duration::from_millis(20));
        }
        assert!(waiting.join().unwrap());
        // A kill wakes it, and the end of the server.
        for ends in [Interrupt::kill, Interrupt::shut_down] {
            let interrupt = Arc::new(Interrupt::default());
            let waiting = scope.spawn({
                let (interrupt, db) = (Arc::clone(&interrupt), &db);
                move || {
                    stream(db, Watched::All).wait(System.now_ms() + 60_000, &interrupt).map_err(|e| e.code().number())
                }
            });
            thread::park_timeout(Duration::from_millis(100));
            ends(&interrupt);
            assert!(waiting.join().unwrap().is_err());
        }
    });
}
