//! A server that knows nothing: to each message it sends a reply that was made before. The speed of a client against
//! it is the most that the client and the sockets of this machine allow.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use mongodb::bson::{Document, doc};

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).expect("an address to listen on");
    for stream in TcpListener::bind(address)?.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        std::thread::spawn(move || serve(stream).ok());
    }
    Ok(())
}

/// The replies, of which a message gets one by the name of its command.
struct Replies {
    hello: Vec<u8>,
    find: Vec<u8>,
    range: Vec<u8>,
    insert: Vec<u8>,
    update: Vec<u8>,
}

fn bytes(document: &Document) -> Vec<u8> {
    document.to_vec().expect("a document")
}

impl Replies {
    fn new() -> Self {
        let hello = doc! {
            "isWritablePrimary": true, "ismaster": true, "helloOk": true, "maxBsonObjectSize": 16 << 20,
            "maxMessageSizeBytes": 48_000_000, "maxWriteBatchSize": 100_000, "minWireVersion": 0,
            "maxWireVersion": 25, "logicalSessionTimeoutMinutes": 30, "connectionId": 1, "readOnly": false, "ok": 1.0,
        };
        let found = doc! { "_id": 7, "a": 7, "b": "x".repeat(100) };
        let range: Vec<Document> = (0..10).map(|i| doc! { "a": i }).collect();
        let cursor = |batch: Vec<Document>| {
            doc! { "cursor": { "firstBatch": batch, "id": 0_i64, "ns": "speed.documents" }, "ok": 1.0 }
        };
        Self {
            hello: bytes(&hello),
            find: bytes(&cursor(vec![found])),
            range: bytes(&cursor(range)),
            insert: bytes(&doc! { "n": 1, "ok": 1.0 }),
            update: bytes(&doc! { "n": 1, "nModified": 1, "ok": 1.0 }),
        }
    }

    /// The reply to a message: the first field of its body tells the command.
    fn of(&self, body: &[u8]) -> &[u8] {
        let begins = |name: &str| body.get(10..10 + name.len()) == Some(name.as_bytes());
        if begins("find\0") {
            // Only the range has a projection.
            let projected = body.windows(11).any(|window| window == b"projection\0");
            return if projected { &self.range } else { &self.find };
        }
        match () {
            () if begins("insert\0") => &self.insert,
            () if begins("update\0") => &self.update,
            () => &self.hello,
        }
    }
}

fn serve(mut stream: TcpStream) -> std::io::Result<()> {
    let replies = Replies::new();
    let (mut message, mut out) = (vec![0; 16], Vec::new());
    loop {
        message.resize(16, 0);
        stream.read_exact(&mut message)?;
        let number = |at: usize, message: &[u8]| {
            i32::from_le_bytes(message[at..at + 4].try_into().expect("four bytes of a header"))
        };
        let (len, id, opcode) = (number(0, &message), number(4, &message), number(12, &message));
        message.resize(usize::try_from(len).unwrap_or(16).max(16), 0);
        stream.read_exact(&mut message[16..])?;
        out.clear();
        if opcode == 2013 {
            let reply = replies.of(&message[16..]);
            header(&mut out, 16 + 5 + reply.len(), id, 2013);
            out.extend_from_slice(&[0; 5]);
            out.extend_from_slice(reply);
        } else {
            header(&mut out, 16 + 20 + replies.hello.len(), id, 1);
            out.extend_from_slice(&8_i32.to_le_bytes());
            out.extend_from_slice(&[0; 12]);
            out.extend_from_slice(&1_i32.to_le_bytes());
            out.extend_from_slice(&replies.hello);
        }
        stream.write_all(&out)?;
    }
}

fn header(out: &mut Vec<u8>, len: usize, answers: i32, opcode: i32) {
    out.extend_from_slice(&i32::try_from(len).expect("a short reply").to_le_bytes());
    for part in [1, answers, opcode] {
        out.extend_from_slice(&part.to_le_bytes());
    }
}
