//! The last changes in the order of commits, with their keys: a transaction that must know whether what it read has
//! changed looks at these few instead of at the trees, because it holds the commit latch while it looks.

use std::collections::VecDeque;

use crate::base::{SeqNum, TableId};

use super::batch::Change;
use super::read_set::ReadSet;

/// Changes that are kept at most.
const CHANGES_MAX: usize = 4096;

/// The last changes. Guarded by the commit latch.
#[derive(Debug, Default)]
pub struct RecentChanges {
    changes: VecDeque<Recent>,
    /// All changes after this one are kept.
    complete_after: SeqNum,
}

#[derive(Debug)]
struct Recent {
    seqnum: SeqNum,
    table: TableId,
    key: Box<[u8]>,
    /// Of a change of a range: where it ends, which may be nowhere.
    range: Option<Option<Box<[u8]>>>,
}

impl RecentChanges {
    /// Keeps a change. Seqnums ascend from call to call, without gaps but for those that are skipped.
    pub fn note(&mut self, change: &Change<'_>, seqnum: SeqNum) {
        if self.changes.len() == CHANGES_MAX
            && let Some(oldest) = self.changes.pop_front()
        {
            self.complete_after = oldest.seqnum;
        }
        let range = change.range().map(|range| range.high.map(Vec::into_boxed_slice));
        self.changes.push_back(Recent { seqnum, table: change.table, key: change.key.into(), range });
    }

    /// Leaves the changes up to `last` out.
    pub fn skip(&mut self, last: SeqNum) {
        self.changes.clear();
        self.complete_after = last;
    }

    /// Whether any of what was read changed after `since`; `None` when the changes since then are not all kept.
    #[must_use]
    pub fn changed(&self, reads: &ReadSet, since: SeqNum) -> Option<bool> {
        if since < self.complete_after {
            return None;
        }
        let from = self.changes.partition_point(|change| change.seqnum <= since);
        Some(self.changes.range(from..).any(|change| match &change.range {
            None => reads.has_key(change.table, &change.key),
            Some(high) => reads.meets(change.table, &change.key, high.as_deref()),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    const T: TableId = TableId(1);

    fn note(recent: &mut RecentChanges, kind: Kind, key: &[u8], value: &[u8], seqnum: u64) {
        recent.note(&Change { table: T, kind, key, value }, SeqNum(seqnum));
    }

    #[test]
    fn a_read_is_changed_by_what_came_after_and_meets_it() {
        let (mut recent, mut reads) = (RecentChanges::default(), ReadSet::default());
        reads.add_key(T, b"k");
        note(&mut recent, Kind::Put, b"k", b"v", 1);
        note(&mut recent, Kind::Put, b"other", b"v", 2);
        assert_eq!(recent.changed(&reads, SeqNum(0)), Some(true));
        assert_eq!(recent.changed(&reads, SeqNum(1)), Some(false));
        note(&mut recent, Kind::RangeDelete, b"a", b"k", 3);
        assert_eq!(recent.changed(&reads, SeqNum(1)), Some(false), "it ends before the key");
        note(&mut recent, Kind::RangeDelete, b"a", b"", 4);
        assert_eq!(recent.changed(&reads, SeqNum(1)), Some(true), "it has no end");
        assert_eq!(recent.changed(&reads, SeqNum(4)), Some(false));
    }

    #[test]
    fn what_is_not_kept_is_not_answered() {
        let (mut recent, mut reads) = (RecentChanges::default(), ReadSet::default());
        reads.add_key(T, b"k");
        recent.skip(SeqNum(5));
        assert_eq!(recent.changed(&reads, SeqNum(4)), None);
        assert_eq!(recent.changed(&reads, SeqNum(5)), Some(false));
        (6..).take(CHANGES_MAX).for_each(|seqnum| note(&mut recent, Kind::Put, b"x", b"", seqnum));
        assert_eq!(recent.changed(&reads, SeqNum(5)), Some(false));
        note(&mut recent, Kind::Put, b"x", b"", 6 + CHANGES_MAX as u64);
        assert_eq!(recent.changed(&reads, SeqNum(5)), None);
        assert_eq!(recent.changed(&reads, SeqNum(6)), Some(false));
    }
}
