//! Operators: each gives rows, one after the other, from those of the operators below it.

use std::cell::Cell;
use std::fmt;

use super::reader::Reader;
use super::row::Row;
use crate::aggregate::Lent;
use crate::aggregate::lend::Take;
use crate::base::{Error, ErrorCode, Result, interrupt};
use crate::bson::Document;
use crate::plan::Query;

/// What operators run with.
pub(super) struct Run<'r> {
    /// The view of the tables.
    pub(super) reader: &'r (dyn Reader + 'r),
    /// The table of the documents.
    pub(super) table: &'r spinney::Table,
    /// The query.
    pub(super) query: &'r Query,
    /// Whether the keys of the documents have sort keys in the place of strings.
    pub(super) collated: bool,
    /// What was looked at.
    pub(super) counts: &'r Counts,
}

/// What an execution has looked at so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Entries of indexes.
    pub keys: Cell<u64>,
    /// Documents.
    pub documents: Cell<u64>,
    /// How many of them the operation was told of.
    told: Cell<(u64, u64)>,
}

impl Counts {
    /// Tells the operation what was looked at since the last time.
    pub(super) fn tell(&self) {
        let (keys, documents) = (self.keys.get(), self.documents.get());
        let (keys_told, documents_told) = self.told.replace((keys, documents));
        interrupt::add_examined(keys - keys_told, documents - documents_told);
    }
}

/// What an entry of an index and a document count for as work of the operation.
const KEY_WORK: usize = 2;
const DOCUMENT_WORK: usize = 8;

/// Gives rows.
pub(super) trait Operator: fmt::Debug + Send {
    /// Makes `row` the next row; false when there are no more.
    fn next(&mut self, run: &Run<'_>, row: &mut Row) -> Result<bool>;

    /// Goes over the next rows, `most` or as many as there are; how many those were. `row` is memory for them.
    fn count(&mut self, run: &Run<'_>, row: &mut Row, most: u64) -> Result<u64> {
        count_rows(self, run, row, most)
    }

    /// Lends the documents of the next rows, until `take` wants no more; whether it is so that it ended. `row` is
    /// memory for them.
    fn lend(&mut self, run: &Run<'_>, row: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        lend_rows(self, run, row, take)
    }

    /// As [`Self::lend`], with the keys of an index in the place of documents where there are such.
    fn lend_keys(&mut self, run: &Run<'_>, row: &mut Row, take: &mut Take<'_>) -> Result<bool> {
        self.lend(run, row, take)
    }
}

/// Lends the documents of an operator's next rows.
fn lend_rows<O: Operator + ?Sized>(
    operator: &mut O,
    run: &Run<'_>,
    row: &mut Row,
    take: &mut Take<'_>,
) -> Result<bool> {
    while operator.next(run, row)? {
        let Some(document) = &row.document else { continue };
        if !take(Lent::Document(document.view()))? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Goes over the next rows of an operator one by one.
pub(super) fn count_rows<O: Operator + ?Sized>(
    operator: &mut O,
    run: &Run<'_>,
    row: &mut Row,
    most: u64,
) -> Result<u64> {
    let mut count = 0;
    while count < most && operator.next(run, row)? {
        count += 1;
    }
    Ok(count)
}

impl Run<'_> {
    /// Whether the row's document, which was read, matches the query.
    pub(super) fn matches(&self, row: &mut Row) -> Result<bool> {
        let Some(document) = &row.document else { return Ok(false) };
        self.count_document(document.bytes().len())?;
        let view = Document::from_checked_bytes(document.bytes()).ok_or_else(damaged)?;
        let (matched, position) = self.query.filter.matches_at(view)?;
        row.position = position;
        Ok(matched)
    }

    /// Counts a document of so many bytes.
    ///
    /// # Errors
    /// When the search was interrupted.
    pub(super) fn count_document(&self, bytes: usize) -> Result<()> {
        self.counts.documents.set(self.counts.documents.get() + 1);
        interrupt::work(DOCUMENT_WORK + bytes / 64)
    }

    /// Counts an entry of an index.
    pub(super) fn count_key(&self) -> Result<()> {
        self.counts.keys.set(self.counts.keys.get() + 1);
        interrupt::work(KEY_WORK)
    }
}

/// `DataCorruptionDetected` (374): what is stored is no document.
pub fn damaged() -> Error {
    Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a stored document is no BSON")
}

pub(super) fn dangling() -> Error {
    Error::new(
        ErrorCode::DATA_CORRUPTION_DETECTED,
        "an index has an entry of a document that does not exist: validate names what disagrees; on a standalone server \
         reIndex, or validate with {repair: true}, builds the indexes of the collection again",
    )
}
