//! `$collStats` and `$indexStats`.

use std::sync::Arc;

use super::collections::Collections;
use crate::aggregate::Report;
use crate::aggregate::report::scale_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::index_spec::ID_INDEX;
use crate::catalog::{CollectionState, IndexSpec, Namespace};

/// Refuses a report of a view but that of its latencies.
pub(super) fn check_view(namespace: &Namespace, report: &Report) -> Result<()> {
    let latencies = report.name == "$collStats"
        && report.spec.view().elements().all(|element| element.name == "latencyStats" || element.value.is_nullish());
    if latencies {
        return Ok(());
    }
    let what = format!("{} of the view {namespace} is not supported", report.name);
    Err(Error::new(ErrorCode::COMMAND_NOT_SUPPORTED_ON_VIEW, what))
}

/// What a stage tells of a collection.
pub(super) fn of_collection(
    collections: &Collections,
    namespace: &Namespace,
    state: Option<&Arc<CollectionState>>,
    report: &Report,
) -> Result<Vec<DocumentBuf>> {
    match (report.name, state) {
        ("$planCacheStats", None) => {
            let what = format!("collection '{namespace}' does not exist");
            Err(Error::new(ErrorCode::new(50933), what))
        }
        ("$collStats", _) => Ok(vec![statistics(collections, namespace, state, report.spec.view())?]),
        ("$indexStats", Some(state)) => Ok(indexes(collections, state)),
        // There is no cache of plans.
        _ => Ok(Vec::new()),
    }
}

fn statistics(
    collections: &Collections,
    namespace: &Namespace,
    state: Option<&Arc<CollectionState>>,
    spec: Document<'_>,
) -> Result<DocumentBuf> {
    let mut builder = DocumentBuilder::new();
    builder.append("ns", namespace.as_str()).append("host", &*host(collections));
    builder.append("localTime", Value::DateTime(collections.parts.environment.now_ms()));
    let not_found = || {
        let what = format!("Collection [{namespace}] not found.");
        Error::new(ErrorCode::NAMESPACE_NOT_FOUND, what)
    };
    for element in spec.elements().filter(|element| !element.value.is_nullish()) {
        match (element.name.as_str(), element.value) {
            (Some("latencyStats"), options) => {
                let histograms = options.as_document().and_then(|options| options.get("histograms"));
                let histograms = matches!(histograms, Some(Value::Bool(true)));
                builder.open_document("latencyStats");
                match &collections.server {
                    Some(server) => server.append_latencies(namespace.as_str(), histograms, &mut builder),
                    None => return Err(Error::new(ErrorCode::NOT_IMPLEMENTED, "latencyStats needs a server")),
                }
                builder.close();
            }
            (Some("count"), _) => {
                let state = state.ok_or_else(not_found)?;
                builder.append("count", crate::expr::value::int(sizes(collections, state)?.0));
            }
            (Some("storageStats"), Value::Document(options)) => {
                state.ok_or_else(not_found)?;
                builder.open_document("storageStats");
                storage(collections, state, options, &mut builder)?;
                builder.close();
            }
            (Some("queryExecStats"), _) => {
                let scans = i64::try_from(state.ok_or_else(not_found)?.scans.count()).unwrap_or(i64::MAX);
                builder.open_document("queryExecStats").open_document("collectionScans");
                // A tailable cursor does not search: it follows the collection.
                builder.append("total", scans).append("nonTailable", scans).close().close();
            }
            _ => {}
        }
    }
    Ok(builder.finish())
}

/// How many documents a collection has, and their bytes.
fn sizes(collections: &Collections, state: &CollectionState) -> Result<(i64, i64)> {
    let mut range =
        collections.reader.range(&state.table, (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded), false);
    let (mut count, mut bytes) = (0_i64, 0_i64);
    while let Some((_, value)) = range.advance()? {
        count += 1;
        bytes += i64::try_from(value.len()).unwrap_or_default();
    }
    Ok((count, bytes))
}

fn storage(
    collections: &Collections,
    state: Option<&Arc<CollectionState>>,
    options: Document<'_>,
    builder: &mut DocumentBuilder,
) -> Result<()> {
    let scale = options.get("scale").filter(|scale| !scale.is_nullish());
    let scale = scale.map_or(Ok(1), |scale| scale_of(&scale))?;
    let int = crate::expr::value::int;
    let (count, bytes) = match state {
        Some(state) => sizes(collections, state)?,
        None => (0, 0),
    };
    let unbounded = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let stored = |table: &spinney::Table| -> Result<i64> {
        Ok(i64::try_from(collections.reader.estimate(table, &unbounded)?.bytes).unwrap_or(i64::MAX))
    };
    builder.append("size", int(bytes / scale)).append("count", int(count));
    if count > 0 {
        builder.append("avgObjSize", int(bytes / count));
    }
    builder.append("numOrphanDocs", 0);
    let Some(state) = state else {
        builder.append("storageSize", 0).append("totalSize", 0).append("nindexes", 0).append("totalIndexSize", 0);
        builder.open_document("indexSizes").close().append("scaleFactor", int(scale));
        return Ok(());
    };
    let schema = state.schema();
    let (size, limits) = (stored(&state.table)?, schema.options.capped);
    let indexes = schema.indexes.iter().map(|index| Ok((index.spec.name.as_str(), stored(&index.table)?)));
    let indexes = indexes.collect::<Result<Vec<_>>>()?;
    let index_size: i64 = indexes.iter().map(|(_, size)| size).sum();
    builder.append("storageSize", int(size / scale)).append("freeStorageSize", 0).append("capped", limits.is_some());
    if let Some(limits) = limits {
        builder.append("max", int(limits.documents_max.unwrap_or_default()));
        builder.append("maxSize", int(limits.bytes_max / scale));
    }
    builder.append("nindexes", int(i64::try_from(schema.index_count()).unwrap_or_default()));
    builder.open_array("indexBuilds").close().append("totalIndexSize", int(index_size / scale));
    builder.append("totalSize", int((size + index_size) / scale));
    builder.open_document("indexSizes");
    if limits.is_none() {
        // The documents are stored in the order of `_id`.
        builder.append(ID_INDEX, 0);
    }
    for (name, size) in &indexes {
        builder.append(name, int(size / scale));
    }
    builder.close().append("scaleFactor", int(scale));
    Ok(())
}

fn host(collections: &Collections) -> String {
    collections.server.as_ref().map_or_else(|| "localhost:27017".to_owned(), |server| server.host())
}

fn indexes(collections: &Collections, state: &CollectionState) -> Vec<DocumentBuf> {
    let schema = state.schema();
    let id = IndexSpec::of_id(schema.options.collation.as_deref());
    let others = schema.others().map(|index| (&index.spec, index.ready, index.uses.count()));
    let id_uses = schema.index(ID_INDEX).map_or_else(|| state.id_uses.count(), |index| index.uses.count());
    let all = std::iter::once((&id, true, id_uses)).chain(others);
    let shown = all.map(|(spec, ready, uses)| {
        let mut builder = DocumentBuilder::new();
        builder.append("name", spec.name.as_str()).append("key", spec.pattern.document());
        builder
            .append("host", &*host(collections))
            .open_document("accesses")
            .append("ops", i64::try_from(uses).unwrap_or(i64::MAX));
        builder.append("since", Value::DateTime(collections.parts.environment.now_ms())).close();
        if !ready {
            builder.append("building", true);
        }
        builder.append("spec", spec.document());
        builder.finish()
    });
    shown.collect()
}
