//! A compaction: which runs are merged, and where the result goes.

use super::runs::{are_small, is_bottom, key_range, overlapping, span};
use crate::base::FileId;
use crate::table::level::{LevelId, RunHandle};
use crate::table::options::TableOptions;
use crate::table::trees::Trees;

/// Runs to be merged into one sorted sequence, and where that goes.
#[derive(Clone, Debug)]
pub struct Compaction {
    /// Runs taken from L0, newest first.
    pub l0: Vec<RunHandle>,
    /// Runs taken from levels, with the index of their level, from the top down; each list in key order.
    pub levels: Vec<(usize, Vec<RunHandle>)>,
    /// What takes the result.
    pub target: LevelId,
    /// Nothing older than the inputs lies below them in their key range: tombstones may go.
    pub bottom: bool,
}

impl Compaction {
    /// The inputs that lie where the result goes.
    #[must_use]
    pub fn runs_of_target(&self) -> Vec<FileId> {
        let of_target = |(level, _): &&(usize, Vec<RunHandle>)| LevelId::Level(*level) == self.target;
        self.levels.iter().filter(of_target).flat_map(|(_, runs)| runs.iter().map(|handle| handle.id)).collect()
    }

    /// Merges runs of L0 and of levels above `target` into it, with all that they overlap there; `None` without runs.
    pub(super) fn new(
        trees: &Trees,
        l0: Vec<RunHandle>,
        mut levels: Vec<(usize, Vec<RunHandle>)>,
        target: usize,
    ) -> Option<Self> {
        let range = span(l0.iter().chain(levels.iter().flat_map(|(_, runs)| runs)))?;
        let below = overlapping(trees, target, range);
        if !below.is_empty() {
            levels.push((target, below));
        }
        Some(Self::onto_target(trees, l0, levels, target))
    }

    /// Merges runs of L0 and of levels, with those of `target` already among them.
    pub(super) fn onto_target(
        trees: &Trees,
        l0: Vec<RunHandle>,
        levels: Vec<(usize, Vec<RunHandle>)>,
        target: usize,
    ) -> Self {
        let mut compaction = Self { l0, levels, target: LevelId::Level(target), bottom: false };
        let of_target: usize =
            compaction.levels.iter().filter(|(level, _)| *level == target).map(|(_, runs)| runs.len()).sum();
        let met = span(compaction.inputs()).map_or(0, |range| overlapping(trees, target, range).len());
        assert_eq!(met, of_target, "the result of a compaction reaches over no run that stays beside it");
        // What the target brings along reaches further than what comes down to it, and may hide versions further below
        // there.
        compaction.bottom = span(compaction.inputs()).is_some_and(|range| is_bottom(trees, target, range));
        compaction
    }

    /// All inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &RunHandle> {
        self.l0.iter().chain(self.levels.iter().flat_map(|(_, runs)| runs))
    }

    /// The keys between the first and the last of the inputs, within which the result lies.
    #[must_use]
    pub fn range(&self) -> Option<(&[u8], &[u8])> {
        span(self.inputs())
    }

    /// The files that the result replaces.
    #[must_use]
    pub fn removed(&self) -> Vec<FileId> {
        self.inputs().map(|handle| handle.id).collect()
    }

    /// Bytes of the inputs: about as many as the result has at most.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.inputs().map(|handle| handle.run.meta().bytes).sum()
    }

    /// Whether the inputs are disjoint already and none is in the target: they can be moved there without being read.
    /// Small runs are merged nevertheless, or a table written in key order would become more files than a process may
    /// open; so are runs whose tombstones may go.
    #[must_use]
    pub fn is_trivial_move(&self, options: &TableOptions) -> bool {
        let is_target = |level: usize| self.target == LevelId::Level(level);
        let drops = self.bottom && self.inputs().any(|handle| handle.run.meta().tombstones > 0);
        let merges = self.target == LevelId::L0 || self.levels.iter().any(|(level, _)| is_target(*level));
        if merges || drops || are_small(self.inputs(), options) {
            return false;
        }
        let mut ranges: Vec<_> = self.inputs().map(key_range).collect();
        ranges.sort_unstable();
        ranges.windows(2).all(|pair| pair[0].1 < pair[1].0)
    }
}
