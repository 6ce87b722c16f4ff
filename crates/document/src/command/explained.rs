//! How a query over a collection is explained.

use std::sync::Arc;

use super::call::{Call, Reply};
use super::indexes::is_view;
use super::kept_settings::QuerySetting;
use super::query_settings::shape_hash_of;
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder};
use crate::catalog::{CollectionState, Entry, Namespace};
use crate::collation::Collated;
use crate::exec::Execution;
use crate::plan::explain::{Executed, Shown, stages, stats};
use crate::plan::query_shape::{query_shape, query_shape_hash};
use crate::plan::shape::{shape, short_hash};
use crate::plan::{Plan, Query};

/// Explains a query over a collection.
///
/// # Errors
/// Those of the planner, and, when it is executed, those of the query.
pub(super) fn explain_query(
    call: &Call<'_>,
    namespace: &Namespace,
    state: Option<&CollectionState>,
    query: Query,
) -> Result<Reply> {
    let filter = call.document("filter").or_else(|| call.document("query")).unwrap_or(Document::empty());
    let shown =
        Shown { filter, sort: call.document_or_empty("sort"), projection: call.document_or_empty("projection") };
    let collation = query.collation.clone();
    let explained = explain(call, state, query, shown)?;
    let stats = explained.executed.map(|executed| stats(&explained.tree, executed));
    Ok(reply(namespace, shown, &collation, &explained, &explained.planned, stats.as_ref()))
}

/// A write that is explained.
#[derive(Clone, Copy, Debug)]
pub(super) struct Write<'w> {
    /// The name of its stage.
    pub(super) stage: &'w str,
    /// The filter of its documents.
    pub(super) filter: Document<'w>,
    /// What it would do.
    pub(super) counts: &'w [(&'w str, u64)],
    /// Whether it deletes what it finds.
    pub(super) deletes: bool,
}

/// Explains a write: a stage over those of the query that finds its documents.
///
/// # Errors
/// As [`explain_query`]; `CommandNotSupportedOnView` (166).
pub(super) fn explain_write(call: &Call<'_>, query: Query, write: Write<'_>) -> Result<Reply> {
    let (namespace, entry) = call.entry()?;
    let state = match entry {
        Some(Entry::View(_)) => return Err(is_view(&namespace)),
        Some(Entry::Damaged(damage)) => return Err(damage.error()),
        Some(Entry::Collection(state)) => Some(state),
        None => None,
    };
    let shown = Shown { filter: write.filter, sort: call.document_or_empty("sort"), projection: Document::empty() };
    let collation = query.collation.clone();
    let explained = explain(call, state.as_deref(), query, shown)?;
    let over = |input: &DocumentBuf, found: Option<u64>| {
        let mut stage = DocumentBuilder::new();
        stage.append("stage", write.stage);
        if let Some(found) = found {
            stage.append("nReturned", 0);
            for (name, count) in write.counts {
                stage.append(*name, super::reply::count(*count));
            }
            if write.deletes {
                stage.append("nWouldDelete", super::reply::count(found));
            }
        }
        stage.append("inputStage", input);
        stage.finish()
    };
    let stats = explained.executed.map(|executed| {
        let tree = over(&explained.tree, Some(executed.returned));
        stats(&tree, Executed { returned: 0, ..executed })
    });
    Ok(reply(&namespace, shown, &collation, &explained, &over(&explained.planned, None), stats.as_ref()))
}

/// The stages of a query, and what it did when it was run.
struct Explained {
    shape: String,
    /// The hash of the shape of the command.
    hash: String,
    settings: Option<Arc<QuerySetting>>,
    /// Whether an index filter limits the indexes.
    filtered: bool,
    planned: DocumentBuf,
    tree: DocumentBuf,
    executed: Option<Executed>,
}

fn explain(call: &Call<'_>, state: Option<&CollectionState>, query: Query, shown: Shown<'_>) -> Result<Explained> {
    let query = query.with_spill(call.state.database.engine());
    let (query, began) = (Arc::new(query), call.state.now_ms());
    let shape = shape(&query);
    let (hash, settings) = shape_of(call, shown)?;
    let filtered = state.is_some_and(|state| state.filters.of(|| shape.clone()).is_some());
    let Some(state) = state else {
        let executed = call.executes.then(Executed::default);
        let planned = stages(&Plan::Nothing, &query, shown, None);
        return Ok(Explained {
            shape,
            hash,
            settings,
            filtered,
            planned,
            tree: stages(&Plan::Nothing, &query, shown, executed),
            executed,
        });
    };
    let mut execution = Execution::open(call.reader()?, state, Arc::clone(&query))?;
    let planned = stages(execution.plan(), &query, shown, None);
    if !call.executes {
        return Ok(Explained { shape, hash, settings, filtered, tree: planned.clone(), planned, executed: None });
    }
    let mut executed = Executed::default();
    while execution.next_match()?.is_some() {
        executed.returned += 1;
    }
    let counts = execution.counts();
    (executed.keys, executed.documents) = (counts.keys.get(), counts.documents.get());
    executed.millis = u64::try_from(call.state.now_ms().saturating_sub(began)).unwrap_or_default();
    let tree = stages(execution.plan(), &query, shown, Some(executed));
    Ok(Explained { shape, hash, settings, filtered, planned, tree, executed: Some(executed) })
}

/// The hash of the shape of the command, and the settings of the queries of the shape. Writes have no settings.
fn shape_of(call: &Call<'_>, shown: Shown<'_>) -> Result<(String, Option<Arc<QuerySetting>>)> {
    let (database, body) = (call.request.database, call.request.body);
    if let Some(hash) = shape_hash_of(database, body) {
        return Ok((hash, call.query_settings(true)?));
    }
    let mut command = DocumentBuilder::new();
    body.first().into_iter().for_each(|first| _ = command.append_element(&first));
    command.append("filter", shown.filter).append("sort", shown.sort);
    call.value("collation").into_iter().for_each(|collation| _ = command.append("collation", collation));
    Ok((query_shape_hash(&query_shape(database, command.finish().view())), None))
}

fn reply(
    namespace: &Namespace,
    shown: Shown<'_>,
    collation: &Collated,
    explained: &Explained,
    planned: &DocumentBuf,
    stats: Option<&DocumentBuf>,
) -> Reply {
    let mut reply = Reply::new();
    reply.append("explainVersion", "1").append("queryShapeHash", &explained.hash);
    reply.open_document("queryPlanner");
    reply.append("namespace", namespace.as_str()).append("indexFilterSet", explained.filtered);
    reply.append("parsedQuery", shown.filter);
    if let Some(collation) = collation {
        reply.append("collation", collation.document());
    }
    if let Some(settings) = &explained.settings {
        reply.append("querySettings", &settings.document);
    }
    let short = short_hash(&explained.shape);
    reply.append("queryHash", &short).append("planCacheShapeHash", &short);
    reply.append("planCacheKey", &short_hash(&format!("{}{planned:?}", explained.shape)));
    reply.append("maxIndexedOrSolutionsReached", false).append("maxIndexedAndSolutionsReached", false);
    reply.append("maxScansToExplodeReached", false).append("winningPlan", planned);
    reply.open_array("rejectedPlans").close().close();
    if let Some(stats) = stats {
        reply.append("executionStats", stats);
    }
    reply
}
