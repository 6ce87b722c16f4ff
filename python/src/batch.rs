//! Batches.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::at::{At, BatchChanges};
use crate::bytes::Bytes;
use crate::error::Raise;
use crate::options;
use crate::table::Table;

/// Changes of any tables that are committed together and check nothing: `batch[table][key] = value`. As a context
/// manager it is written at the end, or forgotten when an exception passes.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Batch {
    db: spinney::Database,
    durability: spinney::Durability,
    changes: Arc<BatchChanges>,
}

impl Batch {
    pub(crate) fn new(db: &spinney::Database, durability: spinney::Durability) -> Self {
        Self { db: db.clone(), durability, changes: Arc::default() }
    }
}

#[pymethods]
impl Batch {
    /// The table, of which `put`, `delete`, `delete_range`, `merge` and `add` are put into the batch.
    fn __getitem__(&self, table: &Table) -> Table {
        table.within(At::Batch(Arc::clone(&self.changes)))
    }

    /// Gives the commit a note, at most a few MiB that stand in the log beside its changes.
    fn note(&self, note: Bytes<'_>) {
        self.changes.get().note(note);
    }

    /// Commits all changes at once, and empties the batch.
    #[pyo3(signature = (durability=None))]
    fn write(&self, py: Python<'_>, durability: Option<&Bound<'_, PyAny>>) -> PyResult<()> {
        let durability = durability.map_or(Ok(self.durability), options::durability)?;
        let changes = std::mem::take(&mut *self.changes.get());
        let written = py.detach(|| self.db.write_with(&changes, durability));
        if written.is_err() {
            *self.changes.get() = changes;
        }
        written.raise(py)
    }

    /// Forgets all changes.
    fn clear(&self) {
        self.changes.get().clear();
    }

    fn __len__(&self) -> usize {
        self.changes.get().len()
    }

    /// Memory that the changes take, in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.changes.get().bytes()
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*error))]
    fn __exit__(&self, py: Python<'_>, error: &Bound<'_, PyTuple>) -> PyResult<()> {
        if error.get_item(0)?.is_none() {
            return self.write(py, None);
        }
        self.clear();
        Ok(())
    }
}
