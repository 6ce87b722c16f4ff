//! Clients that break the protocol lose their connection, and others notice nothing.

use std::net::Shutdown;

use spinney_document::bson::DocumentBuf;
use spinney_wire::{Header, OpCode};

use crate::client::{TestServer, number};

fn header(len: usize, opcode: OpCode) -> Vec<u8> {
    Header { len, request_id: 1, response_to: 0, opcode }.to_bytes().to_vec()
}

#[test]
fn malformed_messages_end_their_connection_only() {
    let server = TestServer::new(|_| {});
    let mut good = server.client();
    let bad: [Vec<u8>; 8] = [
        vec![0xFF; 64],
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
        header(48_000_000, OpCode::Message),
        [header(20, OpCode::Message), vec![0xFF; 4]].concat(),
        [header(21, OpCode::Query), vec![0; 5]].concat(),
        [header(25, OpCode::Compressed), vec![0xDD, 7, 0, 0, 0, 0, 0, 127, 3]].concat(),
        [header(16, OpCode::Reply)].concat(),
        [header(30, OpCode::Insert), vec![0; 14]].concat(),
    ];
    for bytes in bad {
        let mut client = server.client();
        client.send(&bytes);
        client.stream.shutdown(Shutdown::Write).unwrap();
        // An error may come first.
        while client.receive().is_some() {}
        good.ok("admin", r#"{"ping": 1}"#);
    }
    assert!(server.log().contains("a client broke the protocol"));
}

#[test]
fn invalid_documents_are_answered_and_the_connection_goes_on() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    // A string without an end.
    let broken = [&[0; 5][..], &[15, 0, 0, 0, 2, b'a', 0, 9, 0, 0, 0, b'x', 0, 0, 0]].concat();
    client.send_body(OpCode::Message, &broken);
    assert_eq!(number(&client.reply().unwrap().0, "code"), 22);
    let mut nested = vec![5, 0, 0, 0, 0];
    for _ in 0..1000 {
        let len = u32::try_from(nested.len() + 8).unwrap().to_le_bytes();
        nested = [&len[..], &[3, b'a', 0], &nested, &[0]].concat();
    }
    client.send_body(OpCode::Message, &[&[0; 5][..], &nested].concat());
    assert_eq!(number(&client.reply().unwrap().0, "code"), 15);
    // More documents than a batch may have.
    let insert = DocumentBuf::from_json(r#"{"insert": "c", "$db": "app"}"#).unwrap();
    let documents = [&b"documents\0"[..], &[5, 0, 0, 0, 0].repeat(100_001)].concat();
    let len = u32::try_from(documents.len() + 4).unwrap().to_le_bytes();
    client.send_body(OpCode::Message, &[&[0; 5][..], insert.as_bytes(), &[1], &len, &documents].concat());
    assert_eq!(number(&client.reply().unwrap().0, "code"), 16);
    client.ok("admin", r#"{"ping": 1}"#);
}

#[test]
fn the_deepest_documents_filters_and_expressions_fit_on_the_stack() {
    let server = TestServer::new(|_| {});
    let mut client = server.client();
    let nest = |open: &str, inner: &str, close: &str, levels: usize| {
        format!("{}{inner}{}", open.repeat(levels), close.repeat(levels))
    };
    let deep = nest(r#"{"a":"#, "1", "}", 170);
    client.ok("app", &format!(r#"{{"insert": "c", "documents": [{{"_id": 1, "x": {deep}}}]}}"#));
    client.ok("app", r#"{"find": "c"}"#);
    for filter in [
        nest(r#"{"$and":["#, r#"{"a":1}"#, "]}", 80),
        nest(r#"{"$nor":["#, r#"{"a":1}"#, "]}", 80),
        format!(r#"{{"$expr": {}}}"#, nest(r#"{"$abs":"#, "1", "}", 170)),
        format!(r#"{{"$expr": {}}}"#, nest(r#"{"$add":[1,"#, "1", "]}", 85)),
        format!(r#"{{"x": {deep}}}"#),
        nest(r#"{"x":{"$elemMatch":"#, r#"{"a":1}"#, "}}", 85),
    ] {
        let command = DocumentBuf::from_json(&format!(r#"{{"find": "c", "filter": {filter}}}"#));
        // Whatever is answered: it is answered.
        let reply = client.run("app", command.unwrap().view());
        assert!(reply.view().get("ok").is_some());
    }
    client.ok("admin", r#"{"ping": 1}"#);
}

/// A client that asked for much and did not read its reply kept the server from its end for a minute.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures how long a server takes")]
fn a_client_that_does_not_read_does_not_delay_the_end() {
    let mut server = TestServer::new(|_| {});
    let mut client = server.client();
    let text = "x".repeat(1 << 20);
    for id in 0..12 {
        client.ok("app", &format!(r#"{{"insert": "c", "documents": [{{"_id": {id}, "text": "{text}"}}]}}"#));
    }
    let find = DocumentBuf::from_json(r#"{"find": "c", "$db": "app"}"#).unwrap();
    for _ in 0..8 {
        client.send_body(OpCode::Message, &[&[0; 5][..], find.as_bytes()].concat());
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let began = std::time::Instant::now();
    server.end();
    assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
}

#[test]
fn a_server_that_all_may_use_warns_of_it() {
    let public = |_: &tempfile::TempDir| vec![spinney_server::Listening::tcp("0.0.0.0:0").unwrap()];
    for auth in [false, true] {
        let server = TestServer::with_sockets(|settings| settings.auth = auth, public);
        let warnings = server.running.as_ref().unwrap().warnings();
        assert_eq!(warnings.len(), usize::from(!auth), "{warnings:?}");
        assert_eq!(server.log().contains("Access control is not enabled"), !auth);
        if !auth {
            let reply = server.client().ok("admin", r#"{"getLog": "startupWarnings"}"#);
            assert!(reply.view().to_json().contains("0.0.0.0:"), "{}", reply.view().to_json());
        }
    }
    let server = TestServer::new(|_| {});
    assert!(server.running.as_ref().unwrap().warnings().is_empty());
}
