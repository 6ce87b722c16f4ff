//! Execution: plans run against a reader, a snapshot or a transaction of the engine.
//!
//! An [`Execution`] is a tree of operators, each of which gives rows from those of the operators below it: scans of the
//! collection or of an index, fetches of documents, unions, merges, sorts.

mod covered;
pub mod execution;
mod fetch;
mod merge;
mod met;
mod operator;
pub mod reader;
mod row;
mod scan;
mod sort;
pub mod stored;

pub use execution::{Execution, Match};
pub use operator::{Counts, damaged};
pub use reader::Reader;
pub use stored::{Documents, StoredDocument};
