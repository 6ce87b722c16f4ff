//! The hash table of a shard: each entry lies in one cache line, with all that a hit looks at. So a hit waits for one
//! line of memory as a rule (it looks at 1.3 to 2 lines on average, neighbours of each other), and a thread that knows
//! the key can prefetch that line.
//!
//! Open addressing with linear probing; what is removed is made up for by moving others back. (Knuth, The Art of
//! Computer Programming, volume 3, section 6.4, algorithms L and R.)
//!
//! # Invariants
//! 1. No line from a key's home line, which its hash gives, to the line where the key is, is free.
//! 2. At least a third of the lines are free.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::intrusive_list::Index;
use crate::base::num::usize_of;
use crate::base::prefetch::{CACHE_LINE_BYTES, prefetch};

const LINES_MIN: usize = 16;

/// Where a value lies: a file, by the number that its open handle has in this process, and an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) instance: u64,
    pub(super) offset: u64,
}

impl Key {
    /// A hash with all bits spread (the finaliser of splitmix64). Low bits say where in a table, the top ones in which
    /// shard.
    #[inline]
    pub(super) const fn hash(self) -> u64 {
        let mut hash = self.offset ^ self.instance.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// The bits of the hash that the ghost remembers.
    #[expect(clippy::cast_possible_truncation, reason = "32 bits of the hash are wanted")]
    pub(super) const fn fingerprint(self) -> u32 {
        (self.hash() >> 16) as u32
    }
}

/// A value, and what a hit looks at.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Line<V> {
    pub(super) key: Key,
    /// Tells two values at one key apart: blocks of a tree file are rewritten where an older block was.
    pub(super) tag: u64,
    pub(super) value: V,
    /// How many values had been inserted into the shard before this one; zero once it is in the main queue.
    pub(super) born: u64,
    /// Where the shard keeps the rest.
    pub(super) slot: Index,
    pub(super) frequency: u8,
    /// It was populated, and was not read yet.
    pub(super) populated: bool,
}

/// Lines by their keys.
#[derive(Debug)]
pub(super) struct Table<V> {
    /// A power of two.
    lines: Box<[Option<Line<V>>]>,
    len: usize,
}

impl<V> Table<V> {
    pub(super) fn new() -> Self {
        Self { lines: free(LINES_MIN), len: 0 }
    }

    /// How many lines are in use.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Where the line of `key` is, if there is one.
    #[inline]
    pub(super) fn find(&self, hash: u64, key: Key) -> Option<usize> {
        let mut at = self.home(hash);
        while let Some(line) = &self.lines[at] {
            if line.key == key {
                return Some(at);
            }
            at = self.behind(at);
        }
        None
    }

    /// The line at `at`, where there must be one.
    #[inline]
    pub(super) fn line(&mut self, at: usize) -> &mut Line<V> {
        self.lines[at].as_mut().expect("a place that was found holds a line")
    }

    /// The lines from `at` on, `count` of them at most, that are in use; `None` behind the last.
    pub(super) fn lines_from(&self, at: usize, count: usize) -> Option<impl Iterator<Item = &Line<V>>> {
        let lines = self.lines.get(at..).filter(|lines| !lines.is_empty())?;
        Some(lines[..count.min(lines.len())].iter().flatten())
    }

    /// Puts a line in whose key is not there. `placed` is told of all that get a place: it, and those that are moved
    /// for it.
    pub(super) fn insert(&mut self, line: Line<V>, mut placed: impl FnMut(Index, usize)) {
        self.len += 1;
        if self.len * 3 > self.lines.len() * 2 {
            let room = free(self.lines.len() * 2);
            for line in std::mem::replace(&mut self.lines, room).into_iter().flatten() {
                self.put(line, &mut placed);
            }
        }
        self.put(line, &mut placed);
    }

    fn put(&mut self, line: Line<V>, placed: &mut impl FnMut(Index, usize)) {
        let mut at = self.home(line.key.hash());
        while self.lines[at].is_some() {
            at = self.behind(at);
        }
        placed(line.slot, at);
        self.lines[at] = Some(line);
    }

    /// Takes out the line at `at`, where there must be one. `placed` is told of all that are moved for it.
    pub(super) fn remove(&mut self, at: usize, mut placed: impl FnMut(Index, usize)) -> Line<V> {
        let removed = self.lines[at].take().expect("a place that was found holds a line");
        self.len -= 1;
        let (mut hole, mut at) = (at, self.behind(at));
        while let Some(line) = &self.lines[at] {
            let (slot, home) = (line.slot, self.home(line.key.hash()));
            if self.distance(home, at) >= self.distance(hole, at) {
                placed(slot, hole);
                self.lines.swap(hole, at);
                hole = at;
            }
            at = self.behind(at);
        }
        removed
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        usize_of(hash) & self.mask()
    }

    #[inline]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & self.mask()
    }

    /// How many lines `to` is behind `from`.
    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & self.mask()
    }

    #[inline]
    fn mask(&self) -> usize {
        self.lines.len() - 1
    }

    /// The line at `at`, where there must be one.
    #[cfg(test)]
    pub(super) fn at(&self, at: u32) -> &Line<V> {
        self.lines[crate::base::num::usize_of32(at)].as_ref().expect("a line in use")
    }

    /// Checks the invariants of the header.
    ///
    /// # Panics
    /// When one does not hold.
    #[cfg(test)]
    pub(super) fn verify(&self) {
        assert_eq!(self.lines.iter().flatten().count(), self.len);
        assert!(self.len * 3 <= self.lines.len() * 2);
        for (at, line) in self.lines.iter().enumerate() {
            assert!(line.as_ref().is_none_or(|line| self.find(line.key.hash(), line.key) == Some(at)));
        }
    }
}

fn free<V>(lines: usize) -> Box<[Option<Line<V>>]> {
    (0..lines).map(|_| None).collect()
}

/// Where the lines of a table are, for threads that prefetch them without the latch of the shard. It may be out of
/// date: then the wrong memory comes, and nothing else.
#[derive(Debug, Default)]
pub(super) struct TableAddr {
    start: AtomicUsize,
    mask: AtomicUsize,
}

impl TableAddr {
    /// Points to the table as it is now.
    #[inline]
    pub(super) fn follow<V>(&self, table: &Table<V>) {
        const { assert!(size_of::<Option<Line<V>>>() == CACHE_LINE_BYTES) };
        // Relaxed: publishes nothing that is relied on.
        self.start.store(table.lines.as_ptr().addr(), Ordering::Relaxed);
        self.mask.store(table.mask(), Ordering::Relaxed);
    }

    /// Whether it points to the table.
    #[cfg(test)]
    pub(super) fn follows<V>(&self, table: &Table<V>) -> bool {
        let at = (self.start.load(Ordering::Relaxed), self.mask.load(Ordering::Relaxed));
        at == (table.lines.as_ptr().addr(), table.mask())
    }

    /// Prefetches the line where the search for a key with this hash begins.
    #[inline]
    pub(super) fn prefetch(&self, hash: u64) {
        let line = usize_of(hash) & self.mask.load(Ordering::Relaxed);
        let start = self.start.load(Ordering::Relaxed);
        prefetch(std::ptr::without_provenance(start.wrapping_add(line * CACHE_LINE_BYTES)), CACHE_LINE_BYTES);
    }
}
