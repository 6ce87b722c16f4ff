//! The command `collMod`.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::collections::{check_expiry, modify_view};
use super::commands::Command;
use super::parse::check_field;
use super::spec::{Field, FieldType, Target};
use crate::base::{Error, ErrorCode, Need, Result};
use crate::bson::{Array, Document, DocumentBuilder, Kind, Value, ValueBuf, long_of};
use crate::catalog::expiry::{INDEX_SECONDS_MAX, seconds_of};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Entry, Index, IndexChanges, IndexSpec, Namespace};
use crate::expr::value::truth;

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
        .needs_by(needs)
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

/// What the command needs: for a view, what the view reads once it is changed.
fn needs(call: &Call<'_>) -> Result<Need> {
    let Some(on) = call.on_target() else { return Ok(Need::NEVER) };
    let change = Need::Action("collMod", on);
    let (view_on, pipeline) = (call.text("viewOn"), call.array("pipeline"));
    let name = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    if view_on.is_none() && pipeline.is_none() {
        return Ok(change);
    }
    let old = call.view(name);
    let old_on = old.as_ref().map(|(on, _)| on.as_str());
    let Some(view_on) = view_on.or(old_on) else { return Ok(change) };
    let stages = pipeline.or(old.as_ref().map(|(_, stages)| Array::of_document(stages.view())));
    Ok(Need::All(vec![change, call.view_needs(name, view_on, stages.unwrap_or(Array::empty()))?]))
}

fn coll_mod(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let mut reply = Reply::new();
    match entry {
        None => {
            let what = format!("ns does not exist: {namespace}");
            return Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what));
        }
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::View(view)) => {
            refuse(
                call,
                &[
                    "index",
                    "validator",
                    "validationLevel",
                    "validationAction",
                    "cappedSize",
                    "cappedMax",
                    "changeStreamPreAndPostImages",
                ],
                "a view",
            )?;
            modify_view(call, &namespace, &view)?;
        }
        Some(Entry::Collection(state)) => {
            refuse(call, &["viewOn", "pipeline"], "a collection that is no view")?;
            if state.capped.is_none() {
                refuse(call, &["cappedSize", "cappedMax"], "a collection that is not capped")?;
            }
            refuse(call, &["timeseries"], "a collection that is no time series")?;
            let schema = state.schema();
            let clustered = schema.options.document().get("clusteredIndex");
            if !clustered.is_some_and(|clustered| truth(&clustered)) {
                refuse(call, &["expireAfterSeconds"], "a collection without 'clusteredIndex'")?;
            }
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
    let converts = call.document("index").is_some_and(|index| is_given(index, "unique"));
    if call.is_set("dryRun") && !converts {
        let what = "'dryRun' is only for the change of an index to a unique one";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
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
    match call.value("expireAfterSeconds") {
        Some(Value::String(off)) if off.as_str() == Some("off") => {
            changes.append("expireAfterSeconds", Value::Null);
        }
        Some(Value::String(_)) => {
            let what = "'expireAfterSeconds' must be a number of seconds or 'off'";
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
        Some(seconds) => {
            check_expiry(call, long_of(&seconds))?;
            changes.append("expireAfterSeconds", seconds);
        }
        None => {}
    }
    if let Some(index) = call.document("index") {
        modify_index(call, namespace, state, index, reply)?;
    }
    // A command that changes nothing is an event for change streams too.
    if !changes.is_empty() || call.document("index").is_none() {
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
    let flag = |name: &str| given(name).map(|value| truth(&value));
    let index = match (given("name"), given("keyPattern")) {
        (Some(_), Some(_)) => return invalid("Cannot specify both key pattern and name."),
        (None, None) => return invalid("Must specify either index name or key pattern."),
        (Some(name), None) => by_name(namespace, state, name.as_str().unwrap_or_default(), change)?,
        (None, Some(pattern)) => {
            by_pattern(namespace, state, pattern.as_document().unwrap_or(Document::empty()), change)?
        }
    };
    let (hidden, seconds) = (flag("hidden"), given("expireAfterSeconds"));
    let (unique, prepare_unique) = (flag("unique"), flag("prepareUnique"));
    if hidden.is_none() && seconds.is_none() && unique.is_none() && prepare_unique.is_none() {
        return invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field");
    }
    let seconds = seconds.map(|seconds| index_seconds(&seconds)).transpose()?;
    let old = &index.spec;
    if seconds.is_some() && old.pattern.fields().len() > 1 {
        return invalid("TTL indexes are single-field indexes, compound indexes do not support TTL");
    }
    // What an index is already is no change.
    let prepare_unique = prepare_unique.filter(|prepare| *prepare != old.prepare_unique && !old.unique);
    if prepare_unique.is_some() && (hidden.is_some() || seconds.is_some() || unique.is_some()) {
        return invalid("a change of 'prepareUnique' cannot be combined with another one");
    }
    if let Some(unique) = unique {
        convert(call, namespace, old, unique, reply)?;
    }
    let changes = IndexChanges { hidden, expire_after_seconds: seconds, prepare_unique };
    if hidden.is_some() || seconds.is_some() || prepare_unique.is_some() {
        call.state.database.modify_index(namespace.as_str(), &old.name, &changes)?;
    }
    if let Some(seconds) = seconds {
        if let Some(old) = old.expire_after_seconds {
            reply.append("expireAfterSeconds_old", i64::from(old));
        }
        reply.append("expireAfterSeconds_new", i64::from(seconds));
    }
    for (name, old, new) in [("hidden", old.hidden, hidden), ("prepareUnique", old.prepare_unique, prepare_unique)] {
        if let Some(new) = new.filter(|new| *new != old) {
            reply.append(format!("{name}_old"), old).append(format!("{name}_new"), new);
        }
    }
    Ok(())
}

/// After how many seconds the documents of an index are to expire.
fn index_seconds(value: &Value<'_>) -> Result<i32> {
    let invalid = |what| Error::new(ErrorCode::INVALID_OPTIONS, what);
    let seconds = seconds_of(value, INDEX_SECONDS_MAX).map_err(invalid)?;
    i32::try_from(seconds).map_err(|_| invalid("'expireAfterSeconds' has more than 31 bits".to_owned()))
}

/// Whether a change has a field that is not null.
fn is_given(change: Document<'_>, name: &str) -> bool {
    change.get(name).is_some_and(|value| !value.is_nullish())
}

/// Makes an index unique for which no document was given the key of another for a while, or checks whether it could be.
fn convert(call: &Call<'_>, namespace: &Namespace, old: &IndexSpec, unique: bool, reply: &mut Reply) -> Result<()> {
    if !unique {
        return Err(Error::bad_value("an index cannot be made one that is not unique"));
    }
    if old.unique {
        return Ok(());
    }
    if !old.prepare_unique {
        let what = "Cannot make an index unique that does not have 'prepareUnique: true'";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    let (database, name) = (&call.state.database, &old.name);
    let shared = database.shared_keys(namespace.as_str(), name, VIOLATIONS_MAX)?;
    if !shared.is_empty() {
        return Err(violated(&shared));
    }
    if call.is_set("dryRun") {
        return Ok(());
    }
    database.rebuild_index(namespace.as_str(), name, Some(true)).map_err(|error| match error.code() {
        ErrorCode::DUPLICATE_KEY => violated(&[]),
        _ => error,
    })?;
    reply.append("unique_new", true);
    Ok(())
}

/// The most groups of documents with the same key that an error tells.
const VIOLATIONS_MAX: usize = 100;

/// `CannotConvertIndexToUnique` (359), with the `_id`s of documents that have the same key.
fn violated(shared: &[Vec<ValueBuf>]) -> Error {
    let mut info = DocumentBuilder::new();
    info.open_array("violations");
    for ids in shared {
        info.push_document().open_array("ids");
        ids.iter().for_each(|id| {
            info.push(id);
        });
        info.close().close();
    }
    info.close();
    let what = "Cannot convert the index to unique. Please resolve conflicting documents before running collMod again.";
    Error::new(ErrorCode::CANNOT_CONVERT_INDEX_TO_UNIQUE, what).with_err_info(info.finish().into_bytes())
}

fn by_name(namespace: &Namespace, state: &CollectionState, name: &str, change: Document<'_>) -> Result<Arc<Index>> {
    if name == ID_INDEX {
        return Err(id_index(change));
    }
    state
        .schema()
        .index(name)
        .cloned()
        .ok_or_else(|| Error::new(ErrorCode::INDEX_NOT_FOUND, format!("cannot find index {name} for ns {namespace}")))
}

fn by_pattern(
    namespace: &Namespace,
    state: &CollectionState,
    pattern: Document<'_>,
    change: Document<'_>,
) -> Result<Arc<Index>> {
    if crate::bson::equal(&Value::Document(pattern), &Value::Document(doc! {"_id": 1}.view())) {
        return Err(id_index(change));
    }
    super::indexes::by_pattern(&state.schema(), pattern)?.ok_or_else(|| {
        Error::new(ErrorCode::INDEX_NOT_FOUND, format!("cannot find index {pattern} for ns {namespace}"))
    })
}

fn id_index(change: Document<'_>) -> Error {
    if is_given(change, "expireAfterSeconds") {
        return Error::new(ErrorCode::INVALID_OPTIONS, "the index of _id does not support TTL");
    }
    Error::bad_value("the index of _id cannot be hidden or changed")
}
