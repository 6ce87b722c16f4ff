//! Lays out payloads as fragments at their final positions in the log, in batches.
//!
//! # Invariants
//! 1. A group begins with its marker as the first bytes of a buffer, because whatever ends a group takes the buffer
//!    away.
//! 2. The bytes of a chunk belong to one segment and follow each other without gaps from its start.

use crate::base::Lsn;
use crate::base::num::u64_of;
use crate::env::AlignedBuffer;
use crate::log::format::{
    FRAGMENT_BYTES_MAX, FRAGMENT_HEADER_BYTES, Form, FragmentKind, MARKER_BYTES, Marker, SegmentHeader, after,
    distance, seal, sector_up,
};
use crate::log::pool::SegmentPool;
use crate::log::pool::directory::Spare;
use std::mem;
use std::sync::Arc;

/// The part of a payload that no fragment holds yet.
#[derive(Debug)]
pub(in crate::log) struct Payload<'a> {
    /// The slices not yet taken in full.
    parts: &'a [&'a [u8]],
    /// How many bytes of the first of them are taken.
    taken: usize,
    left: usize,
    begun: bool,
    form: Form,
}

impl<'a> Payload<'a> {
    /// A payload whose parts are what is stored of it.
    pub(in crate::log) fn new(parts: &'a [&'a [u8]], form: Form) -> Self {
        Self { parts, taken: 0, left: parts.iter().map(|part| part.len()).sum(), begun: false, form }
    }

    /// Bytes not yet taken.
    pub(in crate::log) const fn left(&self) -> usize {
        self.left
    }

    /// How it is stored.
    pub(in crate::log) const fn form(&self) -> Form {
        self.form
    }

    /// Whether a fragment has taken some of it.
    pub(in crate::log) const fn is_begun(&self) -> bool {
        self.begun
    }

    /// Whether the last fragment has been taken.
    pub(in crate::log) const fn is_done(&self) -> bool {
        self.begun && self.left == 0
    }

    /// Appends the next `len` bytes to `out`.
    #[inline]
    pub(in crate::log) fn take(&mut self, len: usize, out: &mut AlignedBuffer) {
        self.begun = true;
        self.left = self.left.checked_sub(len).expect("no more is taken than is left");
        let mut wanted = len;
        while let Some((part, rest)) = self.parts.split_first() {
            let part = &part[self.taken..];
            if part.len() > wanted {
                out.extend_from_slice(&part[..wanted]);
                self.taken += wanted;
                return;
            }
            out.extend_from_slice(part);
            wanted -= part.len();
            (self.parts, self.taken) = (rest, 0);
        }
        assert_eq!(wanted, 0, "no more is taken than is left");
    }
}

/// Bytes of one segment on their way to its file.
#[derive(Debug)]
pub(in crate::log) struct SegmentChunk {
    pub(in crate::log) segment: SegmentHeader,
    /// The file to make the segment of, while there is none.
    pub(in crate::log) spare: Option<Spare>,
    pub(in crate::log) start: Lsn,
    /// Whether the bytes begin with a group's marker whose fields are still to be filled.
    opens_group: bool,
    pub(in crate::log) bytes: AlignedBuffer,
}

/// What is written at once, in order of position: the ends of full segments, then the rest. Used again and again,
/// because a small commit takes little longer than moving it about.
#[derive(Debug)]
pub(in crate::log) struct Batch {
    pub(in crate::log) full: Vec<SegmentChunk>,
    /// When it was written, its buffer takes turns with the builder's.
    pub(in crate::log) last: SegmentChunk,
    /// Where the last fragment ends.
    pub(in crate::log) end: Lsn,
}

impl Batch {
    /// Nothing, of a log that begins with an empty segment.
    pub(in crate::log) fn empty(segment: SegmentHeader) -> Self {
        Self { full: Vec::new(), last: SegmentChunk::new(segment, None), end: segment.first }
    }
}

/// Builds batches.
#[derive(Debug)]
pub(super) struct BatchBuilder {
    /// Where further segments come from.
    pool: Arc<SegmentPool>,
    /// The last chunk; fragments go to its segment.
    chunk: SegmentChunk,
    /// What the fragments of that segment are seeded with.
    identity: u64,
    /// Chunks of segments before it.
    full: Vec<SegmentChunk>,
    full_bytes: usize,
    /// Where the last fragment ends.
    end: Lsn,
    in_group: bool,
}

impl BatchBuilder {
    /// The end of a log that begins with an empty segment.
    pub(super) fn new(segment: SegmentHeader, pool: Arc<SegmentPool>) -> Self {
        Self {
            pool,
            chunk: SegmentChunk::new(segment, None),
            identity: segment.identity(),
            full: Vec::new(),
            full_bytes: 0,
            end: segment.first,
            in_group: false,
        }
    }

    /// Where the last fragment ends.
    pub(super) const fn end(&self) -> Lsn {
        self.end
    }

    /// Bytes that wait to be taken.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.full_bytes + self.chunk.bytes.len()
    }

    /// Payload bytes that fit the current segment. An estimate, as [`Spare::capacity_bytes`].
    pub(super) fn left_bytes(&self) -> u64 {
        u64_of(distance(self.position(), self.chunk.segment.end())) / 8 * 7
    }

    /// The first position of the segment in which the next payload begins.
    pub(super) fn next_segment_first(&mut self) -> Lsn {
        self.open_group();
        self.chunk.segment.first
    }

    /// Appends one fragment with as much of `payload` as fits it.
    #[inline]
    pub(super) fn push(&mut self, payload: &mut Payload<'_>) {
        self.open_group();
        let left = distance(self.position(), self.chunk.segment.end()) - FRAGMENT_HEADER_BYTES;
        let len = payload.left().min(left).min(FRAGMENT_BYTES_MAX);
        let kind = match (payload.is_begun(), len == payload.left(), payload.form()) {
            (false, true, Form::Plain) => FragmentKind::Full,
            (false, true, Form::Packed) => FragmentKind::PackedFull,
            (false, true, Form::Delta) => FragmentKind::DeltaFull,
            (false, false, Form::Plain) => FragmentKind::First,
            (false, false, Form::Packed) => FragmentKind::PackedFirst,
            (false, false, Form::Delta) => FragmentKind::DeltaFirst,
            (true, false, _) => FragmentKind::Middle,
            (true, true, _) => FragmentKind::Last,
        };
        self.fragment(kind, |bytes| payload.take(len, bytes));
    }

    /// Appends the fragment that says that nothing follows, behind what was taken before. As every group it begins a
    /// sector, so damage to the last one that was acknowledged leaves the marker that tells of it.
    pub(super) fn push_end(&mut self) {
        self.open_group();
        self.fragment(FragmentKind::End, |_| ());
    }

    /// Fills `batch`, whose chunks were written and are empty, with everything that waits, and goes on in its buffer.
    /// `durable` goes into the markers of groups that begin in the batch.
    #[inline]
    pub(super) fn take(&mut self, durable: Lsn, batch: &mut Batch) {
        assert!(batch.full.is_empty() && batch.last.bytes.is_empty(), "the batch before was written");
        if self.full_bytes > 0 {
            mem::swap(&mut self.full, &mut batch.full);
            self.full_bytes = 0;
            batch.full.iter_mut().for_each(|chunk| chunk.fill_marker(durable));
        }
        let (from, into) = (&mut self.chunk, &mut batch.last);
        if into.segment.number != from.segment.number {
            into.segment = from.segment;
        }
        into.spare = from.spare.take();
        into.start = from.start;
        into.opens_group = mem::take(&mut from.opens_group);
        from.start = after(from.start, from.bytes.len());
        mem::swap(&mut from.bytes, &mut into.bytes);
        into.fill_marker(durable);
        batch.end = self.end;
    }

    /// Has `copy` copy what waits to its offset in the file of segment `number`; false when it does not, or some
    /// belongs to another segment. `durable` goes into the marker of a group that begins in it.
    #[inline]
    pub(super) fn copy_out(&mut self, number: u64, durable: Lsn, copy: impl FnOnce(&[u8], u64) -> bool) -> bool {
        let chunk = &mut self.chunk;
        if chunk.segment.number != number || self.full_bytes > 0 {
            return false;
        }
        chunk.fill_marker(durable);
        let is_copied = copy(&chunk.bytes, chunk.segment.offset_of(chunk.start));
        if is_copied {
            chunk.start = after(chunk.start, chunk.bytes.len());
            chunk.bytes.clear();
        }
        is_copied
    }

    /// Ends the group, so that the next fragment begins one, at a sector of its own. Only when nothing waits.
    pub(super) fn end_group(&mut self) {
        assert!(self.chunk.bytes.is_empty() && self.full.is_empty(), "a group ends when all of it was taken");
        if mem::take(&mut self.in_group) {
            self.chunk.start = sector_up(self.chunk.start);
        }
    }

    /// The segment that fragments go to.
    pub(super) const fn segment(&self) -> &SegmentHeader {
        &self.chunk.segment
    }

    /// Where the next byte goes.
    #[inline]
    pub(super) fn position(&self) -> Lsn {
        after(self.chunk.start, self.chunk.bytes.len())
    }

    /// Makes sure that a group is open and that a fragment with at least one byte of payload fits.
    #[inline]
    fn open_group(&mut self) {
        let left = distance(self.position(), self.chunk.segment.end());
        if self.in_group && left > FRAGMENT_HEADER_BYTES {
            return;
        }
        if self.in_group || left <= MARKER_BYTES + FRAGMENT_HEADER_BYTES {
            self.next_segment(left);
        }
        assert!(self.chunk.bytes.is_empty(), "a group begins with an empty buffer");
        let marker = Marker { durable: Lsn(0), previous_end: self.end };
        self.chunk.bytes.resize(MARKER_BYTES);
        marker.encode(self.identity, self.chunk.start, &mut self.chunk.bytes);
        self.chunk.opens_group = true;
        self.in_group = true;
    }

    /// Goes on in a new segment. Its file is made when the bytes are written.
    #[cold]
    fn next_segment(&mut self, left: usize) {
        let padded = self.chunk.bytes.len() + left;
        self.chunk.bytes.resize(padded);
        let (segment, spare) = self.pool.next_segment();
        assert_eq!(segment.previous, self.chunk.segment.number, "segments follow each other");
        self.identity = segment.identity();
        self.in_group = false;
        let chunk = mem::replace(&mut self.chunk, SegmentChunk::new(segment, spare));
        if !chunk.bytes.is_empty() {
            self.full_bytes += chunk.bytes.len();
            self.full.push(chunk);
        }
    }

    #[inline]
    fn fragment(&mut self, kind: FragmentKind, payload: impl FnOnce(&mut AlignedBuffer)) {
        let (at, bytes) = (self.chunk.bytes.len(), &mut self.chunk.bytes);
        bytes.extend_from_slice(&[0; FRAGMENT_HEADER_BYTES]);
        payload(bytes);
        seal(self.identity, after(self.chunk.start, at), kind, &mut bytes[at..]);
        self.end = self.position();
    }
}

impl SegmentChunk {
    /// No bytes yet of an empty segment.
    fn new(segment: SegmentHeader, spare: Option<Spare>) -> Self {
        Self { segment, spare, start: segment.first, opens_group: false, bytes: AlignedBuffer::default() }
    }

    /// Fills the marker that the bytes begin with, if they do.
    #[inline]
    fn fill_marker(&mut self, durable: Lsn) {
        if mem::take(&mut self.opens_group) {
            let fragment = &mut self.bytes[..MARKER_BYTES];
            let marker = Marker::decode(&fragment[FRAGMENT_HEADER_BYTES..])
                .expect("the marker was put there when the group began");
            Marker { durable, ..marker }.encode(self.segment.identity(), self.start, fragment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_make_up_the_whole() {
        let parts: [&[u8]; 5] = [b"", b"ab", b"cdefg", b"", b"h"];
        for size in 1..10 {
            let (mut payload, mut out) = (Payload::new(&parts, Form::Plain), AlignedBuffer::default());
            while !payload.is_done() {
                payload.take(size.min(payload.left()), &mut out);
            }
            assert_eq!(*out, *b"abcdefgh");
        }
    }

    #[test]
    fn an_empty_payload_is_one_empty_piece() {
        let (mut payload, mut out) = (Payload::new(&[], Form::Plain), AlignedBuffer::default());
        assert!(!payload.is_done());
        payload.take(0, &mut out);
        assert!(payload.is_done() && out.is_empty());
    }
}
