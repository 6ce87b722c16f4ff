//! Commands about the commands that run: `currentOp`, `killOp`, `top`, `lockInfo`, `connPoolStats`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::IdleCursor;
use super::generic;
use super::operations::Operation;
use super::parse::wrong_type;
use super::query_settings::shape_hash_of;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::date::to_iso;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::Namespace;
use crate::query::Filter;
use crate::session::SessionId;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("currentOp", Target::Value(&[]), "Lists the commands that run.", current_op)
        .any_fields()
        .needs_by(current_needs)
        .admin_only(),
    Command::new("killOp", Target::Value(&[]), "Ends a command that runs.", kill_op)
        .any_fields()
        .needs_by(kill_needs)
        .admin_only(),
    Command::new("top", Target::Value(&[]), "Tells how much time commands took on each collection.", top)
        .any_fields()
        .needs(&[Privilege::on_cluster("top")])
        .admin_only(),
    Command::new("connPoolStats", Target::Value(&[]), "Tells that there are no connections to other servers.", pools)
        .any_fields()
        .needs(&[Privilege::on_cluster("connPoolStats")]),
    Command::new("lockInfo", Target::Value(&[]), "Tells that there are no locks of collections to show.", lock_info)
        .fields(&[Field::optional("includeStorageEngineLocks", FieldType::Bool)])
        .needs(&[Privilege::on_cluster("serverStatus")])
        .admin_only(),
];

/// What `currentOp` needs: each client may see its own commands.
fn current_needs(call: &Call<'_>) -> Result<Need> {
    Ok(if call.is_set("$ownOps") { Need::NOTHING } else { Need::Action("inprog", On::Cluster) })
}

/// What `killOp` needs: each client may end its own commands.
fn kill_needs(call: &Call<'_>) -> Result<Need> {
    let id = call.request.body.get("op").and_then(|op| op.as_exact_i64());
    let is_own =
        |operation: &Operation| Some(i64::from(operation.id)) == id && operation.user == call.request.client.user;
    let own = call.state.operations.list().iter().any(is_own);
    Ok(if own { Need::NOTHING } else { Need::Action("killop", On::Cluster) })
}

fn current_op(call: &Call<'_>) -> Result<Reply> {
    let mut filter = DocumentBuilder::new();
    for element in call.request.body.elements().skip(1) {
        let name = element.name.to_str_lossy();
        let own = ["$all", "$ownOps", "$truncateOps"].contains(&&*name);
        if !own && !generic::FIELDS.iter().any(|field| field.name == name) {
            filter.append_element(&element);
        }
    }
    let filter = Filter::parse(filter.finish().view(), &call.context()?)?;
    let own = call.is_set("$ownOps");
    let mut reply = Reply::new();
    reply.open_array("inprog");
    for operation in call.state.operations.list() {
        let shown = shown(call, &operation);
        if (!own || operation.user == call.request.client.user) && filter.matches(shown.view())? {
            reply.push(&shown);
        }
    }
    reply.close();
    if call.state.write_gate.is_locked() {
        reply.append("fsyncLock", true);
        reply.append("info", "use db.fsyncUnlock() to terminate the fsync write/snapshot lock");
    }
    Ok(reply)
}

/// What kind of operation a command is.
pub(super) fn kind_of(name: &str) -> &'static str {
    match name {
        "find" => "query",
        "getMore" => "getmore",
        "insert" => "insert",
        "update" => "update",
        "delete" => "remove",
        _ => "command",
    }
}

/// The collection that a command is about, or what is shown in its place.
pub(super) fn target_of(command: Document<'_>) -> &str {
    let Some(first) = command.first() else { return "$cmd" };
    let none = if first.name == "aggregate" { "$cmd.aggregate" } else { "$cmd" };
    let collection = command.get("collection").and_then(|name| name.as_str()).filter(|_| first.name == "getMore");
    collection.or_else(|| first.value.as_str()).unwrap_or(none)
}

/// A command that runs as `currentOp` shows it.
pub(super) fn shown(call: &Call<'_>, operation: &Operation) -> DocumentBuf {
    let mut shown = DocumentBuilder::new();
    let elapsed = call.state.now_ms().saturating_sub(operation.started_ms).max(0);
    let command = operation.command.view();
    let name = command.first().map(|first| first.name.to_str_lossy().into_owned()).unwrap_or_default();
    let (kind, target) = (kind_of(&name), target_of(command));
    shown.append("type", "op").append("host", &super::host::name());
    shown.append("desc", &format!("conn{}", operation.connection));
    shown.append("connectionId", i64::try_from(operation.connection).unwrap_or(i64::MAX));
    shown.append("client", &operation.address);
    if let Some(application) = &operation.application {
        shown.append("appName", application);
    }
    shown.append("active", true).append("opid", operation.id);
    if let Some(session) = &operation.session {
        shown.open_document("lsid").append("id", Value::Binary(4, session)).close();
    }
    if let Some(user) = operation.user.as_deref().and_then(|user| user.split_once('.')) {
        shown.open_array("effectiveUsers").push_document().append("user", user.1).append("db", user.0).close().close();
    }
    shown.append("secs_running", elapsed / 1000).append("microsecs_running", elapsed.saturating_mul(1000));
    shown.append("op", kind).append("ns", &format!("{}.{target}", operation.database));
    if let Some(hash) = shape_hash_of(&operation.database, command) {
        shown.append("queryShapeHash", &hash);
    }
    shown.append("command", &operation.command).append("killPending", operation.interrupt.is_killed());
    if let (Some(Value::Bool(false)), Some(number)) = (command.get("autocommit"), command.get("txnNumber")) {
        let started_ms = call
            .state
            .sessions
            .open()
            .into_iter()
            .find(|(id, open, _)| operation.session == Some(id.uuid) && number.as_exact_i64() == Some(*open));
        append_transaction(call, &mut shown, number, started_ms.map_or(operation.started_ms, |(.., started)| started));
    }
    shown.finish()
}

/// Appends what is known of an open transaction.
fn append_transaction(call: &Call<'_>, shown: &mut DocumentBuilder, number: Value<'_>, started_ms: i64) {
    let open_ms = call.state.now_ms().saturating_sub(started_ms).max(0);
    shown.open_document("transaction").open_document("parameters");
    shown.append("txnNumber", number).append("autocommit", false).close();
    shown
        .append("startWallClockTime", &to_iso(started_ms))
        .append("timeOpenMicros", open_ms.saturating_mul(1000))
        .close();
}

/// A transaction that is open and in which no command runs.
pub(super) fn idle_session(call: &Call<'_>, id: &SessionId, number: i64, started_ms: i64) -> DocumentBuf {
    let mut shown = DocumentBuilder::new();
    shown.append("type", "idleSession").append("host", &super::host::name()).append("desc", "inactive transaction");
    shown.append("active", false).open_document("lsid").append("id", Value::Binary(4, &id.uuid)).close();
    if let Some((database, user)) = id.user.split_once('.') {
        shown.open_array("effectiveUsers").push_document().append("user", user).append("db", database).close().close();
    }
    append_transaction(call, &mut shown, Value::Int64(number), started_ms);
    shown.finish()
}

/// A cursor that is open and of which no batch is fetched.
pub(super) fn idle_cursor(cursor: &IdleCursor) -> DocumentBuf {
    let mut shown = DocumentBuilder::new();
    shown.append("type", "idleCursor").append("host", &super::host::name()).append("ns", &cursor.owner.namespace);
    if let Some(session) = &cursor.owner.session {
        shown.open_document("lsid").append("id", Value::Binary(4, session)).close();
    }
    shown.open_document("cursor").append("cursorId", cursor.id);
    shown.append("lastAccessDate", Value::DateTime(cursor.used_ms)).append("noCursorTimeout", cursor.no_timeout);
    shown.append("tailable", cursor.is_endless).append("awaitData", cursor.awaits_data);
    shown.append("originatingCommand", &cursor.command).close();
    shown.finish()
}

fn kill_op(call: &Call<'_>) -> Result<Reply> {
    let Some(op) = call.request.body.get("op") else {
        return Err(Error::new(ErrorCode::NO_SUCH_KEY, "Did not provide \"op\" field"));
    };
    if !op.kind().is_number() {
        return Err(wrong_type("killOp.op", &op, FieldType::Number.kinds()));
    }
    let Some(op) = op.as_exact_i64().and_then(|op| i32::try_from(op).ok()) else {
        return Err(Error::new(
            ErrorCode::new(26823),
            format!("invalid op : {op}. Op ID cannot be represented with 32 bits"),
        ));
    };
    call.state.operations.kill(op);
    let mut reply = Reply::new();
    reply.append("info", "attempting to kill op");
    Ok(reply)
}

fn top(call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    reply.open_document("totals").append("note", "all times in microseconds");
    let catalog = call.state.database.catalog();
    let exists = |name: &str| Namespace::parse(name).is_ok_and(|namespace| catalog.find(&namespace).is_some());
    call.state.usage.append_to(&mut reply, &exists);
    reply.close();
    Ok(reply)
}

fn pools(_call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    reply.append("numClientConnections", 0).append("numAScopedConnections", 0);
    for total in ["totalInUse", "totalAvailable", "totalLeased", "totalCreated", "totalRefreshing"] {
        reply.append(total, 0);
    }
    reply.open_document("pools").close().open_document("hosts").close();
    Ok(reply)
}

fn lock_info(_call: &Call<'_>) -> Result<Reply> {
    let mut reply = Reply::new();
    reply.open_array("lockInfo").close();
    Ok(reply)
}
