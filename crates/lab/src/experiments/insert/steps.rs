//! What the steps of one database share.

use super::form::Form;
use super::live::Live;
use super::operations::Rows;
use super::params::Insert;
use crate::command::common::Common;

/// What the steps of one database share.
#[derive(Clone, Copy)]
pub(super) struct Steps<'a> {
    pub(super) insert: &'a Insert,
    pub(super) form: Form,
    pub(super) common: &'a Common,
    pub(super) live: &'a Live,
    pub(super) label: &'a str,
    /// How often the steps from l.i1 on have run before.
    pub(super) age: u32,
}

impl Steps<'_> {
    pub(super) fn name(&self, step: &str) -> String {
        match self.age {
            0 => format!("{step} {}", self.label),
            age => format!("{step} {} age {age}", self.label),
        }
    }

    pub(super) fn indexes(&self) -> usize {
        self.insert.indexes.into()
    }

    pub(super) fn clients(&self) -> usize {
        self.insert.clients.into()
    }

    /// Bytes of the live keys and values, with indexes or without.
    pub(super) fn live_bytes(&self, rows: u64, indexes: usize) -> u64 {
        rows * self.form.logical_bytes(self.insert.row_bytes as usize, indexes)
    }

    /// What makes the rows of a client.
    pub(super) fn maker(&self) -> impl Fn() -> Box<dyn Rows> + Clone + Sync + use<> {
        let (form, seed, filler) = (self.form, self.common.seed, self.insert.row_bytes as usize);
        move || form.rows(seed, filler)
    }
}
