//! HTTP on an address of its own, to read only: the page, what it shows as JSON, `/metrics` for Prometheus, `/health`.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use super::health::trouble;
use super::{metrics, status};
use crate::state::Server;

/// The page. It asks for `status.json` and nothing else.
const PAGE: &str = include_str!("page.html");

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a request may take to come, and a response to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// More text for `/metrics`, such as the engine's statistics.
pub type MoreMetrics = Box<dyn Fn() -> String + Send>;

/// A response.
struct Response {
    status: &'static str,
    kind: &'static str,
    body: String,
}

const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    fn ok(kind: &'static str, body: String) -> Self {
        Self { status: "200 OK", kind, body }
    }

    fn text(status: &'static str, body: &str) -> Self {
        Self { status, kind: TEXT, body: format!("{body}\n") }
    }
}

/// Answers requests, one after the other, until the server ends.
pub(super) fn serve(server: &Arc<Server>, listener: &TcpListener, more: &MoreMetrics) {
    let mut status = status::Status::default();
    while !server.topology.is_ending() {
        match listener.accept() {
            // A client that fails is no affair of the server's.
            Ok((stream, _)) => drop(answer(server, stream, more, &mut status)),
            Err(_) => drop(server.ending.wait(Duration::from_millis(20))),
        }
    }
}

fn answer(server: &Server, mut stream: TcpStream, more: &MoreMetrics, status: &mut status::Status) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let response = match (method, path) {
        ("GET" | "HEAD", "/") => Response::ok("text/html; charset=utf-8", PAGE.to_owned()),
        ("GET" | "HEAD", "/status.json") => {
            let since = query.strip_prefix("since=").and_then(|since| since.parse().ok()).unwrap_or_default();
            Response::ok("application/json", status.json(server, since))
        }
        ("GET" | "HEAD", "/metrics") => {
            Response::ok("text/plain; version=0.0.4; charset=utf-8", metrics::text(server) + &more())
        }
        ("GET" | "HEAD", "/health") => health(server),
        ("GET" | "HEAD", _) => Response::text("404 Not Found", "there are /, /status.json, /metrics and /health"),
        _ => Response::text("405 Method Not Allowed", "only GET is answered"),
    };
    let Response { status, kind, body } = &response;
    let length = body.len();
    // The page holds what it shows; nothing else is loaded or sent, and no other page shows it within itself.
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
         X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; connect-src 'self'; img-src data:; frame-ancestors 'none'\r\n\
         Connection: close\r\n\r\n"
    );
    let body = if method == "HEAD" { "" } else { body };
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

/// Whether the server answers commands, does not end, and takes writes unless it was opened to read only.
fn health(server: &Server) -> Response {
    match trouble(server) {
        None => Response::text("200 OK", "ok"),
        Some(why) => Response::text("503 Service Unavailable", &why),
    }
}
