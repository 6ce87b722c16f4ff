//! The change feed.

use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use spinney::base::Kind;

use crate::error::{Raise, invalid};

/// How long a wait goes on before signals are looked at.
const WAIT: Duration = Duration::from_millis(100);

/// Committed changes in their order. As an iterator it ends at the newest commit, and goes on when there are more.
#[pyclass(module = "spinney")]
#[derive(Debug)]
pub(crate) struct ChangeFeed {
    inner: spinney::ChangeFeed,
}

/// A commit.
#[pyclass(frozen, get_all, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Commit {
    /// Where it stands in the log.
    lsn: u64,
    /// The position after it, from which a feed goes on.
    end: u64,
    /// The place of its first change in the order of visibility.
    seqnum: u64,
    /// What was given to `Batch.note` or `Transaction.note`.
    note: Py<PyBytes>,
    /// Its changes in their order.
    changes: Vec<Py<Change>>,
}

/// A change of a commit.
#[pyclass(frozen, get_all, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Change {
    /// The name of the table; `None` when it was dropped meanwhile.
    table: Option<String>,
    /// `put`, `delete`, `merge`, `single-delete` or `range-delete`.
    kind: &'static str,
    /// The key; of a range-delete the first one.
    key: Py<PyBytes>,
    /// The value or operand; of a range-delete the key behind the last one.
    value: Py<PyBytes>,
}

impl ChangeFeed {
    pub(crate) const fn new(inner: spinney::ChangeFeed) -> Self {
        Self { inner }
    }
}

fn shown(py: Python<'_>, commit: &spinney::Commit) -> PyResult<Commit> {
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes).unbind();
    let change = |change: &spinney::Change<'_>| {
        let kind = match change.kind {
            Kind::Delete => "delete",
            Kind::Merge => "merge",
            Kind::RangeDelete => "range-delete",
            Kind::SingleDelete => "single-delete",
            _ => "put",
        };
        let table = commit.table_name(change.table).map(str::to_owned);
        Py::new(py, Change { table, kind, key: bytes(change.key), value: bytes(change.value) })
    };
    let changes = commit.changes().iter().map(change).collect::<PyResult<_>>()?;
    Ok(Commit { lsn: commit.lsn.0, end: commit.end.0, seqnum: commit.seqnum.0, note: bytes(commit.note()), changes })
}

#[pymethods]
impl ChangeFeed {
    /// The next commit, or `None` when there is none yet.
    fn poll(&mut self, py: Python<'_>) -> PyResult<Option<Commit>> {
        let inner = &mut self.inner;
        let commit = py.detach(|| inner.poll()).raise(py)?;
        commit.map(|commit| shown(py, &commit)).transpose()
    }

    /// The next commit, waited for at most `timeout` seconds (for ever by default); `None` when the time is over.
    #[pyo3(signature = (timeout=None))]
    fn wait(&mut self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Commit>> {
        let mut left = timeout
            .map(Duration::try_from_secs_f64)
            .transpose()
            .map_err(|_| invalid(py, "timeout must be a time in seconds, from 0 on"))?;
        loop {
            let part = left.map_or(WAIT, |left| left.min(WAIT));
            let inner = &mut self.inner;
            if let Some(commit) = py.detach(|| inner.wait(part)).raise(py)? {
                return shown(py, &commit).map(Some);
            }
            py.check_signals()?;
            left = left.map(|left| left - part);
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    /// The position from which another feed goes on, also after the database was closed, as long as the log is kept.
    #[getter]
    fn resume_lsn(&self) -> u64 {
        self.inner.resume_lsn().0
    }

    const fn __iter__(this: Py<Self>) -> Py<Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Commit>> {
        self.poll(py)
    }
}
