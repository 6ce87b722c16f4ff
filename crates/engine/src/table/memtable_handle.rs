//! A memtable with its position in the log, the commit point at which it was sealed, and its count of memory.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::base::num::u64_of;
use crate::base::sync::{AtomicU32, AtomicU64, Mutex, MutexGuard, thread};
use crate::base::{Entry, Lsn, SeqNum};
use crate::tree::memtable::{ChunkPool, Memtable};

/// A memtable of fewer bytes lies in the processor's cache, and costs reads little.
pub const SMALL_BYTES: u64 = 1 << 20;

/// A memtable in its place in the log.
#[derive(Debug)]
pub struct MemtableHandle {
    /// The entries.
    pub entries: Memtable,
    /// Every change in it is in the log at or after this position; `u64::MAX` while there is none. Of an unlogged
    /// table: where the log ended when the first change came, which only tells that there is one. Set under the commit
    /// latch, and by the threads of recovery.
    first_lsn: AtomicU64,
    /// Every change in it comes before. Set under the commit latch when the memtable stops being active.
    sealed_at: OnceLock<CommitPoint>,
    /// Commits that have their place in the log but are still inserting. Commits enter under the commit latch and leave
    /// with `Release`; a flush that has sealed the memtable under the same latch waits for zero with `Acquire`, and
    /// then sees all.
    inserting: AtomicU32,
    /// Bytes of the range tombstones that came with the entries. Only grows.
    erased_bytes: AtomicU64,
    /// Bytes counted in the database's memory. Changes under `stage`; steers only.
    accounted: AtomicU64,
    /// As what they are counted.
    stage: Mutex<Stage>,
}

/// A place in the order of commits, between two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitPoint {
    /// The seqnum of the next commit. It tells two moments apart between which there was a commit.
    pub(crate) next_seqnum: SeqNum,
    /// Where the log ends. Commits that change unlogged tables only do not move it.
    pub(crate) lsn: Lsn,
}

/// As what the bytes of a memtable are counted in the database's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// It takes writes.
    Active,
    /// It waits for its flush.
    Sealed,
    /// It is on disk or was dropped; a reader that still reads it keeps it in memory for a moment.
    Gone,
}

impl MemtableHandle {
    /// An empty memtable, whose memory comes from a pool and goes back there.
    #[must_use]
    pub fn new(pool: &Arc<ChunkPool>) -> Arc<Self> {
        Arc::new(Self {
            entries: Memtable::in_pool(pool),
            first_lsn: AtomicU64::new(u64::MAX),
            sealed_at: OnceLock::new(),
            inserting: AtomicU32::new(0),
            erased_bytes: AtomicU64::new(0),
            accounted: AtomicU64::new(0),
            stage: Mutex::new(Stage::Active),
        })
    }

    /// A memtable of a batch that has its place from the one moment to the other, and is sealed.
    #[must_use]
    pub(crate) fn of_batch(entries: Memtable, place: &Range<CommitPoint>) -> Arc<Self> {
        Arc::new(Self {
            entries,
            first_lsn: AtomicU64::new(place.start.lsn.0),
            sealed_at: OnceLock::from(place.end),
            inserting: AtomicU32::new(0),
            erased_bytes: AtomicU64::new(0),
            accounted: AtomicU64::new(0),
            stage: Mutex::new(Stage::Sealed),
        })
    }

    /// A commit whose record is at `lsn` begins to insert. Called under the commit latch.
    pub(crate) fn enter(&self, lsn: Lsn) {
        self.note(lsn);
        self.inserting.fetch_add(1, Ordering::Relaxed);
    }

    /// Inserts an entry whose log record is at `lsn`. Only recovery does so, in several threads, and waits for all
    /// before it seals.
    pub(crate) fn replay(&self, lsn: Lsn, entry: &Entry<'_>) {
        self.note(lsn);
        self.entries.insert(entry);
    }

    /// A change whose log record is at `lsn` is to be flushed with the memtable. As [`Self::replay`].
    pub(crate) fn note(&self, lsn: Lsn) {
        // Mostly it is known: a look is cheaper.
        if self.first_lsn.load(Ordering::Relaxed) > lsn.0 {
            self.first_lsn.fetch_min(lsn.0, Ordering::Relaxed);
        }
    }

    /// Counts the bytes of range tombstones that came with its entries: they take memory until they are flushed with
    /// it.
    pub(crate) fn erased(&self, bytes: u64) {
        self.erased_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes of memory of its entries and range tombstones.
    fn bytes(&self) -> u64 {
        u64_of(self.entries.bytes()) + self.erased_bytes.load(Ordering::Relaxed)
    }

    /// No commit enters any more. Called under the commit latch, which holds the moment still.
    pub(crate) fn seal(&self, now: CommitPoint) {
        self.sealed_at.set(now).expect("a memtable is sealed once");
        self.entries.release_memory();
    }

    /// When the memtable stopped being active.
    pub(crate) fn sealed_at(&self) -> Option<CommitPoint> {
        self.sealed_at.get().copied()
    }

    /// Whether it holds no change and is not about to.
    pub(crate) fn is_unused(&self) -> bool {
        self.first_lsn().is_none()
    }

    /// Where the first change is in the log (of an unlogged table: where the log ended then), if it holds or is about
    /// to hold any.
    pub(crate) fn first_lsn(&self) -> Option<Lsn> {
        let lsn = self.first_lsn.load(Ordering::Relaxed);
        (lsn != u64::MAX).then_some(Lsn(lsn))
    }

    /// A commit has inserted all.
    pub(crate) fn leave(&self) {
        self.inserting.fetch_sub(1, Ordering::Release);
    }

    /// Waits until every commit that entered has left. The memtable is sealed, or the caller holds the commit latch:
    /// no other enters.
    pub(crate) fn wait_for_inserts(&self) {
        while self.inserting.load(Ordering::Acquire) != 0 {
            thread::yield_now();
        }
    }

    /// As what the memtable's bytes are counted; held while the counters are changed.
    pub(crate) fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock()
    }

    /// Whether the memtable grew since [`Self::take_growth`].
    pub(crate) fn has_grown(&self) -> bool {
        self.bytes() > self.accounted_bytes()
    }

    /// How many bytes the memtable grew since the last call. The caller holds the stage and counts them.
    pub(crate) fn take_growth(&self) -> u64 {
        let now = self.bytes();
        now.saturating_sub(self.accounted.fetch_max(now, Ordering::Relaxed))
    }

    /// Bytes that [`Self::take_growth`] has told of.
    pub(crate) fn accounted_bytes(&self) -> u64 {
        self.accounted.load(Ordering::Relaxed)
    }

    /// Whether it is so small that reads look at it in the processor's cache.
    #[inline]
    pub(crate) fn is_small(&self) -> bool {
        self.accounted_bytes() < SMALL_BYTES
    }
}
