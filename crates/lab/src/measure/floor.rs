//! The floor under a durable commit: writes of 4 KiB to a file that is written already, each on the device before the
//! next.

use anyhow::{Context as _, Result};
use nix::libc::{O_DIRECT, O_DSYNC};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Bytes of a write.
pub const WRITE_BYTES: usize = 4096;
/// The shortest and the longest file; the writes go round in it.
const FILE_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=64 << 20;

/// A file for durable writes, which go round in it.
#[derive(Debug)]
pub struct Floor {
    file: File,
    direct: bool,
    at: u64,
    /// The length of the file.
    len: u64,
    /// A write's worth of bytes and as many to spare, for the alignment that direct I/O wants.
    buffer: Vec<u8>,
}

impl Floor {
    /// Makes a file for about so many writes and writes it in full, so that later writes change no metadata.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, writes: u64) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let len = writes.saturating_mul(WRITE_BYTES as u64).clamp(*FILE_BYTES.start(), *FILE_BYTES.end());
        std::fs::write(path, vec![0x5a; usize::try_from(len)?]).with_context(cannot)?;
        let (file, direct) = match open(path, O_DSYNC | O_DIRECT) {
            Ok(file) => (file, true),
            Err(_) => (open(path, O_DSYNC).with_context(cannot)?, false),
        };
        file.sync_all().with_context(cannot)?;
        Ok(Self { file, direct, at: 0, len, buffer: vec![0xa5; 2 * WRITE_BYTES] })
    }

    /// Whether the writes pass the page cache by.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Writes the next block, and returns when it is on the device.
    ///
    /// # Errors
    /// What the system says.
    pub fn write(&mut self) -> Result<()> {
        let start = self.buffer.as_ptr().align_offset(WRITE_BYTES);
        self.file.write_all_at(&self.buffer[start..start + WRITE_BYTES], self.at)?;
        self.at = (self.at + WRITE_BYTES as u64) % self.len;
        Ok(())
    }
}

#[expect(clippy::disallowed_methods, reason = "the bare device is what the engine is compared with")]
fn open(path: &Path, flags: i32) -> std::io::Result<File> {
    OpenOptions::new().write(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_land_one_after_the_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        let mut floor = Floor::create(&path, 2).unwrap();
        floor.write().unwrap();
        floor.write().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len() as u64, *FILE_BYTES.start());
        assert!(bytes[..2 * WRITE_BYTES].iter().all(|&byte| byte == 0xa5));
        assert_eq!(bytes[2 * WRITE_BYTES], 0x5a);
    }
}
