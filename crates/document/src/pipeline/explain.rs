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
use crate::plan::explain::{Executed, Shown, stages, stats};
use crate::plan::shape::{shape, short_hash};

/// What is told of the shape of a command that is explained.
#[derive(Clone, Copy, Debug)]
pub struct ExplainedShape<'e> {
    /// The hash of the shape.
    pub hash: &'e str,
    /// The settings of its queries.
    pub settings: Option<Document<'e>>,
}

/// Appends how a pipeline over a collection or view would run.
///
/// # Errors
/// Those of the view's pipeline and of the plan.
pub(super) fn collection(
    (collections, run): (&Arc<Collections>, &Run),
    namespace: &Namespace,
    pipeline: &Pipeline,
    hint: Option<Hint>,
    (executes, shape): (bool, &ExplainedShape<'_>),
    reply: &mut DocumentBuilder,
) -> Result<()> {
    let resolved = view::resolve(&collections.parts.catalog, namespace, &run.context)?;
    let whole = resolved.pipeline.then(pipeline)?;
    if whole.starts_with_source() {
        reply.open_array("stages");
        append_stages(reply, &whole);
        reply.close();
        return Ok(());
    }
    let mut head = Head::of(&whole, collections.rewrites)?;
    head.query.hint = hint;
    head.query.collation.clone_from(&run.context.collation);
    head.query.allowed = collections.allowed(&resolved.namespace);
    let (planner, stats) = planner(collections, &resolved.namespace, &head, executes, shape)?;
    if head.rest.is_empty() {
        reply.append("queryPlanner", &planner);
        stats.iter().for_each(|stats| {
            reply.append("executionStats", stats);
        });
        return Ok(());
    }
    reply.open_array("stages").push_document();
    reply.open_document("$cursor").append("queryPlanner", &planner);
    stats.iter().for_each(|stats| {
        reply.append("executionStats", stats);
    });
    reply.close().close();
    append_stages(reply, &head.rest);
    reply.close();
    Ok(())
}

fn append_stages(reply: &mut DocumentBuilder, pipeline: &Pipeline) {
    pipeline.stages().iter().for_each(|step| {
        reply.push(step.spec());
    });
}

/// `queryPlanner` of the head of a pipeline, and `executionStats` when it is executed.
fn planner(
    collections: &Arc<Collections>,
    namespace: &Namespace,
    head: &Head,
    executes: bool,
    explained: &ExplainedShape<'_>,
) -> Result<(DocumentBuf, Option<DocumentBuf>)> {
    let operand = |name: &str| {
        let step = head.taken.iter().find(|step| step.name() == name);
        step.and_then(|step| step.spec().get(name).and_then(|spec| spec.as_document())).map(DocumentBuf::from)
    };
    let (filter, sort) = (filter_of(head), operand("$sort").unwrap_or_default());
    let projection = match (operand("$project"), head.query.kept()) {
        (Some(spec), _) => spec,
        (None, Some(projection)) => {
            let mut builder = DocumentBuilder::new();
            let paths = projection.plain_paths().unwrap_or_default();
            if !paths.iter().any(|path| path == "_id") {
                builder.append("_id", 0);
            }
            paths.iter().for_each(|path| {
                builder.append(path.as_bytes(), 1);
            });
            builder.finish()
        }
        (None, None) => DocumentBuf::new(),
    };
    let shape = shape(&head.query);
    let filtered = match collections.parts.catalog.find(namespace) {
        Some(Entry::Collection(state)) => state.filters.of(|| shape.clone()).is_some(),
        _ => false,
    };
    let mut planner = DocumentBuilder::new();
    planner.append("namespace", namespace.as_str()).append("indexFilterSet", filtered);
    planner.append("parsedQuery", &filter);
    if let Some(collation) = &head.query.collation {
        planner.append("collation", collation.document());
    }
    if let Some(settings) = explained.settings {
        planner.append("querySettings", settings);
    }
    let short = short_hash(&shape);
    planner.append("queryHash", &short).append("planCacheShapeHash", &short);
    planner.append("optimizedPipeline", true);
    let shown = Shown { filter: filter.view(), sort: sort.view(), projection: projection.view() };
    let (plan, stats) = plan(collections, namespace, head, shown, executes)?;
    planner.append("winningPlan", &plan).open_array("rejectedPlans").close();
    Ok((planner.finish(), stats))
}

/// The plan of the head, and what it did when it is executed.
fn plan(
    collections: &Arc<Collections>,
    namespace: &Namespace,
    head: &Head,
    shown: Shown<'_>,
    executes: bool,
) -> Result<(DocumentBuf, Option<DocumentBuf>)> {
    let Some(Entry::Collection(state)) = collections.parts.catalog.find(namespace) else {
        let plan = doc! {"stage": "EOF"};
        let stats = executes.then(|| stats(&plan, Executed::default()));
        return Ok((plan, stats));
    };
    let environment = &collections.parts.environment;
    let (reader, began) = (Box::new(Arc::clone(&collections.reader)), environment.now_ms());
    let mut execution =
        Execution::open(reader, &state, Arc::new(head.query.clone().with_spill(collections.parts.catalog.engine())))?;
    let plan = stages(execution.plan(), execution.query(), shown, None);
    if !executes {
        return Ok((plan, None));
    }
    let mut executed = Executed::default();
    while execution.next_match()?.is_some() {
        executed.returned += 1;
    }
    let counts = execution.counts();
    (executed.keys, executed.documents) = (counts.keys.get(), counts.documents.get());
    executed.millis = u64::try_from(environment.now_ms().saturating_sub(began)).unwrap_or_default();
    let tree = stages(execution.plan(), execution.query(), shown, Some(executed));
    Ok((plan, Some(stats(&tree, executed))))
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
