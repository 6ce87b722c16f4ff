//! Commands that create, drop and list indexes.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::collections::{clustered_index, documents_of, index_count};
use super::commands::Command;
use super::cursors::Known;
use super::reply::{cursor, cursor_option};
use super::spec::{Field, FieldType, Privilege, Target};
use crate::aggregate::reshape::search_not_enabled;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Kind, Value, equal, long_of};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, Entry, Index, IndexSpec, Namespace, Schema};
use crate::collection::rebuild_ids::rebuild_ids;
use crate::session::Scope;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("createIndexes", Target::Collection, "Creates indexes.", create_indexes)
        .fields(&[
            Field::required("indexes", FieldType::Array),
            Field::optional("ignoreUnknownIndexOptions", FieldType::Bool),
            Field::optional("commitQuorum", FieldType::Any),
            Field::optional("v", FieldType::Int),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("createIndex")])
        .writes()
        .in_transactions()
        .stable(),
    Command::new("dropIndexes", Target::Collection, "Drops indexes.", drop_indexes)
        .aliases(&["deleteIndexes"])
        .fields(&[
            Field::required("index", FieldType::OneOf(&[Kind::String, Kind::Document, Kind::Array])).not_null(),
            Field::optional("collectionUUID", FieldType::OneOf(&[Kind::Binary])),
        ])
        .needs(&[Privilege::on_collection("dropIndex")])
        .writes()
        .stable(),
    Command::new("listIndexes", Target::Collection, "Lists the indexes of a collection.", list_indexes)
        .fields(&[
            Field::optional("cursor", FieldType::Object),
            Field::optional("includeBuildUUIDs", FieldType::Bool),
            Field::optional("includeIndexBuildInfo", FieldType::Bool),
        ])
        .needs(&[Privilege::on_collection("listIndexes")])
        .stable(),
    Command::new("createSearchIndexes", Target::Collection, "Refuses search indexes, which there are none.", no_search)
        .any_fields()
        .needs(&[Privilege::on_collection("createSearchIndexes")]),
    Command::new("updateSearchIndex", Target::Collection, "Refuses search indexes, which there are none.", no_search)
        .any_fields()
        .needs(&[Privilege::on_collection("updateSearchIndex")]),
    Command::new("dropSearchIndex", Target::Collection, "Refuses search indexes, which there are none.", no_search)
        .any_fields()
        .needs(&[Privilege::on_collection("dropSearchIndex")]),
    Command::new("listSearchIndexes", Target::Collection, "Refuses search indexes, which there are none.", no_search)
        .any_fields()
        .needs(&[Privilege::on_collection("listSearchIndexes")]),
    Command::new(
        "setIndexCommitQuorum",
        Target::Collection,
        "Would change which members a build of indexes waits for.",
        set_quorum,
    )
    .fields(&[Field::required("indexNames", FieldType::Array), Field::required("commitQuorum", FieldType::Any)])
    .needs(&[Privilege::on_collection("createIndex")]),
    Command::new("reIndex", Target::Collection, "Builds the indexes of a collection again.", re_index)
        .needs(&[Privilege::on_collection("reIndex")]),
];

/// Search indexes are a service of Atlas: the error is the one by which drivers and tools know that.
fn no_search(call: &Call<'_>) -> Result<Reply> {
    Err(search_not_enabled(call.command.name))
}

/// A build of indexes does not wait for members: when it is known to a client, it has ended.
fn set_quorum(call: &Call<'_>) -> Result<Reply> {
    let namespace = call.namespace()?;
    let what = format!("Cannot find an index build on collection '{namespace}' with the provided index names");
    Err(Error::new(ErrorCode::INDEX_NOT_FOUND, what))
}

/// The options of an index that are known, for `ignoreUnknownIndexOptions`.
const KNOWN: [&str; 25] = [
    "v",
    "key",
    "name",
    "ns",
    "background",
    "unique",
    "sparse",
    "hidden",
    "expireAfterSeconds",
    "partialFilterExpression",
    "collation",
    "wildcardProjection",
    "storageEngine",
    "weights",
    "default_language",
    "language_override",
    "textIndexVersion",
    "2dsphereIndexVersion",
    "bits",
    "min",
    "max",
    "bucketSize",
    "clustered",
    "prepareUnique",
    "safe",
];

fn create_indexes(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let specs = specs(call)?;
    let quorum = commit_quorum(call)?;
    let existed = match &entry {
        Some(Entry::View(_)) => return Err(is_view(&namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::Collection(state)) => Some(index_count(&state.schema())),
        None => None,
    };
    let added = match &call.scoped.scope {
        Scope::Within(open) => {
            let collection = call.collection_or_create(&namespace)?;
            let specs = IndexSpec::parse_all(&specs, collection.state().collation())?;
            open.with(|txn| txn.create_indexes(collection.state(), &specs))?
        }
        _ => call.state.database.create_indexes(namespace.as_str(), &specs)?,
    };
    let after = match call.find(&namespace)? {
        Some(Entry::Collection(state)) => index_count(&state.schema()),
        _ => Value::Int32(0),
    };
    let mut reply = Reply::new();
    reply.append("numIndexesBefore", existed.unwrap_or(Value::Int32(1)));
    reply.append("numIndexesAfter", after);
    reply.append("createdCollectionAutomatically", existed.is_none());
    if added == 0 {
        reply.append("note", "all indexes already exist");
    } else if let Some(quorum) = quorum.filter(|_| existed.is_some() && !matches!(call.scoped.scope, Scope::Within(_)))
    {
        reply.append("commitQuorum", quorum);
    }
    Ok(reply)
}

/// Which members of a replica set are to have the indexes before they are used; `None` on a standalone server. A write
/// reaches its members as any other does.
fn commit_quorum<'r>(call: &Call<'r>) -> Result<Option<Value<'r>>> {
    if !call.state.options.replica_set {
        return Ok(None);
    }
    let quorum = call.value("commitQuorum").filter(|quorum| !quorum.is_nullish());
    let quorum = quorum.unwrap_or_else(|| Value::from("votingMembers"));
    if let Some(name) = quorum.as_str() {
        if ["votingMembers", "majority"].contains(&name) {
            return Ok(Some(quorum));
        }
        let what = format!("No write concern mode named '{name}' found in replica set configuration");
        return Err(Error::new(ErrorCode::UNKNOWN_REPL_WRITE_CONCERN, what));
    }
    match long_of(&quorum) {
        Some(count) if count > call.members() => {
            let what = "Commit quorum cannot be satisfied with the current replica set configuration";
            Err(Error::new(ErrorCode::UNSATISFIABLE_COMMIT_QUORUM, what))
        }
        Some(0..) => Ok(Some(quorum)),
        _ => Err(Error::new(ErrorCode::FAILED_TO_PARSE, "commitQuorum has to be a non-negative number or a string")),
    }
}

/// The specifications of the command.
fn specs(call: &Call<'_>) -> Result<Vec<DocumentBuf>> {
    let specs = documents_of("createIndexes.indexes", call.array("indexes").unwrap_or(Array::empty()))?;
    if specs.is_empty() {
        return Err(Error::bad_value("Must specify at least one index to create"));
    }
    if !call.is_set("ignoreUnknownIndexOptions") {
        return Ok(specs);
    }
    let known = |spec: &DocumentBuf| {
        let mut builder = DocumentBuilder::new();
        let kept = spec.view().elements().filter(|element| KNOWN.iter().any(|name| element.name == *name));
        kept.for_each(|element| {
            builder.append_element(&element);
        });
        builder.finish()
    };
    Ok(specs.iter().map(known).collect())
}

fn drop_indexes(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let state = existing(&namespace, entry, "ns not found ")?;
    let schema = state.schema();
    let names: Vec<String> = match call.value("index") {
        Some(Value::String(name)) => vec![name.to_str_lossy().into_owned()],
        Some(Value::Document(pattern)) => vec![name_of_pattern(&schema, pattern)?],
        Some(Value::Array(names)) => {
            let names = (0..).zip(names.values()).map(|(at, value)| match value.as_str() {
                Some(name) => Ok(name.to_owned()),
                None => Err(super::parse::wrong_type(&format!("dropIndexes.index.{at}"), &value, &[Kind::String])),
            });
            names.collect::<Result<_>>()?
        }
        _ => Vec::new(),
    };
    // All names are checked before the first index is dropped.
    for (at, name) in names.iter().enumerate() {
        if name == ID_INDEX && clustered_index(&schema).is_some() {
            return Err(Error::new(ErrorCode::new(5_979_800), "It is illegal to drop the clusteredIndex"));
        }
        if name == ID_INDEX {
            return Err(Error::new(ErrorCode::INVALID_OPTIONS, "cannot drop _id index"));
        }
        let twice = names.get(..at).unwrap_or_default().contains(name);
        if name != "*" && (twice || !schema.has_index(name)) {
            return Err(Error::new(ErrorCode::INDEX_NOT_FOUND, format!("index not found with name [{name}]")));
        }
    }
    let mut reply = Reply::new();
    reply.append("nIndexesWas", index_count(&schema));
    for name in &names {
        call.state.database.drop_indexes(namespace.as_str(), name)?;
    }
    if names.iter().any(|name| name == "*") {
        reply.append("msg", "non-_id indexes dropped for collection");
    }
    Ok(reply)
}

/// The name of the index with a key pattern.
fn name_of_pattern(schema: &Schema, pattern: Document<'_>) -> Result<String> {
    if equal(&Value::Document(pattern), &Value::Document(doc! {"_id": 1}.view())) {
        return Ok(ID_INDEX.to_owned());
    }
    match by_pattern(schema, pattern)? {
        Some(index) => Ok(index.spec.name.clone()),
        None => Err(Error::new(ErrorCode::INDEX_NOT_FOUND, format!("can't find index with key: {pattern}"))),
    }
}

/// The index with a key pattern.
///
/// # Errors
/// `AmbiguousIndexKeyPattern` (181) when there are several.
pub(super) fn by_pattern(schema: &Schema, pattern: Document<'_>) -> Result<Option<Arc<Index>>> {
    let same = |index: &&Arc<Index>| equal(&Value::Document(index.spec.pattern.document()), &Value::Document(pattern));
    let mut found = schema.indexes.iter().filter(same);
    let first = found.next().cloned();
    if let (Some(first), Some(second)) = (&first, found.next()) {
        let what = format!(
            "{} indexes found for key: {pattern}, identify by name instead. Conflicting indexes: {}, {}",
            2 + found.count(),
            first.spec.document(),
            second.spec.document()
        );
        return Err(Error::new(ErrorCode::AMBIGUOUS_INDEX_KEY_PATTERN, what));
    }
    Ok(first)
}

fn list_indexes(call: &Call<'_>) -> Result<Reply> {
    let batch = cursor_option(call)?;
    let (namespace, entry) = call.entry()?;
    let schema = existing(&namespace, entry, "ns does not exist: ")?.schema();
    let damaged = schema.damaged.iter().map(|index| DocumentBuf::from(index.spec()));
    let others = schema.others().map(|index| DocumentBuf::from(index.spec.document())).chain(damaged);
    let all = std::iter::once(id_spec(&schema)).chain(others);
    let listed = match call.is_set("includeIndexBuildInfo") {
        false => all.collect(),
        true => all.map(|spec| doc! {"spec": &spec}).collect(),
    };
    cursor(call, namespace.as_str(), Known::new(listed), batch)
}

/// The index of `_id` as it is listed.
fn id_spec(schema: &Schema) -> DocumentBuf {
    let id_index = IndexSpec::of_id(schema.options.collation.as_deref());
    let Some(clustered) = clustered_index(schema) else { return DocumentBuf::from(id_index.document()) };
    let name = clustered.as_document().and_then(|clustered| clustered.get("name")).and_then(|name| name.as_str());
    let mut spec = DocumentBuilder::new();
    spec.append("v", 2).append("key", &doc! {"_id": 1}).append("name", name.unwrap_or(ID_INDEX));
    spec.append("unique", true).append("clustered", true);
    if let Some(collation) = &schema.options.collation {
        spec.append("collation", collation.document());
    }
    spec.finish()
}

/// Builds all indexes again. That of `_id` is the order of the documents, but in a capped collection.
fn re_index(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    if call.state.options.replica_set {
        let what = "reIndex is only allowed on a standalone server";
        return Err(Error::new(ErrorCode::ILLEGAL_OPERATION, what));
    }
    let state = existing(&namespace, entry, "ns does not exist: ")?;
    let schema = state.schema();
    rebuild_ids(call.state.database.catalog(), &state)?;
    // A damaged one first: no document is written while it is there.
    let damaged = schema.damaged.iter().map(|index| &index.name);
    for name in damaged.chain(schema.others().map(|index| &index.spec.name)) {
        call.check()?;
        call.state.database.rebuild_index(namespace.as_str(), name, None)?;
    }
    // The stored count may be as wrong as the indexes were.
    call.state.database.repair(namespace.as_str(), &mut |_| call.check())?;
    let mut reply = Reply::new();
    reply.append("nIndexesWas", index_count(&schema)).append("nIndexes", index_count(&schema));
    reply.open_array("indexes").push(&id_spec(&schema));
    schema.others().for_each(|index| {
        reply.push(index.spec.document());
    });
    reply.close();
    Ok(reply)
}

/// The collection that a command is about.
///
/// # Errors
/// `NamespaceNotFound` (26) with `missing` before the name, `CommandNotSupportedOnView` (166).
pub(super) fn existing(namespace: &Namespace, entry: Option<Entry>, missing: &str) -> Result<Arc<CollectionState>> {
    match entry {
        Some(Entry::Collection(state)) => Ok(state),
        Some(Entry::View(_)) => Err(is_view(namespace)),
        Some(Entry::Damaged(damage)) => Err(damage.error()),
        None => Err(Error::new(ErrorCode::NAMESPACE_NOT_FOUND, format!("{missing}{namespace}"))),
    }
}

/// `CommandNotSupportedOnView` (166).
#[must_use]
pub(super) fn is_view(namespace: &Namespace) -> Error {
    let what = format!("Namespace {namespace} is a view, not a collection");
    Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what)
}
