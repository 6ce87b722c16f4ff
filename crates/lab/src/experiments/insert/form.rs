//! What a row of the benchmark is: an entry of a table with entries of indexes, or a document.

use super::documents::DocumentForm;
use super::entries::EntryForm;
use super::rows::RowMaker;
use crate::driver::Client;
use crate::run::Db;
use anyhow::Result;
use std::ops::Range;

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::experiments) enum Form {
    /// Entries of tables that the workload keeps: the row, and one for each index.
    Entries,
    /// A document, whose indexes the database keeps.
    Documents,
}

/// How one client inserts, deletes and reads rows. What it does follows from the seed and the numbers of rows alone.
pub(in crate::experiments) trait Rows {
    /// Inserts the rows with these primary keys in one commit, with entries in the first so many indexes of those that
    /// are not kept by the database; returns the bytes of keys and values.
    ///
    /// # Errors
    /// What the database says; a conflict.
    fn insert(&mut self, client: &mut dyn Client, keys: Range<u64>, indexes: usize) -> Result<u64>;

    /// Deletes the rows with these primary keys and their index entries in one commit; returns how many there were, and
    /// the bytes of what was written.
    ///
    /// # Errors
    /// What the database says.
    fn delete(&mut self, client: &mut dyn Client, keys: Range<u64>, indexes: usize) -> Result<(u64, u64)>;

    /// Reads the entries of an index from that on which the row with a primary key would have; returns the bytes read.
    ///
    /// # Errors
    /// What the database says.
    fn range(&mut self, client: &mut dyn Client, index: usize, key: u64) -> Result<u64>;

    /// Reads the row with a primary key; returns its bytes if it is there.
    ///
    /// # Errors
    /// What the database says.
    fn point(&mut self, client: &mut dyn Client, key: u64) -> Result<Option<u64>>;
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
