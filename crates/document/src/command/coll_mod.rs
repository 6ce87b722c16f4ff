//! The command `collMod`.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::collections::modify_view;
use super::commands::Command;
use super::parse::check_field;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuilder, Kind, Value, long_of};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Entry, Index, Namespace};

/// The commands of this file.
pub(super) const COMMANDS: &[Command] =
    &[Command::new("collMod", Target::Collection, "Changes options of a collection, an index or a view.", coll_mod)
        .fields(&[
            Field::optional("index", FieldType::Object),
            Field::optional("validator", FieldType::Object),
            Field::optional("validationLevel", FieldType::String),
            Field::optional("validationAction", FieldType::String),
            Field::optional("viewOn", FieldType::String),
            Field::optional("pipeline", FieldType::Array),
            Field::optional(
                "expireAfterSeconds",
                FieldType::OneOf(&[Kind::String, Kind::Int64, Kind::Int32, Kind::Double]),
            ),
            Field::optional("timeseries", FieldType::Object),
            Field::optional("changeStreamPreAndPostImages", FieldType::Object),
            Field::optional("cappedSize", FieldType::Long),
            Field::optional("cappedMax", FieldType::Long),
            Field::optional("dryRun", FieldType::Bool),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("collMod")])
        .writes()
        .stable()];

/// The fields of `index`.
const INDEX: &[Field] = &[
    Field::optional("name", FieldType::String),
    Field::optional("keyPattern", FieldType::Object),
    Field::optional("expireAfterSeconds", FieldType::Long),
    Field::optional("hidden", FieldType::Bool),
    Field::optional("unique", FieldType::Bool),
    Field::optional("prepareUnique", FieldType::Bool),
];

fn coll_mod(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let mut reply = Reply::new();
    match entry {
        None => {
            let what = format!("ns does not exist: {namespace}");
            return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
        }
        Some(Entry::View(view)) => {
            refuse(
                call,
                &["index", "validator", "validationLevel", "validationAction", "cappedSize", "cappedMax"],
                "a view",
            )?;
            modify_view(call, &namespace, &view)?;
        }
        Some(Entry::Collection(state)) => {
            refuse(call, &["viewOn", "pipeline"], "a collection that is no view")?;
            if state.capped.is_none() {
                refuse(call, &["cappedSize", "cappedMax"], "a collection that is not capped")?;
            }
            refuse(call, &["timeseries", "expireAfterSeconds"], "a collection that is no time series")?;
            modify(call, &namespace, &state, &mut reply)?;
        }
    }
    Ok(reply)
}

/// Refuses options that are not those of what the command changes.
fn refuse(call: &Call<'_>, options: &[&str], of: &str) -> Result<()> {
    match options.iter().find(|option| call.value(option).is_some()) {
        Some(option) => Err(Error::new(ErrorCode::INVALID_OPTIONS, format!("option '{option}' cannot be set on {of}"))),
        None => Ok(()),
    }
}

fn modify(call: &Call<'_>, namespace: &Namespace, state: &CollectionState, reply: &mut Reply) -> Result<()> {
    if call.is_set("dryRun") {
        let what = "'dryRun' is only for the change of an index to a unique one, which is not supported";
        return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
    }
    let mut changes = DocumentBuilder::new();
    for option in ["validator", "validationLevel", "validationAction", "changeStreamPreAndPostImages"] {
        if let Some(value) = call.value(option) {
            changes.append(option, value);
        }
    }
    for (option, name) in [("cappedSize", "size"), ("cappedMax", "max")] {
        if let Some(value) = call.long(option) {
            changes.append(name, value);
        }
    }
    if let Some(index) = call.document("index") {
        modify_index(call, namespace, state, index, reply)?;
    }
    if !changes.is_empty() {
        call.state.database.modify_collection(namespace.as_str(), changes.finish().view())?;
    }
    Ok(())
}

fn modify_index(
    call: &Call<'_>,
    namespace: &Namespace,
    state: &CollectionState,
    change: Document<'_>,
    reply: &mut Reply,
) -> Result<()> {
    let invalid = |what: &str| Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    for element in change {
        let name = element.name.to_str_lossy();
        let Some(field) = INDEX.iter().find(|field| field.name == name) else {
            let what = format!("BSON field 'collMod.index.{name}' is an unknown field.");
            return Err(Error::new(ErrorCode::IDL_UNKNOWN_FIELD, what));
        };
        check_field("collMod.index", field, &element.value)?;
    }
    let given = |name: &str| change.get(name).filter(|value| !value.is_nullish());
    if given("unique").is_some() || given("prepareUnique").is_some() {
        let what = "an index cannot be changed to a unique one; create another one";
        return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
    }
    let index = match (given("name"), given("keyPattern")) {
        (Some(_), Some(_)) => return invalid("Cannot specify both key pattern and name."),
        (None, None) => return invalid("Must specify either index name or key pattern."),
        (Some(name), None) => by_name(namespace, state, name.as_str().unwrap_or_default())?,
        (None, Some(pattern)) => by_pattern(namespace, state, pattern.as_document().unwrap_or(Document::empty()))?,
    };
    let hidden = given("hidden").map(|value| crate::expr::value::truth(&value));
    let seconds = given("expireAfterSeconds");
    if hidden.is_none() && seconds.is_none() {
        return invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field");
    }
    let seconds = match seconds.and_then(|seconds| long_of(&seconds)) {
        None => None,
        Some(..0) => return invalid("TTL index 'expireAfterSeconds' option cannot be less than 0"),
        Some(seconds) => Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
    };
    let old = &index.spec;
    if seconds.is_some() && old.pattern.fields().len() > 1 {
        return invalid("TTL indexes are single-field indexes, compound indexes do not support TTL");
    }
    call.state.database.modify_index(namespace.as_str(), &old.name, hidden, seconds)?;
    if let Some(seconds) = seconds {
        if let Some(old) = old.expire_after_seconds {
            reply.append("expireAfterSeconds_old", i64::from(old));
        }
        reply.append("expireAfterSeconds_new", i64::from(seconds));
    }
    if let Some(hidden) = hidden.filter(|hidden| *hidden != old.hidden) {
        reply.append("hidden_old", old.hidden).append("hidden_new", hidden);
    }
    Ok(())
}

fn by_name(namespace: &Namespace, state: &CollectionState, name: &str) -> Result<Arc<Index>> {
    if name == ID_INDEX {
        return Err(id_index());
    }
    state
        .schema()
        .index(name)
        .cloned()
        .ok_or_else(|| Error::new(ErrorCode::INDEX_NOT_FOUND, format!("cannot find index {name} for ns {namespace}")))
}

fn by_pattern(namespace: &Namespace, state: &CollectionState, pattern: Document<'_>) -> Result<Arc<Index>> {
    if crate::bson::equal(&Value::Document(pattern), &Value::Document(doc! {"_id": 1}.view())) {
        return Err(id_index());
    }
    super::indexes::by_pattern(&state.schema(), pattern)?.ok_or_else(|| {
        Error::new(ErrorCode::INDEX_NOT_FOUND, format!("cannot find index {pattern} for ns {namespace}"))
    })
}

fn id_index() -> Error {
    Error::bad_value("the index of _id cannot be hidden or changed")
}
