//! The space that a database takes.

use anyhow::{Context as _, Result};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The size of everything below a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DirectorySize {
    /// Lengths of the files.
    pub file_bytes: u64,
    /// Space that the file system gave them.
    pub allocated_bytes: u64,
    /// The part of `allocated_bytes` in directories named `log`: redo log segments, of which some are written in full beforehand.
    pub log_bytes: u64,
}

impl DirectorySize {
    /// Measures a directory and all below it. Files that vanish meanwhile are left out.
    ///
    /// # Errors
    /// When a directory cannot be read.
    pub fn of(dir: &Path) -> Result<Self> {
        let mut size = Self::default();
        let mut pending = vec![dir.to_owned()];
        while let Some(dir) = pending.pop() {
            let is_log = dir.ends_with("log");
            let cannot = || format!("cannot read the directory {}", dir.display());
            for entry in fs::read_dir(&dir).with_context(cannot)? {
                let path = entry.with_context(cannot)?.path();
                let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
                if metadata.is_dir() {
                    pending.push(path);
                    continue;
                }
                let allocated = metadata.blocks() * 512;
                size.file_bytes += metadata.len();
                size.allocated_bytes += allocated;
                size.log_bytes += if is_log { allocated } else { 0 };
            }
        }
        Ok(size)
    }

    /// The space without the redo log.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        self.allocated_bytes - self.log_bytes
    }
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
        let size = DirectorySize::of(dir.path()).unwrap();
        assert_eq!(size.file_bytes, 15_000);
        assert!((1..=size.allocated_bytes).contains(&size.log_bytes) || size.allocated_bytes == 0);
        assert!(DirectorySize::of(&dir.path().join("none")).is_err());
    }
}
