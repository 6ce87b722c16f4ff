//! The command `explain`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::generic;
use super::host;
use super::parse;
use super::request::Request;
use super::spec::{Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Kind};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("explain", Target::Value(&[Kind::Document]), "Tells how a command would be done.", explain)
        .fields(&[Field::optional("verbosity", FieldType::String)])
        .reads()
        .stable()];

fn explain(call: &Call<'_>) -> Result<Reply> {
    let body = call.request.body.first().and_then(|first| first.value.as_document()).unwrap_or(Document::empty());
    let verbosity = call.text("verbosity").unwrap_or("allPlansExecution");
    if !["queryPlanner", "executionStats", "allPlansExecution"].contains(&verbosity) {
        let what = format!("Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value.");
        return Err(Error::bad_value(what));
    }
    let name = body.first().map(|first| first.name.to_str_lossy()).unwrap_or_default();
    let command = call.table.find(&name).ok_or_else(|| {
        Error::new(ErrorCode::COMMAND_NOT_FOUND, format!("Explain failed due to unknown command: {name}"))
    })?;
    let request = Request { body, sequences: &[], ..call.request.clone() };
    let fields = parse::check(command, generic::FIELDS, &request)?;
    let inner = Call { command, request: &request, fields, executes: verbosity != "queryPlanner", ..call.clone() };
    let mut reply = call
        .table
        .explain(&inner)
        .unwrap_or_else(|| Err(Error::new(ErrorCode::ILLEGAL_OPERATION, format!("Cannot explain cmd: {name}"))))?;
    append_rest(call, body, &mut reply);
    Ok(reply)
}

/// Appends what is the same for all commands: the command, and the server.
pub(super) fn append_rest(call: &Call<'_>, body: Document<'_>, reply: &mut Reply) {
    reply.append("command", body);
    reply.open_document("serverInfo").append("host", &host::name()).append("port", 0);
    reply.append("version", &call.state.options.version).append("gitVersion", env!("CARGO_PKG_VERSION")).close();
    reply.open_document("serverParameters").close();
}
