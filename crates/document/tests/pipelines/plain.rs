//! Collections as plain documents, over which stages run one by one: no query, no index, no short cut.

use std::collections::BTreeMap;
use std::sync::Arc;

use spinney_document::aggregate::{self, Namespace, NoStorage, Output, Pipeline, Report, Rows, Run, Source, Storage};
use spinney_document::bson::{Array, DocumentBuf};
use spinney_document::expr::Context;
use spinney_document::{Error, Result};

use super::case::{array, stages_of};

/// Collections and views by their names.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plain {
    pub(crate) collections: BTreeMap<String, Vec<DocumentBuf>>,
    /// The name of what a view is on, and its pipeline.
    pub(crate) views: BTreeMap<String, (String, String)>,
}

impl Plain {
    /// The documents of stages, each run alone over those of the one before.
    pub(crate) fn run(self: &Arc<Self>, source: &str, stages: Array<'_>) -> Result<Vec<DocumentBuf>> {
        let run = self.context();
        let mut documents = self.documents(source, &run)?;
        for stage in stages {
            let alone = spinney_document::bson::ValueBuf::array([stage]);
            let pipeline = aggregate::parse(alone.view().as_array().unwrap(), &run.context)?;
            documents = by_steps(&pipeline, documents, &run)?;
        }
        Ok(documents)
    }

    fn context(self: &Arc<Self>) -> Run {
        Run { storage: Arc::new(Shared(Arc::clone(self))), ..Run::new(Context::default()) }
    }

    fn documents(self: &Arc<Self>, name: &str, run: &Run) -> Result<Vec<DocumentBuf>> {
        let Some((on, stages)) = self.views.get(name) else {
            return Ok(self.collections.get(name).cloned().unwrap_or_default());
        };
        let stages = stages_of(stages);
        let pipeline = aggregate::parse(array(&stages), &run.context)?;
        by_steps(&pipeline, self.documents(on, run)?, run)
    }
}

fn by_steps(pipeline: &Pipeline, mut documents: Vec<DocumentBuf>, run: &Run) -> Result<Vec<DocumentBuf>> {
    for step in pipeline.stages() {
        let rows: Rows = Box::new(documents.into_iter().map(Ok));
        documents = Pipeline::of(vec![step.clone()]).run(rows, run)?.collect::<Result<_>>()?;
    }
    Ok(documents)
}

#[derive(Clone, Debug)]
struct Shared(Arc<Plain>);

#[derive(Debug)]
struct One(Arc<Plain>, String);

impl Storage for Shared {
    fn source(&self, namespace: &Namespace, _: &Run) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(One(Arc::clone(&self.0), namespace.collection.clone())))
    }

    fn write(&self, _: &Namespace, _: &Output<'_>, _: Rows, _: &Run) -> Result<()> {
        Err(Error::bad_value("nothing is written here"))
    }

    fn report(&self, report: &Report) -> Result<Rows> {
        NoStorage.report(report)
    }
}

impl Source for One {
    fn read(&self, pipeline: &Pipeline, run: &Run) -> Result<Rows> {
        let documents = if pipeline.starts_with_source() { Vec::new() } else { self.0.documents(&self.1, run)? };
        Ok(Box::new(by_steps(pipeline, documents, run)?.into_iter().map(Ok)))
    }
}
