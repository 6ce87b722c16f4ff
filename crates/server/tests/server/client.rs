//! A small client: it knows messages, and nothing of what drivers do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use spinney::env::sim::SimEnv;
use spinney_document::base::System;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::{Service, ServiceOptions};
use spinney_document::{Database, doc};
use spinney_replica::Node;
use spinney_server::auth::Mechanism;
use spinney_server::base::log::Log;
use spinney_server::peer::{Link, Members};
use spinney_server::state::Replica;
use spinney_server::{Listening, Running, Settings, start};
use spinney_wire::compress::{compress, decompress};
use spinney_wire::query::{Reply, query_body};
use spinney_wire::{Compressor, HEADER_BYTES, Header, Message, OpCode};
use tempfile::TempDir;

/// A server in a directory of its own.
pub(crate) struct TestServer {
    pub(crate) running: Option<Running>,
    pub(crate) address: String,
    dir: TempDir,
}

impl TestServer {
    pub(crate) fn new(change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_sockets(change, |_| Vec::new())
    }

    pub(crate) fn with_sockets(
        change: impl FnOnce(&mut Settings),
        sockets: impl FnOnce(&TempDir) -> Vec<Listening>,
    ) -> Self {
        let dir = TempDir::new().unwrap();
        let options = spinney::Options::default().memory_bytes(64 << 20).durability(spinney::Durability::Buffered);
        let db = Database::open(dir.path().join("db"), options).unwrap();
        Self::of(db, dir, change, sockets)
    }

    /// A server of a database that is open.
    pub(crate) fn over(db: Database, change: impl FnOnce(&mut Settings)) -> Self {
        Self::of(db, TempDir::new().unwrap(), change, |_| Vec::new())
    }

    /// A server of a database on a simulated disk.
    pub(crate) fn on(disk: &SimEnv) -> Self {
        let options = spinney::Options::default().memory_bytes(4 << 20);
        let engine = spinney::Database::builder("/db").env(disk.env()).options(options).open().unwrap();
        Self::of(Database::with_engine(engine).unwrap(), TempDir::new().unwrap(), |_| {}, |_| Vec::new())
    }

    /// A server that is a member of a set, which it is made part of by commands.
    pub(crate) fn member() -> Self {
        let dir = TempDir::new().unwrap();
        let options = spinney::Options::default().memory_bytes(64 << 20).log_keep_bytes(64 << 20);
        let engine = spinney::Database::open(dir.path().join("db"), options).unwrap();
        let listening = Listening::tcp("127.0.0.1:0").unwrap();
        let address = listening.address();
        let members = Arc::new(Members::new(Link::default()));
        let own = spinney_replica::Settings::new("rs", address.as_str());
        let node = Node::open(&engine, own, Arc::clone(&members) as Arc<_>).unwrap();
        let db = Database::with_committer(engine, Arc::new(System), node.committer()).unwrap();
        node.run(&db).unwrap();
        let mut settings = Settings::default();
        settings.replica_set = Some("rs".to_owned());
        settings.replica = Some(Arc::new(Replica::new(node, members, Vec::new())));
        let options = ServiceOptions { replica_set: true, ..ServiceOptions::default() };
        let service = Service::with_options(db, options);
        let running = start(service, settings, Log::memory(true), vec![listening]).unwrap();
        Self { running: Some(running), address, dir }
    }

    fn of(
        db: Database,
        dir: TempDir,
        change: impl FnOnce(&mut Settings),
        sockets: impl FnOnce(&TempDir) -> Vec<Listening>,
    ) -> Self {
        let mut settings = Settings::default();
        change(&mut settings);
        let mut all = vec![Listening::tcp("127.0.0.1:0").unwrap()];
        let address = all[0].address();
        all.extend(sockets(&dir));
        let running = start(Service::new(db), settings, Log::memory(true), all).unwrap();
        Self { running: Some(running), address, dir }
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn client(&self) -> Client<TcpStream> {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Client { stream, next: 1 }
    }

    pub(crate) fn log(&self) -> String {
        self.running.as_ref().unwrap().server().log.text()
    }

    pub(crate) fn end(&mut self) {
        self.running.take().unwrap().end();
    }
}

/// A connection.
pub(crate) struct Client<S> {
    pub(crate) stream: S,
    next: i32,
}

/// A message that came: its header, how it was compressed, and its body.
pub(crate) type Frame = (Header, Option<Compressor>, Vec<u8>);

impl<S: Read + Write> Client<S> {
    pub(crate) fn over(stream: S) -> Self {
        Self { stream, next: 1 }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// Sends a message with a body; its number.
    pub(crate) fn send_body(&mut self, opcode: OpCode, body: &[u8]) -> i32 {
        self.next += 1;
        let header = Header { len: HEADER_BYTES + body.len(), request_id: self.next, response_to: 0, opcode };
        self.send(&[&header.to_bytes()[..], body].concat());
        self.next
    }

    /// Waits for a message; nothing when the connection was closed.
    pub(crate) fn receive(&mut self) -> Option<Frame> {
        let mut head = [0; HEADER_BYTES];
        self.stream.read_exact(&mut head).ok()?;
        let header = Header::parse(&head).unwrap();
        let mut body = vec![0; header.len - HEADER_BYTES];
        self.stream.read_exact(&mut body).ok()?;
        if header.opcode != OpCode::Compressed {
            return Some((header, None, body));
        }
        let (opcode, compressor, plain) = decompress(&body).unwrap();
        Some((Header { opcode, len: HEADER_BYTES + plain.len(), ..header }, Some(compressor), plain))
    }

    /// The document of the next message, an `OP_MSG`, and whether more come.
    pub(crate) fn reply(&mut self) -> Option<(DocumentBuf, bool)> {
        let (header, compressor, body) = self.receive()?;
        assert_eq!(header.opcode, OpCode::Message);
        // The checksum of a message that was compressed is of the message before that.
        assert!(compressor.is_none() || body[0] & 1 == 0);
        let message = Message::parse(&header, &body).unwrap();
        Some((message.body.into(), message.more_to_come))
    }

    /// Sends a command and waits for the reply.
    pub(crate) fn run(&mut self, database: &str, command: Document<'_>) -> DocumentBuf {
        self.send_command(database, command, false, false);
        self.reply().expect("the server replies").0
    }

    /// As [`Self::run`] with a command in JSON.
    pub(crate) fn json(&mut self, database: &str, command: &str) -> DocumentBuf {
        self.run(database, DocumentBuf::from_json(command).unwrap().view())
    }

    /// As [`Self::json`] for a command that must succeed.
    pub(crate) fn ok(&mut self, database: &str, command: &str) -> DocumentBuf {
        let reply = self.json(database, command);
        assert_eq!(number(&reply, "ok"), 1, "{command}: {reply:?}");
        reply
    }

    /// The code of a command that must fail.
    pub(crate) fn code(&mut self, database: &str, command: &str) -> i64 {
        let reply = self.json(database, command);
        assert_eq!(number(&reply, "ok"), 0, "{command}: {reply:?}");
        number(&reply, "code")
    }

    pub(crate) fn send_command(&mut self, database: &str, command: Document<'_>, more: bool, exhaust: bool) {
        let body = with_database(database, command);
        self.next += 1;
        let message = Message {
            more_to_come: more,
            exhaust_allowed: exhaust,
            checksum: false,
            body: body.view(),
            sequences: Vec::new(),
        };
        let bytes = message.to_bytes(self.next, 0);
        self.send(&bytes);
    }

    pub(crate) fn send_compressed(&mut self, compressor: Compressor, database: &str, command: Document<'_>) {
        let body = with_database(database, command);
        let plain = [&[0; 5][..], body.as_bytes()].concat();
        let compressed = compress(compressor, OpCode::Message, &plain).unwrap();
        self.send_body(OpCode::Compressed, &compressed);
    }

    /// Sends an `OP_QUERY` and waits for the reply: flags, cursor, documents.
    pub(crate) fn query(&mut self, namespace: &str, count: i32, query: &str) -> (u32, i64, Vec<DocumentBuf>) {
        let query = DocumentBuf::from_json(query).unwrap();
        self.send_body(OpCode::Query, &query_body(0, namespace, 0, count, query.view()));
        self.old_reply()
    }

    pub(crate) fn old_reply(&mut self) -> (u32, i64, Vec<DocumentBuf>) {
        let (header, _, body) = self.receive().expect("the server replies");
        assert_eq!(header.opcode, OpCode::Reply);
        let reply = Reply::parse(&body).unwrap();
        (reply.flags, reply.cursor, reply.documents.into_iter().map(DocumentBuf::from).collect())
    }

    /// Logs in; the reply that ended it.
    pub(crate) fn log_in(&mut self, mechanism: Mechanism, database: &str, user: &str, password: &str) -> DocumentBuf {
        let bare = format!("n={user},r=clientNonce");
        let mut start = DocumentBuilder::new();
        start.append("saslStart", 1).append("mechanism", mechanism.name());
        start.append("payload", Value::Binary(0, format!("n,,{bare}").as_bytes()));
        start.append("options", &doc! {"skipEmptyExchange": true});
        let first = self.run(database, start.finish().view());
        if number(&first, "ok") == 0 {
            return first;
        }
        let server_first = payload(&first);
        let attribute = |name: &str| {
            let part = server_first.split(',').find_map(|part| part.strip_prefix(name)).unwrap();
            part.strip_prefix('=').unwrap().to_owned()
        };
        let (nonce, salt) = (attribute("r"), STANDARD.decode(attribute("s")).unwrap());
        let iterations: u32 = attribute("i").parse().unwrap();
        let unproved = format!("c=biws,r={nonce}");
        let signed = format!("{bare},{server_first},{unproved}");
        let proof = proof(mechanism, user, password, &salt, iterations, &signed);
        let mut last = DocumentBuilder::new();
        last.append("saslContinue", 1).append("conversationId", 1);
        last.append("payload", Value::Binary(0, format!("{unproved},p={}", STANDARD.encode(proof)).as_bytes()));
        self.run(database, last.finish().view())
    }
}

/// A client's proof that it knows a password.
fn proof(mechanism: Mechanism, user: &str, password: &str, salt: &[u8], iterations: u32, signed: &str) -> Vec<u8> {
    let prepared = match mechanism {
        Mechanism::Sha1 => spinney_server::auth::credentials::digest_of(user, password),
        Mechanism::Sha256 => password.to_owned(),
    };
    let mut block = mechanism.keyed_hash(prepared.as_bytes(), &[salt, &1_u32.to_be_bytes()].concat());
    let mut salted = block.clone();
    for _ in 1..iterations {
        block = mechanism.keyed_hash(prepared.as_bytes(), &block);
        salted.iter_mut().zip(&block).for_each(|(salted, block)| *salted ^= block);
    }
    let client_key = mechanism.keyed_hash(&salted, b"Client Key");
    let signature = mechanism.keyed_hash(&mechanism.hash(&client_key), signed.as_bytes());
    client_key.iter().zip(&signature).map(|(key, signature)| key ^ signature).collect()
}

fn payload(reply: &DocumentBuf) -> String {
    match reply.view().get("payload") {
        Some(Value::Binary(0, bytes)) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn with_database(database: &str, command: Document<'_>) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append_all(command).append("$db", database);
    builder.finish()
}

/// A whole number of a reply.
pub(crate) fn number(reply: &DocumentBuf, name: &str) -> i64 {
    let value = reply.view().get(name).unwrap_or_else(|| panic!("no {name} in {reply:?}"));
    value.as_exact_i64().unwrap_or_else(|| panic!("{name} of {reply:?} is no whole number"))
}

/// The documents of the batch of a reply.
pub(crate) fn batch(reply: &DocumentBuf) -> Vec<String> {
    let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document()).unwrap();
    let batch = cursor.get("firstBatch").or_else(|| cursor.get("nextBatch")).unwrap().as_array().unwrap();
    batch.values().map(|value| value.as_document().unwrap().to_json()).collect()
}

/// The cursor of a reply.
pub(crate) fn cursor(reply: &DocumentBuf) -> i64 {
    let cursor = reply.view().get("cursor").and_then(|cursor| cursor.as_document()).unwrap();
    cursor.get("id").unwrap().as_exact_i64().unwrap()
}
