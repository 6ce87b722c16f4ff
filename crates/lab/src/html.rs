//! Placeholder.

use crate::report::Report;

/// Placeholder.
#[must_use]
pub(crate) fn page(_report: &Report) -> String {
    String::new()
}
