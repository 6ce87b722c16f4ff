//! The kinds of trees that WiredTiger has.

/// A kind of tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tree {
    /// A B-tree that is written by copy on write.
    Btree,
    /// Chunks that are B-trees, and merges.
    Lsm,
}
