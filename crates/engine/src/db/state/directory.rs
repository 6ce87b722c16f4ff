//! The database's directory: its lock, which files in it are the database's, and how names become durable.

use std::collections::HashSet;
use std::path::Path;

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::{DirEntry, Env, FileLock};
use crate::table::catalog::Catalog;
use crate::table::files::{self, FileKind};

/// The number that seeds the checksums of a file's blocks.
pub(crate) fn identity(database_id: u64, id: FileId) -> u64 {
    database_id ^ (id.0 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

/// Whether a file is one of the two of a manifest.
pub(crate) fn is_of_manifest(name: &str) -> bool {
    matches!(files::parse(name), Some((FileKind::Manifest | FileKind::ManifestCopy, _)))
}

/// The files that a catalog names. It names no manifest.
#[derive(Debug, Default)]
pub(crate) struct NamedFiles {
    runs: HashSet<FileId>,
    values: HashSet<FileId>,
    trees: HashSet<FileId>,
}

impl NamedFiles {
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let mut named = Self::default();
        for table in catalog.tables.values() {
            named.runs.extend(table.runs().map(|run| run.id));
            named.values.extend(table.values());
            named.trees.extend(table.tree.iter().map(|(file, _)| *file));
        }
        named
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.runs.len() + self.values.len() + self.trees.len()
    }

    pub(crate) fn contain(&self, kind: FileKind, id: FileId) -> bool {
        match kind {
            FileKind::Manifest | FileKind::ManifestCopy => false,
            FileKind::Run => self.runs.contains(&id),
            FileKind::Values => self.values.contains(&id),
            FileKind::Tree => self.trees.contains(&id),
        }
    }

    /// Whether a file is one of a database, and none of these.
    pub(crate) fn leave_out(&self, entry: &DirEntry) -> bool {
        files::parse(&entry.name).is_some_and(|(kind, id)| !self.contain(kind, id))
    }
}

/// Whether an entry is one that file systems make by themselves.
pub(crate) fn is_lost_and_found(entry: &DirEntry) -> bool {
    entry.is_dir && entry.name == files::LOST_AND_FOUND
}

/// Takes the lock of the database in `dir`.
pub(crate) fn lock_file(env: &Env, dir: &Path) -> Result<Box<dyn FileLock>> {
    let path = dir.join(files::LOCK);
    env.fs.lock(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock => {
            let holder = env.fs.lock_holder(&path).map_or("another process".to_owned(), |holder| holder);
            Error::new(ErrorKind::Locked, format!("{}: the database is open in {holder}", dir.display()))
        }
        _ => Error::io("lock", &path, error),
    })
}

/// Makes durable what a process that died may have left in the page cache.
pub(crate) fn sync_all(env: &Env, dir: &Path, entries: &[DirEntry]) -> Result<()> {
    let is_ours = |entry: &&DirEntry| entry.name == files::CURRENT || files::parse(&entry.name).is_some();
    let names: Vec<_> = entries.iter().filter(is_ours).map(|entry| entry.name.clone()).collect();
    env.fs.sync_files(dir, &names).map_err(|(path, error)| Error::io("sync", &path, error))
}

/// Makes the name of a directory, and of those above it, durable.
pub(crate) fn sync_above(env: &Env, dir: &Path) -> Result<()> {
    for above in dir.ancestors().skip(1) {
        match env.fs.sync_dir(above) {
            Err(error) if error.kind() != std::io::ErrorKind::PermissionDenied => {
                return Err(Error::io("sync", above, error));
            }
            _ => {}
        }
    }
    Ok(())
}
