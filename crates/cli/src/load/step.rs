//! A step of reading rows.

use anyhow::Error;

/// What comes next.
pub(crate) enum Step {
    /// A row.
    Row,
    /// One that is wrong; what is behind it can be read.
    Bad(Error),
    /// Nothing.
    End,
}
