//! A walk over the memtable that takes a leaf at a time: records never change, so a copy of a leaf's slots is all it
//! needs.
//!
//! # Invariants
//! 1. The image is what the leaf held at one moment, from the leaf's `low` up to the `low` of the `next` that it then
//!    had.
//! 2. Both bounds stay ends of leaves for ever, so neighbouring images neither overlap nor leave a gap: what was
//!    present when the cursor was placed is shown exactly once, however many leaves split during the walk.

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

/// A cursor over a memtable that takes entries. Inserts go on during the walk; those made after the cursor was placed
/// may be shown or not.
pub(super) struct TreeCursor {
    image: Image,
    /// The slot of the image that the cursor is at.
    at: usize,
    is_warm: bool,
    /// The progress of a seek that was prefetched.
    progress: SeekProgress,
    /// Keeps the records of the image alive.
    tree: Arc<Tree>,
}

/// A leaf as it was at one moment.
struct Image {
    records: [Option<Record<'static>>; SLOTS],
    count: usize,
    low: Option<Record<'static>>,
    next: Link,
}

impl TreeCursor {
    /// With `is_warm`, what a merge writes of the memtable is likely to be read soon.
    pub(super) fn new(tree: Arc<Tree>, is_warm: bool) -> Self {
        let image = Image { records: [None; SLOTS], count: 0, low: None, next: Link::new() };
        Self { image, at: NOWHERE, is_warm, progress: SeekProgress::default(), tree }
    }

    fn record(&self) -> Option<Record<'_>> {
        if self.at < self.image.count { self.image.records[self.at] } else { None }
    }

    /// Moves to `place`: the first record behind it is the current one, perhaps only after [`Self::settle`].
    fn seek(&mut self, place: &SortKey<'_>) {
        self.seek_from(SeekProgress::default(), place);
    }

    /// As [`Self::seek`], from the progress of a descent to the same place.
    fn seek_from(&mut self, progress: SeekProgress, place: &SortKey<'_>) {
        self.progress = SeekProgress::default();
        loop {
            let (leaf, version) = self.tree.descend_from(&progress, place);
            self.at = leaf.rank(place);
            if self.image.read(leaf, version) {
                return;
            }
        }
    }

    /// From the end of an image on to the first record of the next.
    fn settle(&mut self) {
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
    fn step_back(&mut self) {
        while self.at == 0 {
            let Some(low) = self.image.low else {
                self.at = NOWHERE;
                return;
            };
            self.seek(&SortKey::before(low.key(), low.seqnum()));
        }
        self.at -= 1;
    }
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
        self.low = leaf.low().map(keep);
        self.next.set(leaf.next());
        leaf.is_at(version)
    }

    fn read_now(&mut self, leaf: &Node) {
        while !self.read(leaf, leaf.version()) {}
    }
}

impl Cursor for TreeCursor {
    fn first(&mut self) -> Result<()> {
        self.progress = SeekProgress::default();
        self.image.read_now(self.tree.first_leaf());
        self.at = 0;
        self.settle();
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.progress = SeekProgress::default();
        self.image.read_now(self.tree.tail());
        while let Some(leaf) = self.image.next.get(&self.tree.arena) {
            self.image.read_now(leaf);
        }
        self.at = self.image.count;
        self.step_back();
        Ok(())
    }

    fn seek_ge(&mut self, key: &[u8]) -> Result<()> {
        let progress = std::mem::take(&mut self.progress);
        self.seek_from(progress, &SortKey::before(key, SeqNum::MAX));
        self.settle();
        Ok(())
    }

    fn seek_lt(&mut self, key: &[u8]) -> Result<()> {
        self.seek(&SortKey::before(key, SeqNum::MAX));
        self.step_back();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        if self.at != NOWHERE {
            self.at += 1;
            if let Some(Some(ahead)) = self.image.records[..self.image.count].get(self.at + AHEAD) {
                ahead.prefetch();
            }
            self.settle();
        }
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        if self.at != NOWHERE {
            if let Some(Some(ahead)) = self.at.checked_sub(AHEAD).map(|at| self.image.records[at]) {
                ahead.prefetch();
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

impl KeyCursor for TreeCursor {}

impl LazySeek for TreeCursor {
    fn prefetch_seek_ge(&mut self, key: &[u8]) -> bool {
        self.tree.go_on(&mut self.progress, &SortKey::before(key, SeqNum::MAX))
    }
}

impl MergeSource for TreeCursor {
    fn is_cached(&self) -> bool {
        self.is_warm
    }
}

debug_by!(TreeCursor, self => entry: self.entry());
