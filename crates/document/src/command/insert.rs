//! The command `insert`.

use super::call::{Call, Reply};
use super::commands::Command;
use super::reply::{append_write_errors, count};
use super::spec::{Field, FieldType, Target};
use super::state::Counters;
use super::statement_ids::StatementIds;
use super::written::check_target;
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Kind;
use crate::collection::InsertMany;

/// The most statements of one command of writes.
pub(super) const STATEMENTS_MAX: usize = 100_000;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[Command::new("insert", Target::Collection, "Inserts documents.", insert)
    .fields(&[
        Field::required("documents", FieldType::Documents),
        Field::optional("ordered", FieldType::StrictBool),
        Field::optional("bypassDocumentValidation", FieldType::Bool),
        Field::optional("bypassEmptyTsReplacement", FieldType::Bool),
        Field::optional("stmtId", FieldType::Int),
        Field::optional("stmtIds", FieldType::Array),
        Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
    ])
    .needs_by(|call| Ok(call.writes_need(&["insert"])))
    .writes()
    .in_transactions()
    .stable()];

/// Refuses no statements, and too many of them.
///
/// # Errors
/// `InvalidLength` (16).
pub(super) fn check_statements(count: usize) -> Result<()> {
    if (1..=STATEMENTS_MAX).contains(&count) {
        return Ok(());
    }
    let what = format!("Write batch sizes must be between 1 and {STATEMENTS_MAX}. Got {count} operations.");
    Err(Error::new(ErrorCode::INVALID_LENGTH, what))
}

fn insert(call: &Call<'_>) -> Result<Reply> {
    let documents = call.documents("documents");
    check_statements(documents.len())?;
    Counters::add(&call.state.counters.insert, u64_of(documents.len()));
    let (namespace, options) = (call.entry()?.0, call.write_options()?);
    let ordered = call.flag("ordered").unwrap_or(true);
    let ids = StatementIds::of(call, documents.len())?;
    let (inserted, before) = match check_target(&namespace).and_then(|()| call.collection_or_create(&namespace)) {
        Ok(collection) => {
            call.scoped.scope.insert(&collection, &documents, |at| ids.get(at), ordered, options, || call.check())?
        }
        // A view takes no documents, and a profile those of the profiler.
        Err(error) if error.code() == ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW || check_target(&namespace).is_err() => {
            (InsertMany { inserted: 0, errors: vec![(0, error)] }, Vec::new())
        }
        Err(error) => return Err(error),
    };
    if !inserted.errors.is_empty() {
        call.fail_transaction();
    }
    let mut reply = Reply::new();
    reply.append("n", count(u64_of(inserted.inserted)));
    append_write_errors(&mut reply, &inserted.errors);
    ids.append_retried(&mut reply, &before);
    Ok(reply)
}
