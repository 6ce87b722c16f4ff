//! A connection of a client: a socket, and what a refusal means.

use anyhow::{Context as _, Result, anyhow};
use spinney_document::bson::{Document, DocumentBuf};
use spinney_wire::{Client, Failure};
use std::fmt;
use std::net::TcpStream;

/// A connection.
#[derive(Debug)]
pub(super) struct Connection {
    client: Client<TcpStream>,
}

/// What a server answers in place of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    code: i64,
    message: String,
}

/// The code of a write that another transaction was in the way of.
const WRITE_CONFLICT: i64 = 112;

/// The code of a command that the server does not have.
const COMMAND_NOT_FOUND: i64 = 59;

impl Connection {
    pub(super) fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        stream.set_nodelay(true)?;
        Ok(Self { client: Client::new(stream) })
    }

    /// Whether the server is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.client.stream().peer_addr().is_ok_and(|address| address.ip().is_loopback())
    }

    /// Runs a command, with a sequence of documents that belong to it.
    ///
    /// # Errors
    /// [`Refused`], also of a single write; those of the connection.
    pub(super) fn run(
        &mut self,
        command: Document<'_>,
        sequence: Option<(&str, &[DocumentBuf])>,
    ) -> Result<DocumentBuf> {
        let sequence = sequence.map(|(name, documents)| (name, documents.iter().map(DocumentBuf::view).collect()));
        let sequences: Vec<_> = sequence.into_iter().collect();
        let reply = self.client.run(command, &sequences).map_err(told)?;
        match write_error(reply.view()) {
            Some(error) => Err(told(Failure::told(error))),
            None => Ok(reply),
        }
    }
}

/// The first error of a single write.
fn write_error(reply: Document<'_>) -> Option<Document<'_>> {
    reply.get("writeErrors")?.as_array()?.values().next()?.as_document()
}

fn told(failure: Failure) -> anyhow::Error {
    match failure {
        Failure::Connection(error) => anyhow!(error).context("the connection broke"),
        Failure::Refused(code, message) => Refused { code, message }.into(),
    }
}

impl Refused {
    /// Whether another transaction was first.
    pub(super) const fn is_conflict(&self) -> bool {
        self.code == WRITE_CONFLICT
    }

    /// Whether the server does not have the command.
    pub(super) const fn is_unknown_command(&self) -> bool {
        self.code == COMMAND_NOT_FOUND
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
    fn errors_of_single_writes_are_told() {
        let json = r#"{"ok": 1, "writeErrors": [{"index": 0, "code": 112, "errmsg": "there"}]}"#;
        let reply = DocumentBuf::from_json(json).unwrap();
        let error = told(Failure::told(write_error(reply.view()).unwrap()));
        assert_eq!(error.to_string(), "the server says there (112)");
        assert!(error.downcast_ref::<Refused>().unwrap().is_conflict());
        let unknown = doc! {"ok": 0.0, "code": 59, "errmsg": "no such command"};
        let unknown = told(Failure::told(unknown.view()));
        assert!(unknown.downcast_ref::<Refused>().unwrap().is_unknown_command());
        assert!(write_error(DocumentBuf::from_json(r#"{"ok": 1, "n": 3}"#).unwrap().view()).is_none());
    }
}
