//! Crashes at every change of the disk during a checkpoint, and during the first opening of one: the database that is
//! copied keeps what it promised, the copy is all of one moment or is refused, and the checkpoint can be made again.

use parking_lot::Mutex;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Table, TableOptions};
use spinney_testkit::interrupt::{self, PATIENCE};
use spinney_testkit::{Rng, parallel};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const SEEDS: u64 = 12;
const CHECKPOINTS: usize = 3;
const COMMITS: usize = 40;
const NUMBER: &[u8] = b"number";
const DB: &str = "/db";
const COPY: &str = "/backup/copy";

const LAYOUTS: [(&str, Layout); 3] = [("btree", Layout::BTree), ("lsm", Layout::Lsm), ("tiered", Layout::LsmTiered)];

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// What each table holds.
type State = [Entries; 3];

/// The states after the commits so far, and how many of these a power failure must leave.
#[derive(Clone, Default)]
struct Model {
    states: Vec<State>,
    durable: usize,
}

impl Model {
    fn now(&self) -> State {
        self.states.last().cloned().unwrap_or_default()
    }
}

/// What was reached.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    crashes: u64,
    complete: u64,
    refused: u64,
    openings: u64,
}

fn open(sim: &SimEnv, path: &str, create: bool) -> spinney::Result<(Database, Vec<Table>)> {
    let options = Options::default()
        .memory_bytes(32 << 20)
        .memtable_bytes(48 << 10)
        .log_segment_bytes(64 << 10)
        .log_bytes_max(128 << 10);
    let db = Database::builder(path).env(sim.env()).options(options).create(create).open()?;
    let table = |(name, layout): (&str, Layout)| match db.table(name)? {
        Some(table) => Ok(table),
        None if create => {
            let large_value_bytes = if layout == Layout::Lsm { 500 } else { 0 };
            let options = TableOptions::default()
                .layout(layout)
                .large_value_bytes(large_value_bytes)
                .run_bytes_max(8 << 10)
                .fanout(2);
            db.create_table(name, options)
        }
        None => panic!("the copy lacks the table {name}"),
    };
    let tables = LAYOUTS.map(table).into_iter().collect::<spinney::Result<_>>()?;
    Ok((db, tables))
}

/// The state, which `verify` finds sound.
fn state((db, tables): &(Database, Vec<Table>)) -> Result<State, String> {
    let problems = db.verify().map_err(|error| error.to_string())?.problems;
    if !problems.is_empty() {
        return Err(format!("verify: {problems:?}"));
    }
    let entries = |table: &Table| -> spinney::Result<Entries> {
        db.snapshot().range(table, ..).map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect()
    };
    let states: spinney::Result<Vec<Entries>> = tables.iter().map(entries).collect();
    Ok(states.map_err(|error| error.to_string())?.try_into().expect("three tables"))
}

/// One commit, in all tables at once.
fn commit(rng: &mut Rng, (db, tables): &(Database, Vec<Table>), model: &mut Model) -> Result<(), String> {
    let (mut state, mut batch) = (model.now(), Batch::new());
    let number = model.states.len() + 1;
    for (table, entries) in tables.iter().zip(&mut state) {
        let (gone, key, bytes) = (rng.in_range(0..60), rng.in_range(0..60), rng.in_range(0..900));
        batch.delete(table, gone.to_be_bytes());
        entries.remove(gone.to_be_bytes().as_slice());
        for (key, value) in
            [(NUMBER.to_vec(), number.to_be_bytes().to_vec()), (key.to_be_bytes().to_vec(), rng.bytes(bytes))]
        {
            batch.put(table, &key, &value);
            entries.insert(key, value);
        }
    }
    let durability = *rng.pick(&[Durability::Sync, Durability::Buffered]);
    db.write_with(&batch, durability).map_err(|error| error.to_string())?;
    model.states.push(state);
    if durability == Durability::Sync {
        model.durable = model.states.len();
    }
    Ok(())
}

/// Kills the process or cuts the power.
fn crash(rng: &mut Rng, sim: &SimEnv) {
    sim.reseed(rng.number());
    match rng.in_range(0..CrashProfile::EVERY.len() + 1) {
        0 => sim.process_crash(),
        n => sim.power_crash(CrashProfile::EVERY[n - 1]),
    }
}

/// What a crash during the checkpoint has left, where the copy must be `complete` if it had returned.
fn examine(fork: &SimEnv, rng: &mut Rng, model: &Model, complete: bool, tally: &mut Tally) -> Result<(), String> {
    crash(rng, fork);
    tally.crashes += 1;
    let source = open(fork, DB, false).map_err(|error| format!("opening the database: {error}"))?;
    let found = state(&source)?;
    if !model.states[model.durable.saturating_sub(1)..].contains(&found) {
        return Err("the database is as after no commit since the last durable one".to_owned());
    }
    match open(fork, COPY, false) {
        Ok(copy) => {
            tally.complete += 1;
            if state(&copy)? != model.now() {
                return Err("the copy is not of the moment".to_owned());
            }
            // It goes on by itself: what is written to it does not come to the database whose files it shares.
            let mut own = Model { states: vec![model.now()], durable: 0 };
            for _ in 0..8 {
                commit(rng, &copy, &mut own)?;
            }
            copy.1.iter().try_for_each(Table::compact).map_err(|error| error.to_string())?;
            if state(&copy)? != own.now() || state(&source)? != found {
                return Err("copy and database change each other".to_owned());
            }
        }
        Err(_) if complete => return Err("a checkpoint that returned is refused".to_owned()),
        Err(error) if [ErrorKind::NotFound, ErrorKind::Corruption].contains(&error.kind()) => {
            tally.refused += 1;
            let said = error.to_string();
            if !said.contains("there is no database here")
                && !said.contains("CURRENT: at offset 0: the file is missing")
            {
                return Err(format!("the copy is refused unclearly: {said}"));
            }
            // Nor is it taken for a place where a new database may be, unless there is nothing of one in it.
            let files = fork.env().fs.list(COPY.as_ref()).unwrap_or_default();
            if files.iter().any(|file| file.name.ends_with(".run") || file.name.ends_with(".tree"))
                && open(fork, COPY, true).is_ok()
            {
                return Err("half a copy is taken for an empty database".to_owned());
            }
            // What is there of it is in the way of no other.
            source.0.checkpoint(COPY).map_err(|error| format!("the checkpoint begun anew: {error}"))?;
            let copy = open(fork, COPY, false).map_err(|error| format!("opening it: {error}"))?;
            if state(&copy)? != found {
                return Err("the copy begun anew differs from the database".to_owned());
            }
        }
        Err(error) => return Err(format!("opening the copy: {error}")),
    }
    let again = "/backup/again";
    source.0.checkpoint(again).map_err(|error| format!("the checkpoint once more: {error}"))?;
    let copy = open(fork, again, false).map_err(|error| format!("opening the second copy: {error}"))?;
    if state(&copy)? == found { Ok(()) } else { Err("the second copy differs from the database".to_owned()) }
}

/// Opens a fresh copy, which crashes at each change, and opens it again.
fn open_with_crashes(sim: &SimEnv, rng: &mut Rng, model: &Model, tally: &mut Tally) -> Result<(), String> {
    for later in 0.. {
        let fork = sim.fork();
        fork.crash_at(fork.write_and_sync_count() + later);
        let opened = open(&fork, COPY, false).map(drop);
        if !fork.is_down() {
            return opened.map_err(|error| error.to_string());
        }
        tally.openings += 1;
        crash(rng, &fork);
        for (path, what) in [(COPY, "copy"), (DB, "database")] {
            let opened = open(&fork, path, false).map_err(|error| format!("opening the {what} again: {error}"))?;
            let found = state(&opened)?;
            let right = if path == COPY { found == model.now() } else { model.states.contains(&found) };
            if !right {
                return Err(format!("the {what} changed by a crash in the opening, {later} changes after it began"));
            }
        }
    }
    Ok(())
}

fn run(seed: u64) -> Result<Tally, String> {
    let mut rng = Rng::new(seed);
    let (mut model, mut total) = (Model::default(), Tally::default());
    let sim = SimEnv::new(seed);
    let source = open(&sim, DB, true).map_err(|error| error.to_string())?;
    for _ in 0..CHECKPOINTS {
        for _ in 0..rng.in_range(1..COMMITS) {
            commit(&mut rng, &source, &mut model)?;
        }
        let shared = Arc::new(Mutex::new((Tally::default(), None)));
        let (seen, at, own) = (Arc::clone(&shared), model.clone(), rng.fork());
        sim.observe(Some(Box::new(move |fork| {
            let (tally, failure) = &mut *seen.lock();
            let point = fork.write_and_sync_count();
            let mut rng = Rng::new(own.clone().number() ^ point);
            let examined = catch_unwind(AssertUnwindSafe(|| examine(&fork, &mut rng, &at, false, tally)));
            let examined =
                examined.unwrap_or_else(|panic| Err(spinney_testkit::engine::panic_message(&*panic).to_owned()));
            if let (Err(message), None) = (examined, &failure) {
                *failure = Some(format!("seed {seed}, crash before change {point}: {message}"));
            }
        })));
        source.0.checkpoint(COPY).map_err(|error| error.to_string())?;
        sim.observe(None);
        let (mut tally, failure) = std::mem::take(&mut *shared.lock());
        failure.map_or(Ok(()), Err)?;
        let said = |message| format!("seed {seed}, crash after the checkpoint: {message}");
        for _ in 0..CrashProfile::EVERY.len() {
            examine(&sim.fork(), &mut rng, &model, true, &mut tally).map_err(said)?;
        }
        open_with_crashes(&sim, &mut rng, &model, &mut tally).map_err(said)?;
        total.crashes += tally.crashes;
        total.complete += tally.complete;
        total.refused += tally.refused;
        total.openings += tally.openings;
        let dir = std::path::Path::new(COPY);
        for file in sim.env().fs.list(dir).map_err(|error| error.to_string())? {
            sim.remove_file(dir.join(file.name)).map_err(|error| error.to_string())?;
        }
    }
    Ok(total)
}

#[test]
fn every_crash_leaves_the_database_and_all_of_the_copy_or_none() {
    let total = Mutex::new(Tally::default());
    let all = parallel::each(0..parallel::count_from_env("SPINNEY_CHECKPOINT_SEEDS", SEEDS), |seed| {
        let tally = run(seed)?;
        let mut total = total.lock();
        total.crashes += tally.crashes;
        total.complete += tally.complete;
        total.refused += tally.refused;
        total.openings += tally.openings;
        Ok(())
    });
    all.unwrap_or_else(|message| panic!("{message}"));
    let total = total.into_inner();
    eprintln!("{total:?}");
    assert!(total.crashes > 500 && total.refused > 200 && total.complete > 100 && total.openings > 100, "{total:?}");
}

/// Of a B-tree's file, what only older roots reach stays behind.
#[test]
fn a_copy_has_no_more_of_a_b_tree_than_its_root_reaches() {
    const UNIT: usize = 4096;
    let sim = SimEnv::new(1);
    let database = Database::builder(DB).env(sim.env()).open().expect("an empty machine");
    let table = database.create_table("t", TableOptions::default().layout(Layout::BTree));
    let table = table.expect("a new name");
    let put = |value: u8| {
        let mut batch = Batch::new();
        (0..2000_u32).for_each(|key| batch.put(&table, key.to_be_bytes(), [value; 100]));
        database.write_with(&batch, Durability::Buffered).and_then(|()| table.compact()).expect("there is room");
    };
    let used_units = |dir: &str| {
        let files = sim.env().fs.list(dir.as_ref()).expect("a directory");
        let tree = files.into_iter().find(|file| file.name.ends_with(".tree")).expect("a B-tree");
        let bytes = sim.read_file(format!("{dir}/{}", tree.name)).expect("a file");
        bytes.chunks(UNIT).filter(|unit| unit.iter().any(|byte| *byte != 0)).count()
    };
    put(1);
    let first = used_units(DB);
    let before = database.snapshot();
    let held = before.range(&table, ..);
    put(2);
    database.checkpoint(COPY).expect("there is room");
    let (original, copied) = (used_units(DB), used_units(COPY));
    // All of the first root but the head of the file.
    assert!(first > 10 && copied + first < original + 5, "{copied} of {original} units are copied, of {first} before");
    // What the first root reaches was not given to others.
    let old = held.filter(|entry| entry.as_ref().is_ok_and(|(_, value)| value[0] == 1));
    assert_eq!(old.count(), 2000);
    let copy = Database::builder(COPY).env(sim.env()).open().expect("it is a database");
    assert_eq!(copy.verify().expect("it can be read").problems, vec![]);
    let table = copy.table("t").expect("open").expect("it was copied");
    let entries =
        copy.snapshot().range(&table, ..).filter(|entry| entry.as_ref().is_ok_and(|(_, value)| value[0] == 2));
    assert_eq!(entries.count(), 2000);
}

/// Commits to all tables, large enough for new memtables, at each call that a checkpoint makes. Tables with little in
/// memory are flushed together, those with much one after the other.
#[test]
fn a_commit_at_any_call_of_a_checkpoint_is_in_all_tables_of_the_copy_or_in_none() {
    for first_bytes in [1000, 1_200_000] {
        let (mut place, mut inside) = (0, 0);
        loop {
            let sim = SimEnv::new(1);
            let opened = open(&sim, DB, true).expect("an empty machine");
            let write = |number: u8, bytes: usize| {
                let mut batch = Batch::new();
                opened.1.iter().for_each(|table| batch.put(table, [number], vec![number; bytes]));
                opened.0.write_with(&batch, Durability::Sync).expect("there is room");
            };
            // It stays in memory until the checkpoint.
            sim.set_lazy_workers(true);
            write(1, first_bytes);
            // Each lets the one before go to a memtable of its own.
            let write_more = || (2..5).for_each(|number| write(number, 60_000));
            let copied = interrupt::at_call(&sim, (place, PATIENCE), || opened.0.checkpoint(COPY), write_more);
            copied.worked.expect("there is room");
            if copied.acted.is_none() {
                break;
            }
            inside += u64::from(copied.inside);
            let copy = open(&sim, COPY, false).expect("a copy that was made to its end");
            let entries = state(&copy).expect("it can be read");
            let counts = entries.each_ref().map(BTreeMap::len);
            assert!(counts == [counts[0]; 3], "{counts:?} rows of {first_bytes} bytes at first, at call {place}");
            place += 1;
        }
        assert!(place > 20 && inside > 5, "{inside} of {place} commits ended inside");
    }
}
