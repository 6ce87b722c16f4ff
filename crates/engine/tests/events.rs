//! What a listener hears, and what is counted for each level.

use spinney::env::sim::{Fault, SimEnv};
use spinney::{Batch, Database, Durability, ErrorKind, Event, EventListener, Layout, Options, TableOptions};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Counts what it hears by name, and keeps what was said of bytes.
#[derive(Clone, Debug, Default)]
struct Heard(Arc<Mutex<BTreeMap<&'static str, Vec<u64>>>>);

impl EventListener for Heard {
    fn on_event(&self, event: &Event<'_>) {
        let (name, bytes) = match *event {
            Event::Opened { log_bytes, .. } => ("opened", log_bytes),
            Event::Flushed { table: "t", bytes, memtables: 1.., .. } => ("flushed", bytes),
            Event::Merged { table: "t", written_bytes, .. } => ("merged", written_bytes),
            Event::Compacted { table: "t", level: 1.., written_bytes, .. } => ("compacted", written_bytes),
            Event::Stalled { bytes, .. } => ("stalled", bytes),
            Event::ConflictStorm { conflicts, .. } => ("storm", conflicts),
            Event::BackgroundError { .. } => ("error", 0),
            Event::Poisoned { .. } => ("poisoned", 0),
            _ => ("other", 0),
        };
        self.0.lock().expect("no test panics with it").entry(name).or_default().push(bytes);
    }
}

impl Heard {
    fn of(&self, name: &str) -> Vec<u64> {
        self.0.lock().expect("no test panics with it").get(name).cloned().unwrap_or_default()
    }
}

fn open(sim: &SimEnv, heard: &Heard) -> Database {
    let options = Options::default().memory_bytes(8 << 20);
    let builder = Database::builder("/db").env(sim.env()).options(options).event_listener(heard.clone());
    builder.open().expect("a machine in order")
}

fn fill(db: &Database, layout: Layout) {
    let table = db.open_or_create_table("t", TableOptions::default().layout(layout)).expect("a machine in order");
    for round in 0..8_u32 {
        for number in 0..2000_u32 {
            let key = number.wrapping_mul(0x9e37_79b1).to_be_bytes();
            table.put(key, [round.to_be_bytes(); 50].concat()).expect("a put");
        }
        table.flush().expect("a machine in order");
    }
    table.compact().expect("a machine in order");
}

#[test]
fn a_listener_hears_of_opens_flushes_merges_and_compactions() {
    for (layout, what) in [(Layout::Lsm, "compacted"), (Layout::BTree, "merged")] {
        let (sim, heard) = (SimEnv::new(1), Heard::default());
        let db = open(&sim, &heard);
        assert_eq!(heard.of("opened"), [0]);
        fill(&db, layout);
        let stats = db.stats();
        assert_eq!(heard.of("flushed").len() as u64, stats.flush.flushes, "{layout:?}");
        assert!(heard.of("flushed").iter().all(|bytes| *bytes > 0));
        assert!(!heard.of(what).is_empty(), "{layout:?}: {heard:?}");
        assert_eq!(heard.of("other"), [], "{layout:?}");
        let written: u64 = stats.levels.iter().map(|level| level.written_bytes).sum();
        assert_eq!(written, stats.flush.flush_bytes + stats.flush.compaction_write_bytes, "{layout:?}");
        let jobs: u64 = stats.levels.iter().map(|level| level.jobs).sum();
        assert_eq!(jobs, stats.flush.flushes + stats.flush.compactions, "{layout:?}: {:#?}", stats.levels);
        let bytes: u64 = stats.levels.iter().map(|level| level.bytes).sum();
        assert!(bytes > 20_000, "{layout:?}: {:#?}", stats.levels);
        assert!(stats.levels.iter().any(|level| level.write_amplification() > 0.05), "{layout:?}");
        db.close().expect("a machine in order");
    }
}

#[test]
fn a_listener_hears_that_a_failed_write_poisons() {
    let (sim, heard) = (SimEnv::new(1), Heard::default());
    let db = open(&sim, &heard);
    let table = db.create_table("t", TableOptions::default()).expect("a machine in order");
    sim.fail_next(Fault::Error(io::ErrorKind::Other), |path| path.starts_with("/db/log"));
    assert!(table.put("key", "value").is_err());
    assert_eq!(table.put("key", "value").expect_err("it is poisoned").kind(), ErrorKind::Poisoned);
    assert_eq!(heard.of("poisoned").len(), 1, "told once");
}

#[test]
fn a_listener_hears_that_a_merge_met_damage() {
    let (sim, heard) = (SimEnv::new(1), Heard::default());
    let db = open(&sim, &heard);
    fill(&db, Layout::BTree);
    db.close().expect("a machine in order");
    let env = sim.env();
    let trees = env.fs.list(Path::new("/db")).expect("a machine in order");
    for tree in trees.iter().filter(|entry| entry.name.ends_with(".tree")) {
        let path = Path::new("/db").join(&tree.name);
        let bytes = sim.read_file(&path).expect("a machine in order").len() as u64;
        (0..bytes).step_by(4096).for_each(|at| sim.corrupt(&path, at + 99, 1).unwrap_or(()));
    }
    let db = open(&sim, &heard);
    let table = db.table("t").expect("a read").expect("it exists");
    table.put("key", "value").expect("a put");
    table.flush().expect("what it flushes lies over the tree");
    assert!(!heard.of("error").is_empty(), "{heard:?}");
    assert_eq!(heard.of("error").len() as u64, db.stats().flush.failed_merges);
    assert_eq!(heard.of("poisoned"), []);
}

#[test]
fn a_listener_hears_of_each_stall() {
    let (sim, heard) = (SimEnv::new(1), Heard::default());
    let db = open(&sim, &heard);
    let table = db.create_table("t", TableOptions::default()).expect("a machine in order");
    // No flush is done: memory is full after a part of it.
    sim.set_lazy_workers(true);
    for number in 0..80_u32 {
        let mut batch = Batch::new();
        batch.put(&table, number.to_be_bytes(), vec![7; 100 << 10]);
        if db.write_with(&batch, Durability::Buffered).is_err() || db.stats().stalls > 3 {
            break;
        }
    }
    assert!(db.stats().stalls > 0, "{:?}", db.stats());
    assert_eq!(heard.of("stalled").len() as u64, db.stats().stalls);
    assert!(heard.of("stalled").iter().all(|bytes| *bytes > 100 << 10), "{heard:?}");
}

#[test]
fn reads_of_a_table_stay_counted_when_it_is_dropped() {
    let db = Database::builder("/db").env(SimEnv::new(1).env()).open().expect("a machine in order");
    let tables = ["a", "b"].map(|name| db.create_table(name, TableOptions::default()).expect("a new name"));
    for (number, table) in (1..).zip(&tables) {
        (0..number).for_each(|_| assert!(table.get("key").expect("readable").is_none()));
        assert_eq!(table.range(..).count(), 0);
    }
    let counted = |db: &Database| (db.stats().reads.gets, db.stats().reads.seeks);
    assert_eq!(counted(&db), (3, 2));
    drop(tables);
    db.drop_table("b").expect("it is there");
    assert_eq!(counted(&db), (3, 2));
    db.drop_table("a").expect("it is there");
    assert_eq!(counted(&db), (3, 2));
}
