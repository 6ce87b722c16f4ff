//! A pipeline over a collection or a database, ready to run.

use std::sync::Arc;

use super::collections::{Collections, Parts, Server};
use super::explain::{self, ExplainedShape};
use super::rewrites::Rewrites;
use super::storage::Shared;
use crate::aggregate::{self, Is, Memory, Pipeline, Rows, Run, stage_is};
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, DocumentBuf, DocumentBuilder, Value};
use crate::catalog::Namespace;
use crate::collation::Collation;
use crate::collection::{Collection, WriteOptions};
use crate::exec::Reader;
use crate::expr::Context;
use crate::plan::{Hint, IndexHints};

/// What a pipeline runs over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A collection or view.
    Collection(Namespace),
    /// A database: the first stage makes its documents itself, as `$documents` does.
    Database(String),
}

/// How a pipeline runs.
#[derive(Clone, Debug)]
pub struct AggregateOptions {
    /// Whether stages that keep more than the limit of memory go on in tables on disk. Default true.
    pub allow_disk_use: bool,
    /// The index that the collection must be read by.
    pub hint: Option<Hint>,
    /// The only indexes that are considered for collections, where one of them gives a plan. Stronger than the hint.
    pub index_hints: Option<Arc<IndexHints>>,
    /// How strings are compared, a document such as `{locale: "en", strength: 2}`. Default: as the collection says.
    pub collation: Option<DocumentBuf>,
    /// The bytes that the stages keep in memory. Default 100 MiB.
    pub memory_bytes_max: usize,
    /// How `$out` and `$merge` commit.
    pub write: WriteOptions,
    /// The short cuts that are taken. Default: all.
    pub rewrites: Rewrites,
}

impl Default for AggregateOptions {
    fn default() -> Self {
        Self {
            allow_disk_use: true,
            hint: None,
            index_hints: None,
            collation: None,
            memory_bytes_max: aggregate::memory::MEMORY_BYTES_MAX,
            write: WriteOptions::default(),
            rewrites: Rewrites::default(),
        }
    }
}

/// A pipeline that was parsed and checked.
#[derive(Clone, Debug)]
pub struct Aggregation {
    collections: Arc<Collections>,
    target: Target,
    pipeline: Pipeline,
    run: Run,
    hint: Option<Hint>,
}

impl Aggregation {
    /// Reads a pipeline for a target. All of it reads from `reader`.
    ///
    /// # Errors
    /// Those of the stages; `InvalidNamespace` (73) for a stage that the target is not right for.
    pub fn parse(
        parts: Parts,
        reader: Arc<dyn Reader>,
        target: Target,
        stages: Array<'_>,
        context: Context,
        options: AggregateOptions,
    ) -> Result<Self> {
        let pipeline = aggregate::parse(stages, &context)?;
        check_target(&target, &pipeline)?;
        let database = match &target {
            Target::Collection(namespace) => namespace.database(),
            Target::Database(name) => name,
        };
        let mut memory = Memory::new(options.memory_bytes_max);
        if options.allow_disk_use {
            memory = memory.with_spill(parts.catalog.engine().clone());
        }
        let collections = Arc::new(Collections {
            database: database.to_owned(),
            parts,
            reader,
            write: options.write,
            server: None,
            index_hints: options.index_hints,
            rewrites: options.rewrites,
        });
        let run = Run {
            storage: Arc::new(Shared(Arc::clone(&collections))),
            context: Arc::new(context),
            memory: Arc::new(memory),
        };
        Ok(Self { collections, target, pipeline, run, hint: options.hint })
    }

    /// The same pipeline with a server that `$currentOp` and others ask.
    #[must_use]
    pub fn with_server(mut self, server: Arc<dyn Server>) -> Self {
        let collections = Collections { server: Some(server), ..Collections::clone(&self.collections) };
        self.collections = Arc::new(collections);
        self.run.storage = Arc::new(Shared(Arc::clone(&self.collections)));
        self
    }

    /// The stages.
    #[must_use]
    pub const fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }

    /// What the pipeline runs over.
    #[must_use]
    pub const fn target(&self) -> &Target {
        &self.target
    }

    /// Whether the pipeline ends with `$out` or `$merge`.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.pipeline.stages().last().is_some_and(|stage| stage.is_output())
    }

    /// The documents that the pipeline gives.
    ///
    /// # Errors
    /// Those that are known before the first document; others come with the documents.
    pub fn rows(&self) -> Result<Rows> {
        match &self.target {
            Target::Database(_) => self.pipeline.run(Box::new(std::iter::empty()), &self.run),
            Target::Collection(namespace) => {
                self.collections.open(namespace, &self.run, self.hint.clone())?.read(&self.pipeline, &self.run)
            }
        }
    }
}

impl Aggregation {
    /// Appends how the pipeline would run: `queryPlanner` when a query does all of it, else `stages`, of which the
    /// first is `$cursor`. When it `executes`, the query runs, and what it did is told; nothing is written.
    ///
    /// # Errors
    /// Those of the plan.
    pub fn explain(&self, executes: bool, shape: &ExplainedShape<'_>, reply: &mut DocumentBuilder) -> Result<()> {
        reply.append("explainVersion", "1").append("queryShapeHash", shape.hash);
        match &self.target {
            Target::Database(_) => {
                reply.open_array("stages");
                self.pipeline.stages().iter().for_each(|step| {
                    reply.push(step.spec());
                });
                reply.close();
                Ok(())
            }
            Target::Collection(namespace) => explain::collection(
                (&self.collections, &self.run),
                namespace,
                &self.pipeline,
                self.hint.clone(),
                (executes, shape),
                reply,
            ),
        }
    }
}

/// The name under which clients ask for all sessions.
const SESSIONS: &str = "config.system.sessions";

/// Refuses a first stage that a target does not have.
fn check_target(target: &Target, pipeline: &Pipeline) -> Result<()> {
    let invalid = |what: String| Err(Error::new(ErrorCode::INVALID_NAMESPACE, what));
    let first = pipeline.stages().first();
    let name = first.map_or("", |stage| stage.name());
    let of_database = stage_is(name, Is::OverDatabases);
    match target {
        Target::Database(_) if !of_database => {
            if name.is_empty() {
                return invalid("{aggregate: 1} is not valid for an empty pipeline.".to_owned());
            }
            invalid(format!("{{aggregate: 1}} is not valid for '{name}'; a collection is required."))
        }
        Target::Database(database) if name == "$currentOp" && database != "admin" => {
            invalid("$currentOp must be run against the 'admin' database with {aggregate: 1}".to_owned())
        }
        Target::Collection(namespace) if name == "$listSessions" && namespace.as_str() != SESSIONS => {
            invalid(format!("{name} may only be run against {SESSIONS}"))
        }
        Target::Collection(_) if name == "$listClusterCatalog" => {
            let what = "$listClusterCatalog must be run against a database with {aggregate: 1}";
            Err(Error::new(ErrorCode::new(9_621_301), what))
        }
        Target::Collection(_) if of_database => {
            let on = if name == "$currentOp" { "the 'admin' database" } else { "a database" };
            invalid(format!("{name} must be run against {on} with {{aggregate: 1}}"))
        }
        _ => Ok(()),
    }
}

impl Collection {
    /// The documents that a pipeline gives over the collection as it is now. They are computed as the iterator is asked
    /// for them; `$out` and `$merge` write when it is asked for the first.
    ///
    /// # Errors
    /// Those of the stages, with MongoDB's codes; those of documents come with the documents.
    pub fn aggregate(&self, stages: Array<'_>) -> Result<Rows> {
        self.aggregate_with(stages, AggregateOptions::default())
    }

    /// As [`Self::aggregate`], with options.
    ///
    /// # Errors
    /// As [`Self::aggregate`].
    pub fn aggregate_with(&self, stages: Array<'_>, options: AggregateOptions) -> Result<Rows> {
        let (catalog, ids, environment) = self.parts();
        let parts = Parts { catalog, ids, environment };
        aggregate_now(parts, Target::Collection(self.namespace()), stages, options)
    }
}

/// Runs a pipeline over what there is now.
///
/// # Errors
/// As [`Collection::aggregate`].
pub fn aggregate_now(parts: Parts, target: Target, stages: Array<'_>, options: AggregateOptions) -> Result<Rows> {
    let mut context = Context::new(parts.environment.now_ms());
    context.seed = parts.environment.random();
    let given = options.collation.as_ref().map(|collation| Value::Document(collation.view()));
    context.collation = match (Collation::of_operation(given)?, &target) {
        (Some(given), _) => given,
        (None, Target::Collection(namespace)) => parts.catalog.collation(namespace),
        (None, Target::Database(_)) => None,
    };
    let reader: Arc<dyn Reader> = Arc::new(parts.catalog.engine().snapshot());
    Aggregation::parse(parts, reader, target, stages, context, options)?.rows()
}
