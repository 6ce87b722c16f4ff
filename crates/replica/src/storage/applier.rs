//! Entries of the replicated log applied to the database, in their order, by one thread.
//!
//! # Invariants
//! 1. An entry's changes and its place become durable together: the row `applied` is part of each commit.
//! 2. Before a table is dropped, which is durable at once, everything that was applied is durable. So after a crash
//!    nothing is applied again that changes the table.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use spinney::env::{Next, Threads, Worker};
use spinney::{Batch, Durability, Error, ErrorKind, Layout, Result};
use tokio::sync::oneshot;

use super::log::Done;
use super::rows::Rows;
use crate::base::watched;
use crate::entry::change::{Change, Commit};
use crate::entry::log_entry::{EntryKind, LogEntry, LogId};

/// The thread that proposed a commit, which waits for it to be applied.
pub(crate) type Waiter = oneshot::Sender<()>;

/// Where entries are applied: the document database, whose catalog and caches follow them.
pub(crate) trait Target: Send + Sync + fmt::Debug {
    /// Makes the changes of a commit, together with those that `add` adds, by one commit of the engine that is not
    /// synced. What is returned is told when the entry counts as applied.
    ///
    /// # Errors
    /// What makes the entry impossible to apply: the member then fails.
    fn commit(&self, at: LogId, commit: &Commit<'_>, add: &dyn Fn(&mut Batch)) -> Result<Option<Waiter>>;

    /// Creates a table, unless it is there.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn create_table(&self, name: &str, layout: Layout) -> Result<()>;

    /// Makes durable what was applied, and drops a table, unless it is gone.
    ///
    /// # Errors
    /// As [`Self::commit`].
    fn drop_table(&self, name: &str) -> Result<()>;

    /// An entry of a term is applied that is the first of its primary: what was proposed in earlier terms is applied by
    /// now, or lost.
    fn settled(&self, term: u64);

    /// Makes a checkpoint of the database, from which another member begins.
    ///
    /// # Errors
    /// Those of the engine.
    fn checkpoint(&self, engine: &spinney::Database, dir: &Path) -> Result<()> {
        engine.checkpoint(dir).map(drop)
    }
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
    /// The last entry that was applied, for those that wait for one.
    applied: watched::Sender<Option<LogId>>,
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
    /// `Io` when there is no thread for it; those of the engine.
    pub(crate) fn new(rows: Rows, threads: &dyn Threads) -> Result<Self> {
        let applied = watched::Sender::new(rows.applied()?);
        let shared = Arc::new(Shared { rows, state: Mutex::default(), target: Mutex::default(), applied });
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

    /// The last entry that was applied.
    pub(crate) fn applied(&self) -> watched::Receiver<Option<LogId>> {
        self.shared.applied.subscribe()
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
        let applied = entries.iter().try_for_each(|entry| {
            let waiter = self.apply(entry)?;
            self.applied.send_replace(Some(entry.id));
            // The thread that proposed it may have gone.
            waiter.map(|waiter| waiter.send(()));
            Ok(())
        });
        done(applied.map_err(|error: Error| io::Error::other(error.to_string())));
        Next::Again
    }

    fn apply(&self, entry: &LogEntry) -> Result<Option<Waiter>> {
        let target = self.target.lock().clone();
        let known = || target.as_deref().ok_or_else(|| Error::new(ErrorKind::Closed, "there is no database"));
        let mut batch = Batch::new();
        match entry.kind {
            EntryKind::Blank => {}
            EntryKind::Members => self.rows.put_members(entry.id, &entry.payload, &mut batch),
            EntryKind::Change => match Change::decode(&entry.payload).map_err(|_| malformed(entry.id))? {
                Change::Commit(commit) => {
                    let add = |batch: &mut Batch| self.rows.put_applied(entry.id, batch);
                    return known()?.commit(entry.id, &commit, &add);
                }
                Change::CreateTable(name, layout) => known()?.create_table(name, layout)?,
                Change::DropTable(name) => known()?.drop_table(name)?,
            },
        }
        self.rows.put_applied(entry.id, &mut batch);
        self.rows.engine().write_with(&batch, Durability::Interval)?;
        if entry.kind == EntryKind::Blank {
            target.into_iter().for_each(|target| target.settled(entry.id.term));
        }
        Ok(None)
    }
}

fn malformed(at: LogId) -> Error {
    Error::new(ErrorKind::Corruption, format!("entry {} of the replicated log makes no sense", at.index))
}
