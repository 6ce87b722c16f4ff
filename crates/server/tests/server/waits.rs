//! Waits end: by `maxTimeMS`, by `killOp`, by the client's leaving; and nobody waits for what is not in the way.

#![expect(clippy::disallowed_methods, reason = "the test measures how long a server takes")]

use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use spinney_document::bson::DocumentBuf;

use super::client::{Client, TestServer, number};

/// What a wait that ends has taken at most, on a machine that does much else.
const SOON: Duration = Duration::from_secs(3);

/// A transaction that has changed the document with `_id` 1 of a collection, and stays open.
fn open_transaction(client: &mut Client<std::net::TcpStream>, collection: &str, session: &str) {
    let command = format!(
        r#"{{"update": "{collection}", "updates": [{{"q": {{"_id": 1}}, "u": {{"$set": {{"by": "transaction"}}}}}}],
            {}, "startTransaction": true}}"#,
        in_session(session)
    );
    client.ok("app", &command);
}

pub(crate) fn in_session(id: &str) -> String {
    let id = format!("{id:A<22}==");
    format!(
        r#""lsid": {{"id": {{"$binary": {{"base64": "{id}", "subType": "04"}}}}}}, "txnNumber": {{"$numberLong": "1"}},
            "autocommit": false"#
    )
}

fn end_transaction(client: &mut Client<std::net::TcpStream>, session: &str) -> DocumentBuf {
    client.json("admin", &format!(r#"{{"commitTransaction": 1, {}}}"#, in_session(session)))
}

fn value(client: &mut Client<std::net::TcpStream>, collection: &str) -> String {
    let found = client.ok("app", &format!(r#"{{"find": "{collection}", "filter": {{"_id": 1}}}}"#));
    found.view().to_json()
}

fn with_documents(server: &TestServer, collections: &[&str]) -> Client<std::net::TcpStream> {
    let mut client = server.client();
    for name in collections {
        client.ok("app", &format!(r#"{{"insert": "{name}", "documents": [{{"_id": 1, "by": "nobody"}}]}}"#));
    }
    client
}

/// The number of the operation with a comment, when it runs.
pub(crate) fn operation(client: &mut Client<std::net::TcpStream>, comment: &str) -> Option<i64> {
    let running = client.ok("admin", &format!(r#"{{"currentOp": 1, "command.comment": "{comment}"}}"#));
    let found = running.view().get("inprog").and_then(|list| list.as_array()).and_then(|list| list.values().next());
    found.and_then(|found| found.as_document()?.get("opid")?.as_exact_i64())
}

/// Whether something comes in time.
pub(crate) fn comes(mut done: impl FnMut() -> bool) -> bool {
    let began = Instant::now();
    while !done() {
        if began.elapsed() >= SOON * 3 {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

pub(crate) fn until(done: impl FnMut() -> bool) {
    assert!(comes(done), "it takes too long");
}

const UPDATE: &str = r#"{"update": "a", "updates": [{"q": {"_id": 1}, "u": {"$set": {"by": "statement"}}}]"#;

#[test]
fn a_write_that_waits_for_a_transaction_ends_by_its_limit_of_time() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    open_transaction(&mut client, "a", "one");
    let began = Instant::now();
    assert_eq!(server.client().code("app", &format!(r#"{UPDATE}, "maxTimeMS": 200}}"#)), 50);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
    assert!(value(&mut client, "a").contains("transaction"));
}

#[test]
fn a_write_that_waits_for_a_transaction_can_be_killed() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    open_transaction(&mut client, "a", "one");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| server.client().code("app", &format!(r#"{UPDATE}, "comment": "waiting"}}"#)));
        let mut id = None;
        until(|| {
            id = operation(&mut client, "waiting");
            id.is_some()
        });
        client.ok("admin", &format!(r#"{{"killOp": 1, "op": {}}}"#, id.unwrap()));
        assert_eq!(waiting.join().unwrap(), 11601);
    });
    assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
    assert!(value(&mut client, "a").contains("transaction"));
}

#[test]
fn a_write_whose_client_has_left_is_not_done() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    open_transaction(&mut client, "a", "one");
    let mut leaves = server.client();
    let command = DocumentBuf::from_json(&format!(r#"{UPDATE}, "comment": "left"}}"#)).unwrap();
    leaves.send_command("app", command.view(), false, false);
    until(|| operation(&mut client, "left").is_some());
    drop(leaves);
    until(|| operation(&mut client, "left").is_none());
    assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
    assert!(value(&mut client, "a").contains("transaction"));
}

#[test]
fn a_write_that_asks_for_no_reply_is_done_when_its_client_has_left() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    open_transaction(&mut client, "a", "one");
    let mut leaves = server.client();
    let command = DocumentBuf::from_json(&format!(r#"{UPDATE}, "comment": "left", "writeConcern": {{"w": 0}}}}"#));
    leaves.send_command("app", command.unwrap().view(), true, false);
    until(|| operation(&mut client, "left").is_some());
    drop(leaves);
    thread::sleep(Duration::from_millis(300));
    assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
    until(|| value(&mut client, "a").contains("statement"));
}

#[test]
fn what_computes_and_what_searches_end_when_the_client_leaves() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    let endless = [
        r#"{"aggregate": "a", "cursor": {}, "comment": "left", "pipeline": [{"$project": {"x": {"$map": {
            "input": {"$range": [0, 100000]}, "in": {"$size": {"$range": [0, 1000]}}}}}}]}"#,
        r#"{"aggregate": "a", "cursor": {}, "comment": "left", "pipeline": [{"$set": {"x": {"$range": [0, 5000]}}},
            {"$unwind": "$x"}, {"$set": {"y": {"$range": [0, 5000]}}}, {"$unwind": "$y"},
            {"$group": {"_id": null, "n": {"$sum": "$y"}}}]}"#,
    ];
    for command in endless {
        let mut leaves = server.client();
        leaves.send_command("app", DocumentBuf::from_json(command).unwrap().view(), false, false);
        until(|| operation(&mut client, "left").is_some());
        drop(leaves);
        until(|| operation(&mut client, "left").is_none());
    }
}

#[test]
fn a_change_of_a_collection_waits_alone_for_its_transactions() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a", "b"]);
    open_transaction(&mut client, "a", "one");
    thread::scope(|scope| {
        let building = scope.spawn(|| {
            let index = r#"{"createIndexes": "a", "indexes": [{"key": {"x": 1}, "name": "x"}], "comment": "build"}"#;
            server.client().json("app", index)
        });
        until(|| operation(&mut client, "build").is_some());
        thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        let mut other = server.client();
        for (database, command) in [
            ("other", r#"{"create": "c"}"#),
            ("app", r#"{"insert": "new", "documents": [{"_id": 1}]}"#),
            ("app", r#"{"createIndexes": "b", "indexes": [{"key": {"y": 1}, "name": "y"}]}"#),
            ("app", r#"{"renameCollection": "app.new", "to": "app.newer"}"#),
            ("app", r#"{"drop": "b"}"#),
            ("other", r#"{"dropDatabase": 1}"#),
        ] {
            let database = if command.contains("rename") { "admin" } else { database };
            other.ok(database, command);
        }
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
        assert!(!building.is_finished());
        assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
        assert_eq!(number(&building.join().unwrap(), "ok"), 1);
    });
}

#[test]
fn a_change_that_waits_ends_by_its_limit_of_time_and_lets_others_write() {
    let server = TestServer::new(|_| {});
    let mut client = with_documents(&server, &["a"]);
    open_transaction(&mut client, "a", "one");
    let mut other = server.client();
    for command in [
        r#"{"drop": "a", "maxTimeMS": 200}"#,
        r#"{"createIndexes": "a", "indexes": [{"key": {"x": 1}, "name": "x"}], "maxTimeMS": 200}"#,
        r#"{"collMod": "a", "validator": {}, "maxTimeMS": 200}"#,
        r#"{"dropDatabase": 1, "maxTimeMS": 200}"#,
    ] {
        let began = Instant::now();
        assert_eq!(other.code("app", command), 50, "{command}");
        assert!(began.elapsed() < SOON, "{command}: {:?}", began.elapsed());
        other.ok("app", r#"{"insert": "a", "documents": [{"x": 1}]}"#);
    }
    assert_eq!(number(&end_transaction(&mut client, "one"), "ok"), 1);
}

#[test]
fn a_ring_of_transactions_and_changes_ends_at_once() {
    let server = TestServer::new(|_| {});
    let mut first = with_documents(&server, &["a", "b"]);
    let mut second = server.client();
    open_transaction(&mut first, "a", "one");
    open_transaction(&mut second, "b", "two");
    thread::scope(|scope| {
        let (done, drops) = channel();
        for name in ["a", "b"] {
            let (server, done) = (&server, done.clone());
            scope.spawn(move || {
                let drop = format!(r#"{{"drop": "{name}", "comment": "drop {name}"}}"#);
                done.send(server.client().json("app", &drop)).unwrap();
            });
            until(|| operation(&mut server.client(), &format!("drop {name}")).is_some());
        }
        thread::sleep(Duration::from_millis(50));
        let began = Instant::now();
        let crossed = |client: &mut Client<_>, collection: &str, session: &str| {
            let insert =
                format!(r#"{{"insert": "{collection}", "documents": [{{"_id": 2}}], {}}}"#, in_session(session));
            client.json("app", &insert)
        };
        let refused = crossed(&mut first, "b", "one");
        assert_eq!(number(&refused, "code"), 24, "{refused:?}");
        assert!(refused.view().to_json().contains("TransientTransactionError"), "{refused:?}");
        // It is aborted, and so its collection is free.
        let first_dropped = drops.recv_timeout(SOON).unwrap();
        assert_eq!(number(&first_dropped, "ok"), 1, "{first_dropped:?}");
        assert_eq!(number(&end_transaction(&mut second, "two"), "ok"), 1);
        assert_eq!(number(&drops.recv_timeout(SOON).unwrap(), "ok"), 1);
        assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    });
}
