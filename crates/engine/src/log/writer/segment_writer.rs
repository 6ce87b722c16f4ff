//! The segment writer: where the bytes of a batch go, in which segment, and by which call.
//!
//! # Pages filled ahead
//! A buffered write that goes to a new page fills it up with zeros, so that it is not read from the device, and more
//! pages after it: as many bytes as were written since the last group was made durable, up to 64 KiB; none after a
//! larger write. These are mapped, and a stream of small commits needs no system call to reach them. While it goes on,
//! a background worker fills as many again before they are used up. A sync never writes more than three times what it
//! has to.

use crate::base::num::u64_of;
use crate::base::{Error, Lsn, Result};
use crate::env::AlignedBuffer;
use crate::log::buffer::builder::{Batch, SegmentChunk};
use crate::log::buffer::window::MappedRange;
use crate::log::format::{SECTOR, after, distance, sector_up};
use crate::log::pool::SegmentPool;
use crate::log::pool::directory::Segment;
use crate::log::stats::{WriteCounters, count};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The most zeros that a commit writes ahead.
const AHEAD_BYTES_MAX: u64 = 64 << 10;
/// What a background worker writes ahead of a stream of commits.
static ZEROS: [u8; 512 << 10] = [0; _];
/// Larger buffers are given back to the system after their write. Commits of a MiB come one after the other, and a new
/// buffer for each took more time than the copy into it: the system clears its pages.
const KEPT_BUFFER_BYTES_MAX: usize = 2176 << 10;

/// Writes batches to segments. It opens segments and knows what the page cache holds of the current one. Direct writes
/// and syncs happen outside, without its latch.
#[derive(Debug)]
pub(super) struct SegmentWriter {
    pool: Arc<SegmentPool>,
    counters: Arc<WriteCounters>,
    current: Arc<Segment>,
    /// Segments with buffered bytes that are not known to be durable, oldest first.
    pub(super) unsynced: Vec<Arc<Segment>>,
    /// The page cache holds whole pages up to here.
    filled_to: Lsn,
    /// Up to where a sync has found pages filled ahead.
    synced_to: Lsn,
    /// Where the group that is not ended yet begins.
    group_start: Lsn,
}

/// Bytes that are to be written durably, and where they go.
#[derive(Debug)]
pub(super) struct DirectWrite {
    segment: Arc<Segment>,
    offset: u64,
    bytes: AlignedBuffer,
}

impl SegmentWriter {
    /// Of a log that begins with an empty segment.
    pub(super) fn new(current: Arc<Segment>, pool: Arc<SegmentPool>, counters: Arc<WriteCounters>) -> Self {
        let first = current.header.first;
        let unsynced = Vec::new();
        Self { pool, counters, current, unsynced, filled_to: first, synced_to: first, group_start: first }
    }

    /// The segment that is written.
    pub(super) const fn current(&self) -> &Arc<Segment> {
        &self.current
    }

    /// Whether all buffered bytes are known to be durable.
    pub(super) const fn is_synced(&self) -> bool {
        self.unsynced.is_empty()
    }

    /// The next group begins at `next`.
    pub(super) const fn end_group(&mut self, next: Lsn) {
        self.group_start = next;
    }

    /// The current segment is written through the page cache: the next group syncs it.
    pub(super) fn expect_sync(&mut self) {
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, &self.current)) {
            self.unsynced.push(Arc::clone(&self.current));
        }
    }

    /// Takes the segments with buffered bytes, to be synced. The zeros that were filled ahead count as written now.
    pub(super) fn take_unsynced(&mut self) -> Vec<Arc<Segment>> {
        let synced = mem::replace(&mut self.synced_to, self.filled_to).max(self.group_start);
        count(&self.counters.written_bytes, self.filled_to.0.saturating_sub(synced.0));
        mem::take(&mut self.unsynced)
    }

    /// Whether there are segments before the current one that are to be synced.
    pub(super) fn has_full_unsynced(&self) -> bool {
        self.unsynced.iter().any(|segment| segment.header.number < self.current.header.number)
    }

    /// Takes the segments before the current one that are to be synced.
    pub(super) fn take_full_unsynced(&mut self) -> Vec<Arc<Segment>> {
        let current = self.current.header.number;
        self.unsynced.extract_if(.., |segment| segment.header.number < current).collect()
    }

    /// Forgets the segments up to number `last`, which were released.
    pub(super) fn forget_up_to(&mut self, last: u64) {
        self.unsynced.retain(|segment| segment.header.number > last);
    }

    /// Writes a batch through the page cache, and empties it. No direct write may be in flight. Returns the pages that
    /// were filled ahead.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub(super) fn write(&mut self, batch: &mut Batch) -> Result<Option<MappedRange>> {
        for mut chunk in mem::take(&mut batch.full) {
            self.write_chunk(&mut chunk)?;
        }
        self.write_chunk(&mut batch.last)
    }

    /// Writes a chunk through the page cache, and empties it.
    fn write_chunk(&mut self, chunk: &mut SegmentChunk) -> Result<Option<MappedRange>> {
        let bytes = chunk.bytes.len();
        if bytes == 0 {
            return Ok(None);
        }
        let offset = self.place(chunk, false)?;
        self.expect_sync();
        let written = self.current.buffered.write_at(&chunk.bytes, offset);
        written.map_err(|error| Error::io("write", &self.current.path, error))?;
        self.counters.wrote_alone(bytes);
        let ahead = offset + u64_of(bytes)..offset + u64_of(chunk.bytes.len());
        count(&self.counters.filled_bytes, ahead.end - ahead.start);
        empty(&mut chunk.bytes);
        Ok(self.map(ahead))
    }

    /// Fills more pages of the current segment with zeros, where the log ends at `end`. `None` when there are enough.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub(super) fn fill_ahead(&mut self, end: Lsn) -> Result<Option<MappedRange>> {
        let (current, from) = (&self.current, self.filled_to);
        let most = self.group_bytes(end).min(u64_of(ZEROS.len()));
        let to = sector_up(from.plus(most)).min(current.header.end());
        if to <= from || from.0 >= end.0 + most {
            return Ok(None);
        }
        let range = current.header.offset_of(from)..current.header.offset_of(to);
        let written = current.buffered.write_at(&ZEROS[..distance(from, to)], range.start);
        written.map_err(|error| Error::io("write", &current.path, error))?;
        self.filled_to = to;
        count(&self.counters.filled_bytes, range.end - range.start);
        Ok(self.map(range))
    }

    /// Places a batch, to be written durably past the page cache, and empties it.
    ///
    /// # Errors
    /// `Full` or `Io`.
    pub(super) fn place_direct(&mut self, batch: &mut Batch) -> Result<Vec<DirectWrite>> {
        let mut placed = Vec::with_capacity(batch.full.len() + 1);
        let mut full = mem::take(&mut batch.full);
        for chunk in full.iter_mut().chain([&mut batch.last]) {
            let offset = if chunk.bytes.is_empty() { 0 } else { self.place(chunk, true)? };
            let (segment, bytes) = (Arc::clone(&self.current), mem::take(&mut chunk.bytes));
            placed.push(DirectWrite { segment, offset, bytes });
        }
        Ok(placed)
    }

    /// Says where a chunk goes, in whole sectors or at the end of pages that were filled before, and makes the segment
    /// for it.
    #[inline]
    fn place(&mut self, chunk: &mut SegmentChunk, durably: bool) -> Result<u64> {
        if chunk.segment.number != self.current.header.number {
            self.current = self.pool.begin(&self.current, chunk.segment, chunk.spare.take(), durably)?;
        }
        let end = after(chunk.start, chunk.bytes.len());
        if durably || end > self.filled_to {
            // What is large is no part of a stream of small commits.
            let is_large = u64_of(chunk.bytes.len()) > AHEAD_BYTES_MAX;
            let ahead = if durably || is_large { 0 } else { self.group_bytes(end).min(AHEAD_BYTES_MAX) };
            self.filled_to = sector_up(end.plus(ahead)).min(chunk.segment.end());
            chunk.bytes.resize(distance(chunk.start, self.filled_to));
        }
        Ok(chunk.segment.offset_of(chunk.start))
    }

    /// Bytes of the group that is not ended yet, of a log that ends at `end`: as many may be written ahead.
    const fn group_bytes(&self, end: Lsn) -> u64 {
        end.0.saturating_sub(self.group_start.0)
    }

    /// Maps a range that was just written, if it is long enough to gain from it.
    fn map(&self, range: Range<u64>) -> Option<MappedRange> {
        if range.end - range.start < SECTOR {
            return None;
        }
        let pages = self.current.buffered.map(range.clone())?;
        Some((range, pages))
    }
}

/// Writes durably, in order, and gives the last buffer back, empty, and the time of the last write.
///
/// # Errors
/// `Full` or `Io`.
pub(super) fn write_durably(
    writes: Vec<DirectWrite>,
    pool: &SegmentPool,
    counters: &WriteCounters,
) -> Result<(AlignedBuffer, Option<Duration>)> {
    let (clock, mut last, mut time) = (pool.clock(), AlignedBuffer::default(), None);
    for DirectWrite { segment, offset, mut bytes } in writes {
        if !bytes.is_empty() {
            let begun = clock.now();
            let written = segment.direct.write_durable_at(&bytes, offset);
            time = Some(counters.synced(clock, begun));
            written.map_err(|error| Error::io("write", &segment.path, error))?;
            counters.wrote(bytes.len());
            empty(&mut bytes);
        }
        last = bytes;
    }
    Ok((last, time))
}

/// Makes segments durable that were written through the page cache.
///
/// # Errors
/// `Io`.
pub(super) fn sync_segments(segments: &[Arc<Segment>], pool: &SegmentPool, counters: &WriteCounters) -> Result<()> {
    let clock = pool.clock();
    for segment in segments {
        let begun = clock.now();
        segment.buffered.sync().map_err(|error| Error::io("sync", &segment.path, error))?;
        pool.directory.keep_name(segment)?;
        counters.synced(clock, begun);
    }
    Ok(())
}

/// Empties a buffer, and gives its memory back if a large commit has made it large.
fn empty(buffer: &mut AlignedBuffer) {
    if buffer.capacity() > KEPT_BUFFER_BYTES_MAX {
        *buffer = AlignedBuffer::default();
    }
    buffer.clear();
}
