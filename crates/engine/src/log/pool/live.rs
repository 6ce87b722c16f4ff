//! The live segments: those that recovery or a pinned reader needs or the options keep, and the current one.

use std::time::Duration;

use super::directory::SegmentInfo;
use super::pins::{PinId, SegmentPins};
use crate::base::Lsn;
use crate::log::options::LogHistory;

/// The live segments.
#[derive(Debug)]
pub(super) struct LiveSegments {
    /// Oldest first, the current one last. Never empty.
    segments: Vec<SegmentInfo>,
    /// When each of them became the current one, or was found by the open.
    begun: Vec<Duration>,
    history: LogHistory,
    pins: SegmentPins,
    /// No recovery needs the log before it.
    released: Lsn,
}

impl LiveSegments {
    /// The last of `segments` is the current one.
    pub(super) fn new(segments: Vec<SegmentInfo>, history: LogHistory, now: Duration) -> Self {
        assert!(!segments.is_empty(), "a log has a current segment");
        let begun = vec![now; segments.len()];
        Self { segments, begun, history, pins: SegmentPins::default(), released: Lsn(0) }
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> &[SegmentInfo] {
        &self.segments
    }

    /// Adds the new current segment.
    pub(super) fn push(&mut self, segment: SegmentInfo, now: Duration) {
        self.segments.push(segment);
        self.begun.push(now);
    }

    /// The oldest position from which all is there.
    pub(super) fn oldest(&self) -> Lsn {
        self.segments[0].header.previous_end
    }

    /// The segments that hold anything at or after `position`.
    pub(super) fn needed_from(&self, position: Lsn) -> &[SegmentInfo] {
        &self.segments[first_needed(&self.segments, position)..]
    }

    /// Bytes of the segments that recovery needs.
    pub(super) fn needed_bytes(&self) -> u64 {
        bytes(self.needed_from(self.released))
    }

    /// Bytes of the segments before the current one, and how many of them nothing was written to, because the log was
    /// opened again before they were full.
    pub(super) fn unused_bytes(&self) -> (u64, u64) {
        let unused = |pair: &[SegmentInfo]| pair[0].header.end().0.saturating_sub(pair[1].header.previous_end.0);
        let (_, full) = self.segments.split_last().expect("there is a current one");
        (bytes(full), self.segments.windows(2).map(unused).sum())
    }

    /// Bytes that were written between two positions. Positions leave a gap where the log was opened again.
    pub(super) fn written_bytes(&self, from: Lsn, to: Lsn) -> u64 {
        let ends = self.segments[1..].iter().map(|next| next.header.previous_end).chain([to]);
        let written =
            |(segment, end): (&SegmentInfo, Lsn)| end.min(to).0.saturating_sub(segment.header.first.max(from).0);
        self.segments.iter().zip(ends).map(written).sum()
    }

    /// Pins what ends after `position`.
    ///
    /// # Errors
    /// The oldest position, when the log does not reach back to `position`.
    pub(super) fn pin(&mut self, position: Lsn, bytes_max: u64) -> Result<PinId, Lsn> {
        if position < self.oldest() { Err(self.oldest()) } else { Ok(self.pins.add(position, bytes_max)) }
    }

    /// Moves a pin forward; false when it was dropped.
    pub(super) fn advance(&mut self, pin: PinId, position: Lsn) -> bool {
        self.pins.advance(pin, position)
    }

    /// Ends a pin.
    pub(super) fn unpin(&mut self, pin: PinId) {
        self.pins.remove(pin);
    }

    /// Notes that no recovery needs the log before `before`, and takes away the segments that neither recovery nor a
    /// pin needs, nor the options keep. Drops pins that keep more than they may.
    pub(super) fn release(&mut self, before: Lsn, now: Duration) -> Vec<SegmentInfo> {
        self.released = self.released.max(before);
        let segments = &self.segments;
        let free = first_needed(segments, self.released);
        let first = |position| first_needed(segments, position).min(free);
        self.pins.drop_large(|position| bytes(&segments[first(position)..free]));
        let needed = self.pins.oldest().map_or(free, first).min(self.history_from(free, now));
        self.begun.drain(..needed);
        self.segments.drain(..needed).collect()
    }

    /// The first segment that the options keep, of those before `free`, which no recovery needs.
    fn history_from(&self, free: usize, now: Duration) -> usize {
        let LogHistory { bytes: kept, time, bytes_max } = self.history;
        let is_kept = |at: &usize| {
            let all = bytes(&self.segments[*at..free]);
            // It was written to until the next one was begun.
            all <= kept || all <= bytes_max && now.saturating_sub(self.begun[at + 1]) < time
        };
        (0..free).rev().take_while(is_kept).last().unwrap_or(free)
    }
}

/// The index of the first segment that holds anything at or after `position`. (There is always a last segment.)
fn first_needed(segments: &[SegmentInfo], position: Lsn) -> usize {
    segments.windows(2).position(|pair| pair[1].header.previous_end > position).unwrap_or(segments.len() - 1)
}

fn bytes(segments: &[SegmentInfo]) -> u64 {
    segments.iter().map(|segment| segment.header.bytes).sum()
}
