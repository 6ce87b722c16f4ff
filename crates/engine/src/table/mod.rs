//! A table is a set of trees: its versions, the edits that change them, the manifest that keeps them, and the layout
//! policies.

pub mod catalog;
pub mod changed_since;
mod codec;
pub mod edit;
pub mod estimate;
pub mod files;
pub mod level;
pub mod manifest;
pub mod memtable_handle;
pub mod operands;
pub mod options;
pub mod policy;
pub mod reads;
pub mod record;
pub mod seqnum_to_time;
pub mod shape;
pub mod trees;
pub mod version;
pub mod view;

#[cfg(test)]
mod tests;

pub use level::{LEVELS, Level, LevelId, RunHandle};
pub use options::{Layout, TableOptions};
pub use trees::Trees;
pub use version::{Expired, Version};
pub use view::{TableView, ViewCandidate};
