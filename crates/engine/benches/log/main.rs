//! Commits per second of the redo log, beside the device's floor measured in the same run.
//!
//! The floor of a `Sync` commit is a loop of 4 KiB durable writes to a file written before: nothing that acknowledges
//! one commit at a time can be faster. The floor of a `Buffered` commit is one small write to the page cache. Floor and
//! commits take turns, because devices change their mind; on a busy machine a lone thread waits for a core and not for
//! the device.
//!
//! What the log itself takes of a `Buffered` commit is measured on files that swallow what is written, so that the
//! kernel's part is left out. Replay is measured beside inserting the same changes into a memtable, which it cannot be
//! faster than.
//!
//! Run with `cargo bench --bench log -- [DIRECTORY [PART...]]`; the parts are `sync`, `row`, `buffered`, `own` and
//! `replay`.

#![expect(clippy::print_stdout, reason = "a bench prints")]

mod null;
mod replay;

use spinney::base::{Kind, Lsn, SeqNum, TableId};
use spinney::env::{Access, AlignedBuffer, Env, File, OpenOptions, SECTOR_BYTES};
use spinney::log::{LogOptions, LogWriter, recover};
use spinney::txn::batch::{Change, Changes, put_record_header};
use spinney::{Batch, Database, Durability, Options, TableOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const FILE_BYTES: usize = 32 << 20;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_millis(600);
/// Commits until the log has no new segments to make, and those that are measured.
const WARM_ROWS: u64 = 40_000;
const ROWS: u64 = 20_000;
const PAYLOAD: [u8; 150] = [7; 150];

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let directory = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
    let bench = Bench { env: Env::os(), directory: directory.path() };
    let wanted: Vec<_> = arguments.collect();
    let parts: [(&str, &dyn Fn()); 5] = [
        ("sync", &|| bench.print_synced()),
        ("row", &|| bench.print_rows()),
        ("buffered", &|| bench.print_buffered()),
        ("own", &|| Bench { env: null::env(), directory: directory.path() }.print_own()),
        ("replay", &|| replay::run(&bench.env, directory.path())),
    ];
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            part();
        }
    }
}

/// Appends a payload; the position after it.
fn append(log: &LogWriter, payload: &[u8]) -> Lsn {
    let mut prepared = log.prepare(payload).expect("there is space");
    log.append(&[], &mut prepared).expect("appended").end
}

/// A commit of one put with a key of 16 bytes and a value of 128: the head and the changes of its record.
fn one_put(number: u64) -> (Vec<u8>, Changes) {
    let (mut head, mut changes) = (Vec::new(), Changes::default());
    put_record_header(&mut head, SeqNum(number + 1), 1);
    // The finalizer of splitmix64: keys in random order, none twice.
    let mut key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    key = (key ^ (key >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let key = [(key ^ (key >> 27)).to_be_bytes(), number.to_be_bytes()].concat();
    let change = Change::new(TableId(1), Kind::Put, &key, &[7; 128]);
    changes.push(change, true).expect("a small change");
    (head, changes)
}

/// The medians of two rates that are measured in turns.
fn alternate(floor: impl Fn() -> f64, rate: impl Fn() -> f64) -> (f64, f64) {
    let (floors, rates) = (0..ROUNDS).map(|_| (floor(), rate())).unzip();
    (median(floors), median(rates))
}

struct Bench<'a> {
    env: Env,
    directory: &'a Path,
}

impl Bench<'_> {
    fn print_synced(&self) {
        let (floor, lone) = alternate(|| self.durable_writes(), || self.synced(1));
        println!("floor: durable 4 KiB writes   {floor:>12.0} /s");
        println!("sync commits, 1 thread        {lone:>12.0} /s   {:.3} of the floor", lone / floor);
        for threads in [2, 8, 64] {
            let rate = self.synced(threads);
            println!("sync commits, {threads:>2} threads      {rate:>12.0} /s   {:.2} of the floor", rate / floor);
        }
    }

    fn print_rows(&self) {
        let (floor, row) = self.rows();
        println!(
            "a row, 3 index entries: commit {row:>9.2} us of the database, {floor:.2} us of the device just before it: {:.3}",
            row / floor
        );
    }

    fn print_buffered(&self) {
        let (floor, lone) = alternate(|| self.small_writes(), || self.buffered(1));
        println!("floor: buffered 162 B writes  {floor:>12.0} /s   {:.0} ns each", 1e9 / floor);
        println!("buffered commits, 1 thread    {lone:>12.0} /s   {:.0} ns each", 1e9 / lone);
        let rate = self.buffered(2);
        println!("buffered commits, 2 threads   {rate:>12.0} /s   {:.0} ns each", 1e9 / rate);
        println!("appends alone, 1 thread       {:>12.0} /s", self.appended());
    }

    fn print_own(&self) {
        let own = self.own_ns();
        println!("buffered commit of 144 B: log {own:>12.1} ns without the kernel's part; at most 150 are wanted");
    }

    /// A file of zeros that were written.
    fn file(&self, direct: bool) -> Arc<dyn File> {
        let path = self.directory.join("floor");
        let open = |access| self.env.fs.open(&path, OpenOptions { access, direct }).expect("the file opens");
        if !path.exists() {
            let file = open(Access::CreateNew);
            file.write_at(&AlignedBuffer::zeroed(FILE_BYTES), 0)
                .and_then(|()| file.sync())
                .expect("the file is written");
        }
        open(Access::Write)
    }

    fn durable_writes(&self) -> f64 {
        let (file, sector) = (self.file(true), AlignedBuffer::zeroed(SECTOR_BYTES));
        let mut offset = 0;
        self.rate(|| {
            file.write_durable_at(&sector, offset).expect("the sector is written");
            offset = (offset + sector.len() as u64) % FILE_BYTES as u64;
        })
    }

    fn small_writes(&self) -> f64 {
        let (file, mut offset) = (self.file(false), 0);
        self.rate(|| {
            file.write_at(&[7; PAYLOAD.len() + 12], offset).expect("the bytes are written");
            offset = (offset + PAYLOAD.len() as u64 + 12) % (FILE_BYTES as u64 - 4096);
        })
    }

    /// A log in its first segment of full size, with the next one ready.
    fn log(&self) -> LogWriter {
        let directory = tempfile::tempdir_in(self.directory).expect("a directory").keep();
        let recovered = recover(&self.env, &directory, 1, Lsn(0), &mut |_, _, _| Ok(())).expect("an empty log");
        let log = LogWriter::open(&self.env, &directory, LogOptions::default(), recovered).expect("a log");
        log.prepare_spare().expect("a spare");
        let end = append(&log, &vec![7; 2 << 20]);
        log.sync(end).expect("synced");
        log.prepare_spare().expect("a spare");
        log
    }

    fn synced(&self, threads: usize) -> f64 {
        self.commits(threads, |log| {
            let end = append(log, &PAYLOAD);
            log.sync(end).expect("synced");
        })
    }

    /// The mean times in microseconds of a durable write, and of the commit after it of a row with three index entries,
    /// by one thread in a database that uses its log segments again.
    fn rows(&self) -> (f64, f64) {
        let options = Options::default().log_segment_bytes(16 << 20).log_bytes_max(64 << 20);
        let db = Database::open(self.directory.join("db"), options).expect("a database");
        let table = |name: &usize| db.create_table(&name.to_string(), TableOptions::default()).expect("a table");
        let tables = [0, 1, 2, 3].each_ref().map(table);
        let (file, sector) = (self.file(true), AlignedBuffer::zeroed(SECTOR_BYTES));
        let [mut device, mut commits] = [Duration::ZERO; 2];
        for number in 0..WARM_ROWS + ROWS {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            let start = self.env.clock.now();
            file.write_durable_at(&sector, number * 4096 % FILE_BYTES as u64).expect("the sector is written");
            let middle = self.env.clock.now();
            let mut batch = Batch::new();
            batch.put(&tables[0], number.to_be_bytes(), [7; 40]);
            tables[1..].iter().for_each(|table| batch.put(table, [key, number.to_be_bytes()].concat(), b""));
            db.write_with(&batch, Durability::Sync).expect("committed");
            if number >= WARM_ROWS {
                device += middle - start;
                commits += self.env.clock.now() - middle;
            }
        }
        let mean = |time: Duration| time.as_secs_f64() * 1e6 / ROWS as f64;
        (mean(device), mean(commits))
    }

    fn buffered(&self, threads: usize) -> f64 {
        self.commits(threads, |log| {
            let end = append(log, &PAYLOAD);
            log.write(end).expect("written");
        })
    }

    fn appended(&self) -> f64 {
        self.commits(1, |log| {
            append(log, &PAYLOAD);
        })
    }

    /// Nanoseconds that a commit of one put takes in the log: of some rounds the least, because whatever disturbs only
    /// adds to it.
    fn own_ns(&self) -> f64 {
        const COMMITS: u32 = 2_000_000;
        let (head, changes) = one_put(1 << 40);
        let log = self.log();
        let round = || {
            let start = self.env.clock.now();
            for _ in 0..COMMITS {
                let mut body = log.prepare(changes.logged()).expect("there is space");
                let place = log.append(&head, &mut body).expect("appended");
                log.write(place.end).expect("written");
                if log.wants_spare() {
                    log.prepare_spare().expect("a spare");
                    log.release(log.written()).expect("released");
                }
            }
            (self.env.clock.now() - start).as_secs_f64() * 1e9 / f64::from(COMMITS)
        };
        (0..ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
    }

    fn commits(&self, threads: usize, commit: impl Fn(&LogWriter) + Sync) -> f64 {
        let (log, stop) = (self.log(), AtomicBool::new(false));
        thread::scope(|scope| {
            let background = scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if log.wants_spare() {
                        log.prepare_spare().expect("a spare");
                        log.release(log.tail()).expect("released");
                    }
                    self.env.threads.sleep(Duration::from_millis(2));
                }
            });
            let committers: Vec<_> = (0..threads).map(|_| scope.spawn(|| self.rate(|| commit(&log)))).collect();
            let rate = committers.into_iter().map(|committer| committer.join().expect("commits go through")).sum();
            stop.store(true, Ordering::Relaxed);
            background.join().expect("the background works");
            rate
        })
    }

    /// Calls per second of `call`, over one round.
    fn rate(&self, mut call: impl FnMut()) -> f64 {
        let (start, mut calls) = (self.env.clock.now(), 0u32);
        loop {
            for _ in 0..16 {
                call();
            }
            calls += 16;
            let time = self.env.clock.now() - start;
            if time >= ROUND {
                return f64::from(calls) / time.as_secs_f64();
            }
        }
    }
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
