//! Sorting by keys of bytes, in memory and, past the limit, in a table of the engine.
//!
//! # Format
//! The key of an entry in the table is the row's key and its number, u64 big-endian, so that rows of equal keys stay in
//! the order in which they came; the value is the document. The table is not logged; it is dropped with the sorter, and
//! one that a crash leaves is dropped when the database is opened (its name begins with [`TABLE_PREFIX`]).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spinney::{Batch, Layout, Range, Table, TableOptions};

use super::memory::Memory;
use crate::base::num::usize_of;
use crate::base::{Error, ErrorCode, Result};
use crate::bson::{Document, DocumentBuf};

/// What the names of the tables begin with; a number follows.
pub const TABLE_PREFIX: &str = "s-";

/// The most bytes of a batch.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// The longest key of a row in a table, which the engine limits.
const KEY_BYTES_MAX: usize = 65_000;

/// What a row in memory needs besides its bytes.
const ROW_BYTES: usize = size_of::<Row>();

/// A row: its key and its document.
pub type Row = (Vec<u8>, DocumentBuf);

/// Sorts documents by keys, of which none may begin with another one, such as encoded values.
pub struct Sorter {
    stage: &'static str,
    memory: Arc<Memory>,
    limit: Option<usize>,
    rows: Vec<Row>,
    bytes: usize,
    /// With a limit, the greatest key that is still wanted, once there are enough rows.
    greatest: Option<Vec<u8>>,
    table: Option<SpillTable>,
    pushed: u64,
}

/// The rows of a sorter in order.
pub struct Sorted {
    rows: std::vec::IntoIter<Row>,
    memory: Arc<Memory>,
    /// Before the table, which it reads.
    range: Option<Range>,
    _table: Option<SpillTable>,
    left: usize,
}

impl Sorter {
    /// A sorter for a stage. With a limit only that many of the first rows are kept.
    #[must_use]
    pub fn new(stage: &'static str, memory: Arc<Memory>, limit: Option<u64>) -> Self {
        let limit = limit.map(usize_of);
        Self { stage, memory, limit, rows: Vec::new(), bytes: 0, greatest: None, table: None, pushed: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// Code 292 when the limit of memory is exceeded and there is no database for the rest, or a key is too long for a
    /// table; those of the engine.
    pub fn push(&mut self, key: Vec<u8>, document: DocumentBuf) -> Result<()> {
        if self.greatest.as_ref().is_some_and(|greatest| key >= *greatest) || self.limit == Some(0) {
            return Ok(());
        }
        let number = self.pushed;
        self.pushed += 1;
        if let Some(table) = &mut self.table {
            return table.put(&key, number, &document, self.stage);
        }
        let bytes = key.len() + document.as_bytes().len() + ROW_BYTES;
        self.bytes += bytes;
        let fits = self.memory.try_take(bytes);
        self.rows.push((key, document));
        if !fits {
            self.cut();
            // What was cut off may have made room.
            if !self.memory.has_room() {
                self.spill()?;
            }
        } else if self
            .limit
            .is_some_and(|limit| self.rows.len() >= limit.saturating_mul(2).max(limit.saturating_add(64)))
        {
            self.cut();
        }
        Ok(())
    }

    /// Sorts the rows in memory, and drops those beyond the limit.
    fn cut(&mut self) {
        let Some(limit) = self.limit else { return };
        if self.rows.len() <= limit {
            return;
        }
        self.rows.sort_by(|a, b| a.0.cmp(&b.0));
        let dropped: usize = self.rows.drain(limit..).map(|row| row_bytes(&row)).sum();
        self.bytes -= dropped;
        self.memory.give(dropped);
        self.greatest = self.rows.last().map(|row| row.0.clone());
    }

    /// Moves the rows to a table, to which all later ones go.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn spill(&mut self) -> Result<()> {
        let Some(engine) = self.memory.spill() else { return Err(self.memory.exceeded(self.stage)) };
        let mut table = SpillTable::create(engine.clone())?;
        let first = self.pushed - u64::try_from(self.rows.len()).unwrap_or_default();
        for (number, (key, document)) in (first..).zip(self.rows.drain(..)) {
            table.put(&key, number, &document, self.stage)?;
        }
        self.memory.give(self.bytes);
        self.bytes = 0;
        self.rows = Vec::new();
        self.table = Some(table);
        Ok(())
    }

    /// How many rows were added and were wanted at that time.
    #[must_use]
    pub const fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Whether rows are in a table.
    #[must_use]
    pub const fn is_spilled(&self) -> bool {
        self.table.is_some()
    }

    /// The rows in order.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn finish(mut self) -> Result<Sorted> {
        let left = self.limit.unwrap_or(usize::MAX);
        let mut table = self.table.take();
        let range = match &mut table {
            Some(table) => Some(table.read()?),
            None => None,
        };
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        // The rows give their bytes back one by one.
        self.bytes = 0;
        Ok(Sorted { rows: rows.into_iter(), memory: Arc::clone(&self.memory), range, _table: table, left })
    }
}

impl Drop for Sorter {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

fn row_bytes((key, document): &Row) -> usize {
    key.len() + document.as_bytes().len() + ROW_BYTES
}

impl Iterator for Sorted {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        if let Some(row) = self.rows.next() {
            self.memory.give(row_bytes(&row));
            return Some(Ok(row));
        }
        let read = match self.range.as_mut()?.advance().transpose()? {
            Ok((key, value)) => row_of(key, value),
            Err(error) => Err(error.into()),
        };
        Some(read)
    }
}

impl Drop for Sorted {
    fn drop(&mut self) {
        self.memory.give(self.rows.as_slice().iter().map(row_bytes).sum());
        self.range = None;
    }
}

fn row_of(key: &[u8], value: &[u8]) -> Result<Row> {
    let corrupt = || Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a row of a sort is no document");
    let (key, _) = key.split_last_chunk::<8>().ok_or_else(corrupt)?;
    let document = Document::from_checked_bytes(value).ok_or_else(corrupt)?;
    Ok((key.to_vec(), document.into()))
}

/// A table of rows that do not fit in memory.
struct SpillTable {
    engine: spinney::Database,
    table: Table,
    batch: Batch,
    batch_bytes: usize,
}

/// The number of the next table.
static NEXT_TABLE: AtomicU64 = AtomicU64::new(0);

impl SpillTable {
    fn create(engine: spinney::Database) -> Result<Self> {
        // Only the number counts; nothing else is published by it.
        let name = format!("{TABLE_PREFIX}{}", NEXT_TABLE.fetch_add(1, Ordering::Relaxed));
        let options = TableOptions::default().layout(Layout::Lsm).logged(false);
        let table = engine.create_table(&name, options)?;
        Ok(Self { engine, table, batch: Batch::new(), batch_bytes: 0 })
    }

    fn put(&mut self, key: &[u8], number: u64, document: &DocumentBuf, stage: &str) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let what = format!("{stage}: a key of {} bytes is too long to be sorted outside of memory", key.len());
            return Err(Error::new(ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT, what));
        }
        let key = [key, &number.to_be_bytes()].concat();
        self.batch.put(&self.table, &key, document.as_bytes());
        self.batch_bytes += key.len() + document.as_bytes().len();
        if self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.batch_bytes = 0;
        Ok(self.engine.write_with(&batch, spinney::Durability::Buffered)?)
    }

    fn read(&mut self) -> Result<Range> {
        self.write()?;
        Ok(self.table.range(..))
    }
}

impl Drop for SpillTable {
    fn drop(&mut self) {
        // A table that cannot be dropped now is dropped when the database is opened again.
        self.engine.drop_table(self.table.name()).unwrap_or_default();
    }
}

impl fmt::Debug for Sorter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorter")
            .field("rows", &self.pushed)
            .field("spilled", &self.is_spilled())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Sorted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorted").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}
