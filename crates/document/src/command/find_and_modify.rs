//! The command `findAndModify`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::spec::{Field, FieldType, Target};
use super::state::Counters;
use super::writes::query;
use super::written::Written;
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::collection::find_and_modify::Action;
use crate::collection::{FindAndModify, FoundAndModified};
use crate::notes::Outcome;
use crate::path::Sort;
use crate::projection::{Projection, Use};
use crate::update::Update;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("findAndModify", Target::Collection, "Changes a document and returns it.", find_and_modify)
        .aliases(&["findandmodify"])
        .fields(&[
            Field::optional("query", FieldType::Object),
            Field::optional("sort", FieldType::Object),
            Field::optional("remove", FieldType::Bool),
            Field::optional("update", FieldType::Any),
            Field::optional("new", FieldType::Bool),
            Field::optional("fields", FieldType::Object),
            Field::optional("upsert", FieldType::Bool),
            Field::optional("bypassDocumentValidation", FieldType::Bool),
            Field::optional("bypassEmptyTsReplacement", FieldType::Bool),
            Field::optional("collation", FieldType::Object),
            Field::optional("arrayFilters", FieldType::Documents),
            Field::optional("hint", FieldType::Any),
            Field::optional("let", FieldType::Object),
            Field::optional("stmtId", FieldType::Int),
            Field::optional("sampleId", FieldType::Any),
        ])
        .needs_by(needs)
        .writes()
        .in_transactions()
        .stable()];

/// What the command needs: it finds, and removes, updates or inserts.
fn needs(call: &Call<'_>) -> Result<Need> {
    Ok(call.writes_need(match (call.is_set("remove"), call.is_set("upsert")) {
        (true, _) => &["find", "remove"],
        (false, true) => &["find", "update", "insert"],
        (false, false) => &["find", "update"],
    }))
}

fn check_options(call: &Call<'_>) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    match (call.value("update").is_some(), call.is_set("remove")) {
        (true, true) => invalid("Cannot specify both an update and remove=true"),
        (false, false) => invalid("Either an update or remove=true must be specified"),
        (false, true) if call.is_set("upsert") => invalid("Cannot specify both upsert=true and remove=true"),
        (false, true) if call.is_set("new") => {
            invalid("Cannot specify both new=true and remove=true; 'remove' always returns the deleted document")
        }
        (false, true) if call.value("arrayFilters").is_some() => invalid("Cannot specify arrayFilters and remove=true"),
        _ => Ok(()),
    }
}

fn compile(call: &Call<'_>) -> Result<FindAndModify> {
    let context = call.context()?;
    let mut query = query(call.document_or_empty("query"), call.request.body.get("hint"), &context)?;
    let sort = call.document("sort").filter(|sort| !sort.is_empty());
    query.sort = sort.map(|sort| Sort::parse(sort, context.collation.as_ref())).transpose()?;
    let fields = call.document("fields").filter(|fields| !fields.is_empty());
    query.projection = fields.map(|fields| Projection::parse(fields, Use::Find, &context)).transpose()?;
    let action = match call.value("update") {
        None => Action::Remove,
        Some(update) => Action::Update {
            update: Update::parse(update, call.array("arrayFilters"), &context)?,
            upsert: call.is_set("upsert"),
            return_new: call.is_set("new"),
        },
    };
    Ok(FindAndModify::new(query, action))
}

/// What the message of an error begins with that the running statement meets, as MongoDB has it.
const WHILE_RUNNING: &str = "Plan executor error during findAndModify :: caused by :: ";

fn find_and_modify(call: &Call<'_>) -> Result<Reply> {
    check_options(call)?;
    let counter = if call.is_set("remove") { &call.state.counters.delete } else { &call.state.counters.update };
    Counters::add(counter, 1);
    let target = Written { call, namespace: call.entry()?.0, options: call.write_options()? };
    let compiled = compile(call)?;
    let is_remove = matches!(compiled.action, Action::Remove);
    let Some(collection) = target.collection(call.is_set("upsert"))? else {
        return Ok(reply_of(shown(is_remove, &FoundAndModified::default()).view()));
    };
    let statement = call.long("stmtId").and_then(|id| i32::try_from(id).ok()).unwrap_or_default();
    let (outcome, before) = call.scoped.scope.run(&collection, target.options, statement, |txn| {
        let found = txn.find_and_modify(&collection, &compiled).map_err(|error| error.prefixed(WHILE_RUNNING))?;
        Ok(Outcome::Returned(shown(is_remove, &found)))
    })?;
    let Outcome::Returned(document) = outcome else {
        let what = "the statement with this number is of another command";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    };
    let mut reply = reply_of(document.view());
    if before {
        reply.append("retriedStmtId", statement);
    }
    Ok(reply)
}

fn reply_of(document: Document<'_>) -> Reply {
    let mut reply = Reply::with_buffer(Vec::with_capacity(document.as_bytes().len() + 64));
    reply.append_all(document);
    reply
}

/// The fields of the reply.
fn shown(is_remove: bool, found: &FoundAndModified) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.open_document("lastErrorObject");
    builder.append("n", i32::from(found.matched || found.upserted.is_some()));
    if !is_remove {
        builder.append("updatedExisting", found.matched);
    }
    if let Some(id) = &found.upserted {
        builder.append("upserted", id.view());
    }
    builder.close();
    match &found.value {
        Some(value) => builder.append("value", value),
        None => builder.append("value", Value::Null),
    };
    builder.finish()
}
