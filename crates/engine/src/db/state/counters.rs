//! What the paths of the database count; [`Stats`](crate::Stats) shows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::base::Error;
use crate::base::sync::Mutex;
use crate::table::level::{LEVELS, LevelId};
use crate::table::reads::ReadCounters;

use super::events::{Event, Events};

/// Conflicts are compared with commits each time that there were so many.
const STORM_CONFLICTS: u64 = 1000;

/// The counters of an open database. They publish nothing but themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) commits: AtomicU64,
    conflicts: Conflicts,
    /// Sleeps of writers, so that flushes and compactions keep up.
    pub(crate) delays: Waits,
    /// Waits of writers for memory.
    pub(crate) stalls: Waits,
    pub(crate) flushes: AtomicU64,
    pub(crate) flush_bytes: AtomicU64,
    pub(crate) compactions: CompactionCounters,
    pub(crate) work: LevelCounters,
    /// Reads of tables that were dropped.
    pub(crate) dropped_reads: ReadCounters,
    pub(crate) failures: Failures,
    pub(crate) events: Events,
}

/// Commits that were refused.
#[derive(Debug, Default)]
struct Conflicts {
    count: AtomicU64,
    /// How many commits there were when so many conflicts were last compared with them.
    commits_compared: AtomicU64,
}

/// How often and how long threads waited.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    pub(crate) count: AtomicU64,
    pub(crate) us: AtomicU64,
}

/// What compactions and merges into B-trees did.
#[derive(Debug, Default)]
pub(crate) struct CompactionCounters {
    pub(crate) count: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) reused_leaves: AtomicU64,
}

/// What flushes and compactions did for each place in a table, of all tables.
#[derive(Debug, Default)]
pub(crate) struct LevelCounters {
    /// L0, the levels, and the B-tree.
    places: [WorkCounters; LEVELS + 2],
}

/// What was done for one place.
#[derive(Debug, Default)]
pub(crate) struct WorkCounters {
    pub(crate) jobs: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) rewritten_bytes: AtomicU64,
    pub(crate) written_bytes: AtomicU64,
    pub(crate) us: AtomicU64,
}

/// What a job, or a part of it, did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    pub(crate) jobs: u64,
    /// Bytes that came from memory or from above.
    pub(crate) read_bytes: u64,
    /// Bytes that were there before, and were merged with them.
    pub(crate) rewritten_bytes: u64,
    pub(crate) written_bytes: u64,
    pub(crate) duration: Duration,
}

/// Jobs that could not be done.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Bytes of free space that a compaction lacks; 0 when none waits for space.
    pub(crate) space_missing_bytes: AtomicU64,
    pub(crate) compactions: AtomicU64,
    pub(crate) btree_merges: AtomicU64,
    /// What the last one said.
    pub(crate) last: Mutex<Option<String>>,
}

impl Counters {
    pub(crate) fn new(events: Events) -> Self {
        Self { events, ..Self::default() }
    }

    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.count.load(Ordering::Relaxed)
    }

    /// A commit was refused because of a conflict.
    pub(crate) fn conflict(&self) {
        let count = self.conflicts.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(STORM_CONFLICTS) {
            let commits = self.commits.load(Ordering::Relaxed);
            let commits = commits.saturating_sub(self.conflicts.commits_compared.swap(commits, Ordering::Relaxed));
            if commits < STORM_CONFLICTS {
                self.events.tell(&Event::ConflictStorm { conflicts: STORM_CONFLICTS, commits });
            }
        }
    }

    /// A writer waited for memory.
    pub(crate) fn stalled(&self, bytes: u64, duration: Duration) {
        self.stalls.add(duration);
        self.events.tell(&Event::Stalled { bytes, duration });
    }

    /// A compaction in the background could not read something.
    pub(crate) fn compaction_failed(&self, error: &Error) {
        self.failures.compactions.fetch_add(1, Ordering::Relaxed);
        self.failed(error);
    }

    /// A merge into a B-tree could not read something.
    pub(crate) fn btree_merge_failed(&self, error: &Error) {
        self.failures.btree_merges.fetch_add(1, Ordering::Relaxed);
        self.failed(error);
    }

    fn failed(&self, error: &Error) {
        let message = error.to_string();
        self.events.tell(&Event::BackgroundError { message: &message });
        *self.failures.last.lock() = Some(message);
    }
}

impl Waits {
    /// A thread waited for this time.
    pub(crate) fn add(&self, time: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.us.fetch_add(micros(time), Ordering::Relaxed);
    }
}

impl LevelCounters {
    /// What was done for L0 or a level.
    pub(crate) fn level(&self, place: LevelId) -> &WorkCounters {
        &self.places[place.number()]
    }

    /// What was done for B-trees.
    pub(crate) const fn btree(&self) -> &WorkCounters {
        &self.places[LEVELS + 1]
    }

    /// What was done for L0, the levels and the B-tree, in this order.
    pub(crate) const fn all(&self) -> &[WorkCounters] {
        &self.places
    }
}

impl WorkCounters {
    pub(crate) fn add(&self, work: Work) {
        self.jobs.fetch_add(work.jobs, Ordering::Relaxed);
        self.read_bytes.fetch_add(work.read_bytes, Ordering::Relaxed);
        self.rewritten_bytes.fetch_add(work.rewritten_bytes, Ordering::Relaxed);
        self.written_bytes.fetch_add(work.written_bytes, Ordering::Relaxed);
        self.us.fetch_add(micros(work.duration), Ordering::Relaxed);
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::events::EventListener;
    use super::*;

    #[derive(Debug, Default)]
    struct Storms(Mutex<Vec<u64>>);

    impl EventListener for Storms {
        fn on_event(&self, event: &Event<'_>) {
            if let Event::ConflictStorm { commits, .. } = event {
                self.0.lock().push(*commits);
            }
        }
    }

    #[test]
    fn a_storm_is_told_when_more_commits_conflict_than_succeed() {
        let (storms, mut events) = (Arc::new(Storms::default()), Events::default());
        events.set(Arc::<Storms>::clone(&storms));
        let counters = Counters::new(events);
        for commits in [10, 1000, 999, 5000] {
            counters.commits.fetch_add(commits, Ordering::Relaxed);
            (0..STORM_CONFLICTS).for_each(|_| counters.conflict());
        }
        assert_eq!(*storms.0.lock(), [10, 999]);
    }
}
