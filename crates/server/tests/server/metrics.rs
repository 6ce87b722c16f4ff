//! Metrics and health over HTTP.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use crate::client::TestServer;

fn get(address: std::net::SocketAddr, request: &str) -> String {
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
