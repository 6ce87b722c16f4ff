//! Aggregation: pipelines of stages, each an iterator over the documents of the one before.
//!
//! [`Pipeline::parse`](stage::Pipeline) reads a pipeline with MongoDB's error codes; [`Pipeline::run`](stage::Pipeline)
//! gives an iterator. Stages that must see all documents before they give the first (`$sort`, `$group` and others) keep
//! them in memory up to a limit, and some of them go on in a table of the engine. Stages that read or write other
//! collections do so through [`Storage`].

pub mod accumulator;
mod accumulator_parse;
mod bucket;
mod bucket_auto;
mod densify;
pub mod effect;
mod granularity;
mod graph;
mod group;
pub mod lend;
mod lookup;
pub mod memory;
pub mod merge;
mod needs;
mod ordered;
mod output;
mod pulled;
pub mod report;
pub mod reshape;
pub mod rights;
mod sort;
pub mod sorter;
mod spec;
pub mod stage;
mod table;
mod union;
mod unwind;
mod window;

use crate::base::Result;
use crate::bson::Array;
use crate::expr::Context;

pub use effect::{Effect, Fields, Passes};
pub use lend::{KeyRow, Lender, Lent};
pub use memory::Memory;
pub use merge::{Merge, Output, WhenMatched, WhenNotMatched};
pub use reshape::matching;
pub use sorter::Sorter;
pub use spec::check_once;
pub use stage::{Inner, Is, Namespace, NoStorage, Pipeline, Report, Rows, Run, Scope, Source, Stage, Step, Storage};

/// Reads a pipeline.
///
/// # Errors
/// 40324 for a stage that there is not, 40323 for a stage with more than one field, and those of the stages.
pub fn parse(stages: Array<'_>, context: &Context) -> Result<Pipeline> {
    stage::Parser::new(context, table::stage).pipeline(stages)
}

/// The names of all stages.
#[must_use]
pub const fn stage_names() -> &'static [&'static str] {
    table::NAMES
}

/// Whether something holds of the stage of a name; nothing does of one that there is not.
#[must_use]
pub fn stage_is(name: &str, what: Is) -> bool {
    table::stage(name).is_some_and(|stage| stage.is.contains(&what))
}
