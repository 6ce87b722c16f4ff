//! The space that a database takes.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The space that a database takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Lengths of its files.
    pub apparent_bytes: u64,
    /// Space that the file system gave them.
    pub allocated_bytes: u64,
    /// The part of the allocated bytes that is redo log.
    pub log_bytes: u64,
}

/// Measures all below a directory; `is_log` says which files (by their whole path) are redo log. Files that vanish
/// meanwhile are left out.
///
/// # Errors
/// When a directory cannot be read.
pub fn directory_size(dir: &Path, is_log: &dyn Fn(&Path) -> bool) -> Result<Size> {
    let mut size = Size::default();
    let mut pending = vec![dir.to_owned()];
    while let Some(folder) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && folder != dir => continue,
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read the directory {}", folder.display()));
            }
        };
        for entry in entries {
            let Ok(entry) = entry else { continue };
            let path = entry.path();
            let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                pending.push(path);
                continue;
            }
            let allocated = metadata.blocks() * 512;
            size.apparent_bytes += metadata.len();
            size.allocated_bytes += allocated;
            size.log_bytes += if is_log(&path) { allocated } else { 0 };
        }
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_subdirectories_count() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("log")).unwrap();
        fs::write(dir.path().join("data"), [1; 5000]).unwrap();
        fs::write(dir.path().join("log/1.log"), [1; 10_000]).unwrap();
        let is_log = |path: &Path| path.extension().is_some_and(|extension| extension == "log");
        let size = directory_size(dir.path(), &is_log).unwrap();
        assert_eq!(size.apparent_bytes, 15_000);
        assert!((1..=size.allocated_bytes).contains(&size.log_bytes) || size.allocated_bytes == 0);
        assert!(directory_size(&dir.path().join("none"), &is_log).is_err());
    }
}
