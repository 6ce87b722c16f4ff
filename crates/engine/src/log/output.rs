//! What goes from the tail to the files: where bytes belong, in which segment, and by which call.
//!
//! # Pages filled ahead
//! A buffered write that goes to a new page fills it up with zeros, so that it is not read from the device, and more
//! pages behind it: as many bytes as were written since the last force, up to 64 KiB; none behind a larger write. These
//! are mapped, and a stream of small commits needs no system call to reach them. While it goes on, a background worker
//! fills as many again before they are used up. A force never writes more than three times what it has to.

use super::files::{Files, Io, Placed};
use super::format::{SegmentHeader, after, distance, sector_up};
use super::paged::Mapped;
use super::segment::{Live, Segment, Spare};
use super::stats::count;
use super::tail::Chunk;
use super::writer::LogWriter;
use crate::base::num::u64_of;
use crate::base::{Error, Lsn, Result};
use crate::env::AlignedBuffer;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The most zeros that a commit writes ahead.
const AHEAD_BYTES_MAX: u64 = 64 << 10;
/// What a background worker writes ahead of a stream of commits.
static ZEROS: [u8; 512 << 10] = [0; _];
/// Larger buffers are given back to the system after their write.
const KEPT_BUFFER_BYTES_MAX: usize = 640 << 10;

impl LogWriter {
    /// Writes what was taken through the page cache. No direct write is in flight meanwhile. Gives pages that were
    /// filled ahead.
    pub(super) fn put(&self, io: &mut Io) -> Result<Option<Mapped>> {
        for mut chunk in mem::take(&mut io.taken.full) {
            self.put_chunk(&mut io.files, &mut chunk)?;
        }
        self.put_chunk(&mut io.files, &mut io.taken.last)
    }

    /// Writes a chunk through the page cache, and empties it.
    fn put_chunk(&self, files: &mut Files, chunk: &mut Chunk) -> Result<Option<Mapped>> {
        let bytes = chunk.bytes.len();
        if bytes == 0 {
            return Ok(None);
        }
        let offset = self.place(files, chunk, false)?;
        files.expect_sync();
        let written = files.current.buffered.write_at(&chunk.bytes, offset);
        written.map_err(|error| Error::io("write", &files.current.path, error))?;
        self.counters.wrote_alone(bytes);
        let ahead = offset + u64_of(bytes)..offset + u64_of(chunk.bytes.len());
        count(&self.counters.filled_bytes, ahead.end - ahead.start);
        empty(&mut chunk.bytes);
        Ok(files.map(ahead))
    }

    /// Fills more pages of the current segment with zeros, where the log ends at `end`. `None` when there are enough.
    pub(super) fn fill_ahead(&self, files: &mut Files, end: Lsn) -> Result<Option<Mapped>> {
        let (current, from) = (&files.current, files.paged_to);
        let most = files.since_force(end).min(u64_of(ZEROS.len()));
        let to = sector_up(from.plus(most)).min(current.header.end());
        if to <= from || from.0 >= end.0 + most {
            return Ok(None);
        }
        let range = current.header.offset_of(from)..current.header.offset_of(to);
        let written = current.buffered.write_at(&ZEROS[..distance(from, to)], range.start);
        written.map_err(|error| Error::io("write", &current.path, error))?;
        files.paged_to = to;
        count(&self.counters.filled_bytes, range.end - range.start);
        Ok(files.map(range))
    }

    /// Places what was taken, to be written durably, past the page cache.
    pub(super) fn place_direct(&self, io: &mut Io) -> Result<Vec<Placed>> {
        let Io { taken, files } = io;
        let mut placed = Vec::with_capacity(taken.full.len() + 1);
        let mut full = mem::take(&mut taken.full);
        for chunk in full.iter_mut().chain([&mut taken.last]) {
            let offset = if chunk.bytes.is_empty() { 0 } else { self.place(files, chunk, true)? };
            placed.push(Placed { segment: Arc::clone(&files.current), offset, bytes: mem::take(&mut chunk.bytes) });
        }
        Ok(placed)
    }

    /// Writes what was placed durably, in order, and gives the last buffer back, empty, and the time of the last write.
    pub(super) fn put_durably(&self, placed: Vec<Placed>) -> Result<(AlignedBuffer, Option<Duration>)> {
        let (clock, mut last, mut time) = (&*self.directory.env.clock, AlignedBuffer::default(), None);
        for Placed { segment, offset, mut bytes } in placed {
            if !bytes.is_empty() {
                let begun = clock.now();
                let written = segment.direct.write_durable_at(&bytes, offset);
                time = Some(self.counters.synced(clock, begun));
                written.map_err(|error| Error::io("write", &segment.path, error))?;
                self.counters.wrote(bytes.len());
                empty(&mut bytes);
            }
            last = bytes;
        }
        Ok((last, time))
    }

    /// Says where a chunk goes, in whole sectors or at the end of pages that were filled before, and makes the segment
    /// for it.
    #[inline]
    fn place(&self, files: &mut Files, chunk: &mut Chunk, durably: bool) -> Result<u64> {
        let Chunk { span, bytes } = chunk;
        if span.segment.number != files.current.header.number {
            files.current = self.begin_segment(&files.current, span.segment, span.spare.take(), durably)?;
        }
        let end = after(span.start, bytes.len());
        if durably || end > files.paged_to {
            // What is large is no part of a stream of small commits.
            let is_large = u64_of(bytes.len()) > AHEAD_BYTES_MAX;
            let ahead = if durably || is_large { 0 } else { files.since_force(end).min(AHEAD_BYTES_MAX) };
            files.paged_to = sector_up(end.plus(ahead)).min(span.segment.end());
            bytes.resize(distance(span.start, files.paged_to));
        }
        Ok(span.segment.offset_of(span.start))
    }

    /// Makes the file of the segment behind `last`, for which records were laid out already. A buffered write does not
    /// wait for its name to be durable: a worker sees to it, or the next force.
    #[cold]
    fn begin_segment(
        &self,
        last: &Segment,
        header: SegmentHeader,
        spare: Option<Spare>,
        durably: bool,
    ) -> Result<Arc<Segment>> {
        if spare.is_none() {
            count(&self.counters.segments_created, 1);
        }
        self.directory.keep_name(last)?;
        let segment = self.directory.begin(header, spare, self.options.direct)?;
        if durably {
            self.directory.keep_name(&segment)?;
        }
        self.live.lock().push(Live { header, path: segment.path.clone(), bytes: header.bytes });
        self.wants_spare.store(true, Ordering::Relaxed);
        Ok(Arc::new(segment))
    }

    /// Makes segments durable that were written through the page cache.
    pub(super) fn sync_segments(&self, segments: &[Arc<Segment>]) -> Result<()> {
        let clock = &*self.directory.env.clock;
        for segment in segments {
            let begun = clock.now();
            segment.buffered.sync().map_err(|error| Error::io("sync", &segment.path, error))?;
            self.directory.keep_name(segment)?;
            self.counters.synced(clock, begun);
        }
        Ok(())
    }
}

/// Empties a buffer, and gives its memory back if a large commit has made it large.
fn empty(buffer: &mut AlignedBuffer) {
    if buffer.capacity() > KEPT_BUFFER_BYTES_MAX {
        *buffer = AlignedBuffer::default();
    }
    buffer.clear();
}
