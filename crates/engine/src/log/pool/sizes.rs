//! How many spare files there are, how large they are, and what they are filled with.
//!
//! # Sizes
//! A file made new has the size of half of what the log has written since it was opened, as a power of two, at least 1
//! MiB and at most a whole segment. Whenever a segment begins, one spare is made: so the current segment and the spare
//! together are never larger than what was written before them, and the zeros written ahead stay below twice the bytes
//! of the log, plus 2 MiB. A small database pays for little, and the sizes still double every few segments until
//! segments are whole.
//!
//! A file that is there already is used again if it is at least as large as one made now would be, and no larger than a
//! whole segment: its bytes are paid for, so a larger one is a gain whatever the log has used, and a smaller one would
//! keep segments small for ever. Once segments are whole, that leaves whole ones only, and nothing is made new any
//! more.
//!
//! For a payload that is larger than what is at hand files are made before it is appended, as large as it fills or as
//! they would be made anyway.
//!
//! Zeros are written for the sake of durable writes: one write to a place that was never written waits for the file
//! system's journal. A log whose groups have more than 128 KiB gets files for which only space is
//! reserved: zeros would double what it writes.
//!
//! What has been written is counted from the open on, not kept: a log whose spares were removed, or whose segments are
//! all in use, grows again from 1 MiB, which costs fewer zeros than a whole segment would.

use super::directory::Fill;
use crate::log::format::SECTOR;
use std::mem;

/// How many files are kept for future segments: as many as become obsolete at once when a log that is cut short is
/// flushed, so that each flush gives back what is used up to the next one.
pub(in crate::log) const SPARES_MAX: usize = 6;

/// The size in bytes of the first segments, and of one for which no spare was ready: small, so that neither an open nor
/// a commit waits for its zeros.
pub(in crate::log) const FRESH_BYTES: u64 = 1 << 20;

/// What a durable write to a place that was never written costs the file system's journal, in bytes of zeros written
/// ahead: 50 us, where a device writes 2 GB/s.
const GROUP_BYTES: u64 = 128 << 10;

/// The size of a segment file made new by a log that has written `used` bytes, and whose whole segments have `most`.
pub(in crate::log) fn new_segment_bytes(used: u64, most: u64) -> u64 {
    let grown = (used / 2).checked_ilog2().map_or(0, |log| 1 << log);
    grown.max(FRESH_BYTES).min(most)
}

/// Whether a file of `bytes` bytes that is there already is worth being used again, at that time.
pub(in crate::log) fn is_useful(bytes: u64, used: u64, most: u64) -> bool {
    (new_segment_bytes(used, most)..=most).contains(&bytes) && bytes.is_multiple_of(SECTOR)
}

/// What a log has done since it was opened.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Usage {
    /// Bytes written.
    pub(in crate::log) bytes: u64,
    /// Groups made durable.
    pub(in crate::log) groups: u64,
}

/// What is remembered from one spare to the next.
#[derive(Debug)]
pub(in crate::log) struct SpareMakes {
    next: u64,
    /// The usage when the last one was made.
    last: Usage,
}

impl SpareMakes {
    pub(in crate::log) fn new(next: u64) -> Self {
        Self { next, last: Usage::default() }
    }

    /// A number that no spare has.
    pub(in crate::log) const fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// Whether zeros are worth it for the next one, by the groups and bytes since the last.
    pub(in crate::log) fn fill(&mut self, usage: Usage) -> Fill {
        let last = mem::replace(&mut self.last, usage);
        let (groups, bytes) = (usage.groups - last.groups, usage.bytes - last.bytes);
        if bytes / GROUP_BYTES <= groups { Fill::Zeros } else { Fill::Reserved }
    }
}
