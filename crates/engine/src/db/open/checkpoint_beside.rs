//! A checkpoint of a database that another process has open, made by the process that wants it.
//!
//! ```text
//! open       as a reader does: a lease keeps the trees, and the redo log is replayed into memtables
//! flush      the memtables go to trees in memory, as of the moment up to which the log was read
//! copy       as every checkpoint: what the other process wrote is linked, what is in memory is written
//! ```
//!
//! The process that writes is asked for nothing: it keeps the files that the lease names, and goes on.

use std::path::Path;

use crate::base::{Error, Result};
use crate::db::maintenance::checkpoint::{CheckpointReport, checkpoint};
use crate::db::state::options::Options;
use crate::db::state::registered::Registered;
use crate::env::Env;

use super::read_only::open_over;
use super::reader::Source;

/// More than any log.
const LOG_KEEP_BYTES: u64 = 1 << 50;

/// Copies the database in `path`, as it is at one moment of the call, to the new directory `dir`, which can be opened
/// by itself; with `base`, shares with the earlier checkpoint there what did not change since. Another process may have
/// the database open for writing: it goes on. The copy has all commits that had been written to the redo log, durable
/// or not, up to one of them, and nothing of the unlogged tables that was not flushed. What is in the redo log only
/// takes memory meanwhile, in this process: as much as the memtables of the other one, and the trees that it becomes.
/// What is reported as the newest change is no less than that of the copy.
///
/// In the process that has the database open use [`Database::checkpoint`](crate::Database::checkpoint).
///
/// # Errors
/// `NotFound` when there is no database; `AlreadyExists` when `dir` holds anything but what a checkpoint left that was
/// killed; `Invalid` when `base` is of another database; `Conflict` when the tables change faster than they are read;
/// `Corruption`, `Io`, `Full`.
pub fn checkpoint_beside(
    path: impl AsRef<Path>,
    dir: impl AsRef<Path>,
    base: Option<&Path>,
    options: Options,
) -> Result<CheckpointReport> {
    let (env, path, dir) = (Env::os(), path.as_ref(), dir.as_ref());
    let outlet = env.fs.absolute(dir).map_err(|error| Error::io("find", dir, error))?;
    let registered = Registered::default();
    // The flush leaves the log's segments alone, which are the other process's.
    let options = options.log_keep_bytes(LOG_KEEP_BYTES);
    let source = Source { env, path: path.to_owned(), options, registered, on_replay: None };
    let core = open_over(source, Some(&outlet))?;
    let made = checkpoint(&core.state, &core.commits, &core.flusher, &outlet, base);
    // What was flushed is in memory: there is nothing to end.
    core.state.health.set_read_only();
    core.shut().and(made)
}
