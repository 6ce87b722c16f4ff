//! One thread's connection to a database.
//!
//! An engine has tables or documents. The operations of the other kind are refused by the trait's own methods.

use super::batch::Batch;
use super::config::TableId;
use super::documents::Documents;
use super::lacks::Lacks;
use anyhow::Result;

/// The answer of an engine of documents to an operation on a table.
fn no_tables<T>() -> Result<T> {
    Err(Lacks::new("documents, and no tables").into())
}

/// A connection of one thread.
///
/// Outside a transaction a read sees the last [`Client::view`], or all that was committed when it began if there was
/// none; a write is a commit of its own. Between [`Client::begin`] and [`Client::commit`] or [`Client::rollback`] reads
/// and writes belong to the transaction, and its reads see its writes.
pub trait Client {
    /// Applies the changes atomically, with the durability that the database was opened for. In a transaction they
    /// become its own.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has documents; else what the engine says. A conflict in a transaction may be said here
    /// as well as at its commit: see [`Outcome`].
    fn write(&mut self, _batch: &Batch) -> Result<Outcome> {
        no_tables()
    }

    /// Calls `found` with the value of a key, if there is one; says whether there was.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has documents; else what the engine says.
    fn get(&mut self, _table: TableId, _key: &[u8], _found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        no_tables()
    }

    /// Calls `found` with the position and the value of each of `keys` that has one.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has no read of many keys in one call; else what the engine says.
    fn multi_get(&mut self, _table: TableId, _keys: &[&[u8]], _found: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        Err(Lacks::new("no read of many keys in one call").into())
    }

    /// Calls `visit` with keys and values in order, until the scan's end or limit; returns how many there were.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has documents; else what the engine says.
    fn scan(&mut self, _scan: &Scan<'_>, _visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        no_tables()
    }

    /// From now on reads outside transactions see the database as it is at this moment, until the next call. A write or
    /// a transaction of the same client may move this moment on, in engines whose connection has one transaction at a
    /// time.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has no read views, or documents; else what the engine says.
    fn view(&mut self) -> Result<()> {
        no_tables()
    }

    /// Begins a transaction that reads from one moment and commits all or nothing.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn begin(&mut self) -> Result<()> {
        Err(Lacks::new("no transactions").into())
    }

    /// As [`Client::get`] in a transaction that is going to write the key: a lock where the engine has locks.
    ///
    /// # Errors
    /// What the engine says.
    fn get_for_update(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.get(table, key, found)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// What the engine says, but for conflicts, which are an [`Outcome`].
    fn commit(&mut self) -> Result<Outcome> {
        Err(Lacks::new("no transactions").into())
    }

    /// Ends the transaction without its changes.
    ///
    /// # Errors
    /// What the engine says.
    fn rollback(&mut self) -> Result<()> {
        Err(Lacks::new("no transactions").into())
    }

    /// The operations on documents.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has tables.
    fn documents(&mut self) -> Result<&mut dyn Documents> {
        Err(Lacks::new("tables, and no documents").into())
    }
}

/// How a write or a commit ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It is done.
    Done,
    /// Another transaction was first. This one has ended (as after [`Client::rollback`]) and may be run again.
    Conflict,
}

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Ascending keys.
    Forward,
    /// Descending keys.
    Backward,
}

/// A range read.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'a> {
    /// The table.
    pub table: TableId,
    /// Keys from this one on, in the direction of the scan: `>=` forward, `<=` backward; `None` for the first or last
    /// key.
    pub from: Option<&'a [u8]>,
    /// Keys before this one, in the direction of the scan: `<` forward, `>` backward; `None` for no end.
    pub until: Option<&'a [u8]>,
    /// The direction.
    pub direction: Direction,
    /// At most so many entries.
    pub limit: u64,
}

impl<'a> Scan<'a> {
    /// All entries of a table, ascending.
    #[must_use]
    pub const fn all(table: TableId) -> Self {
        Self { table, from: None, until: None, direction: Direction::Forward, limit: u64::MAX }
    }

    /// At most `limit` entries from `from` on, ascending.
    #[must_use]
    pub const fn from(table: TableId, from: &'a [u8], limit: u64) -> Self {
        Self { table, from: Some(from), until: None, direction: Direction::Forward, limit }
    }
}
