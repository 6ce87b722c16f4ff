//! Transactions.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use spinney::Isolation;

use crate::at::{At, OpenTransaction, busy, ended};
use crate::bytes::Bytes;
use crate::error::{Raise, invalid};
use crate::options;
use crate::table::Table;

/// Reads the database as of its begin and writes all or nothing: `txn[table]` is the table within it. As a context
/// manager it is committed at the end, and rolled back when an exception passes.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Transaction {
    inner: Arc<OpenTransaction>,
}

/// A point of a transaction to which it can go back.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Savepoint {
    inner: Mutex<Option<spinney::Savepoint>>,
}

impl Transaction {
    pub(crate) fn begin(db: &spinney::Database, isolation: Isolation) -> Self {
        Self { inner: Arc::new(OpenTransaction::new(db.begin_with(isolation))) }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.inner.is_open()
    }
}

#[pymethods]
impl Transaction {
    /// The table within the transaction: its reads see the transaction's snapshot and own writes.
    fn __getitem__(&self, table: &Table) -> Table {
        table.within(At::Transaction(Arc::clone(&self.inner)))
    }

    /// Commits. `ConflictError` when another transaction changed first what this one wrote (or, serializable, read).
    #[pyo3(signature = (durability=None))]
    pub(crate) fn commit(&self, py: Python<'_>, durability: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let durability = durability.map(options::durability).transpose()?;
        let txn = self.inner.take(py)?.ok_or_else(|| ended(py))?;
        py.detach(move || match durability {
            Some(durability) => txn.commit_with(durability),
            None => txn.commit(),
        })
        .raise(py)
    }

    /// Forgets all that the transaction wrote, and ends it. Does nothing when it has ended.
    pub(crate) fn rollback(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(txn) = self.inner.take(py)? {
            py.detach(move || txn.rollback());
        }
        Ok(())
    }

    /// Sets a point to which `rollback_to` goes back.
    fn savepoint(&self, py: Python<'_>) -> PyResult<Savepoint> {
        let savepoint = self.inner.at_once(py, |txn| Ok(txn.savepoint()))?;
        Ok(Savepoint { inner: Mutex::new(Some(savepoint)) })
    }

    /// Forgets what was written since a savepoint, which stays.
    fn rollback_to(&self, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        let inner = savepoint.inner.try_lock().map_err(|_| busy(py))?;
        let point = inner.as_ref().ok_or_else(|| invalid(py, "the savepoint was released"))?;
        self.inner.at_once(py, |txn| txn.rollback_to(point))
    }

    /// Gives a savepoint up, and those that were set after it. What was written since stays.
    fn release(&self, py: Python<'_>, savepoint: &Savepoint) -> PyResult<()> {
        let point = savepoint.inner.try_lock().map_err(|_| busy(py))?.take();
        let point = point.ok_or_else(|| invalid(py, "the savepoint was released"))?;
        self.inner.at_once(py, |txn| txn.release(point))
    }

    /// Gives the commit a note that stands in the log beside its changes.
    fn note(&self, py: Python<'_>, note: Bytes<'_>) -> PyResult<()> {
        self.inner.at_once(py, |txn| {
            txn.note(note);
            Ok(())
        })
    }

    /// How long `get_for_update` and `lock_range` wait for a lock, in seconds.
    fn set_lock_wait(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        let limit = Duration::try_from_secs_f64(seconds)
            .map_err(|_| invalid(py, "seconds must be a time in seconds, from 0 on"))?;
        self.inner.at_once(py, |txn| {
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
