//! Runs: immutable sorted files of entries, each with leaves, an index over them, and a filter.
//!
//! [`RunBuilder`] writes one front to back, [`Run`] answers from it, [`RunCursor`] walks it, and [`LevelCursor`] walks
//! runs that lie side by side.

mod assigned_seqnum;
pub mod builder;
mod cache_populate;
pub mod cursor;
pub mod estimate;
mod filter;
mod filter_stats;
mod format;
mod index_cursor;
mod last_read;
mod leaf;
pub mod level;
mod lookup;
pub mod meta;
pub mod multi_get;
mod open_filter;
mod readahead;
mod reader;
mod section_builders;
mod sections;
mod separator;
mod sticky_error;
mod tail;
pub mod verify;
pub mod view;

pub use assigned_seqnum::merge_source;
pub use builder::{RunBuilder, RunOptions};
pub use cursor::RunCursor;
pub use format::FOOTER_BYTES;
pub use level::{LevelCursor, are_apart, run_of};
pub use lookup::IndexPos;
pub use meta::{Reference, RunMeta};
pub use reader::Run;
pub use sections::Sections;
pub use verify::RunReport;
pub use view::{View, ViewBuilder};

#[cfg(test)]
mod tests;
