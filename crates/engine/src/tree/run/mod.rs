//! Runs: immutable sorted files of entries, each an index over leaves with a filter beside it.
//!
//! [`RunBuilder`] writes one front to back, [`Run`] answers from it, [`RunCursor`] walks it, and [`LevelCursor`] walks
//! runs that lie side by side.

mod ahead;
pub mod builder;
pub mod cursor;
mod filter;
mod format;
mod fuse;
pub mod level;
pub mod meta;
mod reader;
mod refusals;
mod separator;
mod stamped;
pub mod together;
pub mod verify;
pub mod view;
mod warm;

pub use builder::{RunBuilder, RunOptions};
pub use cursor::RunCursor;
pub use level::{LevelCursor, are_apart, run_of};
pub use meta::{Reference, RunMeta};
pub use reader::{Run, Start};
pub use stamped::merge_source;
pub use verify::RunReport;
pub use view::{View, ViewBuilder};

#[cfg(test)]
mod tests;
