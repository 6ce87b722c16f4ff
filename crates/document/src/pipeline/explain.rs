//! Pipelines as `explain` shows them.

use std::sync::Arc;

use super::collections::Collections;
use super::head::Head;
use super::view;
use crate::aggregate::{Pipeline, Run};
use crate::base::Result;
use crate::bson::{Document, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::{Entry, Namespace};
use crate::exec::Execution;
use crate::plan::Hint;
use crate::plan::explain::{Shown, stages};

/// Appends how a pipeline over a collection or view would run.
///
/// # Errors
/// Those of the view's pipeline and of the plan.
pub(super) fn collection(
    collections: &Arc<Collections>,
    namespace: &Namespace,
    pipeline: &Pipeline,
    run: &Run,
    hint: Option<Hint>,
    reply: &mut DocumentBuilder,
) -> Result<()> {
    let resolved = view::resolve(&collections.parts.catalog, namespace, &run.context)?;
    let whole = resolved.pipeline.then(pipeline);
    if whole.starts_with_source() {
        reply.open_array("stages");
        append_stages(reply, &whole);
        reply.close();
        return Ok(());
    }
    let mut head = Head::of(&whole)?;
    head.query.hint = hint;
    let planner = planner(collections, &resolved.namespace, &head)?;
    if head.rest.is_empty() {
        reply.append("queryPlanner", &planner);
        return Ok(());
    }
    reply.open_array("stages").push_document();
    reply.open_document("$cursor").append("queryPlanner", &planner).close().close();
    append_stages(reply, &head.rest);
    reply.close();
    Ok(())
}

fn append_stages(reply: &mut DocumentBuilder, pipeline: &Pipeline) {
    pipeline.stages().iter().for_each(|step| {
        reply.push(step.spec());
    });
}

/// `queryPlanner` of the head of a pipeline.
fn planner(collections: &Arc<Collections>, namespace: &Namespace, head: &Head) -> Result<DocumentBuf> {
    let operand = |name: &str| {
        let step = head.taken.iter().find(|step| step.name() == name);
        step.and_then(|step| step.spec().get(name).and_then(|spec| spec.as_document())).map(DocumentBuf::from)
    };
    let (filter, sort) = (filter_of(head), operand("$sort").unwrap_or_default());
    let projection = match (operand("$project"), &head.query.projection) {
        (Some(spec), _) => spec,
        (None, Some(projection)) => {
            let mut builder = DocumentBuilder::new();
            let paths = projection.plain_paths().unwrap_or_default();
            if !paths.iter().any(|path| path == "_id") {
                builder.append("_id", 0);
            }
            paths.iter().for_each(|path| {
                builder.append(path, 1);
            });
            builder.finish()
        }
        (None, None) => DocumentBuf::new(),
    };
    let mut planner = DocumentBuilder::new();
    planner.append("namespace", namespace.as_str()).append("indexFilterSet", false).append("parsedQuery", &filter);
    planner.append("optimizedPipeline", true);
    let plan = match collections.parts.catalog.find(namespace) {
        Some(Entry::Collection(state)) => {
            let reader = Box::new(Arc::clone(&collections.reader));
            let execution = Execution::open(reader, &state, Arc::new(head.query.clone()))?;
            let shown = Shown { filter: filter.view(), sort: sort.view(), projection: projection.view() };
            stages(execution.plan(), execution.query(), shown, None)
        }
        _ => doc! {"stage": "EOF"},
    };
    planner.append("winningPlan", &plan).open_array("rejectedPlans").close();
    Ok(planner.finish())
}

/// The filters of the head, joined.
fn filter_of(head: &Head) -> DocumentBuf {
    let specs = head.taken.iter().filter(|step| step.as_filter().is_some());
    let filters: Vec<Document<'_>> =
        specs.filter_map(|step| step.spec().get("$match").and_then(|spec| spec.as_document())).collect();
    match &filters[..] {
        [] => DocumentBuf::new(),
        [filter] => (*filter).into(),
        several => {
            let mut builder = DocumentBuilder::new();
            builder.open_array("$and");
            several.iter().for_each(|filter| {
                builder.push(Value::Document(*filter));
            });
            builder.close();
            builder.finish()
        }
    }
}
