//! The group commit under thousands of schedules of its threads: no wake-up is lost, nothing is acknowledged before all
//! before it is durable. Run by `cargo xtask schedules`.

use super::*;
use crate::base::sync::check;
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use shuttle::thread;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

const DIRECTORY: &str = "/log";
const THREADS: usize = 4;
const COMMITS: usize = 2;

/// A log on a simulated disk, and what was acknowledged as durable.
#[derive(Clone)]
struct Shared {
    sim: SimEnv,
    log: Arc<LogWriter>,
    acknowledged: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl Shared {
    fn new(seed: u64) -> Self {
        let sim = SimEnv::new(seed);
        sim.env().fs.create_dir_all(DIRECTORY.as_ref()).unwrap();
        let (_, recovered) = read(&sim.env(), DIRECTORY.as_ref(), Lsn(0)).unwrap();
        let log = Arc::new(LogWriter::open(&sim.env(), DIRECTORY.as_ref(), small(), recovered).unwrap());
        Self { sim, log, acknowledged: Arc::default() }
    }

    /// Commits payloads, and checks at each acknowledgement that the power may fail now.
    fn commit(&self, thread: usize, buffered: bool) {
        for number in 0..COMMITS {
            // Every other thread's are long, so that segments fill, and some larger than a segment.
            let bytes = [100, 30_000, 100, 70_000][thread % 4];
            let payload = payload(thread * 100 + number, bytes);
            let mut body = self.log.prepare(&payload).unwrap();
            let end = self.log.append(&[], &mut body).unwrap().end;
            drop(body);
            if buffered {
                self.log.write(end).unwrap();
                assert!(self.log.written() >= end);
                continue;
            }
            self.log.sync(end).unwrap();
            self.acknowledged.lock().unwrap().insert(payload);
            self.check();
        }
    }

    /// What was acknowledged survives the worst power failure.
    fn check(&self) {
        let acknowledged = self.acknowledged.lock().unwrap().clone();
        let fork = self.sim.fork();
        fork.power_crash(CrashProfile::Strict);
        let (found, _) = read(&fork.env(), DIRECTORY.as_ref(), Lsn(0)).unwrap();
        let found: BTreeSet<_> = found.into_iter().collect();
        assert!(found.is_superset(&acknowledged), "{} of {} survive", found.len(), acknowledged.len());
    }
}

fn run_threads(shared: &Shared, buffered: impl Fn(usize) -> bool) {
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (shared, buffered) = (shared.clone(), buffered(number));
            thread::spawn(move || shared.commit(number, buffered))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn every_schedule_of_durable_commits_ends_and_loses_nothing() {
    check(|| run_threads(&Shared::new(1), |_| false));
}

#[test]
fn every_schedule_of_durable_and_buffered_commits_ends_and_loses_nothing() {
    check(|| run_threads(&Shared::new(2), |number| number == 0));
}

#[test]
fn spares_and_releases_beside_commits_lose_nothing() {
    let round = || {
        let shared = Shared::new(3);
        let background = shared.clone();
        let background = thread::spawn(move || {
            for _ in 0..3 {
                background.log.prepare_spare().unwrap();
                background.log.extend_window().unwrap();
                thread::yield_now();
            }
        });
        run_threads(&shared, |number| number == 1);
        background.join().unwrap();
        shared.log.close().unwrap();
        shared.check();
    };
    check(round);
}

/// A release asked for `io` with `live` in hand. A thread that begins a segment takes the two in the other order.
#[test]
fn a_release_beside_who_begins_a_segment_ends() {
    let round = || {
        let shared = Shared::new(5);
        shared.log.sync(shared.log.append_parts(&[&payload(0, 70_000)]).unwrap()).unwrap();
        let background = shared.clone();
        let background = thread::spawn(move || background.log.release(background.log.durable()).unwrap());
        shared.log.write(shared.log.append_parts(&[&payload(1, 70_000)]).unwrap()).unwrap();
        background.join().unwrap();
        shared.log.close().unwrap();
    };
    check(round);
}

#[test]
fn a_failed_write_is_told_to_all_that_wait() {
    let round = || {
        let shared = Shared::new(4);
        shared.sim.fail_at(shared.sim.op_count() + 2, Fault::Error(std::io::ErrorKind::Other));
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let payload = payload(number, 100);
                    let Ok(end) = shared.log.append_parts(&[&payload]) else { return };
                    if shared.log.sync(end).is_ok() {
                        shared.acknowledged.lock().unwrap().insert(payload);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        shared.sim.clear_faults();
        shared.check();
    };
    check(round);
}

/// A write does not wait for the syncs of other threads. It took for written what a force had taken and failed to
/// write.
#[test]
fn what_a_force_failed_to_write_is_not_said_to_be_written() {
    let round = |number| {
        move || {
            let shared = Shared::new(5);
            let first = shared.log.append_parts(&[b"so that the next force goes through the page cache"]).unwrap();
            shared.log.write(first).unwrap();
            shared.sim.fail_at(shared.sim.op_count() + number, Fault::Error(std::io::ErrorKind::Other));
            let threads: Vec<_> = (0..THREADS)
                .map(|number| {
                    let shared = shared.clone();
                    thread::spawn(move || {
                        let payload = payload(number, 30_000);
                        let Ok(end) = shared.log.append_parts(&[&payload]) else { return };
                        let handed_over = if number == 0 { shared.log.sync(end) } else { shared.log.write(end) };
                        if handed_over.is_ok() {
                            shared.acknowledged.lock().unwrap().insert(payload);
                        }
                    })
                })
                .collect();
            for thread in threads {
                thread.join().unwrap();
            }
            shared.sim.clear_faults();
            let acknowledged = shared.acknowledged.lock().unwrap().clone();
            shared.sim.process_crash();
            let (found, _) = read(&shared.sim.env(), DIRECTORY.as_ref(), Lsn(0)).unwrap();
            let found: BTreeSet<_> = found.into_iter().collect();
            assert!(found.is_superset(&acknowledged), "{} of {} survive", found.len(), acknowledged.len());
        }
    };
    (0..3).for_each(|number| check(round(number)));
}
