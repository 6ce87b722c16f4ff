//! The database's directory: its lock, which files in it are the database's, and how names become durable.

use std::path::Path;

use crate::base::{Error, ErrorKind, FileId, Result};
use crate::env::{Access, DirEntry, Env, FileLock, OpenOptions};
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

/// Whether a file is one of a database that the catalog does not name, as it names no manifest.
pub(crate) fn is_obsolete(entry: &DirEntry, catalog: &Catalog) -> bool {
    files::parse(&entry.name).is_some_and(|(kind, id)| !is_named(kind, id, catalog))
}

/// Whether the catalog names a file. It names no manifest.
pub(crate) fn is_named(kind: FileKind, id: FileId, catalog: &Catalog) -> bool {
    catalog.tables.values().any(|table| match kind {
        FileKind::Manifest | FileKind::ManifestCopy => false,
        FileKind::Run => table.runs().any(|run| run.id == id),
        FileKind::Values => table.values().contains(&id),
        FileKind::Tree => table.tree.as_ref().is_some_and(|(file, _)| *file == id),
    })
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
            Error::new(ErrorKind::Locked, format!("{}: the database is open in another process", dir.display()))
        }
        _ => Error::io("lock", &path, error),
    })
}

/// Makes durable what a process that died may have left in the page cache.
pub(crate) fn sync_all(env: &Env, dir: &Path, entries: &[DirEntry]) -> Result<()> {
    for entry in entries.iter().filter(|entry| entry.name == files::CURRENT || files::parse(&entry.name).is_some()) {
        let path = dir.join(&entry.name);
        let file = env.fs.open(&path, OpenOptions { access: Access::Read, direct: false });
        file.and_then(|file| file.sync()).map_err(|error| Error::io("sync", &path, error))?;
    }
    env.fs.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
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
