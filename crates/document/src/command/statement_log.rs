//! What each statement of an `update` or a `delete` did, for the profile of its database.
//!
//! A profile has an entry for each statement, with the statement's own time and counts. Where nothing is profiled,
//! nothing is noted.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::base::{Error, Summary};

/// The statements of a command that were run, while its database is profiled.
#[derive(Clone, Debug, Default)]
pub struct StatementLog {
    noted: Option<Arc<Mutex<Vec<Noted>>>>,
}

/// A statement that was run.
#[derive(Debug)]
pub(super) struct Noted {
    /// Its place in the command.
    pub(super) at: usize,
    pub(super) micros: u64,
    /// How many entries of indexes and documents it looked at.
    pub(super) examined: (u64, u64),
    pub(super) plan: Option<Summary>,
    pub(super) outcome: Result<Counts, Error>,
}

/// How many documents a statement found and changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) n: u64,
    pub(super) modified: u64,
    pub(super) upserted: u64,
}

impl StatementLog {
    /// A log that takes notes.
    pub(super) fn on() -> Self {
        Self { noted: Some(Arc::default()) }
    }

    /// Whether notes are taken.
    pub(super) fn is_on(&self) -> bool {
        self.noted.is_some()
    }

    /// Adds a statement.
    pub(super) fn add(&self, statement: Noted) {
        if let Some(noted) = &self.noted {
            noted.lock().push(statement);
        }
    }

    /// The statements that were run.
    pub(super) fn take(&self) -> Vec<Noted> {
        self.noted.as_ref().map(|noted| std::mem::take(&mut *noted.lock())).unwrap_or_default()
    }
}
