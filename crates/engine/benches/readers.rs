//! A process that fills a table at full rate, alone and beside a process that reads all of it again and again: what the
//! reader costs the writer in rate, processor time and space, and whether every row that it sees is right.
//!
//! Each batch has a number. It puts rows of random keys, the row of its number modulo [`RECENT`], and the number
//! itself. A reader knows the number of the last batch that it may see, and checks that each row is one that was
//! written before, that none of the last batches is missing, and that none is there that came later.
//!
//! Run with `cargo bench -p spinney --bench readers -- [DIRECTORY [SECONDS [LAYOUT [PAUSE]]]]`: the writer alone takes
//! so many seconds (60 unless told), and then writes as many rows beside the reader, which pauses so many milliseconds
//! (none unless told) after each thousand rows, so that its scans are longer. On a machine with other work compare
//! processor time per row, not rates.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use spinney::base::num::usize_of;
use spinney::env::Env;
use spinney::{Batch, Database, Durability, Layout, Options, Table, TableOptions};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Rows of random keys in a batch, and keys that there can be.
const ROWS: u64 = 100;
const KEYS: u64 = 3_000_000;
const VALUE_BYTES: usize = 120;
/// Batches of which each has left a row of its own.
const RECENT: u64 = 10_000;
const MEMORY_BYTES: u64 = 64 << 20;

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["writer", dir, seconds, rows, layout] => {
            write(Path::new(dir), limit(seconds), rows.parse().expect("a number of rows"), layout);
        }
        ["reader", dir, ended, pause] => {
            read(Path::new(dir), Path::new(ended), Duration::from_millis(pause.parse().expect("milliseconds")));
        }
        _ => {
            let directory = words.first().map_or_else(std::env::temp_dir, |dir| (*dir).into());
            let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
            let seconds = words.get(1).copied().unwrap_or("60");
            let layouts = words.get(2).map_or(vec!["lsm", "btree", "lsm-tiered"], |layout| vec![*layout]);
            let pause = words.get(3).copied().unwrap_or("0");
            layouts.into_iter().for_each(|layout| compare(directory.path(), (seconds, pause), layout));
        }
    }
}

fn limit(seconds: &str) -> Duration {
    Duration::from_secs(seconds.parse().expect("a number of seconds"))
}

/// Runs a writer alone and one beside a reader, by turns, and prints both.
fn compare(directory: &Path, (seconds, pause): (&str, &str), layout: &str) {
    let mut outcomes = Vec::new();
    // As many rows as there is time for, then as many as these.
    let (mut limits, ended) = ((seconds.to_owned(), u64::MAX.to_string()), directory.join("ended"));
    for beside in [false, true] {
        let dir = directory.join(format!("{layout}-{beside}"));
        let path = dir.to_str().expect("the path is UTF-8");
        let mut writer = start(&["writer", path, &limits.0, &limits.1, layout]);
        let mut lines = BufReader::new(writer.stdout.take().expect("it is piped")).lines();
        // It says when there is a table.
        lines.next().expect("the writer begins").expect("a line");
        let reader = beside.then(|| start(&["reader", path, ended.to_str().expect("the path is UTF-8"), pause]));
        let disk_bytes = sample(&mut writer, &dir);
        fs::write(&ended, "").expect("it can be written");
        let said = lines.next().expect("the writer ends well").expect("a line");
        if let Some(reader) = reader {
            let output = reader.wait_with_output().expect("the reader ends");
            assert!(output.status.success(), "the reader failed");
            println!("{layout}: {}", String::from_utf8_lossy(&output.stdout).trim());
        }
        let mut numbers = said.split(' ').map(|number| number.parse::<f64>().expect("a number"));
        let mut number = || numbers.next().expect("rows, microseconds and seconds");
        let (rows, cpu_us, taken) = (number(), number(), number());
        limits = ((100 * limit(seconds).as_secs()).to_string(), format!("{rows:.0}"));
        fs::remove_file(&ended).expect("it is there");
        let name = if beside { "beside a reader" } else { "alone" };
        let mib = |bytes: u64| bytes >> 20;
        let (mean, most) = disk_bytes;
        println!(
            "{layout}, {name}: {rows} rows in {taken:.1} s, {:.2} us of processor time a row, {} MiB on disk, at most {}",
            cpu_us / rows,
            mib(mean),
            mib(most)
        );
        outcomes.push((rows / taken, cpu_us / rows, mean as f64, most as f64));
        fs::remove_dir_all(&dir).expect("it is removed");
    }
    let (alone, beside) = (outcomes[0], outcomes[1]);
    println!(
        "{layout}, beside a reader to alone: rate {:.3}, processor time a row {:.3}, space {:.3} (at most {:.3})",
        beside.0 / alone.0,
        beside.1 / alone.1,
        beside.2 / alone.2,
        beside.3 / alone.3
    );
}

fn start(arguments: &[&str]) -> Child {
    let program = std::env::current_exe().expect("the program has a path");
    Command::new(program).args(arguments).stdout(Stdio::piped()).spawn().expect("a process")
}

/// The mean and the most bytes that a directory takes until the writer ends.
fn sample(writer: &mut Child, dir: &Path) -> (u64, u64) {
    let (env, mut sizes) = (Env::os(), Vec::new());
    while writer.try_wait().expect("a process").is_none() {
        sizes.push(disk_bytes(dir));
        env.threads.sleep(Duration::from_millis(200));
    }
    // What is there at the beginning says little.
    let later = &sizes[sizes.len() / 4..];
    let sum: u64 = later.iter().sum();
    (sum / later.len().max(1) as u64, later.iter().copied().max().unwrap_or(0))
}

/// The bytes that the files of trees take.
fn disk_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    let bytes = |entry: fs::DirEntry| {
        entry.metadata().map_or(0, |metadata| if metadata.is_file() { size(&metadata) } else { 0 })
    };
    entries.map(bytes).sum()
}

#[cfg(unix)]
fn size(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn size(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// Microseconds of processor time that this process has taken; 0 where the system does not say.
fn cpu_us() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may have spaces; in ticks of 10 ms.
    let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
    let ticks = |at| fields.split(' ').nth(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10_000
}

/// A mixed number.
fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// The value that a batch gives a key: its number, and bytes that follow from both.
fn value(key: u64, batch: u64) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value[..8].copy_from_slice(&batch.to_be_bytes());
    let mut state = mix(key ^ batch.rotate_left(32));
    for part in value[8..].chunks_mut(8) {
        state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        part.copy_from_slice(&state.to_be_bytes()[..part.len()]);
    }
    value
}

/// The row in which a batch leaves its number; below all random keys.
fn recent(batch: u64) -> u64 {
    batch % RECENT
}

fn write(dir: &Path, limit: Duration, rows_max: u64, layout: &str) {
    let layout = [Layout::BTree, Layout::Lsm, Layout::LsmTiered].into_iter().find(|it| it.name() == layout);
    let options = Options::default().memory_bytes(MEMORY_BYTES).log_bytes_max(128 << 20);
    let db = Database::open(dir, options).expect("a database");
    let table = db.create_table("t", TableOptions::default().layout(layout.expect("a layout"))).expect("a table");
    println!("begun");
    let clock = Env::os().clock;
    let (begun, mut batch, cpu) = (clock.now(), 0, cpu_us());
    while clock.now() - begun < limit && batch * ROWS < rows_max {
        batch += 1;
        let mut changes = Batch::new();
        for row in 0..ROWS {
            let key = RECENT + 1 + mix(batch * ROWS + row) % KEYS;
            changes.put(&table, key.to_be_bytes(), value(key, batch));
        }
        changes.put(&table, recent(batch).to_be_bytes(), value(recent(batch), batch));
        changes.put(&table, RECENT.to_be_bytes(), value(RECENT, batch));
        db.write_with(&changes, Durability::Buffered).expect("a commit");
    }
    println!("{} {} {}", batch * ROWS, cpu_us() - cpu, (clock.now() - begun).as_secs_f64());
    drop(table);
    db.close().expect("it is closed");
}

fn read(dir: &Path, ended: &Path, pause: Duration) {
    let clock = Env::os().clock;
    let (begun, mut scans, mut rows, mut opening) = (clock.now(), 0_u64, 0, Duration::ZERO);
    let options = Options::default().memory_bytes(MEMORY_BYTES);
    let mut db = Database::builder(dir).options(options).open_read_only().expect("a reader");
    let mut last = 0;
    while !ended.exists() {
        let (seen, count) = check(&db, &db.table("t").expect("it is open").expect("the table"), pause);
        assert!(seen >= last, "batch {seen} was the last, and {last} before");
        (scans, rows, last) = (scans + 1, rows + count, seen);
        let before = clock.now();
        db = db.refresh().expect("a newer state");
        opening += clock.now() - before;
    }
    let seconds = (clock.now() - begun).as_secs_f64();
    let opening = opening.as_secs_f64();
    println!("{scans} scans of all in {seconds:.1} s, {rows} rows, all right; {opening:.2} s of them in opening");
}

/// Checks every row; the number of the last batch, and how many rows there are.
fn check(db: &Database, table: &Table, pause: Duration) -> (u64, u64) {
    let threads = Env::os().threads;
    let snapshot = db.snapshot();
    let batch_of = |value: &[u8]| u64::from_be_bytes(value[..8].try_into().expect("eight bytes"));
    let last = snapshot.get(table, RECENT.to_be_bytes()).expect("a read").map_or(0, |value| batch_of(&value));
    let mut range = snapshot.range(table, ..);
    let (mut rows, mut first) = (0, 0);
    while let Some((key, bytes)) = range.advance().expect("a read") {
        let key = u64::from_be_bytes(key.try_into().expect("eight bytes"));
        let batch = batch_of(bytes);
        assert!(*bytes == value(key, batch) && batch <= last, "row {key} of batch {batch}, the last is {last}");
        if key < RECENT {
            let newest = last - (last + RECENT - key) % RECENT;
            assert!(batch == newest, "row {key} is of batch {batch}, and {newest} is missing");
            first += 1;
        }
        rows += 1;
        if !pause.is_zero() && rows % 1000 == 0 {
            threads.sleep(pause);
        }
    }
    assert!(first == usize_of(last.min(RECENT)), "{first} of the last batches are there of {last}");
    (last, rows)
}
