//! A thread's connection to redb.

use super::store::RedbStore;
use ::redb::{
    AccessGuard, ReadOnlyTable, ReadTransaction, ReadableDatabase as _, ReadableTable, StorageError, WriteTransaction,
};
use anyhow::{Context as _, Result};
use spinney_lab::driver::{Batch, Change, Client, Direction, Outcome, Scan, TableId};
use std::ops::Bound;

type Bytes = &'static [u8];

pub(super) struct RedbClient<'a> {
    store: &'a RedbStore,
    view: Option<View>,
    transaction: Option<WriteTransaction>,
}

/// A read transaction, and the tables that were opened in it.
struct View {
    txn: ReadTransaction,
    tables: Vec<Option<ReadOnlyTable<Bytes, Bytes>>>,
}

impl<'a> RedbClient<'a> {
    pub(super) fn new(store: &'a RedbStore) -> Self {
        Self { store, view: None, transaction: None }
    }

    fn look(&self) -> Result<View> {
        let txn = self.store.shared.db().begin_read()?;
        Ok(View { txn, tables: self.store.tables.iter().map(|_| None).collect() })
    }

    /// Has `read` done on the table as the transaction, the view or the present has it.
    fn reading<T>(&mut self, table: TableId, read: impl FnOnce(&dyn Source) -> Result<T>) -> Result<T> {
        if let Some(txn) = &self.transaction {
            return read(&txn.open_table(self.store.tables[table.0])?);
        }
        let mut present;
        let view = match &mut self.view {
            Some(view) => view,
            None => {
                present = self.look()?;
                &mut present
            }
        };
        let place = &mut view.tables[table.0];
        if place.is_none() {
            *place = Some(view.txn.open_table(self.store.tables[table.0])?);
        }
        read(place.as_ref().context("opened above")?)
    }
}

/// What a table of either kind of transaction does.
trait Source {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool>;
    fn scan(&self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64>;
}

impl<T: ReadableTable<Bytes, Bytes>> Source for T {
    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let value = ReadableTable::get(self, key)?;
        if let Some(value) = &value {
            found(value.value());
        }
        Ok(value.is_some())
    }

    fn scan(&self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        let from = scan.from.map_or(Bound::Unbounded, Bound::Included);
        let until = scan.until.map_or(Bound::Unbounded, Bound::Excluded);
        match scan.direction {
            Direction::Forward => visit_all(self.range::<&[u8]>((from, until))?, scan.limit, visit),
            Direction::Backward => visit_all(self.range::<&[u8]>((until, from))?.rev(), scan.limit, visit),
        }
    }
}

type Entry<'a> = (AccessGuard<'a, Bytes>, AccessGuard<'a, Bytes>);

fn visit_all<'a>(
    entries: impl Iterator<Item = Result<Entry<'a>, StorageError>>,
    limit: u64,
    visit: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<u64> {
    let mut visited = 0;
    for entry in entries.take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        let (key, value) = entry?;
        visit(key.value(), value.value());
        visited += 1;
    }
    Ok(visited)
}

impl RedbClient<'_> {
    /// Applies the changes, each table opened once.
    fn apply(&self, txn: &WriteTransaction, batch: &Batch) -> Result<()> {
        let definitions = &self.store.tables;
        let mut tables: Vec<_> = definitions.iter().map(|_| None).collect();
        for change in batch.iter() {
            let (Change::Put(table, ..) | Change::Delete(table, _)) = change;
            let place = &mut tables[table.0];
            if place.is_none() {
                *place = Some(txn.open_table(definitions[table.0])?);
            }
            let open = place.as_mut().context("opened above")?;
            match change {
                Change::Put(_, key, value) => drop(open.insert(key, value)?),
                Change::Delete(_, key) => drop(open.remove(key)?),
            }
        }
        Ok(())
    }
}

impl Client for RedbClient<'_> {
    fn write(&mut self, batch: &Batch) -> Result<Outcome> {
        if let Some(txn) = &self.transaction {
            self.apply(txn, batch)?;
        } else {
            let txn = self.store.shared.begin()?;
            self.apply(&txn, batch)?;
            txn.commit()?;
        }
        Ok(Outcome::Done)
    }

    fn get(&mut self, table: TableId, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.reading(table, |source| source.get(key, found))
    }

    fn scan(&mut self, scan: &Scan<'_>, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<u64> {
        self.reading(scan.table, |source| source.scan(scan, visit))
    }

    fn view(&mut self) -> Result<()> {
        self.view = None;
        self.view = Some(self.look()?);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.transaction = Some(self.store.shared.begin()?);
        Ok(())
    }

    fn commit(&mut self) -> Result<Outcome> {
        self.transaction.take().context("no transaction to commit")?.commit()?;
        Ok(Outcome::Done)
    }

    fn rollback(&mut self) -> Result<()> {
        Ok(self.transaction.take().map_or(Ok(()), WriteTransaction::abort)?)
    }
}
