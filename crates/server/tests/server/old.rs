//! Drivers before MongoDB 3.6: everything by `OP_QUERY` and its companions.

use spinney_document::doc;
use spinney_wire::OpCode;
use spinney_wire::query::{AWAIT_CAPABLE, CURSOR_NOT_FOUND, QUERY_FAILURE};

use crate::client::{Client, TestServer, number};

#[test]
fn commands_and_finds_come_by_queries() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let (flags, _, hello) = client.query("admin.$cmd", -1, r#"{"ismaster": 1}"#);
    assert_eq!((flags, number(&hello[0], "maxWireVersion")), (AWAIT_CAPABLE, 25));
    assert_eq!(hello[0].view().get("ismaster").unwrap().to_string(), "true");
    let documents: Vec<String> = (0..5).map(|id| format!(r#"{{"_id": {id}}}"#)).collect();
    let insert = format!(r#"{{"insert": "c", "documents": [{}]}}"#, documents.join(","));
    assert_eq!(number(&client.query("app.$cmd", -1, &insert).2[0], "n"), 5);
    // A command within options, as drivers send it to routers.
    let (_, _, pong) =
        client.query("admin.$cmd", 1, r#"{"$query": {"ping": 1}, "$readPreference": {"mode": "primary"}}"#);
    assert_eq!(number(&pong[0], "ok"), 1);
    let (flags, cursor, all) = client.query("app.c", 0, "{}");
    assert_eq!((flags, cursor, all.len()), (AWAIT_CAPABLE, 0, 5));
    let (_, cursor, some) = client.query("app.c", -2, r#"{"$query": {}, "$orderby": {"_id": -1}}"#);
    assert_eq!((cursor, some.len(), number(&some[0], "_id")), (0, 2, 4));
    let (_, cursor, first) = client.query("app.c", 2, "{}");
    assert!(cursor != 0 && first.len() == 2);
    let more = [&[0; 4][..], b"app.c\0", &2_i32.to_le_bytes(), &cursor.to_le_bytes()].concat();
    client.send_body(OpCode::GetMore, &more);
    assert_eq!(client.old_reply().2.len(), 2);
    client.send_body(OpCode::KillCursors, &[&[0; 4][..], &1_i32.to_le_bytes(), &cursor.to_le_bytes()].concat());
    client.send_body(OpCode::GetMore, &more);
    let (flags, cursor, none) = client.old_reply();
    assert_eq!((flags, cursor, none.len()), (AWAIT_CAPABLE | CURSOR_NOT_FOUND, 0, 0));
    let (flags, _, failure) = client.query("app.c", 0, r#"{"a": {"$nothing": 1}}"#);
    assert_eq!(flags, AWAIT_CAPABLE | QUERY_FAILURE);
    assert!(failure[0].view().get("$err").is_some());
}

#[test]
fn writes_without_a_reply_are_told_by_get_last_error() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let document = doc! {"_id": 1};
    let insert = [&[0; 4][..], b"app.c\0", document.as_bytes()].concat();
    client.send_body(OpCode::Insert, &insert);
    let last = |client: &mut Client<_>| client.query("app.$cmd", -1, r#"{"getlasterror": 1, "w": 1}"#).2;
    assert_eq!(last(&mut client)[0].view().get("err").unwrap().to_string(), "null");
    client.send_body(OpCode::Insert, &insert);
    assert_eq!(number(&last(&mut client)[0], "code"), 11000);
    assert_eq!(client.query("app.c", 0, "{}").2.len(), 1);
}

#[test]
fn a_connection_has_transactions_without_a_session() {
    let server = TestServer::new(|_| {});
    let (mut client, mut other) = (server.client(), server.client());
    let run = |client: &mut Client<_>, database: &str, command: &str| {
        let reply = client.query(&format!("{database}.$cmd"), -1, command).2.remove(0);
        assert_eq!(number(&reply, "ok"), 1, "{command}: {reply:?}");
    };
    let count = |client: &mut Client<_>| client.query("app.c", 0, "{}").2.len();
    // The probe of a client, without any command within.
    run(&mut client, "app", r#"{"beginTransaction": 1, "isolation": "mvcc"}"#);
    run(&mut client, "app", r#"{"commitTransaction": 1}"#);
    run(&mut client, "app", r#"{"create": "c"}"#);
    let insert = |id: i32| format!(r#"{{"insert": "c", "documents": [{{"_id": {id}}}], "writeConcern": {{"w": 1}}}}"#);
    run(&mut client, "app", r#"{"beginTransaction": 1, "isolation": "mvcc"}"#);
    run(&mut client, "app", &insert(1));
    run(&mut client, "app", &insert(2));
    assert_eq!((count(&mut client), count(&mut other)), (2, 0));
    let counted = r#"{"count": "c", "query": {"_id": {"$gt": 0}}, "limit": 1}"#;
    assert_eq!(number(&client.query("app.$cmd", -1, counted).2[0], "n"), 1);
    assert_eq!(number(&client.query("app.$cmd", -1, r#"{"count": "c", "query": {"_id": 7}}"#).2[0], "n"), 0);
    assert_eq!(number(&client.query("app.$cmd", -1, r#"{"drop": "c"}"#).2[0], "code"), 263);
    run(&mut client, "app", r#"{"commitTransaction": 1}"#);
    assert_eq!(count(&mut other), 2);
    run(&mut client, "app", r#"{"beginTransaction": 1}"#);
    run(&mut client, "app", &insert(3));
    run(&mut client, "app", r#"{"rollbackTransaction": 1}"#);
    assert_eq!(count(&mut client), 2);
    // What a client leaves behind that hangs up is rolled back.
    run(&mut client, "app", r#"{"beginTransaction": 1}"#);
    run(&mut client, "app", &insert(4));
    drop(client);
    while server.running.as_ref().unwrap().server().connections.current() > 1 {}
    run(&mut other, "app", &insert(4));
    assert_eq!(count(&mut other), 3);
    assert_eq!(other.code("app", r#"{"rollbackTransaction": 1}"#), 251);
    assert_eq!(other.code("app", r#"{"beginTransaction": 1, "isolation": "serializable"}"#), 2);
}
