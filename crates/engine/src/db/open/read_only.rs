//! Opening a database to read it only, beside a process that has it open for writing, or where nothing can be written.
//!
//! The open is the one that every database has, over an [`OverlayFileSystem`]: what it writes (a manifest and a
//! log segment) stays in memory. A long log is not flushed, but stays in memtables. No background work is started.
//!
//! ```text
//! lease     the lock of the manifest is shared, and that of its copy
//! load      the manifest is read, and the trees that it names are opened
//! replay    the log goes into memtables, up to where it ends now
//! look      a table that came or went meanwhile, or a bulk load, belongs to what was replayed: then all is done again;
//!           the lock of the copy is given back
//! ```
//!
//! # Concurrency
//! `state/leases.rs` tells what the locks are for, and `docs/recovery.md` what a reader sees. Where the file system has
//! no shared locks there is no lease: what is read is checked as ever, so that a reader whose files were taken away
//! fails, and never sees what was written over them.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Error, ErrorKind, FileId, Result, SeqNum};
use crate::db::commit::pipeline::CommitPipeline;
use crate::env::{DatabaseFiles, Env, FileLock, OverlayFileSystem};
use crate::log::{LogWriter, ReplayMode};
use crate::table::catalog::Catalog;
use crate::table::files::{self, FileKind};
use crate::table::manifest::Manifest;

use super::advice;
use super::core::Core;
use super::opening::{Found, Loaded, check_directory, list_or_create, log_options};
use super::reader::{Reader, Source};
use super::recovery::{Recovery, Replay};

/// How often the database is read again that changes its tables while it is read.
const ATTEMPTS: u32 = 50;
/// How often a lock is tried that another process has for a moment, and the pause between.
const LOCK_ATTEMPTS: u32 = 1000;
const LOCK_PAUSE: Duration = Duration::from_micros(200);
/// What says that there is no file, or no shared lock, that could be held.
const NO_LOCKS: [io::ErrorKind; 3] = [io::ErrorKind::NotFound, io::ErrorKind::Unsupported, io::ErrorKind::InvalidInput];

/// Opens the database as it is now.
pub(crate) fn open_read_only(source: Source) -> Result<Core> {
    let core = open_over(source, None)?;
    core.state.health.set_read_only();
    Ok(core)
}

/// Opens the database as it is now. What is written goes to memory, but for what goes to the directory `outlet`.
pub(super) fn open_over(source: Source, outlet: Option<&Path>) -> Result<Core> {
    source.options.check()?;
    let Source { env, path, .. } = &source;
    let dir = env.fs.absolute(path).map_err(|error| Error::io("find", path, error))?;
    let source = Source { path: dir, ..source.clone() };
    for _ in 0..ATTEMPTS {
        let entries = list_or_create(&source.env, &source.path, false)?;
        check_directory(&source.env, &source.path, &entries, false)?;
        let lease = Lease::take(&source)?;
        let loads = || Manifest::loads_since(&source.env, &source.path, lease.manifest);
        let loads_before = loads()?;
        let first = catalog(&source);
        let (read, opened) = match load(&source, lease.manifest, lease.trees, outlet) {
            Ok(loaded) => {
                let read = loaded.state.manifest.lock().catalog().clone();
                (Some(read), replay(loaded, &source, lease.manifest))
            }
            Err(error) => (None, Err(error)),
        };
        let now = catalog(&source);
        let (Some(read), Some(now)) = (&read, &now) else {
            if first == now {
                return opened;
            }
            continue;
        };
        // Commits that were replayed may come after what is in the second reading only, and is visible at once.
        let is_one_moment = read.tables.keys().eq(now.tables.keys()) && loads()? == loads_before;
        drop(lease.log);
        match opened {
            Ok(core) if is_one_moment => return Ok(core),
            // What a writer gives up while it is read looks like damage; damage stays where it is.
            Err(error) if is_one_moment && read.log_from == now.log_from => return Err(error),
            _ => {}
        }
    }
    let message = "the tables of the database change faster than it can be read: try again";
    Err(Error::new(ErrorKind::Conflict, format!("{}: {message}", source.path.display())))
}

/// What the manifest in force says, if it can be read.
fn catalog(source: &Source) -> Option<Catalog> {
    let loaded = Manifest::load(&source.env, &source.path).ok()?;
    loaded.map(|(catalog, _)| catalog)
}

/// What a reader keeps a writer from giving back.
struct Lease {
    /// The manifest in force, or an older one: the one that is read.
    manifest: FileId,
    /// Files of trees, and blocks of B-trees. None where there are no such locks.
    trees: Option<Box<dyn FileLock>>,
    /// The log, and the manifests that follow.
    log: Option<Box<dyn FileLock>>,
}

impl Lease {
    fn take(source: &Source) -> Result<Self> {
        let Source { env, path: dir, .. } = source;
        loop {
            let in_force = || {
                let in_force = Manifest::in_force(env, dir).map_err(|error| advice::of_manifest(error, env, dir))?;
                in_force.ok_or_else(|| files::no_database(dir))
            };
            let id = in_force()?;
            let trees = share(source, FileKind::Manifest, id)?;
            let log = share(source, FileKind::ManifestCopy, id)?;
            if in_force()? == id {
                return Ok(Self { manifest: id, trees, log });
            }
        }
    }
}

/// Shares the lock of a file of the manifest, where that is possible.
fn share(source: &Source, kind: FileKind, id: FileId) -> Result<Option<Box<dyn FileLock>>> {
    let path = kind.path(&source.path, id);
    for _ in 0..LOCK_ATTEMPTS {
        match source.env.fs.lock_shared(&path) {
            Ok(lock) => return Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => source.env.threads.sleep(LOCK_PAUSE),
            // The copy may be missing, and the file system may have no such locks.
            Err(error) if NO_LOCKS.contains(&error.kind()) => return Ok(None),
            Err(error) => return Err(Error::io("lock", &path, error).of_read()),
        }
    }
    let message = "another process keeps the file locked";
    Err(Error::new(ErrorKind::Locked, format!("{}: {message}", path.display())))
}

/// Opens the trees.
fn load(source: &Source, manifest: FileId, lock: Option<Box<dyn FileLock>>, outlet: Option<&Path>) -> Result<Loaded> {
    let Source { env, path: dir, options, registered, .. } = source;
    let below = Arc::clone(&env.fs);
    let fs = match outlet {
        Some(outlet) => OverlayFileSystem::with_outlet(below, outlet.to_owned()),
        None => OverlayFileSystem::new(below),
    };
    let over = Env { fs: Arc::new(fs), ..env.clone() };
    let (env, files) = DatabaseFiles::of(over)?;
    let entries = env.fs.list(dir).map_err(|error| Error::io("list", dir, error))?;
    let found = Found { env, files, dir: dir.clone(), lock, entries, manifest: Some(manifest) };
    found.load(options.clone(), registered.clone())
}

/// Replays the log, and makes a database of it that nothing is written to.
fn replay(loaded: Loaded, source: &Source, manifest: FileId) -> Result<Core> {
    let Loaded { state, throttle, log_dir, lock, .. } = loaded;
    let (on_replay, mode) = (source.on_replay.as_deref(), ReplayMode::ReadOnly);
    let replay = Recovery { state: &state, throttle: &throttle, log_dir: &log_dir.path, on_replay, mode }.run()?;
    let Replay { log: recovered, next_seqnum } = replay;
    let summary = recovered.summary();
    let log = LogWriter::open(&state.env, &log_dir.path, log_options(&state.options), recovered)?;
    let next_seqnum = SeqNum(next_seqnum.0.max(1));
    let log_from = state.manifest.lock().catalog().log_from;
    let commits = CommitPipeline::new(Arc::clone(&state), Arc::clone(&throttle), log, (next_seqnum, log_from));
    let reader = Reader { source: source.clone(), log: summary, manifest };
    let core = Core::new(state, throttle, commits, log_dir, lock, Some(reader));
    // Nothing is shown that has expired meanwhile.
    core.expirer.step()?;
    Ok(core)
}
