//! A table of a database.

use std::ffi::CString;

/// A table.
#[derive(Debug)]
pub(super) struct TablePlace {
    pub(super) name: &'static str,
    /// `table:` and the name.
    pub(super) uri: CString,
}
