//! A table and its runs as the manifest knows them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::codec::Malformed;
use crate::base::{FileId, Lsn};
use crate::tree::btree::TreeMeta;
use crate::tree::range_tombstone::RangeTombstones;
use crate::tree::run::RunMeta;

use super::level::{LEVELS, RunHandle};
use super::options::TableOptions;
use super::seqnum_to_time::SeqnumToTime;

/// A run as the manifest knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct RunRecord {
    /// Names the file.
    pub id: FileId,
    /// What is in it.
    pub meta: RunMeta,
}

impl RunRecord {
    /// The record of a run.
    #[must_use]
    pub fn of(handle: &RunHandle) -> Self {
        Self { id: handle.id, meta: handle.run.kept_meta() }
    }
}

/// A table as the manifest knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRecord {
    /// The user's name for it.
    pub name: String,
    /// Fixed at creation.
    pub options: TableOptions,
    /// Changes before this log position are in the trees; recovery replays those from here on.
    pub replay_from: Lsn,
    /// Newest first.
    pub l0: Vec<RunRecord>,
    /// Level 1 to [`LEVELS`], each in key order, without a key in two runs.
    pub levels: [Vec<RunRecord>; LEVELS],
    /// The B-tree's file and root.
    pub tree: Option<(FileId, TreeMeta)>,
    /// The range tombstones that readers need for what is in the trees.
    pub range_tombstones: Arc<RangeTombstones>,
    /// How old its entries are, when they have a time to live.
    pub seqnum_to_time: SeqnumToTime,
}

impl TableRecord {
    /// A table without data.
    #[must_use]
    pub fn new(name: String, options: TableOptions, replay_from: Lsn) -> Self {
        let (l0, levels, tree, range_tombstones) = (Vec::new(), Default::default(), None, Arc::default());
        Self { name, options, replay_from, l0, levels, tree, range_tombstones, seqnum_to_time: SeqnumToTime::default() }
    }

    /// Whether there is anything in the table's trees.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.runs().next().is_some() || self.tree.as_ref().is_some_and(|(_, meta)| *meta != TreeMeta::default())
    }

    /// The value files that the table's runs refer to.
    #[must_use]
    pub fn values(&self) -> BTreeSet<FileId> {
        self.runs().flat_map(|run| &run.meta.references).map(|reference| reference.file).collect()
    }

    /// Adds range tombstones.
    pub(super) fn erase(&mut self, range_tombstones: &RangeTombstones) {
        if !range_tombstones.is_empty() {
            self.range_tombstones = Arc::new(self.range_tombstones.and(range_tombstones));
        }
    }

    /// Keeps how old entries are, and the range tombstones with that of those that are too old.
    pub(super) fn expire(
        &mut self,
        seqnum_to_time: &SeqnumToTime,
        range_tombstones: &Arc<RangeTombstones>,
    ) -> Result<(), Malformed> {
        self.options.time_to_live.ok_or(Malformed)?;
        self.seqnum_to_time.clone_from(seqnum_to_time);
        self.range_tombstones = Arc::clone(range_tombstones);
        Ok(())
    }

    /// The table's runs.
    pub fn runs(&self) -> impl Iterator<Item = &RunRecord> {
        self.l0.iter().chain(self.levels.iter().flatten())
    }
}

/// Refuses runs of a level that are not in key order, or have a key in common: compactions count on it.
pub(super) fn check_disjoint(level: &[RunRecord]) -> Result<(), Malformed> {
    let are_disjoint = level.windows(2).all(|pair| pair[0].meta.largest < pair[1].meta.smallest);
    if are_disjoint { Ok(()) } else { Err(Malformed) }
}
