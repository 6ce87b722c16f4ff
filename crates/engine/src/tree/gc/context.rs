//! What the rule knows of the table: its snapshots, what lies below, and what changes values.

use super::other_trees::OtherTrees;
use crate::base::SeqNum;
use crate::tree::compaction_filter::TableFilter;
use crate::tree::operator::TableOperator;
use crate::tree::values::ValueFiles;

/// Which snapshots see a version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    ByAll,
    BySome,
}

/// What the rule knows of the table. It does not change while entries pass.
#[derive(Debug)]
pub(super) struct GcContext {
    /// Seqnums of live snapshots, ascending; the last one represents all snapshots from there on, now or to come.
    pub(super) snapshots: Vec<SeqNum>,
    /// Nothing older than these entries lies in any other tree of the table.
    pub(super) bottom: bool,
    /// The trees outside the stream, which may hold versions of it once more.
    pub(super) other_trees: OtherTrees,
    pub(super) operator: TableOperator,
    pub(super) filter: TableFilter,
    /// The value files that entries point into: read when operands are folded into a value.
    pub(super) values: ValueFiles,
    /// Every entry keeps its seqnum.
    pub(super) keeps_seqnums: bool,
}

impl GcContext {
    /// See [`super::GcRule::new`].
    pub(super) fn new(mut snapshots: Vec<SeqNum>, published: SeqNum, bottom: bool) -> Self {
        // Versions newer than `published` are kept for all snapshots to come, and so for these as well.
        snapshots.retain(|snapshot| *snapshot < published);
        snapshots.push(published);
        snapshots.sort_unstable();
        snapshots.dedup();
        Self {
            snapshots,
            bottom,
            other_trees: OtherTrees::default(),
            operator: TableOperator::default(),
            filter: TableFilter::default(),
            values: ValueFiles::default(),
            keeps_seqnums: false,
        }
    }

    /// The index of the first snapshot that sees a version with this seqnum.
    #[inline]
    pub(super) fn first_to_see(&self, seqnum: SeqNum) -> usize {
        self.snapshots.partition_point(|snapshot| *snapshot < seqnum)
    }

    /// The seqnum that every snapshot sees.
    #[inline]
    pub(super) fn oldest(&self) -> SeqNum {
        self.snapshots[0]
    }

    /// The seqnum with which a version is written.
    #[inline]
    pub(super) const fn written(&self, seqnum: SeqNum, seen: Seen) -> SeqNum {
        if matches!(seen, Seen::ByAll) && !self.keeps_seqnums { SeqNum::ZERO } else { seqnum }
    }
}
