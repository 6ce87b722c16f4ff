//! Which of a commit's tables a change is of.

use std::sync::Arc;

use crate::base::TableId;
use crate::db::state::table::TableState;

/// The index of a table among those of a commit.
pub(crate) fn position(tables: &[Arc<TableState>], id: TableId) -> usize {
    tables.iter().position(|table| table.id == id).expect("a batch names its tables")
}

/// As [`position`], of one change after the other: mostly they are of the same table.
pub(crate) struct Finder<'a> {
    tables: &'a [Arc<TableState>],
    at: usize,
}

impl<'a> Finder<'a> {
    pub(crate) const fn new(tables: &'a [Arc<TableState>]) -> Self {
        Self { tables, at: 0 }
    }

    pub(crate) fn find(&mut self, id: TableId) -> usize {
        if self.tables[self.at].id != id {
            self.at = position(self.tables, id);
        }
        self.at
    }
}
