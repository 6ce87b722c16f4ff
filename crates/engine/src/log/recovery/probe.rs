//! What is in a directory before it is used for a log: whose segments are there.

use super::chain::read_header;
use crate::base::{Error, Result};
use crate::env::{Access, Env};
use crate::log::pool::directory::Directory;
use std::io;
use std::path::{Path, PathBuf};

/// What a directory holds, for a database that may put its log there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirContents {
    /// There is no such directory.
    Missing,
    /// No segment of any log.
    Nothing,
    /// Segments of this database, or ones whose headers are too damaged to tell.
    Log,
    /// This segment of another database, perhaps among others.
    Other(PathBuf),
}

/// Looks at the headers of all segments in `directory`; changes nothing. `database` is the identity of the database
/// that asks.
///
/// # Errors
/// `Invalid` for a path that is no directory; `Unsupported` for a newer format; `Io`.
pub fn probe_dir(env: &Env, directory: &Path, database: u64) -> Result<DirContents> {
    match env.fs.list(directory) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(DirContents::Missing),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let message =
                format!("{}: the place of a redo log is a directory, and this is a file", directory.display());
            return Err(Error::invalid(message));
        }
        Err(error) => return Err(Error::io("list", directory, error)),
    }
    let directory = Directory { env: env.clone(), path: directory.to_owned() };
    let segments = directory.list()?.segments;
    for (number, path) in &segments {
        let file = directory.open(path, Access::Read, false)?;
        // A damaged segment is judged by the recovery, which knows whether it is needed.
        if let Ok(header) = read_header(&*file, path, *number, None)?
            && header.database != database
        {
            return Ok(DirContents::Other(path.clone()));
        }
    }
    Ok(if segments.is_empty() { DirContents::Nothing } else { DirContents::Log })
}
