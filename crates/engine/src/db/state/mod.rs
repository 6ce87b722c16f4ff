//! What an open database consists of: its directory and options, its files, manifest and tables, and what is visible of
//! them. Every path of the database works on this; it orders no commit and runs no job.
//!
//! # Concurrency
//! Latch order of the database, outermost first: the flush gate (`jobs/flusher.rs`) · a table's `compaction` latch ·
//! the commit latch (`commit/pipeline.rs`) · the table set · the manifest store. No latch is held while a worker is
//! woken. I/O happens under the flush gate, `compaction` and the manifest store; under the commit latch only when a
//! possible conflict is looked up, when a table is created or dropped, and when so many bytes wait in the log's buffer
//! that an append has to write some of them.

pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod files;
pub(crate) mod health;
pub(crate) mod leases;
pub(crate) mod log_dir;
pub(crate) mod manifest_store;
pub(crate) mod options;
pub(crate) mod read_charges;
pub(crate) mod registered;
mod retry;
pub(crate) mod table;
pub(crate) mod tables;
pub(crate) mod wakers;

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::{CoveragePoint, Error, ErrorKind, Result, SeqNum};
use crate::cache::Cache;
use crate::env::Env;
use crate::txn::publish::Publisher;
use crate::txn::snapshots::Snapshots;

use self::counters::Counters;
use self::events::Event;
use self::files::DataFiles;
use self::health::Health;
use self::manifest_store::ManifestStore;
use self::options::Options;
use self::tables::TableSet;
use self::wakers::Wakers;

/// The parts of an open database that all its paths share.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) env: Env,
    /// The database's directory, absolute.
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) health: Arc<Health>,
    pub(crate) counters: Counters,
    pub(crate) cache: Arc<Cache>,
    pub(crate) files: Arc<DataFiles>,
    pub(crate) manifest: ManifestStore,
    pub(crate) tables: TableSet,
    pub(crate) snapshots: Snapshots,
    pub(crate) publisher: Publisher,
    pub(crate) wakers: Arc<Wakers>,
}

impl State {
    /// Fails the database: nothing is written any more. Work that only met the closing of the database fails nothing.
    pub(crate) fn poison(&self, error: Error) -> Error {
        if !matches!(error.kind(), ErrorKind::Closed | ErrorKind::Forked) {
            self.counters.events.tell(&Event::Poisoned { message: &error.to_string() });
            CoveragePoint::Poison.mark();
            self.health.poison(&error);
            self.publisher.poison();
        }
        error
    }

    /// Poisons when a write failed; not when it was refused and nothing was changed.
    pub(crate) fn or_poison<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| if error.is_unchanged() { error } else { self.poison(error) })
    }

    /// The seqnum up to which every snapshot sees all, now and later.
    pub(crate) fn oldest_snapshot(&self) -> SeqNum {
        let (snapshots, published) = self.snapshots.live();
        snapshots.first().map_or(published, |oldest| published.min(*oldest))
    }

    /// Free bytes on the disk of the database's directory. An error has changed nothing.
    pub(crate) fn free_bytes(&self) -> Result<u64> {
        self.env.fs.free_bytes(&self.dir).map_err(|error| Error::io("measure", &self.dir, error).unchanged())
    }
}
