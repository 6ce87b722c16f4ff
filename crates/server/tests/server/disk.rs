//! A disk that is full, and one that fails: reads go on, writes say what is wrong, and so does `/health`.

use std::net::TcpListener;

use spinney::env::sim::{Fault, SimEnv};

use crate::client::{TestServer, number};
use crate::metrics::get;

/// The address of the server's health.
fn health(server: &mut TestServer) -> impl Fn() -> String + use<> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.running.as_mut().unwrap().serve_metrics(listener, Box::new(String::new)).unwrap();
    move || get(address, "GET /health HTTP/1.0\r\n\r\n")
}

#[test]
fn on_a_full_disk_reads_go_on_and_writes_are_told() {
    let disk = SimEnv::new(1);
    let mut server = TestServer::on(&disk);
    let health = health(&mut server);
    let mut client = server.client();
    let insert = |id: u32| {
        // What does not compress, so that it needs its room.
        let text: String =
            (0..4000_u32).map(|at| char::from(b'!' + u8::try_from((at * at + id * 7919) % 90).unwrap())).collect();
        let mut document = spinney_document::bson::DocumentBuilder::new();
        document.append("insert", "c").open_array("documents").push_document();
        document.append("_id", i64::from(id)).append("text", text.as_str());
        document.finish()
    };
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": "first"}]}"#);
    disk.set_free(3 << 20);
    let failed = (0..10_000).map(|id| client.run("app", insert(id).view())).find(|reply| number(reply, "ok") == 0);
    assert_eq!(number(&failed.expect("the disk is full at last"), "code"), 14_031);
    assert!(client.ok("app", r#"{"find": "c", "filter": {"_id": "first"}}"#).view().to_json().contains("first"));
    assert!(health().starts_with("HTTP/1.1 200"), "the database lives: {}", health());
    // With room the work goes on.
    disk.set_space(u64::MAX);
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": "last"}]}"#);
    server.end();
}

#[test]
fn a_disk_that_fails_is_seen_by_health() {
    let disk = SimEnv::new(1);
    let mut server = TestServer::on(&disk);
    let health = health(&mut server);
    let mut client = server.client();
    client.ok("app", r#"{"insert": "c", "documents": [{"_id": 1}]}"#);
    assert!(health().ends_with("\r\n\r\nok\n"));
    disk.fail_from(disk.op_count(), Fault::Error(std::io::ErrorKind::PermissionDenied));
    let reply = client.json("app", r#"{"insert": "c", "documents": [{"_id": 2}], "writeConcern": {"j": true}}"#);
    assert!(reply.view().to_json().contains("injected fault"), "{reply:?}");
    disk.clear_faults();
    // No write is taken any more, and what is in memory is still read.
    let told = health();
    assert!(told.starts_with("HTTP/1.1 503") && told.contains("injected fault"), "{told}");
    assert!(client.ok("app", r#"{"find": "c"}"#).view().to_json().contains(r#"{"_id":1}"#));
    server.end();
}
