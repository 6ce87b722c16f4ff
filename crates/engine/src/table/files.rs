//! The names of the files in a database directory.
//!
//! # Format
//!
//! | name | what |
//! |---|---|
//! | `LOCK` | held by the process that has the database open |
//! | `CURRENT` | the name of the manifest in force |
//! | `STATS` | counters of the process that has the database open; no part of the database |
//! | `CHECKPOINT` | held by the process that makes this directory a checkpoint; gone when it is one |
//! | `SALVAGE` | held by the process that salvages a database to this directory; gone when it is done |
//! | `NNN.manifest` | a manifest (see `table/manifest/format.rs`) |
//! | `NNN.manifest-copy` | the same bytes a second time |
//! | `NNN.run` | a sorted run (see `tree/run/format.rs`) |
//! | `NNN.values` | large values of runs (see `tree/values`) |
//! | `NNN.tree` | a B-tree (see `tree/btree`) |
//! | `log/` | segments of the redo log (see `log/format.rs`), and what a salvage kept; may lie elsewhere |
//!
//! `NNN` is a decimal file id of at least six digits. Ids are never reused, so no name ever comes back.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::base::{Error, ErrorKind, FileId};

/// The name of the lock file.
pub(crate) const LOCK: &str = "LOCK";
/// The name of the file that names the manifest in force.
pub(crate) const CURRENT: &str = "CURRENT";
/// The name under which a new `CURRENT` is written before it replaces the old one.
pub(crate) const CURRENT_NEW: &str = "CURRENT.new";
/// The name of the file in which the process that has the database open tells its counters.
pub(crate) const STATS: &str = "STATS";
/// The name of the file that marks a checkpoint as unfinished.
pub(crate) const CHECKPOINT: &str = "CHECKPOINT";
/// The name of the file that marks the copy of a salvage as unfinished.
pub(crate) const SALVAGE: &str = "SALVAGE";
/// What `mkfs` makes in the root of a file system: a directory that holds nothing else is empty.
pub(crate) const LOST_AND_FOUND: &str = "lost+found";
/// The directory of the redo log.
pub(crate) const LOG_DIR: &str = "log";

/// No file's id is larger, so that there is always a next one.
pub(crate) const FILE_ID_MAX: FileId = FileId(1 << 62);

/// The error of a directory without a database.
pub(crate) fn no_database(dir: &Path) -> Error {
    Error::new(ErrorKind::NotFound, format!("{}: there is no database here", dir.display()))
}

/// The error of a directory that is to hold a new database and holds something else.
pub(crate) fn not_empty(dir: &Path, what: impl fmt::Display) -> Error {
    let message = format!("{}: the directory is not empty: it holds {what}: give a new one", dir.display());
    Error::new(ErrorKind::AlreadyExists, message)
}

/// What a file with an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// A manifest.
    Manifest,
    /// The second file of a manifest.
    ManifestCopy,
    /// A sorted run.
    Run,
    /// Values that runs keep apart.
    Values,
    /// A B-tree.
    Tree,
}

impl FileKind {
    const fn extension(self) -> &'static str {
        match self {
            Self::Manifest => "manifest",
            Self::ManifestCopy => "manifest-copy",
            Self::Run => "run",
            Self::Values => "values",
            Self::Tree => "tree",
        }
    }

    /// The name of file `id` of this kind.
    pub(crate) fn name(self, id: FileId) -> String {
        format!("{:06}.{}", id.0, self.extension())
    }

    /// The path of file `id` of this kind in `dir`.
    pub(crate) fn path(self, dir: &Path, id: FileId) -> PathBuf {
        dir.join(self.name(id))
    }
}

/// The kind and id that a file's name tells, if it is one of ours.
pub(crate) fn parse(name: &str) -> Option<(FileKind, FileId)> {
    let (number, extension) = name.split_once('.')?;
    let kinds = [FileKind::Manifest, FileKind::ManifestCopy, FileKind::Run, FileKind::Values, FileKind::Tree];
    let kind = kinds.into_iter().find(|kind| kind.extension() == extension)?;
    let id = number.parse().ok().map(FileId).filter(|id| *id <= FILE_ID_MAX)?;
    (kind.name(id) == name).then_some((kind, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_strangers_are_not_ours() {
        let name = FileKind::Run.name(FileId(12));
        assert_eq!(name, "000012.run");
        assert_eq!(parse(&name), Some((FileKind::Run, FileId(12))));
        for stranger in
            ["12.run", "+00012.run", "000012.txt", "0000012.run", "18446744073709551615.run", "x.run", "000012", "LOCK"]
        {
            assert_eq!(parse(stranger), None);
        }
    }
}
