//! Reports and counters as dicts.

use pyo3::prelude::*;
use spinney::Error;

use crate::error::exception;

/// A value that can be serialized, as dicts and lists.
pub(crate) fn dict<'py, T: serde::Serialize>(py: Python<'py>, value: &T) -> PyResult<Bound<'py, PyAny>> {
    let json = serde_json::to_string(value).map_err(|error| exception(py, &Error::invalid(error.to_string())))?;
    py.import("json")?.call_method1("loads", (json,))
}
