//! How fast threads increment one counter together: by merges that commute, under a lock, and by transactions that are
//! tried again when they conflict.
//!
//! Run with `cargo bench -p spinney --bench increments -- [DIRECTORY] [SECONDS] [ROUNDS]`: 8 threads, `Buffered`
//! commits of one increment each. Thousands of increments a second, the median of rounds that take turns; of the same
//! round how many the slowest thread made as a share of the mean; and whether the counter is the sum of all.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench prints, and runs for a time")]

use spinney::{Database, Durability, Options, Result, Table, TableOptions, Transaction};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;
const COUNTER: &str = "counter";

/// A way to increment, with its name.
type Way = (&'static str, fn(&Database, &Table) -> Result<()>);

const WAYS: [Way; 4] =
    [("merge", merge), ("merge in transactions", merge_in_transaction), ("get_for_update", lock), ("retry", retry)];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (seconds, rounds) = (number(1, 4), number(2, 5));
    let mut counts = WAYS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (way, counts) in WAYS.iter().zip(&mut counts) {
            counts.push(run(&directory, way.1, Duration::from_secs(seconds)));
        }
    }
    println!("{:<24}{:>12}{:>18}", "increments by", "thousand/s", "slowest / mean");
    for (way, counts) in WAYS.iter().zip(&mut counts) {
        counts.sort_unstable_by_key(|counts| counts.iter().sum::<u64>());
        let median = &counts[counts.len() / 2];
        let sum = median.iter().sum::<u64>();
        let slowest = median.iter().min().copied().unwrap_or_default() as f64 * THREADS as f64 / sum as f64;
        println!("{:<24}{:>12.1}{slowest:>18.2}", way.0, sum as f64 / seconds as f64 / 1000.0);
    }
}

/// What each thread has incremented in a new database.
fn run(directory: &Path, increment: fn(&Database, &Table) -> Result<()>, time: Duration) -> Vec<u64> {
    let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
    let options = Options::default().memory_bytes(256 << 20).durability(Durability::Buffered);
    let database = Database::open(directory.path().join("db"), options).expect("the directory is new");
    let table = database.create_table("t", TableOptions::default().merge("add")).expect("a new table");
    table.put(COUNTER, 0_u64.to_le_bytes()).expect("a put");
    let ended = AtomicBool::new(false);
    let counts: Vec<u64> = thread::scope(|scope| {
        let (database, table, ended) = (&database, &table, &ended);
        let count = || {
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) {
                increment(database, table).expect("an increment");
                count += 1;
            }
            count
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(count)).collect();
        thread::sleep(time);
        ended.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let counter = table.get(COUNTER).expect("a read").expect("a counter");
    assert_eq!(value(&counter), counts.iter().sum::<u64>(), "no increment is lost");
    counts
}

fn value(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a counter"))
}

fn merge(_: &Database, table: &Table) -> Result<()> {
    table.merge(COUNTER, 1_u64.to_le_bytes())
}

fn merge_in_transaction(database: &Database, table: &Table) -> Result<()> {
    let mut txn = database.begin();
    txn.merge(table, COUNTER, 1_u64.to_le_bytes())?;
    txn.commit()
}

fn lock(database: &Database, table: &Table) -> Result<()> {
    let mut txn = database.begin();
    let count = txn.get_for_update(table, COUNTER)?.map_or(0, |bytes| value(&bytes));
    txn.put(table, COUNTER, (count + 1).to_le_bytes())?;
    txn.commit()
}

fn retry(database: &Database, table: &Table) -> Result<()> {
    database.transact(|txn: &mut Transaction| {
        let count = txn.get(table, COUNTER)?.map_or(0, |bytes| value(&bytes));
        txn.put(table, COUNTER, (count + 1).to_le_bytes())
    })
}
