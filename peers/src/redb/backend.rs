//! redb's file without its syncs: commits reach the page cache, and so outlive the process.

use ::redb::StorageBackend;
use ::redb::backends::FileBackend;
use anyhow::{Context as _, Result};
use std::fs::{File, OpenOptions};
use std::io::Error;
use std::path::Path;

/// The file.
#[derive(Debug)]
pub(super) struct Unsynced(FileBackend);

impl Unsynced {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self(FileBackend::new(open(path)?)?))
    }
}

/// Opens or makes a file for reading and writing.
#[expect(clippy::disallowed_methods, reason = "a driver of another engine has no environment of ours")]
pub(super) fn open(path: &Path) -> Result<File> {
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

impl StorageBackend for Unsynced {
    fn len(&self) -> Result<u64, Error> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), Error> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> Result<(), Error> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), Error> {
        self.0.write(offset, data)
    }

    fn close(&self) -> Result<(), Error> {
        self.0.close()
    }
}
