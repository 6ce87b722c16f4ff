//! Nothing is held after any end: what operations, cursors, transactions and connections take of a server is given back
//! however they end, by the server's own figures, and others go on.
//!
//! It would not see what is held and in no figure: the last test shows that each figure sees what is held on purpose.

use std::thread::scope;

use spinney_document::bson::DocumentBuf;

use super::client::{Client, TestServer, cursor, number};
use super::waits::{comes, in_session, operation, until};

type Connection = Client<std::net::TcpStream>;

/// What a server holds for its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    connections: usize,
    operations: usize,
    cursors: u64,
    pinned_cursors: u64,
    transactions: usize,
    snapshots: u64,
    message_bytes: usize,
    /// Those that sorts and groups spill into among them.
    tables: usize,
}

impl Held {
    fn by(server: &TestServer) -> Self {
        let server = server.running.as_ref().unwrap().server();
        let (state, engine) = (server.service.state(), server.service.database().engine());
        let cursors = state.cursors.counts();
        Self {
            connections: server.connections.current(),
            operations: state.operations.list().len(),
            cursors: cursors.open,
            pinned_cursors: cursors.pinned,
            transactions: state.sessions.open_transactions(),
            snapshots: engine.stats().snapshots,
            message_bytes: server.messages.held(),
            tables: engine.tables().unwrap().len(),
        }
    }
}

/// A client that holds the document with `_id` 1 of the collection `held` by a transaction in a session of its own.
struct Holder {
    client: Connection,
    session: String,
}

fn hold(server: &TestServer, number: usize) -> Holder {
    let mut client = server.client();
    let session = in_session(&format!("holder{number}"));
    let update = r#""updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}}]"#;
    client.ok("app", &format!(r#"{{"update": "held", {update}, {session}, "startTransaction": true}}"#));
    Holder { client, session }
}

fn release(mut holder: Holder) {
    holder.client.ok("admin", &format!(r#"{{"abortTransaction": 1, {}}}"#, holder.session));
}

/// Makes a collection.
fn fill(client: &mut Connection, name: &str) {
    if name == "tail" {
        client.ok("app", r#"{"create": "tail", "capped": true, "size": 100000}"#);
        client.ok("app", r#"{"insert": "tail", "documents": [{"_id": 1}]}"#);
        return;
    }
    let documents: Vec<String> = (1..=300).map(|id| format!(r#"{{"_id": {id}, "n": {}}}"#, id % 7)).collect();
    client.ok("app", &format!(r#"{{"insert": "{name}", "documents": [{}]}}"#, documents.join(",")));
    if name == "other" {
        client.ok("app", r#"{"createIndexes": "other", "indexes": [{"key": {"n": 1}, "name": "n"}]}"#);
    }
}

fn server() -> TestServer {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    ["held", "other", "tail"].iter().for_each(|name| fill(&mut client, name));
    drop(client);
    until(|| Held::by(&server).connections == 0);
    server
}

/// A client that the server knows of.
fn connected(server: &TestServer) -> Connection {
    let mut client = server.client();
    client.ok("admin", r#"{"ping": 1}"#);
    client
}

/// What is held is what was held before, and others write to all that was in use.
fn check(server: &TestServer, before: Held, what: &str) {
    let is_free = comes(|| Held::by(server) == before);
    assert!(is_free, "{what}: {:?} is held, and before {before:?}", Held::by(server));
    let mut other = server.client();
    for name in ["held", "other"] {
        let update = r#""updates": [{"q": {}, "u": {"$inc": {"n": 0, "m": 1}}, "multi": true}], "maxTimeMS": 3000"#;
        let reply = other.json("app", &format!(r#"{{"update": "{name}", {update}}}"#));
        assert!(reply.view().get("writeErrors").is_none() && number(&reply, "n") >= 300, "{what}: {reply:?}");
    }
    other.ok("app", r#"{"create": "held2", "maxTimeMS": 3000}"#);
    other.ok("admin", r#"{"renameCollection": "app.held2", "to": "app.held3", "maxTimeMS": 3000}"#);
    other.ok("app", r#"{"drop": "held3", "maxTimeMS": 3000}"#);
    drop(other);
    until(|| Held::by(server).connections == before.connections);
}

const SESSION: &str = r#""lsid": {"id": {"$uuid": "00000000-0000-4000-8000-00000000000e"}}"#;

/// Commands that run until something ends them, while another one holds a document of `held`.
const ENDLESS: &[&str] = &[
    r#"{"update": "held", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}]"#,
    r#"{"update": "held", "updates": [{"q": {"n": {"$gte": 0}}, "u": {"$set": {"x": 1}}, "multi": true}]"#,
    r#"{"update": "held", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}], "txnNumber": {"$numberLong": "9"}"#,
    r#"{"delete": "held", "deletes": [{"q": {"_id": 1}, "limit": 1}]"#,
    r#"{"insert": "held", "documents": [{"_id": 1000}, {"_id": 1001}, {"_id": 1}], "ordered": false"#,
    r#"{"findAndModify": "held", "query": {"_id": 1}, "update": {"$set": {"x": 1}}"#,
    r#"{"aggregate": "other", "pipeline": [{"$set": {"z": "merged"}}, {"$merge": {"into": "held"}}], "cursor": {}"#,
    r#"{"createIndexes": "held", "indexes": [{"key": {"z": 1}, "name": "z"}]"#,
    r#"{"drop": "held""#,
    r#"{"collMod": "held", "validator": {"n": {"$gte": 0}}"#,
    r#"{"aggregate": "other", "cursor": {}, "pipeline": [{"$project": {"x": {"$map": {
        "input": {"$range": [0, 100000]}, "in": {"$size": {"$range": [0, 100000]}}}}}}]"#,
    r#"{"aggregate": "other", "cursor": {}, "pipeline": [{"$set": {"x": {"$range": [0, 9000]}}}, {"$unwind": "$x"},
        {"$set": {"y": {"$range": [0, 9000]}}}, {"$unwind": "$y"}, {"$group": {"_id": null, "n": {"$sum": "$y"}}}]"#,
    r#"{"count": "other", "query": {"$expr": {"$gt": [{"$size": {"$map": {
        "input": {"$range": [0, 100000]}, "in": {"$size": {"$range": [0, 100000]}}}}}, 1]}}"#,
    r#"{"distinct": "other", "key": "n", "query": {"$expr": {"$gt": [{"$size": {"$map": {
        "input": {"$range": [0, 100000]}, "in": {"$size": {"$range": [0, 100000]}}}}}, 1]}}"#,
];

#[derive(Clone, Copy, Debug)]
enum Ending {
    Time,
    Kill,
    Leaving,
    KillSessions,
}

#[test]
fn a_command_that_is_ended_holds_nothing() {
    let server = server();
    let (mut client, mut number) = (connected(&server), 0);
    for command in ENDLESS {
        for ending in [Ending::Time, Ending::Kill, Ending::Leaving, Ending::KillSessions] {
            let what = format!("{command} ended by {ending:?}");
            let before = Held::by(&server);
            number += 1;
            let holder = hold(&server, number);
            let limit = if matches!(ending, Ending::Time) { r#", "maxTimeMS": 200"# } else { "" };
            let text = format!(r#"{command}, {SESSION}, "comment": "endless"{limit}}}"#);
            let command = DocumentBuf::from_json(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let mut worker = server.client();
            worker.send_command("app", command.view(), false, false);
            let mut id = None;
            if !matches!(ending, Ending::Time) {
                until(|| {
                    id = operation(&mut client, "endless");
                    id.is_some()
                });
            }
            match ending {
                Ending::Time => {}
                Ending::Kill => drop(client.ok("admin", &format!(r#"{{"killOp": 1, "op": {}}}"#, id.unwrap()))),
                Ending::Leaving => drop(worker.stream.shutdown(std::net::Shutdown::Both)),
                Ending::KillSessions => {
                    let lsid = SESSION.strip_prefix(r#""lsid": "#).unwrap();
                    client.ok("admin", &format!(r#"{{"killSessions": [{lsid}]}}"#));
                }
            }
            if !matches!(ending, Ending::Leaving) {
                let (reply, _) = worker.reply().unwrap_or_else(|| panic!("{what}: no answer"));
                let reply = reply.view().to_json();
                let codes = ["\"code\":50,", "\"code\":11601,", "\"code\":11600,", "\"code\":24,"];
                assert!(codes.iter().any(|code| reply.contains(code)), "{what}: {reply}");
            }
            drop(worker);
            until(|| operation(&mut client, "endless").is_none());
            release(holder);
            check(&server, before, &what);
        }
    }
}

/// Cursors that stay open, within a session.
const OPEN: &[&str] = &[
    r#"{"find": "other", "batchSize": 1"#,
    r#"{"find": "other", "filter": {"n": {"$gte": 1}}, "sort": {"n": 1}, "batchSize": 1"#,
    r#"{"find": "other", "batchSize": 0, "noCursorTimeout": true"#,
    r#"{"find": "other", "batchSize": 1, "readConcern": {"level": "snapshot"}"#,
    r#"{"find": "tail", "tailable": true, "awaitData": true"#,
    r#"{"aggregate": "other", "pipeline": [{"$unwind": "$_id"}, {"$sort": {"n": 1}}], "cursor": {"batchSize": 1}"#,
    r#"{"aggregate": "other", "pipeline": [{"$group": {"_id": "$_id"}}], "cursor": {"batchSize": 1}"#,
    r#"{"aggregate": "other", "pipeline": [{"$lookup": {"from": "held", "pipeline": [], "as": "x"}}], "cursor": {"batchSize": 1}"#,
    r#"{"aggregate": "other", "pipeline": [{"$set": {"t": {"$reduce": {"input": {"$range": [0, 12]}, "initialValue": "0123456789abcdef0123456789abcdef",
        "in": {"$concat": ["$$value", "$$value"]}}}}}, {"$sort": {"t": 1, "_id": -1}}], "cursor": {"batchSize": 1}, "allowDiskUse": true"#,
];

#[test]
fn a_cursor_that_is_ended_holds_nothing() {
    let server = server();
    let mut client = connected(&server);
    let lsid = SESSION.strip_prefix(r#""lsid": "#).unwrap();
    for command in OPEN {
        let name = if command.contains("tailable") { "tail" } else { "other" };
        let is_snapshot = command.contains("snapshot");
        // A snapshot that a session reads is kept for others at its time.
        let mut before = Held::by(&server);
        let own = if name == "tail" { "leaving" } else { "end" };
        for ending in ["killCursors", "endSessions", "killSessions", "killAllSessions", "error", own, "drop"] {
            let what = format!("{command} ended by {ending}");
            let mut worker = server.client();
            let reply = worker.ok("app", &format!(r#"{command}, {SESSION}}}"#));
            let id = cursor(&reply);
            assert_ne!(id, 0, "{what}");
            let counted = Held::by(&server);
            assert_eq!(counted.cursors, before.cursors + 1, "{what}");
            let more = format!(r#"{{"getMore": {{"$numberLong": "{id}"}}, "collection": "{name}", {SESSION}"#);
            let kill = format!(r#"{{"killCursors": "{name}", "cursors": [{{"$numberLong": "{id}"}}]}}"#);
            match ending {
                "killCursors" => drop(client.ok("app", &kill)),
                "endSessions" | "killSessions" => drop(client.ok("admin", &format!(r#"{{"{ending}": [{lsid}]}}"#))),
                "killAllSessions" => drop(client.ok("admin", r#"{"killAllSessions": []}"#)),
                "end" => while cursor(&worker.ok("app", &format!(r#"{more}, "batchSize": 100000}}"#))) != 0 {},
                "error" => {
                    // Of another collection: the cursor stays, and is killed.
                    let wrong = more.replace(name, "held");
                    assert!(number(&worker.json("app", &format!("{wrong}}}")), "ok") == 0, "{what}");
                    worker.ok("app", &kill);
                }
                "leaving" => {
                    let waits = format!(r#"{more}, "maxTimeMS": 30000, "comment": "waits"}}"#);
                    worker.send_command("app", DocumentBuf::from_json(&waits).unwrap().view(), false, false);
                    until(|| operation(&mut client, "waits").is_some());
                    drop(worker.stream.shutdown(std::net::Shutdown::Both));
                    until(|| operation(&mut client, "waits").is_none());
                    client.json("app", &kill);
                }
                _ => {
                    client.ok("app", &format!(r#"{{"drop": "{name}"}}"#));
                    // A stage that has read all goes on.
                    while worker.json("app", &format!("{more}}}")).view().get("cursor").is_some_and(|cursor| {
                        cursor.as_document().unwrap().get("id").unwrap().as_exact_i64() != Some(0)
                    }) {}
                    fill(&mut client, name);
                }
            }
            drop(worker);
            if is_snapshot {
                until(|| Held::by(&server).connections == before.connections);
                before.snapshots = Held::by(&server).snapshots;
            }
            check(&server, before, &what);
        }
    }
}

#[test]
fn a_transaction_that_is_ended_holds_nothing() {
    let server = server();
    let mut client = connected(&server);
    for ending in ["commit", "abort", "killSessions", "endSessions", "killAllSessions", "error", "conflict", "later"] {
        let session = in_session(ending);
        let (id, _) = session.split_once(r#", "txnNumber""#).unwrap();
        let lsid = id.strip_prefix(r#""lsid": "#).unwrap();
        let before = Held::by(&server);
        let mut worker = server.client();
        let update = r#""updates": [{"q": {"n": {"$gte": 0}}, "u": {"$inc": {"m": 1}}, "multi": true}]"#;
        worker.json("app", &format!(r#"{{"update": "held", {update}, {session}, "startTransaction": true}}"#));
        worker.ok("app", &format!(r#"{{"find": "other", "batchSize": 1, {session}}}"#));
        assert_eq!(Held::by(&server).transactions, before.transactions + 1, "{ending}");
        match ending {
            "commit" => drop(worker.ok("admin", &format!(r#"{{"commitTransaction": 1, {session}}}"#))),
            "abort" => drop(worker.ok("admin", &format!(r#"{{"abortTransaction": 1, {session}}}"#))),
            "killAllSessions" => drop(client.ok("admin", r#"{"killAllSessions": []}"#)),
            "killSessions" | "endSessions" => drop(client.ok("admin", &format!(r#"{{"{ending}": [{lsid}]}}"#))),
            "error" => {
                let insert = format!(r#"{{"insert": "held", "documents": [{{"_id": 5}}], {session}}}"#);
                assert!(worker.json("app", &insert).view().get("writeErrors").is_some());
            }
            "conflict" => {
                scope(|threads| {
                    let other = threads.spawn(|| {
                        server.client().json(
                            "app",
                            r#"{"update": "other", "updates": [{"q": {"_id": 3}, "u": {"$set": {"x": 1}}}]}"#,
                        )
                    });
                    assert_eq!(number(&other.join().unwrap(), "n"), 1);
                });
                let update = format!(
                    r#"{{"update": "other", "updates": [{{"q": {{"_id": 3}}, "u": {{"$set": {{"x": 2}}}}}}], {session}}}"#
                );
                assert_eq!(worker.code("app", &update), 112);
            }
            _ => {
                // A later number of the session ends the transaction before.
                let later = session.replace(r#""1""#, r#""2""#);
                worker.ok("app", &format!(r#"{{"find": "other", {later}, "startTransaction": true}}"#));
                worker.ok("admin", &format!(r#"{{"abortTransaction": 1, {later}}}"#));
            }
        }
        drop(worker);
        check(&server, before, ending);
    }
}

#[test]
fn a_connection_that_ends_anywhere_in_a_message_holds_nothing() {
    let server = server();
    let before = Held::by(&server);
    let message = {
        let documents: Vec<String> = (0..2000).map(|id| format!(r#"{{"_id": {}}}"#, 5000 + id)).collect();
        let insert = format!(r#"{{"insert": "other", "documents": [{}], "$db": "app"}}"#, documents.join(","));
        let body = DocumentBuf::from_json(&insert).unwrap();
        let payload = [&[0; 5][..], body.as_bytes()].concat();
        let length = u32::try_from(16 + payload.len()).unwrap();
        let header = [length, 7, 0, 2013].map(u32::to_le_bytes).concat();
        [header, payload].concat()
    };
    for part in [1, 4, 15, 16, 17, 21, 22, 1000, message.len() / 2, message.len() - 1] {
        for shuts in [false, true] {
            let mut worker = server.client();
            worker.send(&message[..part]);
            if shuts {
                worker.stream.shutdown(std::net::Shutdown::Write).unwrap();
                assert!(worker.reply().is_none());
            }
            drop(worker);
        }
        check(&server, before, &format!("{part} bytes of a message"));
    }
    assert_eq!(number(&server.client().ok("app", r#"{"count": "other", "query": {"_id": {"$gte": 5000}}}"#), "n"), 0);
}

/// Each figure sees what is held.
#[test]
fn what_is_held_is_in_the_figures() {
    let server = server();
    let mut client = connected(&server);
    let before = Held::by(&server);
    client.ok("app", &format!(r#"{{"find": "other", "batchSize": 1, {SESSION}}}"#));
    let holder = hold(&server, 0);
    let mut waits = server.client();
    let update = r#"{"update": "held", "updates": [{"q": {"_id": 1}, "u": {"$set": {"x": 1}}}], "comment": "waits"}"#;
    waits.send_command("app", DocumentBuf::from_json(update).unwrap().view(), false, false);
    until(|| operation(&mut client, "waits").is_some());
    let mut half = server.client();
    half.send(&[[200_000, 7, 0, 2013].map(u32::to_le_bytes).concat(), vec![0; 150_000]].concat());
    until(|| Held::by(&server).message_bytes > before.message_bytes);
    let now = Held::by(&server);
    assert_eq!(now.connections, before.connections + 3, "{now:?}");
    assert!(now.operations > before.operations && now.cursors == before.cursors + 1, "{now:?}");
    assert!(now.transactions == 1 && now.snapshots > before.snapshots, "{now:?}");
    release(holder);
}
