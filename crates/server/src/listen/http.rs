//! HTTP on an address of its own, to read only: the page, what it shows as JSON, `/metrics` for Prometheus, `/health`.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::health::trouble;
use super::{metrics, status};
use crate::base::clock::monotonic;
use crate::state::Server;

/// The page. It asks for `status.json` and nothing else.
const PAGE: &str = include_str!("page.html");

/// The longest head of a request.
const HEAD_BYTES_MAX: usize = 8 << 10;

/// How long a request may take to come, from its first byte to its last, and a response to go.
const PATIENCE: Duration = Duration::from_secs(5);

/// The most requests that are answered at a time.
const REQUESTS_MAX: usize = 16;

/// More text for `/metrics`, such as the engine's statistics.
pub type MoreMetrics = Box<dyn Fn() -> String + Send + Sync>;

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

/// The requests that are answered now.
///
/// # Concurrency
///
/// The latch is held for a moment; a socket is closed under it, and nothing is read or written.
#[derive(Default)]
struct Requests {
    /// The sockets by the numbers of the requests, in the order in which they came.
    open: Mutex<BTreeMap<u64, Arc<TcpStream>>>,
    /// A request has ended.
    ended: Condvar,
}

/// What all requests share.
struct Site<'s> {
    server: &'s Server,
    more: &'s MoreMetrics,
    /// What the page shows, kept for a moment.
    status: Mutex<status::Status>,
    requests: Requests,
}

impl Requests {
    /// Adds a request. When there are as many as there may be, the oldest is closed: one that is answered at once is
    /// never the oldest for long.
    fn add(&self, number: u64, stream: &Arc<TcpStream>) {
        let mut open = self.open.lock();
        while open.len() >= REQUESTS_MAX {
            if let Some((_, oldest)) = open.first_key_value() {
                // It may have ended already.
                drop(oldest.shutdown(Shutdown::Both));
            }
            self.ended.wait(&mut open);
        }
        open.insert(number, Arc::clone(stream));
    }

    fn remove(&self, number: u64) {
        self.open.lock().remove(&number);
        self.ended.notify_one();
    }

    fn close(&self) {
        self.open.lock().values().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
    }
}

/// Answers requests until the server ends, each in a thread of its own, so that a slow client holds up no other.
pub(super) fn serve(server: &Arc<Server>, listener: &TcpListener, more: &MoreMetrics) {
    let site = Site { server, more, status: Mutex::default(), requests: Requests::default() };
    std::thread::scope(|scope| {
        for number in 0.. {
            if server.topology.is_ending() {
                break;
            }
            let Ok((stream, _)) = listener.accept() else {
                server.ending.wait(Duration::from_millis(20));
                continue;
            };
            let (site, stream) = (&site, Arc::new(stream));
            site.requests.add(number, &stream);
            let answering = move || {
                // A client that fails is no affair of the server's.
                drop(answer(site, &stream));
                site.requests.remove(number);
            };
            if Builder::new().name("http".to_owned()).spawn_scoped(scope, answering).is_err() {
                site.requests.remove(number);
            }
        }
        site.requests.close();
    });
}

/// A socket of which all reads and writes together take as long as [`PATIENCE`].
struct Patient<'s> {
    stream: &'s TcpStream,
    until: Instant,
}

impl Patient<'_> {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(monotonic());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Patient<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        (&mut &*self.stream).read(to)
    }
}

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        (&mut &*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn answer(site: &Site<'_>, stream: &TcpStream) -> io::Result<()> {
    let Site { server, more, status, .. } = site;
    let patient = || Patient { stream, until: monotonic() + PATIENCE };
    let head = read_head(&mut patient())?;
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let response = match (method, path) {
        ("GET" | "HEAD", "/") => Response::ok("text/html; charset=utf-8", PAGE.to_owned()),
        ("GET" | "HEAD", "/status.json") => {
            let since = query.strip_prefix("since=").and_then(|since| since.parse().ok()).unwrap_or_default();
            Response::ok("application/json", status.lock().json(server, since))
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
    patient().write_all((head + body).as_bytes())
}

/// The bytes up to the empty line.
fn read_head(stream: &mut impl Read) -> io::Result<String> {
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
