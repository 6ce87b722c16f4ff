//! The window of a reader: a part of one segment in memory.

use super::chain::SegmentFile;
use crate::base::num::{round_down, u64_of};
use crate::base::{CoveragePoint, Error, Lsn, Result};
use crate::env::{AlignedBuffer, SECTOR_BYTES};
use crate::log::format::{
    FRAGMENT_BYTES_MAX, FRAGMENT_HEADER_BYTES, FragmentKind, MARKER_BYTES, Marker, SECTOR, after, claim, distance,
    is_valid,
};

/// How much is read first, in bytes: a reader may want one fragment.
const FIRST_BYTES: usize = 64 << 10;
/// How much is read at a time, in bytes, by a reader that goes on; more than the longest fragment.
const WINDOW_BYTES: usize = 1 << 20;
const _: () = assert!(WINDOW_BYTES > FRAGMENT_BYTES_MAX + FRAGMENT_HEADER_BYTES + SECTOR_BYTES);

/// A part of one segment in memory.
#[derive(Debug, Default)]
pub(in crate::log) struct ReadWindow {
    /// The segment's number; zero before the first.
    number: u64,
    start: Lsn,
    bytes: AlignedBuffer,
    /// How much the last load was to read, in bytes: the next reads twice as much.
    asked: usize,
}

impl ReadWindow {
    /// Whether nothing was read.
    pub(super) const fn is_empty(&self) -> bool {
        self.number == 0
    }

    /// The `len` bytes of content at `at`, or `None` when they would go beyond the segment.
    pub(super) fn get(&mut self, found: &SegmentFile, at: Lsn, len: usize) -> Result<Option<&[u8]>> {
        let header = &found.header;
        if distance(at, header.end()) < len {
            return Ok(None);
        }
        let held =
            self.number == header.number && self.start <= at && after(at, len) <= after(self.start, self.bytes.len());
        if !held {
            let start = Lsn(round_down(at.0, SECTOR));
            self.load(found, start, distance(start, after(at, len)))?;
        }
        let from = distance(self.start, at);
        Ok(Some(&self.bytes[from..from + len]))
    }

    /// The kind and payload length of the valid fragment at `at`, if there is one.
    pub(super) fn fragment(&mut self, found: &SegmentFile, at: Lsn) -> Result<Option<(FragmentKind, usize)>> {
        let Some(head) = self.get(found, at, FRAGMENT_HEADER_BYTES)? else { return Ok(None) };
        let Some((kind, length)) = claim(head) else { return Ok(None) };
        let Some(fragment) = self.get(found, at, FRAGMENT_HEADER_BYTES + length)? else { return Ok(None) };
        let is_valid = is_valid(found.identity, at, fragment);
        if !is_valid {
            CoveragePoint::TornTail.mark();
        }
        Ok(is_valid.then_some((kind, length)))
    }

    /// The group marker at `at`, if there is one.
    pub(super) fn marker(&mut self, found: &SegmentFile, at: Lsn) -> Result<Option<Marker>> {
        let bytes = self.get(found, at, MARKER_BYTES)?;
        Ok(bytes.and_then(|bytes| Marker::find(found.identity, at, bytes)))
    }

    /// Loads at least `least` bytes, which the segment has.
    fn load(&mut self, found: &SegmentFile, start: Lsn, least: usize) -> Result<()> {
        let header = &found.header;
        let twice = (2 * self.asked).clamp(FIRST_BYTES, WINDOW_BYTES);
        self.asked = if twice < least { WINDOW_BYTES } else { twice };
        let len = distance(start, header.end()).min(self.asked);
        (self.number, self.start) = (header.number, start);
        self.bytes.resize(len);
        let offset = header.offset_of(start);
        let read =
            found.file.read_at(&mut self.bytes, offset).map_err(|error| Error::io("read", &found.path, error))?;
        self.bytes[read..].fill(0);
        if read < len && !found.is_cut() {
            let at = offset + u64_of(read);
            return Err(Error::corruption(&found.path, at, "the segment is cut off"));
        }
        Ok(())
    }
}
