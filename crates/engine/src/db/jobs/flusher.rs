//! Which table is flushed next, and the flushes that a program asks for.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::sync::{Mutex, MutexGuard};
use crate::base::{Lsn, Result, SeqNum};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::table::TableState;
use crate::db::throttle::Throttle;
use crate::db::throttle::stall_queue::LOOK_FOR_SPACE;
use crate::env::Next;

use super::flush::{Flush, Frontier};
use super::group_flush::{GroupFlushed, flush_together, groups};
use super::job::{JobContext, is_lack};
use super::schedule::STEPS_PER_ROUND;

/// Flushes the tables of a database.
#[derive(Debug)]
pub(crate) struct Flusher {
    state: Arc<State>,
    throttle: Arc<Throttle>,
    commits: Arc<CommitPipeline>,
    /// Held during a flush, so that a checkpoint can stop the disk's state at one point of the log.
    gate: Mutex<()>,
}

impl Flusher {
    pub(crate) fn new(state: Arc<State>, throttle: Arc<Throttle>, commits: Arc<CommitPipeline>) -> Self {
        Self { state, throttle, commits, gate: Mutex::new(()) }
    }

    /// Keeps flushes from running, and waits for the one that is.
    pub(crate) fn lock_gate(&self) -> MutexGuard<'_, ()> {
        self.gate.lock()
    }

    /// Seals and flushes all that the table has in memory. Where the disk has no room for it, the background tries
    /// again.
    pub(crate) fn flush_all(&self, table: &Arc<TableState>) -> Result<()> {
        self.state.health.check_writable()?;
        table.check()?;
        let flushed = self.flush_now(table);
        self.state.wakers.wake_flush();
        self.state.wakers.wake_compaction();
        flushed
    }

    /// Seals the table's active memtable, and flushes all that are sealed.
    pub(crate) fn flush_now(&self, table: &Arc<TableState>) -> Result<()> {
        self.commits.seal(&mut self.commits.order.lock(), table);
        self.flush(table)
    }

    /// Flushes the table's sealed memtables.
    pub(crate) fn flush(&self, table: &Arc<TableState>) -> Result<()> {
        let gate = self.gate.lock();
        let flushed = self.flush_gated(table, SeqNum::MAX, &gate);
        drop(gate);
        self.throttle.trees_changed();
        flushed.map(drop)
    }

    /// The gate was released after [`Self::flush_gated`]: what was flushed may be due for a compaction.
    pub(crate) fn after_gated(&self) {
        self.throttle.trees_changed();
        self.state.wakers.wake_compaction();
    }

    /// As [`Self::flush`], of the memtables that were sealed before a change with seqnum `up_to`; how many flushes that
    /// took.
    pub(crate) fn flush_gated(
        &self,
        table: &Arc<TableState>,
        up_to: SeqNum,
        _gate: &MutexGuard<'_, ()>,
    ) -> Result<usize> {
        let context = JobContext { state: &self.state, throttle: &self.throttle };
        let Some(flush) = Flush::plan(context, table, up_to) else { return Ok(0) };
        self.state.health.check_in_use()?;
        self.commits.force_log(flush.needs_log())?;
        let (next_seqnum, log_from) = self.commits.log_needed_from(flush.mems());
        flush.run(Frontier { next_seqnum, log_from })?;
        self.state.or_poison(self.commits.release_log(log_from))?;
        Ok(1)
    }

    /// Seals and flushes all that the database has in memory.
    pub(crate) fn flush_database(&self) -> Result<()> {
        self.state.health.check_writable()?;
        let (up_to, tables) = self.commits.seal_all();
        let gate = self.gate.lock();
        let flushed = self.flush_tables_gated(tables, up_to, &gate);
        drop(gate);
        self.after_gated();
        // What lacked space is tried again.
        self.state.wakers.wake_flush();
        flushed
    }

    /// Flushes the memtables of tables that were sealed before a change with seqnum `up_to`, those of little memory
    /// together; what the first one lacked, if one lacked anything.
    pub(crate) fn flush_tables_gated(
        &self,
        mut tables: Vec<Arc<TableState>>,
        up_to: SeqNum,
        gate: &MutexGuard<'_, ()>,
    ) -> Result<()> {
        tables.retain(|table| !table.version.load().immutables.is_empty());
        let mut lack = None;
        for group in groups(tables) {
            let flushed = self.flush_group(&group, up_to, gate)?;
            lack = lack.or(flushed.lack);
        }
        lack.map_or(Ok(()), Err)
    }

    /// Flushes tables together, or the only one.
    fn flush_group(
        &self,
        tables: &[Arc<TableState>],
        up_to: SeqNum,
        gate: &MutexGuard<'_, ()>,
    ) -> Result<GroupFlushed> {
        if let [table] = tables {
            return match self.flush_gated(table, up_to, gate) {
                Err(error) if is_lack(&error) => {
                    self.state.health.check_writable()?;
                    Ok(GroupFlushed { made: 0, lack: Some(error) })
                }
                flushed => flushed.map(|made| GroupFlushed { made, lack: None }),
            };
        }
        let context = JobContext { state: &self.state, throttle: &self.throttle };
        let flushes: Vec<_> = tables.iter().filter_map(|table| Flush::plan(context, table, up_to)).collect();
        let Some(needs_log) = flushes.iter().map(Flush::needs_log).max() else { return Ok(GroupFlushed::default()) };
        self.state.health.check_in_use()?;
        self.commits.force_log(needs_log)?;
        let next_seqnum = self.commits.order.lock().next_seqnum;
        flush_together((&self.state, &self.commits), flushes, next_seqnum)
    }

    /// A step of the flush worker: flushes the table whose sealed memory is the most urgent. Where the disk has no room
    /// for it the others are tried, which may need less or none; and after a pause all of them again.
    pub(crate) fn step(&self) -> Result<Next> {
        if let Some(rest) = self.throttle.queue.rest(self.state.env.clock.now()) {
            return Ok(Next::WaitAtMost(rest));
        }
        let (mut full, mut made_some) = (None, false);
        for group in groups(self.sealed_by_urgency()) {
            let gate = self.gate.lock();
            let flushed = self.flush_group(&group, SeqNum::MAX, &gate);
            drop(gate);
            self.throttle.trees_changed();
            let GroupFlushed { made, lack } = flushed?;
            if made > 0 {
                self.state.wakers.wake_compaction();
            }
            // A group of which nothing was flushed is the same in the next step: the tables behind it have their turn.
            if full.is_none() && lack.is_none() && made > 0 {
                return Ok(Next::Again);
            }
            made_some |= made > 0;
            full = full.or(lack);
        }
        let Some(error) = full else {
            self.throttle.flushed();
            return Ok(Next::Wait);
        };
        self.throttle.flush_met_full_disk(&error, made_some);
        Ok(Next::WaitAtMost(LOOK_FOR_SPACE))
    }

    /// The tables with sealed memory, in the order in which they are to be flushed. Mostly that is by urgency, but in
    /// some steps the memtable that has waited longest comes first: a small one would wait without bound behind tables
    /// that are written all the time.
    fn sealed_by_urgency(&self) -> Vec<Arc<TableState>> {
        let is_log_long = self.commits.is_log_long(self.commits.log.tail());
        let urgency = |table: &Arc<TableState>| {
            let version = table.version.load();
            let bytes = version.immutables.iter().map(|mem| mem.accounted_bytes()).sum();
            let oldest = version.immutables.iter().filter_map(|mem| mem.first_lsn()).min();
            urgency(bytes, oldest.filter(|_| table.options.logged && is_log_long))
        };
        let sealed = |table: &Arc<TableState>| table.version.load().immutables.last()?.sealed_at();
        let mut tables = self.state.tables.all();
        tables.retain(|table| sealed(table).is_some());
        tables.sort_by_cached_key(|table| Reverse(urgency(table)));
        let flushes = self.state.counters.flushes.load(Ordering::Relaxed) + 1;
        if flushes.is_multiple_of(STEPS_PER_ROUND)
            && let Some(oldest) = (0..tables.len()).min_by_key(|index| sealed(&tables[*index]).map(|at| at.next_seqnum))
        {
            tables[..=oldest].rotate_right(1);
        }
        tables
    }
}

/// How urgent a flush is: of much memory more than of little; but of all that keep a log which is too long (`holds`),
/// the one that holds the oldest of it. Else a small table would never have its turn beside busy ones, and the log
/// would grow without end.
fn urgency(bytes: u64, holds: Option<Lsn>) -> impl Ord {
    (holds.map(Reverse), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with one old entry beside tables that were always fuller kept the whole log: it was sealed to be
    /// flushed, and never was.
    #[test]
    fn the_table_that_holds_the_oldest_of_a_long_log_is_flushed_first() {
        assert!(urgency(1, Some(Lsn(5))) > urgency(1000, Some(Lsn(6))));
        assert!(urgency(1, Some(Lsn(5))) > urgency(1000, None));
        assert!(urgency(1000, None) > urgency(1, None));
    }
}
