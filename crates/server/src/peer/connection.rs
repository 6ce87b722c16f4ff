//! A connection to another member: opened, logged in, and commands run by it one after the other.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_wire::message::Sequence;
use spinney_wire::{Client, Failure};

use super::address::host;
use super::tls::PeerTls;
use crate::auth::MemberKey;
use crate::auth::key_file::{MEMBER, MEMBER_DATABASE};
use crate::auth::scram_client::ScramClient;
use crate::base::clock::monotonic;
use crate::socket::Channel;
use crate::socket::transport::Transport;

/// How this server connects to other members.
#[derive(Clone, Debug, Default)]
pub struct Link {
    /// How connections are encrypted, if they are.
    pub tls: Option<PeerTls>,
    /// The key by which members log in, if they do.
    pub key: Option<MemberKey>,
}

/// A connection to another member.
#[derive(Debug)]
pub struct Connection {
    client: Client<Channel>,
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// What is left of the time up to a moment.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(monotonic());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

impl Connection {
    /// Connects to a member, and logs in if members do.
    ///
    /// # Errors
    /// `TimedOut` when it takes longer than `time`; `PermissionDenied` when the login is refused; what the system says.
    pub fn open(address: &str, link: &Link, time: Duration) -> io::Result<Self> {
        let until = monotonic() + time;
        let mut error = io::Error::new(ErrorKind::NotFound, format!("{address} has no address"));
        for resolved in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&resolved, left(until)?) {
                Ok(stream) => return Self::over(stream, address, link, until),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    fn over(stream: TcpStream, address: &str, link: &Link, until: Instant) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let transport = Arc::new(Transport::Tcp(stream));
        transport.set_write_timeout(Some(left(until)?))?;
        let channel = match &link.tls {
            None => Channel::Plain(transport),
            Some(tls) => {
                let name = ServerName::try_from(host(address).to_owned()).map_err(io::Error::other)?;
                Channel::secured_to(transport, tls.config(), name)?
            }
        };
        let mut connection = Self { client: Client::new(channel) };
        if let Some(key) = &link.key {
            connection.log_in(key, until)?;
        }
        Ok(connection)
    }

    /// The bytes of the connection, which runs no more commands.
    #[must_use]
    pub fn into_channel(self) -> Channel {
        self.client.into_stream()
    }

    /// Whether the member has closed the connection, as one that was started again has.
    pub fn is_closed(&self) -> bool {
        self.client.stream().is_closed()
    }

    /// Logs in as a member, and checks that the other side is one.
    fn log_in(&mut self, key: &MemberKey, until: Instant) -> io::Result<()> {
        let denied = |what: &str| io::Error::new(ErrorKind::PermissionDenied, what.to_owned());
        let (login, first) = ScramClient::begin(MEMBER, key.as_str()).map_err(|error| denied(error.message()))?;
        let mut start = DocumentBuilder::new();
        start.append("saslStart", 1).append("mechanism", ScramClient::MECHANISM.name());
        start.append("payload", Value::Binary(0, &first));
        start.open_document("options").append("skipEmptyExchange", true).close();
        let reply = self.step(start, until)?;
        let last = login.answer(&payload_of(&reply)?).map_err(|error| denied(error.message()))?;
        let mut answer = DocumentBuilder::new();
        answer
            .append("saslContinue", 1)
            .append("conversationId", reply.view().get("conversationId").unwrap_or(1.into()));
        answer.append("payload", Value::Binary(0, &last.message));
        let reply = self.step(answer, until)?;
        let done = reply.view().get("done") == Some(Value::Bool(true));
        if done && last.is_proved_by(&payload_of(&reply)?) { Ok(()) } else { Err(denied("the member has another key")) }
    }

    /// A step of a login.
    fn step(&mut self, command: DocumentBuilder, until: Instant) -> io::Result<DocumentBuf> {
        match self.run(MEMBER_DATABASE, command, &[], left(until)?) {
            Ok(reply) => Ok(reply),
            Err(Failure::Connection(error)) => Err(error),
            Err(Failure::Refused(_, what)) => Err(io::Error::new(ErrorKind::PermissionDenied, what)),
        }
    }

    /// Runs a command: its reply, when that tells no error.
    ///
    /// # Errors
    /// A connection that failed, also by a read or write that takes longer than `time`; what the reply says.
    pub fn run(
        &mut self,
        database: &str,
        mut command: DocumentBuilder,
        sequences: &[Sequence<'_>],
        time: Duration,
    ) -> Result<DocumentBuf, Failure> {
        self.client.stream().set_read_timeout(Some(time))?;
        self.client.stream().set_write_timeout(Some(time))?;
        command.append("$db", database);
        self.client.run(command.finish().view(), sequences)
    }
}

fn payload_of(reply: &DocumentBuf) -> io::Result<Vec<u8>> {
    match reply.view().get("payload") {
        Some(Value::Binary(_, bytes)) => Ok(bytes.to_vec()),
        _ => Err(invalid("the reply has no payload")),
    }
}

/// The bytes of a document that holds a part of a payload.
pub(super) fn part(bytes: &[u8]) -> DocumentBuf {
    let mut part = DocumentBuilder::new();
    part.append("b", Value::Binary(0, bytes));
    part.finish()
}

/// The bytes of the documents of a payload, one after the other.
#[must_use]
pub fn joined(parts: &[Document<'_>]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in parts {
        match part.get("b") {
            Some(Value::Binary(0, part)) => bytes.extend_from_slice(part),
            _ => return None,
        }
    }
    Some(bytes)
}
