//! Which table is compacted next: mostly the one that has the most runs in L0, but no table waits without bound behind
//! a busy one, and neither does what reads have paid for.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Result;
use crate::base::sync::Mutex;
use crate::db::state::table::TableState;
use crate::env::Clock;

/// One of so many steps is the turn of the table that has waited longest.
pub(super) const STEPS_PER_ROUND: u64 = 4;
/// Beside compactions that are due, what reads have paid for rests so many times as long as it took.
const REST_PER_PAID: u32 = 4;

/// The turns of the tables of a database.
#[derive(Debug, Default)]
pub(crate) struct CompactionSchedule {
    /// Steps done so far. Steers only.
    steps: AtomicU64,
    /// When what reads have paid for may be done next beside compactions that are due. Held by the thread that does it,
    /// so that one thread at most does.
    paid_from: Mutex<Duration>,
}

impl CompactionSchedule {
    /// Puts the tables in the order in which they are tried.
    pub(crate) fn arrange(&self, tables: &mut [Arc<TableState>]) {
        match (self.steps.load(Ordering::Relaxed) + 1).is_multiple_of(STEPS_PER_ROUND) {
            true => by_wait(tables),
            false => tables.sort_by_key(|table| Reverse(table.version.load().trees.l0.len())),
        }
    }

    /// A table had its turn.
    pub(crate) fn taken(&self, table: &TableState) {
        let step = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        table.compaction.last_step.store(step, Ordering::Relaxed);
    }

    /// Lets a job that reads have paid for be done beside compactions that are due, if it is time. `job` says whether
    /// there was one.
    pub(crate) fn beside(&self, clock: &dyn Clock, job: impl FnOnce() -> Result<bool>) -> Result<bool> {
        let Some(mut paid_from) = self.paid_from.try_lock() else { return Ok(false) };
        let begun = clock.now();
        if begun < *paid_from || !job()? {
            return Ok(false);
        }
        let ended = clock.now();
        *paid_from = ended + REST_PER_PAID * ended.saturating_sub(begun);
        Ok(true)
    }
}

/// Those first that have waited longest for a turn.
pub(crate) fn by_wait(tables: &mut [Arc<TableState>]) {
    tables.sort_by_key(|table| table.compaction.last_step.load(Ordering::Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Error;
    use crate::env::sim::SimEnv;

    #[test]
    fn what_reads_paid_for_takes_a_fifth_of_the_time_beside_what_is_due() {
        const STEP: Duration = Duration::from_millis(1);
        let (sim, schedule) = (SimEnv::new(1), CompactionSchedule::default());
        let clock = &*sim.env().clock;
        assert!(schedule.beside(clock, || Err(Error::invalid("failed"))).is_err());
        assert!(!schedule.beside(clock, || Ok(false)).unwrap(), "neither takes the turn");
        let mut paid = Vec::new();
        for step in 0..45 {
            let job = || {
                sim.advance(3 * STEP);
                Ok(true)
            };
            if schedule.beside(clock, job).unwrap() {
                paid.push(step);
            }
            sim.advance(STEP);
        }
        assert_eq!(paid, [0, 12, 24, 36]);
    }

    #[test]
    fn one_thread_at_a_time_does_what_reads_paid_for_beside_what_is_due() {
        let (sim, schedule) = (SimEnv::new(1), CompactionSchedule::default());
        let clock = &*sim.env().clock;
        let meanwhile = || schedule.beside(clock, || Ok(true)).map(|done| !done);
        assert!(schedule.beside(clock, meanwhile).unwrap());
    }
}
