//! Streams, sessions and tailable cursors go on at another member.

use spinney_document::bson::{DocumentBuf, DocumentBuilder};
use spinney_document::command::{Client, Request, Service};

use super::Pair;
use crate::collections::json;

pub(super) fn command(service: &Service, database: &str, body: &DocumentBuf) -> DocumentBuf {
    let client = Client::default();
    service.run(&Request { database, body: body.view(), sequences: &[], client: &client })
}

fn run(service: &Service, text: &str) -> String {
    let reply = command(service, "t", &json(text)).view().to_json();
    assert!(reply.contains(r#""ok":1.0"#), "{text}\n{reply}");
    reply
}

/// A cursor.
struct Cursor {
    id: i64,
    collection: &'static str,
    /// The newest `postBatchResumeToken`.
    token: String,
}

impl Cursor {
    fn stream(service: &Service, options: &str) -> (Self, Vec<DocumentBuf>) {
        let text = format!(r#"{{"aggregate":1,"pipeline":[{{"$changeStream":{options}}}],"cursor":{{}}}}"#);
        Self::open(service, &text, "$cmd.aggregate")
    }

    fn open(service: &Service, text: &str, collection: &'static str) -> (Self, Vec<DocumentBuf>) {
        let reply = command(service, "t", &json(text));
        assert!(reply.view().to_json().contains(r#""ok":1.0"#), "{text}\n{}", reply.view().to_json());
        let mut cursor = Self { id: 0, collection, token: String::new() };
        let batch = cursor.read(&reply, "firstBatch");
        (cursor, batch)
    }

    fn read(&mut self, reply: &DocumentBuf, batch: &str) -> Vec<DocumentBuf> {
        let cursor = reply.view().get("cursor").unwrap().as_document().unwrap();
        self.id = cursor.get("id").unwrap().as_exact_i64().unwrap();
        if let Some(token) = cursor.get("postBatchResumeToken") {
            self.token = token.as_document().unwrap().to_json();
        }
        let documents = cursor.get(batch).unwrap().as_array().unwrap();
        documents.values().map(|document| document.as_document().unwrap().into()).collect()
    }

    fn more(&mut self, service: &Service) -> Vec<DocumentBuf> {
        let mut builder = DocumentBuilder::new();
        builder.append("getMore", self.id).append("collection", self.collection).append("maxTimeMS", 20_i64);
        let reply = command(service, "t", &builder.finish());
        assert!(reply.view().to_json().contains(r#""ok":1.0"#), "{}", reply.view().to_json());
        self.read(&reply, "nextBatch")
    }
}

fn token(event: &DocumentBuf) -> String {
    event.view().get("_id").unwrap().as_document().unwrap().to_json()
}

fn kinds(events: &[DocumentBuf]) -> Vec<String> {
    let kind = |event: &DocumentBuf| event.view().get("operationType").unwrap().as_str().unwrap().to_owned();
    events.iter().map(kind).collect()
}

/// Changes of all kinds.
fn change(service: &Service) {
    run(service, r#"{"insert":"c","documents":[{"_id":3,"a":[1,2]},{"_id":1},{"_id":2}]}"#);
    run(service, r#"{"createIndexes":"c","indexes":[{"key":{"a":1},"name":"a_1"}]}"#);
    run(service, r#"{"update":"c","updates":[{"q":{},"u":{"$set":{"b":1}},"multi":true}]}"#);
    run(service, r#"{"insert":"gone","documents":[{"_id":1}]}"#);
    run(service, r#"{"drop":"gone"}"#);
    command(service, "admin", &json(r#"{"renameCollection":"t.c","to":"t.d"}"#));
    run(service, r#"{"delete":"d","deletes":[{"q":{"_id":1},"limit":1}]}"#);
    run(service, r#"{"update":"d","updates":[{"q":{"_id":2},"u":{"x":1}}]}"#);
    run(service, r#"{"drop":"d"}"#);
}

#[test]
fn a_stream_goes_on_at_another_member_behind_any_event() {
    let mut pair = Pair::new(1);
    let service = Service::new(pair.primary.db.clone());
    let options = r#"{"showExpandedEvents":true}"#;
    let (mut stream, first) = Cursor::stream(&service, options);
    assert!(first.is_empty());
    let begin = stream.token.clone();
    change(&service);
    let all = stream.more(&service);
    let expected = [
        "create",
        "insert",
        "insert",
        "insert",
        "createIndexes",
        "update",
        "update",
        "update",
        "create",
        "insert",
        "drop",
        "rename",
        "delete",
        "replace",
        "drop",
    ];
    assert_eq!(kinds(&all), expected);
    assert!(all.iter().map(token).collect::<Vec<_>>().is_sorted());
    let end = stream.token.clone();
    // The other member comes from the beginning, or from a crash.
    for crashes in [false, true] {
        if crashes {
            let mut rng = spinney_testkit::Rng::new(1);
            pair.other.follow();
            pair.other.db.engine().sync().unwrap();
            pair.crash_other(&mut rng);
        }
        pair.other.follow();
        let there = Service::new(pair.other.db.clone());
        let shown = |options: &str| {
            let (mut stream, mut batch) = Cursor::stream(&there, options);
            batch.extend(stream.more(&there));
            (batch, stream.token)
        };
        let behind = |token: &str| format!(r#"{{"showExpandedEvents":true,"resumeAfter":{token}}}"#);
        assert_eq!(shown(&behind(&begin)).0, all);
        for (at, event) in all.iter().enumerate() {
            let (batch, last) = shown(&behind(&token(event)));
            assert_eq!(batch, all[at + 1..], "{at}");
            assert_eq!(last, end);
        }
        assert!(shown(&behind(&end)).0.is_empty());
        let time = all[4].view().get("clusterTime").unwrap();
        let at = spinney_document::doc! {"showExpandedEvents": true, "startAtOperationTime": time};
        assert_eq!(shown(&at.view().to_json()).0, all[4..]);
    }
    pair.change_parts();
    let there = Service::new(pair.primary.db.clone());
    let (mut stream, _) = Cursor::stream(&there, &format!(r#"{{"resumeAfter":{end}}}"#));
    run(&there, r#"{"insert":"c","documents":[{"_id":9}]}"#);
    let events = stream.more(&there);
    assert_eq!(kinds(&events), ["insert"]);
    // The first member sees it too, with the same token.
    pair.other.follow();
    let (mut stream, mut batch) = Cursor::stream(&service, &format!(r#"{{"resumeAfter":{end}}}"#));
    batch.extend(stream.more(&service));
    assert_eq!(batch, events);
}

#[test]
fn a_waiting_stream_and_a_tailable_cursor_see_what_another_member_has_written() {
    let pair = Pair::new(3);
    let (service, there) = (Service::new(pair.primary.db.clone()), Service::new(pair.other.db.clone()));
    run(&service, r#"{"create":"log","capped":true,"size":100000,"max":3}"#);
    run(&service, r#"{"insert":"log","documents":[{"_id":1},{"_id":2}]}"#);
    pair.other.follow();
    let (mut stream, _) = Cursor::stream(&there, "{}");
    let (mut tail, first) = Cursor::open(&there, r#"{"find":"log","tailable":true,"awaitData":true}"#, "log");
    assert_eq!(first.len(), 2);
    assert!(tail.more(&there).is_empty() && stream.more(&there).is_empty());
    std::thread::scope(|scope| {
        let tailing = scope.spawn(|| (0..100).map(|_| tail.more(&there)).find(|batch| !batch.is_empty()));
        run(&service, r#"{"insert":"log","documents":[{"_id":3},{"_id":4}]}"#);
        pair.other.follow();
        assert_eq!(tailing.join().unwrap().unwrap().len(), 2);
    });
    assert_eq!(kinds(&stream.more(&there)), ["insert", "insert", "delete"]);
    assert!(run(&there, r#"{"count":"log"}"#).contains(r#""n":3"#));
    // The limits hold when it leads.
    pair.primary.step_down();
    pair.other.lead();
    run(&there, r#"{"insert":"log","documents":[{"_id":5}]}"#);
    let found = run(&there, r#"{"find":"log"}"#);
    assert!(found.contains(r#"[{"_id":3},{"_id":4},{"_id":5}]"#), "{found}");
    assert!(run(&there, r#"{"validate":"log"}"#).contains(r#""valid":true"#));
    // Each knows what the other has done when it leads again.
    pair.other.step_down();
    pair.primary.lead();
    run(&service, r#"{"insert":"log","documents":[{"_id":6},{"_id":7}]}"#);
    pair.primary.step_down();
    pair.other.lead();
    run(&there, r#"{"insert":"log","documents":[{"_id":8}]}"#);
    let found = run(&there, r#"{"find":"log"}"#);
    assert!(found.contains(r#"[{"_id":6},{"_id":7},{"_id":8}]"#), "{found}");
}

const SESSION: &str = r#""lsid":{"id":{"$uuid":"00000000-0000-4000-8000-000000000001"}}"#;

/// A command as the statement of a number in the session.
fn command_of(number: i64, text: &str) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    json(text).view().elements().for_each(|field| _ = builder.append_element(&field));
    let session = json(&format!(r#"{{{SESSION},"txnNumber":{{"$numberLong":"{number}"}}}}"#));
    session.view().elements().for_each(|field| _ = builder.append_element(&field));
    builder.finish()
}

#[test]
fn a_member_that_began_with_a_copy_knows_what_sessions_have_done() {
    let mut pair = Pair::new(6);
    let service = Service::new(pair.primary.db.clone());
    let insert = |id| command_of(3, &format!(r#"{{"insert":"one","documents":[{{"_id":{id}}}],"stmtId":{id}}}"#));
    let run_each = |service: &Service, ids: std::ops::Range<i32>| {
        for id in ids {
            let reply = command(service, "t", &insert(id)).view().to_json();
            assert!(
                reply.contains(r#""n":1"#) && reply.contains(r#""ok":1.0"#) && !reply.contains("writeErrors"),
                "{reply}"
            );
        }
    };
    run_each(&service, 1..3);
    pair.copy_to_other(|| run_each(&service, 3..5));
    run_each(&service, 5..7);
    pair.change_parts();
    let there = Service::new(pair.primary.db.clone());
    run_each(&there, 1..8);
    assert!(run(&there, r#"{"count":"one"}"#).contains(r#""n":7"#));
    // Again from a copy of that one, whose log does not tell of the first.
    pair.copy_to_other(|| ());
    pair.change_parts();
    run_each(&Service::new(pair.primary.db.clone()), 1..8);
}

#[test]
fn what_a_session_has_done_is_known_to_every_member() {
    let mut pair = Pair::new(4);
    let service = Service::new(pair.primary.db.clone());
    let texts = [
        r#"{"insert":"one","documents":[{"_id":1,"a":1},{"_id":2,"a":1}]}"#,
        r#"{"update":"one","updates":[{"q":{"_id":1},"u":{"$inc":{"a":1}}},{"q":{"_id":7},"u":{"$set":{"a":1}},"upsert":true}]}"#,
        r#"{"findAndModify":"one","query":{"_id":2},"update":{"$inc":{"a":5}},"new":true}"#,
        r#"{"delete":"one","deletes":[{"q":{"_id":7},"limit":1}]}"#,
    ];
    let plain = |reply: &DocumentBuf| {
        let mut builder = DocumentBuilder::new();
        let kept =
            reply.view().elements().filter(|field| field.name != "retriedStmtIds" && field.name != "retriedStmtId");
        kept.for_each(|field| _ = builder.append_element(&field));
        builder.finish().view().to_json()
    };
    for (number, text) in (1..).zip(texts) {
        let reply = command(&service, "t", &command_of(number, text));
        assert!(reply.view().to_json().contains(r#""ok":1.0"#), "{}", reply.view().to_json());
        pair.other.follow();
        pair.change_parts();
        let there = Service::new(pair.primary.db.clone());
        let before = run(&there, r#"{"find":"one"}"#);
        assert_eq!(plain(&command(&there, "t", &command_of(number, text))), plain(&reply), "{text}");
        assert_eq!(run(&there, r#"{"find":"one"}"#), before);
        pair.change_parts();
    }
    // A commit whose answer was lost is known as done, and one that was given up is done or not.
    let within = |text: &str, first: bool| {
        let body = command_of(9, text);
        let mut builder = DocumentBuilder::new();
        body.view().elements().for_each(|field| _ = builder.append_element(&field));
        builder.append("autocommit", false);
        if first {
            builder.append("startTransaction", true);
        }
        builder.finish()
    };
    let there = Service::new(pair.other.db.clone());
    command(&service, "t", &within(r#"{"insert":"one","documents":[{"_id":50}]}"#, true));
    pair.primary.give_up(true);
    let commit = within(r#"{"commitTransaction":1}"#, false);
    let given_up = command(&service, "admin", &commit).view().to_json();
    assert!(given_up.contains(r#""code":11602"#), "{given_up}");
    pair.primary.give_up(false);
    pair.primary.end_given_up(true);
    for (member, service) in [(&pair.primary, &service), (&pair.other, &there)] {
        member.follow();
        let reply = command(service, "admin", &commit).view().to_json();
        assert!(reply.contains(r#""ok":1.0"#), "{reply}");
        assert!(run(service, r#"{"find":"one"}"#).contains(r#"{"_id":50}"#));
    }
}

#[test]
fn a_member_that_began_with_a_copy_shows_what_came_after_it_and_tells_what_it_lacks() {
    let mut pair = Pair::new(5);
    let service = Service::new(pair.primary.db.clone());
    let (mut stream, _) = Cursor::stream(&service, "{}");
    run(&service, r#"{"insert":"c","documents":[{"_id":1},{"_id":2}]}"#);
    let before = stream.more(&service);
    let at_copy = stream.token.clone();
    pair.copy_to_other(|| ());
    let there = Service::new(pair.other.db.clone());
    // Nothing is shown twice behind a token of before it was opened.
    let (fresh, _) = Cursor::stream(&there, "{}");
    assert_eq!(fresh.token, at_copy);
    run(&service, r#"{"update":"c","updates":[{"q":{"_id":1},"u":{"$set":{"a":1}}}]}"#);
    run(&service, r#"{"drop":"c"}"#);
    pair.other.follow();
    let behind = |token: &str| format!(r#"{{"resumeAfter":{token}}}"#);
    let after = stream.more(&service);
    assert_eq!(kinds(&after), ["update", "drop"]);
    for token in [&at_copy, &fresh.token] {
        for service in [&service, &there] {
            let (mut stream, mut batch) = Cursor::stream(service, &behind(token));
            batch.extend(stream.more(service));
            assert_eq!(batch, after);
        }
    }
    let time = spinney_document::doc! {"startAtOperationTime": before[0].view().get("clusterTime").unwrap()};
    for lacking in [behind(&token(&before[0])), behind(&token(&before[1])), time.view().to_json()] {
        let text = format!(r#"{{"aggregate":1,"pipeline":[{{"$changeStream":{lacking}}}],"cursor":{{}}}}"#);
        let refused = command(&there, "t", &json(&text)).view().to_json();
        assert!(refused.contains(r#""code":286"#), "{text}: {refused}");
    }
    pair.change_parts();
    run(&there, r#"{"insert":"d","documents":[{"_id":1}]}"#);
    assert_eq!(pair.primary.db.list_collections("t").len(), 2);
}
