//! Rows as entries of tables.

use super::operations::{RANGE_ENTRIES, Rows};
use super::rows::{INDEXES, RowMaker};
use crate::driver::{Batch, Client, Outcome, Scan, TableId, TableSpec, unless_lacking};
use anyhow::{Result, ensure};
use std::ops::Range;

/// The table of rows; the indexes follow it.
pub(in crate::experiments) const ROWS: TableId = TableId(0);

/// The tables of rows with so many indexes.
pub(in crate::experiments) fn tables(indexes: usize) -> Vec<TableSpec> {
    let mut tables = vec![TableSpec::new("rows")];
    tables.extend(INDEXES[..indexes].iter().map(|name| TableSpec::index(name, ROWS)));
    tables
}

/// One client's rows.
pub(super) struct EntryForm {
    row: RowMaker,
    batch: Batch,
}

impl EntryForm {
    pub(super) fn new(row: RowMaker) -> Self {
        Self { row, batch: Batch::new() }
    }
}

impl Rows for EntryForm {
    fn insert(&mut self, client: &mut dyn Client, keys: Range<u64>, indexes: usize) -> Result<u64> {
        self.batch.clear();
        for pk in keys {
            self.row.make(pk);
            self.batch.put(ROWS, self.row.key(), self.row.value());
            for (at, entry) in self.row.entries()[..indexes].iter().enumerate() {
                self.batch.put(TableId(ROWS.0 + 1 + at), entry, b"");
            }
        }
        ensure!(client.write(&self.batch)? == Outcome::Done, "a commit that touches new keys only had a conflict");
        Ok(self.batch.bytes() as u64)
    }

    /// Only the rows tell which entries they have.
    fn delete(&mut self, client: &mut dyn Client, keys: Range<u64>, indexes: usize) -> Result<(u64, u64)> {
        let batch = &mut self.batch;
        batch.clear();
        let deleted = each_row(client, keys, |row| {
            batch.delete(ROWS, row.key());
            for (at, entry) in row.entries()[..indexes].iter().enumerate() {
                batch.delete(TableId(ROWS.0 + 1 + at), entry);
            }
        })?;
        let _done = client.write(batch)?;
        Ok((deleted, batch.bytes() as u64))
    }

    fn range(&mut self, client: &mut dyn Client, index: usize, key: u64) -> Result<u64> {
        self.row.make(key);
        let scan = Scan::from(TableId(ROWS.0 + 1 + index), self.row.entries()[index], RANGE_ENTRIES);
        let mut read = 0;
        client.scan(&scan, &mut |key, _| read += key.len() as u64)?;
        Ok(read)
    }

    fn point(&mut self, client: &mut dyn Client, key: u64) -> Result<Option<u64>> {
        let mut read = 0;
        let there = client.get(ROWS, &key.to_be_bytes(), &mut |value| read = 8 + value.len() as u64)?;
        Ok(there.then_some(read))
    }
}

/// Reads the rows in a range of keys as they are now, and returns how many there are.
pub(super) fn each_row(client: &mut dyn Client, keys: Range<u64>, mut visit: impl FnMut(&RowMaker)) -> Result<u64> {
    let (from, until) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
    let scan = Scan { from: Some(&from), until: Some(&until), ..Scan::all(ROWS) };
    let mut row = RowMaker::new(0, 0);
    let mut wrong = None;
    drop(unless_lacking(client.view())?);
    let rows = client.scan(&scan, &mut |key, value| match row.load(key, value) {
        Ok(()) => visit(&row),
        Err(error) => wrong = Some(error),
    })?;
    wrong.map_or(Ok(rows), Err)
}
