//! Crashes at changes of the disk while documents, indexes and collections change: what is left is a state after a
//! statement, everything acknowledged is in it, and each index agrees with its collection.

mod capped;
pub(crate) mod model;
pub(crate) mod statement;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Durability, Options};
use spinney_document::{Database, Result, doc};
use spinney_testkit::{Rng, parallel};

use model::{NAMES, State, read};
use statement::Statement;

/// Statements of a run.
const STATEMENTS: usize = 60;

/// How long a writer beside a build of an index gets before it has met a latch.
const PATIENCE: Duration = Duration::from_millis(4);

/// The `_id` of the documents that are inserted beside builds of indexes.
const BESIDE_ID: i64 = 1000;

/// What may be found after a crash.
#[derive(Debug, Default)]
struct Progress {
    /// The states of the statement that runs, or the one behind it.
    possible: Vec<State>,
    statement: String,
    crashes: u64,
    failure: Option<String>,
}

fn open(machine: &SimEnv, seed: u64) -> Result<Database> {
    let mut options = Options::default().memory_bytes(16 << 20).durability(Durability::Sync);
    if seed % 3 == 1 {
        // Commits have notes then.
        options = options.log_keep_bytes(256 << 10);
    }
    if seed.is_multiple_of(2) {
        options = options.memtable_bytes(4096).log_segment_bytes(64 << 10).log_bytes_max(128 << 10);
    }
    Database::with_engine(spinney::Database::builder("/db").options(options).env(machine.env()).open()?)
}

/// Crashes a fork of the machine and looks at what is left.
fn examine(fork: &SimEnv, seed: u64, point: u64, progress: &Progress) {
    let mut rng = Rng::new(seed ^ point.wrapping_mul(0x2545_f491_4f6c_dd1d));
    fork.reseed(rng.number());
    if rng.chance(20) {
        fork.process_crash();
    } else {
        fork.power_crash(*rng.pick(&CrashProfile::EVERY));
    }
    let db = open(fork, seed).unwrap();
    let found = read(&db).unwrap();
    assert!(progress.possible.contains(&found), "found {found:#?}\nof {progress:#?}");
    // Life goes on, through another crash.
    let mut state = found;
    for _ in 0..4 {
        let statement = Statement::draw(&mut rng);
        let after = statement.apply(&state);
        let done = statement.run(&db);
        state = after;
        assert_eq!(read(&db).unwrap(), state, "{statement:?}: {done:?}");
    }
    fork.power_crash(CrashProfile::Strict);
    drop(db);
    assert_eq!(read(&open(fork, seed).unwrap()).unwrap(), state);
}

/// A writer that comes in the middle of the build of an index.
struct Beside {
    /// Before which call.
    place: usize,
    calls: usize,
    name: &'static str,
    ends: Option<Receiver<()>>,
}

impl Beside {
    /// The build is about to make a call.
    #[expect(clippy::disallowed_methods, reason = "the writer has a thread that may outlive this call")]
    fn call(&mut self, db: &Database, progress: &Arc<Mutex<Progress>>) {
        self.calls += 1;
        if self.calls != self.place {
            return;
        }
        let (send, receive) = channel();
        let (db, progress, name) = (db.clone(), Arc::clone(progress), self.name);
        thread::spawn(move || {
            db.collection(name).unwrap().unwrap().insert_one(written().view()).unwrap();
            // It is acknowledged from here on.
            progress.lock().unwrap().possible.retain(|state| has_written(state, name));
            let _nobody_waits = send.send(());
        });
        // A build that holds what the writer waits for goes on first.
        let (sent, again) = channel();
        match receive.recv_timeout(PATIENCE) {
            Ok(()) => {
                let _kept = sent.send(());
                self.ends = Some(again);
            }
            Err(_) => self.ends = Some(receive),
        }
    }
}

fn written() -> spinney_document::bson::DocumentBuf {
    doc! {"_id": BESIDE_ID, "a": 1, "b": 2, "pad": "beside"}
}

fn has_written(state: &State, name: &str) -> bool {
    state[name].documents.contains_key(&BESIDE_ID)
}

/// Runs a build of an index and, somewhere within it, an insert by another thread; the state behind both, and what the
/// build said.
fn run_beside(
    machine: &SimEnv,
    db: &Database,
    (name, statement): (&'static str, &Statement),
    place: usize,
    progress: &Arc<Mutex<Progress>>,
) -> Result<()> {
    let beside = Arc::new(Mutex::new(Beside { place, calls: 0, name, ends: None }));
    let (met, seen, of_db) = (Arc::clone(&beside), Arc::clone(progress), db.clone());
    machine.interrupt(Some(Box::new(move |_, _| met.lock().unwrap().call(&of_db, &seen))));
    let done = statement.run(db);
    machine.interrupt(None);
    let ends = beside.lock().unwrap().ends.take();
    match ends {
        Some(ends) => {
            while ends.recv_timeout(Duration::from_millis(1)).is_err() {
                // It may wait for a worker.
                let _has_worked = machine.work(0);
            }
        }
        // The build made fewer calls.
        None => drop(db.collection(name)?.unwrap().insert_one(written().view())?),
    }
    done
}

/// Whether an insert can come beside the build: there is a collection for it, and the document is not refused.
fn beside_of(statement: &Statement, state: &State) -> Option<&'static str> {
    let Statement::Index(name, _) = statement else { return None };
    state.get(*name).filter(|shape| !shape.documents.contains_key(&BESIDE_ID)).map(|_| *name)
}

fn with_written(state: &State, name: &str) -> State {
    let mut state = state.clone();
    let taken = state.get_mut(name).unwrap().put(&written(), false);
    assert!(taken, "nothing refuses the document");
    state
}

/// Runs the statements of a seed, and crashes one of `every` changes of the disk; how many that were.
fn run(seed: u64, every: u64) -> Result<u64, String> {
    let machine = SimEnv::new(seed);
    machine.set_lazy_workers(seed.is_multiple_of(3));
    let progress = Arc::new(Mutex::new(Progress { possible: vec![State::new()], ..Progress::default() }));
    let db = open(&machine, seed).unwrap();
    let seen = Arc::clone(&progress);
    machine.observe(Some(Box::new(move |fork| {
        let point = fork.write_and_sync_count();
        let mut progress = seen.lock().unwrap();
        if point % every != seed % every || progress.failure.is_some() {
            return;
        }
        progress.crashes += 1;
        let examined = catch_unwind(AssertUnwindSafe(|| examine(&fork, seed, point, &progress)));
        if let Err(panic) = examined {
            let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            progress.failure = Some(format!("seed {seed}, change {point}, during {}: {what}", progress.statement));
        }
    })));
    let (mut rng, mut state) = (Rng::new(!seed), State::new());
    for _ in 0..STATEMENTS {
        let statement = Statement::draw(&mut rng);
        let beside = beside_of(&statement, &state).filter(|_| rng.chance(50));
        let mut possible = statement.states(&state);
        if let Some(name) = beside {
            let with: Vec<State> = possible.iter().map(|state| with_written(state, name)).collect();
            possible.extend(with);
        }
        let after = possible.last().unwrap().clone();
        {
            let mut progress = progress.lock().unwrap();
            progress.possible = possible;
            progress.statement = format!("{statement:?}, beside an insert: {beside:?}");
        }
        if rng.chance(30) {
            let _has_worked = machine.work(rng.number());
        }
        let done = match beside {
            Some(name) => run_beside(&machine, &db, (name, &statement), rng.in_range(1..40), &progress),
            None => statement.run(&db),
        };
        assert_eq!(read(&db).unwrap(), after, "seed {seed}: {statement:?}: {done:?}");
        state = after;
        progress.lock().unwrap().possible = vec![state.clone()];
    }
    machine.observe(None);
    drop(db);
    let mut progress = progress.lock().unwrap();
    progress.failure.take().map_or(Ok(progress.crashes), Err)
}

#[test]
fn every_crash_leaves_a_state_between_statements_with_valid_indexes() {
    assert!(NAMES.len() > 2, "two collections of a database and one of another");
    let points = parallel::count_from_env("SPINNEY_DOCUMENT_CRASH_POINTS", 5000);
    let from = parallel::count_from_env("SPINNEY_DOCUMENT_CRASH_FROM", 0);
    // A small run looks at few changes of many seeds.
    let every = if points > 5000 { 2 } else { 6 };
    let crashes = AtomicU64::new(0);
    // Counts, by which nothing is published.
    let seeds = (from..).take_while(|_| crashes.load(Ordering::Relaxed) < points);
    parallel::each(seeds, |seed| {
        let done = catch_unwind(AssertUnwindSafe(|| run(seed, every)));
        let done = done.unwrap_or_else(|panic| Err(spinney_testkit::engine::panic_message(&*panic).to_owned()));
        crashes.fetch_add(done.map_err(|what| format!("seed {seed}: {what}"))?, Ordering::Relaxed);
        Ok(())
    })
    .unwrap_or_else(|what| panic!("{what}"));
    eprintln!("{} crashes", crashes.into_inner());
}
