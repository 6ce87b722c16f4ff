//! Commands that create, drop, rename and change collections and views.

use super::call::{Call, Reply};
use super::commands::Command;
use super::cursors::plan_killed;
use super::parse::wrong_type;
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::num::u64_of;
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::{Array, DocumentBuf, DocumentBuilder, Kind, Value, ValueBuf, long_of};
use crate::catalog::own::is_profile;
use crate::catalog::{CollectionOptions, Entry, IndexSpec, Namespace, Schema};
use crate::collation::Collation;
use crate::expr::value::truth;
use crate::session::Scope;

/// The types of numbers.
const NUMBERS: &[Kind] = FieldType::Number.kinds();

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("create", Target::Collection, "Creates a collection or a view.", create)
        .fields(CREATE)
        .needs_by(create_needs)
        .writes()
        .in_transactions()
        .stable(),
    Command::new("drop", Target::Collection, "Drops a collection or a view.", drop_collection)
        .fields(&[Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary]))])
        .needs(&[Privilege::on_collection("dropCollection")])
        .writes()
        .stable(),
    Command::new(
        "dropDatabase",
        Target::Value(NUMBERS),
        "Drops the collections and views of a database.",
        drop_database,
    )
    .needs(&[Privilege::on_database("dropDatabase")])
    .writes()
    .stable(),
    Command::new("renameCollection", Target::Namespace, "Gives a collection another name.", rename)
        .fields(&[
            Field::required("to", FieldType::String),
            Field::optional("dropTarget", FieldType::OneOf(&[Kind::Bool, Kind::Binary])).not_null(),
            Field::optional("stayTemp", FieldType::StrictBool),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs_by(rename_needs)
        .writes()
        .admin_only(),
];

/// The fields of `create`.
const CREATE: &[Field] = &[
    Field::optional("capped", FieldType::Bool),
    Field::optional("autoIndexId", FieldType::Bool),
    Field::optional("idIndex", FieldType::Object),
    Field::optional("size", FieldType::Number),
    Field::optional("max", FieldType::Number),
    Field::optional("storageEngine", FieldType::Object),
    Field::optional("validator", FieldType::Object),
    Field::optional("validationLevel", FieldType::String),
    Field::optional("validationAction", FieldType::String),
    Field::optional("indexOptionDefaults", FieldType::Object),
    Field::optional("viewOn", FieldType::String),
    Field::optional("pipeline", FieldType::Array),
    Field::optional("collation", FieldType::Object),
    Field::optional("changeStreamPreAndPostImages", FieldType::Object),
    Field::optional("timeseries", FieldType::Object),
    Field::optional(
        "clusteredIndex",
        FieldType::OneOf(&[Kind::Bool, Kind::Document, Kind::Int32, Kind::Int64, Kind::Double, Kind::Decimal128]),
    )
    .not_null(),
    Field::optional("expireAfterSeconds", FieldType::Long),
    Field::optional("encryptedFields", FieldType::Object),
    Field::optional("temp", FieldType::Bool),
    Field::optional("flags", FieldType::Long),
    Field::optional("recordIdsReplicated", FieldType::Bool),
];

/// What a `create` needs: an insert into a collection that does not exist creates it too, and nothing else creates a
/// view, for which its creator needs what the view reads.
fn create_needs(call: &Call<'_>) -> Result<Need> {
    let Some(on) = call.on_target() else { return Ok(Need::NEVER) };
    let create = Need::Action("createCollection", on.clone());
    let Some(view_on) = call.text("viewOn") else { return Ok(Need::Any(vec![create, Need::Action("insert", on)])) };
    let name = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let stages = call.array("pipeline").unwrap_or(Array::empty());
    Ok(Need::All(vec![create, call.view_needs(name, view_on, stages)?]))
}

/// What a `renameCollection` needs. Within a database, a client that could not read the collection before must not be
/// able to read it by its new name.
fn rename_needs(call: &Call<'_>) -> Result<Need> {
    let from = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let to = call.text("to").unwrap_or_default();
    let (old, new) = (On::namespace(from), On::namespace(to));
    let drops = call.value("dropTarget").is_some_and(|drops| drops != Value::Bool(false));
    let dropped = drops.then_some("dropCollection");
    let into: Vec<_> = ["insert", "createIndex"].into_iter().chain(dropped).collect();
    let mut ways = vec![Need::All(vec![Need::actions(&["find", "dropCollection"], &old), Need::actions(&into, &new)])];
    let database = |name: &str| name.split_once('.').map(|(database, _)| database.to_owned());
    let is_system = |name: &str| name.split_once('.').is_some_and(|(_, name)| name.starts_with("system."));
    if let Some(name) = database(from).filter(|name| database(to).as_ref() == Some(name))
        && !is_system(from)
        && !is_system(to)
    {
        ways.push(Need::All(vec![
            Need::Action("renameCollectionSameDB", On::Database(name)),
            Need::Any(vec![Need::Action("find", old), Need::Lacks("find", new.clone())]),
            Need::actions(&dropped.into_iter().collect::<Vec<_>>(), &new),
        ]));
    }
    Ok(Need::Any(ways))
}

fn create(call: &Call<'_>) -> Result<Reply> {
    let namespace = call.namespace()?;
    check_id_index(call)?;
    if call.value("autoIndexId") == Some(Value::Bool(false)) {
        let what =
            format!("The database '{}' does not support collections without an index of _id", namespace.database());
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    check_clustered(call)?;
    check_expiry(call, call.long("expireAfterSeconds"))?;
    let options = match call.text("viewOn") {
        None => collection_options(call, &[]),
        Some(on) => {
            if call.value("timeseries").is_some() {
                let what = "the options 'viewOn' and 'timeseries' do not go together";
                return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
            }
            // Options of collections are checked, and a view has none of them.
            let others = collection_options(call, &["viewOn", "pipeline", "capped", "size", "max"]);
            let parsed = CollectionOptions::parse(others.view())?;
            if parsed.keeps_images {
                let what = "'changeStreamPreAndPostImages' is not supported on views";
                return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
            }
            view_options(call, on, Array::empty(), call.value("collation"))
        }
    };
    match &call.scoped.scope {
        // There it is an error that the collection is there, also with the same options.
        Scope::Within(open) => {
            let options = CollectionOptions::parse(options.view())?;
            open.with(|txn| txn.create_collection(&namespace, options))?;
        }
        _ => call.state.database.create_collection(namespace.as_str(), options.view())?,
    }
    Ok(Reply::new())
}

/// Refuses a time after which documents expire that begins before 1970.
///
/// # Errors
/// `InvalidOptions` (72).
pub(super) fn check_expiry(call: &Call<'_>, seconds: Option<i64>) -> Result<()> {
    if seconds.is_some_and(|seconds| seconds > call.now_ms / 1000) {
        let what = "'expireAfterSeconds' of a collection must be within the time since 1970";
        return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
    }
    Ok(())
}

/// The options of a collection that are in the command, without those that say nothing.
fn collection_options(call: &Call<'_>, left_out: &[&str]) -> DocumentBuf {
    let mut options = DocumentBuilder::new();
    let unlisted = ["autoIndexId", "idIndex", "flags", "temp", "recordIdsReplicated"];
    for field in CREATE.iter().filter(|field| !unlisted.contains(&field.name) && !left_out.contains(&field.name)) {
        let Some(value) = call.value(field.name) else { continue };
        let says_nothing = match (field.name, value) {
            ("storageEngine" | "indexOptionDefaults", Value::Document(engine)) => engine.is_empty(),
            ("changeStreamPreAndPostImages", Value::Document(images)) => {
                images.get("enabled") == Some(Value::Bool(false))
            }
            ("capped" | "clusteredIndex", value) => !truth(&value),
            _ => false,
        };
        if !says_nothing {
            options.append(field.name, value);
        }
    }
    options.finish()
}

/// The options of a view.
fn view_options(call: &Call<'_>, on: &str, otherwise: Array<'_>, collation: Option<Value<'_>>) -> DocumentBuf {
    let stages = call.array("pipeline").unwrap_or(otherwise);
    let stages = ValueBuf::array(stages.values().filter(|stage| !stage.is_nullish()));
    let pipeline = stages.view().as_array().unwrap_or(Array::empty());
    let mut options = doc! {"viewOn": on, "pipeline": pipeline};
    if let Some(collation) = collation {
        let mut builder = DocumentBuilder::new();
        builder.append_all(options.view()).append("collation", collation);
        options = builder.finish();
    }
    options
}

/// How many indexes a collection has: that of `_id` counts, unless the collection was asked to be clustered by it.
pub(super) fn index_count(schema: &Schema) -> Value<'static> {
    let clustered = usize::from(clustered_index(schema).is_some());
    super::reply::count(u64_of(schema.index_count() - clustered))
}

/// The option `clusteredIndex` of a collection.
pub(super) fn clustered_index(schema: &Schema) -> Option<Value<'_>> {
    schema.options.document().get("clusteredIndex").filter(truth)
}

/// Refuses `clusteredIndex` with options that do not go with it.
fn check_clustered(call: &Call<'_>) -> Result<()> {
    let Some(clustered) = call.value("clusteredIndex") else { return Ok(()) };
    let refused = |code, what: &str| Err(Error::new(ErrorCode::new(code), what));
    if call.is_set("capped") {
        return refused(6_049_200, "A capped collection cannot be clustered by '_id'");
    }
    if truth(&clustered) && call.value("viewOn").is_some() {
        return refused(6_026_500, "The 'clusteredIndex' option is not supported with views");
    }
    if truth(&clustered) && call.value("max").is_some() {
        return refused(6_049_204, "The 'max' option is not supported with a clustered collection");
    }
    Ok(())
}

/// Refuses a specification of the index of `_id` that is another than ours.
fn check_id_index(call: &Call<'_>) -> Result<()> {
    let Some(spec) = call.document("idIndex") else { return Ok(()) };
    for other in ["viewOn", "timeseries", "clusteredIndex"] {
        if call.value(other).is_some() {
            let what = format!("'idIndex' is not allowed with '{other}'");
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, what));
        }
    }
    let collation = call.value("collation").map(|collation| Collation::parse(&collation)).transpose()?.flatten();
    let parsed = IndexSpec::parse(IndexSpec::inheriting(spec, collation.as_deref()).view())?;
    if parsed.pattern.collation() != collation.as_deref() {
        let what = "The 'idIndex' must have the same collation as the collection";
        return Err(Error::bad_value(what));
    }
    if !parsed.is_id() {
        let what = format!(
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            spec.get("key").unwrap_or(Value::Null)
        );
        return Err(Error::bad_value(what));
    }
    Ok(())
}

fn drop_collection(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry_to_drop()?;
    if is_profile(&namespace) && call.state.profiler.of(call.request.database).level > 0 {
        let what = "turn off profiling before dropping system.profile collection";
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
    }
    let mut reply = Reply::new();
    let indexes = match &entry {
        Some(Entry::Collection(state)) => Some(index_count(&state.schema())),
        _ => None,
    };
    if !call.state.database.drop_collection(namespace.as_str())? {
        return Ok(reply);
    }
    if let Some(indexes) = indexes {
        reply.append("nIndexesWas", indexes);
    }
    reply.append("ns", namespace.as_str());
    close_cursors(call, &namespace);
    Ok(reply)
}

/// Ends the searches of the cursors over a collection that is gone.
fn close_cursors(call: &Call<'_>, namespace: &Namespace) {
    call.state.cursors.fail_over(|name| name == namespace.as_str(), &plan_killed(namespace.as_str()));
    call.state.usage.forget(namespace.as_str());
}

fn drop_database(call: &Call<'_>) -> Result<Reply> {
    let value = call.request.body.first().map(|first| first.value);
    if value.and_then(|value| long_of(&value)) != Some(1) {
        return Err(Error::new(ErrorCode::new(5_255_100), "Have to pass 1 as 'dropDatabase' parameter"));
    }
    let name = call.request.database;
    if name == "admin" {
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, "Dropping the 'admin' database is prohibited."));
    }
    // The name is checked by that of a collection in it.
    Namespace::new(name, "x")?;
    let existed = call.state.database.list_databases().iter().any(|database| database == name);
    call.state.database.drop_database(name)?;
    let prefix = format!("{name}.");
    call.state.cursors.fail_over(|name| name.starts_with(&prefix), &plan_killed(name));
    call.state.usage.forget_database(name);
    let mut reply = Reply::new();
    if existed {
        reply.append("dropped", name);
    }
    Ok(reply)
}

fn rename(call: &Call<'_>) -> Result<Reply> {
    let first = call.request.body.first().and_then(|first| first.value.as_str());
    let (from, to) = (first.unwrap_or_default(), call.text("to").unwrap_or_default());
    for name in [from, to] {
        let (database, collection) = name.split_once('.').unwrap_or((name, ""));
        let protected = collection.starts_with("system.") || (database == "local" && collection.starts_with("oplog."));
        if protected && collection != "system." && collection != "oplog." {
            let what = format!("error with namespace {name}: it cannot be renamed");
            return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
        }
    }
    let (from, to) = (Namespace::parse(from)?, Namespace::parse(to)?);
    call.check_uuid(&from, call.state.database.catalog().find(&from).as_ref())?;
    let drop_target = match call.value("dropTarget") {
        Some(Value::Binary(..)) => {
            let what = "'dropTarget' as the UUID of a collection is not supported";
            return Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED, what));
        }
        value => value == Some(Value::Bool(true)),
    };
    call.state.database.rename_collection(from.as_str(), to.as_str(), drop_target)?;
    close_cursors(call, &from);
    close_cursors(call, &to);
    Ok(Reply::new())
}

/// Changes a view: what is not in the command stays.
///
/// # Errors
/// Those of [`Database::replace_view`](crate::Database::replace_view).
pub(super) fn modify_view(call: &Call<'_>, namespace: &Namespace, view: &CollectionOptions) -> Result<()> {
    let Some((old_on, old_pipeline)) = &view.view else { return Ok(()) };
    let on = call.text("viewOn").unwrap_or(old_on);
    let collation = view.document().get("collation");
    let options = view_options(call, on, Array::from_document(old_pipeline.view()), collation);
    call.state.database.replace_view(namespace.as_str(), options.view())
}

/// The documents in an array of a command.
///
/// # Errors
/// `TypeMismatch` (14) for a value that is none.
pub(super) fn documents_of(field: &str, array: Array<'_>) -> Result<Vec<DocumentBuf>> {
    let documents = (0..).zip(array.values()).map(|(at, value)| match value {
        Value::Document(document) => Ok(DocumentBuf::from(document)),
        other => Err(wrong_type(&format!("{field}.{at}"), &other, &[Kind::Document])),
    });
    documents.collect()
}
