//! `$unionWith`: the documents of another collection after those that come in.

use std::sync::Arc;

use super::lookup::failed;
use super::stage::{Inner, Namespace, Parser, Pipeline, Rows, Run, Stage, Stages, error};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::Value;

/// `$unionWith`.
#[derive(Debug)]
struct Union {
    with: Option<Namespace>,
    pipeline: Pipeline,
}

impl Stage for Union {
    fn name(&self) -> &'static str {
        "$unionWith"
    }

    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows> {
        let run = run.clone();
        let others = std::iter::once_with(move || match &self.with {
            Some(with) => run.storage.source(with, &run)?.read(&self.pipeline, &run),
            None => self.pipeline.run(Box::new(std::iter::empty()), &run),
        });
        Ok(Box::new(input.chain(others.flat_map(|rows| match rows {
            Ok(rows) => rows,
            Err(wrong) => Box::new(std::iter::once(Err(wrong))),
        }))))
    }

    fn namespaces(&self) -> Vec<Namespace> {
        self.with.iter().cloned().chain(self.pipeline.namespaces()).collect()
    }

    fn inner_names(&self) -> Vec<&'static str> {
        self.pipeline.all_names()
    }

    fn inner(&self) -> Vec<Inner> {
        vec![Inner { over: self.with.clone(), is_over_input: false, pipeline: self.pipeline.clone() }]
    }
}

pub(super) fn read(parser: &Parser<'_>, _: &'static str, value: Value<'_>) -> Stages {
    let (mut with, mut pipeline) = (None, Pipeline::default());
    match value {
        Value::String(name) => with = Some(Namespace { database: None, collection: name.to_str_lossy().into_owned() }),
        Value::Document(spec) => {
            for element in spec {
                match (element.name.as_bytes(), element.value) {
                    (b"coll", Value::String(name)) => {
                        with = Some(Namespace { database: None, collection: name.to_str_lossy().into_owned() })
                    }
                    (b"pipeline", Value::Array(stages)) => pipeline = parser.inner(stages)?,
                    (b"coll" | b"pipeline", other) => {
                        return Err(Error::new(
                            ErrorCode::TYPE_MISMATCH,
                            format!(
                                "BSON field '$unionWith.{}' is the wrong type '{}'",
                                element.name,
                                other.kind().name()
                            ),
                        ));
                    }
                    _ => {
                        return Err(Error::new(
                            ErrorCode::IDL_UNKNOWN_FIELD,
                            format!("BSON field '$unionWith.{}' is an unknown field.", element.name),
                        ));
                    }
                }
            }
        }
        other => {
            return Err(failed(format!(
                "the $unionWith stage specification must be an object or string, but found {}",
                other.kind().name()
            )));
        }
    }
    if pipeline.stages().iter().any(|stage| stage.is_output()) {
        return Err(error(31441, "$out and $merge are not allowed within a $unionWith's sub-pipeline"));
    }
    if with.is_none() && !pipeline.starts_with_source() {
        return Err(failed(
            "$unionWith stage without explicit collection must have a pipeline with $documents as first stage",
        ));
    }
    Ok(vec![Arc::new(Union { with, pipeline })])
}
