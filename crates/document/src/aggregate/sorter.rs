//! Sorting by keys of bytes, in memory and, past the limit, in a table of the engine.
//!
//! # Format
//! The key of an entry in the table is the row's key and its number, u64 big-endian, so that rows of equal keys stay in
//! the order in which they came; the value is the row: of a pipeline the document. The table is not logged; it is
//! dropped with the sorter, and one that a crash leaves is dropped when the database is opened (its name begins with
//! [`TABLE_PREFIX`]).

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

/// A row: its key and what is sorted.
pub type Row<T = DocumentBuf> = (Vec<u8>, T);

/// What can be sorted: it goes to a table as bytes, and comes back.
pub trait Sortable: Sized {
    /// The bytes that it takes in memory besides itself.
    fn heap_bytes(&self) -> usize;

    /// Its bytes, for which `buffer`, which is empty, may be used.
    fn as_bytes<'b>(&'b self, buffer: &'b mut Vec<u8>) -> &'b [u8];

    /// What bytes stand for; nothing when they stand for nothing.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Sortable for DocumentBuf {
    fn heap_bytes(&self) -> usize {
        Self::as_bytes(self).len()
    }

    fn as_bytes<'b>(&'b self, _: &'b mut Vec<u8>) -> &'b [u8] {
        Self::as_bytes(self)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Document::from_checked_bytes(bytes).map(Self::from)
    }
}

/// Sorts documents, or other rows, by keys, of which none may begin with another one, such as encoded values.
pub struct Sorter<T: Sortable = DocumentBuf> {
    stage: &'static str,
    memory: Arc<Memory>,
    limit: Option<usize>,
    rows: Vec<Row<T>>,
    bytes: usize,
    /// With a limit, the greatest key that is still wanted, once there are enough rows.
    greatest: Option<Vec<u8>>,
    table: Option<SpillTable>,
    pushed: u64,
}

/// The rows of a sorter in order.
pub struct Sorted<T: Sortable = DocumentBuf> {
    rows: std::vec::IntoIter<Row<T>>,
    memory: Arc<Memory>,
    /// Before the table, which it reads.
    range: Option<Range>,
    _table: Option<SpillTable>,
    left: usize,
}

impl<T: Sortable> Sorter<T> {
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
    pub fn push(&mut self, key: Vec<u8>, row: T) -> Result<()> {
        if self.greatest.as_ref().is_some_and(|greatest| key >= *greatest) || self.limit == Some(0) {
            return Ok(());
        }
        let number = self.pushed;
        self.pushed += 1;
        if let Some(table) = &mut self.table {
            return table.put(&key, number, &row, self.stage);
        }
        let row = (key, row);
        let bytes = row_bytes(&row);
        self.bytes += bytes;
        let fits = self.memory.try_take(bytes);
        self.rows.push(row);
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
        let mut table = SpillTable::create(engine)?;
        let first = self.pushed - u64::try_from(self.rows.len()).unwrap_or_default();
        for (number, (key, row)) in (first..).zip(self.rows.drain(..)) {
            table.put(&key, number, &row, self.stage)?;
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
    pub fn finish(mut self) -> Result<Sorted<T>> {
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

impl<T: Sortable> Drop for Sorter<T> {
    fn drop(&mut self) {
        self.memory.give(self.bytes);
    }
}

fn row_bytes<T: Sortable>((key, row): &Row<T>) -> usize {
    key.len() + row.heap_bytes() + size_of::<Row<T>>()
}

impl<T: Sortable> Iterator for Sorted<T> {
    type Item = Result<Row<T>>;

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

impl<T: Sortable> Drop for Sorted<T> {
    fn drop(&mut self) {
        self.memory.give(self.rows.as_slice().iter().map(row_bytes).sum());
        self.range = None;
    }
}

fn row_of<T: Sortable>(key: &[u8], value: &[u8]) -> Result<Row<T>> {
    let corrupt = || Error::new(ErrorCode::DATA_CORRUPTION_DETECTED, "a row of a sort is malformed");
    let (key, _) = key.split_last_chunk::<8>().ok_or_else(corrupt)?;
    Ok((key.to_vec(), T::from_bytes(value).ok_or_else(corrupt)?))
}

/// A table for what does not fit in memory. It is not logged, and dropped with this.
#[derive(Debug)]
pub struct TemporaryTable {
    engine: spinney::Database,
    table: Table,
}

/// The number of the next table.
static NEXT_TABLE: AtomicU64 = AtomicU64::new(0);

impl TemporaryTable {
    /// A new table.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn create(engine: &spinney::Database) -> Result<Self> {
        // Only the number counts; nothing else is published by it.
        let name = format!("{TABLE_PREFIX}{}", NEXT_TABLE.fetch_add(1, Ordering::Relaxed));
        let options = TableOptions::default().layout(Layout::Lsm).logged(false);
        Ok(Self { engine: engine.clone(), table: engine.create_table(&name, options)? })
    }

    /// The table.
    #[must_use]
    pub const fn table(&self) -> &Table {
        &self.table
    }
}

impl Drop for TemporaryTable {
    fn drop(&mut self) {
        // A table that cannot be dropped now is dropped when the database is opened again.
        self.engine.drop_table(self.table.name()).unwrap_or_default();
    }
}

/// A table of rows that do not fit in memory.
struct SpillTable {
    temporary: TemporaryTable,
    batch: Batch,
    batch_bytes: usize,
    buffer: Vec<u8>,
}

impl SpillTable {
    fn create(engine: &spinney::Database) -> Result<Self> {
        let temporary = TemporaryTable::create(engine)?;
        Ok(Self { temporary, batch: Batch::new(), batch_bytes: 0, buffer: Vec::new() })
    }

    fn put<T: Sortable>(&mut self, key: &[u8], number: u64, row: &T, stage: &str) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            let what = format!("{stage}: a key of {} bytes is too long to be sorted outside of memory", key.len());
            return Err(Error::new(ErrorCode::QUERY_EXCEEDED_MEMORY_LIMIT, what));
        }
        let key = [key, &number.to_be_bytes()].concat();
        self.buffer.clear();
        let value = row.as_bytes(&mut self.buffer);
        self.batch.put(&self.temporary.table, &key, value);
        self.batch_bytes += key.len() + value.len();
        if self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.batch_bytes = 0;
        Ok(self.temporary.engine.write_with(&batch, spinney::Durability::Buffered)?)
    }

    fn read(&mut self) -> Result<Range> {
        self.write()?;
        Ok(self.temporary.table.range(..))
    }
}

impl<T: Sortable> fmt::Debug for Sorter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorter")
            .field("rows", &self.pushed)
            .field("spilled", &self.is_spilled())
            .finish_non_exhaustive()
    }
}

impl<T: Sortable> fmt::Debug for Sorted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorted").field("rows", &self.rows.len()).finish_non_exhaustive()
    }
}
