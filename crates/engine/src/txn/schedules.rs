//! Publication and the registry of snapshots under thousands of schedules: no commit waits for ever, none is seen
//! before those ahead of it, and a flush or compaction misses no snapshot that it must keep versions for. Run by
//! `cargo xtask schedules`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use shuttle::thread;

use super::commit_clock::{CommitClock, CommitPlace, CommitTime};
use super::publish::{Publisher, Seqnums};
use super::snapshots::Snapshots;
use crate::base::sync::{Mutex, check};
use crate::base::{Lsn, SeqNum};

const THREADS: u64 = 4;
const COMMITS: u64 = 3;

/// What a database has of these.
#[derive(Default)]
struct Shared {
    next: Mutex<u64>,
    /// A bit for each commit whose changes are in the memtables.
    inserted: AtomicU64,
    /// Up to where the log is durable.
    durable: AtomicU64,
    publisher: Publisher,
    snapshots: Snapshots,
}

impl Shared {
    fn commit(&self, durably: bool) {
        let seqnum = {
            let mut next = self.next.lock();
            *next += 1;
            *next
        };
        self.inserted.fetch_or(1 << seqnum, Ordering::SeqCst);
        if durably {
            self.publisher.inserted(Seqnums::one(SeqNum(seqnum)), Lsn(seqnum));
            thread::yield_now();
            // A force takes along what was appended before.
            self.durable.fetch_max(*self.next.lock(), Ordering::SeqCst);
        }
        let durable = Lsn(self.durable.load(Ordering::SeqCst));
        assert!(self.publisher.complete(Seqnums::one(SeqNum(seqnum)), durable, &self.snapshots));
        self.read(seqnum);
    }

    /// A snapshot sees everything up to the own commit, and nothing that is not there.
    fn read(&self, own: u64) {
        let seen = self.snapshots.take();
        assert!(seen.0 >= own);
        let inserted = self.inserted.load(Ordering::SeqCst);
        assert!((1..=seen.0).all(|seqnum| inserted & 1 << seqnum != 0), "{seen:?} sees {inserted:b}");
        thread::yield_now();
        let (live, least) = self.snapshots.live();
        assert!(live.contains(&seen) && least >= seen);
        self.snapshots.release(seen);
    }
}

#[test]
fn every_schedule_of_commits_publishes_them_in_order_and_ends() {
    check(|| {
        let shared = Arc::new(Shared::default());
        let threads = (0..THREADS).map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || (0..COMMITS).for_each(|_| shared.commit(number % 2 == 0)))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.snapshots.published(), SeqNum(THREADS * COMMITS));
        assert_eq!(shared.snapshots.count(), 0);
    });
}

/// Commits that a clock stamps, and what readers are shown meanwhile.
struct Stamped {
    shared: Shared,
    clock: CommitClock,
    /// The times of the commits, in the order of their seqnums.
    times: Mutex<Vec<u64>>,
}

impl Stamped {
    fn commit(&self) {
        let before = self.show();
        let (seqnum, time) = {
            let mut next = self.shared.next.lock();
            *next += 1;
            let place =
                CommitPlace { seqnum: SeqNum(*next), before: Lsn(*next), published: self.shared.snapshots.published() };
            let time = self.clock.stamp(place, CommitTime::Next);
            self.times.lock().push(time);
            (*next, time)
        };
        assert!(time > before, "{time} follows {before}, which was shown before");
        thread::yield_now();
        assert!(self.shared.publisher.complete(Seqnums::one(SeqNum(seqnum)), Lsn(0), &self.shared.snapshots));
        assert!(self.show() >= time, "a later reply has the time of the commit");
    }

    /// A snapshot with its time: it has the commits up to that, no other one, and readers of the log begin in front of
    /// those.
    fn show(&self) -> u64 {
        let snapshots = &self.shared.snapshots;
        let end = Lsn(u64::MAX);
        // As a snapshot is taken: what it sees is looked at once.
        let (shown, seen) = self.clock.look(true, || {
            let seen = snapshots.published();
            (seen, end, seen)
        });
        thread::yield_now();
        let times = self.times.lock().clone();
        assert!(times.is_sorted_by(|first, second| first < second), "{times:?}");
        for (seqnum, time) in (1..).zip(times) {
            assert_eq!(time <= shown.time, seqnum <= seen.0, "{time} of {seqnum}, {shown:?} with {seen:?}");
            assert!(
                time <= shown.time || seqnum >= shown.lsn.0 || shown.lsn == end,
                "{seqnum} is not read from {shown:?}"
            );
        }
        shown.time
    }
}

#[test]
fn in_every_schedule_a_time_that_is_shown_is_complete() {
    check(|| {
        let stamped = Stamped { shared: Shared::default(), clock: CommitClock::new(|| 7), times: Mutex::default() };
        let stamped = Arc::new(stamped);
        let threads = (0..THREADS).map(|_| {
            let stamped = Arc::clone(&stamped);
            thread::spawn(move || (0..COMMITS).for_each(|_| stamped.commit()))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_poisoned_publisher_lets_nobody_wait() {
    check(|| {
        let shared = Arc::new(Shared::default());
        *shared.next.lock() = 1;
        let waiting = (0..THREADS).map(|_| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let seqnum = {
                    let mut next = shared.next.lock();
                    *next += 1;
                    *next
                };
                assert!(!shared.publisher.complete(Seqnums::one(SeqNum(seqnum)), Lsn(0), &shared.snapshots));
            })
        });
        let waiting: Vec<_> = waiting.collect();
        shared.publisher.poison();
        waiting.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(shared.snapshots.published(), SeqNum(0));
    });
}
