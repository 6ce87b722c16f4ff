//! Arguments that are bytes: `bytes` are lent, `bytearray`, `memoryview` and other buffers are copied.

use std::ops::Bound as End;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyTuple};

/// A key, a value or another argument of bytes.
pub(crate) enum Bytes<'py> {
    Lent(Bound<'py, PyBytes>),
    Owned(Vec<u8>),
}

impl Bytes<'_> {
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes.as_bytes(),
            Self::Owned(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Bytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl<'py> FromPyObject<'_, 'py> for Bytes<'py> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast::<PyBytes>() {
            return Ok(Self::Lent(bytes.to_owned()));
        }
        copied(&object)
    }
}

#[cold]
fn copied<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bytes<'py>> {
    if let Ok(array) = object.cast::<PyByteArray>() {
        return Ok(Bytes::Owned(array.to_vec()));
    }
    if object.is_instance_of::<PyString>() {
        let message = "keys and values are bytes, not str: give 'text'.encode() or b'text'";
        return Err(PyTypeError::new_err(message));
    }
    let Ok(view) = PyMemoryView::from(object) else {
        let message = format!("keys and values are bytes, not {}", object.get_type().name()?);
        return Err(PyTypeError::new_err(message));
    };
    Ok(Bytes::Lent(view.call_method0("tobytes")?.cast_into::<PyBytes>()?))
}

/// The two ends of a range of keys.
pub(crate) type Ends = (End<Vec<u8>>, End<Vec<u8>>);

/// From `start` on and before `stop`; or all that begins with `prefix`.
pub(crate) fn ends(start: Option<Bytes<'_>>, stop: Option<Bytes<'_>>, prefix: Option<Bytes<'_>>) -> PyResult<Ends> {
    if let Some(prefix) = prefix {
        if start.is_some() || stop.is_some() {
            return Err(PyTypeError::new_err("give start and stop, or prefix, not both"));
        }
        return Ok(spinney::prefix_range(prefix));
    }
    let end = |key: Option<Bytes<'_>>, kind: fn(Vec<u8>) -> End<Vec<u8>>| {
        key.map_or(End::Unbounded, |key| kind(key.as_slice().to_vec()))
    };
    Ok((end(start, End::Included), end(stop, End::Excluded)))
}

/// An entry as a tuple of two `bytes`.
pub(crate) fn pair<'py>(py: Python<'py>, key: &[u8], value: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, [PyBytes::new(py, key), PyBytes::new(py, value)])
}
