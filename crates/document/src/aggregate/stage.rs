//! Pipelines, stages, and what they run with.

use std::cell::Cell;
use std::fmt;

use super::merge::Output;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Array, Document, DocumentBuf, Value};
use crate::expr::Context;
pub(super) use crate::expr::value::error;
use crate::path::Sort;
use crate::query::Filter;

/// The documents that a stage gives.
pub type Rows<'a> = Box<dyn Iterator<Item = Result<DocumentBuf>> + 'a>;

/// A stage of a pipeline.
pub trait Stage: fmt::Debug {
    /// The stage's name, such as `$match`.
    fn name(&self) -> &'static str;

    /// The documents that the stage gives for those of `input`.
    ///
    /// # Errors
    /// Those that are known before the first document.
    fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>>;

    /// The filter of a `$match`, which may be applied earlier by an index.
    fn as_filter(&self) -> Option<&Filter> {
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

    /// Whether the stage reads no input, so that it must be the first.
    fn is_source(&self) -> bool {
        false
    }

    /// Whether the stage writes, so that it must be the last.
    fn is_output(&self) -> bool {
        false
    }
}

/// A compiled pipeline.
#[derive(Debug, Default)]
pub struct Pipeline {
    stages: Vec<Box<dyn Stage>>,
}

/// The name of a collection, and of its database unless it is the pipeline's own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Namespace {
    /// The database.
    pub database: Option<String>,
    /// The collection.
    pub collection: String,
}

/// The collections that stages such as `$lookup` and `$out` read and write.
pub trait Storage {
    /// The documents of a collection that match a filter; none of a collection that does not exist.
    ///
    /// # Errors
    /// Those of the storage.
    fn read<'s>(&'s self, namespace: &Namespace, filter: Filter) -> Result<Rows<'s>>;

    /// Writes documents into a collection.
    ///
    /// # Errors
    /// Those of the storage.
    fn write(&self, namespace: &Namespace, output: &Output<'_>, rows: Rows<'_>) -> Result<()>;
}

/// What a pipeline runs with.
#[derive(Clone, Copy)]
pub struct Run<'a> {
    /// Other collections.
    pub storage: &'a dyn Storage,
    /// The constants of the command.
    pub context: &'a Context,
    /// The memory that the stages share.
    pub memory: &'a Memory,
}

/// The bytes that the stages of a pipeline keep.
#[derive(Debug)]
pub struct Memory {
    used: Cell<usize>,
    bytes_max: usize,
}

/// The bytes that the stages of a pipeline keep at most.
pub const MEMORY_BYTES_MAX: usize = 100 << 20;

impl Memory {
    /// A limit in bytes; [`MEMORY_BYTES_MAX`] is MongoDB's.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        Self { used: Cell::new(0), bytes_max }
    }

    /// Takes note of bytes that a stage keeps from now on.
    ///
    /// # Errors
    /// Code 292 when the limit is exceeded.
    pub fn take(&self, bytes: usize, stage: &str) -> Result<()> {
        self.used.set(self.used.get().saturating_add(bytes));
        if self.used.get() > self.bytes_max {
            let what = format!("Exceeded memory limit for {stage}: {} bytes of {}", self.used.get(), self.bytes_max);
            return Err(Error::new(ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT, what));
        }
        Ok(())
    }

    /// Takes note of bytes that a stage keeps no longer.
    pub fn give(&self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(bytes));
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new(MEMORY_BYTES_MAX)
    }
}

impl fmt::Debug for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Run").field("memory", self.memory).finish_non_exhaustive()
    }
}

impl Pipeline {
    /// The stages.
    #[must_use]
    pub fn stages(&self) -> &[Box<dyn Stage>] {
        &self.stages
    }

    /// The pipeline without its first `count` stages, which the caller has run by itself.
    #[must_use]
    pub fn without_first(mut self, count: usize) -> Self {
        self.stages.drain(..count.min(self.stages.len()));
        self
    }

    /// The pipeline of stages.
    #[must_use]
    pub fn of(stages: Vec<Box<dyn Stage>>) -> Self {
        Self { stages }
    }

    /// Whether the first stage makes its documents itself.
    #[must_use]
    pub fn starts_with_source(&self) -> bool {
        self.stages.first().is_some_and(|stage| stage.is_source())
    }

    /// The documents of the last stage for those of `input`.
    ///
    /// # Errors
    /// Those that are known before the first document; others come with the documents.
    pub fn run<'a>(&'a self, input: Rows<'a>, run: Run<'a>) -> Result<Rows<'a>> {
        self.stages.iter().try_fold(input, |input, stage| stage.run(input, run))
    }
}

/// How a stage is read from its operand: it gives one stage or the several that it stands for.
pub type Read = fn(&Parser<'_>, &'static str, Value<'_>) -> Result<Vec<Box<dyn Stage>>>;

/// The stages by their names.
pub type Table = fn(&str) -> Option<(&'static str, Read)>;

/// Reads pipelines.
#[derive(Clone, Copy, Debug)]
pub struct Parser<'c> {
    /// The constants of the command.
    pub context: &'c Context,
    table: Table,
}

/// The most stages of a pipeline.
const STAGES_MAX: usize = 1000;

impl<'c> Parser<'c> {
    /// A parser with a table of stages.
    #[must_use]
    pub const fn new(context: &'c Context, table: Table) -> Self {
        Self { context, table }
    }

    /// The stages by their names.
    #[must_use]
    pub const fn table(&self) -> Table {
        self.table
    }

    /// A parser with the same stages and other constants.
    #[must_use]
    pub const fn with<'d>(&self, context: &'d Context) -> Parser<'d> {
        Parser { context, table: self.table }
    }

    /// Reads a pipeline.
    ///
    /// # Errors
    /// As [`super::parse`].
    pub fn pipeline(&self, stages: Array<'_>) -> Result<Pipeline> {
        if stages.count() > STAGES_MAX {
            return Err(error(7_749_501, format!("Pipeline length must be no longer than {STAGES_MAX} stages")));
        }
        let mut all: Vec<Box<dyn Stage>> = Vec::new();
        for stage in stages {
            let Value::Document(stage) = stage else {
                return Err(Error::new(
                    ErrorCode::TYPE_MISMATCH,
                    "Each element of the 'pipeline' array must be an object",
                ));
            };
            all.extend(self.stage(stage)?);
        }
        for (at, stage) in all.iter().enumerate() {
            if stage.is_source() && at > 0 {
                return Err(error(40602, format!("{} is only valid as the first stage in a pipeline", stage.name())));
            }
            if stage.is_output() && at + 1 < all.len() {
                return Err(error(40601, format!("{} can only be the final stage in the pipeline", stage.name())));
            }
        }
        Ok(Pipeline { stages: all })
    }

    fn stage(&self, stage: Document<'_>) -> Result<Vec<Box<dyn Stage>>> {
        let mut fields = stage.elements();
        let (Some(first), None) = (fields.next(), fields.next()) else {
            return Err(error(40323, "A pipeline stage specification object must contain exactly one field."));
        };
        let name = first.name.to_str_lossy();
        let (name, read) =
            (self.table)(&name).ok_or_else(|| error(40324, format!("Unrecognized pipeline stage name: '{name}'")))?;
        read(self, name, first.value)
    }
}

/// The documents that `compute` gives, which is called when the first of them is asked for.
pub(super) fn deferred<'a, I>(compute: impl FnOnce() -> Result<I> + 'a) -> Rows<'a>
where
    I: Iterator<Item = Result<DocumentBuf>> + 'a,
{
    Box::new(std::iter::once_with(compute).flat_map(|rows| match rows {
        Ok(rows) => Box::new(rows) as Rows<'a>,
        Err(wrong) => Box::new(std::iter::once(Err(wrong))),
    }))
}
