//! The speed of replay over a log of small commits, beside a memtable's.

use crate::{ROUNDS, append, median, one_put};
use spinney::base::{Entry, Lsn};
use spinney::env::Env;
use spinney::log::{LogOptions, LogWriter, ReplayMode, recover, replay};
use spinney::tree::memtable::Memtable;
use spinney::txn::batch::Record;
use std::path::Path;
use std::sync::Arc;

/// Commits in the log, each with one put of 144 bytes.
const COMMITS: u64 = 500_000;

/// Prints the speeds, in bytes of log records.
pub(crate) fn run(env: &Env, directory: &Path) {
    let directory = &directory.join("replay");
    std::fs::create_dir(directory).expect("a directory");
    let records = records();
    fill(env, directory, &records);
    let bytes: usize = records.iter().map(Vec::len).sum();
    let speed = |work: &dyn Fn()| {
        let start = env.clock.now();
        work();
        bytes as f64 / 1e9 / (env.clock.now() - start).as_secs_f64()
    };
    let read = || replay_all(env, directory, None);
    let insert = || {
        let memtable = Memtable::new();
        records.iter().for_each(|record| take(record, Some(&memtable)));
    };
    let both = || replay_all(env, directory, Some(Memtable::new()));
    let rounds: Vec<[f64; 3]> = (0..ROUNDS).map(|_| [speed(&read), speed(&insert), speed(&both)]).collect();
    let [read, insert, both] = [0, 1, 2].map(|at| median(rounds.iter().map(|round| round[at]).collect()));
    println!("replay: read and decode       {read:>12.2} GB/s");
    println!("replay: insert into memtable  {insert:>12.2} GB/s");
    let least = insert.min(1.0);
    println!(
        "replay: both                  {both:>12.2} GB/s   {:.2} of the lesser of 1 GB/s and the memtable",
        both / least
    );
}

fn records() -> Vec<Vec<u8>> {
    let record = |number| {
        let (head, changes) = one_put(number);
        [&head, changes.logged()].concat()
    };
    (0..COMMITS).map(record).collect()
}

/// Writes a log of these records, all of it durable.
fn fill(env: &Env, directory: &Path, records: &[Vec<u8>]) {
    let recovered = recover(env, directory, 1, Lsn(0), &mut |_, _, _| Ok(())).expect("an empty log");
    let log = LogWriter::open(env, directory, LogOptions::default(), recovered).expect("a log");
    for chunk in records.chunks(4096) {
        let ends = chunk.iter().map(|record| append(&log, record));
        log.write(ends.last().expect("a chunk is not empty")).expect("written");
        if log.wants_spare() {
            log.prepare_spare().expect("a spare");
        }
    }
    log.close().expect("closed");
}

fn replay_all(env: &Env, directory: &Path, memtable: Option<Memtable>) {
    let recovered = match memtable {
        None => recover(env, directory, 1, Lsn(0), &mut |_, _, record| {
            take(record, None);
            Ok(())
        }),
        Some(memtable) => {
            let take_in = move |_, record: &[u8]| {
                take(record, Some(&memtable));
                Ok(())
            };
            replay(env, directory, (1, Lsn(0), ReplayMode::Recover), &mut |_| (), Arc::new(take_in), &mut |_, _| Ok(()))
        }
    };
    assert_eq!(recovered.expect("a sound log").summary().payloads, COMMITS);
}

/// Decodes a record, and inserts what it holds.
fn take(record: &[u8], memtable: Option<&Memtable>) {
    let taken = Record::decode(record).expect("a record").for_each(
        || "malformed",
        |seqnum, change| {
            if let Some(memtable) = memtable {
                memtable.insert(&Entry { key: change.key, seqnum, kind: change.kind, value: change.value });
            }
            Ok(())
        },
    );
    taken.expect("a whole record");
}
