//! How many files wait for their use as segments, how large they are, and what they are filled with.

use super::format::SECTOR;
use super::segment::Fill;

/// How many files are kept for future segments: as many as become obsolete at once when a log that is cut short is
/// flushed, so that each flush gives back what is used up to the next one.
pub(super) const SPARES_MAX: usize = 6;

/// The size in bytes of the first segments, and of one for which no spare was ready: small, so that neither an open nor
/// a commit waits for its zeros.
pub(super) const FRESH_BYTES: u64 = 1 << 20;

/// What a force into a place that was never written costs the file system's journal, in bytes of zeros written ahead:
/// 50 us, where a device writes 2 GB/s.
const FORCE_BYTES: u64 = 128 << 10;

/// The size of a segment file made new by a log that has written `used` bytes, and whose whole segments have `most`.
pub(super) fn new_segment_bytes(used: u64, most: u64) -> u64 {
    let grown = (used / 2).checked_ilog2().map_or(0, |log| 1 << log);
    grown.max(FRESH_BYTES).min(most)
}

/// Whether a file of `bytes` bytes that is there already is worth being used again, at that time.
pub(super) fn is_useful(bytes: u64, used: u64, most: u64) -> bool {
    (new_segment_bytes(used, most)..=most).contains(&bytes) && bytes.is_multiple_of(SECTOR)
}

/// What is remembered from one spare to the next.
#[derive(Debug)]
pub(super) struct SpareMakes {
    next: u64,
    /// The forces, and the bytes written, until the last one was made.
    forces: u64,
    used: u64,
}

impl SpareMakes {
    pub(super) const fn new(next: u64) -> Self {
        Self { next, forces: 0, used: 0 }
    }

    /// A number that no spare has.
    pub(super) const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Whether zeros are worth it for the next one, by what went on since the last.
    pub(super) const fn fill(&mut self, forces: u64, used: u64) -> Fill {
        let (more_forces, more_used) = (forces - self.forces, used - self.used);
        (self.forces, self.used) = (forces, used);
        if more_used / FORCE_BYTES <= more_forces { Fill::Zeros } else { Fill::Room }
    }
}
