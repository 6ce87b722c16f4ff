//! Errors of the engine as exceptions: the classes are Python's own, in `spinney._errors`.

use pyo3::prelude::*;
use spinney::{Error, ErrorKind};

/// The class of `spinney._errors` for a kind of error.
const fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Deadlock => "DeadlockError",
        ErrorKind::Timeout => "LockTimeoutError",
        ErrorKind::Full => "FullError",
        ErrorKind::TooLarge => "TooLargeError",
        ErrorKind::Io => "StorageError",
        ErrorKind::Corruption => "CorruptionError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Dropped => "DroppedError",
        ErrorKind::AlreadyExists => "AlreadyExistsError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Poisoned => "PoisonedError",
        ErrorKind::Locked => "LockedError",
        ErrorKind::Gone => "GoneError",
        ErrorKind::Forked => "ForkedError",
        _ => "Error",
    }
}

/// The exception of an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    named(py, class(error.kind()), &error.to_string())
}

/// The exception `class` of `spinney._errors` with a message.
pub(crate) fn named(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = py
        .import("spinney._errors")
        .and_then(|errors| errors.getattr(class))
        .and_then(|class| class.call1((message,)))
        .map(PyErr::from_value);
    made.unwrap_or_else(|failed| failed)
}

/// The exception of a wrong call.
pub(crate) fn invalid(py: Python<'_>, message: &str) -> PyErr {
    named(py, "InvalidError", message)
}

/// Results of the engine as results of Python.
pub(crate) trait Raise<T> {
    /// The value, or the exception of the error.
    fn raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> Raise<T> for spinney::Result<T> {
    #[inline]
    fn raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
