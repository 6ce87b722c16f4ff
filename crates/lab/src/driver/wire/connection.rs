//! Requests and replies on one connection.
//!
//! # Format
//! A message (opcode 2013) is the header (length, request, response to, opcode; 4 bytes each), 4 bytes of flags, a byte
//! 0 and the command's document. A sequence of documents may follow: a byte 1, its length, its name and a zero, the
//! documents. Numbers are little-endian.

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use spinney_document::bson::{Document, DocumentBuf};
use std::fmt;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;

const OPCODE: i32 = 2013;
const HEADER_BYTES: usize = 16;
/// What comes before the command's document: header, flags, kind of section.
const HEAD_BYTES: usize = HEADER_BYTES + 5;
/// No server sends a longer message.
const MESSAGE_BYTES_MAX: usize = 48_000_000;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    request: i32,
    buffer: Vec<u8>,
}

/// What a server answers in place of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: i64,
    message: String,
}

/// The code of a write that another transaction was in the way of.
const WRITE_CONFLICT: i64 = 112;

impl Connection {
    pub(super) fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request: 0, buffer: Vec::new() })
    }

    /// Whether the server is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.stream.peer_addr().is_ok_and(|address| address.ip().is_loopback())
    }

    /// Runs a command, with a sequence of documents that belong to it.
    ///
    /// # Errors
    /// [`Refused`]; those of the connection.
    pub(super) fn run(
        &mut self,
        command: Document<'_>,
        sequence: Option<(&str, &[DocumentBuf])>,
    ) -> Result<DocumentBuf> {
        self.request = self.request.wrapping_add(1);
        self.buffer.clear();
        self.buffer.extend_from_slice(&[0; HEAD_BYTES]);
        self.buffer.extend_from_slice(command.as_bytes());
        if let Some((name, documents)) = sequence {
            let bytes: usize = documents.iter().map(|document| document.as_bytes().len()).sum();
            self.buffer.push(1);
            self.buffer.extend_from_slice(&i32::try_from(4 + name.len() + 1 + bytes)?.to_le_bytes());
            self.buffer.extend_from_slice(name.as_bytes());
            self.buffer.push(0);
            documents.iter().for_each(|document| self.buffer.extend_from_slice(document.as_bytes()));
        }
        let numbers = [i32::try_from(self.buffer.len())?, self.request, 0, OPCODE];
        for (at, number) in numbers.into_iter().enumerate() {
            self.buffer[4 * at..4 * at + 4].copy_from_slice(&number.to_le_bytes());
        }
        self.stream.write_all(&self.buffer).context("the connection broke")?;
        let reply = self.reply()?;
        check(reply.view())?;
        Ok(reply)
    }

    fn reply(&mut self) -> Result<DocumentBuf> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).context("the server ended the connection")?;
        let number = |at: usize| i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = usize::try_from(number(0)).unwrap_or(0);
        ensure!((HEAD_BYTES..=MESSAGE_BYTES_MAX).contains(&length), "a reply of {length} bytes");
        ensure!(number(12) == OPCODE && number(8) == self.request, "a message that is no reply to the request");
        self.buffer.clear();
        let body = u64::try_from(length - HEADER_BYTES)?;
        (&mut self.stream).take(body).read_to_end(&mut self.buffer)?;
        ensure!(self.buffer.len() == length - HEADER_BYTES && self.buffer[4] == 0, "half a reply");
        let document = &self.buffer[HEAD_BYTES - HEADER_BYTES..];
        let document = Document::parse(document).map_err(|error| anyhow!("a reply that is no document: {error}"))?;
        Ok(DocumentBuf::from(document))
    }
}

/// Whether a reply is of success, with no error of a single write.
fn check(reply: Document<'_>) -> Result<()> {
    let refused = |document: Document<'_>| {
        let message = document.get("errmsg").map_or_else(|| document.to_json(), |message| message.to_json());
        let code = document.get("code").and_then(|code| code.as_exact_i64()).unwrap_or(0);
        Refused { code, message }
    };
    if reply.get("ok").and_then(|ok| ok.as_exact_i64()) != Some(1) {
        bail!(refused(reply));
    }
    let errors = reply.get("writeErrors").and_then(|errors| errors.as_array());
    let first = errors.and_then(|errors| errors.values().next()).and_then(|error| error.as_document());
    first.map_or(Ok(()), |error| Err(refused(error).into()))
}

impl Refused {
    /// Whether another transaction was first.
    pub(super) const fn is_conflict(&self) -> bool {
        self.code == WRITE_CONFLICT
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server says {} ({})", self.message, self.code)
    }
}

impl std::error::Error for Refused {}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;

    #[test]
    fn errors_of_commands_and_of_single_writes_are_told() {
        assert!(check(doc! {"ok": 1.0, "n": 3}.view()).is_ok());
        let conflict = check(doc! {"ok": 0.0, "code": 112, "errmsg": "again"}.view()).unwrap_err();
        assert!(conflict.downcast_ref::<Refused>().unwrap().is_conflict());
        let json = r#"{"ok": 1, "writeErrors": [{"index": 0, "code": 11000, "errmsg": "there"}]}"#;
        let duplicate = check(DocumentBuf::from_json(json).unwrap().view()).unwrap_err();
        assert_eq!(duplicate.to_string(), r#"the server says "there" (11000)"#);
        assert!(check(doc! {"n": 1}.view()).is_err());
    }
}
