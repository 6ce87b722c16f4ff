//! Publication: commits become visible in the order of their seqnums, each when it is complete and as durable as it promised.
//!
//! # Concurrency
//! A commit is announced under the commit latch, so the queue is in seqnum order. Whoever completes the oldest commit publishes it
//! and all complete ones behind it. The others wait until they are published, so that each thread reads its own writes.

use std::collections::VecDeque;

use parking_lot::{Condvar, Mutex};

use crate::base::SeqNum;

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
    /// Nothing is published any more: a commit failed, and those after it may depend on it.
    poisoned: bool,
}

#[derive(Debug)]
struct Commit {
    last: SeqNum,
    complete: bool,
}

impl Publisher {
    /// Takes a place in the queue for the commit whose last seqnum is `last`. Called under the commit latch.
    pub fn announce(&self, last: SeqNum) {
        self.state.lock().queue.push_back(Commit { last, complete: false });
    }

    /// The commit is complete: publishes it as soon as all before it are, and returns then. False when it never will be, because
    /// an earlier commit failed.
    #[must_use]
    pub fn complete(&self, last: SeqNum, snapshots: &Snapshots) -> bool {
        let mut state = self.state.lock();
        if state.poisoned {
            return false;
        }
        let at = state.queue.partition_point(|commit| commit.last < last);
        state.queue[at].complete = true;
        let mut published = None;
        while let Some(commit) = state.queue.pop_front_if(|commit| commit.complete) {
            published = Some(commit.last);
        }
        if let Some(seqnum) = published {
            snapshots.publish(seqnum);
            if state.waiting > 0 {
                self.changed.notify_all();
            }
        }
        state.waiting += 1;
        while snapshots.published() < last && !state.poisoned {
            self.changed.wait(&mut state);
        }
        state.waiting -= 1;
        snapshots.published() >= last
    }

    /// A commit failed: it and those after it never become visible.
    pub fn poison(&self) {
        self.state.lock().poisoned = true;
        self.changed.notify_all();
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
            let later = scope.spawn(|| publisher.complete(SeqNum(5), &snapshots));
            while publisher.state.lock().waiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(snapshots.published(), SeqNum(0));
            assert!(publisher.complete(SeqNum(3), &snapshots));
            assert!(later.join().unwrap());
        });
        assert_eq!(snapshots.published(), SeqNum(5));
    }

    #[test]
    fn nothing_is_published_after_a_failed_commit() {
        let (publisher, snapshots) = (Publisher::default(), Snapshots::default());
        publisher.announce(SeqNum(1));
        publisher.announce(SeqNum(2));
        publisher.poison();
        assert!(!publisher.complete(SeqNum(2), &snapshots));
        assert_eq!(snapshots.published(), SeqNum(0));
    }
}
