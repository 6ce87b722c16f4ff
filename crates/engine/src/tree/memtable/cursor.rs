//! A walk over the memtable that takes a leaf at a time: records never change, so a copy of a leaf's slots is all it
//! needs.
//!
//! # Invariants
//! 1. The image is what the leaf held at one moment, from the leaf's `low` up to the `low` of the `next` that it then
//!    had.
//! 2. Both bounds stay ends of leaves for ever, so neighbouring images neither overlap nor leave a gap: what was
//!    present when the cursor was placed is shown exactly once, however many leaves split during the walk.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::node::{Link, Node, SLOTS};
use super::pin::pin;
use super::record::{Record, SortKey};
use super::tree::{SeekProgress, Tree};
use crate::base::debug::debug_by;
use crate::base::{Entry, Result, SeqNum, Value};
use crate::tree::cursor::{Cursor, KeyCursor, LazySeek, MergeSource};

/// The `at` of a cursor that is positioned nowhere.
const NOWHERE: usize = usize::MAX;

/// How many records ahead of the cursor are asked for.
const AHEAD: usize = 8;

/// So many records before the start of a leaf a walk back begins to look for the leaf before, a level with each step.
const BACK: usize = 12;

/// A cursor over a memtable that takes entries. Inserts go on during the walk; those made after the cursor was placed
/// may be shown or not.
pub(super) struct TreeCursor {
    image: Image,
    /// The slot of the image that the cursor is at.
    at: usize,
    is_warm: bool,
    /// The progress of a seek that was prefetched.
    progress: SeekProgress,
    /// How far a walk back has come on its way to the leaf before that of the image.
    back: Back,
    /// Keeps the records of the image alive.
    tree: Arc<Tree>,
}

/// A descent to the leaf before another, which is prefetched.
#[derive(Default)]
struct Back {
    progress: SeekProgress,
    is_there: bool,
}

/// On which side of a place the records are that a seek is for.
#[derive(Clone, Copy, PartialEq)]
enum Side {
    Behind,
    Before,
}

/// A leaf as it was at one moment.
struct Image {
    records: [Option<Record<'static>>; SLOTS],
    count: usize,
    /// Bytes that the keys share.
    skip: usize,
    low: Option<Record<'static>>,
    next: Link,
}

impl TreeCursor {
    /// With `is_warm`, what a merge writes of the memtable is likely to be read soon.
    pub(super) fn new(tree: Arc<Tree>, is_warm: bool) -> Self {
        let image = Image { records: [None; SLOTS], count: 0, skip: 0, low: None, next: Link::new() };
        Self { image, at: NOWHERE, is_warm, progress: SeekProgress::default(), back: Back::default(), tree }
    }

    #[inline]
    fn record(&self) -> Option<Record<'_>> {
        if self.at < self.image.count { self.image.records[self.at] } else { None }
    }

    /// Whether the record at `at` of the image has another key than the one behind it; false where there is none.
    #[inline]
    fn is_last_version(&self, at: usize) -> bool {
        let mut pair = self.image.records[..self.image.count].iter().skip(at);
        let (Some(Some(record)), Some(Some(next))) = (pair.next(), pair.next()) else { return false };
        record.is_other_key(*next, self.image.skip)
    }

    /// To the next record, or the end of the image.
    #[inline]
    fn step(&mut self) {
        self.at += 1;
        if let Some(Some(ahead)) = self.image.records[..self.image.count].get(self.at + AHEAD) {
            ahead.prefetch();
        }
    }

    /// Moves to `place`: the first record behind it is the current one, perhaps only after [`Self::settle`]. A descent
    /// to the same place may have come as far as `progress`. Records on the side that is asked for are prefetched.
    fn seek(&mut self, progress: &SeekProgress, place: &SortKey<'_>, side: Side) {
        (self.progress, self.back) = (SeekProgress::default(), Back::default());
        loop {
            let (leaf, version) = self.tree.descend_from(progress, place);
            self.at = leaf.rank_and_prefetch(place, |at| match side {
                Side::Behind => at..at + AHEAD,
                Side::Before => before(at),
            });
            if self.image.read(leaf, version) {
                return;
            }
        }
    }

    /// From the end of an image on to the first record of the next.
    #[inline]
    fn settle(&mut self) {
        if self.at >= self.image.count {
            self.enter_next();
        }
    }

    fn enter_next(&mut self) {
        self.back = Back::default();
        while self.at >= self.image.count {
            let Some(next) = self.image.next.get(&self.tree.arena) else {
                self.at = NOWHERE;
                return;
            };
            self.image.read_now(next);
            self.at = 0;
            for record in self.image.records[..self.image.count.min(AHEAD)].iter().flatten() {
                record.prefetch();
            }
            if let Some(next) = self.image.next.get(&self.tree.arena) {
                next.prefetch();
            }
        }
    }

    /// To the record before the place where the cursor is.
    #[inline]
    fn step_back(&mut self) {
        if self.at == 0 {
            self.enter_previous();
        } else {
            self.at -= 1;
        }
    }

    fn enter_previous(&mut self) {
        while self.at == 0 {
            let Some(low) = self.image.low else {
                self.at = NOWHERE;
                return;
            };
            let progress = mem::take(&mut self.back).progress;
            self.seek(&progress, &SortKey::before(low.key(), low.seqnum()), Side::Before);
        }
        self.at -= 1;
    }

    /// Goes a step towards the leaf before the image, so that it is at hand when the walk comes to it.
    fn look_back(&mut self) {
        if let Some(low) = self.image.low
            && !self.back.is_there
        {
            let place = SortKey::before(low.key(), low.seqnum());
            self.back.is_there = !self.tree.go_on(&mut self.back.progress, &place, before);
        }
    }
}

/// The slots that a walk back from `at` comes to first, and that one.
fn before(at: usize) -> Range<usize> {
    at.saturating_sub(AHEAD)..at + 1
}

impl Image {
    /// Reads `leaf`; what was read is worth nothing unless this returns true.
    fn read(&mut self, leaf: &Node, version: u64) -> bool {
        // SAFETY: the owner of the image also owns the tree of the leaf.
        let keep = |record: Record<'_>| unsafe { Record::from_ptr(record.as_ptr()) };
        self.count = leaf.count();
        for (at, record) in self.records[..self.count].iter_mut().enumerate() {
            *record = leaf.record(at).map(keep);
        }
        (self.skip, self.low) = (leaf.skip(), leaf.low().map(keep));
        self.next.set(leaf.next());
        leaf.is_at(version)
    }

    fn read_now(&mut self, leaf: &Node) {
        while !self.read(leaf, leaf.version()) {}
    }
}

impl Cursor for TreeCursor {
    fn first(&mut self) -> Result<()> {
        (self.progress, self.back) = (SeekProgress::default(), Back::default());
        self.image.read_now(self.tree.first_leaf());
        self.at = 0;
        self.settle();
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        (self.progress, self.back) = (SeekProgress::default(), Back::default());
        self.image.read_now(self.tree.tail());
        while let Some(leaf) = self.image.next.get(&self.tree.arena) {
            self.image.read_now(leaf);
        }
        self.at = self.image.count;
        self.step_back();
        Ok(())
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        let progress = mem::take(&mut self.progress);
        self.seek(&progress, &SortKey::before(key, SeqNum::MAX), Side::Behind);
        self.settle();
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.seek(&SeekProgress::default(), &SortKey::before(key, SeqNum::MAX), Side::Before);
        self.step_back();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.at != NOWHERE {
            self.step();
            self.settle();
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at != NOWHERE {
            if let Some(Some(ahead)) = self.at.checked_sub(AHEAD).map(|at| self.image.records[at]) {
                ahead.prefetch();
            }
            if self.at <= BACK {
                self.look_back();
            }
            self.step_back();
        }
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        self.record().map(Record::entry)
    }

    fn value(&self) -> Option<Value> {
        self.record().map(|record| pin(&self.tree, record))
    }
}

impl KeyCursor for TreeCursor {
    #[inline]
    fn next_key_in_leaf(&mut self) -> bool {
        let is_other = self.at != NOWHERE && self.is_last_version(self.at);
        if is_other {
            self.step();
        }
        is_other
    }

    #[inline]
    fn is_first_version(&self) -> bool {
        self.at != NOWHERE && self.at > 0 && self.is_last_version(self.at - 1)
    }
}

impl LazySeek for TreeCursor {
    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        self.tree.go_on(&mut self.progress, &SortKey::before(key, SeqNum::MAX), |at| at..at + 1)
    }
}

impl MergeSource for TreeCursor {
    fn is_cached(&self) -> bool {
        self.is_warm
    }
}

debug_by!(TreeCursor, self => entry: self.entry());
