//! A client that runs commands one after the other on a stream of bytes, a socket or what encrypts one.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};

use spinney_document::base::num::u64_of;
use spinney_document::bson::{Document, DocumentBuf};

use super::header::{HEADER_BYTES, Header};
use super::message::{Message, Sequence};

/// A connection to a server. How long reads and writes may take is the stream's concern.
#[derive(Debug)]
pub struct Client<S> {
    stream: S,
    /// The number of the next request.
    next_id: i32,
}

/// Why a command was not run.
#[derive(Debug)]
pub enum Failure {
    /// The connection failed: it cannot be used any more, and whether the command ran is not known.
    Connection(io::Error),
    /// The server refused the command: the code and the message of its reply.
    Refused(i64, String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Connection(error) => error,
            refused @ Failure::Refused(..) => Self::other(refused),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => error.fmt(f),
            Self::Refused(code, what) => write!(f, "{what} ({code})"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The refusal that an error document tells: of a reply, or of a single write in it.
    #[must_use]
    pub fn told(document: Document<'_>) -> Self {
        let code = document.get("code").and_then(|code| code.as_exact_i64()).unwrap_or_default();
        let what = document.get("errmsg").and_then(|what| what.as_str().map(str::to_owned));
        Self::Refused(code, what.unwrap_or_else(|| document.to_json()))
    }
}

impl<S: Read + Write> Client<S> {
    /// A client on a stream on which nothing was sent yet, or all replies were read.
    pub const fn new(stream: S) -> Self {
        Self { stream, next_id: 1 }
    }

    /// The stream.
    pub const fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, on which all replies were read.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// Runs a command, with sequences of documents that belong to it: its reply, when that tells no error.
    ///
    /// # Errors
    /// [`Failure::Connection`] when the stream fails (`TimedOut` when it waited too long) or its bytes make no sense;
    /// [`Failure::Refused`] with what the reply says.
    pub fn run(&mut self, command: Document<'_>, sequences: &[Sequence<'_>]) -> Result<DocumentBuf, Failure> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1).max(1);
        let message = Message {
            more_to_come: false,
            exhaust_allowed: false,
            checksum: false,
            body: command,
            sequences: sequences.to_vec(),
        };
        self.stream.write_all(&message.to_bytes(id, 0)).map_err(timed)?;
        self.stream.flush().map_err(timed)?;
        let (header, body) = self.receive().map_err(timed)?;
        if header.response_to != id {
            return Err(invalid("the reply is to another request").into());
        }
        let reply = Message::parse(&header, &body).map_err(|error| invalid(error.message()))?.body;
        match reply.get("ok").and_then(|ok| ok.as_exact_i64()) {
            Some(1) => Ok(DocumentBuf::from(reply)),
            _ => Err(Failure::told(reply)),
        }
    }

    /// Reads a message. Its length sizes the buffer only as its bytes arrive.
    fn receive(&mut self) -> io::Result<(Header, Vec<u8>)> {
        let mut head = [0; HEADER_BYTES];
        self.stream.read_exact(&mut head)?;
        let header = Header::parse(&head).map_err(|error| invalid(error.message()))?;
        let (len, mut body) = (header.len - HEADER_BYTES, Vec::new());
        (&mut self.stream).take(u64_of(len)).read_to_end(&mut body)?;
        if body.len() < len {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok((header, body))
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// A read that waited too long, of which systems tell in different ways.
fn timed(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spinney_document::doc;
    use std::io::Cursor;

    /// A server that answers with what it was given, and keeps what it gets.
    struct Scripted {
        replies: Cursor<Vec<u8>>,
        got: Vec<u8>,
    }

    impl Read for Scripted {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            self.replies.read(to)
        }
    }

    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.got.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn message(body: Document<'_>, id: i32, response_to: i32) -> Vec<u8> {
        let flags = (false, false, false);
        let (more_to_come, exhaust_allowed, checksum) = flags;
        Message { more_to_come, exhaust_allowed, checksum, body, sequences: vec![] }.to_bytes(id, response_to)
    }

    fn client(replies: Vec<u8>) -> Client<Scripted> {
        Client::new(Scripted { replies: Cursor::new(replies), got: Vec::new() })
    }

    #[test]
    fn a_command_is_sent_and_its_reply_given_back() {
        let (good, bad) = (doc! {"ok": 1.0, "n": 3}, doc! {"ok": 0.0, "code": 112, "errmsg": "again"});
        let mut client = client([message(good.view(), 9, 1), message(bad.view(), 10, 2)].concat());
        let one = doc! {"_id": 1};
        let reply = client.run(doc! {"insert": "c"}.view(), &[("documents", vec![one.view()])]).unwrap();
        assert_eq!(reply.view().to_json(), good.view().to_json());
        let (head, body) = client.stream().got.split_first_chunk().unwrap();
        let sent = Message::parse(&Header::parse(head).unwrap(), body).unwrap();
        assert_eq!((sent.body.to_json().as_str(), sent.sequences[0].0), (r#"{"insert":"c"}"#, "documents"));
        let refused = client.run(doc! {"ping": 1}.view(), &[]).unwrap_err();
        assert_eq!(refused.to_string(), "again (112)");
        assert!(matches!(refused, Failure::Refused(112, _)));
    }

    #[test]
    fn a_reply_that_is_cut_or_to_another_request_breaks_the_connection() {
        let whole = message(doc! {"ok": 1.0}.view(), 9, 1);
        for end in 0..whole.len() {
            let broken = client(whole[..end].to_vec()).run(doc! {"ping": 1}.view(), &[]).unwrap_err();
            assert!(matches!(broken, Failure::Connection(_)), "cut at {end}");
        }
        let other = client(message(doc! {"ok": 1.0}.view(), 9, 7)).run(doc! {"ping": 1}.view(), &[]);
        assert!(matches!(other, Err(Failure::Connection(_))));
    }
}
