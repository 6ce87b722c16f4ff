//! The document database: commands in, replies out, both as BSON. `spinney.documents` makes collections of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use spinney_document::Database;
use spinney_document::bson::Document;
use spinney_document::command::{Client, Request, Service};

use crate::bytes::Bytes;
use crate::error::{Raise, named};
use crate::options;

/// How often cursors, transactions and sessions are looked over that were left behind, in milliseconds.
const SWEEP_MS: i64 = 10_000;

/// A document database that is embedded in this process.
#[pyclass(frozen, module = "spinney")]
#[derive(Debug)]
pub(crate) struct Documents {
    service: Service,
    swept_ms: AtomicI64,
}

#[pymethods]
impl Documents {
    /// Opens the database in a directory, which is made when it is not there and `create` is set.
    #[new]
    #[pyo3(signature = (path, *, create=true, **options))]
    fn open(py: Python<'_>, path: PathBuf, create: bool, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let builder = spinney::Database::builder(path).options(options::database(options)?).create(create);
        let engine = py.detach(|| builder.open()).raise(py)?;
        let opened = py.detach(|| Database::with_engine(engine));
        let database = opened.map_err(|error| named(py, "Error", error.message()))?;
        Ok(Self { service: Service::new(database), swept_ms: AtomicI64::new(0) })
    }

    /// Runs a command. Both it and the reply are BSON; the reply tells errors, as on the wire. What is long stands
    /// beside the command: `field` is the name of the field that it belongs into, as `documents` of `insert`.
    #[pyo3(signature = (database, command, field="", documents=Vec::new()))]
    fn run_command<'py>(
        &self,
        py: Python<'py>,
        database: &str,
        command: Bytes<'py>,
        field: &str,
        documents: Vec<Bytes<'py>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = command.as_slice();
        let documents: Vec<&[u8]> = documents.iter().map(Bytes::as_slice).collect();
        let reply = py.detach(|| {
            let body = Document::parse(bytes)?;
            let documents = documents.iter().map(|bytes| Document::parse(bytes)).collect::<Result<Vec<_>, _>>()?;
            let sequences = if field.is_empty() { vec![] } else { vec![(field, documents)] };
            self.sweep();
            let client = Client::default();
            Ok(self.service.run(&Request { database, body, sequences: &sequences, client: &client }))
        });
        let reply = reply.map_err(|error: spinney_document::Error| named(py, "InvalidError", error.message()))?;
        Ok(PyBytes::new(py, reply.view().as_bytes()))
    }

    /// Removes documents that have expired by indexes with `expireAfterSeconds`. Returns how many.
    fn expire(&self, py: Python<'_>) -> PyResult<u64> {
        let expired = py.detach(|| self.service.database().expire());
        expired.map_err(|error| named(py, "Error", error.message()))
    }

    /// Closes the database.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let engine = self.service.database().engine().clone();
        match py.detach(move || engine.close()) {
            Err(error) if error.kind() == spinney::ErrorKind::Closed => Ok(()),
            told => told.raise(py),
        }
    }
}

impl Documents {
    fn sweep(&self) {
        let (now, last) = (self.service.state().now_ms(), self.swept_ms.load(Ordering::Relaxed));
        if now - last >= SWEEP_MS {
            self.swept_ms.store(now, Ordering::Relaxed);
            self.service.sweep();
        }
    }
}
