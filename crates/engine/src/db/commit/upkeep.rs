//! What keeps commits going: full memtables are sealed, so that a flush takes them; the log is synced at intervals; its
//! segments are prepared ahead, and given up when no memtable needs them.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{ErrorKind, FileId, Lsn, Result, SeqNum};
use crate::db::state::table::TableState;
use crate::env::Next;
use crate::table::Version;
use crate::table::memtable_handle::{CommitPoint, MemtableHandle};

use super::order::CommitOrder;
use super::pipeline::CommitPipeline;

/// A log that is more than this number of times as long as what memtables hold is mostly padding: a flush costs little
/// then, and gives its segments back.
const LOG_PER_MEMORY: u64 = 8;
/// The log may always have this number of segments.
const SEGMENTS_MIN: u64 = 4;
/// A memtable with less than this part of the memory of all active ones is small.
const SMALL_PART: u64 = 64;
/// While the log is too long, memtables are sealed for it each time that it has grown by this part of its limit.
const LOG_STEPS: u64 = 16;

impl CommitPipeline {
    /// Makes the log durable up to `lsn`, of commits that did not ask for it, and wakes the threads that wait for that.
    pub(crate) fn force_log(&self, lsn: Lsn) -> Result<()> {
        self.state.or_poison(self.log.sync(lsn))?;
        self.state.publisher.announce_durable(self.log.durable());
        Ok(())
    }

    /// The moment in the order of commits, which the latch in hand holds still.
    pub(crate) fn now(&self, order: &CommitOrder) -> CommitPoint {
        CommitPoint { next_seqnum: order.next_seqnum, lsn: self.log.tail() }
    }

    /// Seals a table's active memtable: it takes no more entries, and waits for its flush. False when it is empty. The
    /// latch in hand says that no commit is being ordered.
    pub(crate) fn seal(&self, order: &mut CommitOrder, table: &TableState) -> bool {
        let is_used = !table.version.load().active.is_unused();
        if is_used {
            self.seal_at(table, self.now(order), None);
        }
        is_used
    }

    /// Seals the active memtables of all tables at one moment; the seqnum of the next change after it, and the tables.
    /// (Not the position of the log, which commits of unlogged tables leave where it is.)
    pub(crate) fn seal_all(&self) -> (SeqNum, Vec<Arc<TableState>>) {
        let mut order = self.order.lock();
        let tables = self.state.tables.all();
        for table in &tables {
            self.seal(&mut order, table);
        }
        (order.next_seqnum, tables)
    }

    /// Seals a table's active memtable at a moment, unless it is empty; over it goes `newer`, which is sealed already.
    /// The caller holds the commit latch.
    pub(super) fn seal_at(&self, table: &TableState, at: CommitPoint, newer: Option<&Arc<MemtableHandle>>) {
        seal_memtable(table, at, newer).iter().for_each(|mem| self.throttle.budget.sealed(mem));
    }

    /// Takes away all that a dropped or closed table holds, when no commit is about to change it; what it was, and the
    /// file of its B-tree.
    pub(crate) fn empty(&self, table: &TableState) -> (Arc<Version>, Option<FileId>) {
        let _order = self.order.lock();
        table.empty()
    }

    /// Seals the memtables that are over their limit, until the rest is within the budget, and wakes the flush.
    pub(super) fn seal_full(&self) {
        let mut order = self.order.lock();
        let tables = self.state.tables.all();
        let active = |table: &Arc<TableState>| table.version.load().active.accounted_bytes();
        let limit = self.state.options.memtable_bytes;
        for table in tables.iter().filter(|table| limit != 0 && active(table) >= limit) {
            self.seal(&mut order, table);
        }
        if self.throttle.budget.is_active_full() {
            let mut by_size: Vec<_> = tables.iter().map(|table| (active(table), table)).collect();
            by_size.sort_unstable_by_key(|(bytes, _)| Reverse(*bytes));
            let small_bytes = self.throttle.budget.active_max() / SMALL_PART;
            for (bytes, table) in by_size {
                // Small ones are flushed together: the more there are of them, the fewer syncs each takes.
                let is_enough = match bytes < small_bytes {
                    true => self.throttle.budget.is_active_half_free(),
                    false => !self.throttle.budget.is_active_full(),
                };
                if is_enough || !self.seal(&mut order, table) {
                    break;
                }
            }
        }
        self.seal_for_log(&mut order, &tables);
        drop(order);
        self.state.wakers.wake_flush();
        self.state.wakers.wake_sync();
    }

    /// Seals the memtables whose changes lie in the older half of a log that is too long.
    fn seal_for_log(&self, order: &mut CommitOrder, tables: &[Arc<TableState>]) {
        let tail = self.log.tail();
        if !self.is_log_long(tail) {
            return;
        }
        self.retention.sealed_at.store(tail.0, Ordering::Relaxed);
        let keep_from = Lsn(tail.0.saturating_sub(self.log_limit() / 2));
        for table in tables.iter().filter(|table| table.options.logged) {
            if table.version.load().active.first_lsn().is_some_and(|lsn| lsn < keep_from) {
                self.seal(order, table);
            }
        }
    }

    /// Whether memtables hold so much of the log, which ends at `tail`, that the oldest must be flushed.
    pub(crate) fn is_log_long(&self, tail: Lsn) -> bool {
        let most = self.log_limit();
        // Positions leave a gap at each open: only the segments tell, but the distance spares most looks at them.
        tail.0.saturating_sub(self.retention.needed_from.load(Ordering::Relaxed)) > most && self.log.live_bytes() > most
    }

    /// As [`Self::is_log_long`], for commits: not again before the log has grown by a part of that since memtables were
    /// sealed for it. It stays too long until these are flushed.
    pub(super) fn is_seal_due(&self, tail: Lsn) -> bool {
        let since = tail.0.saturating_sub(self.retention.sealed_at.load(Ordering::Relaxed));
        since >= self.log_limit() / LOG_STEPS && self.is_log_long(tail)
    }

    /// Live bytes of the log from which the oldest memtables are flushed. Small durable commits are padded to blocks,
    /// and would fill a log of the full size with little; cut short, it goes round in few segments.
    fn log_limit(&self) -> u64 {
        let options = &self.state.options;
        let worth = LOG_PER_MEMORY * self.throttle.budget.memtable_bytes();
        worth.max(SEGMENTS_MIN * options.log_segment_bytes).min(options.log_bytes_max)
    }

    /// The next seqnum, and the log position before which no table needs the log when the memtables in `flushed` are on
    /// disk.
    pub(crate) fn log_needed_from(&self, flushed: &[Arc<MemtableHandle>]) -> (SeqNum, Lsn) {
        let order = self.order.lock();
        let log_from = log_needed_by(self.state.tables.all().iter(), flushed, self.log.tail());
        (order.next_seqnum, log_from)
    }

    /// The log before `log_from` is not needed, and the manifest says so.
    pub(crate) fn release_log(&self, log_from: Lsn) -> Result<()> {
        self.retention.needed_from.fetch_max(log_from.0, Ordering::Relaxed);
        self.release_unneeded_log()
    }

    /// Gives up the log that is not needed, unless a reader in another process replays it: then later, if that does not
    /// keep too much of it.
    pub(crate) fn release_unneeded_log(&self) -> Result<()> {
        let leases = self.state.files.leases();
        let options = &self.state.options;
        let bytes_max = options.log_bytes_max.saturating_add(options.log_keep_bytes);
        if leases.hold_log() && self.log.room_left_behind().0 <= bytes_max {
            leases.note_waiting();
            return Ok(());
        }
        self.log.release(Lsn(self.retention.needed_from.load(Ordering::Relaxed)))
    }

    /// Prepares a log segment ahead. Commits find out themselves when there is no room for one.
    pub(crate) fn prepare_segment(&self) -> Result<()> {
        match self.log.prepare_spare() {
            Err(error) if error.kind() != ErrorKind::Full && !error.is_unchanged() => Err(self.state.poison(error)),
            _ => Ok(()),
        }
    }

    /// A step of the sync worker: prepares a log segment, syncs what commits with `Durability::Interval` left, then
    /// waits for the next ones.
    pub(crate) fn sync_step(&self) -> Result<Next> {
        if self.log.wants_spare() {
            self.prepare_segment()?;
        }
        if !self.interval.pending.load(Ordering::Acquire) {
            return Ok(Next::Wait);
        }
        // Woken by the first of them: the rest of the interval is theirs to gather in. The worker sleeps outside, where
        // it can be woken.
        let now = self.state.env.clock.now();
        let due = *self.interval.due.lock().get_or_insert(now + self.state.options.interval / 2);
        if now < due {
            return Ok(Next::WaitAtMost(due - now));
        }
        *self.interval.due.lock() = None;
        self.interval.pending.store(false, Ordering::Release);
        self.force_log(self.log.tail())?;
        Ok(Next::Wait)
    }

    /// A step of the memory worker: has memory at hand for what is inserted next. It has a thread of its own: the
    /// others may be at the device when a writer needs memory.
    pub(crate) fn memory_step(&self) -> Result<Next> {
        self.state.or_poison(self.log.extend_window())?;
        // A piece for each at a time: one that is sealed meanwhile gives back what it had.
        let mut tables = self.state.tables.all();
        tables.retain(|table| table.version.load().active.entries.prepare_memory());
        Ok(if tables.is_empty() { Next::Wait } else { Next::Again })
    }
}

/// The log position before which none of these tables needs the log, which ends at `tail`, when the memtables in
/// `flushed` are on disk. No commit is ordered meanwhile.
pub(crate) fn log_needed_by<'a>(
    tables: impl Iterator<Item = &'a Arc<TableState>>,
    flushed: &[Arc<MemtableHandle>],
    tail: Lsn,
) -> Lsn {
    let flushed: HashSet<_> = flushed.iter().map(Arc::as_ptr).collect();
    let oldest = |table: &Arc<TableState>| {
        let version = table.version.load();
        let needed = version.memtables().filter(|mem| !flushed.contains(&Arc::as_ptr(mem)));
        needed.filter_map(|mem| mem.first_lsn()).min()
    };
    tables.filter(|table| table.options.logged).filter_map(oldest).fold(tail, Lsn::min)
}

/// Seals a table's active memtable at a moment, unless it is empty; over it goes `newer`, which is sealed already.
/// Returns what was sealed. No commit is being ordered.
pub(crate) fn seal_memtable(
    table: &TableState,
    at: CommitPoint,
    newer: Option<&Arc<MemtableHandle>>,
) -> Option<Arc<MemtableHandle>> {
    let active = Arc::clone(&table.version.load().active);
    let (sealed, fresh) = match active.is_unused() {
        true => (None, active),
        false => (Some(active), MemtableHandle::new(&table.memtable_chunks)),
    };
    sealed.iter().for_each(|mem| mem.seal(at));
    table.version.rcu(|version| {
        let immutables = newer.into_iter().chain(&sealed).chain(&version.immutables).cloned().collect();
        Version { active: Arc::clone(&fresh), immutables, ..Version::clone(version) }
    });
    sealed
}
