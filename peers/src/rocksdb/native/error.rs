//! What RocksDB says when it cannot.

use librocksdb_sys as ffi;
use std::ffi::{CStr, c_char};
use std::fmt;

/// A status of RocksDB other than OK, in its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error(String);

pub(super) type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Whether a transaction was in the way of another: it was changed under it, its lock did not come, or there was a
    /// deadlock.
    pub(crate) fn is_conflict(&self) -> bool {
        ["Resource busy", "Operation timed out", "Operation failed. Try again", "Operation expired"]
            .iter()
            .any(|kind| self.0.starts_with(kind))
    }

    /// Whether files that were to be compacted are being compacted, or were.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.starts_with("Operation aborted") || self.0.starts_with("Invalid argument")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RocksDB: {}", self.0)
    }
}

impl std::error::Error for Error {}

/// Calls a function of RocksDB that may leave a message behind the pointer that it gets.
pub(super) fn call<T>(function: impl FnOnce(*mut *mut c_char) -> T) -> Result<T> {
    let mut message: *mut c_char = std::ptr::null_mut();
    let value = function(&raw mut message);
    // SAFETY: RocksDB leaves the pointer alone, or puts a string there that is the caller's.
    match unsafe { take_text(message) } {
        None => Ok(value),
        Some(message) => Err(Error(message)),
    }
}

/// The text that `raw` points to, which is freed; `None` for a null pointer.
///
/// # Safety
/// `raw` is null, or a string that RocksDB allocated for the caller.
pub(super) unsafe fn take_text(raw: *mut c_char) -> Option<String> {
    if raw.is_null() {
        return None;
    }
    // SAFETY: as promised by the caller; it is read before it is freed.
    unsafe {
        let text = CStr::from_ptr(raw).to_string_lossy().into_owned();
        ffi::rocksdb_free(raw.cast());
        Some(text)
    }
}
