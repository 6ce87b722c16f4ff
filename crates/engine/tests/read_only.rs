//! Databases that are opened to be read only, beside the process that writes them: in the simulated environment, where
//! reads, writes and crashes of both can be had in any order.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use spinney::env::sim::{Call, Fault, SimEnv};
use spinney::env::{DatabaseFiles, Env};
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Result, Table, TableOptions};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options::default().memory_bytes(4 << 20).log_segment_bytes(64 << 10).log_bytes_max(1 << 20)
}

fn open(env: Env) -> Database {
    Database::builder("/db").env(env).options(options()).open().unwrap()
}

fn read(env: Env) -> Database {
    Database::builder("/db").env(env).options(options()).open_read_only().unwrap()
}

fn table(db: &Database, name: &str) -> Table {
    db.table(name).unwrap().unwrap()
}

/// All that a table shows.
fn all(db: &Database, name: &str) -> Model {
    let table = table(db, name);
    db.snapshot().range(&table, ..).map(|entry| entry.map(|(key, value)| (key, value.to_vec())).unwrap()).collect()
}

/// Puts `count` keys with values of this round, spread over all keys.
fn fill(db: &Database, name: &str, model: &mut Model, round: u8, count: u32) {
    let table = table(db, name);
    for chunk in (0..count).collect::<Vec<_>>().chunks(50) {
        let mut batch = Batch::new();
        for number in chunk {
            let key = number.wrapping_mul(2_654_435_761).to_be_bytes().to_vec();
            let value = vec![round; 100 + usize::from(round)];
            batch.put(&table, &key, &value);
            model.insert(key, value);
        }
        db.write_with(&batch, Durability::Sync).unwrap();
    }
}

fn files(sim: &SimEnv, extension: &str) -> Vec<String> {
    let entries = sim.env().fs.list("/db".as_ref()).unwrap();
    entries.into_iter().map(|entry| entry.name).filter(|name| name.ends_with(extension)).collect()
}

/// A writer in a process of its own.
struct Process {
    db: Option<Database>,
    files: Arc<DatabaseFiles>,
}

impl Process {
    fn start(sim: &SimEnv) -> Self {
        let (env, files) = DatabaseFiles::of(sim.env()).unwrap();
        Self { db: Some(open(env)), files }
    }

    fn db(&self) -> &Database {
        self.db.as_ref().unwrap()
    }

    /// It dies: nothing is written any more, and the system takes its locks back.
    fn kill(mut self) {
        self.files.revoke();
        drop(self.db.take());
    }
}

#[test]
fn a_reader_sees_one_moment_while_the_writer_goes_on() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(7);
        let db = open(sim.env());
        db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        let mut model = Model::new();
        let mut readers = Vec::new();
        for round in 0..12 {
            fill(&db, "t", &mut model, round, 400);
            match round % 4 {
                1 => table(&db, "t").flush().unwrap(),
                3 => table(&db, "t").compact().unwrap(),
                _ => {}
            }
            readers.push((read(sim.env()), model.clone()));
            for (reader, seen) in &readers {
                assert_eq!(all(reader, "t"), *seen, "{layout:?}, round {round}");
            }
            if round % 5 == 4 {
                readers.remove(0);
            }
        }
        let (reader, _) = readers.pop().unwrap();
        let report = reader.verify().unwrap();
        assert!(report.problems.is_empty() && report.log_commits > 0 || report.entries > 0, "{report:?}");
        fill(&db, "t", &mut model, 99, 10);
        let fresh = reader.refresh().unwrap();
        assert_eq!(all(&fresh, "t"), model);
        assert!(fresh.is_read_only() && !db.is_read_only());
        db.close().unwrap();
        // Nothing of it needs the writer.
        assert_eq!(all(&fresh, "t"), model);
        for (reader, seen) in &readers {
            assert_eq!(all(reader, "t"), *seen, "{layout:?}");
        }
    }
}

#[test]
fn what_a_reader_needs_is_kept_until_it_is_gone() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(3);
        let db = open(sim.env());
        db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        db.create_table("gone", TableOptions::default().layout(layout)).unwrap();
        let (mut model, mut gone) = (Model::new(), Model::new());
        fill(&db, "t", &mut model, 1, 2000);
        fill(&db, "gone", &mut gone, 1, 500);
        for name in ["t", "gone"] {
            table(&db, name).compact().unwrap();
        }
        let reader = read(sim.env());
        let at_lease = files(&sim, "run").len() + files(&sim, "tree").len();
        let mut newer = model.clone();
        db.drop_table("gone").unwrap();
        for round in 2..8 {
            fill(&db, "t", &mut newer, round, 2000);
            table(&db, "t").compact().unwrap();
            sim.advance(std::time::Duration::from_secs(2));
        }
        assert_eq!(all(&reader, "t"), model, "{layout:?}");
        assert_eq!(all(&reader, "gone"), gone, "{layout:?}");
        let kept = files(&sim, "run").len() + files(&sim, "tree").len();
        drop(reader);
        sim.advance(std::time::Duration::from_secs(3));
        let left = files(&sim, "run").len() + files(&sim, "tree").len();
        assert!(left < kept, "{layout:?}: {kept} files were kept, {left} are left");
        // What came and went before there was another manifest, and nothing that came and went later.
        assert!(kept <= at_lease + left + 3, "{layout:?}: {at_lease} files were there, {kept} were kept");
        assert_eq!(files(&sim, "manifest").len(), 1);
        assert_eq!(all(&db, "t"), newer);
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

#[test]
fn a_reader_that_comes_to_a_writer_with_readers_keeps_nothing_from_before_it_came() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(4);
        let db = open(sim.env());
        db.create_table("t", TableOptions::default().layout(layout)).unwrap();
        let mut model = Model::new();
        let mut rewrite = |round| {
            fill(&db, "t", &mut model, round, 2000);
            table(&db, "t").compact().unwrap();
            sim.advance(std::time::Duration::from_secs(2));
            (files(&sim, "run").len(), model.clone())
        };
        let (alone, _) = rewrite(1);
        let first = read(sim.env());
        (2..5).for_each(|round| drop(rewrite(round)));
        let (_, seen) = rewrite(5);
        let second = read(sim.env());
        rewrite(6);
        drop(first);
        let (kept, _) = rewrite(7);
        assert!(kept <= 2 * alone + 2, "{layout:?}: {kept} files are kept for a reader of {alone}");
        assert_eq!(all(&second, "t"), seen, "{layout:?}");
        assert!(files(&sim, "manifest").len() <= 3, "of the reader, in force, and one that was just replaced");
    }
}

#[test]
fn a_reader_outlives_writers_that_die_and_come_back() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(5);
        let process = Process::start(&sim);
        process.db().create_table("t", TableOptions::default().layout(layout)).unwrap();
        let mut model = Model::new();
        fill(process.db(), "t", &mut model, 1, 2000);
        table(process.db(), "t").compact().unwrap();
        // With free space in a B-tree, and a log.
        fill(process.db(), "t", &mut model, 2, 1000);
        table(process.db(), "t").compact().unwrap();
        fill(process.db(), "t", &mut model, 3, 100);
        let (reader, seen) = (read(sim.env()), model.clone());
        fill(process.db(), "t", &mut model, 4, 300);
        process.kill();
        for round in 5..9 {
            let process = Process::start(&sim);
            assert_eq!(all(process.db(), "t"), model, "{layout:?}, round {round}");
            fill(process.db(), "t", &mut model, round, 1500);
            table(process.db(), "t").compact().unwrap();
            assert_eq!(all(&reader, "t"), seen, "{layout:?}, round {round}");
            match round {
                7 => process.db.as_ref().unwrap().clone().close().unwrap(),
                _ => process.kill(),
            }
            assert_eq!(all(&reader, "t"), seen, "{layout:?}, round {round}");
        }
        assert_eq!(all(&reader.refresh().unwrap(), "t"), model);
        drop(reader);
        let db = open(sim.env());
        table(&db, "t").compact().unwrap();
        sim.advance(std::time::Duration::from_secs(3));
        assert_eq!(files(&sim, "manifest").len(), 1);
        assert!(files(&sim, "run").len() + files(&sim, "tree").len() <= 2, "{layout:?}");
        let report = db.verify().unwrap();
        assert!(report.problems.is_empty(), "{report:?}");
    }
}

#[test]
fn a_reader_writes_nothing_and_refuses_to() {
    let sim = SimEnv::new(9);
    let db = open(sim.env());
    db.create_table("t", TableOptions::default()).unwrap();
    let mut model = Model::new();
    fill(&db, "t", &mut model, 1, 3000);
    db.close().unwrap();
    let before = sim.write_and_sync_count();
    // Less memory than the log needs.
    let options = options().memory_bytes(1 << 20);
    let reader = Database::builder("/db").env(sim.env()).options(options).open_read_only().unwrap();
    assert_eq!(all(&reader, "t"), model);
    let t = table(&reader, "t");
    let mut batch = Batch::new();
    batch.put(&t, b"k", b"v");
    let refused: [Result<()>; 12] = [
        t.put("k", "v"),
        reader.write(&batch),
        reader.begin().put(&t, b"k", b"v"),
        t.flush(),
        t.compact(),
        t.delete_range(..),
        t.bulk_load().map(drop),
        reader.create_table("u", TableOptions::default()).map(drop),
        reader.drop_table("t"),
        reader.sync(),
        reader.checkpoint("/copy").map(drop),
        reader.transact(|txn| txn.put(&t, b"k", b"v")),
    ];
    for refused in refused {
        let error = refused.unwrap_err();
        assert!(error.kind() == ErrorKind::Unsupported && error.to_string().contains("read only"), "{error}");
    }
    assert_eq!(all(&reader, "t"), model);
    let (shape, stats) = (t.shape().unwrap(), reader.stats());
    assert!(shape.trees > 0 && stats.log.bytes_replayed > 0);
    reader.close().unwrap();
    drop(t);
    assert_eq!(sim.write_and_sync_count(), before);
    assert_eq!(read_error(&sim, "/nothing"), ErrorKind::NotFound);
    assert_eq!(sim.write_and_sync_count(), before);
}

fn read_error(sim: &SimEnv, path: &str) -> ErrorKind {
    Database::builder(path).env(sim.env()).open_read_only().unwrap_err().kind()
}

/// What a database holds, by table.
type Tables = BTreeMap<String, Model>;

/// A writer that does one thing after the other, and remembers what there was after each.
struct Writer {
    db: Database,
    history: Vec<Tables>,
}

impl Writer {
    fn start(sim: &SimEnv, layout: Layout) -> Self {
        let db = open(sim.env());
        for name in ["a", "b"] {
            db.create_table(name, TableOptions::default().layout(layout)).unwrap();
        }
        let tables = ["a", "b"].map(|name| (name.to_owned(), Model::new()));
        Self { db, history: vec![BTreeMap::from(tables)] }
    }

    fn step(&mut self) {
        let number = self.history.len();
        let mut tables = self.history[number - 1].clone();
        let (key, value) = ((number % 40).to_string().into_bytes(), vec![u8::try_from(number % 251).unwrap(); 900]);
        match number % 11 {
            3 => table(&self.db, "a").flush().unwrap(),
            5 => table(&self.db, "b").compact().unwrap(),
            7 => {
                let mut load = table(&self.db, "a");
                let key = format!("loaded {number:05}").into_bytes();
                let load = std::mem::replace(&mut load, table(&self.db, "b"));
                let mut load = load.bulk_load().unwrap();
                load.push(&key, &value).unwrap();
                load.finish().unwrap();
                tables.get_mut("a").unwrap().insert(key, value);
            }
            8 => {
                let name = format!("t{number}");
                self.db.create_table(&name, TableOptions::default()).unwrap().put(&key, &value).unwrap();
                // Two changes: the table, and what is in it.
                tables.insert(name.clone(), Model::new());
                self.history.push(tables.clone());
                tables.insert(name, Model::from([(key, value)]));
            }
            10 => {
                if let Some(name) = tables.keys().find(|name| name.starts_with('t')).cloned() {
                    self.db.drop_table(&name).unwrap();
                    tables.remove(&name);
                }
            }
            _ => {
                let mut batch = Batch::new();
                for name in ["a", "b"] {
                    batch.put(&table(&self.db, name), &key, &value);
                    tables.get_mut(name).unwrap().insert(key.clone(), value.clone());
                }
                self.db.write(&batch).unwrap();
            }
        }
        self.history.push(tables);
    }
}

fn tables(db: &Database) -> Tables {
    db.tables().unwrap().iter().map(|table| (table.name().to_owned(), all(db, table.name()))).collect()
}

#[test]
fn whatever_a_writer_does_between_two_calls_of_a_reader_it_sees_one_moment() {
    for (layout, seed) in LAYOUTS.into_iter().flat_map(|layout| [1, 5, 13].map(|seed| (layout, seed))) {
        let sim = SimEnv::new(seed);
        let writer = Arc::new(Mutex::new(Writer::start(&sim, layout)));
        (0..30 + seed).for_each(|_| writer.lock().unwrap().step());
        let mut older: Option<(Database, Tables)> = None;
        for round in 0..8_u64 {
            let begun = writer.lock().unwrap().history.len() - 1;
            // Not for ever: a reader needs some time without new tables and loads.
            let (theirs, mut calls, mut steps) = (Arc::clone(&writer), 0, (seed * 7 + round * 3) % 40);
            let between = move |_: Call, _: &std::path::Path| {
                calls += 1;
                if steps > 0 && calls % (1 + (seed + round) % 7) == 0 {
                    steps -= 1;
                    theirs.lock().unwrap().step();
                }
            };
            sim.interrupt(Some(Box::new(between)));
            let reader = match &older {
                Some((older, _)) if round % 2 == 0 => older.refresh(),
                _ => Database::builder("/db").env(sim.env()).options(options()).open_read_only(),
            };
            let reader = reader.unwrap_or_else(|error| panic!("{layout:?}, seed {seed}, round {round}: {error}"));
            let seen = tables(&reader);
            let again = tables(&reader);
            sim.interrupt(None);
            assert!(seen == again, "{layout:?}, seed {seed}, round {round}");
            let writer = writer.lock().unwrap();
            let at = writer.history[begun..].iter().rposition(|tables| *tables == seen);
            assert!(at.is_some(), "{layout:?}, seed {seed}, round {round}: no moment was so");
            if let Some((older, seen)) = older.replace((reader, seen)) {
                assert!(tables(&older) == seen, "{layout:?}, seed {seed}, round {round}");
            }
        }
    }
}

#[test]
fn a_fault_of_a_reader_is_told_and_hurts_nobody() {
    let sim = SimEnv::new(4);
    let db = open(sim.env());
    db.create_table("t", TableOptions::default()).unwrap();
    let mut model = Model::new();
    fill(&db, "t", &mut model, 1, 300);
    table(&db, "t").flush().unwrap();
    fill(&db, "t", &mut model, 2, 100);
    let kinds = [Fault::Error(std::io::ErrorKind::Other), Fault::TooManyFiles, Fault::FlippedRead];
    for fault in kinds {
        for at in 0.. {
            sim.fail_at(sim.op_count() + at, fault);
            let opened = Database::builder("/db").env(sim.env()).options(options()).open_read_only();
            let seen = opened.and_then(|reader| {
                let table = reader.table("t")?.unwrap();
                let entries = reader.snapshot().range(&table, ..);
                entries.map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect::<Result<Model>>()
            });
            let was_struck = sim.struck().is_some();
            sim.clear_faults();
            match seen {
                Ok(seen) => assert!(seen == model, "{fault:?} at {at}"),
                Err(error) => assert!(was_struck, "{fault:?} at {at}: {error}"),
            }
            if !was_struck {
                break;
            }
        }
    }
    assert_eq!(all(&db, "t"), model);
    db.close().unwrap();
}
