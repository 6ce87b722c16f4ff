//! Background work: flushes, compactions, the sync of commits that asked for it within an interval, and memory for
//! writers.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Next, Work};
use crate::log::Prepared;

use super::compact::Step;
use super::core::{Core, TableState, Workers};
use super::flush::lacks;
use super::room::LOOK_FOR_SPACE;
use super::turns;

/// Starts the workers. They hold the database weakly, so that dropping its handles ends them.
///
/// # Errors
/// `Io` when the system has no thread for one.
pub(crate) fn start(core: &Arc<Core>) -> Result<()> {
    let worker = |name: &str, step| {
        let worker = core.env.threads.worker(name, work(core, step));
        worker.map_err(|error| Error::io("start a thread for", &core.dir, error))
    };
    let compact = |index| worker(&format!("compact-{index}"), Core::compact_one);
    let workers = Workers {
        flush: worker("flush", Core::flush_one)?,
        compact: (0..core.options.compaction_threads).map(compact).collect::<Result<_>>()?,
        sync: worker("sync", Core::sync_interval)?,
        memory: worker("memory", Core::prepare_memory)?,
        expire: worker("expire", Core::expire_all)?,
    };
    assert!(core.workers.set(workers).is_ok(), "workers are started once");
    Ok(())
}

/// Work that ends when the database does. An error has poisoned the database, and the work then waits for its end; or
/// it changed nothing, and the work is tried again.
fn work(core: &Arc<Core>, step: fn(&Core) -> Result<Next>) -> Work {
    let core: Weak<Core> = Arc::downgrade(core);
    let again = |error: Error| if error.is_unchanged() { Next::WaitAtMost(LOOK_FOR_SPACE) } else { Next::Wait };
    Box::new(move || match core.upgrade() {
        Some(core) if core.check_writable().is_ok() => step(&core).unwrap_or_else(again),
        _ => Next::Wait,
    })
}

/// How urgent a flush is: of much memory more than of little; but of all that keep a log which is too long (`holds`),
/// the one that holds the oldest of it. Else a small table would never have its turn beside busy ones, and the log
/// would grow without end.
fn urgency(bytes: u64, holds: Option<Lsn>) -> impl Ord {
    (holds.map(Reverse), bytes)
}

impl Core {
    /// Flushes the table whose frozen memory is the most urgent. Where the disk has no room for it the others are
    /// tried, which may need less or none; and after a pause all of them again.
    fn flush_one(&self) -> Result<Next> {
        if let Some(rest) = self.room.rest(self.env.clock.now()) {
            return Ok(Next::WaitAtMost(rest));
        }
        let (mut full, mut made_some) = (None, false);
        for table in self.frozen_by_urgency() {
            match self.flush(&table) {
                Err(error) if lacks(&error) => {
                    self.health.check_writable()?;
                    full.get_or_insert(error);
                }
                flushed => {
                    flushed?;
                    self.wake_compact();
                    if full.is_none() {
                        return Ok(Next::Again);
                    }
                    made_some = true;
                }
            }
        }
        let Some(error) = full else {
            self.room.made(&self.memory);
            return Ok(Next::Wait);
        };
        self.no_room(&error, made_some);
        Ok(Next::WaitAtMost(LOOK_FOR_SPACE))
    }

    /// The tables with frozen memory, in the order in which they are to be flushed. Mostly that is by urgency, but in
    /// some turns the memtable that has waited longest comes first: a small one would wait without bound behind tables
    /// that are written all the time.
    fn frozen_by_urgency(&self) -> Vec<Arc<TableState>> {
        let is_log_long = self.is_log_long(self.log_tail());
        let urgency = |table: &Arc<TableState>| {
            let version = table.version.load();
            let bytes = version.immutables.iter().map(|mem| mem.accounted_bytes()).sum();
            let oldest = version.immutables.iter().filter_map(|mem| mem.first_lsn()).min();
            urgency(bytes, oldest.filter(|_| table.options.logged && is_log_long))
        };
        let frozen = |table: &Arc<TableState>| table.version.load().immutables.last()?.frozen_at();
        let mut tables = self.all_tables();
        tables.retain(|table| frozen(table).is_some());
        tables.sort_by_cached_key(|table| Reverse(urgency(table)));
        let flushes = self.counters.flushes.load(Ordering::Relaxed) + 1;
        if flushes.is_multiple_of(turns::STEPS_PER_ROUND)
            && let Some(oldest) = (0..tables.len()).min_by_key(|index| frozen(&tables[*index]).map(|at| at.next_seqnum))
        {
            tables[..=oldest].rotate_right(1);
        }
        tables
    }

    /// Does one compaction that a layout wants, of a table that nobody else compacts, and then perhaps a job that reads
    /// of other tables have paid for; such a job also when no layout wants any.
    fn compact_one(&self) -> Result<Next> {
        let mut tables = self.all_tables();
        tables.retain(|table| !table.compaction.is_locked());
        let now = self.env.clock.now();
        tables.retain(|table| table.compaction_retry.rest(now).is_none());
        self.turns.arrange(&mut tables);
        let mut missing = 0;
        for index in 0..tables.len() {
            match self.attempt(&tables[index], self.compact_step(&tables[index]))? {
                Some(Step::Done) => {
                    tables[index].compaction_retry.succeeded();
                    self.turns.taken(&tables.remove(index));
                    self.paid_beside(&mut tables)?;
                    return Ok(Next::Again);
                }
                Some(Step::NoRoom(bytes)) => missing = bytes.max(missing),
                Some(Step::Nothing) | None => {}
            }
        }
        self.counters.space_missing_bytes.store(missing, Ordering::Relaxed);
        let paid = if self.memory.is_pressed() { self.paid_beside(&mut tables) } else { self.paid_one(&mut tables) };
        if paid? {
            return Ok(Next::Again);
        }
        // Nobody tells when others free space, or when a file can be read again.
        let look = (missing > 0).then_some(LOOK_FOR_SPACE);
        Ok(look.into_iter().chain(self.next_retry()).min().map_or(Next::Wait, Next::WaitAtMost))
    }

    /// How long it is until a compaction or merge is tried again that could not read something.
    fn next_retry(&self) -> Option<Duration> {
        let (now, tables) = (self.env.clock.now(), self.all_tables());
        tables.iter().flat_map(|table| [table.compaction_retry.wait(now), table.merge_retry.wait(now)]).flatten().min()
    }

    /// Does a job that reads have paid for, of the table that has waited longest; false when there is none.
    fn paid_one(&self, tables: &mut [Arc<TableState>]) -> Result<bool> {
        turns::by_wait(tables);
        for table in tables {
            if self.attempt(table, self.paid_step(table))? == Some(true) {
                table.compaction_retry.succeeded();
                self.turns.taken(table);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As [`Self::paid_one`], while compactions are due or writers are slowed; false also when it is not time for one.
    fn paid_beside(&self, tables: &mut [Arc<TableState>]) -> Result<bool> {
        self.turns.beside(&*self.env.clock, || self.paid_one(tables))
    }

    /// What came of a step; `None` when it failed and the database goes on: then the other tables have their turn.
    fn attempt<T>(&self, table: &TableState, step: Result<T>) -> Result<Option<T>> {
        let Err(error) = step else { return step.map(Some) };
        self.health.check_writable()?;
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption) {
            self.failed_compaction(table, &error);
        }
        Ok(None)
    }

    /// Has memory at hand for what is inserted next. A thread of its own does it: the others may be at the device when
    /// a writer needs it.
    fn prepare_memory(&self) -> Result<Next> {
        self.or_poison(self.log().extend_window())?;
        // A piece for each at a time: one that is frozen meanwhile gives back what it had.
        let mut tables = self.all_tables();
        tables.retain(|table| table.version.load().active.entries.prepare_memory());
        Ok(if tables.is_empty() { Next::Wait } else { Next::Again })
    }

    /// Prepares a log segment ahead. Commits find out themselves when there is no room for one.
    fn prepare_spare(&self) -> Result<()> {
        match self.log().prepare_spare() {
            Err(error) if !lacks(&error) => Err(self.poison(error)),
            _ => Ok(()),
        }
    }

    /// Prepares what a commit appends to the log. The log reserves the space that it needs.
    pub(super) fn prepare<'a>(&'a self, body: &'a [u8]) -> Result<Prepared<'a>> {
        self.log().prepare(body).map_err(|error| if lacks(&error) { error } else { self.poison(error) })
    }

    /// Syncs what commits with `Durability::Interval` left, then waits for the next ones.
    fn sync_interval(&self) -> Result<Next> {
        if self.log().wants_spare() {
            self.prepare_spare()?;
        }
        if !self.interval_pending.load(Ordering::Acquire) {
            return Ok(Next::Wait);
        }
        // Woken by the first of them: the rest of the interval is theirs to gather in. The worker sleeps outside, where
        // it can be woken.
        let now = self.env.clock.now();
        let due = *self.interval_due.lock().get_or_insert(now + self.options.interval / 2);
        if now < due {
            return Ok(Next::WaitAtMost(due - now));
        }
        *self.interval_due.lock() = None;
        self.interval_pending.store(false, Ordering::Release);
        self.force_log(self.log().tail())?;
        Ok(Next::Wait)
    }
}

#[cfg(test)]
mod tests;
