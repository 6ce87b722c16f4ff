//! A directory in which a copy of a database is made, a checkpoint or what a salvage can read.
//!
//! # Recovery
//! A file of its own ([`Copies::marker`]) is the first that is made and the last that is removed, and is locked in
//! between. A copy that fails removes what it made. One that was killed leaves the file and no `CURRENT`: such a
//! directory is no database, and the next copy of the kind to it begins anew.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::{Error, ErrorKind, Result};
use crate::db::state::directory::is_lost_and_found;
use crate::env::{DirEntry, Env, FileLock};
use crate::table::files;

/// The kinds of copies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Copies {
    Checkpoint,
    Salvage,
}

impl Copies {
    /// The name of the file that marks one as unfinished.
    const fn marker(self) -> &'static str {
        match self {
            Self::Checkpoint => files::CHECKPOINT,
            Self::Salvage => files::SALVAGE,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Salvage => "salvage",
        }
    }

    /// Whether a file may be of one that is not complete.
    fn is_of_unfinished(self, entry: &DirEntry) -> bool {
        [self.marker(), files::CURRENT_NEW].contains(&entry.name.as_str()) || files::parse(&entry.name).is_some()
    }
}

/// A directory that no other copy goes to.
#[derive(Debug)]
pub(crate) struct CopyDir {
    env: Env,
    path: PathBuf,
    kind: Copies,
    _lock: Box<dyn FileLock>,
}

impl CopyDir {
    /// Makes the directory, and keeps other copies out of it. What one left behind that was killed is removed.
    ///
    /// # Errors
    /// `AlreadyExists` when the directory holds anything else, `Locked` when a copy is being made there, `Full`, `Io`.
    pub(crate) fn claim(env: &Env, path: &Path, kind: Copies) -> Result<Self> {
        // Before the lock, whose file would be the first of ours in a directory of somebody else.
        check_unfinished(env, path, kind)?;
        env.fs.create_dir_all(path).map_err(|error| Error::io("create directory", path, error))?;
        let marker = path.join(kind.marker());
        let lock = env.fs.lock(&marker).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                let (path, name) = (path.display(), kind.name());
                Error::new(
                    ErrorKind::Locked,
                    format!("{path}: another {name} is being made there: give a new directory"),
                )
            }
            _ => Error::io("lock", &marker, error),
        })?;
        // Another one may have been completed meanwhile.
        if let Err(error) = check_unfinished(env, path, kind) {
            drop(env.fs.remove(&marker));
            return Err(error);
        }
        let claimed = Self { env: env.clone(), path: path.to_owned(), kind, _lock: lock };
        claimed.empty();
        // Before any file of the copy: what a power failure leaves of it is known by this one.
        match env.fs.sync_dir(path) {
            Ok(()) => Ok(claimed),
            Err(error) => {
                claimed.release();
                Err(Error::io("sync", path, error))
            }
        }
    }

    /// Removes the files of a copy that failed; first the one that would make them a database.
    pub(crate) fn empty(&self) {
        drop(self.env.fs.remove(&self.path.join(files::CURRENT)));
        for entry in self.env.fs.list(&self.path).unwrap_or_default() {
            if self.kind.is_of_unfinished(&entry) && entry.name != self.kind.marker() {
                drop(self.env.fs.remove(&self.path.join(&entry.name)));
            }
        }
    }

    /// The copy is complete, or nothing is left of it.
    pub(crate) fn release(self) {
        drop(self.env.fs.remove(&self.path.join(self.kind.marker())));
    }
}

/// Refuses a directory that holds anything but an unfinished copy, of which `CURRENT` is missing: it comes last.
fn check_unfinished(env: &Env, path: &Path, kind: Copies) -> Result<()> {
    let entries = match env.fs.list(path) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(Error::io("list", path, error)),
    };
    let begun = entries.iter().any(|entry| entry.name == kind.marker());
    let may_be_there = |entry: &&DirEntry| is_lost_and_found(entry) || (begun && kind.is_of_unfinished(entry));
    match entries.iter().find(|entry| !may_be_there(entry)) {
        None => Ok(()),
        Some(_) if entries.iter().any(|entry| entry.name == files::CURRENT) => {
            Err(files::not_empty(path, "a database"))
        }
        Some(other) => Err(files::not_empty(path, format_args!("'{}'", other.name))),
    }
}
