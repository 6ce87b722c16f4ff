//! What the steps of one database share.

use super::live::Live;
use super::params::Insert;
use super::rows;
use crate::command::common::Common;
use crate::driver::TableId;

/// The table of rows; the indexes follow it.
pub(in crate::experiments) const ROWS: TableId = TableId(0);

/// What the steps of one database share.
pub(super) struct Steps<'a> {
    pub(super) insert: &'a Insert,
    pub(super) common: &'a Common,
    pub(super) live: &'a Live,
    pub(super) label: &'a str,
}

impl Steps<'_> {
    pub(super) fn name(&self, step: &str) -> String {
        format!("{step} {}", self.label)
    }

    pub(super) fn indexes(&self) -> usize {
        self.insert.indexes.into()
    }

    pub(super) fn clients(&self) -> usize {
        self.insert.clients.into()
    }

    /// Bytes of the live keys and values, with indexes or without.
    pub(super) fn live_bytes(&self, rows: u64, indexes: usize) -> u64 {
        rows * rows::logical_bytes(self.insert.row_bytes as usize, indexes)
    }
}
