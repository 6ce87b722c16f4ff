//! What a log writer can be told.

use super::format::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::base::compress::Compression;
use crate::base::num::u64_of;
use crate::base::{Error, Result};
use crate::env::SECTOR_BYTES;

/// How payloads of the redo log are compressed: each commit by itself, by the thread that commits, and only where it
/// saves a 4 KiB block of the padded log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LogCompression {
    /// Not at all.
    #[default]
    Off,
    /// LZ4: takes the least time.
    Lz4,
    /// Zstandard at a low level: smaller, and several times slower.
    Zstd,
}

impl LogCompression {
    pub(crate) const fn method(self) -> Compression {
        match self {
            Self::Off => Compression::None,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }
}

/// Where a group of commits that is made durable ends in the redo log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
#[non_exhaustive]
pub enum LogPadding {
    /// At a multiple of 4 KiB: what was acknowledged is never written again, and a group is one direct write.
    #[default]
    Block,
    /// With its last byte: the log is shorter. The next group writes the last page again, with the acknowledged bytes
    /// unchanged, so a commit goes through the page cache and then syncs; and the device must write sectors of 512
    /// bytes whole or not at all.
    None,
}

/// How the log is written. May differ from one open to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Size of a segment file in bytes, a multiple of 4096. Larger segments are changed less often; smaller ones give
    /// space back earlier. Default 32 MiB, from 64 KiB to 1 GiB.
    pub segment_bytes: u64,
    /// Pass the page cache by where it saves a system call: a lone durable commit is then one write. Default true;
    /// where the file system cannot, it makes no difference.
    pub direct: bool,
    /// How payloads are compressed. Default: not at all.
    pub compression: LogCompression,
    /// Where groups end. Default: at a multiple of 4 KiB.
    pub padding: LogPadding,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, direct: true, compression: LogCompression::Off, padding: LogPadding::Block }
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
