//! How many commits threads make together, by how many they are: more of them than processors must not make fewer.
//!
//! Run with `cargo bench -p spinney --bench writers -- [DIRECTORY] [SECONDS] [ROUNDS]`: `Buffered` puts of 400 B under
//! random keys, each in a commit of its own, with 16 MiB of memory, which is full now and then. Thousands of commits in
//! each run, the median of rounds that take turns, and its ratio to that of the fewest threads.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use spinney::env::Env;
use spinney::{Batch, Database, Durability, Options, TableOptions};
use spinney_testkit::Rng;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const THREADS: [u64; 4] = [4, 8, 16, 64];
const MEMORY_BYTES: u64 = 16 << 20;
const VALUE_BYTES: usize = 400;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (seconds, rounds) = (number(1, 4), number(2, 5));
    let mut commits = THREADS.map(|_| Vec::new());
    for _ in 0..rounds {
        for (threads, commits) in THREADS.iter().zip(&mut commits) {
            commits.push(run(&directory, *threads, Duration::from_secs(seconds)));
        }
    }
    let medians = commits.each_mut().map(|commits| {
        commits.sort_unstable();
        commits[commits.len() / 2]
    });
    println!("{:>8}{:>12}{:>8}  kcommits of each round", "threads", "kcommits", "ratio");
    for ((threads, median), commits) in THREADS.iter().zip(medians).zip(&commits) {
        let ratio = median as f64 / medians[0] as f64;
        let each: String = commits.iter().map(|commits| format!(" {}", commits / 1000)).collect();
        println!("{threads:>8}{:>12}{ratio:>8.2} {each}", median / 1000);
    }
}

/// The commits of so many threads in a new database.
fn run(directory: &Path, threads: u64, time: Duration) -> u64 {
    let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
    let options = Options::default().memory_bytes(MEMORY_BYTES);
    let database = Database::open(directory.path().join("db"), options).expect("the directory is new");
    let table = database.create_table("t", TableOptions::default()).expect("a new table");
    let (env, ended) = (Env::os(), AtomicBool::new(false));
    thread::scope(|scope| {
        for thread in 0..threads {
            let (database, table, ended) = (&database, &table, &ended);
            scope.spawn(move || {
                let mut random = Rng::new(thread);
                while !ended.load(Ordering::Relaxed) {
                    let mut batch = Batch::new();
                    batch.put(table, random.number().to_be_bytes(), [7; VALUE_BYTES]);
                    database.write_with(&batch, Durability::Buffered).expect("a commit");
                }
            });
        }
        env.threads.sleep(time);
        ended.store(true, Ordering::Relaxed);
    });
    database.stats().commits
}
