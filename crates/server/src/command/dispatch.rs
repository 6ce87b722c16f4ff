//! The way of a command through the server: found, allowed, run, and its reply completed.

use std::time::Duration;

use spinney_document::base::num::u32_of;
use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::service::{failed, help};
use spinney_document::command::spec::Declaration;
use spinney_document::command::{Request, generic, parse};
use spinney_document::{Error, ErrorCode, Result};

use super::session::Session;
use super::spec::{Call, Incoming};
use super::{authorize, handshake, open_transaction, replica_documents, role, table};
use crate::base::fields::{truth, whole};
use crate::state::fail_points::{Loss, Place};
use crate::state::{Server, Standing};

/// How long an error that tells of a change of the member waits until the change is known to all.
const CHANGE: Duration = Duration::from_millis(500);

/// What becomes of a command.
#[derive(Debug)]
pub enum Outcome {
    /// The bytes of the reply, a document.
    Reply(Vec<u8>),
    /// The connection is closed without one.
    Close,
}

/// Runs a command of a connection.
pub fn run(server: &Server, session: &mut Session, incoming: &Incoming<'_>) -> Outcome {
    let failure = if server.settings.test_commands && incoming.name() != "configureFailPoint" {
        // A first hello tells the name itself.
        let client = incoming.body.get("client").and_then(|client| client.as_document());
        let application = session.client.application.as_deref().or_else(|| handshake::application(client?));
        server.fail_points.meet(incoming.name(), application)
    } else {
        None
    };
    let Some(failure) = failure else {
        let may_be_lost = server.settings.test_commands && place(incoming) == Place::RetryableWrite;
        if may_be_lost && server.fail_points.meet_write(Loss::Before, statements(incoming)) {
            return Outcome::Close;
        }
        let reply = run_command(server, session, incoming);
        let is_new = || reply.view().element("retriedStmtIds").is_none();
        if may_be_lost && is_new() && server.fail_points.meet_write(Loss::Behind, statements(incoming)) {
            return Outcome::Close;
        }
        return Outcome::Reply(completed(server, reply));
    };
    if let Some(time) = failure.block {
        server.ending.wait(time);
    }
    if failure.close {
        return Outcome::Close;
    }
    let reply = match failure.code {
        Some(code) => failure.reply(code, place(incoming)),
        None => run_command(server, session, incoming),
    };
    let reply = match &failure.write_concern_error {
        Some(error) => with_write_concern_error(&reply, error, &failure.labels_behind_write(place(incoming))),
        None => reply,
    };
    Outcome::Reply(completed(server, reply))
}

/// How many statements a write has.
fn statements(incoming: &Incoming<'_>) -> usize {
    let name = match incoming.name() {
        "insert" => "documents",
        "update" => "updates",
        "delete" => "deletes",
        "bulkWrite" => "ops",
        _ => return 1,
    };
    let sent_apart = incoming.sequences.iter().find(|(sequence, _)| *sequence == name);
    match sent_apart {
        Some((_, statements)) => statements.len(),
        None => incoming.body.get(name).and_then(|array| array.as_array()).map_or(1, |array| array.count()),
    }
}

/// Where a command runs.
fn place(incoming: &Incoming<'_>) -> Place {
    let has = |name: &str| incoming.body.element(name).is_some();
    match incoming.name() {
        "commitTransaction" | "abortTransaction" => Place::EndOfTransaction,
        _ if has("autocommit") => Place::Transaction,
        _ if has("txnNumber") => Place::RetryableWrite,
        _ => Place::Alone,
    }
}

fn run_command(server: &Server, session: &mut Session, incoming: &Incoming<'_>) -> DocumentBuf {
    let reply = try_run(server, session, incoming).unwrap_or_else(|error| failed(&error));
    if server.replica().is_none() {
        return reply;
    }
    let code = reply.view().get("code").as_ref().and_then(whole).and_then(|code| i32::try_from(code).ok());
    if code.is_some_and(|code| ErrorCode::new(code).is_of_the_server()) {
        return with_version(server, &reply);
    }
    reply
}

fn try_run(server: &Server, session: &mut Session, incoming: &Incoming<'_>) -> Result<DocumentBuf> {
    let name = incoming.name();
    if server.settings.test_commands {
        fail_on_purpose(server, incoming)?;
    }
    let Some(command) = table::find(name, server.settings.test_commands) else {
        return run_of_library(server, session, incoming);
    };
    if !command.declaration().everywhere && incoming.database != "admin" {
        let what = format!("{name} may only be run against the admin database.");
        return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
    }
    if incoming.body.get("help").as_ref().and_then(truth) == Some(true) {
        return Ok(help(command.declaration()));
    }
    authorize::check(server, session, incoming, command.declaration(), Some(command.command.needs))?;
    role::check(server, incoming, command.declaration(), place)?;
    parse::check(command.declaration(), generic::FIELDS, &request(session, incoming))?;
    let mut call =
        Call { server, session, database: incoming.database, name, body: incoming.body, sequences: incoming.sequences };
    let mut reply = (command.command.run)(&mut call)?;
    reply.append("ok", 1.0);
    Ok(reply.finish())
}

/// Fails a command that a fail point is about: one whose time is limited, or one that fetches a batch of a cursor.
fn fail_on_purpose(server: &Server, incoming: &Incoming<'_>) -> Result<()> {
    let cursors = &server.service.state().cursors;
    let id = incoming.body.get("getMore").filter(|_| incoming.name() == "getMore");
    let cursor = id.as_ref().and_then(whole).filter(|id| cursors.owner(*id).is_some());
    let limited = || {
        let time = incoming.body.get("maxTimeMS").as_ref().and_then(whole);
        time.is_some_and(|time| time > 0) || cursor.is_some_and(|id| cursors.is_limited(id))
    };
    let (code, what) = if limited() && server.fail_points.times_out() {
        (ErrorCode::MAX_TIME_MS_EXPIRED, "operation exceeded time limit")
    } else if cursor.is_some()
        && let Some(code) = server.fail_points.meet_cursor()
    {
        (ErrorCode::new(code), "Failing getMore via 'failGetMoreAfterCursorCheckout' failpoint")
    } else {
        return Ok(());
    };
    let error = Error::new(code, what);
    Err(match cursor {
        Some(id) => cursors.failed(id, error),
        None => error,
    })
}

/// Runs a command of the library, as far as the member's part in its replica set lets it.
fn run_of_library(server: &Server, session: &mut Session, incoming: &Incoming<'_>) -> Result<DocumentBuf> {
    let Some(declared) = server.service.command(incoming.name()) else {
        return Ok(server.service.run(&request(session, incoming)));
    };
    authorize::check(server, session, incoming, declared, None)?;
    role::check(server, incoming, declared, place)?;
    role::wait_to_read(server, incoming)?;
    let reply = match replica_documents::is_read(incoming) {
        true => replica_documents::read(server, incoming, |read| server.service.run(&request(session, read))),
        false => within_the_transaction(server, session, incoming, declared)?,
    };
    let reply = replica_documents::with_section(server, incoming, reply);
    Ok(match role::wait_for_members(server, &request(session, incoming), reply.view()) {
        Some(error) => with_write_concern_error(&reply, &error, &[]),
        None => reply,
    })
}

/// Runs a command of the library, within the connection's transaction if it has one.
fn within_the_transaction(
    server: &Server,
    session: &mut Session,
    incoming: &Incoming<'_>,
    declared: &Declaration,
) -> Result<DocumentBuf> {
    if let Some(reply) = open_transaction::commit(&server.service, session, incoming) {
        return Ok(reply);
    }
    match open_transaction::run(&server.service, session, incoming, declared)? {
        Some(reply) => Ok(reply),
        None => Ok(server.service.run(&request(session, incoming))),
    }
}

fn request<'a>(session: &'a Session, incoming: &Incoming<'a>) -> Request<'a> {
    Request { database: incoming.database, body: incoming.body, sequences: incoming.sequences, client: &session.client }
}

/// An error that tells of a change of the member, with the version of the topology: a driver that has heard of the
/// change keeps what it knows.
fn with_version(server: &Server, reply: &DocumentBuf) -> DocumentBuf {
    let topology = &server.topology;
    let version = topology.version();
    if topology.standing() == Standing::Primary {
        // A commit hears first that the member is no more primary.
        topology.wait_for_change(version, CHANGE);
    }
    let mut builder = DocumentBuilder::new();
    builder.append_all(reply.view()).open_document("topologyVersion");
    builder.append("processId", topology.process()).append("counter", topology.version()).close();
    builder.finish()
}

/// The reply with a `writeConcernError`.
fn with_write_concern_error(reply: &DocumentBuf, error: &DocumentBuf, labels: &[String]) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.append_all(reply.view()).append("writeConcernError", error);
    if !labels.is_empty() {
        builder.open_array("errorLabels");
        for label in labels {
            builder.push(label);
        }
        builder.close();
    }
    builder.finish()
}

/// The bytes of the reply with the time that each reply of a replica set carries.
fn completed(server: &Server, reply: DocumentBuf) -> Vec<u8> {
    if server.topology.set().is_none() {
        return reply.into_bytes();
    }
    let mut more = DocumentBuilder::new();
    let time = server.cluster_time();
    if reply.view().element("$clusterTime").is_none() {
        more.open_document("$clusterTime").append("clusterTime", time).open_document("signature");
        more.append("hash", Value::Binary(0, &[0; 20])).append("keyId", 0_i64).close().close();
    }
    if reply.view().element("operationTime").is_none() {
        more.append("operationTime", time);
    }
    with_fields(reply, more.finish().view())
}

/// The bytes of a document with the fields of another behind its own.
fn with_fields(document: DocumentBuf, more: Document<'_>) -> Vec<u8> {
    let (mut bytes, more) = (document.into_bytes(), more.as_bytes());
    bytes.pop();
    bytes.extend_from_slice(more.get(4..).unwrap_or_default());
    let len = u32_of(bytes.len()).to_le_bytes();
    bytes[..4].copy_from_slice(&len);
    bytes
}
