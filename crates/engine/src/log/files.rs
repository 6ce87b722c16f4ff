//! The files that a force writes to, and what is on its way to them.

use super::format::SECTOR;
use super::paged::Mapped;
use super::segment::Segment;
use super::tail::Taken;
use crate::base::Lsn;
use crate::env::AlignedBuffer;
use std::mem;
use std::ops::Range;
use std::sync::Arc;

/// What is on its way, and the files.
#[derive(Debug)]
pub(super) struct Io {
    /// Bytes taken from the tail; none but while they are written.
    pub(super) taken: Taken,
    pub(super) files: Files,
}

/// The files.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) current: Arc<Segment>,
    /// Segments with buffered bytes that are not known to be durable, oldest first.
    pub(super) unsynced: Vec<Arc<Segment>>,
    /// The page cache holds whole pages up to here.
    pub(super) paged_to: Lsn,
    /// Up to where a force has found pages filled ahead.
    pub(super) synced_to: Lsn,
    /// Where the group after the last force begins.
    pub(super) forced: Lsn,
}

/// Bytes of a force, and where they go.
pub(super) struct Placed {
    pub(super) segment: Arc<Segment>,
    pub(super) offset: u64,
    pub(super) bytes: AlignedBuffer,
}

impl Io {
    /// Of a log that begins with an empty segment.
    pub(super) fn new(segment: Arc<Segment>) -> Self {
        let first = segment.header.first;
        let taken = Taken::nothing(segment.header);
        Self {
            taken,
            files: Files { current: segment, unsynced: Vec::new(), paged_to: first, synced_to: first, forced: first },
        }
    }
}

impl Files {
    /// Bytes since the last force of a log that ends at `end`: as many may be written ahead.
    pub(super) fn since_force(&self, end: Lsn) -> u64 {
        end.0.saturating_sub(self.forced.0)
    }

    /// How many zeros ahead the next sync writes, after everything before `forced`.
    pub(super) fn sync_zeros(&mut self) -> u64 {
        let synced = mem::replace(&mut self.synced_to, self.paged_to).max(self.forced);
        self.paged_to.0.saturating_sub(synced.0)
    }

    /// The current segment is written through the page cache: the next force syncs it.
    pub(super) fn expect_sync(&mut self) {
        if self.unsynced.last().is_none_or(|last| !Arc::ptr_eq(last, &self.current)) {
            self.unsynced.push(Arc::clone(&self.current));
        }
    }

    /// Maps a range that was just written, if it is long enough to gain from it.
    pub(super) fn map(&self, range: Range<u64>) -> Option<Mapped> {
        if range.end - range.start < SECTOR {
            return None;
        }
        let pages = self.current.buffered.map(range.clone())?;
        Some((range, pages))
    }
}
