//! Commands that make capped collections of others.

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::plan_killed;
use super::indexes::is_view;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::long_of;
use crate::catalog::{Entry, Namespace};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("convertToCapped", Target::Collection, "Makes a collection a capped one.", convert)
        .fields(&[Field::optional("size", FieldType::Any)])
        .any_fields()
        .needs(&[Privilege::on_collection("convertToCapped")])
        .writes(),
    Command::new(
        "cloneCollectionAsCapped",
        Target::Collection,
        "Makes a capped collection with the documents of another one.",
        clone,
    )
    .fields(&[Field::optional("toCollection", FieldType::String), Field::optional("size", FieldType::Any)])
    .any_fields()
    .needs_by(clone_needs)
    .writes(),
];

/// What the clone of a collection needs: it reads one, and creates and fills another.
fn clone_needs(call: &Call<'_>) -> Result<Need> {
    let Some(from) = call.on_target() else { return Ok(Need::NEVER) };
    let to = call.on_collection(call.text("toCollection").unwrap_or_default());
    let fills = Need::actions(&["insert", "createIndex", "createCollection"], &to);
    Ok(Need::All(vec![Need::Action("find", from), fills]))
}

/// The size of the capped collection in bytes.
fn size(call: &Call<'_>) -> Result<i64> {
    call.value("size").and_then(|size| long_of(&size)).filter(|size| *size > 0).ok_or_else(|| {
        let what = "Capped collection size must be greater than zero";
        Error::new(ErrorCode::INVALID_OPTIONS, what)
    })
}

fn convert(call: &Call<'_>) -> Result<Reply> {
    let namespace = call.namespace()?;
    call.state.database.convert_to_capped(namespace.as_str(), size(call)?)?;
    call.state.cursors.fail_over(|name| name == namespace.as_str(), &plan_killed(namespace.as_str()));
    call.state.usage.forget(namespace.as_str());
    Ok(Reply::new())
}

fn clone(call: &Call<'_>) -> Result<Reply> {
    let from = call.namespace()?;
    let Some(to) = call.text("toCollection") else {
        return Err(Error::new(ErrorCode::TYPE_MISMATCH, "the field 'toCollection' must be a string"));
    };
    let to = Namespace::new(call.request.database, to)?;
    if let Some(Entry::View(_)) = call.state.database.catalog().find(&to) {
        return Err(is_view(&to));
    }
    call.state.database.clone_as_capped(from.as_str(), to.as_str(), size(call)?)?;
    Ok(Reply::new())
}
