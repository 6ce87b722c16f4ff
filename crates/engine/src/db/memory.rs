//! The memory budget: how much of it memtables hold, when they must be flushed, and how much writers are slowed meanwhile.
//!
//! Active memtables may take three eighths of the budget: the larger they are, the fewer bytes are written, and merged again, for each entry.
//! Full ones on their way to disk may take another quarter; from half of that on, writers are slowed in proportion. The block cache has what
//! memtables do not hold now, and at most three quarters, so a database that is only read does not keep memory for writes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::table::policy::FULL;
use crate::table::version::{Mem, Stage};

/// The delay at full pressure: 200 ns a byte is 5 MB/s.
const DELAY_NS_PER_BYTE: u64 = 200;
/// Shorter sleeps than this cost more than they delay; they are saved up.
const SLEEP_NS_MIN: u64 = 200_000;

/// Counts the bytes of memtables: what each was counted as is known under its stage, so the counters end at zero when all are gone.
/// They only steer.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: u64,
    active: AtomicU64,
    immutable: AtomicU64,
    /// What compaction debt asks of writers, in thousandths; set when a version is installed.
    debt: AtomicU64,
    /// Delay that writers owe and have not slept yet.
    owed_ns: AtomicU64,
}

impl Memory {
    pub(crate) fn new(budget: u64) -> Self {
        let zero = || AtomicU64::new(0);
        Self { budget, active: zero(), immutable: zero(), debt: zero(), owed_ns: zero() }
    }

    /// The share of the budget that active memtables may take.
    pub(crate) const fn active_max(&self) -> u64 {
        self.budget / 8 * 3
    }

    /// The largest batch that fits.
    pub(crate) const fn batch_bytes_max(&self) -> u64 {
        self.budget / 4
    }

    /// Counts what a memtable grew by. Says whether an active one must be flushed.
    pub(crate) fn count(&self, mem: &Mem) -> bool {
        if !mem.has_grown() {
            return false;
        }
        let stage = mem.stage();
        let bytes = mem.take_growth();
        match *stage {
            Stage::Active => self.active.fetch_add(bytes, Ordering::Relaxed) + bytes > self.active_max(),
            Stage::Frozen => {
                self.immutable.fetch_add(bytes, Ordering::Relaxed);
                false
            }
            Stage::Gone => false,
        }
    }

    pub(crate) fn is_active_full(&self) -> bool {
        self.active.load(Ordering::Relaxed) > self.active_max()
    }

    /// A memtable stopped being active.
    pub(crate) fn froze(&self, mem: &Mem) {
        let mut stage = mem.stage();
        if *stage == Stage::Active {
            *stage = Stage::Frozen;
            self.immutable.fetch_add(mem.accounted_bytes(), Ordering::Relaxed);
            self.active.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed);
        }
    }

    /// A memtable is gone.
    pub(crate) fn forget(&self, mem: &Mem) {
        let mut stage = mem.stage();
        match std::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Active => self.active.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed),
            Stage::Frozen => self.immutable.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed),
            Stage::Gone => 0,
        };
    }

    /// Bytes in all memtables.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.active.load(Ordering::Relaxed) + self.immutable.load(Ordering::Relaxed)
    }

    /// What is left for the cache.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let taken = self.memtable_bytes().max(self.budget / 4);
        self.budget.saturating_sub(taken).max(self.budget / 8)
    }

    /// Whether memtables have grown so far into what a cache of so many bytes may have that it must be made smaller. A step of a
    /// sixty-fourth spares writers the cache's latches.
    pub(crate) fn presses_cache(&self, capacity: u64) -> bool {
        capacity > self.cache_bytes() + self.budget / 64
    }

    /// Whether writers must wait for a flush.
    pub(crate) fn is_full(&self) -> bool {
        self.memtable_bytes() > self.budget / 8 * 5 && self.immutable.load(Ordering::Relaxed) > 0
    }

    /// Tells what the compaction debt of the worst table asks of writers, in thousandths.
    pub(crate) fn set_debt(&self, thousandths: u64) {
        self.debt.store(thousandths, Ordering::Relaxed);
    }

    /// Whether writers are slowed.
    pub(crate) fn is_pressed(&self) -> bool {
        self.pressure() > 0
    }

    fn pressure(&self) -> u64 {
        let (low, high) = (self.budget / 2, self.budget / 8 * 5);
        let over = self.memtable_bytes().clamp(low, high) - low;
        self.debt.load(Ordering::Relaxed).max(over * FULL / (high - low).max(1))
    }

    /// How long a writer of `bytes` must sleep now so that flushes and compactions keep up.
    pub(crate) fn delay(&self, bytes: u64) -> Option<Duration> {
        let pressure = self.pressure();
        if pressure == 0 {
            return None;
        }
        let delay = bytes * DELAY_NS_PER_BYTE * pressure / FULL * pressure / FULL;
        let owed = self.owed_ns.fetch_add(delay, Ordering::Relaxed) + delay;
        if owed < SLEEP_NS_MIN {
            return None;
        }
        Some(Duration::from_nanos(self.owed_ns.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Entry, Kind, SeqNum};

    #[test]
    fn writers_are_slowed_smoothly_and_only_under_pressure() {
        let memory = Memory::new(64 << 20);
        memory.active.store(24 << 20, Ordering::Relaxed);
        assert_eq!(memory.delay(1 << 20), None);
        memory.immutable.store(10 << 20, Ordering::Relaxed);
        let some = memory.delay(1 << 20).unwrap();
        memory.immutable.store(15 << 20, Ordering::Relaxed);
        let more = memory.delay(1 << 20).unwrap();
        assert!(some < more && more < Duration::from_millis(300));
    }

    #[test]
    fn the_cache_has_what_memtables_do_not_hold_and_at_most_three_quarters() {
        let memory = Memory::new(64 << 20);
        assert_eq!(memory.cache_bytes(), 48 << 20);
        memory.active.store(24 << 20, Ordering::Relaxed);
        assert_eq!((memory.cache_bytes(), memory.is_active_full()), (40 << 20, false));
        assert!(memory.presses_cache(42 << 20) && !memory.presses_cache(41 << 20));
        memory.immutable.store(40 << 20, Ordering::Relaxed);
        assert_eq!(memory.cache_bytes(), 8 << 20);
    }

    fn grow(mem: &Mem, seqnum: u64) {
        let key = seqnum.to_be_bytes();
        mem.entries.insert(&Entry { key: &key, seqnum: SeqNum(seqnum), kind: Kind::Put, value: &[0; 100_000] });
    }

    #[test]
    fn growth_that_is_counted_late_is_not_left_behind() {
        let memory = Memory::new(1 << 20);
        let (dropped, flushed) = (Mem::new(), Mem::new());
        for mem in [&dropped, &flushed] {
            grow(mem, 1);
            memory.count(mem);
        }
        assert_eq!(memory.memtable_bytes(), dropped.accounted_bytes() + flushed.accounted_bytes());
        grow(&flushed, 2);
        memory.froze(&flushed);
        memory.count(&flushed);
        assert_eq!(memory.memtable_bytes(), dropped.accounted_bytes() + flushed.accounted_bytes());
        grow(&flushed, 3);
        for mem in [&dropped, &flushed] {
            memory.forget(mem);
            grow(mem, 4);
            memory.count(mem);
            memory.froze(mem);
            memory.forget(mem);
        }
        assert_eq!(memory.memtable_bytes(), 0);
    }
}
