//! Pipelines, stages, and how they are read.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::effect::Effect;
use super::lend::{Lender, Lent};
use super::memory::Memory;
use super::merge::Output;
use super::pulled::Pulled;
pub use super::pulled::Rows;
use crate::base::{Error, ErrorCode, Need, On, Result};
use crate::bson::{Array, Document, DocumentBuf, DocumentBuilder, Value};
use crate::expr::Context;
pub(super) use crate::expr::value::error;
use crate::path::Sort;
use crate::projection::Projection;
use crate::query::Filter;

/// A stage of a pipeline.
pub trait Stage: fmt::Debug + Send + Sync {
    /// The stage's name, such as `$match`.
    fn name(&self) -> &'static str;

    /// The documents that the stage gives for those of `input`.
    ///
    /// # Errors
    /// Those that are known before the first document.
    fn run(self: Arc<Self>, input: Rows, run: &Run) -> Result<Rows>;

    /// What the stage reads and what it leaves as it is; nothing when that is not known.
    fn effect(&self) -> Option<Effect> {
        None
    }

    /// The stage, when it only looks at its input.
    fn as_borrower(self: Arc<Self>) -> Option<Arc<dyn Borrower>> {
        None
    }

    /// The filter of a `$match`, which may be applied earlier by an index.
    fn as_filter(&self) -> Option<&Filter> {
        None
    }

    /// The projection of a `$project`, `$set` or `$unset`.
    fn as_projection(&self) -> Option<&Projection> {
        None
    }

    /// The pattern of a `$sort`.
    fn as_sort(&self) -> Option<&Sort> {
        None
    }

    /// The count of a `$limit`.
    fn as_limit(&self) -> Option<u64> {
        None
    }

    /// The count of a `$skip`.
    fn as_skip(&self) -> Option<u64> {
        None
    }

    /// The count of a `$sample`.
    fn as_sample(&self) -> Option<usize> {
        None
    }

    /// What a stage such as `$collStats` tells of the server or of a collection.
    fn as_report(&self) -> Option<&Report> {
        None
    }

    /// The same stage when only its first documents are wanted; nothing when that makes no difference to it.
    fn with_limit(&self, _: u64) -> Option<Arc<dyn Stage>> {
        None
    }

    /// The collections that the stage reads or writes.
    fn namespaces(&self) -> Vec<Namespace> {
        Vec::new()
    }

    /// The pipelines within the stage, and what they are over: also those without stages.
    fn inner(&self) -> Vec<Inner> {
        Vec::new()
    }

    /// The actions that a client needs on the collection that the stage writes to.
    fn write_actions(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The names of all stages of the pipelines within the stage.
    fn inner_names(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether the stage reads no input, so that it must be the first.
    fn is_source(&self) -> bool {
        false
    }

    /// Whether the stage writes, so that it must be the last.
    fn is_output(&self) -> bool {
        false
    }
}

/// A stage that only looks at its input.
pub trait Borrower: Send + Sync {
    /// The documents that the stage gives for the rows of `lender`: the same, in the same order, as for documents of
    /// its own.
    ///
    /// # Errors
    /// Those that are known before the first document.
    fn run_lent(self: Arc<Self>, lender: Box<dyn Lender>, run: &Run) -> Result<Rows>;
}

/// A stage as a pipeline has it, with its specification.
#[derive(Clone, Debug)]
pub struct Step {
    stage: Arc<dyn Stage>,
    spec: Arc<DocumentBuf>,
}

/// A compiled pipeline. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    stages: Vec<Step>,
}

/// The name of a collection, and of its database unless it is the pipeline's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The database.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

/// What a stage tells of the server or of a collection: its name, such as `$collStats`, and its operand.
#[derive(Clone, Debug)]
pub struct Report {
    /// The stage.
    pub name: &'static str,
    /// The operand.
    pub spec: DocumentBuf,
}

/// The collections that stages such as `$lookup` and `$out` read and write.
pub trait Storage: fmt::Debug + Send + Sync {
    /// A collection or view that is read, perhaps often. One that does not exist has no documents.
    ///
    /// # Errors
    /// Those of a view's pipeline.
    fn source(&self, namespace: &Namespace, run: &Run) -> Result<Arc<dyn Source>>;

    /// Writes documents into a collection.
    ///
    /// # Errors
    /// Those of the storage and of the documents.
    fn write(&self, namespace: &Namespace, output: &Output<'_>, rows: Rows, run: &Run) -> Result<()>;

    /// What `$currentOp` and others tell, which are about no collection.
    ///
    /// # Errors
    /// `NotImplemented` (238) when there is no server to ask.
    fn report(&self, report: &Report) -> Result<Rows>;
}

/// A collection or view that pipelines run over.
pub trait Source: fmt::Debug + Send + Sync {
    /// The documents that a pipeline gives over all of the source's.
    ///
    /// # Errors
    /// Those that are known before the first document; others come with the documents.
    fn read(&self, pipeline: &Pipeline, run: &Run) -> Result<Rows>;
}

/// A storage without collections.
#[derive(Clone, Copy, Debug)]
pub struct NoStorage;

impl Storage for NoStorage {
    fn source(&self, _: &Namespace, _: &Run) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(Self))
    }

    fn write(&self, _: &Namespace, _: &Output<'_>, _: Rows, _: &Run) -> Result<()> {
        Err(Error::new(ErrorCode::INVALID_OPTIONS, "no collection is written here"))
    }

    fn report(&self, report: &Report) -> Result<Rows> {
        Err(Error::new(ErrorCode::NOT_IMPLEMENTED, format!("{} has no server to ask", report.name)))
    }
}

impl Source for NoStorage {
    fn read(&self, pipeline: &Pipeline, run: &Run) -> Result<Rows> {
        pipeline.run(Box::new(std::iter::empty()), run)
    }
}

/// What a pipeline runs with. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Run {
    /// Other collections.
    pub storage: Arc<dyn Storage>,
    /// The constants of the command.
    pub context: Arc<Context>,
    /// The memory that the stages share.
    pub memory: Arc<Memory>,
}

impl Run {
    /// A run without other collections and with the usual limit of memory.
    #[must_use]
    pub fn new(context: Context) -> Self {
        Self { storage: Arc::new(NoStorage), context: Arc::new(context), memory: Arc::default() }
    }
}

impl Deref for Step {
    type Target = dyn Stage;

    fn deref(&self) -> &Self::Target {
        &*self.stage
    }
}

impl Step {
    /// A stage with its specification, `{$limit: 5}`.
    #[must_use]
    pub fn new(stage: Arc<dyn Stage>, spec: DocumentBuf) -> Self {
        Self { stage, spec: Arc::new(spec) }
    }

    /// The specification, such as `{$limit: 5}`.
    #[must_use]
    pub fn spec(&self) -> Document<'_> {
        self.spec.view()
    }

    /// The name of the stage and those of all stages of the pipelines within it.
    #[must_use]
    pub fn all_names(&self) -> Vec<&'static str> {
        let mut names = vec![self.name()];
        names.extend(self.inner_names());
        names
    }

    /// The documents that the stage gives for those of `input`.
    fn rows(&self, input: Rows, run: &Run) -> Result<Rows> {
        Ok(self.pulled(Arc::clone(&self.stage).run(input, run)?))
    }

    /// The documents of the stage as the one behind it pulls them. A stage that hands on what it gets builds none.
    fn pulled(&self, rows: Rows) -> Rows {
        let stage = &self.stage;
        let hands_on = stage.as_filter().is_some() || stage.as_sort().is_some() || stage.as_limit().is_some();
        let builds = !hands_on && stage.as_skip().is_none() && stage.as_sample().is_none();
        Box::new(Pulled::new(rows, builds))
    }

    /// The same stage when only its first `count` documents are wanted.
    #[must_use]
    pub fn limited(&self, count: u64) -> Self {
        match self.stage.with_limit(count) {
            Some(stage) => Self { stage, spec: Arc::clone(&self.spec) },
            None => self.clone(),
        }
    }
}

impl Pipeline {
    /// The stages.
    #[must_use]
    pub fn stages(&self) -> &[Step] {
        &self.stages
    }

    /// The pipeline of stages.
    #[must_use]
    pub const fn of(stages: Vec<Step>) -> Self {
        Self { stages }
    }

    /// The pipeline without its first `count` stages.
    #[must_use]
    pub fn without_first(mut self, count: usize) -> Self {
        self.stages.drain(..count.min(self.stages.len()));
        self
    }

    /// This pipeline and then another.
    ///
    /// # Errors
    /// 5054701 when they are too long together.
    pub fn then(&self, next: &Self) -> Result<Self> {
        let stages: Vec<Step> = self.stages.iter().chain(&next.stages).cloned().collect();
        check_length(stages.len())?;
        Ok(Self { stages })
    }

    /// Whether there are no stages.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Whether the first stage makes its documents itself.
    #[must_use]
    pub fn starts_with_source(&self) -> bool {
        self.stages.first().is_some_and(|stage| stage.is_source())
    }

    /// The names of the stages and of those of the pipelines within them.
    #[must_use]
    pub fn all_names(&self) -> Vec<&'static str> {
        self.stages.iter().flat_map(Step::all_names).collect()
    }

    /// The collections that the stages read or write.
    #[must_use]
    pub fn namespaces(&self) -> Vec<Namespace> {
        self.stages.iter().flat_map(|stage| stage.namespaces()).collect()
    }

    /// The documents of the last stage for those of `input`.
    ///
    /// # Errors
    /// Those that are known before the first document; others come with the documents.
    pub fn run(&self, input: Rows, run: &Run) -> Result<Rows> {
        self.stages.iter().try_fold(input, |input, step| step.rows(input, run))
    }
}

impl Pipeline {
    /// The first stage, when it only looks at its input.
    fn borrower(&self) -> Option<Arc<dyn Borrower>> {
        self.stages.first().and_then(|first| Arc::clone(&first.stage).as_borrower())
    }

    /// Whether [`Self::run_lent`] copies no rows for the first stage.
    #[must_use]
    pub fn borrows(&self) -> bool {
        self.borrower().is_some()
    }

    /// As [`Self::run`], for rows that are lent.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_lent(&self, lender: Box<dyn Lender>, run: &Run) -> Result<Rows> {
        let Some(borrower) = self.borrower() else { return self.run(copied(lender), run) };
        let rows = borrower.run_lent(lender, run)?;
        self.stages[1..].iter().try_fold(self.stages[0].pulled(rows), |input, step| step.rows(input, run))
    }
}

/// Copies of rows that are lent.
fn copied(mut lender: Box<dyn Lender>) -> Rows {
    let mut next = move || {
        let mut found = None;
        lender.lend(false, &mut |row| {
            found = Some(match row {
                Lent::Document(document) => document.into(),
                Lent::Key(key) => (key.document)()?,
            });
            Ok(false)
        })?;
        Ok(found)
    };
    Box::new(std::iter::from_fn(move || next().transpose()))
}

/// What the reading of a stage gives.
pub(super) type Stages = Result<Vec<Arc<dyn Stage>>>;

/// How a stage is read from its operand: it gives one stage or the several that it stands for.
pub type Read = fn(&Parser<'_>, &'static str, Value<'_>) -> Result<Vec<Arc<dyn Stage>>>;

/// What there is to know of a stage before it is read.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its name.
    pub name: &'static str,
    /// How it is read.
    pub read: Read,
    /// What it needs of its client.
    pub needs: Needs,
    /// What holds of it.
    pub is: &'static [Is],
}

/// What a stage needs of its client, beside what its input needs.
#[derive(Clone, Copy, Debug)]
pub enum Needs {
    /// Nothing: it computes from its input.
    Nothing,
    /// What its inner pipelines need, which [`Stage::inner`] gives.
    Inner,
    /// Actions on the collection that it writes to, which [`Stage::write_actions`] gives.
    Writes,
    /// An action on the collection that the pipeline is over.
    OnCollection(&'static str),
    /// Actions on what it watches, which its parsed options name.
    Watched(&'static [&'static str]),
    /// What follows from its operand, in which no field is there twice.
    By(fn(Document<'_>, &Scope<'_>) -> Need),
    /// It is not supported, and no client may run it.
    Refused,
}

/// Where a pipeline runs.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'s> {
    /// The database to which names without one belong.
    pub database: &'s str,
    /// The collection or view that the pipeline is over; nothing for a database.
    pub over: Option<&'s Namespace>,
    /// The user of the client as `database.name`.
    pub user: &'s str,
    /// Whether the documents are written without validation.
    pub bypasses_validation: bool,
}

/// A pipeline within a stage.
#[derive(Clone, Debug)]
pub struct Inner {
    /// The collection that it is over, if it is over one.
    pub over: Option<Namespace>,
    /// Whether it is over what comes into the stage.
    pub is_over_input: bool,
    /// The pipeline.
    pub pipeline: Pipeline,
}

impl Scope<'_> {
    /// The collection that a namespace names here.
    #[must_use]
    pub fn on(&self, namespace: &Namespace) -> On {
        On::collection(namespace.database.as_deref().unwrap_or(self.database), &namespace.collection)
    }

    /// What the pipeline is over: its collection, or the database.
    #[must_use]
    pub fn target(&self) -> On {
        self.over.map_or_else(|| On::Database(self.database.to_owned()), |over| self.on(over))
    }
}

/// What holds of a stage, wherever it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Is {
    /// It tells of the server, and may not begin a pipeline within another.
    OfServer,
    /// It tells of a collection.
    OfCollection,
    /// It may begin a pipeline over a database.
    OverDatabases,
    /// It may not be part of a `$facet`, or of a pipeline in one.
    OutsideFacets,
    /// No transaction has it.
    OutsideTransactions,
    /// It is not part of the stable API.
    Unstable,
    /// It reads no documents, and at no other read concern than `local`.
    ReadsLocally,
}

/// The stages by their names.
pub type Table = fn(&str) -> Option<Known>;

/// Reads pipelines.
#[derive(Clone, Copy, Debug)]
pub struct Parser<'c> {
    /// The constants of the command.
    pub context: &'c Context,
    table: Table,
    /// The pipelines around this one.
    depth: usize,
}

/// The most pipelines within each other, besides the outermost one.
const DEPTH_MAX: usize = 20;

/// The most stages of a pipeline.
const STAGES_MAX: usize = 1000;

impl<'c> Parser<'c> {
    /// A parser with a table of stages.
    #[must_use]
    pub const fn new(context: &'c Context, table: Table) -> Self {
        Self { context, table, depth: 0 }
    }

    /// The stages by their names.
    #[must_use]
    pub const fn table(&self) -> Table {
        self.table
    }

    /// Whether something holds of the stage of a name.
    pub(super) fn is(&self, name: &str, what: Is) -> bool {
        (self.table)(name).is_some_and(|stage| stage.is.contains(&what))
    }

    /// A parser with the same stages and other constants.
    #[must_use]
    pub const fn with<'d>(&self, context: &'d Context) -> Parser<'d> {
        Parser { context, table: self.table, depth: self.depth }
    }

    /// Reads a pipeline.
    ///
    /// # Errors
    /// As [`super::parse`].
    pub fn pipeline(&self, stages: Array<'_>) -> Result<Pipeline> {
        let all = self.steps(stages)?;
        for (at, stage) in all.iter().enumerate() {
            if stage.is_source() && at > 0 {
                return Err(error(40602, format!("{} is only valid as the first stage in a pipeline", stage.name())));
            }
            if stage.is_output() && at + 1 < all.len() {
                return Err(error(40601, format!("{} can only be the final stage in the pipeline", stage.name())));
            }
        }
        check_length(all.len())?;
        Ok(Pipeline { stages: all })
    }

    /// Reads the pipeline within a stage that reads a collection.
    ///
    /// # Errors
    /// As [`Self::pipeline`]; `MaxSubPipelineDepthExceeded` (232) for the 21st pipeline within others;
    /// `InvalidNamespace` (73) for stages that are about the server.
    pub fn inner(&self, stages: Array<'_>) -> Result<Pipeline> {
        if self.depth >= DEPTH_MAX {
            let what = format!("Maximum number of nested sub-pipelines exceeded. Limit is {DEPTH_MAX}");
            return Err(Error::new(ErrorCode::MAX_SUB_PIPELINE_DEPTH_EXCEEDED, what));
        }
        let pipeline = Self { depth: self.depth + 1, ..*self }.pipeline(stages)?;
        match pipeline.stages.first().filter(|stage| self.is(stage.name(), Is::OfServer)) {
            None => Ok(pipeline),
            Some(stage) => {
                let what = format!("{} must be run against a database with {{aggregate: 1}}", stage.name());
                Err(Error::new(ErrorCode::INVALID_NAMESPACE, what))
            }
        }
    }

    /// Reads stages, wherever they stand.
    ///
    /// # Errors
    /// As [`super::parse`].
    pub fn steps(&self, stages: Array<'_>) -> Result<Vec<Step>> {
        if stages.count() > STAGES_MAX {
            return Err(error(7_749_501, format!("Pipeline length must be no longer than {STAGES_MAX} stages")));
        }
        let mut all: Vec<Step> = Vec::new();
        for stage in stages {
            let Value::Document(stage) = stage else {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            let mut spec = Some(stage);
            for read in self.stage(stage)? {
                // A stage that stands for several has its specification at the first of them.
                let spec = spec.take().map_or_else(|| of_name(read.name()), DocumentBuf::from);
                all.push(Step::new(read, spec));
            }
        }
        Ok(all)
    }

    fn stage(&self, stage: Document<'_>) -> Stages {
        let mut fields = stage.elements();
        let (Some(first), None) = (fields.next(), fields.next()) else {
            return Err(error(40323, "A pipeline stage specification object must contain exactly one field."));
        };
        let name = first.name.to_str_lossy();
        let Known { name, read, .. } =
            (self.table)(&name).ok_or_else(|| error(40324, format!("Unrecognized pipeline stage name: '{name}'")))?;
        read(self, name, first.value)
    }
}

/// Checks the length of a pipeline whose stages stand for others, or that has the stages of views.
fn check_length(stages: usize) -> Result<()> {
    if stages > STAGES_MAX {
        return Err(error(5_054_701, format!("Pipeline length must be no longer than {STAGES_MAX} stages")));
    }
    Ok(())
}

fn of_name(name: &str) -> DocumentBuf {
    let mut builder = DocumentBuilder::new();
    builder.open_document(name).close();
    builder.finish()
}

/// The documents that `compute` gives, which is called when the first of them is asked for.
pub(super) fn deferred<I>(compute: impl FnOnce() -> Result<I> + Send + 'static) -> Rows
where
    I: Iterator<Item = Result<DocumentBuf>> + Send + 'static,
{
    Box::new(std::iter::once_with(compute).flat_map(|rows| match rows {
        Ok(rows) => Box::new(rows) as Rows,
        Err(wrong) => Box::new(std::iter::once(Err(wrong))),
    }))
}
