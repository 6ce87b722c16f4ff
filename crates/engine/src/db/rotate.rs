//! Rotation: a full memtable stops taking writes and waits for its flush.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::Lsn;
use crate::table::Version;
use crate::table::memtable_handle::{CommitPoint, MemtableHandle};

use super::core::{CommitState, Core, TableState};

/// A log so many times as long as what memtables hold is mostly padding: a flush costs little then, and gives its
/// segments back.
const LOG_PER_MEMORY: u64 = 8;
/// The log may always have so many segments.
const SEGMENTS_MIN: u64 = 4;
/// While it is too long, memtables are frozen for it each time that it has grown by one of so many parts of its limit.
const LOG_STEPS: u64 = 16;

impl Core {
    /// Freezes the memtables that are over their limit, until the rest is within the budget, and wakes the flush.
    pub(crate) fn make_room(&self) {
        {
            let mut commit = self.commit.lock();
            let tables = self.all_tables();
            let active = |table: &Arc<TableState>| table.version.load().active.accounted_bytes();
            let limit = self.options.memtable_bytes;
            for table in tables.iter().filter(|table| limit != 0 && active(table) >= limit) {
                self.rotate(&mut commit, table);
            }
            while self.memory.is_active_full() {
                let largest = tables.iter().max_by_key(|table| active(table));
                if !largest.is_some_and(|table| self.rotate(&mut commit, table)) {
                    break;
                }
            }
            self.rotate_for_log(&mut commit, &tables);
        }
        self.rebalance();
        self.wake_flush();
        self.wake_sync();
    }

    /// Freezes a table's active memtable; false when it is empty. The latch in hand says that no commit is being
    /// ordered.
    pub(crate) fn rotate(&self, commit: &mut CommitState, table: &TableState) -> bool {
        let is_used = !table.version.load().active.is_unused();
        if is_used {
            self.freeze(table, self.now(commit), None);
        }
        is_used
    }

    /// Freezes a table's active memtable at a moment, unless it is empty, with a newer one that is frozen already. The
    /// caller holds the commit latch.
    pub(super) fn freeze(&self, table: &TableState, at: CommitPoint, newer: Option<&Arc<MemtableHandle>>) {
        let active = Arc::clone(&table.version.load().active);
        let (frozen, fresh) = match active.is_unused() {
            true => (None, active),
            false => (Some(active), MemtableHandle::new()),
        };
        frozen.iter().for_each(|mem| mem.freeze(at));
        table.version.rcu(|version| {
            let immutables = newer.into_iter().chain(&frozen).chain(&version.immutables).cloned().collect();
            Version { active: Arc::clone(&fresh), immutables, ..Version::clone(version) }
        });
        frozen.iter().for_each(|mem| self.memory.froze(mem));
    }

    /// Whether memtables hold so much of the log, which ends at `tail`, that the oldest must be flushed.
    pub(crate) fn is_log_long(&self, tail: Lsn) -> bool {
        let most = self.log_limit();
        // Positions leave a gap at each open: only the segments tell, but the distance spares most looks at them.
        tail.0.saturating_sub(self.log_from.load(Ordering::Relaxed)) > most
            && self.log.get().is_some_and(|log| log.live_bytes() > most)
    }

    /// As [`Self::is_log_long`], for commits: not again before the log has grown by a part of that since memtables were
    /// frozen for it. It stays too long until these are flushed.
    pub(crate) fn is_freeze_due(&self, tail: Lsn) -> bool {
        let since = tail.0.saturating_sub(self.frozen_for_log.load(Ordering::Relaxed));
        since >= self.log_limit() / LOG_STEPS && self.is_log_long(tail)
    }

    /// Live bytes of the log from which the oldest memtables are flushed. Small durable commits are padded to blocks,
    /// and would fill a log of the full size with little; cut short, it goes round in few segments.
    fn log_limit(&self) -> u64 {
        let worth = LOG_PER_MEMORY * self.memory.memtable_bytes();
        worth.max(SEGMENTS_MIN * self.options.log_segment_bytes).min(self.options.log_bytes_max)
    }

    /// Freezes the memtables whose changes lie in the older half of a log that is too long.
    fn rotate_for_log(&self, commit: &mut CommitState, tables: &[Arc<TableState>]) {
        let tail = self.log_tail();
        if !self.is_log_long(tail) {
            return;
        }
        self.frozen_for_log.store(tail.0, Ordering::Relaxed);
        let keep_from = Lsn(tail.0.saturating_sub(self.log_limit() / 2));
        for table in tables.iter().filter(|table| table.options.logged) {
            if table.version.load().active.first_lsn().is_some_and(|lsn| lsn < keep_from) {
                self.rotate(commit, table);
            }
        }
    }
}
