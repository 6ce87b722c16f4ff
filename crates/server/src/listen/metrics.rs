//! `/metrics` for Prometheus and `/health`, over HTTP on an address of their own.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spinney_document::doc;

use crate::state::Server;

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a request may take to come, and a response to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// More text for `/metrics`, such as the engine's statistics.
pub type MoreMetrics = Box<dyn Fn() -> String + Send>;

/// Answers requests, one after the other, until the server ends.
pub(super) fn serve(server: &Arc<Server>, listener: &TcpListener, more: &MoreMetrics) {
    while !server.topology.is_ending() {
        match listener.accept() {
            // A client that fails is no affair of the server's.
            Ok((stream, _)) => drop(answer(server, stream, more)),
            Err(_) => drop(server.ending.wait(Duration::from_millis(20))),
        }
    }
}

fn answer(server: &Server, mut stream: TcpStream, more: &MoreMetrics) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", text(server) + &more()),
        ("GET" | "HEAD", "/health") => health(server),
        ("GET" | "HEAD", _) => ("404 Not Found", "there are /metrics and /health\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is answered\n".to_owned()),
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    let body = if method == "HEAD" { "" } else { &body };
    stream.write_all((head + body).as_bytes())
}

/// The bytes up to the empty line.
fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let (mut head, mut part) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|four| four == b"\r\n\r\n") {
        let count = stream.read(&mut part)?;
        head.extend_from_slice(&part[..count]);
        if count == 0 || head.len() > HEAD_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Whether the server answers commands and does not end.
fn health(server: &Server) -> (&'static str, String) {
    if server.ending.is_asked() {
        return ("503 Service Unavailable", "the server ends\n".to_owned());
    }
    match server.service.run_command("admin", doc! {"ping": 1}.view()) {
        Ok(_) => ("200 OK", "ok\n".to_owned()),
        Err(error) => ("503 Service Unavailable", format!("{}\n", error.message())),
    }
}

/// The statistics of the server in the text format of Prometheus.
fn text(server: &Server) -> String {
    let (network, counters) = (&server.service.state().network, &server.counters);
    let operations = &server.service.state().counters;
    let (opened, refused) = server.connections.totals();
    let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let mut text = String::new();
    let mut put = |name: &str, kind: &str, help: &str, value: u64| {
        let end = if kind == "counter" { "_total" } else { "" };
        let name = format!("spinney_server_{name}{end}");
        writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}").expect("a String takes any text");
    };
    let current = u64::try_from(server.connections.current()).unwrap_or_default();
    put("connections", "gauge", "Connections that are open.", current);
    put("connections_opened", "counter", "Connections that were opened.", opened);
    put("connections_refused", "counter", "Connections that were too many.", refused);
    put("requests", "counter", "Requests that came.", load(&network.requests));
    put("in_bytes", "counter", "Bytes of requests.", load(&network.bytes_in));
    put("out_bytes", "counter", "Bytes of replies.", load(&network.bytes_out));
    put("compressed_requests", "counter", "Requests that came compressed.", counters.compressed_in.get());
    put("compressed_replies", "counter", "Replies that were compressed.", counters.compressed_out.get());
    put("protocol_errors", "counter", "Connections ended by a broken protocol.", counters.protocol_errors.get());
    put("logins", "counter", "Authentications that succeeded.", counters.authenticated.get());
    put("logins_refused", "counter", "Authentications that failed.", counters.refused.get());
    for (name, counter) in [
        ("inserts", &operations.insert),
        ("queries", &operations.query),
        ("updates", &operations.update),
        ("deletes", &operations.delete),
        ("getmores", &operations.getmore),
        ("commands", &operations.command),
    ] {
        put(name, "counter", "Operations of this kind.", load(counter));
    }
    put("cursors", "gauge", "Cursors that are open.", server.service.state().cursors.counts().open);
    text
}
