//! What the kernel counts for the block device below a directory.

use super::proc::ProcFile;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The counters of a block device, over all processes that use it.
#[derive(Debug)]
pub struct DeviceStats(ProcFile);

/// A reading of the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Read requests completed.
    pub reads: u64,
    /// Write requests completed.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

impl DeviceCounts {
    /// What was counted since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            reads: self.reads.saturating_sub(earlier.reads),
            writes: self.writes.saturating_sub(earlier.writes),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
        }
    }
}

/// The unit of the kernel's counters, whatever the device's sectors are.
const SECTOR_BYTES: u64 = 512;

impl DeviceStats {
    /// The device that `dir` lies on; `None` when it is on no block device or the kernel does not count it.
    #[must_use]
    pub fn below(dir: &Path) -> Option<Self> {
        let device = fs::metadata(dir).ok()?.dev();
        let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
        let stats = Self(ProcFile::open(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?);
        stats.read().map(|_| stats)
    }

    /// The counters now.
    #[must_use]
    pub fn read(&self) -> Option<DeviceCounts> {
        parse(&self.0.text().ok()?)
    }
}

/// Fields of `/sys/block/*/stat`: reads, reads merged, sectors read, ms, writes, writes merged, sectors written, ...
fn parse(text: &str) -> Option<DeviceCounts> {
    let fields: Vec<u64> = text.split_ascii_whitespace().map_while(|field| field.parse().ok()).collect();
    let (&reads, &read, &writes, &written) = (fields.first()?, fields.get(2)?, fields.get(4)?, fields.get(6)?);
    Some(DeviceCounts { reads, writes, read_bytes: read * SECTOR_BYTES, written_bytes: written * SECTOR_BYTES })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_in_their_places() {
        let text = "    100   2   300   4   500   6   700   8   9   10   11\n";
        assert_eq!(
            parse(text),
            Some(DeviceCounts { reads: 100, writes: 500, read_bytes: 153_600, written_bytes: 358_400 })
        );
        assert_eq!(parse("1 2 3"), None);
    }
}
