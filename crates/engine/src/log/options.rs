//! What a log writer can be told.

use super::format::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::base::num::u64_of;
use crate::base::{Error, Result};
use crate::env::SECTOR_BYTES;

/// How the log is written. May differ from one open to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file in bytes, a multiple of 4096. Larger segments are changed less often; smaller ones give space back
    /// earlier. Default 64 MiB, from 64 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Pass the page cache by where it saves a system call: a lone durable commit is then one write. Default true; where the file
    /// system cannot, it makes no difference.
    pub direct: bool,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 64 << 20, direct: true }
    }
}

impl LogOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// `Invalid` when the segment size is out of range or not a multiple of 4096.
    pub fn check(&self) -> Result<()> {
        let bytes = self.segment_bytes;
        if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) || !bytes.is_multiple_of(u64_of(SECTOR_BYTES)) {
            return Err(Error::invalid(format!(
                "a log segment of {bytes} bytes is not possible: give a multiple of 4096 from 64 KiB to 1 GiB"
            )));
        }
        Ok(())
    }
}
