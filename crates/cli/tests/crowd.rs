//! A server with many clients: honest ones notice little of hostile ones, idle ones cost little, and what is too much
//! is refused in order.

#![expect(clippy::disallowed_methods, reason = "a server in another process has the time of the machine")]

use crate::support::Place;
use spinney_document::bson::{Document, DocumentBuf};
use spinney_testkit::parallel::count_from_env;
use spinney_wire::compress::compress;
use spinney_wire::{Compressor, HEADER_BYTES, Header, Message, OpCode};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a server may take at most while hostile clients send it all that they can: eight messages of 48 MB in several
/// forms, and its usual memory.
const HOSTILE_MEMORY_BYTES: u64 = 1 << 30;

/// What an idle connection may take.
const IDLE_BYTES: u64 = 64 << 10;

/// A server in a process of its own, killed with this.
struct Server {
    child: Child,
    address: String,
    _place: Place,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Server {
    /// Starts it by a shell, after `before`.
    fn start(before: &str, args: &[&str]) -> Self {
        let place = Place::new();
        let mut command = Command::new("sh");
        let script = format!("{before} exec \"$0\" \"$@\"");
        command.arg("-c").arg(script).arg(env!("CARGO_BIN_EXE_spinney")).args(["serve", "db"]).args(args);
        command.args(["--listen", "127.0.0.1:0", "--journal", "buffered"]).current_dir(place.path("."));
        command.stdout(std::process::Stdio::piped());
        command.stderr(std::fs::File::create(place.path("log")).unwrap());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let line = lines.filter(|line| line.starts_with("listening on ")).take(1).next().unwrap();
        let address = line.strip_prefix("listening on ").and_then(|rest| rest.split(": ").next()).unwrap().to_owned();
        Self { child, address, _place: place }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self._place.path("log")).unwrap()
    }

    /// A number of kilobytes of the process's status, in bytes.
    fn status(&self, field: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() << 10
    }

    fn connect(&self) -> Connection {
        Connection::to(&self.address).unwrap()
    }
}

/// A connection of a client.
struct Connection(TcpStream);

impl Connection {
    fn to(address: &str) -> std::io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        stream.set_write_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self(stream))
    }

    fn send(&mut self, opcode: OpCode, body: &[u8]) -> std::io::Result<()> {
        let header = Header { len: HEADER_BYTES + body.len(), request_id: 1, response_to: 0, opcode };
        // One packet, as drivers send it.
        self.0.write_all(&[&header.to_bytes()[..], body].concat())
    }

    /// The body of the next message.
    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut head = [0; HEADER_BYTES];
        self.0.read_exact(&mut head)?;
        let header = Header::parse(&head).unwrap();
        let mut body = vec![0; header.len - HEADER_BYTES];
        self.0.read_exact(&mut body)?;
        Ok(body)
    }

    fn send_command(&mut self, command: Document<'_>) -> std::io::Result<()> {
        self.send(OpCode::Message, &[&[0; 5][..], command.as_bytes()].concat())
    }

    /// Runs a command in JSON; its reply.
    fn try_run(&mut self, command: &str) -> std::io::Result<DocumentBuf> {
        self.send_command(DocumentBuf::from_json(command).unwrap().view())?;
        let body = self.receive()?;
        let header = Header { len: HEADER_BYTES + body.len(), request_id: 0, response_to: 1, opcode: OpCode::Message };
        Ok(DocumentBuf::from(Message::parse(&header, &body).unwrap().body))
    }

    /// Runs a command that must succeed.
    fn ok(&mut self, command: &str) -> DocumentBuf {
        let reply = self.try_run(command).unwrap();
        assert_eq!(reply.view().get("ok").and_then(|ok| ok.as_f64()), Some(1.0), "{command}: {reply:?}");
        reply
    }
}

// ---------------------------------------------------------------------------------------------------------------------

/// Honest clients until told to stop: how long each request took, in order.
fn honest(server: &Server, clients: usize, time: Duration) -> Vec<Duration> {
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for client in 0..clients {
            let all = &all;
            scope.spawn(move || {
                let (mut connection, mut took, begun) = (server.connect(), Vec::new(), Instant::now());
                while begun.elapsed() < time {
                    let id = took.len() % 100;
                    let request = if took.len() % 4 == 3 {
                        format!(r#"{{"update":"c","updates":[{{"q":{{"_id":{id}}},"u":{{"$inc":{{"n":1}}}}}}],"$db":"app"}}"#)
                    } else {
                        format!(r#"{{"find":"c","filter":{{"_id":{id}}},"comment":{client},"$db":"app"}}"#)
                    };
                    let sent = Instant::now();
                    connection.ok(&request);
                    took.push(sent.elapsed());
                    thread::sleep(Duration::from_millis(1));
                }
                all.lock().unwrap().extend(took);
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort();
    all
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

/// What a hostile client does once.
type Attack = fn(&str) -> std::io::Result<()>;

const ATTACKS: [(&str, Attack); 12] = [
    ("half messages", |address| {
        let mut connection = Connection::to(address)?;
        let header = Header { len: 10_000_000, request_id: 1, response_to: 0, opcode: OpCode::Message };
        connection.0.write_all(&header.to_bytes())?;
        connection.0.write_all(&[0; 5000])?;
        thread::sleep(Duration::from_millis(50));
        Ok(())
    }),
    ("messages of 48 MB", |address| {
        let mut connection = Connection::to(address)?;
        let mut body = vec![0; 47_999_984];
        body[5..9].copy_from_slice(&[0xFF; 4]);
        connection.send(OpCode::Message, &body)?;
        connection.receive().map(drop)
    }),
    ("slow readers", |address| {
        let mut connection = Connection::to(address)?;
        for _ in 0..20 {
            connection.send_command(json(r#"{"find":"large","$db":"app"}"#).view())?;
        }
        thread::sleep(Duration::from_millis(500));
        Ok(())
    }),
    ("slow writers", |address| {
        let mut connection = Connection::to(address)?;
        let body = [&[0; 5][..], json(r#"{"ping":1,"$db":"admin"}"#).as_bytes()].concat();
        let header = Header { len: HEADER_BYTES + body.len(), request_id: 1, response_to: 0, opcode: OpCode::Message };
        for byte in header.to_bytes().iter().chain(&body) {
            connection.0.write_all(&[*byte])?;
            thread::sleep(Duration::from_millis(5));
        }
        connection.receive().map(drop)
    }),
    ("bombs", |address| {
        for compressor in [Compressor::Zlib, Compressor::Zstd] {
            let bomb = compress(compressor, OpCode::Message, &vec![0; 47_999_000]).unwrap();
            let mut connection = Connection::to(address)?;
            connection.send(OpCode::Compressed, &bomb)?;
            // A document that is none is answered.
            connection.receive()?;
        }
        Ok(())
    }),
    ("cursors", |address| {
        let mut connection = Connection::to(address)?;
        for _ in 0..1000 {
            connection.try_run(r#"{"find":"c","batchSize":1,"$db":"app"}"#)?;
        }
        Ok(())
    }),
    ("nesting", |address| {
        let mut connection = Connection::to(address)?;
        let mut nested = vec![5, 0, 0, 0, 0];
        for _ in 0..1000 {
            let len = u32::try_from(nested.len() + 8).unwrap().to_le_bytes();
            nested = [&len[..], &[3, b'a', 0], &nested, &[0]].concat();
        }
        connection.send(OpCode::Message, &[&[0; 5][..], &nested].concat())?;
        connection.receive().map(drop)
    }),
    ("logins", |address| {
        let mut connection = Connection::to(address)?;
        for _ in 0..20 {
            let start = r#"{"saslStart":1,"mechanism":"SCRAM-SHA-256","payload":{"$binary":{"base64":"biwsbj1ub2JvZHkscj14eHh4","subType":"00"}},"$db":"admin"}"#;
            connection.try_run(start)?;
            let proof = r#"{"saslContinue":1,"conversationId":1,"payload":{"$binary":{"base64":"Yz1iaXdzLHI9eCxwPUFBQUE=","subType":"00"}},"$db":"admin"}"#;
            connection.try_run(proof)?;
        }
        Ok(())
    }),
    ("silence", |address| {
        let _connection = Connection::to(address)?;
        thread::sleep(Duration::from_millis(100));
        Ok(())
    }),
    ("wrong opcodes", |address| {
        let mut connection = Connection::to(address)?;
        let mut header = Header { len: 20, request_id: 1, response_to: 0, opcode: OpCode::Message }.to_bytes();
        header[12..].copy_from_slice(&2011_i32.to_le_bytes());
        connection.0.write_all(&header)?;
        while connection.receive().is_ok() {}
        Ok(())
    }),
    ("checksums", |address| {
        let mut connection = Connection::to(address)?;
        let body = [&[1, 0, 0, 0, 0], json(r#"{"ping":1,"$db":"admin"}"#).as_bytes(), &[1, 2, 3, 4]].concat();
        connection.send(OpCode::Message, &body)?;
        while connection.receive().is_ok() {}
        Ok(())
    }),
    ("noise", |address| {
        let mut connection = Connection::to(address)?;
        connection.0.write_all(&[0xFF; 64])?;
        while connection.receive().is_ok() {}
        Ok(())
    }),
];

fn json(text: &str) -> DocumentBuf {
    DocumentBuf::from_json(text).unwrap()
}

/// Documents that honest clients ask for, and a collection of 16 MB.
fn fill(server: &Server) {
    let mut connection = server.connect();
    for id in 0..100 {
        connection.ok(&format!(r#"{{"insert":"c","documents":[{{"_id":{id},"n":0}}],"$db":"app"}}"#));
    }
    let pad = "x".repeat(1 << 20);
    for id in 0..16 {
        connection.ok(&format!(r#"{{"insert":"large","documents":[{{"_id":{id},"pad":"{pad}"}}],"$db":"app"}}"#));
    }
}

#[test]
fn honest_clients_are_served_beside_hostile_ones() {
    let seconds = count_from_env("SPINNEY_HOSTILE_SECONDS", 2);
    let time = Duration::from_secs(seconds);
    let server = Server::start("", &[]);
    fill(&server);
    let alone = honest(&server, 2, time);
    let (stop, peak) = (AtomicBool::new(false), AtomicU64::new(0));
    let attacks: Vec<AtomicU64> = ATTACKS.iter().map(|_| AtomicU64::new(0)).collect();
    let beside = thread::scope(|scope| {
        for ((_, attack), count) in ATTACKS.iter().zip(&attacks) {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // What the server does with it is that the connection ends, at any moment.
                    let _refused = attack(&server.address);
                    count.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(100));
                }
            });
        }
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                peak.fetch_max(server.status("VmRSS:"), Ordering::Relaxed);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let beside = honest(&server, 2, time);
        stop.store(true, Ordering::Relaxed);
        beside
    });
    let (before, after) = (percentile(&alone, 99), percentile(&beside, 99));
    let counts: Vec<_> = ATTACKS
        .iter()
        .zip(&attacks)
        .map(|((name, _), count)| format!("{name} {}", count.load(Ordering::Relaxed)))
        .collect();
    eprintln!(
        "p50 {:?} and {:?}, p99 {before:?} and {after:?}, {} and {} requests, {} MiB; {}",
        percentile(&alone, 50),
        percentile(&beside, 50),
        alone.len(),
        beside.len(),
        peak.load(Ordering::Relaxed) >> 20,
        counts.join(", ")
    );
    assert!(peak.into_inner() < HOSTILE_MEMORY_BYTES);
    assert!(attacks.iter().all(|count| count.load(Ordering::Relaxed) > 0));
    server.connect().ok(r#"{"ping":1,"$db":"admin"}"#);
    // On a machine that does other things too, a small run tells nothing of times.
    if seconds >= 30 {
        assert!(after <= 3 * before.max(Duration::from_millis(1)), "{before:?} and {after:?}");
    }
}

#[test]
fn idle_connections_cost_little() {
    let count = count_from_env("SPINNEY_IDLE_CONNECTIONS", 200);
    let server = Server::start("", &[]);
    let mut first = server.connect();
    first.ok(r#"{"ping":1,"$db":"admin"}"#);
    let before = server.status("VmRSS:");
    let mut connections: Vec<Connection> = (0..count).map(|_| server.connect()).collect();
    for connection in &mut connections {
        connection.ok(r#"{"hello":1,"$db":"admin"}"#);
    }
    let each = (server.status("VmRSS:") - before) / count;
    eprintln!("{count} idle connections take {each} bytes of resident memory each");
    assert!(each <= IDLE_BYTES, "{each}");
    for connection in &mut connections {
        connection.ok(r#"{"ping":1,"$db":"admin"}"#);
    }
}

/// Threads that drive many connections.
const DRIVERS: u64 = 2;

/// Requests a second of so many connections, of which each has always sent a request that is not answered yet. Few
/// threads drive them, so that it is not the client that costs more with each connection.
fn throughput(server: &Server, connections: u64, time: Duration) -> f64 {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for driver in 0..DRIVERS {
            let (done, stop) = (&done, &stop);
            let own = (driver..connections).step_by(usize::try_from(DRIVERS).unwrap());
            let mut own: Vec<_> = own
                .map(|client| {
                    let request = format!(r#"{{"find":"c","filter":{{"_id":{}}},"$db":"app"}}"#, client % 100);
                    (server.connect(), json(&request))
                })
                .collect();
            scope.spawn(move || {
                own.iter_mut().for_each(|(connection, request)| connection.send_command(request.view()).unwrap());
                while !stop.load(Ordering::Relaxed) {
                    for (connection, request) in &mut own {
                        connection.receive().unwrap();
                        connection.send_command(request.view()).unwrap();
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                }
                // Each has an answer.
                own.iter_mut().for_each(|(connection, _)| drop(connection.receive().unwrap()));
            });
        }
        // All have begun.
        thread::sleep(time / 4);
        let (before, begun) = (done.load(Ordering::Relaxed), Instant::now());
        thread::sleep(time);
        let requests = done.load(Ordering::Relaxed) - before;
        let rate = f64::from(u32::try_from(requests).unwrap()) / begun.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        rate
    })
}

#[test]
fn many_busy_connections_are_all_served() {
    let many = count_from_env("SPINNEY_BUSY_CONNECTIONS", 200);
    let time = if many < 1000 { Duration::from_millis(500) } else { Duration::from_secs(5) };
    let server = Server::start("", &[]);
    fill(&server);
    for _ in 0..if many < 1000 { 1 } else { 3 } {
        let (few, all) = (throughput(&server, 64, time), throughput(&server, many, time));
        eprintln!("64 connections: {few:.0} requests a second; {many}: {all:.0}, {:.2} of that", all / few);
    }
}

#[test]
fn too_many_connections_are_refused_with_a_reason() {
    for (before, args, reason) in [
        ("", &["--connections", "20"][..], "as many as the server takes, 20 (--connections)"),
        ("ulimit -n 64;", &[], "there are as many as the server takes, 17 (--connections)"),
    ] {
        let server = Server::start(before, args);
        let mut good = server.connect();
        good.ok(r#"{"insert":"c","documents":[{"_id":1}],"$db":"app"}"#);
        let others: Vec<_> = (0..40).map(|_| Connection::to(&server.address)).collect();
        let served = others.into_iter().filter_map(|connection| {
            let mut connection = connection.ok()?;
            connection.try_run(r#"{"ping":1,"$db":"admin"}"#).ok()?;
            Some(connection)
        });
        let served: Vec<_> = served.collect();
        assert!(!served.is_empty() && served.len() < 40, "{}", served.len());
        assert!(server.log().contains(reason), "{}", server.log());
        // Who is connected goes on, and when others have gone there is a place again.
        good.ok(r#"{"insert":"c","documents":[{"_id":2}],"$db":"app"}"#);
        drop(served);
        let begun = Instant::now();
        while server.connect().try_run(r#"{"ping":1,"$db":"admin"}"#).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(30), "{}", server.log());
        }
    }
}
