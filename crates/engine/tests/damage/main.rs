//! Damaged files give errors that tell of the damage, never wrong data, and never panic.

use spinney::base::checksum::checksum;
use spinney::env::DirEntry;
use spinney::env::sim::SimEnv;
use spinney::{Database, Durability, Error, ErrorKind, Layout, Result, Table, Value};
use spinney_testkit::{Config, Engine, Model, Op, Outcome, Rng, Subject, engine, ops, parallel};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

const PATH: &str = "/db";
const TABLES: usize = 2;

#[test]
fn a_flipped_bit_is_an_error_or_does_no_harm() {
    each_file(|sim, path, bytes, rng| {
        let len = bytes.len();
        let used: Vec<_> = (0..len).filter(|at| bytes[*at] != 0).collect();
        let mut places: Vec<_> = (0..len.min(64)).collect();
        for _ in 0..100 {
            places.extend((!used.is_empty()).then(|| *rng.pick(&used)));
            places.extend((len > 0).then(|| rng.in_range(0..len)));
        }
        for at in places {
            let (fork, bit) = (sim.fork(), 1 << rng.in_range(0..8));
            fork.corrupt(path, at.try_into().expect("a small file"), bit).map_err(|error| error.to_string())?;
            examine(&fork).map_err(|message| format!("bits {bit:#x} of byte {at} flipped: {message}"))?;
        }
        Ok(())
    });
}

#[test]
fn a_truncated_or_missing_file_is_an_error_or_does_no_harm() {
    each_file(|sim, path, bytes, rng| {
        let len = bytes.len();
        let cuts = [0, 1, 16, 4096, len / 2, len.saturating_sub(4096), len.saturating_sub(16), len.saturating_sub(1)];
        let more: Vec<_> = (0..if len > 0 { 20 } else { 0 }).map(|_| rng.in_range(0..len)).collect();
        for cut in cuts.into_iter().chain(more).filter(|cut| *cut < len) {
            let fork = sim.fork();
            fork.truncate(path, cut.try_into().expect("a small file")).map_err(|error| error.to_string())?;
            examine(&fork).map_err(|message| format!("cut from {len} to {cut} bytes: {message}"))?;
        }
        let fork = sim.fork();
        fork.remove_file(path).map_err(|error| error.to_string())?;
        examine_for(&fork, &[ErrorKind::Corruption, ErrorKind::Io]).map_err(|message| format!("removed: {message}"))
    });
}

#[test]
fn a_swapped_or_zeroed_sector_is_an_error_or_does_no_harm() {
    each_file(|sim, path, bytes, rng| {
        let sectors = bytes.len() / 512;
        for _ in 0..if sectors > 1 { 20 } else { 0 } {
            let (fork, mut changed) = (sim.fork(), bytes.to_vec());
            let (to, from) = (rng.in_range(0..sectors) * 512, rng.in_range(0..sectors) * 512);
            if rng.chance(50) {
                changed[to..to + 512].fill(0);
            } else {
                changed.copy_within(from..from + 512, to);
            }
            fork.write_file(path, &changed).map_err(|error| error.to_string())?;
            examine(&fork)
                .map_err(|message| format!("sector at {to} zeroed, or that at {from} laid over it: {message}"))?;
        }
        Ok(())
    });
}

#[test]
fn a_newer_format_is_refused_as_unsupported() {
    each_file(|sim, path, bytes, _| {
        let mut newer = bytes.to_vec();
        match (path.file_name().and_then(|name| name.to_str()), path.extension().and_then(|ext| ext.to_str())) {
            (Some("CURRENT"), _) => {
                newer = String::from_utf8_lossy(bytes).replacen("spinney 2", "spinney 3", 1).into_bytes()
            }
            // All headers have the version in the same place.
            (_, Some("manifest")) => {
                newer[8..12].copy_from_slice(&3_u32.to_le_bytes());
                let sum = checksum(0, 0, &newer[..24]);
                newer[24..32].copy_from_slice(&sum.to_le_bytes());
            }
            (_, Some("log" | "tree")) => {
                newer[8..12].copy_from_slice(&2_u32.to_le_bytes());
                newer[64] ^= 1;
            }
            // Runs are described by the manifest, locks and spare segments are empty.
            _ => return Ok(()),
        }
        let fork = sim.fork();
        fork.write_file(path, &newer).map_err(|error| error.to_string())?;
        match Database::builder(PATH).options(config().options).env(fork.env()).open() {
            Err(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            Err(error) => Err(format!("newer format: {:?}: {error}", error.kind())),
            Ok(_) => Err("a newer format was read".to_owned()),
        }
    });
}

// ---------------------------------------------------------------------------------------------------------------------

/// A closed database of two layouts with data in trees and, if it is the engine's way, in the log.
fn closed_database() -> SimEnv {
    let sim = SimEnv::new(7);
    let mut engine = Engine::open(Path::new(PATH), sim.env(), &config(), TABLES).expect("an empty machine");
    for op in workload() {
        assert_eq!(engine.apply(&op), Outcome::Done, "{op}");
    }
    sim
}

fn config() -> Config {
    let mut config = Config::named(Layout::BTree, "tiny-log");
    config.table.large_value_bytes = 64;
    config
}

fn workload() -> Vec<Op> {
    let mut rng = Rng::new(3);
    let mut write = |from: u64, to: u64| {
        let keys = from..to;
        let change = |number: u64, rng: &mut Rng| {
            let len = rng.in_range(0..120);
            let value = (!number.is_multiple_of(7)).then(|| rng.bytes(len));
            ops::Change {
                table: usize::from(number % 2 == 1),
                key: format!("key{number:05}").into_bytes(),
                write: value.into(),
            }
        };
        Op::Write(keys.map(|number| change(number, &mut rng)).collect(), Some(Durability::Sync))
    };
    vec![
        write(0, 300),
        Op::Flush(0),
        Op::Flush(1),
        write(200, 500),
        Op::Flush(0),
        Op::Compact(1),
        write(450, 600),
        Op::Flush(1),
        write(100, 120),
        write(590, 610),
        Op::Reopen(ops::Leave::Close),
        write(50, 60),
        Op::Reopen(ops::Leave::Close),
    ]
}

/// Runs a test for every file of the closed database.
fn each_file(test: impl Fn(&SimEnv, &Path, &[u8], &mut Rng) -> Result<(), String> + Sync) {
    let sim = closed_database().fork();
    let files = files_below(&sim, Path::new(PATH));
    assert!(files.len() >= 4, "{files:?}");
    let run = |path: PathBuf| {
        let bytes = sim.read_file(&path).map_err(|error| error.to_string())?;
        let mut rng = Rng::new(bytes.len().try_into().expect("a small file"));
        test(&sim, &path, &bytes, &mut rng).map_err(|message| format!("{}: {message}", path.display()))
    };
    parallel::each(files, run).unwrap_or_else(|message| panic!("{message}"));
}

fn files_below(sim: &SimEnv, dir: &Path) -> Vec<PathBuf> {
    let fs = sim.env().fs;
    let entries = fs.list(dir).expect("a directory of the database").into_iter();
    let below = |entry: DirEntry| {
        let path = dir.join(&entry.name);
        if entry.is_dir { files_below(sim, &path) } else { vec![path] }
    };
    entries.flat_map(below).collect()
}

/// Opens and reads a damaged database: all must be right, or an error that tells of the damage.
fn examine(sim: &SimEnv) -> Result<(), String> {
    examine_for(sim, &[ErrorKind::Corruption, ErrorKind::Unsupported])
}

/// As [`examine`], with errors of the kinds that are right.
fn examine_for(sim: &SimEnv, kinds: &[ErrorKind]) -> Result<(), String> {
    match catch_unwind(AssertUnwindSafe(|| read_all(sim))) {
        Ok(Ok(())) => Ok(()),
        Ok(Err(Wrong::Error(error))) if kinds.contains(&error.kind()) => Ok(()),
        Ok(Err(Wrong::Error(error))) => Err(format!("not told as damage: {:?}: {error}", error.kind())),
        Ok(Err(Wrong::Data(message))) => Err(message),
        Err(panic) => Err(format!("panicked: {}", engine::panic_message(&*panic))),
    }
}

enum Wrong {
    Error(Error),
    Data(String),
}

impl From<Error> for Wrong {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

fn read_all(sim: &SimEnv) -> Result<(), Wrong> {
    let mut model = Model::new(TABLES);
    for op in workload() {
        model.apply(&op);
    }
    let expected = model.state_at(model.version());
    let database = Database::builder(PATH).options(config().options).env(sim.env()).open()?;
    for (number, expected) in expected.iter().enumerate() {
        let missing = || Wrong::Data(format!("table t{number} is missing"));
        let table = database.table(&format!("t{number}"))?.ok_or_else(missing)?;
        let snapshot = database.snapshot();
        let forward = collect(snapshot.range(&table, ..));
        let mut backward = collect(snapshot.range_rev(&table, ..));
        if let Ok(entries) = &mut backward {
            entries.reverse();
        }
        for (way, found) in [("forward", forward), ("backward", backward)] {
            match found {
                Ok(found) if found == *expected => {}
                Ok(_) => return Err(Wrong::Data(format!("wrong entries in t{number}, read {way}"))),
                Err(error) => return Err(error.into()),
            }
        }
        check_gets(&database, &table, expected)?;
    }
    let problems = database.verify()?.problems;
    if problems.is_empty() {
        Ok(database.close()?)
    } else {
        Err(Wrong::Error(Error::new(ErrorKind::Corruption, problems.join("; "))))
    }
}

fn collect(range: impl Iterator<Item = Result<(Vec<u8>, Value)>>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    range.map(|entry| entry.map(|(key, value)| (key, Vec::from(value)))).collect()
}

fn check_gets(database: &Database, table: &Table, expected: &[(Vec<u8>, Vec<u8>)]) -> Result<(), Wrong> {
    let snapshot = database.snapshot();
    for (key, value) in expected.iter().step_by(7) {
        match snapshot.get(table, key)? {
            Some(found) if found == *value => {}
            _ => return Err(Wrong::Data(format!("wrong value of {} in {}", key.escape_ascii(), table.name()))),
        }
    }
    Ok(())
}
