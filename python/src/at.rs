//! Within what a table is read and written: by itself, or in a snapshot, a transaction or a batch.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use spinney::{Error, ErrorKind};

use crate::bytes::Ends;
use crate::error::{Raise, exception, invalid};

/// A transaction, until it ends.
#[derive(Debug)]
pub(crate) struct OpenTransaction(Mutex<Option<spinney::Transaction>>);

impl OpenTransaction {
    pub(crate) const fn new(txn: spinney::Transaction) -> Self {
        Self(Mutex::new(Some(txn)))
    }

    /// Does something with the open transaction, without the interpreter lock. A second thread is refused instead of
    /// made to wait, as it would hold the interpreter lock meanwhile.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut spinney::Transaction) -> spinney::Result<T> + Send,
    ) -> PyResult<T> {
        let mut inner = self.0.try_lock().map_err(|_| busy(py))?;
        let txn = inner.as_mut().ok_or_else(|| ended(py))?;
        py.detach(move || body(txn)).raise(py)
    }

    /// As [`OpenTransaction::with`] for what waits for nothing.
    pub(crate) fn at_once<T>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut spinney::Transaction) -> spinney::Result<T>,
    ) -> PyResult<T> {
        let mut inner = self.0.try_lock().map_err(|_| busy(py))?;
        body(inner.as_mut().ok_or_else(|| ended(py))?).raise(py)
    }

    /// The transaction, which ends; nothing when it has ended.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Option<spinney::Transaction>> {
        Ok(self.0.try_lock().map_err(|_| busy(py))?.take())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.try_lock().is_ok_and(|inner| inner.is_some())
    }
}

pub(crate) fn busy(py: Python<'_>) -> PyErr {
    invalid(py, "the transaction is in use by another thread: a transaction is for one thread at a time")
}

pub(crate) fn ended(py: Python<'_>) -> PyErr {
    exception(py, &Error::new(ErrorKind::Closed, "the transaction has ended: begin another"))
}

/// The changes of a batch.
#[derive(Debug, Default)]
pub(crate) struct BatchChanges(Mutex<spinney::Batch>);

impl BatchChanges {
    /// The changes. Nobody waits for anything while they are borrowed.
    pub(crate) fn get(&self) -> MutexGuard<'_, spinney::Batch> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Within what a table is read and written.
#[derive(Clone, Debug)]
pub(crate) enum At {
    /// Each call sees the newest state, and commits what it writes.
    Latest,
    Snapshot(spinney::Snapshot),
    Transaction(Arc<OpenTransaction>),
    Batch(Arc<BatchChanges>),
}

/// A table within something.
#[derive(Clone, Debug)]
pub(crate) struct BoundTable {
    pub(crate) db: spinney::Database,
    pub(crate) table: spinney::Table,
    pub(crate) at: At,
}

impl BoundTable {
    /// Reads: the table itself in `latest`, or what it is in.
    #[inline]
    pub(crate) fn read<T: Send>(
        &self,
        py: Python<'_>,
        latest: impl FnOnce(&Self) -> spinney::Result<T> + Send,
        in_snapshot: impl FnOnce(&spinney::Snapshot, &spinney::Table) -> spinney::Result<T> + Send,
        in_transaction: impl FnOnce(&mut spinney::Transaction, &spinney::Table) -> spinney::Result<T> + Send,
    ) -> PyResult<T> {
        let table = &self.table;
        match &self.at {
            At::Latest => py.detach(move || latest(self)).raise(py),
            At::Snapshot(snapshot) => py.detach(move || in_snapshot(snapshot, table)).raise(py),
            At::Transaction(txn) => txn.with(py, move |txn| in_transaction(txn, table)),
            At::Batch(_) => Err(invalid(py, "a batch reads nothing: read the table itself, or use a transaction")),
        }
    }

    /// Writes within what the table is in; by itself, a commit of its own.
    pub(crate) fn write(
        &self,
        py: Python<'_>,
        alone: impl FnOnce(&spinney::Table) -> spinney::Result<()> + Send,
        in_transaction: impl FnOnce(&mut spinney::Transaction, &spinney::Table) -> spinney::Result<()>,
        in_batch: impl FnOnce(&mut spinney::Batch, &spinney::Table),
    ) -> PyResult<()> {
        let table = &self.table;
        match &self.at {
            At::Latest => py.detach(move || alone(table)).raise(py),
            At::Snapshot(_) => Err(invalid(py, "a snapshot cannot be written to: write to the table itself")),
            At::Transaction(txn) => txn.at_once(py, |txn| in_transaction(txn, table)),
            At::Batch(batch) => {
                in_batch(&mut batch.get(), table);
                Ok(())
            }
        }
    }

    /// Begins to walk a range.
    pub(crate) fn walk(&self, py: Python<'_>, (low, high): &Ends, reverse: bool) -> PyResult<spinney::Range> {
        let ends = (low.as_ref(), high.as_ref());
        let of = move |snapshot: &spinney::Snapshot, table: &spinney::Table| {
            Ok(if reverse { snapshot.range_rev(table, ends) } else { snapshot.range(table, ends) })
        };
        self.read(
            py,
            move |bound| of(&bound.db.snapshot(), &bound.table),
            of,
            move |txn, table| Ok(if reverse { txn.range_rev(table, ends) } else { txn.range(table, ends) }),
        )
    }

    /// Deletes a range.
    pub(crate) fn delete_ends(&self, py: Python<'_>, (low, high): &Ends) -> PyResult<()> {
        let ends = (low.as_ref(), high.as_ref());
        self.write(
            py,
            move |table| table.delete_range(ends),
            |txn, table| txn.delete_range(table, ends),
            |batch, table| batch.delete_range(table, ends),
        )
    }
}
