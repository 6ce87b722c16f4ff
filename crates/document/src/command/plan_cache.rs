//! Commands about a cache of plans, which there is none of: a plan is chosen anew for each query.

use super::call::{Call, Reply};
use super::commands::Command;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::path::Sort;
use crate::projection::{Projection, Use};
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("planCacheClear", Target::Collection, "Has no plans to forget.", clear)
        .fields(SHAPE)
        .needs(&[Privilege::on_collection("planCacheWrite")]),
    Command::new("planCacheClearFilters", Target::Collection, "Has no index filters to forget.", clear)
        .fields(SHAPE)
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
    Command::new("planCacheListFilters", Target::Collection, "Lists index filters, of which there are none.", list)
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
    Command::new("planCacheSetFilter", Target::Collection, "Would limit the indexes of a query.", set)
        .fields(&[
            Field::required("query", FieldType::Object),
            Field::optional("sort", FieldType::Object),
            Field::optional("projection", FieldType::Object),
            Field::optional("collation", FieldType::Object),
            Field::required("indexes", FieldType::Array),
        ])
        .needs(&[Privilege::on_collection("planCacheIndexFilter")]),
];

/// The shape of a query.
const SHAPE: &[Field] = &[
    Field::optional("query", FieldType::Object),
    Field::optional("sort", FieldType::Object),
    Field::optional("projection", FieldType::Object),
    Field::optional("collation", FieldType::Object),
];

/// Refuses a shape that no query has.
fn check_shape(call: &Call<'_>) -> Result<()> {
    let context = call.context()?;
    if call.document("query").is_none()
        && let Some(other) = ["sort", "projection", "collation"].iter().find(|name| call.document(name).is_some())
    {
        let what = format!("'{other}' is allowed only with 'query'");
        return Err(Error::bad_value(what));
    }
    Filter::parse(call.document_or_empty("query"), &context)?;
    let (sort, projection) = (call.document_or_empty("sort"), call.document_or_empty("projection"));
    if !sort.is_empty() {
        Sort::parse(sort, context.collation.as_ref())?;
    }
    if !projection.is_empty() {
        Projection::parse(projection, Use::Find, &context)?;
    }
    Ok(())
}

fn clear(call: &Call<'_>) -> Result<Reply> {
    call.namespace()?;
    check_shape(call)?;
    Ok(Reply::new())
}

fn list(call: &Call<'_>) -> Result<Reply> {
    call.namespace()?;
    let mut reply = Reply::new();
    reply.open_array("filters").close();
    Ok(reply)
}

fn set(call: &Call<'_>) -> Result<Reply> {
    call.namespace()?;
    check_shape(call)?;
    let what = "index filters are not supported: a hint in the query names the index, and a hidden index is not used";
    Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what))
}
