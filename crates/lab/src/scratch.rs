//! The directory that a benchmark works in, which never takes away what is not its own.

use anyhow::{Context as _, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A file in the directory that says the rest of it may be removed.
const MARKER: &str = "spinney-bench";

/// A directory for the data of a benchmark, empty at first, removed when dropped.
///
/// # Invariants
/// 1. A directory that was not empty and has no marker is refused.
/// 2. A directory that was there before is emptied, not removed.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    created: bool,
    keep: bool,
}

impl Scratch {
    /// Prepares `dir`, or a new directory below `./target` (which is on a real disk more often than the system's
    /// temporary directory; that one is next). With `keep` the data stays when the benchmark ends.
    ///
    /// # Errors
    /// When the directory cannot be made, or holds something that is not left over from a benchmark.
    pub fn new(dir: Option<&Path>, keep: bool) -> Result<Self> {
        let path = dir.map_or_else(default_path, Path::to_owned);
        let created = !path.exists();
        if created {
            fs::create_dir_all(&path).with_context(|| format!("cannot create the directory {}", path.display()))?;
        } else if !path.is_dir() {
            bail!("{} is not a directory", path.display());
        } else if !entries(&path)?.is_empty() && !path.join(MARKER).is_file() {
            bail!("the directory {} is not empty and not left over from a benchmark; give another one", path.display());
        } else {
            empty(&path)?;
        }
        let marker = path.join(MARKER);
        fs::write(&marker, "Data of a spinney benchmark; may be removed.\n")
            .with_context(|| format!("cannot write {}", marker.display()))?;
        Ok(Self { path, created, keep })
    }

    /// The directory of a benchmark that was interrupted, with all that is there.
    ///
    /// # Errors
    /// When it is none.
    pub fn again(dir: &Path, keep: bool) -> Result<Self> {
        if !dir.join(MARKER).is_file() {
            bail!("the directory {} is not left over from a benchmark, so there is none to go on with", dir.display());
        }
        Ok(Self { path: dir.to_owned(), created: false, keep })
    }

    /// Whether all data stays where it is when the benchmark ends.
    pub fn keep(&mut self, keep: bool) {
        self.keep = keep;
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A name below it that is not in use: what was there is removed.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn fresh(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("cannot remove {}", path.display()))?;
        }
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // The benchmark has printed its result: data that cannot be removed is no reason to fail.
        let removed = if self.created { fs::remove_dir_all(&self.path).map_err(Into::into) } else { empty(&self.path) };
        drop(removed);
    }
}

fn default_path() -> PathBuf {
    let target = PathBuf::from("target");
    let parent = if target.is_dir() { target } else { std::env::temp_dir() };
    parent.join(format!("{MARKER}-{}", std::process::id()))
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let read = || fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>();
    read().with_context(|| format!("cannot read the directory {}", dir.display()))
}

/// Removes what is in `dir`, the marker last, so that a half-emptied directory is still known as ours.
fn empty(dir: &Path) -> Result<()> {
    let marker = dir.join(MARKER);
    let others = entries(dir)?.into_iter().filter(|path| *path != marker);
    for path in others {
        let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    if marker.exists() {
        fs::remove_file(&marker).with_context(|| format!("cannot remove {}", marker.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_gone_on_with_keeps_what_it_has() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Scratch::again(dir.path(), false).is_err());
        let mut first = Scratch::new(Some(dir.path()), false).unwrap();
        fs::write(dir.path().join("data"), "1").unwrap();
        first.keep(true);
        drop(first);
        let again = Scratch::again(dir.path(), false).unwrap();
        assert!(again.path().join("data").exists());
        drop(again);
        assert!(!dir.path().join("data").exists());
    }

    #[test]
    fn a_directory_with_foreign_files_is_refused_and_untouched() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "mine").unwrap();
        let error = Scratch::new(Some(dir.path()), false).unwrap_err();
        assert!(error.to_string().contains("not empty"), "{error}");
        assert_eq!(fs::read(dir.path().join("thesis.tex")).unwrap(), b"mine");
    }

    #[test]
    fn a_file_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Scratch::new(Some(file.path()), false).is_err());
    }

    #[test]
    fn a_directory_that_was_there_is_emptied_and_one_that_was_not_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        drop(Scratch::new(Some(&inner), false).unwrap());
        assert!(!inner.exists());
        let scratch = Scratch::new(Some(dir.path()), false);
        assert!(scratch.is_err(), "`a` is left and is not ours");
        fs::remove_dir(dir.path().join("a")).unwrap();
        let scratch = Scratch::new(Some(dir.path()), false).unwrap();
        fs::create_dir(scratch.fresh("lsm").unwrap()).unwrap();
        drop(scratch);
        assert!(entries(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn data_that_was_kept_can_be_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::new(Some(dir.path()), true).unwrap();
        fs::write(scratch.path().join("left"), "over").unwrap();
        drop(scratch);
        assert!(dir.path().join("left").exists());
        let scratch = Scratch::new(Some(dir.path()), true).unwrap();
        assert!(!scratch.path().join("left").exists());
    }
}
