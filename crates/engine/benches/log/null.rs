//! Files that swallow what is written and hold nothing: what is left of a write is the writer's own work.

use spinney::env::{DirEntry, Env, File, FileLock, FileSystem, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Debug)]
struct Null;

/// The operating system, but for its files.
pub(crate) fn env() -> Env {
    Env { fs: Arc::new(Null), ..Env::os() }
}

impl FileLock for Null {}

impl FileSystem for Null {
    fn open(&self, _path: &Path, _options: OpenOptions) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(Null))
    }

    fn create_dir_all(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn list(&self, _dir: &Path) -> io::Result<Vec<DirEntry>> {
        Ok(Vec::new())
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn hard_link(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        Ok(())
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _path: &Path) -> io::Result<Box<dyn FileLock>> {
        Ok(Box::new(Null))
    }

    fn free_bytes(&self, _dir: &Path) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        Ok(path.to_owned())
    }
}

impl File for Null {
    fn read_at(&self, _buffer: &mut [u8], _offset: u64) -> io::Result<usize> {
        Ok(0)
    }

    fn write_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn write_durable_at(&self, _bytes: &[u8], _offset: u64) -> io::Result<()> {
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn len(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn allocate(&self, _bytes: u64) -> io::Result<bool> {
        Ok(true)
    }

    fn punch_hole(&self, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    fn alignment(&self) -> usize {
        1
    }

    fn read_alignment(&self) -> usize {
        1
    }
}
