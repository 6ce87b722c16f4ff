//! Pipelines over collections: the head of a pipeline runs as a query, by indexes, and the rest over its documents.
//!
//! - [`head`] finds what of a pipeline a query can do.
//! - [`view`] replaces a view by the collection that it is on and its pipeline.
//! - [`rewrites`] are the short cuts that are taken, none of which changes an answer.
//! - [`collections`] are what the stages of `aggregate` read and write: all from one snapshot or transaction.
//! - [`Aggregation`] is a pipeline over a collection, ready to run or to be explained.

pub mod aggregation;
pub mod collections;
mod explain;
pub mod head;
mod merge;
mod replace;
mod report;
pub mod rewrites;
mod sample;
pub mod storage;
pub mod view;

pub use aggregation::{Aggregation, Target};
pub use collections::{Collections, Parts, Server};
pub use explain::ExplainedShape;
pub use head::Head;
pub use rewrites::{Rewrite, Rewrites};
