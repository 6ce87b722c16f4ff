//! Publication: commits become visible in the order of their seqnums, each when it is complete and as durable as it promised.
//!
//! # Concurrency
//! A commit is announced under the commit latch, so the queue is in seqnum order. Whoever completes a commit publishes all at the front
//! of the queue that may be seen: those that are complete, and those that only waited for the log, which a force made durable together.
//! So of a group one thread publishes, and the others need not wait for each other. Each returns when it is published, so that it
//! reads its own writes.

use std::collections::VecDeque;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};

use crate::base::{Lsn, SeqNum};

use super::snapshots::Snapshots;

/// The queue of commits on their way to visibility.
#[derive(Debug, Default)]
pub struct Publisher {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Commit>,
    waiting: usize,
    /// How often something was published, or became durable after it was.
    news: u64,
    /// Nothing is published any more: a commit failed, and those after it may depend on it.
    poisoned: bool,
}

#[derive(Debug)]
struct Commit {
    last: SeqNum,
    /// Once its changes are in the memtables: how far the log must be durable before it may be seen.
    needs: Option<Lsn>,
}

impl Publisher {
    /// Takes a place in the queue for the commit whose last seqnum is `last`. Called under the commit latch.
    pub fn announce(&self, last: SeqNum) {
        self.state.lock().queue.push_back(Commit { last, needs: None });
    }

    /// The commit's changes are in the memtables, and it may be seen when the log is durable up to `needs`, whoever learns of that first.
    pub fn inserted(&self, last: SeqNum, needs: Lsn) {
        self.state.lock().inserted(last, needs);
    }

    /// The commit is complete, and the log is durable up to `durable`: publishes it as soon as all before it may be seen, and returns
    /// then. False when it never will be, because an earlier commit failed.
    #[must_use]
    pub fn complete(&self, last: SeqNum, durable: Lsn, snapshots: &Snapshots) -> bool {
        if snapshots.published() >= last {
            return true;
        }
        let mut state = self.state.lock();
        if state.poisoned {
            return snapshots.published() >= last;
        }
        if snapshots.published() < last {
            state.inserted(last, Lsn(0));
        }
        let mut published = None;
        while let Some(commit) = state.queue.pop_front_if(|commit| commit.needs.is_some_and(|needs| needs <= durable)) {
            published = Some(commit.last);
        }
        if let Some(seqnum) = published {
            snapshots.publish(seqnum);
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

    /// Commits that were published before became durable, or the database is being closed: wakes whoever waits for news.
    pub fn announce_news(&self) {
        self.tell(&mut self.state.lock());
    }

    /// A number that changes whenever a commit may have become visible and durable.
    #[must_use]
    pub fn news(&self) -> u64 {
        self.state.lock().news
    }

    /// Waits until there is other news than `seen`, at most so long.
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
    fn inserted(&mut self, last: SeqNum, needs: Lsn) {
        let at = self.queue.partition_point(|commit| commit.last < last);
        self.queue[at].needs = Some(needs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_published_only_after_those_before_it() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        publisher.announce(SeqNum(3));
        publisher.announce(SeqNum(5));
        std::thread::scope(|scope| {
            let later = scope.spawn(|| publisher.complete(SeqNum(5), Lsn(0), &snapshots));
            while publisher.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(snapshots.published(), SeqNum(0));
            assert!(publisher.complete(SeqNum(3), Lsn(0), &snapshots));
            assert!(later.join().unwrap());
        });
        assert_eq!(snapshots.published(), SeqNum(5));
    }

    #[test]
    fn one_thread_publishes_what_a_force_made_durable_together_and_no_more() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        for number in 1..=4 {
            publisher.announce(SeqNum(number));
        }
        publisher.inserted(SeqNum(1), Lsn(10));
        publisher.inserted(SeqNum(2), Lsn(20));
        publisher.inserted(SeqNum(4), Lsn(40));
        assert!(publisher.complete(SeqNum(1), Lsn(20), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(2));
        assert!(publisher.complete(SeqNum(2), Lsn(20), &snapshots), "it is published already");
        publisher.inserted(SeqNum(3), Lsn(30));
        assert!(publisher.complete(SeqNum(3), Lsn(30), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(3), "the fourth is not durable yet");
    }

    #[test]
    fn nothing_is_published_after_a_failed_commit() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        publisher.announce(SeqNum(1));
        publisher.announce(SeqNum(2));
        publisher.poison();
        assert!(!publisher.complete(SeqNum(2), Lsn(0), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(0));
    }
}
