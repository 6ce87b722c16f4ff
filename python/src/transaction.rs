//! Transactions.

use std::sync::Mutex;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use spinney::{Error, ErrorKind, Isolation};

use crate::bytes::Bytes;
use crate::error::{Raise, exception, invalid};
use crate::options;
use crate::table::{At, Table};

/// Reads the database as of its begin and writes all or nothing: `txn[table]` is the table within it. As a context
/// manager it is committed at the end, and rolled back when an exception passes.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Transaction {
    inner: Mutex<Option<spinney::Transaction>>,
}

/// A point of a transaction to which it can go back.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Savepoint {
    inner: Mutex<Option<spinney::Savepoint>>,
}

impl Transaction {
    pub(crate) fn begin(db: &spinney::Database, isolation: Isolation) -> Self {
        Self { inner: Mutex::new(Some(db.begin_with(isolation))) }
    }

    /// Does something with the open transaction, without the interpreter lock. A second thread is refused instead of
    /// made to wait, as it would hold the interpreter lock meanwhile.
    pub(crate) fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut spinney::Transaction) -> spinney::Result<T> + Send,
    ) -> PyResult<T> {
        let mut inner = self.inner.try_lock().map_err(|_| busy(py))?;
        let txn = inner.as_mut().ok_or_else(|| ended(py))?;
        py.detach(move || body(txn)).raise(py)
    }

    /// As [`Transaction::with`] for what waits for nothing.
    pub(crate) fn at_once<T>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut spinney::Transaction) -> spinney::Result<T>,
    ) -> PyResult<T> {
        let mut inner = self.inner.try_lock().map_err(|_| busy(py))?;
        body(inner.as_mut().ok_or_else(|| ended(py))?).raise(py)
    }

    /// The transaction, which ends.
    fn take(&self, py: Python<'_>) -> PyResult<Option<spinney::Transaction>> {
        Ok(self.inner.try_lock().map_err(|_| busy(py))?.take())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.inner.try_lock().is_ok_and(|inner| inner.is_some())
    }
}

fn busy(py: Python<'_>) -> PyErr {
    invalid(py, "the transaction is in use by another thread: a transaction is for one thread at a time")
}

fn ended(py: Python<'_>) -> PyErr {
    exception(py, &Error::new(ErrorKind::Closed, "the transaction has ended: begin another"))
}

#[pymethods]
impl Transaction {
    /// The table within the transaction: its reads see the transaction's snapshot and own writes.
    fn __getitem__(this: Py<Self>, table: &Table) -> Table {
        table.within(At::Transaction(this))
    }

    /// Commits. `ConflictError` when another transaction changed first what this one wrote (or, serializable, read).
    #[pyo3(signature = (durability=None))]
    pub(crate) fn commit(&self, py: Python<'_>, durability: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let durability = durability.map(options::durability).transpose()?;
        let txn = self.take(py)?.ok_or_else(|| ended(py))?;
        py.detach(move || match durability {
            Some(durability) => txn.commit_with(durability),
            None => txn.commit(),
        })
        .raise(py)
    }

    /// Forgets all that the transaction wrote, and ends it. Does nothing when it has ended.
    pub(crate) fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(txn) = self.take(py)? {
            py.detach(move || txn.rollback());
        }
        Ok(())
    }

    /// Sets a point to which `rollback_to` goes back.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Savepoint> {
        let savepoint = self.at_once(py, |txn| Ok(txn.savepoint()))?;
        Ok(Savepoint { inner: Mutex::new(Some(savepoint)) })
    }

    /// Forgets what was written since a savepoint, which stays.
    fn rollback_to(&self, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        let inner = savepoint.inner.try_lock().map_err(|_| busy(py))?;
        let point = inner.as_ref().ok_or_else(|| invalid(py, "the savepoint was released"))?;
        self.at_once(py, |txn| txn.rollback_to(point))
    }

    /// Gives a savepoint up, and those that were set after it. What was written since stays.
    fn release(&self, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        let point = savepoint.inner.try_lock().map_err(|_| busy(py))?.take();
        let point = point.ok_or_else(|| invalid(py, "the savepoint was released"))?;
        self.at_once(py, |txn| txn.release(point))
    }

    /// Gives the commit a note that stands in the log beside its changes.
    fn note(&self, py: Python<'_>, note: Bytes<'_>) -> PyResult<()> {
        self.at_once(py, |txn| {
            txn.note(note);
            Ok(())
        })
    }

    /// How long `get_for_update` and `lock_range` wait for a lock, in seconds.
    fn set_lock_wait(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| invalid(py, "seconds must be a time in seconds, from 0 on"))?;
        self.at_once(py, |txn| {
            txn.set_lock_wait(limit);
            Ok(())
        })
    }

    /// Whether it has neither been committed nor rolled back.
    #[getter(is_open)]
    fn is_open_now(&self) -> bool {
        self.is_open()
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*error))]
    fn __exit__(&self, py: Python<'_>, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        if error.get_item(0)?.is_none() && self.is_open() {
            return self.commit(py, None);
        }
        self.rollback(py)
    }
}
