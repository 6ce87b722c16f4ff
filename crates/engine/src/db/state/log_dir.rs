//! Where the redo log is: in the database's directory, or in one of its own that the manifest names.
//!
//! # Recovery
//! A new database makes its log directory, and makes its name durable, before the first manifest names it: a manifest
//! in force that names a missing directory therefore means that somebody took it away, or that its disk is not mounted,
//! and never a crash. A log that was moved by hand is recovered from its new place first, and the manifest names that
//! place once this succeeded: a crash before leaves the old name, and the same call does the same again.
//!
//! Everything is looked at before anything is changed. A directory other than the default one is locked while its
//! database is open.

use std::path::{Path, PathBuf};

use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Env, FileLock};
use crate::log::{DirContents, probe_dir};
use crate::table::catalog::Catalog;
use crate::table::edit::Edit;
use crate::table::files;

use super::directory::{lock_file, sync_above};
use super::manifest_store::ManifestStore;
use super::options::Options;

/// The directory of the redo log of an open database.
#[derive(Debug)]
pub(crate) struct LogDir {
    pub(crate) path: PathBuf,
    /// Whether the manifest still names the directory from which the log was moved here.
    moved: bool,
    /// Keeps other databases and processes out of a directory of the log's own.
    #[expect(dead_code, reason = "held, not used")]
    lock: Option<Box<dyn FileLock>>,
}

impl LogDir {
    /// Makes the log directory of a database that has no manifest yet, in `dir`, and has the catalog name it.
    pub(crate) fn create(env: &Env, dir: &Path, options: &Options, catalog: &mut Catalog) -> Result<Self> {
        let Some(place) = wanted(env, dir, options)?.filter(|place| *place != dir.join(files::LOG_DIR)) else {
            return Ok(Self { path: dir.join(files::LOG_DIR), moved: false, lock: None });
        };
        if let DirContents::Log | DirContents::Other(_) = probe_dir(env, &place, catalog.database_id)? {
            let place = place.display();
            return Err(Error::invalid(format!(
                "{place}: the directory holds the redo log of a database: give another"
            )));
        }
        catalog.log_dir = Some(name(&place)?);
        env.fs.create_dir_all(&place).map_err(|error| Error::io("create directory", &place, error))?;
        // A process that died may have made it, and not have synced the directories above.
        sync_above(env, &place)?;
        let lock = Some(lock(env, &place)?);
        Ok(Self { path: place, moved: false, lock })
    }

    /// Finds the log directory of the database in `dir`.
    pub(crate) fn find(env: &Env, dir: &Path, options: &Options, catalog: &Catalog) -> Result<Self> {
        let recorded = catalog.log_dir(dir);
        let place = wanted(env, dir, options)?.unwrap_or_else(|| recorded.clone());
        let moved = place != recorded;
        if moved {
            check_moved(env, catalog, &recorded, &place)?;
        } else if catalog.log_dir.is_some() {
            check_there(env, catalog, &place)?;
        }
        let lock = if place == dir.join(files::LOG_DIR) { None } else { Some(lock(env, &place)?) };
        Ok(Self { path: place, moved, lock })
    }

    /// Has the manifest name the directory from which the log was recovered, if it names another.
    pub(crate) fn record(&self, (env, dir): (&Env, &Path), manifest: &ManifestStore) -> Result<()> {
        if !self.moved {
            return Ok(());
        }
        // The program that moved it may not have synced what it did.
        sync_above(env, &self.path)?;
        let log_dir = if self.path == dir.join(files::LOG_DIR) { None } else { Some(name(&self.path)?) };
        manifest.lock().record(&Edit::MoveLog { log_dir })
    }
}

/// The absolute path of the directory that the options ask for.
fn wanted(env: &Env, dir: &Path, options: &Options) -> Result<Option<PathBuf>> {
    let Some(wanted) = &options.log_dir else { return Ok(None) };
    let place = env.fs.absolute(wanted).map_err(|error| Error::io("find", wanted, error))?;
    if place.starts_with(dir) && place != dir.join(files::LOG_DIR) {
        let what = "log_dir lies inside the database's directory: give one outside of it, or none";
        return Err(Error::invalid(format!("{}: {what}", place.display())));
    }
    Ok(Some(place))
}

/// Refuses a directory named by the manifest that is missing or has lost the log.
fn check_there(env: &Env, catalog: &Catalog, place: &Path) -> Result<()> {
    let what = match probe_dir(env, place, catalog.database_id)? {
        DirContents::Missing => "the directory is missing",
        DirContents::Nothing if catalog.log_from > Lsn(0) => "the directory holds no redo log",
        DirContents::Other(segment) => return Err(belongs_to_another(&segment)),
        DirContents::Nothing | DirContents::Log => return Ok(()),
    };
    let place = place.display();
    let todo = "mount its disk, or give the new place as log_dir if the log was moved";
    Err(Error::invalid(format!("{place}: the database has its redo log there, but {what}: {todo}")))
}

/// Refuses a directory that the manifest does not name, unless the log was moved there as a whole.
fn check_moved(env: &Env, catalog: &Catalog, recorded: &Path, place: &Path) -> Result<()> {
    let (from, to) = (recorded.display(), place.display());
    match probe_dir(env, place, catalog.database_id)? {
        DirContents::Log => {}
        DirContents::Other(segment) => return Err(belongs_to_another(&segment)),
        DirContents::Missing | DirContents::Nothing => {
            let todo = format!("open it without log_dir, or move all files of {from} there while it is closed");
            return Err(Error::invalid(format!(
                "{to}: the redo log of the database is not there but in {from}: {todo}"
            )));
        }
    }
    // Of two logs one may lack what was committed last.
    if probe_dir(env, recorded, catalog.database_id)? == DirContents::Log {
        let what = "both hold a redo log of the database (or are the same directory)";
        let todo =
            format!("open it without log_dir to go on with {from}, or move the segments that are out of date away");
        return Err(Error::invalid(format!("{to} and {from}: {what}: {todo}")));
    }
    Ok(())
}

fn belongs_to_another(segment: &Path) -> Error {
    let what = "this log segment belongs to another database: each database needs a log directory of its own";
    Error::invalid(format!("{}: {what}", segment.display()))
}

fn lock(env: &Env, place: &Path) -> Result<Box<dyn FileLock>> {
    lock_file(env, place).map_err(|error| match error.kind() {
        ErrorKind::Locked => {
            let what = "another open database has its redo log there: each database needs a log directory of its own";
            Error::new(ErrorKind::Locked, format!("{}: {what}", place.display()))
        }
        _ => error,
    })
}

/// The path as the manifest keeps it.
fn name(place: &Path) -> Result<String> {
    let name = place.to_str().map(str::to_owned);
    name.ok_or_else(|| Error::invalid(format!("{}: the path of log_dir must be UTF-8", place.display())))
}
