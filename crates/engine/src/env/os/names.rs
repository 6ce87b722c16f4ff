//! Directories by name: making and listing them, alike for both file systems of the operating system.

use super::super::file::DirEntry;
use std::fs;
use std::io;
use std::path::Path;

/// Makes a directory and those that hold it, each durable in its parent by `sync_dir`.
pub(super) fn create_dir_all(path: &Path, sync_dir: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.is_dir() {
        return Ok(());
    }
    let parent = parent(path);
    create_dir_all(parent, sync_dir)?;
    match fs::create_dir(path) {
        // Another process was faster, and may not have synced the parent yet.
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        _ => sync_dir(parent),
    }
}

/// How many names a file has, where the system tells.
pub(super) fn link_count(path: &Path) -> io::Result<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        fs::metadata(path).map(|metadata| metadata.nlink())
    }
    #[cfg(not(unix))]
    {
        fs::metadata(path)?;
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// What is in a directory, by name. Names that are not UTF-8 are left out: no file of the engine has one.
pub(super) fn list(dir: &Path) -> io::Result<Vec<DirEntry>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        match fs::metadata(entry.path()) {
            Ok(metadata) => {
                let is_dir = metadata.is_dir();
                entries.push(DirEntry { name, bytes: if is_dir { 0 } else { metadata.len() }, is_dir });
            }
            // Removed since it was read.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    Ok(entries)
}

/// The process that holds a lock file, which says so itself; on Linux with the name of its program.
pub(super) fn lock_holder(path: &Path) -> Option<String> {
    let id: u32 = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    let name = fs::read_to_string(format!("/proc/{id}/comm")).ok();
    let name = name.map(|name| name.trim().escape_debug().to_string()).filter(|name| !name.is_empty());
    Some(name.map_or_else(|| format!("process {id}"), |name| format!("process {id} ({name})")))
}

/// The directory that holds `path`.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => path,
    }
}
