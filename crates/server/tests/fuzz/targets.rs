//! Targets for fuzzing over what comes by a connection. `fuzz/` takes them to libFuzzer.

use spinney_document::bson::{Document, DocumentBuf};
use spinney_document::doc;
use spinney_server::auth::credentials::{Credential, Mechanism};
use spinney_server::auth::scram::{ClientFirst, Scram};
use spinney_testkit::fuzz::{Target, bytes};
use spinney_wire::checksum::crc32c;
use spinney_wire::compress::{compress, decompress};
use spinney_wire::legacy::Legacy;
use spinney_wire::query::{Reply, query_body};
use spinney_wire::{Compressor, HEADER_BYTES, Header, Message, OpCode, Query};

/// The targets, each with how many inputs it gets for one of the slowest.
pub(crate) const TARGETS: [(Target, u64); 3] = [
    (Target { name: "wire", run: wire, seeds: messages, mutate: bytes }, 60),
    (Target { name: "compressed", run: compressed, seeds: compressed_messages, mutate: bytes }, 5),
    (Target { name: "scram", run: scram, seeds: conversations, mutate: bytes }, 20),
];

/// Takes an input to the target of a name.
#[allow(dead_code, reason = "only libFuzzer asks by name")]
pub(crate) fn run(name: &str, input: &[u8]) {
    let (target, _) = TARGETS.iter().find(|(target, _)| target.name == name).expect("a name of a target");
    (target.run)(input);
}

/// The input: messages, as they come one behind the other; the last one may be cut.
fn wire(input: &[u8]) -> bool {
    let mut rest = input;
    while let Some((head, after)) = rest.split_first_chunk::<HEADER_BYTES>() {
        let Ok(header) = Header::parse(head) else { return false };
        assert_eq!(&header.to_bytes(), head);
        let body = &after[..after.len().min(header.len - HEADER_BYTES)];
        if !message(header, body) {
            return false;
        }
        rest = &after[body.len()..];
    }
    rest.is_empty()
}

/// Reads a body by its opcode; whether it was one.
fn message(header: Header, body: &[u8]) -> bool {
    match header.opcode {
        OpCode::Message => op_msg(header, body),
        OpCode::Query => Query::parse(body).is_ok_and(|query| {
            check(query.query);
            query.fields.into_iter().for_each(check);
            let (database, collection) = query.parts();
            assert_eq!(format!("{database}.{collection}"), query.namespace);
            true
        }),
        OpCode::Reply => Reply::parse(body).is_ok_and(|reply| {
            let bytes = reply.to_bytes(header.request_id, header.response_to);
            assert_eq!(&bytes[HEADER_BYTES..], body, "what is read is written as it was");
            true
        }),
        OpCode::Compressed => decompress(body).is_ok_and(|(opcode, _, plain)| {
            assert_ne!(opcode, OpCode::Compressed);
            message(Header { len: HEADER_BYTES + plain.len(), opcode, ..header }, &plain)
        }),
        opcode => Legacy::parse(opcode, body).is_ok_and(|legacy| {
            match legacy {
                Legacy::Insert { documents, .. } => documents.into_iter().for_each(check),
                Legacy::Update { filter, update, .. } => [filter, update].into_iter().for_each(check),
                Legacy::Delete { filter, .. } => check(filter),
                Legacy::GetMore { .. } => {}
                Legacy::KillCursors { cursors } => assert_eq!(cursors.len(), (body.len() - 8) / 8),
            }
            true
        }),
    }
}

/// Reads an `OP_MSG` as it is and with its checksum made right.
fn op_msg(header: Header, body: &[u8]) -> bool {
    let header = Header { len: HEADER_BYTES + body.len(), ..header };
    let as_it_is = read(&header, body);
    let summed = body.first().is_some_and(|flags| flags & 1 == 1) && body.len() >= 8;
    if !summed {
        return as_it_is;
    }
    let (checked, _) = body.split_at(body.len() - 4);
    let sum = crc32c(&[&header.to_bytes(), checked]).to_le_bytes();
    read(&header, &[checked, &sum].concat()) || as_it_is
}

fn read(header: &Header, body: &[u8]) -> bool {
    let Ok(message) = Message::parse(header, body) else { return false };
    check(message.body);
    message.sequences.iter().flat_map(|(_, documents)| documents).copied().for_each(check);
    let bytes = message.to_bytes(header.request_id, header.response_to);
    let again = Header::parse(bytes.first_chunk().unwrap()).unwrap();
    let again = Message::parse(&again, &bytes[HEADER_BYTES..]).expect("what is written is read");
    assert_eq!(again.body.as_bytes(), message.body.as_bytes());
    assert_eq!(again.sequences.len(), message.sequences.len());
    for ((name, documents), (other, others)) in again.sequences.iter().zip(&message.sequences) {
        assert!(name == other && documents.len() == others.len());
    }
    true
}

/// Walks over a document to its end.
fn check(document: Document<'_>) {
    for element in document {
        assert_eq!(element.value.kind(), element.value.kind());
        if let Some(inner) = element.value.as_document() {
            check(inner);
        }
    }
}

/// The input: the body of an `OP_COMPRESSED`, sizes that lie and bombs among them.
fn compressed(input: &[u8]) -> bool {
    let Ok((opcode, compressor, plain)) = decompress(input) else { return false };
    assert!(plain.len() + HEADER_BYTES <= spinney_wire::MESSAGE_BYTES_MAX);
    if plain.len() < 1 << 16 {
        let again = compress(compressor, opcode, &plain).unwrap();
        assert_eq!(decompress(&again).unwrap(), (opcode, compressor, plain));
    }
    true
}

/// The input: a client's first and last message, a line each.
fn scram(input: &[u8]) -> bool {
    let (first, last) = match input.iter().position(|byte| *byte == b'\n') {
        Some(at) => (&input[..at], &input[at + 1..]),
        None => (input, &[][..]),
    };
    let Ok(client) = ClientFirst::parse(first) else { return false };
    assert!(!client.user.is_empty());
    let mechanism = Mechanism::Sha256;
    let credential = Credential::derived(mechanism, b"pencil", vec![7; 16], 1);
    let (scram, server_first) = Scram::begin(mechanism, &client, credential).unwrap();
    let server_first = String::from_utf8(server_first).unwrap();
    let nonce = server_first.strip_prefix("r=").and_then(|rest| rest.split(',').next()).unwrap();
    // The nonce is new each time, so that the client's last message names it by a word.
    let last = String::from_utf8_lossy(last).replace("NONCE", nonce);
    assert!(scram.finish(last.as_bytes()).is_err(), "nobody knows the password");
    true
}

// ---------------------------------------------------------------------------------------------------------------------

fn whole(opcode: OpCode, body: &[u8]) -> Vec<u8> {
    let header = Header { len: HEADER_BYTES + body.len(), request_id: 7, response_to: 0, opcode };
    [&header.to_bytes()[..], body].concat()
}

fn command() -> DocumentBuf {
    let json = r#"{"insert":"c","ordered":true,"lsid":{"id":{"$binary":{"base64":"AAECAwQFBgcICQoLDA0ODw==","subType":"04"}}},"$db":"d"}"#;
    DocumentBuf::from_json(json).unwrap()
}

fn op_msgs() -> Vec<Vec<u8>> {
    let (body, one) = (command(), doc! {"_id": 1, "a": "text"});
    let with = |checksum, sequences| {
        let message =
            Message { more_to_come: checksum, exhaust_allowed: checksum, checksum, body: body.view(), sequences };
        message.to_bytes(5, 6)
    };
    vec![
        with(false, Vec::new()),
        with(true, vec![("documents", vec![one.view(), one.view()])]),
        with(false, vec![("documents", vec![one.view()]), ("updates", Vec::new())]),
    ]
}

fn messages() -> Vec<Vec<u8>> {
    let (one, two) = (doc! {"_id": 1}, doc! {"$set": &doc! {"a": 1}});
    let (one, two, zero) = (one.as_bytes(), two.as_bytes(), &[0; 4][..]);
    let mut seeds = op_msgs();
    let query = query_body(4, "d.$cmd", 0, -1, command().view());
    seeds.push(whole(OpCode::Query, &[&query, one].concat()));
    seeds.push(whole(OpCode::Insert, &[&[1, 0, 0, 0], &b"d.c\0"[..], one, two].concat()));
    seeds.push(whole(OpCode::Update, &[zero, b"d.c\0", &[3, 0, 0, 0], one, two].concat()));
    seeds.push(whole(OpCode::Delete, &[zero, b"d.c\0", &[1, 0, 0, 0], one].concat()));
    seeds.push(whole(OpCode::GetMore, &[zero, b"d.c\0", &[9, 0, 0, 0], &7_i64.to_le_bytes()].concat()));
    seeds.push(whole(OpCode::KillCursors, &[zero, &[2, 0, 0, 0], &[7; 16]].concat()));
    let reply = Reply { flags: 8, cursor: 7, starting_from: 2, documents: vec![command().view()] }.to_bytes(3, 4);
    seeds.push(reply);
    let packed = compressed_messages().swap_remove(0);
    seeds.push([whole(OpCode::Compressed, &packed), seeds[0].clone()].concat());
    seeds
}

fn compressed_messages() -> Vec<Vec<u8>> {
    let body = &op_msgs().swap_remove(1)[HEADER_BYTES..];
    let mut seeds = Vec::new();
    for compressor in [Compressor::Snappy, Compressor::Zlib, Compressor::Zstd, Compressor::Noop] {
        seeds.push(compress(compressor, OpCode::Message, body).unwrap());
    }
    // What is small and names much.
    for compressor in [Compressor::Zlib, Compressor::Zstd] {
        seeds.push(compress(compressor, OpCode::Message, &[0; 1 << 20]).unwrap());
    }
    seeds
}

fn conversations() -> Vec<Vec<u8>> {
    [
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO\nc=biws,r=NONCE,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "y,,n=a=2Cb=3D,r=x,ext=1\nc=eSws,r=NONCE,x=y,p=AAAA",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
