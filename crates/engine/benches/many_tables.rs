//! What many tables in one database cost: to create, to open, to hold while they are idle, to flush while they are hot,
//! and to drop.
//!
//! Run with `cargo bench -p spinney --bench many_tables -- [TABLES] [HOT] [DROPPED]`, by default 30,000, 1,000 and
//! 10,000. It prints a table of figures for each layout: with tables that never held anything, then with one run or one
//! leaf in each.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use spinney::env::{Clock, Env};
use spinney::{Batch, Database, Durability, Layout, Options, Result, Table, TableOptions};

/// The first argument of a process that tells what idle tables take.
const IDLE: &str = "--idle";
/// Bytes of a value of a hot table.
const VALUE_BYTES: usize = 100;
/// Entries that each hot table gets for a flush.
const HOT_ENTRIES: u32 = 100;

fn options() -> Options {
    Options::default().memory_bytes(256 << 20).durability(Durability::Buffered)
}

fn name(number: usize) -> String {
    format!("table-{number:06}")
}

/// Bytes of memory of this process that are not of files.
fn rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// Times calls and prints them.
struct Meter<'a>(&'a dyn Clock);

impl Meter<'_> {
    fn time<T>(&self, what: &str, of: usize, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let start = self.0.now();
        let done = call()?;
        let time = self.0.now().saturating_sub(start);
        let each = time.as_secs_f64() * 1e6 / of.max(1) as f64;
        println!("{what:44} {:9.3} s  {each:9.1} us each", time.as_secs_f64());
        Ok(done)
    }
}

/// Opens the database, and tells what its tables take while they are idle: in a process of its own, in which nothing
/// was allocated before.
fn open(meter: &Meter<'_>, path: &Path, tables: usize, what: &str) -> Result<Database> {
    let program = std::env::current_exe().expect("this program has a path");
    let told = Command::new(program).arg(IDLE).arg(path).output().expect("this program runs");
    print!("{}", String::from_utf8_lossy(&told.stdout));
    meter.time(what, tables, || Database::open(path, options()))
}

/// Opens the database in `path`, and tells what its tables take.
fn tell_idle(path: &Path) -> Result<()> {
    let (before, open_before) = (rss_bytes(), descriptors());
    let db = Database::open(path, options())?;
    let tables = db.tables()?.len();
    // The cache and the log take some memory of a database without tables too.
    let (rss, open) = (rss_bytes().saturating_sub(before), descriptors() - open_before);
    let each = rss as f64 / tables as f64;
    println!("{:44} {each:9.0} bytes a table, {open} descriptors", "idle");
    db.close()
}

/// Puts entries into each of the tables, in turn.
fn fill(db: &Database, tables: &[Table], entries: u32) -> Result<()> {
    for entry in 0..entries {
        for part in tables.chunks(1000) {
            let mut batch = Batch::new();
            part.iter().for_each(|table| batch.put(table, entry.to_be_bytes(), [7; VALUE_BYTES]));
            db.write(&batch)?;
        }
    }
    Ok(())
}

fn run(layout: Layout, (count, hot, dropped): (usize, usize, usize)) -> Result<()> {
    let dir = tempfile::tempdir_in(".").expect("a directory");
    let (path, env) = (dir.path().join("db"), Env::os());
    let meter = Meter(&*env.clock);
    println!("\n{} tables, {}", count, layout.name());
    let table_options = TableOptions::default().layout(layout);
    let db = Database::open(&path, options())?;
    let wanted = (0..count).map(|number| (name(number), table_options.clone()));
    let tables = meter.time("create_tables", count, || db.create_tables(wanted))?;
    drop(tables);
    meter.time("close", count, || db.close())?;
    let db = open(&meter, &path, count, "open, nothing in the tables")?;
    let all = db.tables()?;
    meter.time("fill and flush hot tables", hot, || {
        fill(&db, &all[..hot], HOT_ENTRIES)?;
        db.flush()
    })?;
    meter.time("the same a second time", hot, || {
        fill(&db, &all[..hot], HOT_ENTRIES)?;
        db.flush()
    })?;
    meter.time("the same, and a flush for each table", hot, || {
        fill(&db, &all[..hot], HOT_ENTRIES)?;
        all[..hot].iter().try_for_each(Table::flush)
    })?;
    meter.time("fill and flush all tables, an entry each", count, || {
        fill(&db, &all, 1)?;
        db.flush()
    })?;
    drop(all);
    meter.time("close", count, || db.close())?;
    let db = open(&meter, &path, count, "open, something in each table")?;
    let all = db.tables()?;
    meter.time("one get in each table", count, || {
        let snapshot = db.snapshot();
        all.iter().try_for_each(|table| {
            assert!(snapshot.get(table, 0_u32.to_be_bytes())?.is_some());
            Ok(())
        })
    })?;
    println!("{:44} {:9} descriptors", "  then", descriptors());
    env.threads.sleep(Duration::from_secs(1));
    let names: Vec<_> = all[..dropped].iter().map(|table| table.name().to_owned()).collect();
    drop(all);
    meter.time("drop_tables", dropped, || db.drop_tables(names))?;
    meter.time("close", count - dropped, || db.close())
}

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some(IDLE) {
        return tell_idle(Path::new(&words.next().expect("a path follows")));
    }
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|word| word.parse().ok()).collect();
    let number = |at: usize, default: usize| numbers.get(at).copied().unwrap_or(default);
    let count = number(0, 30_000);
    let sizes = (count, number(1, 1_000).min(count), number(2, 10_000).min(count));
    [Layout::Lsm, Layout::BTree].into_iter().try_for_each(|layout| run(layout, sizes))
}
