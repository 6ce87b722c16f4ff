//! The end of the log in memory: records at their final positions, not yet handed to the file system.
//!
//! # Invariants
//! 1. A group begins with its marker as the first bytes of a buffer, because whatever ends a group takes the buffer
//!    away.
//! 2. The bytes of a chunk belong to one segment and follow each other without gaps from its start.

use super::format::{
    FRAGMENT_BYTES_MAX, MARKER_BYTES, Marker, RECORD_BYTES, RecordKind, SegmentHeader, after, distance, seal, sector_up,
};
use super::payload::Payload;
use super::segment::Spare;
use crate::base::Lsn;
use crate::base::num::u64_of;
use crate::env::AlignedBuffer;
use std::mem;

/// Where a chunk of bytes belongs.
#[derive(Debug)]
pub(super) struct Span {
    pub(super) segment: SegmentHeader,
    /// The file to make the segment of, while there is none.
    pub(super) spare: Option<Spare>,
    pub(super) start: Lsn,
    /// Whether the bytes begin with a group's marker whose fields are still to be filled.
    opens_group: bool,
}

/// Bytes on their way to a file.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) span: Span,
    pub(super) bytes: AlignedBuffer,
}

/// What [`Tail::take`] took, in order of position: the ends of full segments, then the rest. Used again and again,
/// because a small commit takes little longer than moving it about.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) full: Vec<Chunk>,
    /// When it was written, its buffer takes turns with the tail's.
    pub(super) last: Chunk,
    /// Where the last record ends.
    pub(super) end: Lsn,
}

impl Taken {
    /// Nothing, of a log that begins with an empty segment.
    pub(super) fn nothing(segment: SegmentHeader) -> Self {
        Self { full: Vec::new(), last: Chunk::new(segment, None), end: segment.first }
    }
}

impl Chunk {
    /// No bytes yet of an empty segment.
    fn new(segment: SegmentHeader, spare: Option<Spare>) -> Self {
        let span = Span { segment, spare, start: segment.first, opens_group: false };
        Self { span, bytes: AlignedBuffer::default() }
    }
}

/// The end of the log.
#[derive(Debug)]
pub(super) struct Tail {
    /// The last chunk; its segment is the one that records go to.
    chunk: Chunk,
    /// What the records of that segment are seeded with.
    identity: u64,
    /// Chunks of segments before it.
    full: Vec<Chunk>,
    full_bytes: usize,
    /// Where the last record ends.
    end: Lsn,
    in_group: bool,
    /// Files for the next segments.
    spares: Vec<Spare>,
    /// The size of a segment that has no spare to be made of.
    fresh_bytes: u64,
}

impl Tail {
    /// The end of a log that begins with an empty segment.
    pub(super) fn new(segment: SegmentHeader, spares: Vec<Spare>, fresh_bytes: u64) -> Self {
        Self {
            chunk: Chunk::new(segment, None),
            identity: segment.identity(),
            full: Vec::new(),
            full_bytes: 0,
            end: segment.first,
            in_group: false,
            spares,
            fresh_bytes,
        }
    }

    /// Where the last record ends.
    pub(super) const fn end(&self) -> Lsn {
        self.end
    }

    /// Bytes that wait to be taken.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.full_bytes + self.chunk.bytes.len()
    }

    /// Files for the next segments.
    pub(super) const fn spares(&mut self) -> &mut Vec<Spare> {
        &mut self.spares
    }

    /// Payload bytes that fit before a segment would have to be made of a new file. An estimate, as
    /// [`Spare::room_bytes`].
    pub(super) fn room_bytes(&self) -> u64 {
        let spare: u64 = self.spares.iter().map(Spare::room_bytes).sum();
        let here = u64_of(distance(self.position(), self.chunk.span.segment.end()));
        here / 8 * 7 + spare
    }

    /// As [`Self::room_bytes`], without a spare that is not open yet: for what may lack descriptors.
    pub(super) fn open_room_bytes(&self) -> u64 {
        let here = u64_of(distance(self.position(), self.chunk.span.segment.end())) / 8 * 7;
        here + self.spares.last().filter(|spare| spare.ready.is_some()).map_or(0, Spare::room_bytes)
    }

    /// Appends one record with as much of `payload` as fits it.
    #[inline]
    pub(super) fn push(&mut self, payload: &mut Payload<'_>) {
        self.open_group();
        let room = distance(self.position(), self.chunk.span.segment.end()) - RECORD_BYTES;
        let len = payload.left().min(room).min(FRAGMENT_BYTES_MAX);
        let kind = match (payload.is_begun(), len == payload.left()) {
            (false, true) if payload.is_packed() => RecordKind::PackedFull,
            (false, true) => RecordKind::Full,
            (false, false) if payload.is_packed() => RecordKind::PackedFirst,
            (false, false) => RecordKind::First,
            (true, false) => RecordKind::Middle,
            (true, true) => RecordKind::Last,
        };
        self.record(kind, |bytes| payload.take(len, bytes));
    }

    /// Appends the record that says that nothing follows, behind what was taken before. As every group it begins a
    /// sector, so damage to the last one that was acknowledged leaves the marker that tells of it.
    pub(super) fn push_end(&mut self) {
        self.open_group();
        self.record(RecordKind::End, |_| ());
    }

    /// Makes `taken`, whose chunks were written and are empty, everything that waits, and goes on in its buffer.
    /// `durable` goes into the markers of groups that begin in what is taken.
    #[inline]
    pub(super) fn take(&mut self, durable: Lsn, taken: &mut Taken) {
        assert!(taken.full.is_empty() && taken.last.bytes.is_empty(), "what was taken before was written");
        if self.full_bytes > 0 {
            mem::swap(&mut self.full, &mut taken.full);
            self.full_bytes = 0;
            taken.full.iter_mut().for_each(|chunk| chunk.fill_marker(durable));
        }
        let (from, into) = (&mut self.chunk, &mut taken.last);
        if into.span.segment.number != from.span.segment.number {
            into.span.segment = from.span.segment;
        }
        into.span.spare = from.span.spare.take();
        into.span.start = from.span.start;
        into.span.opens_group = mem::take(&mut from.span.opens_group);
        from.span.start = after(from.span.start, from.bytes.len());
        mem::swap(&mut from.bytes, &mut into.bytes);
        into.fill_marker(durable);
        taken.end = self.end;
    }

    /// Has `put` write what waits where it belongs, at an offset of the file of segment `number`; false when it does
    /// not, or some belongs to another segment. `durable` goes into the marker of a group that begins in it.
    #[inline]
    pub(super) fn hand_over(&mut self, number: u64, durable: Lsn, put: impl FnOnce(&[u8], u64) -> bool) -> bool {
        let chunk = &mut self.chunk;
        if chunk.span.segment.number != number || self.full_bytes > 0 {
            return false;
        }
        chunk.fill_marker(durable);
        let Chunk { span, bytes } = chunk;
        let put = put(bytes, span.segment.offset_of(span.start));
        if put {
            span.start = after(span.start, bytes.len());
            bytes.clear();
        }
        put
    }

    /// Ends the group, so that the next record begins one, at a sector of its own. Only when nothing waits.
    pub(super) fn end_group(&mut self) {
        assert!(self.chunk.bytes.is_empty() && self.full.is_empty(), "a group ends when all of it was taken");
        if mem::take(&mut self.in_group) {
            self.chunk.span.start = sector_up(self.chunk.span.start);
        }
    }

    /// The segment that records go to.
    pub(super) const fn segment(&self) -> &SegmentHeader {
        &self.chunk.span.segment
    }

    /// Where the next byte goes.
    #[inline]
    pub(super) fn position(&self) -> Lsn {
        after(self.chunk.span.start, self.chunk.bytes.len())
    }

    /// Makes sure that a group is open and that a record with at least one byte of payload fits.
    #[inline]
    fn open_group(&mut self) {
        let room = distance(self.position(), self.chunk.span.segment.end());
        if self.in_group && room > RECORD_BYTES {
            return;
        }
        if self.in_group || room <= MARKER_BYTES + RECORD_BYTES {
            self.next_segment(room);
        }
        assert!(self.chunk.bytes.is_empty(), "a group begins with an empty buffer");
        let marker = Marker { durable: Lsn(0), previous_end: self.end };
        self.chunk.bytes.resize(MARKER_BYTES);
        marker.encode(self.identity, self.chunk.span.start, &mut self.chunk.bytes);
        self.chunk.span.opens_group = true;
        self.in_group = true;
    }

    /// Goes on in a new segment. Its file is made when the bytes are written.
    #[cold]
    fn next_segment(&mut self, room: usize) {
        let padded = self.chunk.bytes.len() + room;
        self.chunk.bytes.resize(padded);
        let spare = self.spares.pop();
        let bytes = spare.as_ref().map_or(self.fresh_bytes, |spare| spare.bytes);
        let segment = self.chunk.span.segment.continued(bytes);
        self.identity = segment.identity();
        self.in_group = false;
        let chunk = mem::replace(&mut self.chunk, Chunk::new(segment, spare));
        if !chunk.bytes.is_empty() {
            self.full_bytes += chunk.bytes.len();
            self.full.push(chunk);
        }
    }

    #[inline]
    fn record(&mut self, kind: RecordKind, payload: impl FnOnce(&mut AlignedBuffer)) {
        let (at, bytes) = (self.chunk.bytes.len(), &mut self.chunk.bytes);
        bytes.extend_from_slice(&[0; RECORD_BYTES]);
        payload(bytes);
        seal(self.identity, after(self.chunk.span.start, at), kind, &mut bytes[at..]);
        self.end = self.position();
    }
}

impl Chunk {
    /// Fills the marker that the bytes begin with, if they do.
    #[inline]
    fn fill_marker(&mut self, durable: Lsn) {
        if mem::take(&mut self.span.opens_group) {
            let record = &mut self.bytes[..MARKER_BYTES];
            let marker =
                Marker::decode(&record[RECORD_BYTES..]).expect("the marker was put there when the group began");
            Marker { durable, ..marker }.encode(self.span.segment.identity(), self.span.start, record);
        }
    }
}
