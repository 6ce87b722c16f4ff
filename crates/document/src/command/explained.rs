//! How a query over a collection is explained.

use std::sync::Arc;

use super::call::{Call, Reply};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf};
use crate::catalog::{CollectionState, Namespace};
use crate::exec::Execution;
use crate::plan::explain::{Executed, Shown, stages, stats};
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
    let shown = Shown {
        filter: call.document("filter").or_else(|| call.document("query")).unwrap_or(Document::empty()),
        sort: call.document_or_empty("sort"),
        projection: call.document_or_empty("projection"),
    };
    let query = Arc::new(query);
    let began = call.state.now_ms();
    let (planned, executed) = match state {
        None => (stages(&Plan::Nothing, &query, shown, None), Executed::default()),
        Some(state) => {
            let mut execution = Execution::open(call.reader()?, state, Arc::clone(&query))?;
            execution.watch(&call.interrupt);
            let planned = stages(execution.plan(), &query, shown, None);
            let mut executed = Executed::default();
            if call.executes {
                while execution.next_match()?.is_some() {
                    executed.returned += 1;
                }
                let counts = execution.counts();
                (executed.keys, executed.documents) = (counts.keys.get(), counts.documents.get());
                executed.millis = u64::try_from(call.state.now_ms().saturating_sub(began)).unwrap_or_default();
                let tree = stages(execution.plan(), &query, shown, Some(executed));
                return Ok(explained(namespace, shown.filter, &planned, Some(&stats(&tree, executed))));
            }
            (planned, executed)
        }
    };
    let stats = call.executes.then(|| stats(&stages(&Plan::Nothing, &query, shown, Some(executed)), executed));
    Ok(explained(namespace, shown.filter, &planned, stats.as_ref()))
}

fn explained(namespace: &Namespace, filter: Document<'_>, planned: &DocumentBuf, stats: Option<&DocumentBuf>) -> Reply {
    let mut reply = Reply::new();
    reply.append("explainVersion", "1").open_document("queryPlanner");
    reply.append("namespace", namespace.as_str()).append("indexFilterSet", false).append("parsedQuery", filter);
    reply.append("maxIndexedOrSolutionsReached", false).append("maxIndexedAndSolutionsReached", false);
    reply.append("maxScansToExplodeReached", false).append("winningPlan", planned);
    reply.open_array("rejectedPlans").close().close();
    if let Some(stats) = stats {
        reply.append("executionStats", stats);
    }
    reply
}
