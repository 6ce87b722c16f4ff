//! What the lab asks of a storage engine, so that one workload runs on many.
//!
//! An [`Engine`] is a way to open a database: `rocksdb`, or our own with a layout. It opens a [`Store`], which gives
//! each thread of a workload a [`Client`]. What an engine does not have it answers with [`Lacks`], and the report shows
//! a dash there.
//!
//! # Invariants
//! 1. A driver does nothing for its engine that the engine does not do: no cache, no batching, no retry of its own.
//! 2. A driver opens its engine in the best configuration that its authors or users recommend for the work, and says in
//!    [`Store::settings`] which.

mod batch;
mod checked;
mod client;
mod config;
mod conformance;
mod lacks;
mod model;
mod null;
mod spinney;
mod state;
#[cfg(test)]
mod wrong;

pub use batch::{Batch, Change};
pub use checked::Checked;
pub use client::{Client, Direction, Outcome, Scan};
pub use config::{Compression, Config, Durability, LogConfig, TableId, TableSpec};
pub use conformance::conformance;
pub use lacks::{Lacks, unless_lacking};
pub use null::Null;
pub use spinney::{Spinney, engines};
pub use state::{Counters, LevelShape, TableShape};
#[cfg(test)]
use wrong::Wrong;

use anyhow::Result;
use std::fmt::Debug;
use std::path::Path;

/// A way to open a database.
pub trait Engine: Debug + Send + Sync {
    /// The name that users give and reports show, in lower case: `spinney-lsm`.
    fn name(&self) -> &'static str;

    /// The version of the engine's code that would run: `11.8.1`.
    fn version(&self) -> String;

    /// Why the engine cannot run on this machine and the command that would install it; `None` when it can.
    fn missing(&self) -> Option<String> {
        None
    }

    /// Whether operations travel to a server process, which costs what embedded engines do not pay.
    fn client_server(&self) -> bool {
        false
    }

    /// The engine from which this one differs in its redo log only: it takes part in the experiment on commits, and in
    /// no other.
    fn other_log_of(&self) -> Option<&'static str> {
        None
    }

    /// Whether the engine can pass the page cache by, so that its memory is all the memory that its data gets.
    fn direct_io(&self) -> bool;

    /// Makes a database with `tables` in `dir`, which does not exist yet, or opens the one that this engine left there
    /// with the same tables.
    ///
    /// # Errors
    /// [`Lacks`] when the engine has no way to do what `config` asks for; else what the engine says.
    fn open(&self, dir: &Path, config: &Config, tables: &[TableSpec]) -> Result<Box<dyn Store>>;
}

/// An open database.
pub trait Store: Send + Sync {
    /// A connection for the calling thread.
    ///
    /// # Errors
    /// What the engine says.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// The settings that were chosen for the engine, for the report: name and value.
    fn settings(&self) -> Vec<(String, String)>;

    /// Returns when all commits so far are on the device.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn sync(&self) -> Result<()>;

    /// Writes what is in memory only to the trees on disk, and waits for it.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn flush(&self) -> Result<()> {
        Err(Lacks::new("no verb that flushes").into())
    }

    /// Makes the secondary indexes of all tables from their rows, and waits for it: of an engine that keeps secondary
    /// indexes itself (see [`TableSpec::index_of`]), which has none before. A change of an index's table makes them
    /// too, at once.
    ///
    /// # Errors
    /// [`Lacks`] when indexes are tables like others, which the workload fills; else what the engine says.
    fn build_indexes(&self) -> Result<()> {
        Err(Lacks::new("indexes are tables that the workload fills").into())
    }

    /// Merges all of level `level` into the next below it, and waits for it. Level 0 holds the newest runs.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn compact_level(&self, _level: usize) -> Result<()> {
        Err(Lacks::new("no verb that compacts one level").into())
    }

    /// Merges each table into one tree (or rewrites it into its most compact form), and waits for it.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn compact_all(&self) -> Result<()> {
        Err(Lacks::new("no verb that compacts").into())
    }

    /// With `hold` background compaction does not begin until it is called without.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn hold(&self, _hold: bool) -> Result<()> {
        Err(Lacks::new("no verb that holds background work").into())
    }

    /// Returns when no background work is left to do.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn wait_idle(&self) -> Result<()>;

    /// The trees of each table as they are now; empty when the engine does not say.
    ///
    /// # Errors
    /// What the engine says.
    fn shape(&self) -> Result<Vec<TableShape>> {
        Ok(Vec::new())
    }

    /// What the engine counted since it was opened.
    ///
    /// # Errors
    /// What the engine says.
    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    /// Whether a file of the database is redo log.
    fn is_log(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "log")
    }

    /// Processes besides this one that do the engine's work.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Closes the database; a database with redo log is left as its engine leaves it.
    ///
    /// # Errors
    /// What the engine says.
    fn close(self: Box<Self>) -> Result<()>;
}
