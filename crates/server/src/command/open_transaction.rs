//! Transactions of a connection, as TokuMX had them: `beginTransaction`, then any commands, then `commitTransaction` or
//! `rollbackTransaction`, without sessions. Each is a transaction of a session that only this connection has.

use spinney_document::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use spinney_document::command::spec::{Access, Declaration};
use spinney_document::command::{Request, Service};
use spinney_document::{Error, ErrorCode, Result};

use super::session::{OpenTransaction, Session};
use super::spec::{Call, Incoming};
use crate::auth::credentials::random_bytes;
use crate::base::fields::whole;

/// Fields that commands of a transaction may not have: the commit decides about them.
const STRIPPED: [&str; 6] = ["lsid", "txnNumber", "autocommit", "startTransaction", "writeConcern", "readConcern"];

/// The number of the only transaction of a session.
const NUMBER: i64 = 1;

/// `beginTransaction`: the isolation is that of snapshots, which TokuMX calls `mvcc`.
///
/// # Errors
/// `BadValue` (2) for another isolation, `IllegalOperation` (20) when one has begun already.
pub fn begin(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    match call.fields().text("isolation")? {
        None | Some("mvcc") => {}
        Some(other) => {
            let what = format!("there is no isolation '{other}' of transactions: the only one is 'mvcc'");
            return Err(Error::bad_value(what));
        }
    }
    if call.session.transaction.is_some() {
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, "a transaction of this connection has begun already"));
    }
    let session = random_bytes(16)?.try_into().unwrap_or_default();
    call.session.transaction = Some(OpenTransaction { session, started: false });
    let mut reply = DocumentBuilder::new();
    reply.append("status", "transaction began");
    Ok(reply)
}

/// `rollbackTransaction`.
///
/// # Errors
/// `NoSuchTransaction` (251) without one.
pub fn roll_back(call: &mut Call<'_>) -> Result<DocumentBuilder> {
    if !end(&call.server.service, call.session) {
        return Err(Error::new(ErrorCode::NO_SUCH_TRANSACTION, "no transaction of this connection has begun"));
    }
    let mut reply = DocumentBuilder::new();
    reply.append("status", "transaction rolled back");
    Ok(reply)
}

/// Ends the transaction of a connection without its changes, if it has one; whether it had.
pub fn end(service: &Service, session: &mut Session) -> bool {
    let Some(transaction) = session.transaction.take() else { return false };
    if transaction.started {
        // A transaction that a failed statement has ended is gone already.
        drop(run_in(service, session, transaction, "abortTransaction"));
    }
    true
}

/// Runs `commitTransaction` of a client that tells no session; nothing when the connection has no transaction.
pub fn commit(service: &Service, session: &mut Session, incoming: &Incoming<'_>) -> Option<DocumentBuf> {
    if incoming.name() != "commitTransaction" || incoming.body.element("lsid").is_some() {
        return None;
    }
    let transaction = session.transaction.take()?;
    if transaction.started {
        return Some(run_in(service, session, transaction, "commitTransaction"));
    }
    let mut reply = DocumentBuilder::new();
    reply.append("status", "transaction committed").append("ok", 1.0);
    Some(reply.finish())
}

fn run_in(service: &Service, session: &Session, transaction: OpenTransaction, name: &str) -> DocumentBuf {
    let mut command = DocumentBuilder::new();
    command.append(name, 1);
    append_to(transaction, &mut command);
    let command = command.finish();
    let reply =
        service.run(&Request { database: "admin", body: command.view(), sequences: &[], client: &session.client });
    let mut end = DocumentBuilder::new();
    end.open_array("endSessions").push_document();
    end.append("id", Value::Binary(4, &transaction.session)).close().close();
    let end = end.finish();
    drop(service.run(&Request { database: "admin", body: end.view(), sequences: &[], client: &session.client }));
    reply
}

/// Runs a command within the connection's transaction; nothing when it has none, or the command is about no documents.
///
/// # Errors
/// `OperationNotSupportedInTransaction` (263) for a command that a transaction cannot contain.
pub fn run(
    service: &Service,
    session: &mut Session,
    incoming: &Incoming<'_>,
    declared: &Declaration,
) -> Result<Option<DocumentBuf>> {
    if session.transaction.is_none() {
        return Ok(None);
    }
    let of_session = incoming.body.element("lsid").is_some() && incoming.body.element("txnNumber").is_some();
    if of_session {
        return Ok(None);
    }
    if declared.name == "count" {
        return Ok(Some(count(service, session, incoming)));
    }
    if declared.in_transaction {
        let body = within(session, incoming.body);
        return Ok(Some(run_body(service, session, incoming, body.view())));
    }
    if declared.access == Access::Neither {
        return Ok(None);
    }
    let what = format!("Cannot run '{}' in a multi-document transaction.", declared.name);
    Err(Error::new(ErrorCode::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, what))
}

fn run_body(service: &Service, session: &Session, incoming: &Incoming<'_>, body: Document<'_>) -> DocumentBuf {
    let (database, sequences) = (incoming.database, incoming.sequences);
    service.run(&Request { database, body, sequences, client: &session.client })
}

/// The command as one of the connection's transaction.
fn within(session: &mut Session, body: Document<'_>) -> DocumentBuf {
    let mut command = DocumentBuilder::with_buffer(Vec::with_capacity(body.as_bytes().len() + 128));
    for element in body.elements() {
        if !STRIPPED.iter().any(|name| element.name == *name) {
            command.append_element(&element);
        }
    }
    if let Some(transaction) = &mut session.transaction {
        append_to(*transaction, &mut command);
        if !transaction.started {
            command.append("startTransaction", true);
            transaction.started = true;
        }
    }
    command.finish()
}

/// `count` as the pipeline that counts, as a transaction contains pipelines and no counts.
fn count(service: &Service, session: &mut Session, incoming: &Incoming<'_>) -> DocumentBuf {
    let body = incoming.body;
    let mut command = DocumentBuilder::new();
    command.append("aggregate", body.first().map_or(Value::Null, |first| first.value));
    command.open_array("pipeline");
    let query = body.get("query").and_then(|query| query.as_document()).unwrap_or(Document::empty());
    command.push_document().append("$match", query).close();
    let number = |name: &str| body.get(name).as_ref().and_then(whole).map(i64::saturating_abs).filter(|n| *n > 0);
    for (name, stage) in [("skip", "$skip"), ("limit", "$limit")] {
        if let Some(number) = number(name) {
            command.push_document().append(stage, number).close();
        }
    }
    command.push_document().append("$count", "n").close().close().append("cursor", Document::empty());
    for element in ["hint", "collation", "comment"].iter().filter_map(|name| body.element(name)) {
        command.append_element(&element);
    }
    let command = within(session, command.finish().view());
    let reply = run_body(service, session, incoming, command.view());
    let Some(cursor) = reply.view().get("cursor").and_then(|cursor| cursor.as_document()) else { return reply };
    let first = cursor.get("firstBatch").and_then(|batch| batch.as_array()?.get(0)?.as_document()?.get("n"));
    let mut counted = DocumentBuilder::new();
    counted.append("n", first.unwrap_or(Value::Int32(0))).append("ok", 1.0);
    counted.finish()
}

fn append_to(transaction: OpenTransaction, command: &mut DocumentBuilder) {
    command.open_document("lsid").append("id", Value::Binary(4, &transaction.session)).close();
    command.append("txnNumber", NUMBER).append("autocommit", false);
}
