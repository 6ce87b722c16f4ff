//! What a log writer can be told.

use super::format::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::base::compress::Compression;
use crate::base::num::u64_of;
use crate::base::options::names;
use crate::base::{Error, Result};
use crate::env::SECTOR_BYTES;
use std::time::Duration;

/// How payloads of the redo log are compressed: each commit by itself, by the thread that commits, and only where it
/// saves a 4 KiB block.
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

names! { LogCompression, "compression of the redo log", { Off => "off", Lz4 => "lz4", Zstd => "zstd", } }

impl LogCompression {
    pub(crate) const fn method(self) -> Compression {
        match self {
            Self::Off => Compression::None,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }
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
    /// What is kept that no recovery needs. Default: nothing.
    pub history: LogHistory,
}

/// How much of the log is kept for readers to come, beside what recovery needs and what readers pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogHistory {
    /// The last segments of together no more than this number of bytes.
    pub bytes: u64,
    /// The segments that were written to so lately, of together no more than [`Self::bytes_max`]. How old those are
    /// that an open finds is not known: they count as written then.
    pub time: Duration,
    /// See [`Self::time`].
    pub bytes_max: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self { segment_bytes: 32 << 20, direct: true, compression: LogCompression::Off, history: LogHistory::default() }
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
