//! What a row of the benchmark is: an entry of a table with entries of indexes, or a document.

use super::documents::DocumentForm;
use super::entries::EntryForm;
use super::operations::Rows;
use super::rows::RowMaker;
use crate::run::Db;
use anyhow::Result;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum Form {
    /// Entries of tables that the workload keeps: the row, and one for each index.
    Entries,
    /// A document, whose indexes the database keeps.
    Documents,
}

impl Form {
    /// How a client works with rows that have so many random bytes.
    pub(in crate::experiments) fn rows(self, seed: u64, filler_bytes: usize) -> Box<dyn Rows> {
        let row = RowMaker::new(seed, filler_bytes);
        match self {
            Self::Entries => Box::new(EntryForm::new(row)),
            Self::Documents => Box::new(DocumentForm::new(row)),
        }
    }

    /// Makes what rows are inserted into, unless opening the database did.
    pub(in crate::experiments) fn create(self, db: &Db<'_, '_>) -> Result<()> {
        match self {
            Self::Entries => Ok(()),
            Self::Documents => super::documents::create(&mut *db.store().client()?),
        }
    }

    /// Bytes of keys and values that a row with its index entries brings.
    pub(in crate::experiments) fn logical_bytes(self, filler_bytes: usize, indexes: usize) -> u64 {
        match self {
            Self::Entries => super::rows::logical_bytes(filler_bytes, indexes),
            Self::Documents => super::documents::logical_bytes(filler_bytes, indexes),
        }
    }
}
