//! Databases.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use spinney::{Error, ErrorKind, Lsn};

use crate::batch::Batch;
use crate::changes::ChangeFeed;
use crate::error::{Raise, exception};
use crate::json::dict;
use crate::options;
use crate::snapshot::Snapshot;
use crate::table::Table;
use crate::transaction::Transaction;

/// How often `transact` tries.
const TRIES: u32 = 100;

/// The longest pause between two tries, in seconds.
const PAUSE_MAX: f64 = 0.05;

/// An open database. A context manager that closes it.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Database {
    inner: spinney::Database,
}

#[pymethods]
impl Database {
    /// Opens the database in a directory, which is made when it is not there and `create` is set.
    #[new]
    #[pyo3(signature = (path, *, create=true, read_only=false, **options))]
    fn open(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        read_only: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let builder = spinney::Database::builder(path).options(options::database(options)?).create(create);
        let inner = py.detach(|| if read_only { builder.open_read_only() } else { builder.open() }).raise(py)?;
        Ok(Self { inner })
    }

    /// A table that is there.
    fn table(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        let found = py.detach(|| self.inner.table(name)).raise(py)?;
        let missing = || exception(py, &Error::new(ErrorKind::NotFound, format!("there is no table '{name}'")));
        Ok(Table::new(&self.inner, found.ok_or_else(missing)?))
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Table> {
        self.table(py, name)
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(py.detach(|| self.inner.table(name)).raise(py)?.is_some())
    }

    /// The names of all tables.
    fn tables<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let tables = py.detach(|| self.inner.tables()).raise(py)?;
        PyList::new(py, tables.iter().map(spinney::Table::name))
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(self.tables(py)?.try_iter()?.into_any())
    }

    /// Makes a table.
    #[pyo3(signature = (name, **options))]
    fn create_table(&self, py: Python<'_>, name: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        let options = options::table(options)?;
        let table = py.detach(|| self.inner.create_table(name, options)).raise(py)?;
        Ok(Table::new(&self.inner, table))
    }

    /// A table, which is made with these options when it is not there.
    #[pyo3(signature = (name, **options))]
    fn open_or_create_table(&self, py: Python<'_>, name: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Table> {
        let options = options::table(options)?;
        let table = py.detach(|| self.inner.open_or_create_table(name, options)).raise(py)?;
        Ok(Table::new(&self.inner, table))
    }

    /// Drops a table with all that is in it.
    fn drop_table(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        py.detach(|| self.inner.drop_table(name)).raise(py)
    }

    /// Begins a transaction: `isolation` is `snapshot` or `serializable`.
    #[pyo3(signature = (isolation=None))]
    fn begin(&self, isolation: Option<&Bound<'_, PyAny>>) -> PyResult<Transaction> {
        let isolation = isolation.map_or(Ok(spinney::Isolation::default()), options::isolation)?;
        Ok(Transaction::begin(&self.inner, isolation))
    }

    /// Calls `body` with a transaction and commits it; again, after a pause, when that ends with `ConflictError` or
    /// `DeadlockError`. Returns what `body` returned.
    #[pyo3(signature = (body, isolation=None))]
    fn transact<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        isolation: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let retried = py.import("spinney._errors")?.getattr("RetryError")?;
        let mut pause = 0.0001;
        let mut left = TRIES;
        loop {
            left -= 1;
            let txn = Py::new(py, self.begin(isolation)?)?;
            let told = body.call1((txn.clone_ref(py),)).and_then(|done| {
                if txn.get().is_open() {
                    txn.get().commit(py, None)?;
                }
                Ok(done)
            });
            txn.get().rollback(py)?;
            match told {
                Err(error) if left > 0 && error.value(py).is_instance(&retried)? => {}
                told => return told,
            }
            // A random part of the pause, so that transactions that met do not meet again.
            let part: f64 = py.import("random")?.call_method0("random")?.extract()?;
            py.import("time")?.call_method1("sleep", (pause * part,))?;
            pause = f64::min(2.0 * pause, PAUSE_MAX);
        }
    }

    /// A view of all tables as they are now.
    fn snapshot(&self) -> Snapshot {
        Snapshot::new(self.inner.snapshot())
    }

    /// A new batch.
    #[pyo3(signature = (durability=None))]
    fn batch(&self, durability: Option<&Bound<'_, PyAny>>) -> PyResult<Batch> {
        let durability = durability.map_or(Ok(self.inner.options().durability), options::durability)?;
        Ok(Batch::new(&self.inner, durability))
    }

    /// Writes what memory holds of all tables to their trees.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.flush()).raise(py)
    }

    /// Makes all commits durable that have returned.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.inner.sync()).raise(py)
    }

    /// The commits from a position of the log on: `start` is the `end` or `resume_lsn` of an earlier feed, `oldest`
    /// what the log still holds; by default from now on.
    #[pyo3(signature = (start=None))]
    fn changes(&self, py: Python<'_>, start: Option<&Bound<'_, PyAny>>) -> PyResult<ChangeFeed> {
        let from = match start {
            None => self.inner.log_end(),
            Some(start) if start.extract::<&str>().is_ok_and(|start| start == "oldest") => self.inner.log_start(),
            Some(start) => Lsn(start.extract()?),
        };
        Ok(ChangeFeed::new(py.detach(|| self.inner.changes(from)).raise(py)?))
    }

    /// Copies the database, as of one moment, to a new directory. With `since`, shares files with an earlier copy.
    #[pyo3(signature = (path, since=None))]
    fn checkpoint(&self, py: Python<'_>, path: PathBuf, since: Option<PathBuf>) -> PyResult<()> {
        py.detach(|| match since {
            Some(since) => self.inner.checkpoint_since(path, since),
            None => self.inner.checkpoint(path),
        })
        .raise(py)
        .map(drop)
    }

    /// Reads every block and compares its checksum. Raises nothing for damage: the report tells it.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let report = py.detach(|| self.inner.verify()).raise(py)?;
        dict(py, &report)
    }

    /// Every counter, as a dict.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        dict(py, &self.inner.stats())
    }

    /// For a database that is open read-only beside its writer: the state of now, as another database.
    fn refresh(&self, py: Python<'_>) -> PyResult<Self> {
        Ok(Self { inner: py.detach(|| self.inner.refresh()).raise(py)? })
    }

    /// Whether it was opened read-only.
    #[getter]
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    /// Its directory.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.path().to_owned()
    }

    /// Closes it: what was committed is written to the trees or stands in the log. Every later use of it or of its
    /// tables is a `ClosedError`.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let inner = self.inner.clone();
        match py.detach(move || inner.close()) {
            Err(error) if error.kind() == ErrorKind::Closed => Ok(()),
            told => told.raise(py),
        }
    }

    const fn __enter__(this: Py<Self>) -> Py<Self> {
        this
    }

    #[pyo3(signature = (*_error))]
    fn __exit__(&self, py: Python<'_>, _error: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<spinney.Database '{}'>", self.inner.path().display())
    }
}
