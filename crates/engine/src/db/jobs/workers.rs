//! The background workers: threads that flush, compact, sync commits within their interval, prepare memory for writers
//! and look from time to time what has expired and what readers in other processes have left.

use std::sync::{Arc, Weak};

use crate::base::{Error, Result};
use crate::db::commit::pipeline::CommitPipeline;
use crate::db::state::State;
use crate::db::state::wakers::Workers;
use crate::db::throttle::stall_queue::LOOK_FOR_SPACE;
use crate::env::{Next, Work};

use super::compaction::Compactor;
use super::flusher::Flusher;
use super::housekeeping::Housekeeper;

/// Starts the workers. They hold what they work with weakly, so that dropping the database's handles ends them.
///
/// # Errors
/// `Io` when the system has no thread for one.
pub(crate) fn start(
    state: &Arc<State>,
    commits: &Arc<CommitPipeline>,
    flusher: &Arc<Flusher>,
    compactor: &Arc<Compactor>,
    housekeeper: &Arc<Housekeeper>,
) -> Result<()> {
    let worker = |name: &str, work| {
        let worker = state.env.threads.worker(name, work);
        worker.map_err(|error| Error::io("start a thread for", &state.dir, error))
    };
    let compact = |index| worker(&format!("compact-{index}"), work(state, compactor, Compactor::step));
    let workers = Workers {
        flush: worker("flush", work(state, flusher, Flusher::step))?,
        compact: (0..state.options.compaction_threads).map(compact).collect::<Result<_>>()?,
        sync: worker("sync", work(state, commits, CommitPipeline::sync_step))?,
        memory: worker("memory", work(state, commits, CommitPipeline::memory_step))?,
        housekeeping: worker("housekeep", work(state, housekeeper, Housekeeper::step))?,
    };
    state.wakers.started(workers);
    // A flush that ran before woke no compaction.
    state.wakers.wake_compaction();
    Ok(())
}

/// Work that ends when the database does. An error has poisoned the database, and the work then waits for its end; or
/// it changed nothing, and the work is tried again.
fn work<T: Send + Sync + 'static>(state: &Arc<State>, part: &Arc<T>, step: fn(&T) -> Result<Next>) -> Work {
    let (health, part): (_, Weak<T>) = (Arc::clone(&state.health), Arc::downgrade(part));
    let again = |error: Error| if error.is_unchanged() { Next::WaitAtMost(LOOK_FOR_SPACE) } else { Next::Wait };
    Box::new(move || match part.upgrade() {
        Some(part) if health.check_writable().is_ok() => step(&part).unwrap_or_else(again),
        _ => Next::Wait,
    })
}
