//! Crashes at every change of the disk under a workload over a logged and an unlogged table: the logged one keeps what
//! was promised, the unlogged one is as after some commit since its last flush, and neither shows a commit of which the
//! logged half is lost.
//!
//! Each commit writes its number under one key of every table that it changes, so the state of a table tells which
//! commit it is after.

use parking_lot::Mutex;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, Layout, Options, Table, TableOptions};
use spinney_testkit::{Rng, parallel};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

const SEEDS: u64 = 6;
const STEPS: usize = 70;
const STEPS_AFTER: usize = 12;
const NUMBER: &[u8] = b"number";
const LOGGED: usize = 0;
const UNLOGGED: usize = 1;

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a table held after each commit that changed it, and what of that was promised.
#[derive(Clone, Default)]
struct Past {
    states: BTreeMap<u64, Entries>,
    /// The last of its commits that a power loss must leave.
    durable: u64,
    /// The last of its commits that the end of the process must leave.
    written: u64,
}

impl Past {
    fn last(&self) -> u64 {
        self.states.last_key_value().map_or(0, |(number, _)| *number)
    }

    fn now(&self) -> Entries {
        self.states.last_key_value().map(|(_, entries)| entries.clone()).unwrap_or_default()
    }

    fn settle(&mut self) {
        (self.durable, self.written) = (self.last(), self.last());
    }

    /// Takes the table back to the commit whose state was found.
    fn rewind(&mut self, number: u64) {
        self.states.retain(|of, _| *of <= number);
        self.settle();
    }
}

/// The model of both tables, with the commit that is under way.
#[derive(Clone, Default)]
struct Model {
    tables: [Past; 2],
    commits: u64,
    failure: Option<String>,
    crashes: u64,
    /// Crashes that took the unlogged table back while the logged one stayed.
    halves: u64,
}

struct Opened {
    tables: Vec<Table>,
    db: Option<Database>,
}

impl Opened {
    fn new(sim: &SimEnv, seed: u64) -> spinney::Result<Self> {
        let options = Options::default()
            .memory_bytes(8 << 20)
            .memtable_bytes(8 << 10)
            .log_segment_bytes(64 << 10)
            .log_bytes_max(128 << 10);
        let db = Database::builder("/db").env(sim.env()).options(options).open()?;
        let layouts = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];
        let layout = |table: u64| layouts[usize::try_from((seed + table) % 3).expect("small")];
        let mut tables = Vec::new();
        for (name, logged, number) in [("logged", true, 0), ("unlogged", false, 1)] {
            // Small enough for merges in several slices.
            let run_bytes = if seed.is_multiple_of(2) { 4 << 10 } else { 16 << 10 };
            let options =
                TableOptions::default().layout(layout(number)).logged(logged).run_bytes_max(run_bytes).fanout(2);
            tables.push(match db.table(name)? {
                Some(table) => table,
                None => db.create_table(name, options)?,
            });
        }
        Ok(Self { tables, db: Some(db) })
    }

    fn db(&self) -> &Database {
        self.db.as_ref().expect("it is open")
    }

    fn entries(&self, table: usize) -> spinney::Result<Entries> {
        let range = self.db().snapshot().range(&self.tables[table], ..);
        range.map(|entry| entry.map(|(key, value)| (key, value.to_vec()))).collect()
    }
}

/// One step of the workload, in the database and in the model.
fn step(rng: &mut Rng, sim: &SimEnv, seed: u64, opened: &mut Opened, model: &Mutex<Model>) -> Result<(), String> {
    let said = |error: spinney::Error| error.to_string();
    match rng.weighted(&[30, 4, 4, 1, 2, 2]) {
        0 => commit(rng, opened, model)?,
        1 => {
            opened.tables[UNLOGGED].flush().map_err(said)?;
            let mut model = model.lock();
            // Everything in the log was made durable first.
            model.tables.iter_mut().for_each(Past::settle);
        }
        2 => opened.tables[LOGGED].flush().map_err(said)?,
        3 => opened.tables[UNLOGGED].compact().map_err(said)?,
        4 => {
            opened.db().sync().map_err(said)?;
            model.lock().tables[LOGGED].settle();
        }
        _ => {
            opened.tables.clear();
            let db = opened.db.take().expect("it is open");
            if rng.chance(50) {
                db.close().map_err(said)?;
            } else {
                drop(db);
            }
            model.lock().tables.iter_mut().for_each(Past::settle);
            *opened = Opened::new(sim, seed).map_err(said)?;
        }
    }
    let model = model.lock();
    for table in [LOGGED, UNLOGGED] {
        if opened.entries(table).map_err(said)? != model.tables[table].now() {
            return Err(format!("table {table} is not as after commit {}", model.tables[table].last()));
        }
    }
    Ok(())
}

fn commit(rng: &mut Rng, opened: &Opened, model: &Mutex<Model>) -> Result<(), String> {
    let touched = *rng.pick::<&[usize]>(&[&[LOGGED], &[UNLOGGED], &[LOGGED, UNLOGGED], &[UNLOGGED, LOGGED]]);
    let durability = *rng.pick(&[Durability::Sync, Durability::Buffered, Durability::Interval]);
    let mut batch = Batch::new();
    {
        let mut model = model.lock();
        model.commits += 1;
        let number = model.commits;
        for &table in touched {
            let mut entries = model.tables[table].now();
            let mut put = |key: &[u8], value: &[u8]| {
                batch.put(&opened.tables[table], key, value);
                entries.insert(key.to_vec(), value.to_vec());
            };
            put(NUMBER, &number.to_be_bytes());
            for _ in 0..rng.in_range(1..4) {
                let (key, bytes) = (rng.in_range(0..40).to_be_bytes(), rng.in_range(0..2000));
                put(&key, &rng.bytes(bytes));
            }
            let gone = rng.in_range(0..40).to_be_bytes();
            batch.delete(&opened.tables[table], gone);
            entries.remove(gone.as_slice());
            model.tables[table].states.insert(number, entries);
        }
    }
    opened.db().write_with(&batch, durability).map_err(|error| error.to_string())?;
    if touched.contains(&LOGGED) {
        let past = &mut model.lock().tables[LOGGED];
        match durability {
            Durability::Sync => past.settle(),
            Durability::Buffered => past.written = past.last(),
            _ => {}
        }
    }
    Ok(())
}

/// Crashes the machine, opens the database and takes the model back to what is left.
fn crash(rng: &mut Rng, sim: &SimEnv, seed: u64, model: &mut Model) -> Result<Opened, String> {
    sim.reseed(rng.number());
    let process_only = rng.chance(15);
    if process_only {
        sim.process_crash();
    } else {
        sim.power_crash(*rng.pick(&CrashProfile::EVERY));
        if rng.chance(25) {
            let later = u64::try_from(rng.in_range(0..40)).expect("small");
            sim.crash_at(sim.write_and_sync_count() + later);
            let opened = Opened::new(sim, seed);
            if let (false, Err(error)) = (sim.is_down(), &opened) {
                return Err(format!("opening: {error}"));
            }
            drop(opened);
            sim.power_crash(*rng.pick(&CrashProfile::EVERY));
        }
    }
    let opened = Opened::new(sim, seed).map_err(|error| format!("opening: {error}"))?;
    let mut found = [0; 2];
    for table in [LOGGED, UNLOGGED] {
        let (past, entries) = (&model.tables[table], opened.entries(table).map_err(|error| error.to_string())?);
        let number = entries.get(NUMBER).map_or(0, |bytes| u64::from_be_bytes(bytes[..].try_into().expect("8 bytes")));
        if past.states.get(&number).cloned().unwrap_or_default() != entries {
            return Err(format!("table {table} holds commit {number} in part, or others"));
        }
        let oldest = if process_only { past.written } else { past.durable };
        if number < oldest {
            return Err(format!("table {table} is as after commit {number}, and {oldest} was promised"));
        }
        found[table] = number;
    }
    // What survives in the unlogged table survives with every logged commit before it.
    let needed = model.tables[LOGGED].states.range(..=found[UNLOGGED]).next_back().map_or(0, |(number, _)| *number);
    if found[LOGGED] < needed {
        return Err(format!("commit {} survives, and logged commit {needed} does not", found[UNLOGGED]));
    }
    model.halves += u64::from(found[UNLOGGED] < model.tables[UNLOGGED].last() && found[LOGGED] > found[UNLOGGED]);
    (0..2).for_each(|table| model.tables[table].rewind(found[table]));
    let problems = opened.db().verify().map_err(|error| error.to_string())?.problems;
    if problems.is_empty() { Ok(opened) } else { Err(format!("verify: {problems:?}")) }
}

/// Crash, some more steps, crash again.
fn examine(fork: &SimEnv, rng: &mut Rng, seed: u64, mut model: Model) -> Result<u64, String> {
    let mut opened = crash(rng, fork, seed, &mut model)?;
    let shared = Mutex::new(model);
    for _ in 0..STEPS_AFTER {
        step(rng, fork, seed, &mut opened, &shared)?;
    }
    let mut model = shared.into_inner();
    drop(crash(rng, fork, seed, &mut model)?);
    drop(opened);
    Ok(model.halves)
}

fn run(seed: u64) -> Result<(u64, u64), String> {
    let sim = SimEnv::new(seed);
    let shared = Arc::new(Mutex::new(Model::default()));
    let seen = Arc::clone(&shared);
    let mut opened = Opened::new(&sim, seed).map_err(|error| error.to_string())?;
    sim.observe(Some(Box::new(move |fork| {
        let point = fork.write_and_sync_count();
        let mut model = seen.lock();
        if model.failure.is_some() {
            return;
        }
        model.crashes += 1;
        let mut rng = Rng::new(seed ^ point.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let examined = catch_unwind(AssertUnwindSafe(|| examine(&fork, &mut rng, seed, model.clone())));
        match examined.unwrap_or_else(|panic| Err(spinney_testkit::engine::panic_message(&*panic).to_owned())) {
            Ok(halves) => model.halves = halves,
            Err(message) => model.failure = Some(format!("seed {seed}, crash before change {point}: {message}")),
        }
    })));
    let mut rng = Rng::new(seed);
    for _ in 0..STEPS {
        step(&mut rng, &sim, seed, &mut opened, &shared).map_err(|message| format!("seed {seed}: {message}"))?;
    }
    drop(opened);
    let mut model = shared.lock();
    model.failure.take().map_or(Ok((model.crashes, model.halves)), Err)
}

#[test]
fn every_crash_leaves_both_tables_as_promised() {
    let total = Mutex::new((0, 0));
    let all = parallel::each(0..parallel::count_from_env("SPINNEY_UNLOGGED_SEEDS", SEEDS), |seed| {
        let (crashes, halves) = run(seed)?;
        let mut total = total.lock();
        *total = (total.0 + crashes, total.1 + halves);
        Ok(())
    });
    all.unwrap_or_else(|message| panic!("{message}"));
    let (crashes, halves) = total.into_inner();
    eprintln!("{crashes} crashes, {halves} of them left the logged half of a commit only");
    assert!(crashes > 1000 && halves > 100, "{crashes} crashes, {halves} halves");
}
