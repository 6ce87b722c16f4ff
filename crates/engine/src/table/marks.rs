//! Marks: how old the entries of a table with a time to live are.
//!
//! An entry bears no time. A mark says by when all entries up to a seqnum were written; with one every so often, an entry is taken to be as old
//! as the first mark at or behind it: younger than it is, by no more than lies between two marks, and never older.

use std::time::Duration;

use crate::base::SeqNum;

/// All entries up to a seqnum were written at or before a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The newest of the entries.
    pub seqnum: SeqNum,
    /// Milliseconds since 1970-01-01 00:00 UTC.
    pub at_ms: u64,
}

/// The marks of a table, both numbers ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks(Vec<Mark>);

impl Marks {
    /// Marks read from the manifest; none when they are not ascending.
    #[must_use]
    pub fn new(marks: Vec<Mark>) -> Option<Self> {
        let ascends = |pair: &[Mark]| pair[0].seqnum < pair[1].seqnum && pair[0].at_ms <= pair[1].at_ms;
        marks.windows(2).all(ascends).then_some(Self(marks))
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Mark] {
        &self.0
    }

    /// Adds a mark, unless there is one of so many entries already; says whether it did. Of three within `spacing` the middle one goes. A clock
    /// that was set back counts as one that stands still.
    pub fn set(&mut self, mark: Mark, spacing: Duration) -> bool {
        let (before, last) = match &*self.0 {
            [.., before, last] => (Some(*before), Some(*last)),
            [last] => (None, Some(*last)),
            [] => (None, None),
        };
        if last.is_some_and(|last| mark.seqnum <= last.seqnum) {
            return false;
        }
        let at_ms = mark.at_ms.max(last.map_or(0, |last| last.at_ms));
        if before.is_some_and(|before| Duration::from_millis(at_ms - before.at_ms) < spacing) {
            self.0.pop();
        }
        self.0.push(Mark { at_ms, ..mark });
        true
    }

    /// The newest of the entries that were written by some time.
    #[must_use]
    pub fn written_by(&self, at_ms: u64) -> Option<SeqNum> {
        self.0.iter().rfind(|mark| mark.at_ms <= at_ms).map(|mark| mark.seqnum)
    }

    /// Forgets the marks of entries before `seqnum`, which are gone.
    pub fn forget(&mut self, seqnum: SeqNum) {
        self.0.retain(|mark| mark.seqnum >= seqnum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPACING: Duration = Duration::from_millis(10);

    proptest! {
        /// Against the list of all that was ever marked.
        #[test]
        fn entries_are_taken_to_be_younger_by_no_more_than_the_spacing(
            steps in prop::collection::vec((0..3u64, 0..25u64, any::<bool>()), 1..60), asked in 0..1500u64, forgotten in 0..120u64,
        ) {
            let (mut marks, mut seqnum, mut now, mut written) = (Marks::default(), 0, 0, Vec::new());
            for (entries, passes, is_set) in steps {
                now += passes;
                for _ in 0..entries {
                    seqnum += 1;
                    written.push((seqnum, now));
                }
                if is_set || entries > 0 {
                    marks.set(Mark { seqnum: SeqNum(seqnum), at_ms: now }, SPACING);
                }
            }
            let kept: Vec<_> = marks.as_slice().to_vec();
            prop_assert_eq!(Marks::new(kept.clone()), Some(marks.clone()));
            prop_assert!(kept.windows(3).all(|three| three[2].at_ms - three[0].at_ms >= 10));
            let by = marks.written_by(asked).unwrap_or_default().0;
            for (seqnum, at) in written {
                prop_assert!(seqnum > by || at <= asked, "{} of {} is older than it is", seqnum, at);
                prop_assert!(seqnum <= by || at + 25 + 10 > asked, "{} of {} is not found old", seqnum, at);
            }
            marks.forget(SeqNum(forgotten));
            prop_assert!(marks.as_slice().iter().all(|mark| mark.seqnum.0 >= forgotten));
            prop_assert_eq!(marks.as_slice().len(), kept.iter().filter(|mark| mark.seqnum.0 >= forgotten).count());
        }
    }

    #[test]
    fn a_clock_that_was_set_back_makes_nothing_old() {
        let mut marks = Marks::default();
        let mut set = |seqnum, at_ms| marks.set(Mark { seqnum: SeqNum(seqnum), at_ms }, SPACING);
        assert!(set(1, 1000) && set(2, 500) && !set(2, 2000) && set(3, 600) && set(4, 700));
        assert_eq!(marks.as_slice().len(), 2, "time stood still");
        assert_eq!((marks.written_by(999), marks.written_by(1000)), (None, Some(SeqNum(4))));
    }
}
