//! The order of commits: the next seqnum, and what a transaction that read before must be checked against.

use std::sync::Arc;

use crate::base::{Kind, SeqNum, TableId};
use crate::db::state::table::{TableFinder, TableState};
use crate::tree::Limits;
use crate::tree::cursor::after;
use crate::txn::batch::{Change, Changes};
use crate::txn::conflict::RecentWrites;
use crate::txn::read_set::ReadSet;
use crate::txn::recent_changes::RecentChanges;

/// What commits change in their order.
#[derive(Debug)]
pub(crate) struct CommitOrder {
    pub(crate) next_seqnum: SeqNum,
    pub(crate) recent: RecentWrites,
    /// Kept while a transaction is open whose reads are checked.
    changes: RecentChanges,
    /// Bulk loads that have their place in the order, but whose entries cannot be found yet.
    pub(crate) loads: Vec<PendingLoad>,
    /// Scratch for the front of a log record.
    pub(crate) header: Vec<u8>,
}

impl CommitOrder {
    /// Before the first commit, which gets this seqnum.
    pub(crate) fn new(next_seqnum: SeqNum) -> Self {
        Self {
            next_seqnum,
            recent: RecentWrites::default(),
            changes: RecentChanges::default(),
            loads: Vec::new(),
            header: Vec::new(),
        }
    }

    /// Whether a transaction that read at `read_seqnum` could not change a key of the table any more; `None` when only
    /// a look at the table tells.
    pub(super) fn conflicts(&self, table: TableId, key: &[u8], read_seqnum: SeqNum) -> Option<bool> {
        let change = Change { table, kind: Kind::Put, key, value: b"" };
        if self.loads.iter().any(|load| load.table == table && load.meets(&change)) {
            return Some(true);
        }
        (!self.recent.may_have_changed(table, key, read_seqnum)).then_some(false)
    }

    /// Whether anything that was read has changed after `since`; `None` when only a look at the tables tells.
    pub(super) fn changed(&self, reads: &ReadSet, since: SeqNum) -> Option<bool> {
        let is_read = |load: &PendingLoad| reads.meets(load.table, &load.smallest, Some(&after(load.largest.clone())));
        if self.loads.iter().any(is_read) {
            return Some(true);
        }
        self.changes.changed(reads, since)
    }

    /// Notes what a commit changes, for the conflicts of the transactions that are open; where none is, only that
    /// something changed.
    pub(super) fn note(&mut self, changes: &Changes, tables: &[Arc<TableState>], first: SeqNum, open: OpenCounts) {
        let last = SeqNum(self.next_seqnum.0 - 1);
        if open.checked == 0 {
            self.changes.skip(last);
        }
        if open.all == 0 {
            // A transaction that begins now sees this commit, or looks it up: of what was skipped the filter says
            // nothing.
            self.recent.skip(last);
            return;
        }
        for (seqnum, change) in (first.0..).map(SeqNum).zip(changes.iter()) {
            if open.checked > 0 {
                self.changes.note(&change, seqnum);
            }
            match change.kind {
                Kind::RangeDelete => self.recent.skip(seqnum),
                Kind::Merge if commutes(&change, tables) => {
                    self.recent.note_merge(change.table, change.key, seqnum);
                }
                _ => self.recent.note(change.table, change.key, seqnum),
            }
        }
    }

    /// Gives the next seqnum to a change that is no commit, and must be published like one.
    pub(crate) fn take_seqnum(&mut self) -> SeqNum {
        let seqnum = self.next_seqnum;
        self.next_seqnum = SeqNum(seqnum.0 + 1);
        self.recent.skip(seqnum);
        self.changes.skip(seqnum);
        seqnum
    }
}

/// How many transactions are open, and of how many of them the reads are checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenCounts {
    pub(super) all: usize,
    pub(super) checked: usize,
}

/// Whether a change is a merge that commutes with other merges.
pub(super) fn commutes(change: &Change<'_>, tables: &[Arc<TableState>]) -> bool {
    change.kind == Kind::Merge && tables[TableFinder::new(tables).find(change.table)].callbacks.operator.commutes()
}

/// A bulk load on its way to visibility.
#[derive(Debug)]
pub(crate) struct PendingLoad {
    pub(crate) table: TableId,
    pub(crate) seqnum: SeqNum,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl PendingLoad {
    /// Whether the load may have a key that the change is of.
    pub(crate) fn meets(&self, change: &Change<'_>) -> bool {
        match change.range() {
            None => *self.smallest <= *change.key && *change.key <= *self.largest,
            Some(Limits { low, high, .. }) => low <= self.largest && high.is_none_or(|high| self.smallest < high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Kind;

    /// From its first key to its last; ranges end before their upper bound.
    #[test]
    fn a_load_on_its_way_meets_changes_of_its_keys_up_to_both_ends() {
        let (smallest, largest) = (b"c".to_vec(), b"e".to_vec());
        let load = PendingLoad { table: TableId(1), seqnum: SeqNum(9), smallest, largest };
        let meets = |kind, key, value| load.meets(&Change { table: TableId(1), kind, key, value });
        for (key, is_met) in [(b"b", false), (b"c", true), (b"d", true), (b"e", true), (b"f", false)] {
            assert_eq!(meets(Kind::Put, key, b"c"), is_met, "{key:?}");
            assert_eq!(meets(Kind::Delete, key, b""), is_met, "{key:?}");
            assert_eq!(meets(Kind::RangeDelete, key, b""), *key <= *b"e", "{key:?} to the last key");
            assert_eq!(meets(Kind::RangeDelete, b"", key), *key > *b"c", "up to {key:?}");
        }
        assert!(meets(Kind::RangeDelete, b"", b""));
    }
}
