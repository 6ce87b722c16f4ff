//! What one commit writes, by its tables.

use std::sync::Arc;

use crate::db::state::table::TableState;
use crate::tree::memtable::SortedBatch;
use crate::txn::batch::Changes;

use super::range_tombstones::NewTombstones;

/// What a commit writes.
#[derive(Clone, Copy)]
pub(crate) struct WriteSet<'a> {
    pub(crate) changes: &'a Changes,
    /// The tables that are changed.
    pub(crate) tables: &'a [Arc<TableState>],
    /// For each of the tables its changes in order, if they are to have a memtable of their own; empty when none are.
    pub(crate) sorted: &'a [Option<SortedBatch>],
    /// For each of the tables the range tombstones among its changes; empty when there are none.
    pub(crate) tombstones: &'a [NewTombstones],
}

impl WriteSet<'_> {
    /// Whether the changes of the table at `at` go to its active memtable.
    pub(crate) fn is_inserted(&self, at: usize) -> bool {
        self.sorted.get(at).is_none_or(Option::is_none)
    }
}
