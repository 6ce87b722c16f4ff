//! What keeps writers from outrunning flushes and compactions: the share of memory that memtables may take, the queue
//! of writers that wait for a flush, and the space on disk that a flush will need. A commit passes all three by one
//! call, [`Throttle::admit`].
//!
//! Commits that put are refused before memtables hold more than the disk has room to flush. So on a disk that the
//! database has filled there is room to flush deletions, for the redo log of more, and for the merges that give space
//! back.

pub(crate) mod budget;
pub(crate) mod stall_queue;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::base::num::u64_of;
use crate::base::{Error, ErrorKind, Result};
use crate::db::state::State;
use crate::db::state::events::Event;
use crate::table::{manifest, policy};
use crate::txn::batch::Changes;

use self::budget::WriteBudget;
use self::stall_queue::{Admission, StallQueue};

/// Bytes that stay free beside what memtables hold, at most; a segment of the log if that is less. A new manifest and
/// its copy come on top.
const KEPT_BYTES_MAX: u64 = 1 << 20;
/// The free space is measured again when memtables have grown by a fourth of the room that was left: at most by this
/// part of memory, at least by this part of what is kept.
const LEFT_PART: u64 = 4;
const MEMORY_PART: u64 = 64;
const KEPT_PART: u64 = 8;
/// Memtables of less than this part of what is kept are not flushed for want of space.
const WORTH_PART: u64 = 2;

/// Admits writers.
#[derive(Debug)]
pub(crate) struct Throttle {
    state: Arc<State>,
    pub(crate) budget: WriteBudget,
    pub(crate) queue: Arc<StallQueue>,
    space: DiskSpace,
}

/// What was found when it was looked last how much space there is. Both fields only steer: a commit that is admitted by
/// a stale value takes a little of the space that is kept.
#[derive(Debug, Default)]
struct DiskSpace {
    /// There was not enough: commits that put look again before they go on.
    is_tight: AtomicBool,
    /// Bytes of memtables from which on it is looked again.
    look_at: AtomicU64,
}

impl Throttle {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let budget = WriteBudget::new(state.options.memory_bytes, Arc::clone(state.tables.memtable_chunks()));
        let queue = Arc::<StallQueue>::default();
        state.health.watch(Arc::<StallQueue>::clone(&queue));
        Self { state, budget, queue, space: DiskSpace::default() }
    }

    /// Admits a commit: waits as long as flushes and compactions need to keep up, and until there is memory for it. A
    /// commit that had to wait for memory keeps its share of it until the admission is dropped.
    ///
    /// # Errors
    /// `TooLarge` when the commit is larger than memory allows and not declared to be; `Full` when the disk has no room
    /// for what would have to be flushed; `Closed` and `Poisoned` when the database is while the commit waits.
    pub(crate) fn admit(&self, changes: &Changes) -> Result<Option<Admission<'_>>> {
        let bytes = u64_of(changes.memtable_bytes());
        let most = self.budget.batch_bytes_max();
        if bytes > most && !changes.exceeds_memory() {
            let message =
                format!("a commit of {bytes} bytes is larger than memory_bytes allows (a quarter of it, {most} bytes)");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        if let Some(delay) = self.budget.delay(bytes)
            && self.state.env.threads.concurrent()
        {
            let slept = self.budget.sleep(&*self.state.env.threads, delay);
            self.state.counters.delays.add(slept);
        }
        self.check_space(changes)?;
        // Deletions make room on the disk: a share of memory is kept for them.
        let passes = || !self.budget.is_full_for_deletes() && changes.makes_room();
        if !self.queue.is_closed(&self.budget) || passes() { Ok(None) } else { self.stall(bytes) }
    }

    /// Whether a commit that begins now may be slowed, or has to wait for a flush.
    pub(crate) fn may_wait(&self) -> bool {
        self.budget.is_pressed() || self.queue.is_closed(&self.budget)
    }

    /// Refuses changes that the disk may have no room for. Deletions pass: they make room.
    fn check_space(&self, changes: &Changes) -> Result<()> {
        if !self.space.is_tight.load(Ordering::Relaxed) || changes.makes_room() {
            return Ok(());
        }
        let missing = self.missing_space(self.budget.memtable_bytes() + u64_of(changes.memtable_bytes()));
        if missing == 0 {
            return Ok(());
        }
        let message = format!(
            "the disk of {} has no room for more than to flush what is in memory: free {missing} bytes, also by deleting rows, ranges or tables",
            self.state.dir.display()
        );
        Err(Error::new(ErrorKind::Full, message))
    }

    /// Waits for memory for a commit of this many bytes.
    fn stall(&self, bytes: u64) -> Result<Option<Admission<'_>>> {
        let State { env, health, counters, wakers, .. } = &*self.state;
        let start = env.clock.now();
        wakers.wake_flush();
        let admission = if env.threads.concurrent() {
            Some(self.queue.wait(bytes, &self.budget, || health.check_writable())?)
        } else {
            // The flush was done when it was woken, or cannot be.
            if self.budget.is_full() {
                health.check_writable()?;
                self.queue.check()?;
            }
            None
        };
        let stalled = env.clock.now().saturating_sub(start);
        counters.stalled(bytes, stalled);
        Ok(admission)
    }

    /// Looks from time to time, as memtables grow by commits, whether they can be flushed. Says so when the disk could
    /// hold no more than what is in memory, after a commit of these changes: then memtables are to be flushed.
    pub(crate) fn must_flush_for_space(&self, changes: &Changes) -> bool {
        let held = self.budget.memtable_bytes();
        let erases = changes.has_range_deletes() && self.space.is_tight.load(Ordering::Relaxed);
        // On a full disk every commit would lay down a run of its own for its few deletions, and these runs would fill
        // what is kept.
        let is_worth_a_flush = erases || held >= self.kept_bytes() / WORTH_PART;
        let is_due = held >= self.space.look_at.load(Ordering::Relaxed) || erases;
        is_due && is_worth_a_flush && self.missing_space(held) > 0
    }

    /// Bytes that are missing on disk to flush `held` bytes; notes what was found.
    fn missing_space(&self, held: u64) -> u64 {
        // A disk that does not tell is taken for large.
        let free = self.state.free_bytes().unwrap_or(u64::MAX);
        let kept = self.kept_bytes();
        let missing = (held + kept).saturating_sub(free);
        let left = free.saturating_sub(held + kept);
        let step = (left / LEFT_PART).min(self.state.options.memory_bytes / MEMORY_PART).max(kept / KEPT_PART);
        self.space.look_at.store(held + step, Ordering::Relaxed);
        self.space.is_tight.store(missing > 0, Ordering::Relaxed);
        missing
    }

    /// Bytes that stay free.
    fn kept_bytes(&self) -> u64 {
        self.state.options.log_segment_bytes.min(KEPT_BYTES_MAX) + 2 * manifest::RESERVE_BYTES
    }

    /// A flush has given memory back, and space for other flushes.
    pub(crate) fn flushed(&self) {
        self.queue.flushed(&self.budget);
    }

    /// Notes that flushes met a full disk. When no other flush made room, stalled writers are refused with `error`.
    pub(crate) fn flush_met_full_disk(&self, error: &Error, made_some: bool) {
        self.state.counters.events.tell(&Event::BackgroundError { message: &error.to_string() });
        let refusal = (!made_some)
            .then(|| format!("memtables have all memory that they may take, and none can be flushed: {error}"));
        self.queue.refuse(self.state.env.clock.now(), refusal);
    }

    /// Says what to do about a flush of this many bytes that met a full disk.
    pub(crate) fn advise_flush(&self, error: Error, bytes: u64) -> Error {
        let dir = self.state.dir.display();
        // A quota or a limit on files leaves space that nobody gets.
        match self.state.free_bytes().map_or(0, |free| bytes.saturating_sub(free)) {
            0 => error.advice(format_args!("the flush needs up to {bytes} bytes in {dir}")),
            missing => error.advice(format_args!("free {missing} bytes on the disk of {dir}")),
        }
    }

    /// Bytes of free space that a compaction may take: what flushes and the log need stays.
    pub(crate) fn space_for_jobs(&self) -> Result<u64> {
        let kept = self.budget.memtable_bytes() + 2 * self.state.options.log_segment_bytes;
        Ok(self.state.free_bytes()?.saturating_sub(kept))
    }

    /// As [`Self::space_for_jobs`], for a merge that needs and reads this many bytes. One that writes less than half of
    /// what it reads gives more space back than flushes and the log need, and may take all.
    pub(crate) fn space_for(&self, needs: u64, inputs: u64) -> Result<u64> {
        if needs > inputs / 2 { self.space_for_jobs() } else { self.state.free_bytes() }
    }

    /// Fits the cache to the memory that memtables leave.
    pub(crate) fn fit_cache(&self) {
        self.state.cache.fit(|_| Some(self.budget.cache_bytes()));
    }

    /// Makes the cache smaller where memtables have grown into its share.
    #[inline]
    pub(crate) fn press_cache(&self) {
        let presses = |capacity: &u64| self.budget.presses_cache(*capacity);
        if presses(&self.state.cache.capacity()) {
            // Another writer may have been faster.
            self.state.cache.fit(|capacity| presses(&capacity).then(|| self.budget.cache_bytes()));
            // What was evicted lies in pieces: only when blocks are moved together does their memory go back.
            self.state.wakers.wake_housekeeping();
        }
    }

    /// The trees of a table changed, or what may be compacted: takes stock of the space on disk and of the compaction
    /// debt, which slows writers.
    pub(crate) fn trees_changed(&self) {
        self.fit_cache();
        // Something was written to disk, or removed.
        self.space.look_at.store(0, Ordering::Relaxed);
        let tables = self.state.tables.all();
        // Waiting does not help where nothing compacts in the background, or what is to be compacted cannot be read.
        let compacted = tables.iter().filter(|table| table.compacts_itself() && !table.compaction.retry.is_failing());
        let debt = compacted.map(|table| policy::pressure(&table.trees(), &table.options)).max();
        self.budget.set_debt(debt.unwrap_or(0));
    }

    /// A compaction lacks this many bytes of free space, or none does.
    pub(crate) fn compaction_lacks(&self, bytes: u64) {
        self.state.counters.failures.space_missing_bytes.store(bytes, Ordering::Relaxed);
    }
}
