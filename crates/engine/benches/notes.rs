//! What a note costs: commits of one put of 144 bytes (a key of 16, a value of 128), `Buffered`, one thread, with a
//! note of 32 bytes and without.
//!
//! Run with `cargo bench -p spinney --bench notes -- [DIRECTORY] [THOUSANDS OF COMMITS] [ROUNDS]`: the least time of a
//! commit over rounds that take turns, and the bytes of the log for each.

#![expect(clippy::disallowed_methods, clippy::print_stdout, reason = "a bench measures time, and prints")]

use spinney::{Batch, Database, Durability, Options, TableOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let number = |at: usize, default: u64| arguments.get(at).map_or(default, |text| text.parse().expect("a number"));
    let (commits, rounds) = (number(1, 200) * 1000, number(2, 15));
    let mut least = [(Duration::MAX, 0); 2];
    for _ in 0..rounds {
        for (note, least) in [&b""[..], &[b'n'; 32]].iter().zip(&mut least) {
            *least = run(&directory, commits, note).min(*least);
        }
    }
    let [without, with] =
        least.map(|(time, bytes)| (time.as_nanos() as f64 / commits as f64, bytes as f64 / commits as f64));
    println!("{:<24}{:>12}{:>16}", "a commit", "ns", "bytes of log");
    for (name, (ns, bytes)) in [("without a note", without), ("with a note", with)] {
        println!("{name:<24}{ns:>12.1}{bytes:>16.1}");
    }
    println!("{:<24}{:>12.1}{:>16.1}", "a note", with.0 - without.0, with.1 - without.1);
}

/// The time that so many commits took, and the bytes that they added to the log.
fn run(directory: &Path, commits: u64, note: &[u8]) -> (Duration, u64) {
    let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
    let options = Options::default().memory_bytes(1 << 30).durability(Durability::Buffered);
    let database = Database::open(directory.path().join("db"), options).expect("the directory is new");
    let table = database.create_table("t", TableOptions::default()).expect("a new table");
    let mut batch = Batch::new();
    let (from, start) = (database.log_end(), Instant::now());
    for number in 0..commits {
        let key = [number.to_be_bytes(), number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()];
        batch.clear();
        batch.put(&table, key.as_flattened(), [7; 128]);
        if !note.is_empty() {
            batch.note(note);
        }
        database.write(&batch).expect("a commit");
    }
    let time = start.elapsed();
    database.sync().expect("a sync");
    (time, database.log_end().0 - from.0)
}
