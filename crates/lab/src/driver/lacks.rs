//! The answer of an engine that was asked for something that it does not have.

use anyhow::{Error, Result};
use std::fmt;

/// What the engine lacks, in words that complete "it has …": `no redo log`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacks(pub String);

impl Lacks {
    /// The answer with these words.
    #[must_use]
    pub fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }

    /// The answer that `error` is, if it is one.
    #[must_use]
    pub fn of(error: &Error) -> Option<&Self> {
        error.chain().find_map(|cause| cause.downcast_ref())
    }
}

impl fmt::Display for Lacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine has {}", self.0)
    }
}

impl std::error::Error for Lacks {}

/// A result, or what the engine lacked for it; other errors stay errors.
///
/// # Errors
/// Any error but [`Lacks`].
pub fn unless_lacking<T>(result: Result<T>) -> Result<Result<T, Lacks>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(error) => match Lacks::of(&error) {
            Some(lacks) => Ok(Err(lacks.clone())),
            None => Err(error),
        },
    }
}
