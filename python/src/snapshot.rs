//! Snapshots.

use std::sync::Mutex;

use pyo3::prelude::*;

use crate::at::At;
use crate::error::named;
use crate::table::Table;

/// All tables as they were at one moment: `snapshot[table]` is the table as it was then. A context manager that closes
/// it. Holding one keeps what is overwritten meanwhile on disk.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Snapshot {
    inner: Mutex<Option<spinney::Snapshot>>,
}

impl Snapshot {
    pub(crate) const fn new(snapshot: spinney::Snapshot) -> Self {
        Self { inner: Mutex::new(Some(snapshot)) }
    }

    fn get(&self, py: Python<'_>) -> PyResult<spinney::Snapshot> {
        let inner = self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        inner.clone().ok_or_else(|| named(py, "ClosedError", "the snapshot is closed"))
    }
}

#[pymethods]
impl Snapshot {
    /// The table as it was when the snapshot was taken.
    fn __getitem__(&self, py: Python<'_>, table: &Table) -> PyResult<Table> {
        Ok(table.within(At::Snapshot(self.get(py)?)))
    }

    /// Its place in the order of commits.
    #[getter]
    fn seqnum(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.get(py)?.seqnum().0)
    }

    /// Gives it up. Ranges that were begun go on.
    fn close(&self) {
        drop(self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take());
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, _error: &Bound<'_, pyo3::types::PyTuple>) {
        self.close();
    }
}
