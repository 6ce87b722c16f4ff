//! The memory budget: how much of it memtables hold, when they must be flushed, and how much writers are slowed
//! meanwhile.
//!
//! Active memtables may take three eighths of the budget: the larger they are, the fewer bytes are written, and merged
//! again, for each entry. Sealed ones on their way to disk may take another quarter. Writers are slowed from half of
//! that on, and while compactions have much to do (`table/policy/pressure.rs`): with the square of the pressure, so
//! little at first. The block cache has what memtables do not hold now, and at most three quarters, so a database that
//! is only read does not keep memory for writes. Of the quarter that it never has, memory that memtables gave back may
//! be kept for the next ones as far as memtables do not hold it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::base::sync::AtomicU64;
use crate::env::Threads;
use crate::table::memtable_handle::{MemtableHandle, Stage};
use crate::table::policy::FULL;
use crate::tree::memtable::ChunkPool;

/// The delay at full pressure: 200 ns a byte is 5 MB/s.
const DELAY_NS_PER_BYTE: u64 = 200;
/// Shorter sleeps than this cost more than they delay; they are saved up.
const SLEEP_NS_MIN: u64 = 200_000;
/// Nobody is stopped for longer by one write, however large it is; what is left of the delay is a debt of all writers.
const SLEEP_NS_MAX: u64 = 50_000_000;
/// A sleeper looks so often whether there is still reason to sleep.
const SLEEP_PIECE: Duration = Duration::from_millis(2);

/// Counts the bytes of memtables: what each was counted as is known under its stage, so the counters end at zero when
/// all are gone. They only steer.
#[derive(Debug)]
pub(crate) struct WriteBudget {
    budget: u64,
    active: AtomicU64,
    immutable: AtomicU64,
    /// Memory that memtables gave back; what it may keep follows the counters.
    chunks: Arc<ChunkPool>,
    /// The pressure of compactions that are due, in thousandths; set when a table's trees change.
    debt: AtomicU64,
    /// Delays of small writes, until they are worth a sleep.
    saved_ns: AtomicU64,
    /// What large writes have not slept of their delay. Each write pays as much of it as its own delay is, so that one
    /// that is small is not slowed more than twice.
    owed_ns: AtomicU64,
}

impl WriteBudget {
    /// A budget of so many bytes, with the pool of the memtables that are counted.
    pub(crate) fn new(budget: u64, chunks: Arc<ChunkPool>) -> Self {
        let zero = || AtomicU64::new(0);
        let (active, immutable, debt, saved_ns, owed_ns) = (zero(), zero(), zero(), zero(), zero());
        let budget = Self { budget, active, immutable, chunks, debt, saved_ns, owed_ns };
        budget.allow_chunks();
        budget
    }

    /// The part of the budget that the cache never has.
    const fn memtable_share(&self) -> u64 {
        self.budget / 4
    }

    /// Gives the memory back that the pool may not keep because memtables have grown. To be called without latches.
    #[inline]
    pub(crate) fn trim_chunks(&self) {
        self.chunks.trim();
    }

    /// Lets the pool keep what memtables leave of their share.
    fn allow_chunks(&self) {
        self.chunks.allow(self.memtable_share().saturating_sub(self.memtable_bytes()));
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
    pub(crate) fn count(&self, mem: &MemtableHandle) -> bool {
        if !mem.has_grown() {
            return false;
        }
        let stage = mem.stage();
        let bytes = mem.take_growth();
        let is_full = match *stage {
            Stage::Active => self.active.fetch_add(bytes, Ordering::Relaxed) + bytes > self.active_max(),
            Stage::Sealed => {
                self.immutable.fetch_add(bytes, Ordering::Relaxed);
                false
            }
            Stage::Gone => false,
        };
        drop(stage);
        self.allow_chunks();
        is_full
    }

    pub(crate) fn is_active_full(&self) -> bool {
        self.active.load(Ordering::Relaxed) > self.active_max()
    }

    /// Whether active memtables take half of their share at most.
    pub(crate) fn is_active_half_free(&self) -> bool {
        self.active.load(Ordering::Relaxed) <= self.active_max() / 2
    }

    /// A memtable stopped being active.
    pub(crate) fn sealed(&self, mem: &MemtableHandle) {
        let mut stage = mem.stage();
        if *stage == Stage::Active {
            *stage = Stage::Sealed;
            self.immutable.fetch_add(mem.accounted_bytes(), Ordering::Relaxed);
            self.active.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed);
        }
    }

    /// A memtable is gone.
    pub(crate) fn forget(&self, mem: &MemtableHandle) {
        let mut stage = mem.stage();
        match std::mem::replace(&mut *stage, Stage::Gone) {
            Stage::Active => self.active.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed),
            Stage::Sealed => self.immutable.fetch_sub(mem.accounted_bytes(), Ordering::Relaxed),
            Stage::Gone => 0,
        };
        drop(stage);
        self.allow_chunks();
    }

    /// Bytes in all memtables.
    pub(crate) fn memtable_bytes(&self) -> u64 {
        self.active.load(Ordering::Relaxed) + self.immutable.load(Ordering::Relaxed)
    }

    /// What is left for the cache.
    pub(crate) fn cache_bytes(&self) -> u64 {
        let taken = self.memtable_bytes().max(self.memtable_share());
        self.budget.saturating_sub(taken).max(self.budget / 8)
    }

    /// Whether memtables have grown so far into what a cache of so many bytes may have that it must be made smaller. A
    /// step of a sixty-fourth spares writers the cache's latches.
    pub(crate) fn presses_cache(&self, capacity: u64) -> bool {
        capacity > self.cache_bytes() + self.budget / 64
    }

    /// Whether writers must wait for a flush.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full_with(0)
    }

    /// Whether they must when writers are about to write so many bytes more.
    pub(crate) fn is_full_with(&self, more: u64) -> bool {
        // Where nothing is sealed, and nobody is about to write, no flush would be waited for.
        self.memtable_bytes() + more > self.budget / 8 * 5 && self.immutable.load(Ordering::Relaxed) + more > 0
    }

    /// Whether deletions must wait for a flush too: they have a share of their own.
    pub(crate) fn is_full_for_deletes(&self) -> bool {
        self.memtable_bytes() > self.budget / 4 * 3
    }

    /// Whether memtables have taken more than all of the memory.
    pub(crate) fn is_exceeded(&self) -> bool {
        self.memtable_bytes() > self.budget
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
            // Flushes and compactions have kept up with what was written meanwhile.
            take(&self.owed_ns, u64::MAX);
            return None;
        }
        let own = bytes * DELAY_NS_PER_BYTE * pressure / FULL * pressure / FULL;
        let owed = own + take(&self.owed_ns, own);
        let sleep = owed.min(SLEEP_NS_MAX);
        if owed > sleep {
            self.owed_ns.fetch_add(owed - sleep, Ordering::Relaxed);
        }
        if sleep >= SLEEP_NS_MIN {
            return Some(Duration::from_nanos(sleep));
        }
        let saved = self.saved_ns.fetch_add(sleep, Ordering::Relaxed) + sleep;
        (saved >= SLEEP_NS_MIN).then(|| Duration::from_nanos(take(&self.saved_ns, 2 * SLEEP_NS_MIN)))
    }

    /// Sleeps so long, or until writers are not slowed any more; for how long it was.
    pub(crate) fn sleep(&self, threads: &dyn Threads, delay: Duration) -> Duration {
        let mut left = delay;
        while !left.is_zero() && self.is_pressed() {
            let piece = left.min(SLEEP_PIECE);
            threads.sleep(piece);
            left -= piece;
        }
        delay - left
    }
}

/// Takes as much as there is, but at most so much.
fn take(from: &AtomicU64, most: u64) -> u64 {
    // Mostly there is nothing, and the line stays where it is.
    if from.load(Ordering::Relaxed) == 0 {
        return 0;
    }
    from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |there| Some(there - there.min(most)))
        .map_or(0, |there| there.min(most))
}

#[cfg(test)]
impl WriteBudget {
    /// Has so many bytes in sealed memtables.
    pub(in crate::db) fn set_immutable(&self, bytes: u64) {
        self.immutable.store(bytes, Ordering::Relaxed);
    }
}

/// What writers and flushes do to it, for a test of their schedules.
#[cfg(all(test, shuttle))]
impl WriteBudget {
    /// A writer has inserted so many bytes into the active memtable.
    pub(in crate::db) fn grow(&self, bytes: u64) {
        self.active.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Seals the active memtable if it has reached a limit: whether it did. One thread does so at a time, as under
    /// the commit latch. What is sealed is counted twice for a moment, and not left out.
    pub(in crate::db) fn seal(&self, limit: u64) -> bool {
        let active = self.active.load(Ordering::Relaxed);
        if active < limit {
            return false;
        }
        self.immutable.fetch_add(active, Ordering::Relaxed);
        self.active.fetch_sub(active, Ordering::Relaxed);
        true
    }

    pub(in crate::db) fn is_sealed(&self) -> bool {
        self.immutable.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Entry, Kind, SeqNum};
    use crate::env::Next;
    use crate::env::sim::SimEnv;

    #[test]
    fn writers_are_slowed_smoothly_and_only_under_pressure() {
        let memory = WriteBudget::new(64 << 20, Arc::default());
        memory.active.store(24 << 20, Ordering::Relaxed);
        assert_eq!(memory.delay(1 << 20), None);
        memory.immutable.store(10 << 20, Ordering::Relaxed);
        let some = memory.delay(1 << 20).unwrap();
        memory.immutable.store(15 << 20, Ordering::Relaxed);
        let more = memory.delay(1 << 20).unwrap();
        assert!(some < more && more < Duration::from_millis(300));
    }

    /// A budget that asks the most of writers.
    fn full() -> WriteBudget {
        let memory = WriteBudget::new(256 << 20, Arc::default());
        memory.set_debt(FULL);
        memory
    }

    /// How long so many writes sleep, each of so many bytes, and the longest of them.
    fn sleeps(memory: &WriteBudget, writes: u64, bytes: u64) -> (u64, u64) {
        let sleeps =
            (0..writes).filter_map(|_| memory.delay(bytes)).map(|time| u64::try_from(time.as_nanos()).unwrap());
        sleeps.fold((0, 0), |(sum, longest), time| (sum + time, longest.max(time)))
    }

    /// A batch of 64 MiB slept for 13 seconds, or a small write of another thread did in its place.
    #[test]
    fn no_write_sleeps_long_however_large_it_or_another_was() {
        let memory = full();
        assert_eq!(sleeps(&memory, 3, 64 << 20).1, SLEEP_NS_MAX);
        let (_, longest) = sleeps(&memory, 10_000, 100);
        assert!(longest <= 2 * SLEEP_NS_MIN, "{longest} ns");
        let (_, longest) = sleeps(&memory, 100, 4 << 10);
        assert_eq!(longest, 2 * (4 << 10) * DELAY_NS_PER_BYTE, "twice its share");
    }

    #[test]
    fn what_a_large_write_did_not_sleep_later_ones_do() {
        for later_bytes in [100, 4 << 10, 100 << 10] {
            let memory = full();
            let batch = 16 << 20;
            let (slept, _) = sleeps(&memory, 1, batch);
            // Twice its own share each, until all is paid.
            let later = batch / later_bytes + 1;
            let (paid, _) = sleeps(&memory, later, later_bytes);
            let all = (batch + later * later_bytes) * DELAY_NS_PER_BYTE;
            assert!((all - 2 * SLEEP_NS_MIN..=all).contains(&(slept + paid)), "{slept} and {paid} of {all} ns");
            let (sum, _) = sleeps(&memory, 10_000, later_bytes);
            let own = 10_000 * later_bytes * DELAY_NS_PER_BYTE;
            assert!(sum.abs_diff(own) <= 2 * SLEEP_NS_MIN, "{sum} ns for {own}: nothing is owed any more");
        }
    }

    #[test]
    fn writers_are_held_to_the_rate_whatever_the_size_of_their_writes() {
        for (debt, bytes) in [(FULL, 20), (FULL, 1000), (FULL / 2, 1000), (FULL, 200 << 10), (FULL / 4, 4 << 20)] {
            let memory = WriteBudget::new(256 << 20, Arc::default());
            memory.set_debt(debt);
            let (sum, longest) = sleeps(&memory, 20_000, bytes);
            let rate = DELAY_NS_PER_BYTE * debt / FULL * debt / FULL;
            let wanted = 20_000 * bytes * rate;
            let held = wanted.min(20_000 * SLEEP_NS_MAX);
            assert!(sum.abs_diff(held) <= 2 * SLEEP_NS_MIN, "{sum} ns of {held}, {bytes} bytes a write");
            assert!(longest <= SLEEP_NS_MAX);
        }
    }

    #[test]
    fn nothing_is_owed_when_nobody_needs_it() {
        let memory = full();
        memory.delay(64 << 20);
        memory.set_debt(0);
        assert_eq!(memory.delay(1), None);
        memory.set_debt(FULL);
        let own = 10_000 * 100 * DELAY_NS_PER_BYTE;
        assert_eq!(sleeps(&memory, 10_000, 100).0, own);
    }

    #[test]
    fn a_sleep_ends_when_there_is_no_reason_for_it_any_more() {
        let (sim, memory) = (SimEnv::new(1), Arc::new(full()));
        let threads = sim.env().threads;
        assert_eq!(memory.sleep(&*threads, 25 * SLEEP_PIECE), 25 * SLEEP_PIECE);
        let flushed = Arc::clone(&memory);
        let mut waits = true;
        let flush = move || {
            if std::mem::take(&mut waits) {
                return Next::WaitAtMost(3 * SLEEP_PIECE);
            }
            flushed.set_debt(0);
            Next::Wait
        };
        let _flush = threads.worker("flush", Box::new(flush)).unwrap();
        assert_eq!(memory.sleep(&*threads, 25 * SLEEP_PIECE), 3 * SLEEP_PIECE);
    }

    #[test]
    fn the_cache_has_what_memtables_do_not_hold_and_at_most_three_quarters() {
        let memory = WriteBudget::new(64 << 20, Arc::default());
        assert_eq!(memory.cache_bytes(), 48 << 20);
        memory.active.store(24 << 20, Ordering::Relaxed);
        assert_eq!((memory.cache_bytes(), memory.is_active_full()), (40 << 20, false));
        assert!(memory.presses_cache(42 << 20) && !memory.presses_cache(41 << 20));
        memory.immutable.store(40 << 20, Ordering::Relaxed);
        assert_eq!(memory.cache_bytes(), 8 << 20);
    }

    fn grow(mem: &MemtableHandle, seqnum: u64) {
        let key = seqnum.to_be_bytes();
        mem.entries.insert(&Entry { key: &key, seqnum: SeqNum(seqnum), kind: Kind::Put, value: &[0; 100_000] });
    }

    #[test]
    fn growth_that_is_counted_late_is_not_left_behind() {
        let memory = WriteBudget::new(1 << 20, Arc::default());
        let (dropped, flushed) = (MemtableHandle::new(&memory.chunks), MemtableHandle::new(&memory.chunks));
        for mem in [&dropped, &flushed] {
            grow(mem, 1);
            memory.count(mem);
        }
        assert_eq!(memory.memtable_bytes(), dropped.accounted_bytes() + flushed.accounted_bytes());
        grow(&flushed, 2);
        memory.sealed(&flushed);
        memory.count(&flushed);
        assert_eq!(memory.memtable_bytes(), dropped.accounted_bytes() + flushed.accounted_bytes());
        grow(&flushed, 3);
        for mem in [&dropped, &flushed] {
            memory.forget(mem);
            grow(mem, 4);
            memory.count(mem);
            memory.sealed(mem);
            memory.forget(mem);
        }
        assert_eq!(memory.memtable_bytes(), 0);
    }

    #[test]
    fn memory_for_the_next_memtables_is_kept_in_what_the_cache_never_has() {
        const MIB: u64 = 1 << 20;
        let memory = WriteBudget::new(64 * MIB, Arc::default());
        let fill = |mebibytes: u64| {
            let mem = MemtableHandle::new(&memory.chunks);
            (0..mebibytes * 11).for_each(|number| grow(&mem, number));
            memory.count(&mem);
            memory.trim_chunks();
            mem
        };
        let flush = |mem: Arc<MemtableHandle>| {
            memory.sealed(&mem);
            memory.forget(&mem);
        };
        flush(fill(22));
        let kept = memory.chunks.bytes();
        assert!((15 * MIB..=16 * MIB).contains(&kept), "a quarter: {kept} bytes");
        for mebibytes in [4, 8, 12, 20] {
            let mem = fill(mebibytes);
            let (held, kept) = (memory.memtable_bytes(), memory.chunks.bytes());
            assert!(held >= mebibytes * MIB && held.max(16 * MIB) >= held + kept, "{held} and {kept} bytes");
            assert_eq!(memory.cache_bytes() + held.max(16 * MIB), 64 * MIB);
            flush(mem);
        }
    }
}
