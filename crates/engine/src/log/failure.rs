//! The first failure of a log, after which nothing is written any more.

use crate::base::{Error, ErrorKind, Result};
use std::sync::OnceLock;

/// What the first failure was. Shared by the parts of a log. A thread that sets it wakes the waiting threads
/// afterwards, under the latches under which they check it before they sleep.
#[derive(Debug, Default)]
pub(super) struct Failure(OnceLock<String>);

impl Failure {
    /// Ends the log because of `error`, unless it has failed before.
    pub(super) fn set(&self, error: &Error) {
        // An earlier failure stays.
        let _first = self.0.get_or_init(|| error.to_string());
    }

    /// Whether the log has failed.
    #[inline]
    pub(super) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// Fails after a failure, for a payload that is not appended yet.
    pub(super) fn check_append(&self) -> Result<()> {
        self.0.get().map_or(Ok(()), |failure| {
            let message = format!("the redo log failed earlier, reopen the database: {failure}");
            Err(Error::new(ErrorKind::Poisoned, message))
        })
    }

    /// Fails after a failure, for payloads that were appended before it.
    #[inline]
    pub(super) fn check_appended(&self) -> Result<()> {
        if self.is_set() { Err(self.unknown()) } else { Ok(()) }
    }

    /// What to say of payloads that were appended before the failure.
    #[cold]
    pub(super) fn unknown(&self) -> Error {
        let failure = self.0.get().map_or("", String::as_str);
        let message = format!("unknown whether this commit is durable, reopen the database to learn it: {failure}");
        Error::new(ErrorKind::Poisoned, message)
    }
}
