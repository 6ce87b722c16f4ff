//! How `update`, `delete` and `findAndModify` are explained. Nothing is changed: an update runs in a transaction that
//! is rolled back.

use super::call::{Call, Reply};
use super::commands::Run;
use super::explained::{Write, explain_write};
use super::writes::{DeleteSpec, UpdateSpec, query, with_collation};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Document;
use crate::collection::UpdateResult;
use crate::path::Sort;

/// The functions that explain the commands with these names.
pub(super) const EXPLAINED: &[(&str, Run)] =
    &[("update", update), ("delete", delete), ("findAndModify", find_and_modify)];

/// The only statement of a command that is explained.
fn only_statement<'r>(call: &Call<'r>, field: &str) -> Result<Document<'r>> {
    match &call.documents(field)[..] {
        [one] => Ok(*one),
        _ => {
            let what = "explained write batches must be of size 1";
            Err(Error::new(ErrorCode::INVALID_LENGTH, what))
        }
    }
}

fn update(call: &Call<'_>) -> Result<Reply> {
    let spec = UpdateSpec::parse(only_statement(call, "updates")?)?;
    let context = call.context()?;
    let compiled = spec.compile(&context)?;
    let context = with_collation(&context, spec.collation)?;
    let (namespace, _) = call.entry()?;
    let mut result = UpdateResult::default();
    if call.executes
        && let Some(collection) = call.state.database.collection(namespace.as_str())?
    {
        let mut txn = call.state.database.begin();
        result = txn.update(&collection, &compiled)?;
        drop(txn);
    }
    let mut asked = query(spec.filter, spec.hint, &context)?;
    let sort = spec.sort.filter(|sort| !sort.is_empty());
    asked.sort = sort.map(|sort| Sort::parse(sort, context.collation.as_ref())).transpose()?;
    asked.limit = (!spec.multi).then_some(1);
    let counts = [
        ("nMatched", result.matched),
        ("nWouldModify", result.modified),
        ("nWouldUpsert", u64::from(result.upserted.is_some())),
    ];
    explain_write(call, asked, Write { stage: "UPDATE", filter: spec.filter, counts: &counts, deletes: false })
}

fn delete(call: &Call<'_>) -> Result<Reply> {
    let spec = DeleteSpec::parse(only_statement(call, "deletes")?)?;
    let context = call.context()?;
    let mut asked = query(spec.filter, spec.hint, &*with_collation(&context, spec.collation)?)?;
    asked.limit = (!spec.multi).then_some(1);
    explain_write(call, asked, Write { stage: "DELETE", filter: spec.filter, counts: &[], deletes: true })
}

fn find_and_modify(call: &Call<'_>) -> Result<Reply> {
    let (filter, context) = (call.document_or_empty("query"), call.context()?);
    if call.is_set("remove") == call.value("update").is_some() {
        let what = "Either an update or remove=true must be specified, and not both";
        return Err(Error::new(ErrorCode::FAILED_TO_PARSE, what));
    }
    let mut asked = query(filter, call.value("hint"), &context)?;
    let sort = call.document("sort").filter(|sort| !sort.is_empty());
    asked.sort = sort.map(|sort| Sort::parse(sort, context.collation.as_ref())).transpose()?;
    asked.limit = Some(1);
    let deletes = call.is_set("remove");
    let stage = if deletes { "DELETE" } else { "UPDATE" };
    explain_write(call, asked, Write { stage, filter, counts: &[], deletes })
}
