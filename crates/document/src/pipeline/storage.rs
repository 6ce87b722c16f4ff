//! How a pipeline reads collections and views: the head as a query, the rest over its documents.

use std::sync::Arc;

use super::collections::Collections;
use super::head::Head;
use super::rewrites::Rewrite;
use super::sample::Draws;
use super::{merge, replace, report, view};
use crate::aggregate::lend::{Lender, Take};
use crate::aggregate::{self, Is, NoStorage, Output, Pipeline, Report, Rows, Run, Source, Storage, stage_is};
use crate::base::{Error, ErrorCode, Result};
use crate::catalog::{CollectionState, Entry, Namespace};
use crate::exec::Execution;
use crate::keys::Direction;
use crate::path::Path;
use crate::plan::Hint;

/// A collection that is read, or a view on it.
#[derive(Debug)]
struct Stored {
    collections: Arc<Collections>,
    namespace: Namespace,
    state: Option<Arc<CollectionState>>,
    /// The name of the view, if it is one.
    view_name: Option<Namespace>,
    /// The pipeline of the view, and what it runs with when it is in another database.
    view: Pipeline,
    view_run: Option<Run>,
    hint: Option<Hint>,
}

impl Collections {
    /// The collection or view of a name, to be read with a hint.
    ///
    /// # Errors
    /// Those of a view's pipeline.
    pub fn open(self: &Arc<Self>, namespace: &Namespace, run: &Run, hint: Option<Hint>) -> Result<Arc<dyn Source>> {
        let resolved = view::resolve(&self.parts.catalog, namespace, &run.context)?;
        let state =
            self.reader.created(&resolved.namespace).or_else(|| match self.parts.catalog.find(&resolved.namespace) {
                Some(Entry::Collection(state)) => Some(state),
                _ => None,
            });
        let elsewhere = !resolved.pipeline.is_empty() && namespace.database() != self.database;
        let view_run = elsewhere.then(|| {
            let there = Self { database: namespace.database().to_owned(), ..Self::clone(self) };
            Run { storage: Arc::new(Shared(Arc::new(there))), ..run.clone() }
        });
        let collections = Arc::clone(self);
        let view_name = (resolved.views > 0).then(|| namespace.clone());
        let (view, namespace) = (resolved.pipeline, resolved.namespace);
        Ok(Arc::new(Stored { collections, namespace, state, view_name, view, view_run, hint }))
    }
}

/// Collections that the stages of a pipeline share.
#[derive(Clone, Debug)]
pub struct Shared(pub Arc<Collections>);

impl Storage for Shared {
    fn source(&self, namespace: &aggregate::Namespace, run: &Run) -> Result<Arc<dyn Source>> {
        match self.0.full_name(namespace) {
            Ok(namespace) => self.0.open(&namespace, run, None),
            // No collection can have the name.
            Err(error) if error.code() == ErrorCode::INVALID_NAMESPACE => Ok(Arc::new(NoStorage)),
            Err(error) => Err(error),
        }
    }

    fn write(&self, namespace: &aggregate::Namespace, output: &Output<'_>, rows: Rows, run: &Run) -> Result<()> {
        let namespace = self.0.full_name(namespace)?;
        match output {
            Output::Replace => replace::replace(&self.0, &namespace, rows),
            Output::Merge(how) => merge::merge(&self.0, &namespace, how, rows, &run.context),
        }
    }

    fn report(&self, report: &Report) -> Result<Rows> {
        match &self.0.server {
            Some(server) => server.report(report),
            None => {
                let what = format!("{} needs a server", report.name);
                Err(Error::new(ErrorCode::NOT_IMPLEMENTED, what))
            }
        }
    }
}

impl Source for Stored {
    fn read(&self, pipeline: &Pipeline, run: &Run) -> Result<Rows> {
        let Some(name) = &self.view_name else { return self.read_stored(pipeline, run) };
        if let Some(report) = report_of(pipeline).filter(|report| report.name == "$collStats" || !self.view.is_empty())
        {
            report::check_view(name, report)?;
            let rows = report::of_collection(&self.collections, name, None, report)?;
            return pipeline.clone().without_first(1).run(Box::new(rows.into_iter().map(Ok)), run);
        }
        match &self.view_run {
            Some(view_run) => pipeline.run(self.read_stored(&self.view, view_run)?, run),
            None => self.read_stored(&self.view.then(pipeline)?, run),
        }
    }
}

/// The report of a collection that a pipeline begins with.
fn report_of(pipeline: &Pipeline) -> Option<&Report> {
    pipeline
        .stages()
        .first()
        .and_then(|stage| stage.as_report())
        .filter(|report| stage_is(report.name, Is::OfCollection))
}

impl Stored {
    fn read_stored(&self, pipeline: &Pipeline, run: &Run) -> Result<Rows> {
        if let Some(report) = report_of(pipeline) {
            let rows = report::of_collection(&self.collections, &self.namespace, self.state.as_ref(), report)?;
            return pipeline.clone().without_first(1).run(Box::new(rows.into_iter().map(Ok)), run);
        }
        if pipeline.starts_with_source() {
            return pipeline.run(Box::new(std::iter::empty()), run);
        }
        let mut head = Head::of(pipeline, self.collections.rewrites)?;
        let Some(state) = &self.state else {
            return head.rest.run(Box::new(std::iter::empty()), run);
        };
        let Collections { reader, rewrites, .. } = &*self.collections;
        let sampled = pipeline.stages().first().and_then(|stage| stage.as_sample());
        if let Some(size) = sampled.filter(|_| self.hint.is_none() && rewrites.has(Rewrite::Draws))
            && let Some(draws) = Draws::begin(reader, &state.table, size, run)?
        {
            return pipeline.clone().without_first(1).run(Box::new(draws), run);
        }
        head.query.hint.clone_from(&self.hint);
        head.query.allowed = self.collections.allowed(&self.namespace);
        head.query.collation.clone_from(&run.context.collation);
        head.query.memory = Some(Arc::clone(&run.memory));
        head.query.fetches = !rewrites.has(Rewrite::CoveredReads);
        let execution = Execution::open(Box::new(Arc::clone(reader)), state, Arc::new(head.query))?;
        let keys = rewrites.has(Rewrite::LentKeys);
        let mut found = Found { execution, keys };
        if head.rest.borrows() && rewrites.has(Rewrite::Lending) {
            return head.rest.run_lent(Box::new(found), run);
        }
        head.rest.run(Box::new(std::iter::from_fn(move || found.execution.next())), run)
    }
}

/// The documents that the query of a pipeline's head finds.
#[derive(Debug)]
struct Found {
    execution: Execution<'static>,
    /// Whether keys are lent.
    keys: bool,
}

impl Lender for Found {
    fn key_fields(&self) -> Option<Vec<(Path, Direction)>> {
        if self.keys { self.execution.key_fields() } else { None }
    }

    fn lend(&mut self, keys: bool, take: &mut Take<'_>) -> Result<bool> {
        self.execution.lend(keys, take)
    }
}
