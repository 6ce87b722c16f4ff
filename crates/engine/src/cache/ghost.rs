//! The ghost: hashes of blocks that were evicted a short while ago, to know a block that comes back.
//!
//! A table of fingerprints in buckets of four, each with the time it was put there, counted in puts. A full bucket
//! forgets its oldest; what is older than the window that the reader asks for does not count. So the table needs no
//! queue, and errs only by forgetting early or, once in millions, by taking one block for another: both cost a
//! misplaced block.

use crate::base::num::usize_of32;

const BUCKET: usize = 4;
const EMPTY: u32 = 0;

#[derive(Clone, Copy, Debug)]
struct Mark {
    fingerprint: u32,
    time: u32,
}

/// A lossy set of hashes in the order they came.
#[derive(Debug)]
pub(super) struct Ghost {
    buckets: Vec<[Mark; BUCKET]>,
    now: u32,
}

impl Ghost {
    /// A ghost that remembers nothing.
    pub(super) fn new() -> Self {
        Self { buckets: vec![[Mark { fingerprint: EMPTY, time: 0 }; BUCKET]; 16], now: 0 }
    }

    /// Remembers `fingerprint`, with room for at least `window` of them.
    pub(super) fn put(&mut self, fingerprint: u32, window: usize) {
        // Twice the room keeps buckets from overflowing before the window has passed.
        while self.buckets.len() * BUCKET < 2 * window {
            self.grow();
        }
        self.now = self.now.wrapping_add(1);
        self.place(Mark { fingerprint: fingerprint.max(1), time: self.now });
    }

    /// Whether `fingerprint` is among about the last `window` ones put; forgets it.
    pub(super) fn take(&mut self, fingerprint: u32, window: usize) -> bool {
        let fingerprint = fingerprint.max(1);
        let now = self.now;
        let bucket = self.bucket(fingerprint);
        let Some(mark) = bucket.iter_mut().find(|mark| mark.fingerprint == fingerprint) else { return false };
        mark.fingerprint = EMPTY;
        usize_of32(now.wrapping_sub(mark.time)) < window
    }

    fn bucket(&mut self, fingerprint: u32) -> &mut [Mark; BUCKET] {
        let mask = self.buckets.len() - 1;
        &mut self.buckets[usize_of32(fingerprint) & mask]
    }

    /// Puts the mark over an empty one of its bucket, else over the oldest.
    fn place(&mut self, mark: Mark) {
        let now = self.now;
        let age = |mark: &Mark| if mark.fingerprint == EMPTY { u32::MAX } else { now.wrapping_sub(mark.time) };
        let oldest = self.bucket(mark.fingerprint).iter_mut().max_by_key(|mark| age(mark)).expect("a bucket has marks");
        *oldest = mark;
    }

    fn grow(&mut self) {
        let twice = vec![[Mark { fingerprint: EMPTY, time: 0 }; BUCKET]; 2 * self.buckets.len()];
        for mark in std::mem::replace(&mut self.buckets, twice).into_iter().flatten() {
            if mark.fingerprint != EMPTY {
                self.place(mark);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads small numbers over all bits, as the cache's hash does.
    fn hash(i: u32) -> u32 {
        i.wrapping_mul(0x9e37_79b1) ^ (i.wrapping_mul(0x85eb_ca6b) >> 15)
    }

    #[test]
    fn the_window_is_remembered_once_and_nothing_before_it() {
        let mut ghost = Ghost::new();
        for i in 0..10_000 {
            ghost.put(hash(i), 1000);
        }
        let known = (9_000..10_000).filter(|i| ghost.take(hash(*i), 1000)).count();
        assert!(known > 950, "{known} of 1000 remembered");
        assert!((0..10_000).all(|i| !ghost.take(hash(i), 1000)));
    }

    #[test]
    fn growing_keeps_what_was_remembered() {
        let mut ghost = Ghost::new();
        (0..30).for_each(|i| ghost.put(hash(i), 30));
        ghost.put(hash(30), 4000);
        assert!((0..=30).all(|i| ghost.take(hash(i), 100)));
    }
}
