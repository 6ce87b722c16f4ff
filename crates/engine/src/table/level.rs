//! The runs of a table by level: a run with its file id, the number of a level, and one sorted level.

use std::sync::Arc;

use crate::base::{FileId, SeqNum};
use crate::tree::run::Run;

/// How many levels there are below L0. The data sinks to the last one; upper ones come into use as it grows.
pub const LEVELS: usize = 7;

/// A run and the id of its file.
#[derive(Clone, Debug)]
pub struct RunHandle {
    /// Names the file.
    pub id: FileId,
    /// The open run.
    pub run: Arc<Run>,
}

/// Where runs lie in the trees of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelId {
    /// In L0, where each run is a sorted sequence of its own.
    L0,
    /// In the level with this index: 0 is level 1.
    Level(usize),
}

impl LevelId {
    /// 0 for L0, 1 for level 1, and so on.
    #[must_use]
    pub const fn number(self) -> usize {
        match self {
            Self::L0 => 0,
            Self::Level(at) => at + 1,
        }
    }
}

/// One sorted sequence of disjoint runs.
#[derive(Clone, Debug, Default)]
pub struct Level {
    /// File ids, in the order of `runs`.
    pub ids: Vec<FileId>,
    /// The runs in key order.
    pub runs: Arc<[Arc<Run>]>,
    /// Snapshots from this seqnum on see all runs. An older one does not see the runs of a later bulk load.
    visible_from: SeqNum,
}

impl Level {
    /// A level of these runs, sorted by key here.
    #[must_use]
    pub fn new(mut handles: Vec<RunHandle>) -> Self {
        handles.sort_by(|a, b| a.run.meta().smallest.cmp(&b.run.meta().smallest));
        Self {
            visible_from: handles.iter().map(|handle| handle.run.visible_from()).max().unwrap_or_default(),
            ids: handles.iter().map(|handle| handle.id).collect(),
            runs: handles.into_iter().map(|handle| handle.run).collect(),
        }
    }

    /// The runs with their ids.
    pub fn handles(&self) -> impl Iterator<Item = RunHandle> + '_ {
        self.ids.iter().zip(self.runs.iter()).map(|(id, run)| RunHandle { id: *id, run: Arc::clone(run) })
    }

    /// The runs of which `snapshot` sees anything.
    pub(super) fn seen_by(&self, snapshot: SeqNum) -> Arc<[Arc<Run>]> {
        if self.visible_from <= snapshot {
            return Arc::clone(&self.runs);
        }
        self.runs.iter().filter(|run| run.visible_from() <= snapshot).cloned().collect()
    }

    /// Bytes on disk.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.meta().bytes).sum()
    }
}
