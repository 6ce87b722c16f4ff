//! The trees that a merge does not read.
//!
//! A put may lie there once more than in the stream: a compaction or a merge into a B-tree that was given up, by a
//! crash or a full disk, has left slices of its result below inputs that stayed, or below the log. So a single-delete
//! is needed there still when it has met its put in the stream.

use std::sync::Arc;

use crate::base::checksum::hash_key;
use crate::tree::run::{Run, run_of};

/// The trees of the table outside of the stream.
#[derive(Clone, Debug, Default)]
pub struct OtherTrees {
    /// Each of runs that are disjoint and ascend.
    trees: Vec<Vec<Arc<Run>>>,
    /// There is a tree without a filter.
    any_key: bool,
}

impl OtherTrees {
    /// These trees of runs, each disjoint and ascending; with `any_key` also one that may have any key.
    #[must_use]
    pub fn new(trees: Vec<Vec<Arc<Run>>>, any_key: bool) -> Self {
        Self { trees, any_key }
    }

    /// Whether one of them may have `key`.
    #[must_use]
    pub fn may_hold(&self, key: &[u8]) -> bool {
        let hash = hash_key(key);
        // A filter that cannot be read keeps nothing out.
        let may = |run: &Arc<Run>| run.may_hold(key, hash).unwrap_or(true);
        self.any_key || self.trees.iter().filter_map(|runs| run_of(runs, key)).any(may)
    }
}
