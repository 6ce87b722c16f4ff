//! What each commit does: a pure function of the seed, the thread and the commit's number, so that what a crash leaves
//! can be judged.
//!
//! # Contents
//! Commit `i` (from 1) of thread `t` draws from `Random::of(seed, t << 48 | i)` (xoshiro256++): the seed of its values,
//! a number of changes `1 + below(4)`, and for each a slot `below(1000)` and whether it is put (`below(4)` not 0) or
//! deleted. It then
//!
//! 1. makes these changes, the same in `stress-btree` and in `stress-lsm`, under the key `t` (2 bytes, big-endian),
//!    slot (8 bytes);
//! 2. puts the key `t`, `i` in `stress-tiered`, and when `i` is a multiple of 64 deletes all such keys up to `i - 2000`
//!    there at once;
//! 3. puts the key `t`, 2^64 - 1 in all three tables, with the value `i` (8 bytes, little-endian).
//!
//! The value of a slot (of slot 1000 in `stress-tiered`) draws from `Random::of(seed of the values, slot)`: its length,
//! which is `4096 + below(28672)` if `below(64)` is 0 and else `16 + below(400)`, and so many bytes. `i` (8 bytes,
//! little-endian) stands before them.
//!
//! So a thread has at most 1000 slots and 2064 keys in `stress-tiered`, however many commits it makes.

use spinney_lab::Random;
use std::ops::RangeInclusive;

/// Slots of a thread in the tables of slots.
pub(super) const SLOTS: u64 = 1000;
/// What tells the value of a journal's entry from those of slots.
pub(super) const JOURNAL: u64 = SLOTS;
/// The place of the number of a thread's last commit, in each table.
pub(super) const LAST: u64 = u64::MAX;
/// Commits that the journal keeps at least.
const WINDOW: u64 = 2000;
/// Every so many commits the journal is cut.
const CUT: u64 = 64;

/// One commit of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) thread: u16,
    pub(super) number: u64,
    /// Slots, and whether each is put or deleted. The last change of a slot counts.
    pub(super) changes: Vec<(u64, bool)>,
    values: u64,
}

impl Work {
    /// Commit `number` of a thread.
    pub(super) fn new(seed: u64, thread: u16, number: u64) -> Self {
        let mut random = Random::of(seed, u64::from(thread) << 48 | number);
        let values = random.next();
        let changes = (0..=random.below(4)).map(|_| (random.below(SLOTS), random.below(4) != 0)).collect();
        Self { thread, number, changes, values }
    }

    /// The value that it puts in a slot.
    pub(super) fn value(&self, slot: u64) -> Vec<u8> {
        let mut random = Random::of(self.values, slot);
        let long = random.below(64) == 0;
        let len = if long { 4096 + random.below(28_672) } else { 16 + random.below(400) };
        let mut value = self.number.to_le_bytes().to_vec();
        value.resize(8 + usize::try_from(len).expect("small"), 0);
        random.fill(&mut value[8..]);
        value
    }

    /// The last entry of the journal that it deletes, with all before.
    pub(super) fn cut(&self) -> Option<u64> {
        if self.number.is_multiple_of(CUT) { self.number.checked_sub(WINDOW) } else { None }
    }
}

/// The key of a place of a thread.
pub(super) fn key(thread: u16, place: u64) -> Vec<u8> {
    [&thread.to_be_bytes()[..], &place.to_be_bytes()[..]].concat()
}

/// What a thread has written.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) commits: u64,
    /// The commit whose value each slot has, 0 for none.
    pub(super) slots: Vec<u64>,
}

impl Written {
    /// By the first `commits` commits of a thread.
    pub(super) fn after(seed: u64, thread: u16, commits: u64) -> Self {
        let mut written = Self { commits: 0, slots: (0..SLOTS).map(|_| 0).collect() };
        (1..=commits).for_each(|number| written.apply(&Work::new(seed, thread, number)));
        written
    }

    /// Adds the next commit.
    pub(super) fn apply(&mut self, work: &Work) {
        assert_eq!(work.number, self.commits + 1, "commits come one after the other");
        self.commits = work.number;
        for (slot, put) in &work.changes {
            self.slots[usize::try_from(*slot).expect("one of the slots")] = if *put { work.number } else { 0 };
        }
    }

    /// The entries of the journal.
    pub(super) fn journal(&self) -> RangeInclusive<u64> {
        let cut = (self.commits / CUT * CUT).saturating_sub(WINDOW);
        cut + 1..=self.commits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_are_the_published_ones() {
        let work = Work::new(7, 2, 41);
        let mut random = Random::of(7, 2 << 48 | 41);
        let values = random.next();
        assert_eq!(work.changes.len() as u64, 1 + random.below(4));
        assert_eq!(work.changes[0], (random.below(1000), random.below(4) != 0));
        let value = work.value(5);
        let mut random = Random::of(values, 5);
        assert!(random.below(64) > 0, "short");
        assert_eq!((value.len() as u64, &value[..8]), (8 + 16 + random.below(400), &41_u64.to_le_bytes()[..]));
        assert_eq!(key(2, 41), [0, 2, 0, 0, 0, 0, 0, 0, 0, 41]);
    }

    #[test]
    fn the_journal_keeps_what_no_commit_has_cut() {
        for commits in [0, 1, 63, 64, 2000, 2047, 2048, 5000] {
            let mut entries: Vec<u64> = (1..=commits).collect();
            for number in 1..=commits {
                let cut = Work::new(1, 0, number).cut();
                entries.retain(|entry| *entry > number || cut.is_none_or(|cut| *entry > cut));
            }
            assert!(Written::after(1, 0, commits).journal().eq(entries), "{commits}");
        }
    }

    #[test]
    fn contents_do_not_grow() {
        let written = Written::after(3, 1, 20_000);
        let filled = written.slots.iter().filter(|slot| **slot > 0).count();
        assert!((650..850).contains(&filled), "{filled}");
        assert!(written.journal().count() <= 2064);
    }
}
