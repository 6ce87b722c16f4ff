//! What the benchmark does with rows, whichever form they have.

use crate::driver::Client;
use anyhow::Result;
use std::ops::Range;

/// Entries that a range query reads.
pub(super) const RANGE_ENTRIES: u64 = 10;

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
