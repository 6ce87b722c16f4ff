//! The open database, as its clients see it.

use super::statements::Statements;
use crate::ticker::Ticker;
use rusqlite::Connection;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

pub(super) struct SqliteStore {
    pub(super) path: PathBuf,
    pub(super) pragmas: String,
    pub(super) tables: Vec<Statements>,
    /// Whether clients have documents, and no tables.
    pub(super) documents: bool,
    /// For the store's verbs. It also keeps the log from being removed when the last client goes.
    pub(super) own: Mutex<Connection>,
    pub(super) ticker: Option<Ticker>,
    /// Closed after all connections: to close a file gives up the process's locks on it.
    pub(super) files: Arc<Files>,
    pub(super) settings: Vec<(String, String)>,
}

/// The database and its log, to force them to the device.
pub(super) struct Files {
    pub(super) database: File,
    pub(super) log: File,
}
