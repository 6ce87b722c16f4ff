//! The progress of a recovery.

use super::chain::SegmentFile;
use crate::base::Lsn;
use crate::log::format::Begins;

/// How many bytes lie between two reports.
const STEP_BYTES: u64 = 1 << 20;

/// The progress of a recovery in the redo log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplayProgress {
    /// Bytes of the log replayed; skipped ones count.
    pub bytes: u64,
    /// Bytes of the log that there are to replay, at most: where the log ends in its last segment is only known at the
    /// end.
    pub bytes_total: u64,
}

/// Turns positions into progress, and reports it at intervals.
pub(in crate::log) struct ProgressReporter<'a> {
    /// From where to where the rest of the segments is read, oldest last.
    left: Vec<(Lsn, Lsn)>,
    /// Bytes of the segments that are done.
    done: u64,
    /// Not reported again before this number of bytes.
    next: u64,
    total: u64,
    tell: &'a mut dyn FnMut(ReplayProgress),
}

impl<'a> ProgressReporter<'a> {
    /// Tells of the beginning, unless there is nothing to read.
    pub(in crate::log) fn begin(log: &[SegmentFile], from: Lsn, tell: &'a mut dyn FnMut(ReplayProgress)) -> Self {
        let range = |(index, found): (usize, &SegmentFile)| {
            let next = log.get(index + 1).map(|next| next.header).filter(|next| next.begins == Begins::Seals);
            let (first, end) = (found.header.first, found.header.end());
            let end = next.map_or(end, |next| next.previous_end.clamp(first, end));
            (from.clamp(first, end), end)
        };
        let left: Vec<_> = log.iter().enumerate().map(range).rev().collect();
        let total = left.iter().map(|(start, end)| end.0 - start.0).sum();
        let mut steps = Self { left, done: 0, next: 0, total, tell };
        steps.tell(0);
        steps
    }

    /// Everything before `end` was replayed.
    pub(in crate::log) fn at(&mut self, end: Lsn) {
        while let Some((start, to)) = self.left.last().copied() {
            if end <= to || self.left.len() == 1 {
                let bytes = self.done + end.clamp(start, to).0 - start.0;
                if bytes >= self.next {
                    self.tell(bytes);
                }
                return;
            }
            self.done += to.0 - start.0;
            self.left.pop();
        }
    }

    /// The end was found.
    pub(in crate::log) fn finish(mut self) {
        self.tell(self.total);
    }

    fn tell(&mut self, bytes: u64) {
        self.next = bytes + STEP_BYTES;
        if self.total > 0 {
            (self.tell)(ReplayProgress { bytes, bytes_total: self.total });
        }
    }
}
