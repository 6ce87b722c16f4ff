//! What durable commits cost beside the large writes of the engine: bulk loads, flushes, compactions and checkpoints.
//!
//! Run with `cargo bench -p spinney --bench sync_commits -- [MIB]`, by default 512 MiB of incompressible values. Two
//! writers commit small transactions with `Durability::Sync`, alone, and beside each of the works. A line tells how
//! long the work took, how many commits there were in a second, and how long these took.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spinney::env::{Clock, Env};
use spinney::{Batch, Database, Durability, Layout, Options, Result, Table, TableOptions};
use spinney_testkit::Rng;

const WRITERS: u64 = 2;
const VALUE_BYTES: usize = 1000;
/// Entries of a commit that is not durable.
const BATCH: u64 = 100;

/// What the writers have done.
#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// How long each commit took, since the last look.
    times: Mutex<Vec<Duration>>,
}

/// Commits until told to end.
fn write(clock: &dyn Clock, table: &Table, seed: u64, shared: &Shared) -> Result<()> {
    let mut rng = Rng::new(seed);
    while !shared.ends.load(Ordering::Relaxed) {
        let begun = clock.now();
        table.put((rng.number() % 100_000).to_be_bytes(), [7; 100])?;
        shared.times.lock().expect("no writer panics").push(clock.now().saturating_sub(begun));
    }
    Ok(())
}

/// Does a work beside the writers, and prints what it costs.
fn beside(clock: &dyn Clock, shared: &Shared, what: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    shared.times.lock().expect("no writer panics").clear();
    let begun = clock.now();
    work()?;
    let seconds = clock.now().saturating_sub(begun).as_secs_f64();
    let mut times = std::mem::take(&mut *shared.times.lock().expect("no writer panics"));
    times.sort_unstable();
    let at = |percent: usize| times.get((times.len() * percent / 100).min(times.len().saturating_sub(1)));
    let ms = |percent| at(percent).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3);
    println!(
        "{what:24} {seconds:7.2} s  {:7.0} commits/s  p50 {:7.2}  p99 {:7.2}  max {:7.2} ms",
        times.len() as f64 / seconds,
        ms(50),
        ms(99),
        ms(100)
    );
    Ok(())
}

/// Loads ascending entries.
fn load(table: &Table, entries: u64) -> Result<()> {
    let (mut rng, mut load) = (Rng::new(1), table.bulk_load()?);
    (0..entries).try_for_each(|key| load.push(&key.to_be_bytes(), &rng.bytes(VALUE_BYTES)))?;
    load.finish()
}

/// Writes random entries that are flushed and compacted.
fn fill(db: &Database, table: &Table, entries: u64) -> Result<()> {
    let mut rng = Rng::new(2);
    for _ in 0..entries / BATCH {
        let mut batch = Batch::new();
        (0..BATCH).for_each(|_| batch.put(table, rng.number().to_be_bytes(), rng.bytes(VALUE_BYTES)));
        db.write_with(&batch, Durability::Buffered)?;
    }
    table.flush()
}

fn main() -> Result<()> {
    let mib = std::env::args().skip(1).find_map(|word| word.parse::<u64>().ok()).unwrap_or(512);
    let entries = (mib << 20) / VALUE_BYTES as u64;
    let (env, dir) = (Env::os(), tempfile::tempdir_in(".").expect("a directory"));
    let db = Database::open(dir.path().join("db"), Options::default())?;
    let small = db.create_table("small", TableOptions::default())?;
    let unlogged = TableOptions::default().logged(false);
    let (loaded, filled) = (db.create_table("loaded", unlogged.clone())?, db.create_table("filled", unlogged.clone())?);
    let btree = db.create_table("btree", unlogged.layout(Layout::BTree))?;
    let (clock, shared) = (&*env.clock, Shared::default());
    std::thread::scope(|scope| {
        let (small, shared) = (&small, &shared);
        for seed in 0..WRITERS {
            scope.spawn(move || write(clock, small, 100 + seed, shared).expect("a writer fails"));
        }
        let alone = || {
            env.threads.sleep(Duration::from_secs(3));
            Ok(())
        };
        let works = || {
            beside(clock, shared, "alone", alone)?;
            beside(clock, shared, "a bulk load", || load(&loaded, entries))?;
            beside(clock, shared, "flushes and compactions", || fill(&db, &filled, entries))?;
            beside(clock, shared, "a full compaction", || filled.compact())?;
            beside(clock, shared, "merges into a B-tree", || fill(&db, &btree, entries / 4))?;
            beside(clock, shared, "a checkpoint", || db.checkpoint(dir.path().join("copy")).map(drop))?;
            beside(clock, shared, "alone again", alone)
        };
        let done = works();
        shared.ends.store(true, Ordering::Relaxed);
        done
    })?;
    db.close()
}
