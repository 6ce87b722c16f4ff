//! The life of a connection, from its first request to its end.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use spinney_document::base::num::u64_of;
use spinney_document::bson::{Document, DocumentBuf};
use spinney_document::command::service::failed;
use spinney_document::{Error, ErrorCode, Result};

use super::frames::{Broken, Frames};
use super::outgoing::{Form, Outgoing};
use super::{queries, writes};
use crate::command::dispatch::{Outcome, run};
use crate::command::spec::Incoming;
use crate::command::{Session, handshake};
use crate::socket::Channel;
use crate::state::Server;
use spinney_wire::compress::decompress;
use spinney_wire::legacy::Legacy;
use spinney_wire::query::{CURSOR_NOT_FOUND, Reply};
use spinney_wire::{Compressor, HEADER_BYTES, Header, MESSAGE_BYTES_MAX, Message, OpCode, Query};

/// The longest message of a client that has yet to log in.
const STRANGER_BYTES_MAX: usize = 64 << 10;

/// How long a connection stays whose client has sent nothing: drivers begin at once.
const FIRST_MESSAGE: Duration = Duration::from_secs(60);

/// How long a connection stays idle whose client has to log in and has not. Drivers watch a server by such connections:
/// they send something every ten seconds unless they are told otherwise.
const STRANGER_IDLE: Duration = Duration::from_secs(600);

/// Why a connection ends.
#[derive(Debug)]
pub enum End {
    /// The client closed it, or the server ends.
    Closed,
    /// It failed.
    Failed(io::Error),
    /// The client broke the protocol.
    Protocol(Error),
    /// A command panicked, which is a bug.
    Panicked,
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// One connection.
struct Conversation<'s> {
    server: &'s Server,
    session: &'s mut Session,
    channel: Channel,
    /// The number of the next reply.
    next_id: i32,
}

/// Answers requests until the connection ends, and says why it did.
pub fn serve(server: &Server, session: &mut Session, channel: Channel) -> End {
    let mut conversation = Conversation { server, session, channel, next_id: 1 };
    let mut frames = Frames::new(&server.messages);
    let mut is_first = true;
    loop {
        let stranger = server.settings.auth && conversation.session.logins.is_empty();
        let bytes_max = if stranger { STRANGER_BYTES_MAX } else { MESSAGE_BYTES_MAX };
        frames.limit_wait(match stranger {
            _ if is_first => Some(FIRST_MESSAGE),
            true => Some(STRANGER_IDLE),
            false => None,
        });
        is_first = false;
        let (header, body) = match frames.next(&mut conversation.channel, bytes_max) {
            Ok(Some(frame)) => frame,
            Ok(None) => return End::Closed,
            Err(Broken::Io(error)) => return End::Failed(error),
            Err(Broken::Protocol(error)) => return End::Protocol(error),
        };
        let network = &server.service.state().network;
        network.requests.fetch_add(1, Ordering::Relaxed);
        network.bytes_in.fetch_add(u64_of(header.len), Ordering::Relaxed);
        if let Err(end) = conversation.answer(header, body, None) {
            return end;
        }
        if server.topology.is_ending() {
            return End::Closed;
        }
        if conversation.session.carries_entries {
            return carry_entries(server, conversation.channel);
        }
    }
}

/// Hands the connection to the node, until it ends.
fn carry_entries(server: &Server, channel: Channel) -> End {
    let Some(replica) = server.replica() else { return End::Closed };
    match replica.node.serve(Box::new(channel)) {
        Ok(()) => End::Closed,
        Err(error) => End::Failed(io::Error::other(error.to_string())),
    }
}

impl Conversation<'_> {
    /// Answers a request. An error ends the connection.
    fn answer(&mut self, header: Header, body: &[u8], compressor: Option<Compressor>) -> Result<(), End> {
        match header.opcode {
            OpCode::Message => self.message(header, body, compressor),
            OpCode::Query => self.query(header, body, compressor),
            OpCode::Compressed => {
                let (opcode, compressor, plain) = decompress(body).map_err(End::Protocol)?;
                self.server.counters.compressed_in.add(1);
                let header = Header { len: HEADER_BYTES + plain.len(), opcode, ..header };
                self.answer(header, &plain, Some(compressor))
            }
            OpCode::GetMore => self.get_more(header, body, compressor),
            OpCode::Insert | OpCode::Update | OpCode::Delete | OpCode::KillCursors => {
                let request = Legacy::parse(header.opcode, body).map_err(End::Protocol)?;
                // Nobody waits for a reply.
                self.session.client.caller = None;
                writes::run(self.server, self.session, &request);
                Ok(())
            }
            OpCode::Reply => Err(End::Protocol(Error::new(ErrorCode::PROTOCOL_ERROR, "a client cannot send OP_REPLY"))),
        }
    }

    /// Answers an `OP_MSG`: once, or several times when the client allows that.
    fn message(&mut self, header: Header, body: &[u8], compressor: Option<Compressor>) -> Result<(), End> {
        let form = Form { compressor, checksum: false, more_to_come: false };
        let message = match Message::parse(&header, body) {
            Ok(message) => message,
            Err(error) => {
                self.reply(header.request_id, failed(&error).as_bytes(), form)?;
                // The next message can be read when only a document was wrong, or there were too many.
                let of_document = [
                    ErrorCode::INVALID_BSON,
                    ErrorCode::OVERFLOW,
                    ErrorCode::BSON_OBJECT_TOO_LARGE,
                    ErrorCode::INVALID_LENGTH,
                ];
                return if of_document.contains(&error.code()) { Ok(()) } else { Err(End::Protocol(error)) };
            }
        };
        let form = Form { checksum: message.checksum, ..form };
        let database = message.body.get("$db").and_then(|name| name.as_str()).unwrap_or_default();
        if database.is_empty() {
            let error = Error::new(ErrorCode::new(40_571), "OP_MSG requests require a $db argument");
            return Ok(self.reply(header.request_id, failed(&error).as_bytes(), form).map(drop)?);
        }
        self.session.client.caller = (!message.more_to_come).then(|| self.channel.caller());
        let (mut response_to, mut repeated): (i32, Option<DocumentBuf>) = (header.request_id, None);
        loop {
            let body = repeated.as_ref().map_or(message.body, DocumentBuf::view);
            let incoming = Incoming::new(database, body, &message.sequences);
            let Outcome::Reply(reply) = run(self.server, self.session, &incoming) else { return Err(End::Closed) };
            if message.more_to_come {
                return Ok(());
            }
            let document = Document::from_checked_bytes(&reply).unwrap_or(Document::empty());
            let following = message.exhaust_allowed.then(|| following(&incoming, document)).flatten();
            let form = Form { more_to_come: following.is_some(), ..form };
            response_to = self.reply(response_to, &reply, form)?;
            if following.is_none() {
                return Ok(());
            }
            if self.server.topology.is_ending() {
                return Err(End::Closed);
            }
            repeated = following;
        }
    }

    /// Answers an `OP_QUERY`.
    fn query(&mut self, header: Header, body: &[u8], compressor: Option<Compressor>) -> Result<(), End> {
        let query = match Query::parse(body) {
            Ok(query) => query,
            Err(error) if error.code() == ErrorCode::PROTOCOL_ERROR => return Err(End::Protocol(error)),
            Err(error) => return self.old_reply(header, &queries::failure(&error).view(), compressor),
        };
        self.session.client.caller = Some(self.channel.caller());
        match queries::run(self.server, self.session, &query) {
            Some(answer) => self.old_reply(header, &answer.view(), compressor),
            None => Err(End::Closed),
        }
    }

    /// Answers an `OP_GET_MORE`.
    fn get_more(&mut self, header: Header, body: &[u8], compressor: Option<Compressor>) -> Result<(), End> {
        let Legacy::GetMore { namespace, count, cursor } = Legacy::parse(header.opcode, body).map_err(End::Protocol)?
        else {
            return Ok(());
        };
        self.session.client.caller = Some(self.channel.caller());
        match queries::get_more(self.server, self.session, namespace, count, cursor) {
            Some(answer) => self.old_reply(header, &answer.view(), compressor),
            None => Err(End::Closed),
        }
    }

    /// Writes an `OP_MSG`; the number that it got.
    fn reply(&mut self, response_to: i32, document: &[u8], form: Form) -> io::Result<i32> {
        let id = self.take_id();
        self.outgoing().message(id, response_to, document, form)?;
        Ok(id)
    }

    /// Writes an `OP_REPLY`.
    fn old_reply(&mut self, header: Header, reply: &Reply<'_>, compressor: Option<Compressor>) -> Result<(), End> {
        debug_assert!(reply.flags & CURSOR_NOT_FOUND == 0 || reply.documents.is_empty());
        let bytes = reply.to_bytes(self.take_id(), header.request_id);
        Ok(self.outgoing().whole(bytes, compressor)?)
    }

    fn outgoing(&mut self) -> Outgoing<'_> {
        let (counters, network) = (&self.server.counters, &self.server.service.state().network);
        Outgoing { channel: &mut self.channel, counters, network }
    }

    fn take_id(&mut self) -> i32 {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        id
    }
}

/// The request that a client which allows several replies would send after a reply, if there is more to tell.
fn following(incoming: &Incoming<'_>, reply: Document<'_>) -> Option<DocumentBuf> {
    match incoming.name() {
        "hello" | "isMaster" | "ismaster" => handshake::next_request(incoming.body, reply),
        "getMore" => {
            let cursor = reply.get("cursor")?.as_document()?.get("id")?;
            let more = crate::base::fields::whole(&cursor).is_some_and(|id| id != 0);
            more.then(|| incoming.body.into())
        }
        _ => None,
    }
}
