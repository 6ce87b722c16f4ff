//! What makes a cursor fail again and again after it failed once.

use crate::base::{Error, Result};

/// Remembers the first error of a cursor.
#[derive(Debug, Default)]
pub(super) struct StickyError(Option<Error>);

impl StickyError {
    /// # Errors
    /// The error that was remembered, without its source.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        match &self.0 {
            None => Ok(()),
            Some(error) => Err(error.again()),
        }
    }

    /// Remembers the error of `result`, if it is one.
    #[inline]
    pub(super) fn guard<T>(&mut self, result: Result<T>) -> Result<T> {
        result.inspect_err(|error| self.0 = Some(error.again()))
    }
}
