//! Pages of the log's current segment that are filled with zeros ahead and mapped, so that a commit through the page
//! cache is a copy.

use crate::base::num::{u64_of, usize_of};
use crate::env::Pages;
use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

/// Mapped pages, and where they stand in the file.
pub(super) type Mapped = (Range<u64>, Box<dyn Pages>);

/// When less is left, more is wanted.
const LEFT_BYTES_MIN: u64 = 256 << 10;

/// Mapped pages, and by what they were full.
#[derive(Debug, Default)]
pub(super) struct Paged {
    /// The number of the segment.
    segment: u64,
    /// In their order and without gaps.
    pages: VecDeque<Mapped>,
    /// Those that are full. Giving them back takes longer than copying a thousand commits, so no commit does it.
    full: Vec<Box<dyn Pages>>,
    /// Whether appends may copy into them. Only while all bytes before the tail's are written, the segment is among
    /// those to be synced, and no direct write is in flight.
    is_open: bool,
    /// Whether more were asked for.
    asked: bool,
}

impl Paged {
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
    pub(super) fn replace(&mut self, segment: u64, pages: Mapped) -> Self {
        mem::replace(self, Self { segment, pages: VecDeque::from([pages]), ..Self::default() })
    }

    /// Has more pages behind those that there are. The full ones are returned, to be given back without the latch of
    /// this.
    #[must_use]
    pub(super) fn add(&mut self, pages: Option<Mapped>) -> Vec<Box<dyn Pages>> {
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
    pub(super) fn put(&mut self, mut bytes: &[u8], mut offset: u64) -> bool {
        let Some((first, _)) = self.pages.front() else { return false };
        if offset < first.start || self.left_from(offset).is_none_or(|left| left < u64_of(bytes.len())) {
            return false;
        }
        while let Some((range, pages)) = self.pages.front_mut() {
            // A force may have written beyond the first ones.
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
        let (shown, mut paged) = (Shown::default(), Paged::default());
        assert!(!paged.put(b"x", 0) && !paged.is_of(0));
        let piece = || Box::new(shown.clone());
        drop(paged.replace(7, (10..20, piece())));
        assert!(paged.is_of(7) && !paged.is_of(8));
        assert!(!paged.put(b"x", 9) && !paged.put(b"ab", 19), "nothing is put in part");
        assert!(paged.put(b"", 20) && !paged.put(b"", 21), "at the end is not beyond it");
        drop(paged.replace(7, (10..20, piece())));
        assert_eq!(paged.add(Some((21..30, piece()))).len(), 1, "behind a gap");
        assert!(!paged.put(b"ab", 19));
        assert!(paged.open_segment().is_none());
        paged.open();
        assert_eq!(paged.open_segment(), Some(7));
        assert!(paged.put(b"abc", 10) && paged.wants_more(13) && !paged.wants_more(13));
        assert_eq!(paged.add(Some((20..24, piece()))).len(), 0);
        assert_eq!(paged.add(Some((24..(1 << 20), piece()))).len(), 0);
        assert!(!paged.wants_more(13));
        assert!(paged.put(b"defghijklmnop", 13));
        assert_eq!(paged.add(None).len(), 2);
        assert!(paged.put(b"q", 26));
        // What a force wrote is skipped.
        drop(paged.replace(7, (30..40, piece())));
        assert!(paged.add(Some((40..50, piece()))).is_empty() && paged.put(b"r", 45) && paged.put(b"", 46));
        let expected: [(u64, &[u8]); 6] =
            [(10, b"abc"), (13, b"defghij"), (20, b"klmn"), (24, b"op"), (26, b"q"), (45, b"r")];
        assert!(shown.0.lock().unwrap().iter().map(|(offset, bytes)| (*offset, &**bytes)).eq(expected));
        paged.close();
        assert!(paged.open_segment().is_none() && paged.is_of(7));
        drop(paged.replace(8, (0..1, piece())));
        assert!(paged.open_segment().is_none() && paged.put(b"z", 0) && paged.is_of(8) && !paged.put(b"z", 1));
    }
}
