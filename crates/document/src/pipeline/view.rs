//! Views: a view is the collection that it is on, seen through a pipeline.

use crate::aggregate::{self, Is, Pipeline, stage_is};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, Value};
use crate::catalog::{Catalog, CollectionOptions, Entry, Namespace};
use crate::expr::Context;

/// How many views may be on each other.
pub const DEPTH_MAX: usize = 20;

/// What a name stands for.
#[derive(Debug)]
pub struct Resolved {
    /// The collection, which may not exist.
    pub namespace: Namespace,
    /// The pipelines of the views on it.
    pub pipeline: Pipeline,
    /// How many views there are.
    pub views: usize,
}

/// The collection that a name stands for, and the pipeline of the view if it is one.
///
/// # Errors
/// `ViewDepthLimitExceeded` (165); `OptionNotSupportedOnView` (167) for a view with another collation than that of the
/// operation; those of the views' pipelines.
pub fn resolve(catalog: &Catalog, namespace: &Namespace, context: &Context) -> Result<Resolved> {
    let context = context.without_variables();
    let mut resolved = Resolved { namespace: namespace.clone(), pipeline: Pipeline::default(), views: 0 };
    while let Some(Entry::View(options)) = catalog.find(&resolved.namespace) {
        resolved.views += 1;
        if resolved.views > DEPTH_MAX {
            return Err(too_deep());
        }
        if options.collation != context.collation {
            let what = format!("Cannot override the default collation of the view {}", resolved.namespace);
            return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, what));
        }
        let Some((on, stages)) = &options.view else { break };
        let pipeline = parse(stages.view(), &context)?;
        refuse_secrets(&resolved.namespace, on, &pipeline)?;
        resolved.pipeline = pipeline.then(&resolved.pipeline)?;
        resolved.namespace = Namespace::new(namespace.database(), on)?;
    }
    match catalog.find(&resolved.namespace) {
        Some(Entry::Damaged(damage)) => Err(damage.error()),
        _ => Ok(resolved),
    }
}

fn too_deep() -> Error {
    let what = format!("View depth limit exceeded; maximum depth is {DEPTH_MAX}");
    Error::new(ErrorCode::VIEW_DEPTH_LIMIT_EXCEEDED, what)
}

/// The pipeline of a view, an array in the bytes of a document.
fn parse(stages: Document<'_>, context: &Context) -> Result<Pipeline> {
    aggregate::parse(crate::bson::Array::of_document(stages), context)
}

/// Checks a view that is to be created or changed: its pipeline, that it is not on itself, and not too many views are.
///
/// # Errors
/// `GraphContainsCycle` (5), `ViewDepthLimitExceeded` (165), `OptionNotSupportedOnView` (167) for a pipeline that
/// writes or a view with another collation on its way, `InvalidNamespace` (73), and those of the pipeline.
pub fn check(catalog: &Catalog, namespace: &Namespace, options: &CollectionOptions) -> Result<()> {
    let Some((on, stages)) = &options.view else { return Ok(()) };
    let collation = options.collation.clone();
    if on.is_empty() {
        return Err(Error::bad_value("'viewOn' cannot be empty"));
    }
    let pipeline = parse(stages.view(), &Context::default())?;
    if let Some(stage) = pipeline.stages().iter().find(|stage| stage.is_output()) {
        let what = format!("The aggregation stage {} cannot be used in a view definition", stage.name());
        return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, what));
    }
    let reads_none = |name: &str| stage_is(name, Is::OverDatabases) || stage_is(name, Is::OfServer);
    if let Some(stage) = pipeline.stages().first().filter(|stage| reads_none(stage.name())) {
        let what = format!("a view definition cannot begin with {}, which reads no collection", stage.name());
        return Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
    }
    let read = read_by(namespace.database(), on, &pipeline)?;
    refuse_secrets(namespace, on, &pipeline)?;
    let mut open: Vec<_> = read.into_iter().map(|read| (read, 1)).collect();
    while let Some((next, depth)) = open.pop() {
        if next == *namespace {
            let what = format!("View cycle detected: {namespace} is on itself");
            return Err(Error::new(ErrorCode::GRAPH_CONTAINS_CYCLE, what));
        }
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        if let Some(Entry::View(options)) = catalog.find(&next)
            && let Some((on, stages)) = &options.view
        {
            if options.collation != collation {
                let what = format!("View {namespace} has another collation than the view {next}");
                return Err(Error::new(ErrorCode::OPTION_NOT_SUPPORTED_ON_VIEW, what));
            }
            let pipeline = parse(stages.view(), &Context::default())?;
            open.extend(read_by(next.database(), on, &pipeline)?.into_iter().map(|read| (read, depth + 1)));
        }
    }
    Ok(())
}

/// The collections that a view reads: the one that it is on, and those of its stages.
fn read_by(database: &str, on: &str, pipeline: &Pipeline) -> Result<Vec<Namespace>> {
    let named = pipeline
        .namespaces()
        .into_iter()
        .map(|namespace| Namespace::new(namespace.database.as_deref().unwrap_or(database), &namespace.collection));
    std::iter::once(Namespace::new(database, on)).chain(named).collect()
}

/// Refuses a view that shows what proves passwords: rights on the view would be rights on that.
fn refuse_secrets(view: &Namespace, on: &str, pipeline: &Pipeline) -> Result<()> {
    let of = |database: Option<&str>, name: &str| Namespace::to_read(database.unwrap_or(view.database()), name).ok();
    let named = pipeline.namespaces();
    let named = named.iter().filter_map(|named| of(named.database.as_deref(), &named.collection));
    match of(None, on).into_iter().chain(named).find(Namespace::holds_secrets) {
        Some(secret) => {
            let what = format!("the view {view} cannot read {secret}, which holds credentials or rights");
            Err(Error::new(ErrorCode::INVALID_NAMESPACE, what))
        }
        None => Ok(()),
    }
}

/// The stages of a view as they were given.
#[must_use]
pub fn stages_of(options: &CollectionOptions) -> Option<Value<'_>> {
    options.view.as_ref().map(|(_, stages)| Value::Array(crate::bson::Array::of_document(stages.view())))
}
