//! The states of late of a member of a replica set, by the times of the commits that made them, for reads at a time.
//!
//! They are kept from the first such read on, and until none has come for a minute: others pay nothing for them. While
//! they are kept the engine reclaims no version of the last ten seconds.
//!
//! # Invariants
//! 1. While they are kept, the caller that applies a commit adds its state before it lets go of the lock under which
//!    the commit was written. So a reader that holds that lock finds the state of each time from the first one on.
//!
//! # Concurrency
//! One latch, within the lock of the copies ([`super::record`]). What is taken under it of the engine is the latch of
//! its snapshots.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use spinney::{History, SeqNum, Snapshot};

use crate::bson::Timestamp;

/// For how many seconds of the cluster's time states are kept.
const KEPT_SECONDS: u32 = 10;

/// The most states that are kept: 24 bytes each.
const STATES_MAX: usize = 500_000;

/// After how many milliseconds without a read at a time none are kept.
const UNUSED_MS: i64 = 60_000;

/// States by their times.
#[derive(Debug, Default)]
pub(super) struct RecentStates {
    /// Whether any are kept. Changed under the lock of the copies, and read under it by the thread that applies.
    is_kept: AtomicBool,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    history: History,
    /// The times of commits, ascending, and what readers saw when each was applied, and no later one.
    states: VecDeque<(Timestamp, SeqNum)>,
    used_ms: i64,
}

impl RecentStates {
    /// Keeps states from now on. No commit is written meanwhile, and `newest` is the time of the last one.
    pub(super) fn keep(&self, engine: &spinney::Database, newest: Timestamp, now_ms: i64) {
        let mut kept = self.kept.lock();
        let kept = kept.get_or_insert_with(|| {
            let history = engine.keep_history();
            let states = [(newest, history.oldest())].into();
            Kept { history, states, used_ms: now_ms }
        });
        kept.used_ms = now_ms;
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Whether states are kept; such a read keeps them for another minute.
    pub(super) fn is_kept(&self, now_ms: i64) -> bool {
        self.kept.lock().as_mut().map(|kept| kept.used_ms = now_ms).is_some()
    }

    /// A commit of a time is applied.
    pub(super) fn add(&self, engine: &spinney::Database, time: Timestamp) {
        if self.is_kept.load(Ordering::Relaxed)
            && let Some(kept) = &mut *self.kept.lock()
        {
            kept.states.push_back((time, engine.snapshot().seqnum()));
            kept.forget(time);
        }
    }

    /// The state at a time: that of the newest commit up to then. Nothing when it is older than those that are kept. No
    /// commit is written meanwhile, and all up to the time are applied.
    pub(super) fn at(&self, time: Timestamp) -> Option<Snapshot> {
        let kept = self.kept.lock();
        let kept = kept.as_ref()?;
        let before = kept.states.partition_point(|(known, _)| *known <= time).checked_sub(1)?;
        kept.history.snapshot_at(kept.states.get(before)?.1)
    }

    /// Keeps none any more, when they were not used for a minute.
    pub(super) fn sweep(&self, now_ms: i64) {
        let mut kept = self.kept.lock();
        if kept.as_ref().is_some_and(|kept| now_ms.saturating_sub(kept.used_ms) >= UNUSED_MS) {
            self.is_kept.store(false, Ordering::Relaxed);
            *kept = None;
        }
    }
}

impl Kept {
    /// Forgets what is older than is kept, or than there is memory for, those of a second or of half of the memory at
    /// a time. The newest state of the old ones stays: it is that of all times up to the next one.
    fn forget(&mut self, newest: Timestamp) {
        let is_older = |(time, _): &(Timestamp, SeqNum), seconds| newest.time.saturating_sub(time.time) > seconds;
        let is_due = self.states.front().is_some_and(|oldest| is_older(oldest, KEPT_SECONDS + 1));
        let surplus = if self.states.len() > STATES_MAX { STATES_MAX / 2 } else { 0 };
        if !is_due && surplus == 0 {
            return;
        }
        let old = self.states.partition_point(|state| is_older(state, KEPT_SECONDS)).saturating_sub(1);
        if old.max(surplus) > 0 {
            self.states.drain(..old.max(surplus));
            self.states.front().into_iter().for_each(|(_, oldest)| self.history.forget_before(*oldest));
        }
    }
}

#[cfg(test)]
mod tests {
    use spinney::{Database, Options, TableOptions};

    use super::*;

    fn at(seconds: u32) -> Timestamp {
        Timestamp { time: seconds, increment: 1 }
    }

    #[test]
    fn a_state_is_that_of_the_newest_commit_up_to_a_time_and_is_kept_for_ten_seconds_behind_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let engine = Database::open(dir.path().join("db"), Options::default()).unwrap();
        let table = engine.create_table("t", TableOptions::default()).unwrap();
        let states = RecentStates::default();
        let commit = |seconds: u32| {
            table.put("newest", seconds.to_le_bytes()).unwrap();
            states.add(&engine, at(seconds));
        };
        let read = |seconds| states.at(at(seconds)).map(|snapshot| snapshot.get(&table, "newest").unwrap().unwrap()[0]);
        commit(90);
        assert!(read(90).is_none() && !states.is_kept(0), "nobody reads at times");
        states.keep(&engine, at(90), 1000);
        [95, 100].into_iter().for_each(commit);
        assert_eq!(
            [89, 90, 94, 95, 99, 100, 130].map(read),
            [None, Some(90), Some(90), Some(95), Some(95), Some(100), Some(100)]
        );
        commit(107);
        assert_eq!([94, 95, 96, 100, 107].map(read), [None, Some(95), Some(95), Some(100), Some(107)]);
        commit(200);
        assert_eq!([106, 107, 199, 200].map(read), [None, Some(107), Some(107), Some(200)]);
        assert!(states.is_kept(50_000));
        states.sweep(50_000 + UNUSED_MS - 1);
        assert!(read(200).is_some());
        states.sweep(50_000 + UNUSED_MS);
        commit(201);
        assert!(read(200).is_none() && read(201).is_none());
    }
}
