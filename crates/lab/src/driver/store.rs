//! An open database of an engine.

use super::client::Client;
use super::lacks::Lacks;
use super::state::{Counters, IndexSize, LevelWork, TableShape};
use anyhow::Result;
use std::path::{Path, PathBuf};

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
    /// indexes itself (see [`TableSpec::index_of`](super::config::TableSpec::index_of)), which has none before. A
    /// change of an index's table makes them too, at once.
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

    /// What flushes and compactions did for each level since the database was opened; empty when the engine does not
    /// say.
    ///
    /// # Errors
    /// What the engine says.
    fn level_work(&self) -> Result<Vec<LevelWork>> {
        Ok(Vec::new())
    }

    /// Bytes that background work is behind now, as the engine reckons them: what levels hold above their targets, or
    /// what compactions are expected to move. `None` when the engine does not say.
    ///
    /// # Errors
    /// What the engine says.
    fn compaction_debt(&self) -> Result<Option<u64>> {
        Ok(None)
    }

    /// How large the indexes and filters of all tables are, in memory or not.
    ///
    /// # Errors
    /// [`Lacks`], or what the engine says.
    fn index_size(&self) -> Result<IndexSize> {
        Err(Lacks::new("no word of how large its indexes are").into())
    }

    /// Whether a file of the database is redo log.
    fn is_log(&self, path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension == "log")
    }

    /// Where the data lies, if not in the directory that the database was opened in.
    fn data_dir(&self) -> Option<PathBuf> {
        None
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
