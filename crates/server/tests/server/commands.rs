//! What every client does: handshakes, commands, cursors, compression, ends.

use std::time::Duration;

use spinney_document::bson::DocumentBuf;
use spinney_document::doc;
use spinney_server::{Listening, Settings};
use spinney_wire::{Compressor, Message, OpCode};

use crate::client::{Client, TestServer, batch, cursor, number, with_database};

fn test_commands(settings: &mut Settings) {
    settings.test_commands = true;
}

#[test]
fn a_client_says_hello_and_uses_data() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let hello = client.ok("admin", r#"{"hello": 1, "client": {"application": {"name": "a"}}, "unknown": 7}"#);
    assert_eq!((number(&hello, "maxWireVersion"), number(&hello, "connectionId")), (25, 1));
    assert!(hello.view().get("setName").is_none() && hello.view().get("$clusterTime").is_none());
    assert_eq!(client.code("admin", r#"{"hello": 1, "client": {}}"#), 186);
    client.ok("admin", r#"{"ping": 1}"#);
    assert_eq!(number(&client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}, {"_id": 2}]}"#), "n"), 2);
    let found = client.ok("app", r#"{"find": "c", "filter": {"_id": {"$gt": 1}}}"#);
    assert_eq!(batch(&found), [r#"{"_id":2}"#]);
    assert_eq!(client.code("app", r#"{"nothing": 1}"#), 59);
    assert_eq!(client.code("app", r#"{"getLog": "global"}"#), 13);
    assert_eq!(client.code("admin", r#"{"getLog": "global", "x": 1}"#), 40415);
    assert_eq!(client.code("admin", r#"{"configureFailPoint": "failCommand", "mode": "off"}"#), 59);
    assert_eq!(number(&client.ok("admin", r#"{"getParameter": 1, "enableTestCommands": 1}"#), "ok"), 1);
}

#[test]
fn a_reply_names_its_request_and_has_a_number_of_its_own() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let mut numbers = std::collections::BTreeSet::new();
    for request in 2..6 {
        client.send_command("admin", doc! {"ping": 1}.view(), false, false);
        let (header, _, _) = client.receive().unwrap();
        assert_eq!(header.response_to, request);
        assert!(numbers.insert(header.request_id), "{header:?}");
    }
}

#[test]
fn a_replica_set_of_one_has_a_primary_and_a_time() {
    let server = TestServer::new(|settings| settings.replica_set = Some("rs".to_owned()));
    let mut client = server.client();
    let hello = client.ok("admin", r#"{"hello": 1}"#);
    let text = |name: &str| hello.view().get(name).and_then(|value| value.as_str()).unwrap().to_owned();
    assert_eq!((text("setName"), text("primary"), text("me")), ("rs".into(), server.address.clone(), text("primary")));
    let ping = client.ok("admin", r#"{"ping": 1}"#);
    assert!(ping.view().get("$clusterTime").is_some() && ping.view().get("operationTime").is_some());
    client.ok("admin", r#"{"replSetGetStatus": 1}"#);
    let status = client.ok("admin", r#"{"serverStatus": 1}"#);
    let section = status.view().get("repl").and_then(|value| value.as_document()).unwrap();
    assert_eq!(section.get("setName").and_then(|value| value.as_str()), Some("rs"));
    assert_eq!(section.get("isWritablePrimary").unwrap().to_string(), "true");
    assert!(client.ok("admin", r#"{"serverStatus": 1, "repl": 0}"#).view().get("repl").is_none());
    assert_eq!(TestServer::new(|_| {}).client().code("admin", r#"{"replSetGetStatus": 1}"#), 76);
}

#[test]
fn the_configuration_of_a_set_is_read_where_mongodb_stores_it() {
    let server = TestServer::new(|settings| settings.replica_set = Some("rs".to_owned()));
    let mut client = server.client();
    let id = [r#"{"_id":"rs"}"#];
    let found = client.ok("local", r#"{"find": "system.replset", "filter": {}, "limit": 1, "projection": {"_id": 1}}"#);
    assert_eq!((batch(&found), cursor(&found)), (id.map(str::to_owned).to_vec(), 0));
    let none = client.ok("local", r#"{"find": "system.replset", "filter": {"_id": "other"}, "batchSize": 5}"#);
    assert!(batch(&none).is_empty());
    let counted =
        r#"{"aggregate": "system.replset", "cursor": {}, "pipeline": [{"$match": {}}, {"$project": {"_id": 1}}]}"#;
    assert_eq!(batch(&client.ok("local", counted)), id);
    for (query, n) in [("{}", 1), (r#"{"_id": "other"}"#, 0), (r#"{"version": {"$type": "int"}}"#, 1)] {
        let count = format!(r#"{{"count": "system.replset", "query": {query}}}"#);
        assert_eq!(number(&client.ok("local", &count), "n"), n, "{query}");
    }
    assert_eq!(client.code("local", r#"{"count": "system.replset", "query": 1}"#), 14);
    assert_eq!(client.code("local", r#"{"insert": "system.replset", "documents": [{}]}"#), 73);
    let mut alone = TestServer::new(|_| {});
    assert_eq!(number(&alone.client().ok("local", r#"{"count": "system.replset"}"#), "n"), 0);
    alone.end();
}

#[test]
fn a_system_collection_that_is_not_there_is_empty_and_cannot_be_made() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    for (name, out_code) in [("system.other", 17385), ("c.system.other", 73)] {
        let with_name = |command: &str| command.replace("NAME", name);
        assert!(batch(&client.ok("app", &with_name(r#"{"find": "NAME"}"#))).is_empty());
        let all = with_name(r#"{"aggregate": "NAME", "pipeline": [], "cursor": {}}"#);
        assert!(batch(&client.ok("app", &all)).is_empty());
        assert_eq!(number(&client.ok("app", &with_name(r#"{"count": "NAME"}"#)), "n"), 0);
        let joined = r#"{"aggregate": "c", "pipeline": [{"$lookup": {"from": "NAME", "as": "l", "pipeline": []}}], "cursor": {}}"#;
        assert_eq!(batch(&client.ok("app", &with_name(joined))), [r#"{"_id":1,"l":[]}"#]);
        assert_eq!(client.code("app", &with_name(r#"{"insert": "NAME", "documents": [{}]}"#)), 73);
        assert_eq!(client.code("app", &with_name(r#"{"create": "NAME"}"#)), 73);
        let out = with_name(r#"{"aggregate": "c", "pipeline": [{"$out": "NAME"}], "cursor": {}}"#);
        assert_eq!(client.code("app", &out), out_code);
    }
}

#[test]
fn replies_are_compressed_as_requests_are() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let hello = client.ok("admin", r#"{"hello": 1, "compression": ["snappy", "other", "zlib"]}"#);
    assert_eq!(hello.view().get("compression").unwrap().to_string(), r#"["snappy","zlib"]"#);
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd] {
        // A short reply, too.
        for command in [doc! {"hello": 1}, doc! {"ping": 1}] {
            client.send_compressed(compressor, "admin", command.view());
            let (header, used, _) = client.receive().unwrap();
            assert_eq!((header.opcode, used), (OpCode::Message, Some(compressor)));
        }
    }
}

#[test]
fn a_checksum_is_answered_by_one_and_a_wrong_one_ends_the_connection() {
    let server = TestServer::new(|_| {});
    let body = with_database("admin", doc! {"ping": 1}.view());
    let message =
        Message { more_to_come: false, exhaust_allowed: false, checksum: true, body: body.view(), sequences: vec![] };
    let mut client = server.client();
    let mut bytes = message.to_bytes(1, 0);
    client.send(&bytes);
    let (header, _, reply) = client.receive().unwrap();
    assert!(Message::parse(&header, &reply).unwrap().checksum);
    *bytes.last_mut().unwrap() ^= 1;
    client.send(&bytes);
    assert_eq!(number(&client.reply().unwrap().0, "ok"), 0);
    assert!(client.receive().is_none());
}

#[test]
fn a_request_without_a_reply_is_done_before_the_next() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let insert = DocumentBuf::from_json(r#"{"insert": "c", "documents": [{"_id": 1}]}"#).unwrap();
    client.send_command("app", insert.view(), true, false);
    assert_eq!(batch(&client.ok("app", r#"{"find": "c"}"#)).len(), 1);
}

#[test]
fn an_exhaust_cursor_sends_all_its_batches() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let documents: Vec<String> = (0..10).map(|id| format!(r#"{{"_id": {id}}}"#)).collect();
    client.ok("app", &format!(r#"{{"insert": "c", "documents": [{}]}}"#, documents.join(",")));
    let first = client.ok("app", r#"{"find": "c", "batchSize": 2}"#);
    let more = doc! {"getMore": cursor(&first), "collection": "c", "batchSize": 3};
    client.send_command("app", more.view(), false, true);
    let mut count = 0;
    loop {
        let (reply, more) = client.reply().unwrap();
        count += batch(&reply).len();
        assert_eq!(more, cursor(&reply) != 0);
        if !more {
            break;
        }
    }
    assert_eq!(count, 8);
    client.ok("admin", r#"{"ping": 1}"#);
}

#[test]
fn a_monitor_hears_of_the_server_until_the_server_ends() {
    let mut server = TestServer::new(|_| {});
    let mut client = server.client();
    let hello = client.ok("admin", r#"{"hello": 1}"#);
    assert_eq!(client.code("admin", r#"{"hello": 1, "maxAwaitTimeMS": 10}"#), 31368);
    let version = hello.view().get("topologyVersion").unwrap();
    let mut request = spinney_document::bson::DocumentBuilder::new();
    request.append("hello", 1).append("topologyVersion", version).append("maxAwaitTimeMS", 60_i64);
    client.send_command("admin", request.finish().view(), false, true);
    for _ in 0..3 {
        assert!(client.reply().unwrap().1);
    }
    server.end();
    while client.reply().is_some() {}
}

#[test]
fn writes_wait_while_fsync_has_locked_the_database() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    client.ok("admin", r#"{"fsync": 1, "lock": true}"#);
    assert_eq!(client.code("app", r#"{"insert": "c", "documents": [{"_id": 2}], "maxTimeMS": 20}"#), 50);
    let out = r#"{"aggregate": "c", "pipeline": [{"$out": "d"}], "cursor": {}, "maxTimeMS": 20}"#;
    assert_eq!(client.code("app", out), 50);
    assert_eq!(number(&client.ok("app", r#"{"count": "c"}"#), "n"), 1);
    let mut waiting = server.client();
    let insert = DocumentBuf::from_json(r#"{"insert": "c", "documents": [{"_id": 3}]}"#).unwrap();
    waiting.send_command("app", insert.view(), false, false);
    client.ok("admin", r#"{"fsyncUnlock": 1}"#);
    assert!(waiting.reply().is_some());
    assert_eq!(number(&client.ok("app", r#"{"count": "c"}"#), "n"), 2);
}

#[test]
fn fail_points_fail_close_and_block() {
    let mut server = TestServer::new(test_commands);
    let mut client = server.client();
    let set = |mode: &str, data: &str| {
        let command = format!(r#"{{"configureFailPoint": "failCommand", "mode": {mode}, "data": {data}}}"#);
        server.client().ok("admin", &command);
    };
    set(r#"{"times": 1}"#, r#"{"failCommands": ["ping"], "errorCode": 11600, "errorLabels": ["X"]}"#);
    let reply = client.json("admin", r#"{"ping": 1}"#);
    assert_eq!(
        (number(&reply, "code"), reply.view().get("errorLabels").unwrap().to_string()),
        (11600, r#"["X"]"#.into())
    );
    client.ok("admin", r#"{"ping": 1}"#);
    set(r#"{"times": 1}"#, r#"{"failCommands": ["insert"], "writeConcernError": {"code": 91, "errmsg": "x"}}"#);
    let reply = client.ok("app", r#"{"insert": "c", "documents": [{}]}"#);
    assert_eq!((number(&reply, "n"), reply.view().get("writeConcernError").is_some()), (1, true));
    set(r#"{"times": 1}"#, r#"{"failCommands": ["ping"], "closeConnection": true}"#);
    client.send_command("admin", doc! {"ping": 1}.view(), false, false);
    assert!(client.receive().is_none());
    // A command that waits is answered when the server ends.
    set(r#""alwaysOn""#, r#"{"failCommands": ["ping"], "blockConnection": true, "blockTimeMS": 60000}"#);
    let mut client = server.client();
    client.send_command("admin", doc! {"ping": 1}.view(), false, false);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || client.reply());
        while !server.running.as_ref().unwrap().server().service.state().operations.list().is_empty() {}
        // The server may end before the request is read.
        assert!(!server.running.as_ref().unwrap().wait(Duration::from_millis(300)));
        server.running.take().unwrap().end();
        assert!(waiting.join().unwrap().is_some());
    });
}

#[test]
fn too_many_connections_are_closed_at_once() {
    let server = TestServer::new(|settings| settings.connections_max = 2);
    let (mut first, mut second) = (server.client(), server.client());
    first.ok("admin", r#"{"ping": 1}"#);
    second.ok("admin", r#"{"ping": 1}"#);
    let mut third = server.client();
    assert!(third.receive().is_none());
    drop(first);
    // The place is given back a moment later.
    while server.running.as_ref().unwrap().server().connections.current() == 2 {}
    server.client().ok("admin", r#"{"ping": 1}"#);
}

#[test]
fn the_command_shutdown_is_answered_and_ends_the_server() {
    let mut server = TestServer::new(|_| {});
    let mut client = server.client();
    client.ok("admin", r#"{"shutdown": 1}"#);
    assert!(server.running.as_ref().unwrap().wait(Duration::from_secs(20)));
    server.end();
    assert!(client.receive().is_none());
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_served_and_removed() {
    let mut server = TestServer::with_sockets(|_| {}, |dir| vec![Listening::unix(&dir.path().join("socket")).unwrap()]);
    let path = server.path("socket");
    let mut client = Client::over(std::os::unix::net::UnixStream::connect(&path).unwrap());
    client.ok("admin", r#"{"ping": 1}"#);
    assert!(Listening::unix(&path).is_err());
    server.end();
    assert!(!path.exists());
    // A socket that nobody listens on is replaced, another file is not.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    drop(Listening::unix(&path).unwrap());
    std::fs::write(&path, "x").unwrap();
    assert!(Listening::unix(&path).is_err());
    assert!(path.exists());
}
