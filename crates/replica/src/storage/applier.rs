//! Entries of the replicated log applied to the database, in their order, by one thread.
//!
//! # Invariants
//! 1. An entry's changes and its place become durable together: the row `applied` is part of each commit.
//! 2. Before tables are created or dropped, which is durable at once, everything that was applied is durable. So after
//!    a crash such an entry is the first that is applied again, if it is.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;
use spinney::env::{Next, Threads, Worker};
use spinney::{Batch, Durability, Error, ErrorKind, Result, Table, TableId, TableOptions};

use super::log::Done;
use super::rows::Rows;
use crate::entry::change::{Change, Commit};
use crate::entry::log_entry::{EntryKind, LogEntry, LogId};

/// What commits are applied to: the document database, whose catalog and caches follow them.
pub(crate) trait Target: Send + Sync + fmt::Debug {
    /// Makes the changes of a commit, together with those of `batch`, by one commit of the engine, whose durability is
    /// [`Durability::Buffered`].
    ///
    /// # Errors
    /// What makes the entry impossible to apply: the member then fails.
    fn apply(&self, at: LogId, commit: &Commit<'_>, batch: Batch) -> Result<()>;

    /// An entry of a later term than `before` is applied: what was proposed before is applied by now, or lost.
    fn settled(&self, before: u64);
}

/// Applies entries. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Applier {
    shared: Arc<Shared>,
    worker: Arc<dyn Worker>,
}

#[derive(Debug)]
struct Shared {
    rows: Rows,
    state: Mutex<State>,
    target: Mutex<Option<Arc<dyn Target>>>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<(Vec<LogEntry>, Done)>,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State").field("waiting", &self.waiting.len()).finish()
    }
}

impl Applier {
    /// # Errors
    /// `Io` when there is no thread for it.
    pub(crate) fn new(rows: Rows, threads: &dyn Threads) -> Result<Self> {
        let shared = Arc::new(Shared { rows, state: Mutex::default(), target: Mutex::default() });
        let worked = Arc::clone(&shared);
        let worker = threads.worker("replica-apply", Box::new(move || worked.apply_waiting()));
        let worker =
            worker.map_err(|error| Error::new(ErrorKind::Io, format!("no thread to apply entries: {error}")))?;
        Ok(Self { shared, worker: worker.into() })
    }

    /// Has a target told of what is applied from now on.
    pub(crate) fn set_target(&self, target: Arc<dyn Target>) {
        *self.shared.target.lock() = Some(target);
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.shared.rows
    }

    /// Applies entries that follow the last applied one, and then calls `done`.
    pub(crate) fn apply(&self, entries: Vec<LogEntry>, done: Done) {
        self.shared.state.lock().waiting.push_back((entries, done));
        self.worker.wake();
    }
}

impl Shared {
    /// The work of the worker.
    fn apply_waiting(&self) -> Next {
        let Some((entries, done)) = self.state.lock().waiting.pop_front() else { return Next::Wait };
        let applied = entries.iter().try_for_each(|entry| self.apply(entry));
        done(applied.map_err(|error| io::Error::other(error.to_string())));
        Next::Again
    }

    fn apply(&self, entry: &LogEntry) -> Result<()> {
        let mut batch = Batch::new();
        self.rows.put_applied(entry.id, &mut batch);
        let engine = self.rows.engine();
        let target = self.target.lock().clone();
        match entry.kind {
            EntryKind::Blank => {}
            EntryKind::Members => self.rows.put_members(entry.id, &entry.payload, &mut batch),
            EntryKind::Change => match Change::decode(&entry.payload).map_err(|_| malformed(entry.id))? {
                Change::Commit(commit) => {
                    let target = target.ok_or_else(|| Error::new(ErrorKind::Closed, "there is no database"))?;
                    return target.apply(entry.id, &commit, batch);
                }
                Change::CreateTable(name, layout) => {
                    engine.sync()?;
                    engine.open_or_create_table(name, TableOptions::default().layout(layout))?;
                }
                Change::DropTable(name) => {
                    engine.sync()?;
                    if engine.table(name)?.is_some() {
                        engine.drop_table(name)?;
                    }
                }
            },
        }
        engine.write_with(&batch, Durability::Buffered)?;
        if entry.kind == EntryKind::Blank {
            target.into_iter().for_each(|target| target.settled(entry.id.term));
        }
        Ok(())
    }
}

/// The table that a commit calls by an id of the primary.
///
/// # Errors
/// `Corruption` when there is none.
pub(crate) fn table_of(engine: &spinney::Database, at: LogId, commit: &Commit<'_>, id: TableId) -> Result<Table> {
    let name = commit.tables.iter().find(|(known, _)| *known == id.0).map(|(_, name)| *name);
    let name = name.ok_or_else(|| malformed(at))?;
    engine.table(name)?.ok_or_else(|| {
        Error::new(ErrorKind::Corruption, format!("entry {} changes table '{name}', which is not there", at.index))
    })
}

fn malformed(at: LogId) -> Error {
    Error::new(ErrorKind::Corruption, format!("entry {} of the replicated log makes no sense", at.index))
}
