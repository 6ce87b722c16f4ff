//! B-tree: one ordered tree in one file, changed by merging sorted batches into it, copy-on-write.
//!
//! [`BTree::merge`] writes the leaves that changes reach, and the branches above them, to free space, and syncs the
//! file. The root that comes out is *pending* until the caller has made it durable (in the manifest) and calls
//! [`BTree::install`]. So a crash at any point leaves a root whose blocks are all there.
//!
//! # Invariants
//! 1. A block that an installed or held root reaches is not overwritten: see [`crate::store::space`] for when space is
//!    reused.
//! 2. All leaves are equally far from the root. None is empty. The versions of a key may be spread over neighbouring
//!    leaves; the borders between those are marked, and point lookups begin at the first of them.
//! 3. Every unit of the file is exactly one of: header, in a block that the root reaches, in the root's free list
//!    block, or in that list. [`BTree::verify`] checks it.
//!
//! # Concurrency
//! One merge at a time: it holds the tree's [`MergePermit`]. Readers hold a [`TreeRoot`] and block no other thread.

mod cursor;
pub mod estimate;
mod file;
mod format;
mod free_list;
mod leaves;
mod lookup;
mod merge;
mod output;
pub mod reach;
mod readahead;
mod root;
mod roots;
#[cfg(all(test, shuttle))]
mod schedules;
mod stream;
#[cfg(test)]
mod tests;
mod tree;
mod verify;

pub use cursor::BTreeCursor;
pub use format::TreeMeta;
pub use leaves::TreeLeaves;
pub use output::branch_bytes;
pub use root::TreeRoot;
pub use tree::{BTree, MergePermit, PendingRoot, TreeOptions};
pub use verify::TreeReport;
