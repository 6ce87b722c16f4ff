//! Ordered maps of versioned entries: in memory, in immutable runs, in copy-on-write B-trees; and their merge.

pub mod bounded_cursor;
pub mod branch;
pub mod btree;
pub mod compaction_filter;
pub mod cost;
pub mod cursor;
pub mod gc;
pub mod leaf_cursor;
pub mod memtable;
pub mod merge;
pub mod multi_get;
pub mod operator;
pub mod prefix;
pub mod range_tombstone;
pub mod run;
pub mod salvage;
pub mod values;
#[cfg(test)]
pub mod vec_cursor;

pub use cost::Costs;
pub use cursor::{Cursor, Found, KeyCursor, LazySeek, Limits, MergeSource, SeqnumBounds};
pub use prefix::Prefix;
