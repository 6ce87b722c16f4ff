//! What it costs to build an index while writers change the rows, beside a build alone and writers alone.
//!
//! Run with `cargo bench -p spinney --bench online_index -- [ROWS] [sync]`, by default 1,000,000 rows. Two writers
//! change random rows, each with its entry of the index, by transactions that are `Buffered`, or durable with `sync`.
//! The index is compared with the rows in the end.
//!
//! Of each build it tells too, on Linux, how long its thread had a processor and how long it waited for one. On a
//! machine with other work compare these: what is left of the time it waits for the disk and for latches.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spinney::env::{Clock, Env};
use spinney::{Database, Durability, Error, ErrorKind, Options, Result, Snapshot, Table, TableOptions};
use spinney_testkit::Rng;

const WRITERS: u64 = 2;

/// A row: a city, by which the index orders, and some more bytes.
fn row(city: u64) -> Vec<u8> {
    let mut row = city.to_be_bytes().to_vec();
    row.resize(100, 7);
    row
}

fn city_of(row: &[u8]) -> &[u8] {
    &row[..8]
}

/// The entry of a row in the index: the city, then the row's key.
fn entry_of(row: &[u8], key: &[u8]) -> Vec<u8> {
    [city_of(row), key].concat()
}

/// Reads the rows of a snapshot, sorts their entries and loads them.
fn build(rows: &Table, index: &Table, snapshot: &Snapshot, is_below: bool) -> Result<()> {
    let mut entries = Vec::new();
    snapshot.range(rows, ..).each(|key, row| {
        let mut entry = [0; 16];
        let (city, of_key) = entry.split_at_mut(8);
        city.copy_from_slice(city_of(row));
        of_key.copy_from_slice(key);
        entries.push(entry);
        Ok::<_, Error>(true)
    })?;
    entries.sort_unstable();
    let mut load = if is_below { index.bulk_load_below(snapshot)? } else { index.bulk_load()? };
    entries.iter().try_for_each(|entry| load.push(entry, b""))?;
    load.finish()
}

/// Changes random rows until told to end.
fn write(db: &Database, rows: &Table, index: &RwLock<Option<Table>>, seed: u64, shared: &Shared) -> Result<()> {
    let mut rng = Rng::new(seed);
    while !shared.ends.load(Ordering::Relaxed) {
        let key = (rng.number() % shared.rows).to_be_bytes();
        // An index is created while no writer is in a transaction.
        let index = index.read().expect("no writer panics");
        let mut txn = db.begin();
        let (old, new) = (txn.get(rows, key)?.expect("no row is deleted"), row(rng.number()));
        if let Some(index) = &*index {
            txn.delete(index, entry_of(&old, &key))?;
            txn.put(index, entry_of(&new, &key), b"")?;
        }
        txn.put(rows, key, new)?;
        match txn.commit_with(shared.durability) {
            Err(error) if error.kind() == ErrorKind::Conflict => {}
            committed => {
                committed?;
                shared.commits.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

struct Shared {
    rows: u64,
    durability: Durability,
    ends: AtomicBool,
    commits: AtomicU64,
}

/// Whether the index holds the entries of all rows, and no others.
fn is_right(db: &Database, rows: &Table, index: &Table) -> Result<bool> {
    let snapshot = db.snapshot();
    let (mut range, mut expected) = (snapshot.range(rows, ..), Vec::new());
    while let Some((key, row)) = range.advance()? {
        expected.push(entry_of(row, key));
    }
    expected.sort_unstable();
    let (mut range, mut expected) = (snapshot.range(index, ..), expected.into_iter());
    while let Some((entry, _)) = range.advance()? {
        if expected.next().as_deref() != Some(entry) {
            return Ok(false);
        }
    }
    Ok(expected.next().is_none())
}

/// Seconds for which this thread has had a processor, and for which it has waited for one; 0 where the system does not
/// say.
fn scheduled() -> [f64; 2] {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = told.split(' ').map(|word| word.trim().parse().map_or(0.0, |nanoseconds: f64| nanoseconds / 1e9));
    std::array::from_fn(|_| numbers.next().unwrap_or(0.0))
}

/// Runs `build`, and tells how its thread was scheduled.
fn scheduling(build: impl FnOnce() -> Result<()>) -> Result<String> {
    let before = scheduled();
    build()?;
    let after = scheduled();
    Ok(format!("{:.2} s on a processor, {:.2} s waiting for one", after[0] - before[0], after[1] - before[1]))
}

/// The commits of a second, while `work` runs, and how long that took.
fn beside<T>(clock: &dyn Clock, shared: &Shared, work: impl FnOnce() -> Result<T>) -> Result<(T, f64, f64)> {
    let (start, before) = (clock.now(), shared.commits.load(Ordering::Relaxed));
    let done = work()?;
    let seconds = clock.now().saturating_sub(start).as_secs_f64();
    let commits = shared.commits.load(Ordering::Relaxed) - before;
    Ok((done, seconds, commits as f64 / seconds))
}

fn main() -> Result<()> {
    let count = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(1_000_000);
    let (env, dir) = (Env::os(), tempfile::tempdir_in(".").expect("a directory"));
    let options = Options::default().memory_bytes(512 << 20).durability(Durability::Buffered);
    let db = Database::open(dir.path().join("db"), options)?;
    let rows = db.create_table("rows", TableOptions::default())?;
    let (mut rng, mut load) = (Rng::new(1), rows.bulk_load()?);
    (0..count).try_for_each(|key| load.push(&key.to_be_bytes(), &row(rng.number())))?;
    load.finish()?;
    let clock = &*env.clock;
    let is_durable = std::env::args().any(|word| word == "sync");
    let durability = if is_durable { Durability::Sync } else { Durability::Buffered };
    let shared = Shared { rows: count, durability, ends: AtomicBool::new(false), commits: AtomicU64::new(0) };
    let alone = db.create_table("alone", TableOptions::default())?;
    let alone_build = || scheduling(|| build(&rows, &alone, &db.snapshot(), false));
    let (how, alone_seconds, _) = beside(clock, &shared, alone_build)?;
    db.drop_table("alone")?;
    println!("{count} rows; build alone: {alone_seconds:.2} s, {how}");
    let index = RwLock::new(None);
    std::thread::scope(|scope| {
        let (db, rows, index, shared) = (&db, &rows, &index, &shared);
        for seed in 0..WRITERS {
            scope.spawn(move || write(db, rows, index, 100 + seed, shared).expect("a writer fails"));
        }
        let measured = || {
            let seconds = Duration::from_secs_f64(alone_seconds.max(3.0));
            let sleep = || {
                beside(clock, shared, || {
                    env.threads.sleep(seconds);
                    Ok(())
                })
            };
            let (_, _, without_index) = sleep()?;
            let (snapshot, by_city) = {
                let mut index = index.write().expect("no writer panics");
                let (snapshot, by_city) = (db.snapshot(), db.create_table("by city", TableOptions::default())?);
                *index = Some(by_city.clone());
                (snapshot, by_city)
            };
            let online_build = || scheduling(|| build(rows, &by_city, &snapshot, true));
            let (how, online_seconds, during) = beside(clock, shared, online_build)?;
            drop(snapshot);
            by_city.wait_idle()?;
            let (_, _, with_index) = sleep()?;
            let of_alone = online_seconds / alone_seconds;
            println!("build beside 2 writers: {online_seconds:.2} s, {of_alone:.2} of alone, {how}");
            println!("commits/s of the writers: {without_index:.0} before, {during:.0} during, {with_index:.0} after");
            println!("{:.2} of their rate with the index", during / with_index);
            Ok(by_city)
        };
        let measured: Result<Table> = measured();
        shared.ends.store(true, Ordering::Relaxed);
        measured
    })
    .and_then(|by_city| {
        println!("the index is {}", if is_right(&db, &rows, &by_city)? { "right" } else { "WRONG" });
        db.close()
    })
}
