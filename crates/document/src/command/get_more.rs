//! The commands `getMore` and `killCursors`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::{Cursor, Owner};
use super::generic::GET_MORE;
use super::parse::wrong_type;
use super::spec::{Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::{DocumentBuilder, Kind, Value};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new(GET_MORE, Target::Value(&[Kind::Int64]), "Gives the next batch of a cursor.", get_more)
        .fields(&[
            Field::required("collection", FieldType::String),
            Field::optional("batchSize", FieldType::Long).at_least(0),
            Field::optional("term", FieldType::OneOf(&[Kind::Int64])),
            Field::optional("lastKnownCommittedOpTime", FieldType::Object),
            Field::optional("includeQueryStatsMetrics", FieldType::Bool),
        ])
        .needs_by(needs)
        .in_transactions()
        .stable(),
    Command::new("killCursors", Target::Collection, "Closes cursors.", kill_cursors)
        .fields(&[Field::required("cursors", FieldType::Array)])
        .needs_by(kill_needs)
        .in_transactions()
        .stable(),
];

/// What a batch needs: what the command needed that opened the cursor. The user may have lost it since.
fn needs(call: &Call<'_>) -> Result<Need> {
    let id = call.request.body.first().and_then(|first| first.value.as_exact_i64()).unwrap_or_default();
    let Some(owner) = call.state.cursors.owner(id) else { return Ok(Need::NOTHING) };
    Ok(owner.need.map_or(Need::NEVER, |need| Need::clone(&need)))
}

/// What `killCursors` needs: each client may close its own.
fn kill_needs(call: &Call<'_>) -> Result<Need> {
    let ids = call.array("cursors").into_iter().flatten().filter_map(|id| id.as_exact_i64());
    let all_own = ids.filter_map(|id| call.state.cursors.owner(id)).all(|owner| is_own(call, &owner));
    Ok(if all_own { Need::NOTHING } else { KILL_ANY })
}

/// What the end of the cursors of other users needs.
const KILL_ANY: Need = Need::Action("killAnyCursor", On::Cluster);

fn is_own(call: &Call<'_>, owner: &Owner) -> bool {
    owner.user == call.request.client.user
}

/// How long `getMore` waits for documents of an endless cursor when it does not say it, in milliseconds.
const AWAIT_MS: u64 = 1000;

fn get_more(call: &Call<'_>) -> Result<Reply> {
    let id = call.request.body.first().and_then(|first| first.value.as_exact_i64()).unwrap_or_default();
    let collection = call.text("collection").unwrap_or_default();
    if collection.is_empty() {
        let what = format!("Invalid namespace specified '{}.'", call.request.database);
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
    }
    let namespace = format!("{}.{collection}", call.request.database);
    let (environment, limits) = (call.state.database.environment(), call.state.cursor_limits());
    let owner = call.owner(&namespace);
    let mut cursor = call.state.cursors.take(id, &owner, &call.interrupt, &**environment, limits)?;
    let mut reply = DocumentBuilder::with_buffer(Vec::with_capacity(4096));
    reply.open_document("cursor").open_array("nextBatch");
    let finished = match next_batch(call, &mut cursor, &mut reply) {
        Ok(finished) => finished,
        // The cursor was not used, and stays open.
        Err(error) if error.code() == ErrorCode::BAD_VALUE && cursor_refused(call, &cursor) => {
            call.state.cursors.give_back(id, cursor, call.state.now_ms())?;
            return Err(error);
        }
        Err(error) => {
            let error = call.state.cursors.failed(id, error);
            return Err(error.prefixed("Executor error during getMore :: caused by :: "));
        }
    };
    reply.close();
    if let Some(token) = cursor.resume_token() {
        reply.append("postBatchResumeToken", &token);
    }
    if finished {
        call.state.cursors.remove(id);
    } else {
        call.state.cursors.give_back(id, cursor, call.state.now_ms())?;
    }
    reply.append("id", if finished { 0 } else { id }).append("ns", &namespace).close();
    Ok(reply)
}

/// Whether the command has a limit of time that the cursor does not take.
fn cursor_refused(call: &Call<'_>, cursor: &Cursor) -> bool {
    call.value("maxTimeMS").is_some() && !cursor.awaits_data
}

/// Fills the batch; whether the cursor is at its end.
fn next_batch(call: &Call<'_>, cursor: &mut Cursor, reply: &mut DocumentBuilder) -> Result<bool> {
    if cursor_refused(call, cursor) {
        return Err(Error::bad_value("cannot set maxTimeMS on getMore command for a non-awaitData cursor"));
    }
    if cursor.awaits_data {
        // It limits the wait.
        call.interrupt.limit(0);
    }
    let size = call.count("batchSize").filter(|size| *size > 0).unwrap_or(u64::MAX);
    let before = reply.len();
    let finished = cursor.fill(reply, size, || call.check())?;
    if !cursor.awaits_data || finished || reply.len() > before {
        cursor.left_ms = call.interrupt.left_ms();
        return Ok(finished);
    }
    let wait = if call.generic.max_time_ms > 0 { call.generic.max_time_ms } else { AWAIT_MS };
    let until = call.now_ms.saturating_add(i64::try_from(wait).unwrap_or(i64::MAX));
    let (environment, began_us) = (call.state.database.environment(), call.state.database.environment().monotonic_us());
    let waited = cursor.source.wait(until, &call.interrupt);
    call.interrupt.add_wait(environment.monotonic_us().saturating_sub(began_us));
    waited?;
    cursor.fill(reply, size, || call.check())
}

fn may_kill_any(call: &Call<'_>) -> bool {
    call.request.client.rights.is_some() && call.request.client.may(&KILL_ANY)
}

fn kill_cursors(call: &Call<'_>) -> Result<Reply> {
    let collection = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    if collection.is_empty() || collection.contains('\0') || collection.starts_with('.') {
        let what = format!("Invalid namespace specified '{}.{collection}'", call.request.database);
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
    }
    let mut ids = Vec::new();
    for (at, value) in (0..).zip(call.array("cursors").into_iter().flatten()) {
        match value {
            Value::Int64(id) => ids.push(id),
            value if value.is_nullish() => {}
            other => return Err(wrong_type(&format!("killCursors.cursors.{at}"), &other, &[Kind::Int64])),
        }
    }
    let (mut killed, mut missing) = (Vec::new(), Vec::new());
    for id in ids {
        let owner = call.state.cursors.owner(id);
        match owner {
            Some(owner) if !is_own(call, &owner) && !may_kill_any(call) => {
                let what = format!("not authorized to kill cursor {id}");
                return Err(Error::new(ErrorCode::UNAUTHORIZED, what));
            }
            Some(_) if call.state.cursors.remove(id) => killed.push(id),
            _ => missing.push(id),
        }
    }
    let mut reply = Reply::new();
    let none = Vec::new();
    for (name, ids) in
        [("cursorsKilled", &killed), ("cursorsNotFound", &missing), ("cursorsAlive", &none), ("cursorsUnknown", &none)]
    {
        reply.open_array(name);
        ids.iter().for_each(|id| {
            reply.push(*id);
        });
        reply.close();
    }
    Ok(reply)
}
