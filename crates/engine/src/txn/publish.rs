//! Publication: commits become visible in the order of their seqnums, each when it is complete and as durable as it
//! promised.
//!
//! # Concurrency
//! Commits have the seqnums without gaps, so each knows from its first one whether it is the next to be seen. Those
//! that are not wait in a queue. The thread that completes a commit publishes all commits at the front of the queue
//! that may be seen: those that are complete, and those that only waited for the log, which a force made durable
//! together. So one thread publishes a group, and the others need not wait for each other. Each thread returns when its
//! commit is published, so that it reads its own writes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};

use crate::base::{Lsn, SeqNum};

use super::snapshots::Snapshots;

/// Those commits on their way to visibility whose changes are in the memtables.
#[derive(Debug, Default)]
pub struct Publisher {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// In the order of their seqnums. Those in between whose changes are not in the memtables are missing.
    queue: VecDeque<Commit>,
    waiting: usize,
    /// How often something was published, or became durable after it was.
    news: u64,
    /// Up to where the log was durable when that was announced last.
    announced: Lsn,
    /// Nothing is published any more: a commit failed, and those after it may depend on it.
    poisoned: bool,
}

#[derive(Debug)]
struct Commit {
    seqnums: Seqnums,
    /// How far the log must be durable before it may be seen.
    needs: Lsn,
}

/// The seqnums of a commit's changes: the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seqnums {
    /// Of the first change.
    pub first: SeqNum,
    /// Of the last change.
    pub last: SeqNum,
}

impl Seqnums {
    /// Of a commit of one change.
    #[must_use]
    pub const fn one(seqnum: SeqNum) -> Self {
        Self { first: seqnum, last: seqnum }
    }

    /// Whether they come next when all up to `published` are published.
    const fn follow(self, published: SeqNum) -> bool {
        self.first.0 == published.0 + 1
    }
}

impl Publisher {
    /// The commit's changes are in the memtables, and it may be seen when the log is durable up to `needs`, whichever
    /// thread learns of that first.
    pub fn inserted(&self, commit: Seqnums, needs: Lsn) {
        self.state.lock().inserted(commit, needs);
    }

    /// The commit is complete, and the log is durable up to `durable`: publishes it as soon as all before it may be
    /// seen, and returns then. False when it never will be, because an earlier commit failed.
    #[must_use]
    pub fn complete(&self, commit: Seqnums, durable: Lsn, snapshots: &Snapshots) -> bool {
        let last = commit.last;
        if snapshots.published() >= last {
            return true;
        }
        let mut state = self.state.lock();
        let before = snapshots.published();
        if before >= last || state.poisoned {
            return before >= last;
        }
        let mut published = before;
        if state.queue.is_empty() && commit.follow(published) {
            published = last;
        } else {
            state.inserted(commit, Lsn(0));
            while let Some(next) =
                state.queue.pop_front_if(|next| next.seqnums.follow(published) && next.needs <= durable)
            {
                published = next.seqnums.last;
            }
        }
        if published > before {
            snapshots.publish(published);
            self.tell(&mut state);
        }
        if snapshots.published() >= last {
            return true;
        }
        state.waiting += 1;
        while snapshots.published() < last && !state.poisoned {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        snapshots.published() >= last
    }

    /// The database is being closed, or a thread that waits for news is to look at something else: wakes all threads
    /// that wait for news.
    pub fn announce_news(&self) {
        self.tell(&mut self.state.lock());
    }

    /// Commits that were published before became durable, up to a position of the log: wakes the threads that wait for
    /// news, once for each position, however many threads have made it durable together.
    pub fn announce_durable(&self, durable: Lsn) {
        let mut state = self.state.lock();
        if durable > state.announced {
            state.announced = durable;
            self.tell(&mut state);
        }
    }

    /// A number that changes whenever a commit may have become visible and durable.
    #[must_use]
    pub fn news(&self) -> u64 {
        self.state.lock().news
    }

    /// Waits until there is other news than `seen`, or until `timeout` has passed.
    pub fn wait_for_news(&self, seen: u64, timeout: Duration) {
        let mut state = self.state.lock();
        state.waiting += 1;
        self.changed.wait_while_for(&mut state, |state| state.news == seen, timeout);
        state.waiting -= 1;
    }

    fn tell(&self, state: &mut State) {
        state.news += 1;
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// A commit failed: it and those after it never become visible.
    pub fn poison(&self) {
        self.state.lock().poisoned = true;
        self.changed.notify_all();
    }
}

impl State {
    fn inserted(&mut self, seqnums: Seqnums, needs: Lsn) {
        let at = self.queue.partition_point(|commit| commit.seqnums.last < seqnums.last);
        match self.queue.get_mut(at).filter(|commit| commit.seqnums == seqnums) {
            Some(commit) => commit.needs = needs,
            None => self.queue.insert(at, Commit { seqnums, needs }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn one(seqnum: u64) -> Seqnums {
        Seqnums::one(SeqNum(seqnum))
    }

    #[test]
    fn a_commit_is_published_only_after_those_before_it() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        let [first, second] =
            [(1, 3), (4, 5)].map(|(first, last)| Seqnums { first: SeqNum(first), last: SeqNum(last) });
        std::thread::scope(|scope| {
            let later = scope.spawn(|| publisher.complete(second, Lsn(0), &snapshots));
            while publisher.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(snapshots.published(), SeqNum(0));
            assert!(publisher.complete(first, Lsn(0), &snapshots));
            assert!(later.join().unwrap());
        });
        assert_eq!(snapshots.published(), SeqNum(5));
        assert!(publisher.state.lock().queue.is_empty());
    }

    #[test]
    fn one_thread_publishes_what_a_force_made_durable_together_and_no_more() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        publisher.inserted(one(1), Lsn(10));
        publisher.inserted(one(4), Lsn(40));
        publisher.inserted(one(2), Lsn(20));
        assert!(publisher.complete(one(1), Lsn(20), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(2));
        assert!(publisher.complete(one(2), Lsn(20), &snapshots), "it is published already");
        publisher.inserted(one(3), Lsn(30));
        assert!(publisher.complete(one(3), Lsn(30), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(3), "the fourth is not durable yet");
        assert!(publisher.complete(one(4), Lsn(30), &snapshots), "who completes it knows that it is durable");
        assert_eq!(snapshots.published(), SeqNum(4));
    }

    #[test]
    fn who_waits_for_a_commit_that_fails_is_told() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        std::thread::scope(|scope| {
            let later = scope.spawn(|| publisher.complete(one(2), Lsn(0), &snapshots));
            while publisher.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            publisher.poison();
            assert!(!later.join().unwrap());
        });
    }

    #[test]
    fn nothing_is_published_after_a_failed_commit() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        publisher.poison();
        assert!(!publisher.complete(one(1), Lsn(0), &snapshots));
        assert!(!publisher.complete(one(2), Lsn(0), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(0));
    }
}
