//! Background work: flushes, compactions, and the sync of commits that asked for it within an interval.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::{Error, ErrorKind, Lsn, Result};
use crate::env::{Next, Work};

use super::compact::Step;
use super::core::{Core, Workers};

/// How often it is looked whether a compaction fits that is due and did not fit the free space.
const LOOK_FOR_SPACE: Duration = Duration::from_secs(1);

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
        expire: worker("expire", Core::expire_all)?,
    };
    assert!(core.workers.set(workers).is_ok(), "workers are started once");
    Ok(())
}

/// Work that ends when the database does. An error has poisoned the database; the work then waits for its end.
fn work(core: &Arc<Core>, step: fn(&Core) -> Result<Next>) -> Work {
    let core: Weak<Core> = Arc::downgrade(core);
    Box::new(move || match core.upgrade() {
        Some(core) if core.health.check_writable().is_ok() => step(&core).unwrap_or(Next::Wait),
        _ => Next::Wait,
    })
}

/// How urgent a flush is: of much memory more than of little; but of all that keep a log which is too long (`holds`), the one that holds
/// the oldest of it. Else a small table would never have its turn beside busy ones, and the log would grow without end.
fn urgency(bytes: u64, holds: Option<Lsn>) -> impl Ord {
    (holds.map(Reverse), bytes)
}

impl Core {
    /// Flushes the table whose frozen memory is the most urgent.
    fn flush_one(&self) -> Result<Next> {
        let is_log_long = self.is_log_long(self.log_tail());
        let urgency = |table: &Arc<super::core::TableState>| {
            let version = table.version.load();
            let bytes = version.immutables.iter().map(|mem| mem.accounted_bytes()).sum();
            let oldest = version.immutables.iter().filter_map(|mem| mem.first_lsn()).min();
            urgency(bytes, oldest.filter(|_| table.options.logged && is_log_long))
        };
        let tables = self.all_tables();
        let frozen = tables.iter().filter(|table| !table.version.load().immutables.is_empty());
        let Some(table) = frozen.max_by_key(|table| urgency(table)) else { return Ok(Next::Wait) };
        self.flush(table)?;
        self.wake_compact();
        Ok(Next::Again)
    }

    /// Does one compaction of the table with most runs in L0 that nobody else compacts; when no layout wants any, a job that reads have
    /// paid for.
    fn compact_one(&self) -> Result<Next> {
        let mut tables = self.all_tables();
        tables.retain(|table| table.compacts_itself() && !table.compaction.is_locked());
        tables.sort_by_key(|table| Reverse(table.version.load().trees.l0.len()));
        let mut missing = 0;
        for table in &tables {
            match self.attempt(self.compact_step(table))? {
                Some(Step::Done) => return Ok(Next::Again),
                Some(Step::NoRoom(bytes)) => missing = bytes.max(missing),
                Some(Step::Nothing) | None => {}
            }
        }
        self.counters.space_missing_bytes.store(missing, Ordering::Relaxed);
        for table in &tables {
            if self.attempt(self.paid_step(table))? == Some(true) {
                return Ok(Next::Again);
            }
        }
        // Nobody tells when others free space.
        Ok(if missing > 0 { Next::WaitAtMost(LOOK_FOR_SPACE) } else { Next::Wait })
    }

    /// What came of a step; `None` when it failed and the database goes on: then the other tables have their turn, and the failure is
    /// counted, because there is nobody to tell it to.
    fn attempt<T>(&self, step: Result<T>) -> Result<Option<T>> {
        let Err(error) = step else { return step.map(Some) };
        self.health.check_writable()?;
        if matches!(error.kind(), ErrorKind::Io | ErrorKind::Corruption) {
            self.counters.failed(&error);
        }
        Ok(None)
    }

    /// Prepares a log segment ahead. Commits find out themselves when there is no room for one.
    pub(super) fn prepare_spare(&self) -> Result<()> {
        match self.log().prepare_spare() {
            Err(error) if error.kind() != ErrorKind::Full => Err(self.poison(error)),
            _ => Ok(()),
        }
    }

    /// Syncs what commits with `Durability::Interval` left, then waits for the next ones.
    fn sync_interval(&self) -> Result<Next> {
        if self.log().wants_spare() {
            self.prepare_spare()?;
        }
        if !self.interval_pending.load(Ordering::Acquire) {
            return Ok(Next::Wait);
        }
        // Woken by the first of them: the rest of the interval is theirs to gather in.
        self.env.threads.sleep(self.options.interval / 2);
        self.interval_pending.store(false, Ordering::Release);
        self.force_log(self.log().tail())?;
        Ok(Next::WaitAtMost(self.options.interval / 2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table with one old entry beside tables that were always fuller kept the whole log: it was frozen to be flushed, and never was.
    #[test]
    fn the_table_that_holds_the_oldest_of_a_long_log_is_flushed_first() {
        assert!(urgency(1, Some(Lsn(5))) > urgency(1000, Some(Lsn(6))));
        assert!(urgency(1, Some(Lsn(5))) > urgency(1000, None));
        assert!(urgency(1000, None) > urgency(1, None));
    }
}
