//! Plans: how the documents that a query asks for are found.
//!
//! A [`Query`] says what is asked for, ready to be run: its filter, sort and projection are compiled. [`plan()`]
//! chooses a [`Plan`]: it finds the bounds that the filter implies for each index ([`fields`]), turns them to ranges of
//! keys ([`ranges`]), and takes the index with the fewest entries to look at ([`choose`]). Whatever is chosen, the
//! whole filter is asked of each document: a plan decides how long a query takes and never what it answers.

pub mod allowed;
pub mod candidate;
pub mod choose;
pub mod covered;
pub mod explain;
pub mod fields;
pub mod imply;
pub mod index_scans;
pub mod limits;
pub mod order;
pub mod query;
pub mod query_shape;
pub mod ranges;
pub mod scan;
pub mod shape;
pub mod tree;
pub mod wildcard;

pub use allowed::{AllowedIndexes, IndexHints};
pub use choose::{Subject, plan};
pub use query::{Hint, Query};
pub use scan::{Group, KeyBounds, KeyFilter, Scan};
pub use shape::shape;
pub use tree::Plan;
