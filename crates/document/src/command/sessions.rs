//! The commands of sessions and transactions.

use std::collections::HashSet;
use std::sync::Arc;

use super::call::{Call, Reply};
use super::commands::Command;
use super::generic::session_id;
use super::parse::wrong_type;
use super::scoped::close_cursors;
use super::spec::{Field, FieldType, Privilege, Target};
use super::writes::check_fields;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Kind, Value};
use crate::session::{Session, SessionId};

/// What may stand in the place of a command's own value.
const ANY: Target = Target::Value(&[]);

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("startSession", ANY, "Begins a session.", start_session).any_fields().needs_login(),
    Command::new("endSessions", Target::Value(&[Kind::Array]), "Ends sessions.", end_sessions).needs_login().stable(),
    Command::new("refreshSessions", Target::Value(&[Kind::Array]), "Keeps sessions.", refresh_sessions)
        .needs_login()
        .stable(),
    Command::new("killSessions", Target::Value(&[Kind::Array]), "Ends what runs in sessions.", kill_sessions)
        .any_fields()
        .needs_login(),
    Command::new("killAllSessions", Target::Value(&[Kind::Array]), "Ends what runs in users' sessions.", kill_all)
        .any_fields()
        .needs(&[Privilege::on_cluster("killAnySession")]),
    Command::new(
        "killAllSessionsByPattern",
        Target::Value(&[Kind::Array]),
        "Ends what runs in sessions that match.",
        kill_by_pattern,
    )
    .needs(&[Privilege::on_cluster("killAnySession")]),
    Command::new("commitTransaction", ANY, "Commits a transaction.", commit)
        .needs_login()
        .fields(&[Field::optional("recoveryToken", FieldType::Object)])
        .writes()
        .in_transactions()
        .admin_only()
        .stable(),
    Command::new("abortTransaction", ANY, "Ends a transaction without its writes.", abort)
        .needs_login()
        .fields(&[Field::optional("recoveryToken", FieldType::Object)])
        .writes()
        .in_transactions()
        .admin_only()
        .stable(),
];

/// The fields that name a user.
const USER_FIELDS: &[Field] = &[Field::required("user", FieldType::String), Field::required("db", FieldType::String)];

/// Minutes after which a session ends that is not used.
const TIMEOUT_MINUTES: i32 = 30;

fn user(call: &Call<'_>) -> String {
    call.request.client.user.clone().unwrap_or_default()
}

fn start_session(call: &Call<'_>) -> Result<Reply> {
    let environment = call.state.database.environment();
    let bits = u128::from(environment.random()) << 64 | u128::from(environment.random());
    // Version 4, variant 1.
    let bits = bits & !(0xF << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let id = SessionId { uuid: bits.to_be_bytes(), user: user(call) };
    call.state.sessions.enter(&id, call.now_ms);
    let mut reply = Reply::new();
    reply.open_document("id").append("id", Value::Binary(4, &id.uuid)).close();
    reply.append("timeoutMinutes", TIMEOUT_MINUTES);
    Ok(reply)
}

/// The sessions that the command lists.
fn listed(call: &Call<'_>) -> Result<Vec<SessionId>> {
    let values = call.request.body.first().and_then(|first| first.value.as_array());
    let mut ids = Vec::new();
    for (at, value) in (0..).zip(values.into_iter().flatten()) {
        let name = call.command.name;
        let Some(session) = value.as_document() else {
            return Err(wrong_type(&format!("{name}.{name}.{at}"), &value, &[Kind::Document]));
        };
        ids.push(SessionId { uuid: session_id(session)?, user: user(call) });
    }
    Ok(ids)
}

fn end_sessions(call: &Call<'_>) -> Result<Reply> {
    let ids = listed(call)?;
    let ended = call.state.sessions.end(|id| ids.contains(id));
    close_all(call, &ended);
    Ok(Reply::new())
}

fn refresh_sessions(call: &Call<'_>) -> Result<Reply> {
    for id in listed(call)? {
        call.state.sessions.enter(&id, call.now_ms);
    }
    Ok(Reply::new())
}

fn kill_sessions(call: &Call<'_>) -> Result<Reply> {
    let ids = listed(call)?;
    // Without a session all of the user's are meant.
    let user = user(call);
    kill(call, |id| if ids.is_empty() { id.user == user } else { ids.contains(id) });
    Ok(Reply::new())
}

fn kill_all(call: &Call<'_>) -> Result<Reply> {
    let values = call.request.body.first().and_then(|first| first.value.as_array());
    let mut users = Vec::new();
    for (at, value) in (0..).zip(values.into_iter().flatten().filter(|value| !value.is_nullish())) {
        let name = "killAllSessions.killAllSessions";
        let Some(user) = value.as_document() else {
            return Err(wrong_type(&format!("{name}.{at}"), &value, &[Kind::Document]));
        };
        let fields = check_fields(name, USER_FIELDS, user)?;
        let text = |name| fields.get(name).and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default();
        users.push(format!("{}.{}", text("db"), text("user")));
    }
    kill(call, |id| users.is_empty() || users.contains(&id.user));
    Ok(Reply::new())
}

fn kill_by_pattern(call: &Call<'_>) -> Result<Reply> {
    let values = call.request.body.first().and_then(|first| first.value.as_array());
    let mut patterns: HashSet<Option<[u8; 16]>> = HashSet::new();
    for value in values.into_iter().flatten() {
        let pattern = value.as_document().ok_or_else(|| {
            Error::new(ErrorCode::TYPE_MISMATCH, "killAllSessionsByPattern takes an array of documents")
        })?;
        if let Some(other) = pattern.elements().find(|element| element.name != "lsid") {
            let what = format!("a pattern of sessions by '{}' is not supported", other.name);
            return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what));
        }
        patterns.insert(pattern.get("lsid").and_then(|lsid| lsid.as_document()).map(session_id).transpose()?);
    }
    let is_meant =
        |id: &SessionId| patterns.is_empty() || patterns.contains(&None) || patterns.contains(&Some(id.uuid));
    kill(call, is_meant);
    Ok(Reply::new())
}

/// Ends the transactions, cursors and commands of sessions.
fn kill(call: &Call<'_>, is_meant: impl Fn(&SessionId) -> bool) {
    let own = call.interrupt.clone();
    call.state.operations.kill_where(|operation| {
        !Arc::ptr_eq(&operation.interrupt, &own)
            && operation
                .session
                .is_some_and(|uuid| is_meant(&SessionId { uuid, user: operation.user.clone().unwrap_or_default() }))
    });
    let killed = call.state.sessions.kill(is_meant);
    close_all(call, &killed);
}

/// Closes the cursors of sessions.
fn close_all(call: &Call<'_>, ids: &[SessionId]) {
    let ids: HashSet<&SessionId> = ids.iter().collect();
    call.state.cursors.remove_where(|owner| {
        owner
            .session
            .is_some_and(|uuid| ids.contains(&SessionId { uuid, user: owner.user.clone().unwrap_or_default() }))
    });
}

/// The session and the number of the transaction that is to end.
fn transaction<'c>(call: &'c Call<'_>) -> Result<(&'c Session, i64)> {
    match (&call.scoped.session, call.generic.txn_number, call.generic.autocommit) {
        (Some(session), Some(number), Some(false)) => Ok((session, number)),
        (None, ..) | (_, None, _) => {
            let what = format!("{} must be run within a transaction", call.command.name);
            Err(Error::new(ErrorCode::COMMAND_FAILED, what))
        }
        _ => {
            let what = "txnNumber may only be provided for multi-document transactions and retryable write commands. \
                        autocommit:false was not provided";
            Err(Error::new(ErrorCode::new(50768), what))
        }
    }
}

fn commit(call: &Call<'_>) -> Result<Reply> {
    let (session, number) = transaction(call)?;
    let durability = call.write_options()?.durability;
    let done = call.state.sessions.commit(session, number, durability);
    close_cursors(call, session, |of| of == number);
    done.map(|()| Reply::new())
}

fn abort(call: &Call<'_>) -> Result<Reply> {
    let (session, number) = transaction(call)?;
    let done = call.state.sessions.abort(session, number);
    close_cursors(call, session, |of| of == number);
    done.map(|()| Reply::new())
}
