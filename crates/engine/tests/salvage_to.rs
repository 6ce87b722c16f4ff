//! Salvage to a new place: an undamaged database is copied as it is, and of a damaged one nothing is missing or old
//! without being told.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::env::{Access, DirEntry, Env, File, FileLock, FileSystem, OpenOptions};
use spinney::{
    Batch, Database, DatabaseBuilder, Durability, ErrorKind, Layout, Options, SalvageMode, SalvagedCopy, Table,
    TableOptions,
};
use spinney_testkit::outcome::Pair;
use spinney_testkit::{Config, Engine, Op, Outcome, Rng, Subject, ops, parallel};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const TABLES: usize = 2;
const SOURCE: &str = "/db";
const COPY: &str = "/copy";

/// A file system on which the source cannot be changed.
#[derive(Debug)]
struct ReadOnly(Arc<dyn FileSystem>);

impl ReadOnly {
    fn env(sim: &SimEnv) -> Env {
        let env = sim.env();
        Env { fs: Arc::new(Self(Arc::clone(&env.fs))), ..env }
    }

    fn check(path: &Path) -> io::Result<()> {
        if path.starts_with(SOURCE) { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }
}

impl FileSystem for ReadOnly {
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn File>> {
        if options.access != Access::Read {
            Self::check(path)?;
        }
        self.0.open(path, options)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        Self::check(path).and_then(|()| self.0.create_dir_all(path))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        self.0.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        Self::check(from).and_then(|()| self.0.rename(from, to))
    }

    fn hard_link(&self, from: &Path, to: &Path) -> io::Result<()> {
        Self::check(from).and_then(|()| self.0.hard_link(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        Self::check(path).and_then(|()| self.0.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        Self::check(dir).and_then(|()| self.0.sync_dir(dir))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn FileLock>> {
        Self::check(path).and_then(|()| self.0.lock(path))
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.0.free_bytes(dir)
    }

    fn absolute(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.absolute(path)
    }
}

/// A database after the operations of a seed, left as a process leaves it that ends; and all that it held.
fn left_behind(config: &Config, seed: u64, count: usize) -> (SimEnv, Vec<Vec<Pair>>) {
    let sim = SimEnv::new(seed);
    let mut engine = Engine::open(Path::new(SOURCE), sim.env(), config, TABLES).unwrap();
    for op in ops::generate_writes(seed, TABLES, count) {
        engine.apply(&op);
    }
    let state = engine.state().unwrap();
    // What is only in memory of unlogged tables, and between the process and the system, is not on the disk.
    assert_eq!(engine.apply(&Op::Reopen(ops::Leave::Close)), Outcome::Done);
    drop(engine);
    sim.process_crash();
    (sim, state)
}

/// Copies the source, of which nothing is changed.
fn copy(builder: DatabaseBuilder, sim: &SimEnv) -> spinney::Result<SalvagedCopy> {
    builder.env(ReadOnly::env(sim)).salvage_to(COPY, |_| ())
}

/// What a copy holds; it is sound.
fn copied(config: &Config, sim: &SimEnv) -> Vec<Vec<Pair>> {
    let engine = Engine::open(Path::new(COPY), sim.env(), config, TABLES).unwrap();
    assert_eq!(engine.database().verify().unwrap().problems, vec![]);
    engine.state().unwrap()
}

#[test]
fn an_undamaged_database_is_copied_as_it_is_and_goes_on() {
    let run = |(seed, config): (u64, Config)| {
        let (sim, state) = left_behind(&config, seed, 150);
        // Every other time the program does not know the operators.
        let builder = if seed % 2 == 0 { config.builder(Path::new(SOURCE)) } else { Database::builder(SOURCE) };
        let report = copy(builder, &sim).unwrap();
        assert!(report.is_complete(), "{}: {report:?}", config.name);
        assert!(copied(&config, &sim) == state, "{}: the copy is another database", config.name);
        sim.power_crash(CrashProfile::Strict);
        let mut engine = Engine::open(Path::new(COPY), sim.env(), &config, TABLES).unwrap();
        assert_eq!(engine.apply(&Op::Checkpoint), Outcome::Tables(state), "{}", config.name);
        for op in ops::generate_writes(seed + 1000, TABLES, 30) {
            let outcome = engine.apply(&op);
            assert!(!matches!(outcome, Outcome::Failed(_)), "{}: {op}: {outcome}", config.name);
        }
        assert_eq!(engine.apply(&Op::Verify), Outcome::Done);
        Ok(())
    };
    parallel::each((0..).zip(Config::all()), run).unwrap_or_else(|message: String| panic!("{message}"));
}

/// Checks a copy of a damaged database whose `state` was known; tells how many entries it does not have as they were.
fn check_tables(
    names: &[&str],
    report: &SalvagedCopy,
    state: &[Vec<Pair>],
    copied: &[Vec<Pair>],
) -> Result<usize, String> {
    let mut missed = 0;
    for (name, (expected, found)) in names.iter().zip(state.iter().zip(copied)) {
        let lost = &report.tables.iter().find(|table| table.name == *name).ok_or("a table is missing")?.lost;
        let (expected, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            (expected.iter().cloned().collect(), found.iter().cloned().collect());
        for key in expected.keys().chain(found.keys().filter(|key| !expected.contains_key(*key))) {
            if expected.get(key) == found.get(key) {
                continue;
            }
            missed += 1;
            if report.log.is_none() && report.manifest.is_none() && !lost.iter().any(|range| range.contains(key)) {
                return Err(format!("{name}: {} is another without a word: {lost:?}", key.escape_ascii()));
            }
        }
    }
    Ok(missed)
}

/// What became of damage.
#[derive(Debug, Default)]
struct Tally {
    refused: AtomicU64,
    complete: AtomicU64,
    /// Something was told, and all entries are there all the same.
    told: AtomicU64,
    missed: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What is done to a file.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Zero,
    Cut,
    Remove,
}

const DAMAGES: [Damage; 4] = [Damage::Flip, Damage::Zero, Damage::Flip, Damage::Cut];

fn damage(sim: &SimEnv, path: &Path, at: u64, how: Damage) {
    let bytes = sim.read_file(path).unwrap();
    match how {
        Damage::Flip => sim.corrupt(path, at, 0x10).unwrap(),
        Damage::Cut => sim.truncate(path, at).unwrap(),
        Damage::Remove => sim.remove_file(path).unwrap(),
        Damage::Zero => {
            let mut zeroed = bytes;
            let at = usize::try_from(at).unwrap() / 512 * 512;
            let end = zeroed.len().min(at + 512);
            zeroed[at..end].fill(0);
            sim.write_file(path, &zeroed).unwrap();
        }
    }
}

/// The files of the source with their lengths.
fn files(sim: &SimEnv) -> Vec<(PathBuf, u64)> {
    let fs = sim.env().fs;
    let list =
        |dir: &'static str| fs.list(Path::new(dir)).unwrap().into_iter().map(move |entry| (dir.to_owned(), entry));
    let all = list("/db").chain(list("/db/log")).filter(|(_, entry)| !entry.is_dir && entry.bytes > 0);
    all.map(|(dir, entry)| (Path::new(&dir).join(entry.name), entry.bytes)).collect()
}

/// Damages a database, copies it and compares what is told with what is missing.
fn examine(sim: &SimEnv, config: &Config, state: &[Vec<Pair>], tally: &Tally) -> Result<(), String> {
    let report = match copy(config.builder(Path::new(SOURCE)), sim) {
        Ok(report) => report,
        Err(error) if [ErrorKind::Corruption, ErrorKind::Unsupported, ErrorKind::Invalid].contains(&error.kind()) => {
            count(&tally.refused);
            return Ok(());
        }
        Err(error) => return Err(format!("{:?}: {error}", error.kind())),
    };
    let copied = copied(config, sim);
    let missed = check_tables(&["t0", "t1"], &report, state, &copied)?;
    if report.manifest.is_none() && report.log.is_some() {
        // Trees are untouched: the copy is what a salvage in place leaves.
        let place = sim.fork();
        if config.builder(Path::new(SOURCE)).env(place.env()).salvage(SalvageMode::Repair).is_ok() {
            let engine = Engine::open(Path::new(SOURCE), place.env(), config, TABLES).unwrap();
            if engine.state().unwrap() != copied {
                return Err("the copy is not what a salvage in place leaves".to_owned());
            }
        }
    }
    count(match (missed, report.is_complete()) {
        (0, true) => &tally.complete,
        (0, false) => &tally.told,
        _ => &tally.missed,
    });
    Ok(())
}

#[test]
fn of_a_database_damaged_in_any_block_nothing_is_missing_or_old_without_a_word() {
    let points = usize::try_from(parallel::count_from_env("SPINNEY_SALVAGE_POINTS", 1500)).unwrap();
    let sets = ["tiny-everything", "tiny-values-apart", "no-compression"];
    let configs: Vec<_> =
        sets.iter().flat_map(|set| [Layout::BTree, Layout::Lsm].map(|layout| Config::named(layout, set))).collect();
    let (machines, tally) = (configs.len(), Tally::default());
    let run = |(seed, config): (u64, Config)| {
        let (sim, state) = left_behind(&config, seed, 250);
        let (files, mut rng) = (files(&sim), Rng::new(seed));
        let used = |path: &Path| {
            let bytes = sim.read_file(path).unwrap().into_iter();
            (0..).zip(bytes).filter(|(_, byte)| *byte != 0).map(|(at, _)| at).collect::<Vec<u64>>()
        };
        let files: Vec<_> = files.into_iter().map(|(path, _)| (used(&path), path)).collect();
        let total: usize = files.iter().map(|(used, _)| used.len()).sum();
        let stride = (total * machines / points).max(1);
        for (used, path) in &files {
            let mut places = vec![(0, Damage::Remove)];
            for (number, row) in used.chunks(stride).enumerate() {
                places.push((*rng.pick(row), DAMAGES[number % DAMAGES.len()]));
            }
            for (at, how) in places {
                let fork = sim.fork();
                damage(&fork, path, at, how);
                examine(&fork, &config, &state, &tally)
                    .map_err(|message| format!("{}, {how:?} {} at {at}: {message}", config.name, path.display()))?;
            }
        }
        Ok(())
    };
    parallel::each((0..).zip(configs), run).unwrap_or_else(|message: String| panic!("{message}"));
    eprintln!("{tally:?}");
    assert_eq!(tally.refused.load(Ordering::Relaxed), 0, "no single damage makes all of it unreadable: {tally:?}");
    for counter in [&tally.complete, &tally.told, &tally.missed] {
        assert!(counter.load(Ordering::Relaxed) > 0, "{tally:?}");
    }
}

// ---------------------------------------------------------------------------------------------------------------------

fn open(sim: &SimEnv, path: &str) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder(path).env(sim.env()).options(options).open().unwrap()
}

fn put(db: &Database, table: &Table, keys: std::ops::Range<u32>, value: &[u8]) {
    let mut batch = Batch::new();
    keys.for_each(|key| batch.put(table, key.to_be_bytes(), value));
    db.write_with(&batch, Durability::Sync).unwrap();
}

fn small(layout: Layout) -> TableOptions {
    TableOptions::default().layout(layout).block_bytes(512)
}

/// The run files of the source, oldest first.
fn run_files(sim: &SimEnv) -> Vec<(PathBuf, u64)> {
    files(sim).into_iter().filter(|(path, _)| path.extension().is_some_and(|it| it == "run")).collect()
}

fn entries(db: &Database) -> Vec<(Vec<u8>, Vec<u8>)> {
    let table = db.table("t").unwrap().unwrap();
    let entries = db.snapshot().range(&table, ..).map(|entry| entry.map(|(key, value)| (key, value.to_vec())));
    entries.collect::<spinney::Result<_>>().unwrap()
}

#[test]
fn an_older_version_behind_a_damaged_block_does_not_come_back_without_a_word() {
    for tombstones in [false, true] {
        let sim = SimEnv::new(1);
        let db = open(&sim, SOURCE);
        let table = db.create_table("t", small(Layout::Lsm)).unwrap();
        table.hold().unwrap();
        put(&db, &table, 0..300, b"older");
        table.flush().unwrap();
        if tombstones {
            let mut batch = Batch::new();
            (100..200u32).for_each(|key| batch.delete(&table, key.to_be_bytes()));
            db.write_with(&batch, Durability::Sync).unwrap();
        } else {
            put(&db, &table, 100..200, b"newer");
        }
        table.flush().unwrap();
        drop((table, db));
        sim.process_crash();
        let (newest, _) = run_files(&sim).pop().unwrap();
        sim.corrupt(&newest, 30, 1).unwrap();
        let report = copy(Database::builder(SOURCE), &sim).unwrap();
        let lost = &report.tables[0].lost;
        assert_eq!((lost.len(), lost[0].file.as_path(), lost[0].offset), (1, newest.as_path(), 0));
        let newer = if tombstones { None } else { Some(&b"newer"[..]) };
        let found: BTreeMap<_, _> = entries(&open(&sim, COPY)).into_iter().collect();
        let mut resurrected = 0;
        for key in 0..300u32 {
            let expected = if (100..200).contains(&key) { newer } else { Some(&b"older"[..]) };
            let value = found.get(key.to_be_bytes().as_slice()).map(Vec::as_slice);
            if value != expected {
                assert!(lost[0].contains(&key.to_be_bytes()) && value == Some(b"older"), "{key}: {value:?}");
                resurrected += 1;
            }
        }
        assert!((1..100).contains(&resurrected), "{resurrected}");
    }
}

#[test]
fn without_index_filter_and_footer_a_run_loses_nothing() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let table = db.create_table("t", small(Layout::LsmTiered)).unwrap();
    put(&db, &table, 0..3000, b"value");
    table.compact().unwrap();
    let expected = entries(&db);
    drop((table, db));
    sim.process_crash();
    let [(run, bytes)] = run_files(&sim).try_into().unwrap();
    let healthy = (0..bytes).rev().step_by(101).find(|at| {
        let fork = sim.fork();
        fork.truncate(&run, *at).unwrap();
        !copy(Database::builder(SOURCE), &fork).unwrap().is_complete()
    });
    let leaves_end = healthy.unwrap() + 101;
    assert!(leaves_end < bytes - 1000, "{leaves_end} of {bytes}");
    sim.truncate(&run, leaves_end).unwrap();
    assert!(copy(Database::builder(SOURCE), &sim).unwrap().is_complete());
    assert_eq!(entries(&open(&sim, COPY)), expected);
}

#[test]
fn leaves_under_a_damaged_branch_are_found_by_themselves() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let table = db.create_table("t", small(Layout::BTree)).unwrap();
    for round in 0..3u8 {
        put(&db, &table, 0..800, &[round; 40]);
        table.flush().unwrap();
    }
    table.compact().unwrap();
    let expected = entries(&db);
    drop((table, db));
    sim.process_crash();
    let (tree, bytes) =
        files(&sim).into_iter().find(|(path, _)| path.extension().is_some_and(|it| it == "tree")).unwrap();
    let (mut whole, mut partly) = (0, 0);
    for unit in 0..bytes / 4096 {
        let fork = sim.fork();
        fork.corrupt(&tree, unit * 4096 + 25, 1).unwrap();
        let refused = open_fails(&fork);
        let report = copy(Database::builder(SOURCE), &fork).unwrap();
        let found = entries(&open(&fork, COPY));
        if report.is_complete() {
            assert_eq!(found, expected, "unit {unit}");
            whole += u32::from(refused);
            continue;
        }
        let [lost] = &*report.tables[0].lost else { panic!("{report:?}") };
        let left: Vec<_> = expected.iter().filter(|(key, _)| !lost.contains(key)).cloned().collect();
        assert!(left.len() >= 700 && left.iter().all(|entry| found.contains(entry)), "{report:?}");
        partly += 1;
    }
    assert!(whole > 3 && partly > 50, "{whole} {partly}");
}

#[test]
fn two_damaged_blocks_of_a_tree_are_told_of_both() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let table = db.create_table("t", small(Layout::BTree)).unwrap();
    (0..3u8).for_each(|round| {
        put(&db, &table, 0..400, &[round; 150]);
        table.flush().unwrap();
    });
    table.compact().unwrap();
    let expected = entries(&db);
    drop((table, db));
    sim.process_crash();
    let (tree, bytes) =
        files(&sim).into_iter().find(|(path, _)| path.extension().is_some_and(|it| it == "tree")).unwrap();
    let (units, mut rng, mut missed) = (bytes / 4096, Rng::new(1), 0);
    for _ in 0..300 {
        let fork = sim.fork();
        for _ in 0..rng.in_range(2..12) {
            fork.corrupt(&tree, rng.number() % units * 4096 + 25, 1).unwrap();
        }
        let report = copy(Database::builder(SOURCE), &fork).unwrap();
        let found = entries(&open(&fork, COPY));
        let state = [expected.clone()];
        let copied = [found];
        missed += usize::from(check_tables(&["t"], &report, &state, &copied).unwrap() > 0);
    }
    assert!(missed > 50, "{missed}");
}

/// Whether a database does not open, or does not verify.
fn open_fails(sim: &SimEnv) -> bool {
    let fork = sim.fork();
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    let opened = Database::builder(SOURCE).env(fork.env()).options(options).open();
    opened.and_then(|db| db.verify()).map_or(true, |report| !report.problems.is_empty())
}

#[test]
fn an_unreadable_sector_is_skipped_like_a_damaged_one() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let table = db.create_table("t", small(Layout::Lsm)).unwrap();
    put(&db, &table, 0..3000, b"value");
    table.compact().unwrap();
    drop((table, db));
    sim.process_crash();
    for at in sim.op_count()..sim.op_count() + 40 {
        let fork = sim.fork();
        fork.fail_at(at, spinney::env::sim::Fault::Error(io::ErrorKind::Other));
        match copy(Database::builder(SOURCE), &fork) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Io, "{error}"),
            Ok(report) => {
                fork.clear_faults();
                let found = entries(&open(&fork, COPY)).len();
                assert!(found == 3000 || !report.is_complete(), "operation {at}: {found}");
            }
        }
    }
}

#[test]
fn entries_keep_their_age_in_a_copy() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let life = Duration::from_secs(320);
    let options = small(Layout::Lsm).time_to_live(Some(life));
    let table = db.create_table("t", options).unwrap();
    let pass = |seconds: u64| (0..seconds / 5).for_each(|_| sim.advance(Duration::from_secs(5)));
    put(&db, &table, 0..100, b"old");
    table.flush().unwrap();
    pass(160);
    put(&db, &table, 100..200, b"young");
    table.flush().unwrap();
    pass(60);
    drop(table);
    db.close().unwrap();
    assert!(copy(Database::builder(SOURCE), &sim).unwrap().is_complete());
    let db = open(&sim, COPY);
    assert_eq!(entries(&db).len(), 200);
    pass(140);
    assert_eq!(entries(&db).len(), 100, "the old ones have had their time");
    pass(200);
    assert_eq!(entries(&db).len(), 0);
}

#[test]
fn a_copy_that_was_not_finished_is_no_database() {
    let config = Config::named(Layout::Lsm, "tiny-everything");
    let (sim, state) = left_behind(&config, 3, 100);
    let start = sim.write_and_sync_count();
    let changes = {
        let fork = sim.fork();
        copy(config.builder(Path::new(SOURCE)), &fork).unwrap();
        fork.write_and_sync_count() - start
    };
    let mut finished = 0;
    for change in 0..=changes {
        let fork = sim.fork();
        fork.crash_at(start + change);
        let told = copy(config.builder(Path::new(SOURCE)), &fork);
        fork.power_crash(CrashProfile::Strict);
        match config.builder(Path::new(COPY)).create(false).env(fork.env()).open() {
            Ok(db) => {
                drop(db);
                assert!(copied(&config, &fork) == state);
                finished += 1;
            }
            Err(error) => {
                assert!(told.is_err(), "{error}");
                assert!([ErrorKind::NotFound, ErrorKind::Corruption].contains(&error.kind()), "{error}");
            }
        }
    }
    assert!((1..10).contains(&finished), "{finished} of {changes}");
}

#[test]
fn an_open_database_a_full_place_and_none_at_all_are_refused() {
    let sim = SimEnv::new(1);
    let db = open(&sim, SOURCE);
    let refused = |path: &str, out: &str| Database::builder(path).env(sim.env()).salvage_to(out, |_| ()).unwrap_err();
    assert_eq!(refused(SOURCE, COPY).kind(), ErrorKind::Locked);
    db.close().unwrap();
    assert!(refused("/nowhere", COPY).to_string().contains("no database"));
    assert!(refused(SOURCE, "/db/copy").to_string().contains("outside"));
    assert!(refused(SOURCE, "/db").to_string().contains("outside"));
    sim.env().fs.create_dir_all(Path::new("/full")).unwrap();
    sim.write_file("/full/file", b"mine").unwrap();
    assert!(refused(SOURCE, "/full").to_string().contains("not empty"));
}

#[test]
fn a_copy_for_which_there_is_no_room_leaves_nothing() {
    for layout in [Layout::BTree, Layout::Lsm] {
        let sim = SimEnv::new(1);
        let db = open(&sim, SOURCE);
        let table = db.create_table("t", small(layout)).unwrap();
        put(&db, &table, 0..3000, b"value");
        table.compact().unwrap();
        let expected = entries(&db);
        drop((table, db));
        sim.process_crash();
        for free in [0, 4 << 10] {
            sim.set_free(free);
            let error = copy(Database::builder(SOURCE), &sim).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Full, "{layout:?}, {free}: {error}");
            // There may not have been room for the directory either.
            let left = sim.env().fs.list(Path::new(COPY)).unwrap_or_default();
            assert!(left.is_empty(), "{layout:?}, {free}: {left:?}");
        }
        sim.set_space(u64::MAX);
        assert!(copy(Database::builder(SOURCE), &sim).unwrap().is_complete());
        assert_eq!(entries(&open(&sim, COPY)), expected, "{layout:?}");
    }
}
