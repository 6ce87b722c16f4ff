//! Damaged files give errors that name them, or exactly the right data: never wrong data, never a panic, and no memory
//! that damaged bytes ask for.

mod database;
mod matrix;
mod meaning;
mod memory;

use database::{Database, TABLES};
use matrix::{Damage, File};
use spinney::base::checksum::checksum;
use spinney::env::sim::SimEnv;
use spinney::{Error, ErrorKind, Result, SalvageMode, Value};
use spinney_testkit::outcome::Pair;
use spinney_testkit::{Rng, engine, parallel};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// So much more than for a sound database may be allocated at once: messages, and a block read once more.
const MEMORY_SLACK_BYTES: isize = 1 << 20;

/// Damages of a kind, to a kind of file.
struct Kind<'a> {
    name: String,
    database: &'a Database,
    file: &'a File,
    damages: Vec<Damage>,
}

#[test]
fn any_damage_is_an_error_that_names_the_file_or_does_no_harm() {
    let databases = Database::all();
    let files: Vec<_> = databases.iter().map(|database| (database, File::all(database))).collect();
    let mut kinds = Vec::new();
    for (database, files) in &files {
        for file in files {
            let mut rng = Rng::new(u64::try_from(file.bytes.len()).expect("a small file"));
            for ((damage, matters), damages) in file.damages(&mut rng) {
                let part = if matters { "used" } else { "unused" };
                let name = format!("{:<10} {:<8} {part:<6} {damage}", database.name, file.kind());
                kinds.push(Kind { name, database, file, damages });
            }
        }
    }
    let chosen = choose(&mut kinds);
    let memory: BTreeMap<_, _> = databases.iter().map(|database| (database.name, memory_of(database))).collect();
    let (tally, failures) = (Mutex::new(BTreeMap::<String, [u64; 2]>::new()), Mutex::new(Vec::new()));
    let run = |(kind, damage): (&Kind<'_>, Damage)| {
        match examine(kind, damage, memory[kind.database.name] + MEMORY_SLACK_BYTES) {
            Ok(told) => tally.lock().unwrap().entry(kind.name.clone()).or_default()[usize::from(told)] += 1,
            Err(message) => {
                let path = kind.file.path.display();
                failures.lock().unwrap().push(format!("{}: {path}: {damage:?}: {message}", kind.name));
            }
        }
        Ok(())
    };
    parallel::each(chosen, run).unwrap_or_else(|message: String| panic!("{message}"));
    report(&tally.into_inner().unwrap(), &memory);
    let failures = failures.into_inner().unwrap();
    let some: Vec<_> = failures.iter().take(50).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} damages do harm:\n{}", failures.len(), some.join("\n"));
}

#[test]
fn a_missing_file_is_an_error_or_does_no_harm() {
    let before = database::states(&database::workload());
    for database in Database::all() {
        for file in File::all(&database) {
            let sim = database.sim.fork();
            sim.remove_file(&file.path).expect("it was there");
            let path = file.path.display();
            match read_all(&database, &sim) {
                // Nothing else names the newest segment of the log while nothing was flushed from it.
                Ok(state) if file.kind() == "log" => assert!(before.contains(&state), "{path}: wrong data"),
                Ok(state) => {
                    assert!(state == database.state, "{path}: wrong data");
                    assert!(file.meaning.is_empty(), "{path}: not missed");
                }
                Err(error) => {
                    assert!([ErrorKind::Corruption, ErrorKind::Io].contains(&error.kind()), "{path}: {error:?}")
                }
            }
        }
    }
}

/// What `verify` of an open database does not tell of does no harm to those that read it later.
#[test]
fn what_verify_does_not_tell_does_no_harm_to_the_next_open() {
    let databases = Database::all();
    let cases = parallel::count_from_env("SPINNEY_DAMAGE", 5000) / 4;
    let (told, failures) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let run = |seed: u64| {
        let mut rng = Rng::new(seed);
        let database = rng.pick(&databases);
        match damaged_while_open(database, &mut rng) {
            Ok(is_told) => told.fetch_add(u64::from(is_told), Ordering::Relaxed),
            Err(message) => {
                failures.lock().unwrap().push(format!("seed {seed}, {}: {message}", database.name));
                0
            }
        };
        Ok(())
    };
    parallel::each(0..cases, run).unwrap_or_else(|message: String| panic!("{message}"));
    let failures = failures.into_inner().unwrap();
    let some: Vec<_> = failures.iter().take(30).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {cases} damages do harm:\n{}", failures.len(), some.join("\n"));
    eprintln!("{} of {cases} were told", told.load(Ordering::Relaxed));
    assert!(told.into_inner() > cases / 10);
}

/// Damages a byte of a file while the database is open; whether `verify` told of it.
fn damaged_while_open(database: &Database, rng: &mut Rng) -> std::result::Result<bool, String> {
    let sim = database.sim.fork();
    let said = |error: Error| error.to_string();
    let open = database.config.builder(&database.path).env(sim.env()).open().map_err(said)?;
    for table in open.tables().map_err(said)? {
        table.hold().map_err(said)?;
    }
    if rng.chance(50) {
        // What is in the cache may not stand in for what is on the disk.
        let snapshot = open.snapshot();
        for table in open.tables().map_err(said)? {
            snapshot.range(&table, ..).try_for_each(|entry| entry.map(drop)).map_err(said)?;
        }
    }
    let mut paths = Vec::new();
    for dir in [database.path.clone(), database.path.join("log")] {
        let entries = sim.env().fs.list(&dir).map_err(|error| error.to_string())?;
        paths.extend(
            entries.into_iter().filter(|entry| entry.bytes > 0).map(|entry| (dir.join(entry.name), entry.bytes)),
        );
    }
    let (path, bytes) = rng.pick(&paths).clone();
    let near = 4096.min(bytes);
    let offset = match rng.in_range(0..3) {
        0 => rng.number() % near,
        1 => bytes - 1 - rng.number() % near,
        _ => rng.number() % bytes,
    };
    sim.corrupt(&path, offset, 1 << rng.in_range(0..8)).map_err(|error| error.to_string())?;
    if open.verify().map_or(true, |report| !report.problems.is_empty()) {
        return Ok(true);
    }
    let after = sim.fork();
    drop(open);
    match read_all(database, &after) {
        Ok(state) if state == database.state => Ok(false),
        Ok(_) => Err(format!("{} at {offset}: wrong data after `verify` found nothing", path.display())),
        Err(error) => Err(format!("{} at {offset}: `verify` found nothing, and then: {error}", path.display())),
    }
}

#[test]
fn a_newer_format_is_refused_as_unsupported() {
    let database = Database::all().remove(0);
    for File { path, mut bytes, .. } in File::all(&database) {
        match path.extension().and_then(|extension| extension.to_str()) {
            None if path.ends_with("CURRENT") => {
                let text = String::from_utf8_lossy(&bytes).replacen("spinney 2", "spinney 3", 1);
                let lines: Vec<_> = text.lines().take(2).collect();
                let sum = checksum(0, 0, lines.join("\n").as_bytes());
                bytes = format!("{}\n{sum:016x}\n", lines.join("\n")).into_bytes();
            }
            // All headers have the version in the same place.
            Some("manifest") => {
                bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
                let sum = checksum(0, 0, &bytes[..24]);
                bytes[24..32].copy_from_slice(&sum.to_le_bytes());
            }
            Some("tree") => {
                bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
                let identity = u64::from_le_bytes(bytes[16..24].try_into().expect("8 bytes"));
                let sum = checksum(identity, 0, &bytes[..24]);
                bytes[24..32].copy_from_slice(&sum.to_le_bytes());
            }
            Some("log") => {
                bytes[8..12].copy_from_slice(&3_u32.to_le_bytes());
                let sum = checksum(0, 0, &bytes[..4088]);
                bytes[4088..4096].copy_from_slice(&sum.to_le_bytes());
            }
            // Runs are described by the manifest, locks and spare segments are empty.
            _ => continue,
        }
        let sim = database.sim.fork();
        sim.write_file(&path, &bytes).expect("it is there");
        let error = read_all(&database, &sim).expect_err("a newer format is not read");
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{}: {error}", path.display());
        assert!(error.to_string().contains("use a newer spinney"), "{error}");
        let builder = database.config.builder(&database.path).env(sim.env());
        for error in [builder.salvage(SalvageMode::Report).map(drop), {
            let builder = database.config.builder(&database.path).env(sim.env());
            builder.salvage_to("/elsewhere", |_| ()).map(drop)
        }] {
            // A salvage does not read trees for what they are, and leaves what it cannot.
            if let Err(error) = error {
                assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Invalid), "{error}");
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------

/// The cases to run: all, or a number of them with about as many of each kind.
fn choose<'a>(kinds: &'a mut [Kind<'a>]) -> Vec<(&'a Kind<'a>, Damage)> {
    let all = std::env::var("SPINNEY_DAMAGE").is_ok_and(|value| value == "all");
    let mut left = if all { u64::MAX } else { parallel::count_from_env("SPINNEY_DAMAGE", 5000) };
    kinds.sort_by_key(|kind| kind.damages.len());
    let (mut chosen, mut kinds_left) = (Vec::new(), u64::try_from(kinds.len()).expect("few"));
    let mut rng = Rng::new(left);
    for kind in kinds {
        let share = usize::try_from(left / kinds_left).unwrap_or(usize::MAX).min(kind.damages.len());
        let kind: &Kind<'_> = kind;
        if share == kind.damages.len() {
            chosen.extend(kind.damages.iter().map(|damage| (kind, *damage)));
        } else {
            chosen.extend((0..share).map(|_| (kind, *rng.pick(&kind.damages))));
        }
        left -= u64::try_from(share).expect("less than what is left");
        kinds_left -= 1;
    }
    chosen
}

fn report(tally: &BTreeMap<String, [u64; 2]>, memory: &BTreeMap<&str, isize>) {
    eprintln!("{:<40} {:>8} {:>8}", "database, file, part, damage", "errors", "harmless");
    let mut sum = [0; 2];
    for (name, [harmless, told]) in tally {
        eprintln!("{name:<40} {told:>8} {harmless:>8}");
        sum = [sum[0] + harmless, sum[1] + told];
    }
    eprintln!("{:<40} {:>8} {:>8}", "all", sum[1], sum[0]);
    eprintln!("bytes of memory for the sound ones: {memory:?}");
}

/// The most memory that opening and reading a sound database takes.
fn memory_of(database: &Database) -> isize {
    let (found, bytes) = memory::peak_of(|| read_all(database, &database.sim.fork()));
    assert!(found.is_ok_and(|state| state == database.state), "{}: a sound database is not read well", database.name);
    bytes
}

/// Damages a copy of the database and reads it: says whether an error told of the damage, or else everything was right.
fn examine(kind: &Kind<'_>, damage: Damage, memory_max: isize) -> Result<bool, String> {
    let Kind { database, file, .. } = kind;
    let sim = database.sim.fork();
    sim.write_file(&file.path, &damage.of(file)).map_err(|error| error.to_string())?;
    let changed = file.changed(damage);
    // The end of what a killed process wrote is as if it had not been written.
    let lost = !database.torn.is_empty() && file.meaning.tail.is_some_and(|tail| changed.iter().any(|at| *at >= tail));
    let (found, bytes) = memory::peak_of(|| catch_unwind(AssertUnwindSafe(|| read_all(database, &sim))));
    if bytes > memory_max {
        return Err(format!("{bytes} bytes of memory"));
    }
    match found {
        Ok(Ok(state)) if lost && database.torn.contains(&state) => Ok(false),
        Ok(Err(_)) if lost => Ok(true),
        Ok(Ok(state)) if state != database.state => Err("wrong data".to_owned()),
        Ok(Ok(_)) if file.meaning.meets(&changed) => Err("no error, though the bytes mean something".to_owned()),
        Ok(Ok(_)) => Ok(false),
        Ok(Err(error)) => told(&error, file, &changed).map(|()| true),
        Err(panic) => Err(format!("panicked: {}", engine::panic_message(&*panic))),
    }
}

/// Whether an error names the damaged file, and no place behind the damage.
fn told(error: &Error, file: &File, changed: &[usize]) -> Result<(), String> {
    let complain = |what: &str| Err(format!("{what}: {:?}: {error}", error.kind()));
    if ![ErrorKind::Corruption, ErrorKind::Unsupported].contains(&error.kind()) {
        return complain("not told as damage");
    }
    let name = file.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if !error.to_string().contains(name) {
        return complain("the file is not named");
    }
    let last = changed.iter().max().copied().unwrap_or_default();
    match error.place() {
        Some((path, offset)) if path == file.path && offset > u64::try_from(last).expect("small") => {
            complain("the place is behind the damage")
        }
        _ => Ok(()),
    }
}

/// All that a database holds, read in each way and verified.
fn read_all(database: &Database, sim: &SimEnv) -> Result<Vec<Vec<Pair>>> {
    let open = database.config.builder(&database.path).env(sim.env()).open()?;
    let mut state = Vec::new();
    for number in 0..TABLES {
        let Some(table) = open.table(&format!("t{number}"))? else { continue };
        // Reads pay for merges, and those drop what is not in use any more before it is verified.
        table.hold()?;
        let snapshot = open.snapshot();
        let forward = collect(snapshot.range(&table, ..))?;
        let mut backward = collect(snapshot.range_rev(&table, ..))?;
        backward.reverse();
        assert!(forward == backward, "a table is read differently forward and backward");
        for (key, value) in forward.iter().step_by(7) {
            assert!(snapshot.get(&table, key)?.is_some_and(|found| found == *value), "a key is not found");
        }
        state.push(forward);
    }
    let problems = open.verify()?.problems;
    if !problems.is_empty() {
        let problems: Vec<_> = problems.iter().map(ToString::to_string).collect();
        return Err(Error::new(ErrorKind::Corruption, problems.join("; ")));
    }
    open.close()?;
    Ok(state)
}

fn collect(range: impl Iterator<Item = Result<(Vec<u8>, Value)>>) -> Result<Vec<Pair>> {
    range.map(|entry| entry.map(|(key, value)| (key, Vec::from(value)))).collect()
}
