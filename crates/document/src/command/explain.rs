//! The command `explain`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::generic;
use super::host;
use super::needs::of_call;
use super::parse;
use super::request::Request;
use super::spec::{Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::{Document, Kind};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("explain", Target::Value(&[Kind::Document]), "Tells how a command would be done.", explain)
        .fields(&[Field::optional("verbosity", FieldType::String)])
        .needs_by(needs)
        .reads()
        .stable()];

fn explain(call: &Call<'_>) -> Result<Reply> {
    let verbosity = call.text("verbosity").unwrap_or("allPlansExecution");
    if !["queryPlanner", "executionStats", "allPlansExecution"].contains(&verbosity) {
        let what = format!("Enumeration value '{verbosity}' for field 'explain.verbosity' is not a valid value.");
        return Err(Error::bad_value(what));
    }
    with_inner(call, verbosity != "queryPlanner", |inner| {
        let mut reply = call.table.explain(inner).unwrap_or_else(|| {
            let what = format!("Cannot explain cmd: {}", inner.command.name);
            Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what))
        })?;
        append_rest(call, inner.request.body, &mut reply);
        Ok(reply)
    })
}

/// What the command within needs.
fn needs(call: &Call<'_>) -> Result<Need> {
    with_inner(call, false, |inner| match inner.command.name == call.command.name {
        true => Ok(Need::NEVER),
        false => of_call(inner),
    })
}

/// Calls a function with the command that is explained.
fn with_inner<T>(call: &Call<'_>, executes: bool, run: impl FnOnce(&Call<'_>) -> Result<T>) -> Result<T> {
    let body = call.request.body.first().and_then(|first| first.value.as_document()).unwrap_or(Document::empty());
    let name = body.first().map(|first| first.name.to_str_lossy()).unwrap_or_default();
    let command = call.table.find(&name).ok_or_else(|| {
        Error::new(ErrorCode::COMMAND_NOT_FOUND, format!("Explain failed due to unknown command: {name}"))
    })?;
    let request = Request { body, sequences: &[], ..call.request.clone() };
    let fields = parse::check(command, generic::FIELDS, &request)?;
    run(&Call { command, request: &request, fields, executes, ..call.clone() })
}

/// Appends what is the same for all commands: the command, and the server.
pub(super) fn append_rest(call: &Call<'_>, body: Document<'_>, reply: &mut Reply) {
    reply.append("command", body);
    reply.open_document("serverInfo").append("host", &host::name()).append("port", 0);
    reply.append("version", &call.state.options.version).append("gitVersion", env!("CARGO_PKG_VERSION")).close();
    reply.open_document("serverParameters").close();
}
