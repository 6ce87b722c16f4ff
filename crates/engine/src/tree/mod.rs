//! Ordered maps of versioned entries: in memory, in immutable runs, in copy-on-write B-trees; and their merge.

pub mod branch;
pub mod btree;
pub mod compaction_filter;
pub mod cost;
pub mod cursor;
pub mod erasure;
pub mod lookup;
pub mod memtable;
pub mod merge;
pub mod operator;
pub mod part;
pub mod place;
pub mod prefix;
pub mod retain;
pub mod run;
pub mod salvage;
pub mod values;
#[cfg(test)]
pub mod vec_cursor;

pub use cost::Costs;
pub use cursor::{Ages, Cursor, Found, KeyCursor, LazySeek, Limits, MergeSource};
pub use prefix::Prefix;
