//! Commands that tell how much there is: `collStats`, `dbStats`, `dataSize`, `dbHash`.

use std::sync::Arc;

use md5::{Digest, Md5};

use super::call::{Call, Reply};
use super::commands::Command;
use super::indexes::is_view;
use super::reply::count;
use super::sizes::{CollectionSizes, sizes_of_collection, sizes_of_database};
use super::spec::{Field, FieldType, Privilege, Target};
use crate::base::num::{nearest_f64, u64_of};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, Value};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::own::is_profile;
use crate::catalog::{CollectionState, Entry, Namespace};
use crate::exec::Execution;
use crate::expr::value::int;
use crate::plan::{Hint, Query};
use crate::query::Filter;

/// The commands of this file.
pub(super) const COMMANDS: &[Command] = &[
    Command::new("collStats", Target::Collection, "Tells how much a collection holds.", coll_stats)
        .aliases(&["collstats"])
        .fields(&[Field::optional("scale", FieldType::Long).at_least(1)])
        .needs(&[Privilege::on_collection("collStats")]),
    Command::new("dbStats", Target::Value(&[]), "Tells how much a database holds.", db_stats)
        .aliases(&["dbstats"])
        .fields(&[
            Field::optional("scale", FieldType::Long).at_least(1),
            Field::optional("freeStorage", FieldType::Bool),
        ])
        .needs(&[Privilege::on_database("dbStats")]),
    Command::new("dataSize", Target::Namespace, "Tells the size of documents.", data_size)
        .aliases(&["datasize"])
        .fields(&[
            Field::optional("keyPattern", FieldType::Object),
            Field::optional("min", FieldType::Object),
            Field::optional("max", FieldType::Object),
            Field::optional("estimate", FieldType::Bool),
        ])
        .needs(&[Privilege::on_collection("find")]),
    Command::new("dbHash", Target::Value(&[]), "Gives hashes of the documents of collections.", db_hash)
        .aliases(&["dbhash"])
        .fields(&[
            Field::optional("collections", FieldType::Any),
            Field::optional("skipTempCollections", FieldType::Bool),
        ])
        .any_fields()
        .needs(&[Privilege::on_database("dbHash")]),
];

fn whole(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// The divisor of sizes.
fn scale(call: &Call<'_>) -> u64 {
    call.count("scale").unwrap_or(1).max(1)
}

fn coll_stats(call: &Call<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let scale = scale(call);
    let (state, sizes) = match entry {
        Some(Entry::View(_)) => return Err(is_view(&namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        None => (None, CollectionSizes::default()),
        Some(Entry::Collection(state)) => {
            let sizes = sizes_of_collection(&state.schema(), &call.state.database, &state)?;
            (Some(state), sizes)
        }
    };
    let scaled = |bytes: u64| count(bytes / scale);
    let mut reply = Reply::new();
    reply.append("ns", namespace.as_str()).append("size", scaled(sizes.data_bytes));
    reply.append("count", count(sizes.documents));
    if let Some(average) = sizes.data_bytes.checked_div(sizes.documents) {
        reply.append("avgObjSize", count(average));
    }
    reply.append("numOrphanDocs", 0).append("storageSize", scaled(sizes.bytes)).append("freeStorageSize", 0);
    let capped = state.as_ref().and_then(|state| state.schema().options.capped);
    reply.append("capped", capped.is_some());
    if let Some(limits) = capped {
        reply.append("max", int(limits.documents_max.unwrap_or_default()));
        reply.append("maxSize", int(limits.bytes_max / whole(scale)));
    }
    if let Some(state) = &state {
        reply.open_document("spinney").append("table", state.table.name());
        reply.append("layout", &format!("{:?}", state.table.options().layout).to_lowercase()).close();
    }
    let number = state.as_ref().map_or(0, |state| state.schema().index_count());
    reply.append("nindexes", count(u64_of(number))).open_array("indexBuilds").close();
    reply.append("totalIndexSize", scaled(sizes.index_bytes()));
    reply.append("totalSize", scaled(sizes.bytes + sizes.index_bytes())).open_document("indexSizes");
    if state.is_some() && capped.is_none() {
        // The documents are stored in the order of `_id`.
        reply.append(ID_INDEX, 0);
    }
    for (name, bytes) in &sizes.indexes {
        reply.append(name, scaled(*bytes));
    }
    reply.close().append("scaleFactor", count(scale));
    Ok(reply)
}

fn db_stats(call: &Call<'_>) -> Result<Reply> {
    Namespace::new(call.request.database, "x")?;
    let (sizes, scale) = (sizes_of_database(&call.state.database, call.request.database)?, scale(call));
    let scaled = |bytes: u64| nearest_f64(whole(bytes)) / nearest_f64(whole(scale));
    let mut reply = Reply::new();
    reply.append("db", call.request.database).append("collections", whole(sizes.collections));
    reply.append("views", whole(sizes.views)).append("objects", whole(sizes.documents));
    let average = if sizes.documents == 0 {
        0.0
    } else {
        nearest_f64(whole(sizes.data_bytes)) / nearest_f64(whole(sizes.documents))
    };
    reply.append("avgObjSize", average).append("dataSize", scaled(sizes.data_bytes));
    reply.append("storageSize", scaled(sizes.bytes)).append("indexes", whole(sizes.indexes));
    reply.append("indexSize", scaled(sizes.index_bytes));
    reply.append("totalSize", scaled(sizes.bytes) + scaled(sizes.index_bytes));
    if call.is_set("freeStorage") {
        reply.append("freeStorageSize", 0.0).append("indexFreeStorageSize", 0.0).append("totalFreeStorageSize", 0.0);
    }
    reply.append("scaleFactor", whole(scale));
    Ok(reply)
}

fn data_size(call: &Call<'_>) -> Result<Reply> {
    let name = call.request.body.first().and_then(|first| first.value.as_str()).unwrap_or_default();
    let (namespace, began) = (Namespace::parse(name)?, call.state.now_ms());
    let (min, max) = (call.document("min"), call.document("max"));
    if min.is_some() != max.is_some() {
        return Err(Error::bad_value("only one of 'min' or 'max' specified"));
    }
    let (mut documents, mut bytes) = (0_u64, 0_u64);
    match call.state.database.catalog().find(&namespace) {
        None => {}
        Some(Entry::View(_)) => return Err(is_view(&namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::Collection(state)) => {
            let mut query = Query::new(Filter::all());
            if let (Some(min), Some(max)) = (min, max) {
                let pattern = call.document("keyPattern").map(DocumentBuf::from).unwrap_or_else(|| names_of(min));
                query.hint = Some(Hint::Pattern(pattern));
                (query.min, query.max) = (Some(DocumentBuf::from(min)), Some(DocumentBuf::from(max)));
            }
            let query = query.with_spill(call.state.database.engine());
            let mut execution = Execution::open(call.reader()?, &state, Arc::new(query))?;
            while let Some(found) = execution.next_match()? {
                documents += 1;
                bytes += u64_of(found.document.view().as_bytes().len());
            }
        }
    }
    let mut reply = Reply::new();
    reply
        .append("estimate", call.is_set("estimate"))
        .append("size", whole(bytes))
        .append("numObjects", whole(documents));
    reply.append("millis", whole(u64::try_from(call.state.now_ms() - began).unwrap_or_default()));
    Ok(reply)
}

/// The ascending pattern of a document's fields.
fn names_of(bound: Document<'_>) -> DocumentBuf {
    let mut builder = crate::bson::DocumentBuilder::new();
    bound.elements().for_each(|element| {
        builder.append(element.name.as_bytes(), 1);
    });
    builder.finish()
}

fn db_hash(call: &Call<'_>) -> Result<Reply> {
    let began = call.state.now_ms();
    let mut wanted = Vec::new();
    for (at, value) in (0..).zip(call.array("collections").into_iter().flatten()) {
        let Some(name) = value.as_str() else {
            return Err(Error::bad_value(format!("dbHash.collections.{at} is no string: {value}")));
        };
        if name.is_empty() {
            return Err(Error::new(ErrorCode::INVALID_NAMESPACE, "a collection has no name"));
        }
        wanted.push(name);
    }
    let (mut all, mut reply) = (Md5::new(), Reply::new());
    let (mut uuids, mut capped) = (Vec::new(), Vec::new());
    reply.append("host", &super::host::name()).open_document("collections");
    for (namespace, entry) in call.state.database.catalog().list(Some(call.request.database)) {
        let Entry::Collection(state) = entry else { continue };
        // Each member of a replica set has a profile of its own.
        if is_profile(&namespace) {
            continue;
        }
        if !wanted.is_empty() && !wanted.contains(&namespace.collection()) {
            continue;
        }
        let hash = hash_of(call, &state)?;
        all.update(hash.as_bytes());
        reply.append(namespace.collection(), &hash);
        capped.extend(state.capped.is_some().then(|| namespace.clone()));
        uuids.push((namespace, state.schema().uuid));
    }
    reply.close().open_array("capped");
    capped.iter().for_each(|namespace| {
        reply.push(namespace.collection());
    });
    reply.close().open_document("uuids");
    for (namespace, uuid) in &uuids {
        reply.append(namespace.collection(), Value::Binary(4, uuid));
    }
    reply.close().append("md5", &hexadecimal(all));
    reply.append("timeMillis", count(u64::try_from(call.state.now_ms() - began).unwrap_or_default()));
    Ok(reply)
}

/// The hash of a collection's documents in the order of `_id`.
fn hash_of(call: &Call<'_>, state: &CollectionState) -> Result<String> {
    let mut hash = Md5::new();
    let mut execution = Execution::open(call.reader()?, state, Arc::new(Query::new(Filter::all())))?;
    while let Some(found) = execution.next_match()? {
        hash.update(found.document.view().as_bytes());
    }
    Ok(hexadecimal(hash))
}

fn hexadecimal(hash: Md5) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
