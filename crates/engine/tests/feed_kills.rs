//! A change feed between two processes that are killed at any moment, both of them: the one with the database, which
//! sends its commits, and the one that keeps what it gets. No change is lost, and none comes twice.
//!
//! `SPINNEY_FEED_KILLS` is how often both are killed (default 40).

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::disallowed_methods,
    reason = "the test is of real processes and threads, which it kills after a time"
)]

use spinney::{Batch, Database, Durability, Lsn, Options, Table, TableOptions};
use spinney_testkit::Rng;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

/// Says which of the two a process is, and where its database lies.
const ROLE: &str = "SPINNEY_FEED_ROLE";
const PLACE: &str = "SPINNEY_FEED_PLACE";
/// The database whose feed it is; it goes on until it is killed.
const SOURCE: &str = "source";
/// The same without new commits; it ends when all is sent.
const LAST_SOURCE: &str = "last source";
const SINK: &str = "sink";

fn open(place: &Path, log_keep_bytes: u64) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10).log_bytes_max(512 << 10);
    Database::open(place, options.log_keep_bytes(log_keep_bytes)).unwrap()
}

/// The numbers committed.
fn committed(db: &Database) -> Table {
    db.open_or_create_table("committed", TableOptions::default()).unwrap()
}

/// How often each number came to the sink.
fn seen(db: &Database) -> Table {
    db.open_or_create_table("seen", TableOptions::default().merge("add")).unwrap()
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes.try_into().unwrap())
}

/// Commits the next numbers, some of them durably.
fn commit_numbers(db: &Database) {
    let table = committed(db);
    let next = table.last().unwrap().map_or(0, |(key, _)| number(&key) + 1);
    for at in next.. {
        let durability = if at.is_multiple_of(7) { Durability::Sync } else { Durability::Buffered };
        let mut batch = Batch::new();
        batch.put(&table, at.to_be_bytes(), [7; 500]);
        batch.note(at.to_le_bytes());
        db.write_with(&batch, durability).unwrap();
    }
}

/// Sends each commit with the position after it, from the position on that the sink says it has.
fn run_source(place: &Path, is_last: bool) {
    let db = open(place, 4 << 20);
    let mut line = String::new();
    BufReader::new(io::stdin()).read_line(&mut line).unwrap();
    let mut feed = db.changes(Lsn(line.trim().parse::<u64>().unwrap())).unwrap();
    if is_last {
        db.sync().unwrap();
    } else {
        let db = db.clone();
        thread::spawn(move || commit_numbers(&db));
    }
    let mut out = io::stderr().lock();
    loop {
        let commit = if is_last { feed.poll() } else { feed.wait(Duration::from_secs(60)) };
        let Some(commit) = commit.unwrap() else { return };
        let changes = commit.changes();
        assert_eq!((changes.len(), number(changes[0].key).to_le_bytes().as_slice()), (1, commit.note()));
        out.write_all(&[number(changes[0].key).to_be_bytes(), commit.end.0.to_be_bytes()].concat()).unwrap();
    }
}

/// Keeps how often each number came, and in the same commit where the feed is.
fn run_sink(place: &Path) {
    let db = open(place, 0);
    let (seen, position) = (seen(&db), db.open_or_create_table("position", TableOptions::default()).unwrap());
    let from = position.get("feed").unwrap().map_or(0, |bytes| number(&bytes));
    // The harness of the test writes to the standard output.
    eprintln!("{from}");
    let (mut input, mut frame) = (io::stdin().lock(), [0; 16]);
    while input.read_exact(&mut frame).is_ok() {
        let mut batch = Batch::new();
        batch.merge(&seen, &frame[..8], 1_u64.to_le_bytes());
        batch.put(&position, "feed", &frame[8..]);
        db.write_with(&batch, Durability::Buffered).unwrap();
    }
    db.close().unwrap();
}

/// Starts both, each with the other's output as its input.
fn start(dir: &Path, source: &str) -> [Child; 2] {
    let (sink_input, source_output) = io::pipe().unwrap();
    let (source_input, sink_output) = io::pipe().unwrap();
    let child = |role: &str, place: &str, input: io::PipeReader, output: io::PipeWriter| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "a_process_of_the_feed", "--nocapture", "--quiet"]);
        command.env(ROLE, role).env(PLACE, dir.join(place));
        command.stdin(Stdio::from(input)).stdout(Stdio::null()).stderr(Stdio::from(output)).spawn().unwrap()
    };
    [child(source, "source", source_input, source_output), child(SINK, "sink", sink_input, sink_output)]
}

/// Not a test by itself: what the processes run that the other one starts.
#[test]
fn a_process_of_the_feed() {
    let (Ok(role), Some(place)) = (std::env::var(ROLE), std::env::var_os(PLACE)) else { return };
    // The standard error is where it sends to.
    let errors = Path::new(&place).with_extension("error");
    std::panic::set_hook(Box::new(move |panic| {
        std::fs::write(&errors, panic.to_string()).unwrap();
        std::process::exit(1);
    }));
    match &*role {
        SINK => run_sink(Path::new(&place)),
        _ => run_source(Path::new(&place), role == LAST_SOURCE),
    }
    std::process::exit(0);
}

/// Why the two ended by themselves.
fn errors(dir: &Path) -> [Option<String>; 2] {
    ["source.error", "sink.error"].map(|name| std::fs::read_to_string(dir.join(name)).ok())
}

#[test]
fn a_feed_between_killed_processes_loses_nothing_and_repeats_nothing() {
    let kills = std::env::var("SPINNEY_FEED_KILLS").map_or(40, |kills| kills.parse().unwrap());
    let (dir, mut rng) = (tempfile::tempdir().unwrap(), Rng::new(kills));
    for round in 0..kills {
        let mut children = start(dir.path(), SOURCE);
        // Short times as likely as long ones, up to half a second.
        let doublings = rng.in_range(8..20);
        thread::sleep(Duration::from_micros(u64::try_from(rng.in_range(0..1 << doublings)).unwrap()));
        if rng.chance(50) {
            children.reverse();
        }
        for child in &mut children {
            assert_eq!(child.try_wait().unwrap(), None, "round {round}: {:?}", errors(dir.path()));
        }
        for child in &mut children {
            child.kill().unwrap();
            thread::sleep(Duration::from_micros(u64::try_from(rng.in_range(0..2000)).unwrap()));
        }
        for child in &mut children {
            child.wait().unwrap();
        }
    }
    for mut child in start(dir.path(), LAST_SOURCE) {
        assert!(child.wait().unwrap().success(), "{:?}", errors(dir.path()));
    }
    let source = open(&dir.path().join("source"), 0);
    let sink = open(&dir.path().join("sink"), 0);
    let sent: Vec<u64> = committed(&source).range(..).map(|entry| number(&entry.unwrap().0)).collect();
    let kept = seen(&sink)
        .range(..)
        .map(|entry| entry.map(|(key, count)| (number(&key), count[..] == [1, 0, 0, 0, 0, 0, 0, 0])));
    let kept: Vec<_> = kept.collect::<spinney::Result<_>>().unwrap();
    assert_eq!(sent, (0..u64::try_from(sent.len()).unwrap()).collect::<Vec<_>>());
    assert_eq!(kept, sent.iter().map(|number| (*number, true)).collect::<Vec<_>>());
    assert!(kills < 10 || sent.len() > 100, "{} commits", sent.len());
}
