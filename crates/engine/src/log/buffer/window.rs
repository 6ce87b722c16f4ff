//! The mapped window: pages of the log's current segment that were filled with zeros ahead of use and are mapped, so
//! that a commit through the page cache is a copy.

use crate::base::num::{u64_of, usize_of};
use crate::env::Pages;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

/// Mapped pages, and their range in the file.
pub(in crate::log) type MappedRange = (Range<u64>, Box<dyn Pages>);

/// When less is left, more is wanted.
const LEFT_BYTES_MIN: u64 = 256 << 10;

/// MappedRange pages, and by what they were full.
#[derive(Debug, Default)]
pub(in crate::log) struct MappedWindow {
    /// The number of the segment.
    segment: u64,
    /// In their order and without gaps.
    pages: VecDeque<MappedRange>,
    /// Those that are full. Giving them back takes longer than copying a thousand commits, so no commit does it.
    full: Vec<Box<dyn Pages>>,
    /// Whether appends may copy into them. Only while all bytes before the tail's are written, the segment is among
    /// those to be synced, and no direct write is in flight.
    is_open: bool,
    /// Whether more were asked for.
    asked: bool,
}

impl MappedWindow {
    /// The segment whose pages may take bytes now.
    pub(super) fn open_segment(&self) -> Option<u64> {
        self.is_open.then_some(self.segment)
    }

    /// Whether there are pages of a segment.
    pub(super) fn is_of(&self, segment: u64) -> bool {
        self.segment == segment && !self.pages.is_empty()
    }

    pub(super) fn open(&mut self) {
        self.is_open = true;
    }

    pub(super) fn close(&mut self) {
        (self.is_open, self.asked) = (false, false);
    }

    /// Has these pages in place of others, which are returned, to be given back without the latch of this.
    #[must_use]
    pub(super) fn replace(&mut self, segment: u64, pages: MappedRange) -> Self {
        mem::replace(self, Self { segment, pages: VecDeque::from([pages]), ..Self::default() })
    }

    /// Has more pages behind those that there are. The full ones are returned, to be given back without the latch of
    /// this.
    #[must_use]
    pub(super) fn add(&mut self, pages: Option<MappedRange>) -> Vec<Box<dyn Pages>> {
        self.asked &= pages.is_none();
        match pages {
            Some(pages) if self.pages.back().is_some_and(|(last, _)| last.end == pages.0.start) => {
                self.pages.push_back(pages);
            }
            // Behind a gap they would be of no use.
            rejected => self.full.extend(rejected.map(|(_, pages)| pages)),
        }
        mem::take(&mut self.full)
    }

    /// Copies bytes to an offset of the file; false when not all of them lie within the pages.
    #[inline]
    pub(super) fn copy(&mut self, mut bytes: &[u8], mut offset: u64) -> bool {
        let Some((first, _)) = self.pages.front() else { return false };
        if offset < first.start || self.left_from(offset).is_none_or(|left| left < u64_of(bytes.len())) {
            return false;
        }
        while let Some((range, pages)) = self.pages.front_mut() {
            // A group may have been written beyond the first ones.
            let here = u64_of(bytes.len()).min(range.end.saturating_sub(offset));
            let (now, later) = bytes.split_at(usize_of(here));
            if here > 0 {
                pages.put(now, offset);
            }
            (bytes, offset) = (later, offset + here);
            // The last stay: more are added behind them.
            if offset < range.end || self.pages.len() == 1 {
                break;
            }
            let (_, full) = self.pages.pop_front().expect("it was the first");
            self.full.push(full);
        }
        true
    }

    /// Whether more is wanted of the segment, whose bytes end at the offset.
    pub(super) fn is_short(&self, segment: u64, offset: u64) -> bool {
        self.is_open && self.is_of(segment) && self.is_little_left(offset)
    }

    /// Whether less is left from an offset on than there should be, for the first time since more was added.
    #[inline]
    pub(super) fn wants_more(&mut self, offset: u64) -> bool {
        self.is_little_left(offset) && !mem::replace(&mut self.asked, true)
    }

    fn is_little_left(&self, offset: u64) -> bool {
        self.left_from(offset) < Some(LEFT_BYTES_MIN)
    }

    fn left_from(&self, offset: u64) -> Option<u64> {
        self.pages.back()?.0.end.checked_sub(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// What was put where.
    type Put = (u64, Vec<u8>);

    /// Pages that show what was put into them.
    #[derive(Clone, Debug, Default)]
    struct Shown(Arc<Mutex<Vec<Put>>>);

    impl Pages for Shown {
        fn put(&mut self, bytes: &[u8], offset: u64) {
            self.0.lock().unwrap().push((offset, bytes.to_vec()));
        }
    }

    #[test]
    fn bytes_go_from_one_piece_to_the_next_and_nowhere_else() {
        let (shown, mut window) = (Shown::default(), MappedWindow::default());
        assert!(!window.copy(b"x", 0) && !window.is_of(0));
        let piece = || Box::new(shown.clone());
        drop(window.replace(7, (10..20, piece())));
        assert!(window.is_of(7) && !window.is_of(8));
        assert!(!window.copy(b"x", 9) && !window.copy(b"ab", 19), "nothing is put in part");
        assert!(window.copy(b"", 20) && !window.copy(b"", 21), "at the end is not beyond it");
        drop(window.replace(7, (10..20, piece())));
        assert_eq!(window.add(Some((21..30, piece()))).len(), 1, "behind a gap");
        assert!(!window.copy(b"ab", 19));
        assert!(window.open_segment().is_none());
        window.open();
        assert_eq!(window.open_segment(), Some(7));
        assert!(window.copy(b"abc", 10) && window.wants_more(13) && !window.wants_more(13));
        assert_eq!(window.add(Some((20..24, piece()))).len(), 0);
        assert_eq!(window.add(Some((24..(1 << 20), piece()))).len(), 0);
        assert!(!window.wants_more(13));
        assert!(window.copy(b"defghijklmnop", 13));
        assert_eq!(window.add(None).len(), 2);
        assert!(window.copy(b"q", 26));
        // What a group wrote is skipped.
        drop(window.replace(7, (30..40, piece())));
        assert!(window.add(Some((40..50, piece()))).is_empty() && window.copy(b"r", 45) && window.copy(b"", 46));
        let expected: [(u64, &[u8]); 6] =
            [(10, b"abc"), (13, b"defghij"), (20, b"klmn"), (24, b"op"), (26, b"q"), (45, b"r")];
        assert!(shown.0.lock().unwrap().iter().map(|(offset, bytes)| (*offset, &**bytes)).eq(expected));
        window.close();
        assert!(window.open_segment().is_none() && window.is_of(7));
        drop(window.replace(8, (0..1, piece())));
        assert!(window.open_segment().is_none() && window.copy(b"z", 0) && window.is_of(8) && !window.copy(b"z", 1));
    }
}
