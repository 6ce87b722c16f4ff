//! The page, metrics and health over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use spinney_document::bson::DocumentBuf;

use crate::client::TestServer;

pub(crate) fn get(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn metrics_and_health_are_told() {
    let mut server = TestServer::new(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.running.as_mut().unwrap().serve_metrics(listener, Box::new(|| "more 1\n".to_owned())).unwrap();
    server.client().ok("admin", r#"{"ping": 1}"#);
    let metrics = get(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("\nspinney_server_requests_total 1\n") && metrics.ends_with("\nmore 1\n"), "{metrics}");
    assert!(get(address, "GET /health HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok\n"));
    assert!(get(address, "GET /other HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(get(address, "POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.1 405"));
    server.end();
}

#[test]
fn the_page_needs_nothing_but_its_json_and_that_tells_no_values() {
    let mut server = TestServer::new(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.running.as_mut().unwrap().serve_metrics(listener, Box::new(String::new)).unwrap();
    let mut client = server.client();
    client.ok("app", r#"{"profile": 0, "slowms": 0}"#);
    client.ok("app", r#"{"insert": "people", "documents": [{"_id": 1, "name": "Ada"}]}"#);
    client.ok("app", r#"{"createIndexes": "people", "indexes": [{"key": {"name": 1}, "name": "by name"}]}"#);
    client.ok("app", r#"{"find": "people", "filter": {"name": "Ada"}}"#);
    let page = get(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"), "{page}");
    for foreign in ["http://", "https://", "src=", "url(", "@import"] {
        let whole = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!whole.contains(foreign), "{foreign}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("fetch(\"status.json?since=\""));
    let status = get(address, "GET /status.json?since=0 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(status.contains("Content-Type: application/json\r\n") && !status.contains("Ada"), "{status}");
    let body = status.split("\r\n\r\n").nth(1).unwrap();
    let status = DocumentBuf::from_json(body).unwrap();
    let view = status.view();
    for field in ["samples", "commands", "slow", "collections", "tables"] {
        assert!(view.get(field).unwrap().as_array().is_some(), "{field}");
    }
    assert!(body.contains(r#""command":"find people, filter: {name: ?}""#), "{body}");
    assert!(body.contains(r#"{"name":"by name","uses":1,"#), "{body}");
    assert!(body.contains(r#"{"name":"app.people","documents":"#), "{body}");
    assert!(body.contains(r#""replica":null"#), "{body}");
    // Nobody is told more than has happened since.
    let later = get(address, "GET /status.json?since=99999999999999 HTTP/1.1\r\n\r\n");
    assert!(later.contains(r#""samples":[]"#), "{later}");
    server.end();
}

/// One connection that sent a byte now and then kept the page, metrics and health from everybody else: requests were
/// answered one after the other, with patience for each read.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures how long a server takes")]
fn slow_clients_hold_up_nobody() {
    let mut server = TestServer::new(|_| {});
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    server.running.as_mut().unwrap().serve_metrics(listener, Box::new(String::new)).unwrap();
    // More than are answered at a time.
    let mut slow: Vec<_> = (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
    // One that was closed for others refuses.
    slow.iter_mut().for_each(|stream| drop(stream.write_all(b"G")));
    assert!(get(address, "GET /health HTTP/1.0\r\n\r\n").ends_with("\r\n\r\nok\n"));
    let began = std::time::Instant::now();
    server.end();
    assert!(began.elapsed().as_secs() < 4, "{:?}", began.elapsed());
    drop(slow);
}
