//! `OP_QUERY` and its answer, `OP_REPLY`: commands of handshakes, and everything that drivers before MongoDB 3.6 send.
//!
//! # Format of `OP_QUERY`
//!
//! flags (4), namespace and a zero, documents to skip (4), documents to return (4), query, optionally a projection.
//!
//! # Format of `OP_REPLY`
//!
//! flags (4), cursor (8), position of the first document (4), number of documents (4), documents.

use spinney_document::Result;
use spinney_document::bson::Document;

use super::header::{HEADER_BYTES, Header, OpCode};
use super::reader::{Reader, malformed};

const TAILABLE: u32 = 1 << 1;
const NO_CURSOR_TIMEOUT: u32 = 1 << 4;
const AWAIT_DATA: u32 = 1 << 5;
const EXHAUST: u32 = 1 << 6;
const PARTIAL: u32 = 1 << 7;

/// A flag of a reply: the cursor of an `OP_GET_MORE` is not there.
pub const CURSOR_NOT_FOUND: u32 = 1;
/// A flag of a reply: the find failed, and the only document says why.
pub const QUERY_FAILURE: u32 = 1 << 1;
/// A flag of a reply, set by every server of the last decade.
pub const AWAIT_CAPABLE: u32 = 1 << 3;

/// The body of an `OP_QUERY`.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    flags: u32,
    /// Database, dot, collection; `$cmd` for commands.
    pub namespace: &'a str,
    /// How many documents are skipped.
    pub skip: i32,
    /// How many documents the reply has: any number for 0; below zero, that many in all and no cursor.
    pub count: i32,
    /// The filter or command, or one within a document of options.
    pub query: Document<'a>,
    /// The projection.
    pub fields: Option<Document<'a>>,
}

impl<'a> Query<'a> {
    /// The query that a body is.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body is malformed, and those of [`Reader::document`].
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let (flags, namespace) = (reader.u32()?, reader.text()?);
        let (skip, count) = (reader.i32()?, reader.i32()?);
        let query = reader.document()?;
        let fields = if reader.is_done() { None } else { Some(reader.document()?) };
        if !reader.is_done() {
            return Err(malformed("bytes follow the projection"));
        }
        if namespace.find('.').is_none_or(|dot| dot == 0) {
            return Err(malformed("the namespace has no database"));
        }
        Ok(Self { flags, namespace, skip, count, query, fields })
    }

    /// The database and the collection.
    #[must_use]
    pub fn parts(&self) -> (&'a str, &'a str) {
        self.namespace.split_once('.').unwrap_or((self.namespace, ""))
    }

    /// Whether the cursor stays at the end of the collection.
    #[must_use]
    pub const fn tailable(&self) -> bool {
        self.flags & TAILABLE != 0
    }

    /// Whether the cursor lives until it is killed.
    #[must_use]
    pub const fn no_cursor_timeout(&self) -> bool {
        self.flags & NO_CURSOR_TIMEOUT != 0
    }

    /// Whether a tailable cursor waits for documents.
    #[must_use]
    pub const fn await_data(&self) -> bool {
        self.flags & AWAIT_DATA != 0
    }

    /// Whether all batches are to be sent without being asked for.
    #[must_use]
    pub const fn exhaust(&self) -> bool {
        self.flags & EXHAUST != 0
    }

    /// Whether results of some shards are enough.
    #[must_use]
    pub const fn partial(&self) -> bool {
        self.flags & PARTIAL != 0
    }
}

/// The body of an `OP_REPLY`.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// [`CURSOR_NOT_FOUND`], [`QUERY_FAILURE`], [`AWAIT_CAPABLE`].
    pub flags: u32,
    /// The cursor that has more documents, else 0.
    pub cursor: i64,
    /// How many documents the cursor gave before.
    pub starting_from: i32,
    /// The documents.
    pub documents: Vec<Document<'a>>,
}

impl<'a> Reply<'a> {
    /// The reply with one document, as commands have it.
    #[must_use]
    pub fn of_command(document: Document<'a>) -> Self {
        Self { flags: AWAIT_CAPABLE, cursor: 0, starting_from: 0, documents: vec![document] }
    }

    /// The reply that a body is.
    ///
    /// # Errors
    /// `ProtocolError` (17) when the body is malformed, and those of [`Reader::document`].
    pub fn parse(body: &'a [u8]) -> Result<Self> {
        let mut reader = Reader::new(body);
        let (flags, cursor, starting_from, count) = (reader.u32()?, reader.i64()?, reader.i32()?, reader.i32()?);
        let documents = reader.documents(usize::MAX)?;
        if usize::try_from(count) != Ok(documents.len()) {
            return Err(malformed("the number of documents is wrong"));
        }
        Ok(Self { flags, cursor, starting_from, documents })
    }

    /// The bytes of the whole message with a header.
    #[must_use]
    pub fn to_bytes(&self, request_id: i32, response_to: i32) -> Vec<u8> {
        let documents: usize = self.documents.iter().map(|document| document.as_bytes().len()).sum();
        let len = HEADER_BYTES + 20 + documents;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&Header { len, request_id, response_to, opcode: OpCode::Reply }.to_bytes());
        bytes.extend_from_slice(&self.flags.to_le_bytes());
        bytes.extend_from_slice(&self.cursor.to_le_bytes());
        bytes.extend_from_slice(&self.starting_from.to_le_bytes());
        bytes.extend_from_slice(&i32::try_from(self.documents.len()).unwrap_or(i32::MAX).to_le_bytes());
        self.documents.iter().for_each(|document| bytes.extend_from_slice(document.as_bytes()));
        bytes
    }
}

/// The body of an `OP_QUERY` with this content, for clients.
#[must_use]
pub fn query_body(flags: u32, namespace: &str, skip: i32, count: i32, query: Document<'_>) -> Vec<u8> {
    let mut body = flags.to_le_bytes().to_vec();
    body.extend_from_slice(namespace.as_bytes());
    body.push(0);
    body.extend_from_slice(&skip.to_le_bytes());
    body.extend_from_slice(&count.to_le_bytes());
    body.extend_from_slice(query.as_bytes());
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;

    #[test]
    fn a_query_survives_its_bytes() {
        let (query, fields) = (doc! {"a": 1}, doc! {"b": 1});
        let mut body = query_body(TAILABLE | AWAIT_DATA, "d.c.e", 3, -4, query.view());
        body.extend_from_slice(fields.as_bytes());
        let read = Query::parse(&body).unwrap();
        assert_eq!(read.parts(), ("d", "c.e"));
        assert_eq!((read.skip, read.count, read.query.to_json()), (3, -4, r#"{"a":1}"#.to_owned()));
        assert_eq!(read.fields.unwrap().to_json(), r#"{"b":1}"#);
        assert!(read.tailable() && read.await_data() && !read.exhaust() && !read.no_cursor_timeout());
        // Without the projection the query is whole too.
        let whole = body.len() - fields.as_bytes().len();
        for at in 0..body.len() {
            assert_eq!(Query::parse(&body[..at]).is_ok(), at == whole);
        }
    }

    #[test]
    fn a_reply_survives_its_bytes() {
        let document = doc! {"a": 1};
        let reply = Reply { flags: 8, cursor: 7, starting_from: 2, documents: vec![document.view(), document.view()] };
        let bytes = reply.to_bytes(3, 4);
        let (head, body) = bytes.split_first_chunk().unwrap();
        assert_eq!(Header::parse(head).unwrap().len, bytes.len());
        let read = Reply::parse(body).unwrap();
        assert_eq!((read.flags, read.cursor, read.starting_from, read.documents.len()), (8, 7, 2, 2));
        assert!((0..body.len()).all(|at| Reply::parse(&body[..at]).is_err()));
    }
}
