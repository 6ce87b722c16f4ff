//! A damaged redo log is refused until it is salvaged; then the database holds exactly the commits before the damage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{
    Batch, Database, Durability, ErrorKind, Layout, Options, Result, SalvageMode, SalvageReport, TableOptions,
};
use spinney_testkit::parallel;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const LOG: &str = "/db/log";

/// The lengths of the values of each commit: small ones, pieces, and one that is longer than a segment.
const VALUES: [usize; 14] = [10, 500, 3, 6000, 40, 70_000, 20, 9, 5000, 30_000, 100, 33_000, 1, 60];

fn open(sim: &SimEnv) -> Result<Database> {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10).log_bytes_max(1 << 30);
    Database::builder("/db").env(sim.env()).options(options).open()
}

fn salvage(sim: &SimEnv, mode: SalvageMode) -> Result<SalvageReport> {
    Database::builder("/db").env(sim.env()).salvage(mode)
}

/// One commit, of both tables.
fn commit(db: &Database, number: usize, bytes: usize) {
    let mut batch = Batch::new();
    for name in ["a", "b"] {
        let value = vec![u8::try_from(number).unwrap(); bytes];
        batch.put(&db.table(name).unwrap().unwrap(), format!("{number:03}").as_bytes(), &value);
    }
    db.write_with(&batch, if number.is_multiple_of(3) { Durability::Buffered } else { Durability::Sync }).unwrap();
}

/// A machine on which the log holds all of [`VALUES`], over an open or two, the last of them closed.
fn machine(opens: usize) -> SimEnv {
    let sim = SimEnv::new(7);
    let mut db = open(&sim).unwrap();
    db.create_table("a", TableOptions::default()).unwrap();
    db.create_table("b", TableOptions::default().layout(Layout::BTree)).unwrap();
    for (number, bytes) in VALUES.into_iter().enumerate() {
        if number > 0 && number.is_multiple_of(VALUES.len().div_ceil(opens)) {
            db.close().unwrap();
            db = open(&sim).unwrap();
        }
        commit(&db, number, bytes);
    }
    db.close().unwrap();
    sim
}

/// How many of the commits a table holds, which must be the first ones.
fn held(db: &Database, table: &str) -> usize {
    let (table, snapshot) = (db.table(table).unwrap().unwrap(), db.snapshot());
    let found = snapshot.range(&table, ..).map(|entry| entry.unwrap()).collect::<Vec<_>>();
    for (number, (key, value)) in found.iter().enumerate() {
        assert_eq!(key, format!("{number:03}").as_bytes(), "a hole");
        let expected = VALUES.get(number).map_or(7, |bytes| *bytes);
        assert!(value.len() == expected && value.iter().all(|byte| usize::from(*byte) == number));
    }
    found.len()
}

/// The segments of the log, oldest first.
fn segments(sim: &SimEnv) -> Vec<PathBuf> {
    let names = sim.env().fs.list(Path::new(LOG)).unwrap().into_iter().map(|entry| entry.name);
    names.filter(|name| name.ends_with(".log")).map(|name| Path::new(LOG).join(name)).collect()
}

/// Checks that the database is refused, salvages it, checks it and goes on; tells the report and how many commits are
/// left.
fn check_salvage(sim: &SimEnv) -> (SalvageReport, usize) {
    let error = open(sim).unwrap_err();
    assert!(error.kind() == ErrorKind::Corruption && error.to_string().contains("run spinney salvage /db"), "{error}");
    let changes = sim.write_and_sync_count();
    let told = salvage(sim, SalvageMode::Report).unwrap();
    assert!(told.kept_files.is_empty());
    let only_syncs = sim.write_and_sync_count() - changes;
    assert!(only_syncs <= 4 + 2 * u64::try_from(segments(sim).len()).unwrap() + 8, "{only_syncs}");
    assert!(open(sim).is_err(), "a report changes nothing");
    let report = salvage(sim, SalvageMode::Repair).unwrap();
    let mut without_files = report.clone();
    without_files.kept_files = Vec::new();
    assert_eq!(without_files, told);
    for file in &report.kept_files {
        assert!(!sim.read_file(file).unwrap().is_empty());
    }
    let error = salvage(sim, SalvageMode::Repair).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("nothing to salvage"), "{error}");
    let db = open(sim).unwrap();
    let left = held(&db, "a");
    if report.ahead.is_empty() {
        assert_eq!(held(&db, "b"), left, "commits are there whole");
    }
    assert!(db.verify().unwrap().problems.is_empty());
    commit(&db, left, VALUES.get(left).map_or(7, |bytes| *bytes));
    db.close().unwrap();
    sim.power_crash(CrashProfile::Strict);
    let db = open(sim).unwrap();
    assert_eq!(held(&db, "a"), left + 1, "a commit after the salvage is durable");
    (report, left)
}

#[test]
fn every_flipped_byte_is_harmless_or_told_and_salvaged_to_a_prefix() {
    for opens in [1, 2] {
        let sim = machine(opens);
        let places: Vec<_> = segments(&sim)
            .into_iter()
            .flat_map(|path| {
                let bytes = sim.read_file(&path).unwrap();
                let last = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
                // The header whole, then what is used; zeros in between only now and then.
                let used =
                    move |at: &usize| *at < 72 || at.is_multiple_of(199) || (bytes[*at] != 0 && at.is_multiple_of(23));
                let stride = if path.ends_with("0000000000000001.log") { 7 } else { 15 };
                (0..=last).filter(used).step_by(stride).map(move |at| (path.clone(), at)).collect::<Vec<_>>()
            })
            .collect();
        assert!(places.len() > 150, "{}", places.len());
        let refused = Mutex::new(0);
        let run = |(path, at): (PathBuf, usize)| {
            let fork = sim.fork();
            fork.corrupt(&path, u64::try_from(at).unwrap(), 1 << (at % 8)).unwrap();
            if let Ok(db) = open(&fork) {
                assert_eq!(held(&db, "a"), VALUES.len(), "{} at {at}: a silent loss", path.display());
                return Ok(());
            }
            let (report, left) = check_salvage(&fork);
            assert_eq!(report.file, path, "flip at {at}");
            assert_eq!(left == VALUES.len(), at < 4096, "{} at {at}: {left} are left", path.display());
            assert_eq!(report.is_complete(), at < 4096, "{report:?}");
            assert_eq!(report.kept_commits, u64::try_from(left).unwrap());
            // A damaged header hides nothing.
            assert!(report.durable > report.end || at < 4096, "{report:?}");
            assert!(report.kept_commits + report.lost_commits <= VALUES.len() as u64, "{report:?}");
            // The positions that opens leave out are no bytes.
            let unreadable = report.unreadable_bytes.unwrap();
            assert!(unreadable < 1 << 20 && (unreadable > 0 || at < 4096), "{report:?}");
            *refused.lock().unwrap() += 1;
            Ok(())
        };
        parallel::each(places, run).unwrap_or_else(|message: String| panic!("{message}"));
        assert!(*refused.lock().unwrap() > 100);
    }
}

#[test]
fn a_missing_cut_or_headless_segment_is_salvaged_to_what_is_before_it() {
    let sim = machine(2);
    let all = segments(&sim);
    assert!(all.len() >= 4, "{all:?}");
    for (index, path) in all.iter().enumerate() {
        for how in 0..4 {
            let fork = sim.fork();
            match how {
                0 => fork.remove_file(path).unwrap(),
                1 => fork.truncate(path, 5000).unwrap(),
                2 => fork.write_file(path, &[7; 4096]).unwrap(),
                _ => {
                    let mut bytes = fork.read_file(path).unwrap();
                    bytes[..4096].fill(if index % 2 == 0 { 0 } else { 9 });
                    fork.write_file(path, &bytes).unwrap();
                }
            }
            // A newest segment that is missing and held nothing but the seal of another leaves no trace.
            if let Ok(db) = open(&fork) {
                assert!(how == 0 && index == all.len() - 1, "segment {index}, {how}");
                drop(db);
                continue;
            }
            let (report, left) = check_salvage(&fork);
            assert_eq!(report.file, *path);
            if how == 3 {
                assert!(left == VALUES.len() && report.is_complete(), "segment {index}: the records tell which it is");
                continue;
            }
            assert!(left < VALUES.len() && (index > 0 || left == 0 || how == 1), "segment {index}, {how}: {left}");
            assert_eq!(report.unreadable_bytes, None, "segment {index}, {how}: nobody knows what is missing");
            let lost = report.lost_commits + report.kept_commits;
            assert!(lost <= VALUES.len() as u64 && (index + 1 == all.len() || report.lost_commits > 0), "{report:?}");
        }
    }
}

#[test]
fn a_lost_log_of_which_a_flushed_table_tells_is_told_and_salvaged() {
    let sim = machine(1);
    let db = open(&sim).unwrap();
    db.table("a").unwrap().unwrap().flush().unwrap();
    db.close().unwrap();
    for missing in segments(&sim) {
        sim.remove_file(missing).unwrap();
    }
    for sim in [without_log_directory(&sim), sim] {
        // An open that is refused makes the directory.
        if sim.env().fs.list(Path::new(LOG)).is_ok() {
            let error = open(&sim).unwrap_err();
            assert!(error.kind() == ErrorKind::Corruption, "{error}");
        }
        let report = salvage(&sim, SalvageMode::Repair).unwrap();
        assert_eq!(report.ahead.iter().map(|table| table.name.as_str()).collect::<Vec<_>>(), ["a"]);
        let db = open(&sim).unwrap();
        assert_eq!((held(&db, "a"), held(&db, "b")), (VALUES.len(), 0));
        commit(&db, VALUES.len(), 7);
        drop(db);
        let db = open(&sim).unwrap();
        assert_eq!(held(&db, "a"), VALUES.len() + 1);
    }
}

/// Another machine with the files of the database, but for the directory of the log.
fn without_log_directory(sim: &SimEnv) -> SimEnv {
    let (to, dir) = (SimEnv::new(8), Path::new("/db"));
    to.env().fs.create_dir_all(dir).unwrap();
    for entry in sim.env().fs.list(dir).unwrap().into_iter().filter(|entry| !entry.is_dir) {
        let path = dir.join(entry.name);
        to.write_file(&path, &sim.read_file(&path).unwrap()).unwrap();
    }
    to
}

#[test]
fn a_flushed_table_stays_ahead_of_the_damage_and_new_commits_survive_in_all() {
    let sim = machine(1);
    let db = open(&sim).unwrap();
    db.table("b").unwrap().unwrap().flush().unwrap();
    db.close().unwrap();
    let first = segments(&sim).remove(0);
    sim.corrupt(&first, 4096 + 40, 1).unwrap();
    let (report, left) = {
        assert!(open(&sim).is_err());
        let report = salvage(&sim, SalvageMode::Repair).unwrap();
        let db = open(&sim).unwrap();
        (report, (held(&db, "a"), held(&db, "b")))
    };
    assert!(!report.is_complete());
    assert_eq!(left, (0, VALUES.len()));
    assert_eq!(report.ahead.len(), 1);
    assert!(report.lost.iter().all(|table| table.name == "a" && table.changes > 0), "{report:?}");
    for round in 0..3 {
        let db = open(&sim).unwrap();
        let b = db.table("b").unwrap().unwrap();
        let mut batch = Batch::new();
        batch.put(&b, b"000", format!("new {round}").as_bytes());
        db.write_with(&batch, Durability::Sync).unwrap();
        drop((b, db));
        sim.power_crash(CrashProfile::Strict);
        let db = open(&sim).unwrap();
        let value = db.snapshot().get(&db.table("b").unwrap().unwrap(), b"000").unwrap().unwrap();
        assert_eq!(&*value, format!("new {round}").as_bytes(), "newer than what was ahead");
    }
}

#[test]
fn a_crash_at_any_change_of_a_salvage_leaves_a_log_that_refuses_or_is_salvaged() {
    let sim = machine(2);
    let middle = segments(&sim).remove(1);
    for damage in 0..3 {
        let damaged = sim.fork();
        match damage {
            0 => damaged.corrupt(&middle, 4096 + 30, 1).unwrap(),
            1 => damaged.corrupt(&middle, 20, 1).unwrap(),
            _ => damaged.remove_file(&middle).unwrap(),
        }
        let expected = {
            let fork = damaged.fork();
            let report = salvage(&fork, SalvageMode::Repair).unwrap();
            usize::try_from(report.kept_commits).unwrap()
        };
        let tried = Arc::new(Mutex::new((0, 0)));
        let count = Arc::clone(&tried);
        damaged.observe(Some(Box::new(move |fork| {
            for profile in CrashProfile::EVERY {
                let crashed = fork.fork();
                crashed.power_crash(profile);
                let refuses = match open(&crashed) {
                    Ok(db) => {
                        assert_eq!(held(&db, "a"), expected, "{profile:?}");
                        false
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Corruption, "{error}");
                        let report = salvage(&crashed, SalvageMode::Repair).unwrap();
                        for file in &report.kept_files {
                            assert!(crashed.read_file(file).unwrap().len() > 4096);
                        }
                        assert_eq!(held(&open(&crashed).unwrap(), "a"), expected, "{profile:?}");
                        true
                    }
                };
                let mut count = count.lock().unwrap();
                (count.0, count.1) = (count.0 + u32::from(refuses), count.1 + u32::from(!refuses));
            }
        })));
        salvage(&damaged, SalvageMode::Repair).unwrap();
        damaged.observe(None);
        let (refused, salvaged) = *tried.lock().unwrap();
        assert!(refused > 50 && salvaged > 3, "{refused} {salvaged}");
    }
}

#[test]
fn a_sound_an_open_and_a_missing_database_are_not_salvaged() {
    let sim = machine(1);
    let error = salvage(&sim, SalvageMode::Repair).unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("nothing to salvage"), "{error}");
    let db = open(&sim).unwrap();
    assert_eq!(salvage(&sim, SalvageMode::Report).unwrap_err().kind(), ErrorKind::Locked);
    db.close().unwrap();
    let nowhere = Database::builder("/nowhere").env(sim.env()).salvage(SalvageMode::Repair);
    assert!(nowhere.unwrap_err().to_string().contains("no database"));
}

/// A segment that a copy had cut off behind its last record was refused, and given up whole: "0 commits", though all
/// were there.
#[test]
fn a_segment_that_is_cut_off_loses_what_was_cut_and_nothing_else() {
    let sim = machine(1);
    for path in segments(&sim) {
        let bytes = sim.read_file(&path).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        let is_newest = segments(&sim).last() == Some(&path);
        for cut in [used.next_multiple_of(4096), used, used - 1, used - 40, used / 2, 4200] {
            let fork = sim.fork();
            fork.truncate(&path, u64::try_from(cut).unwrap()).unwrap();
            if cut >= used {
                let db = open(&fork).unwrap();
                assert_eq!((held(&db, "a"), held(&db, "b")), (VALUES.len(), VALUES.len()), "{cut}");
                // What comes after does not use the file again.
                for round in 0..40 {
                    commit(&db, VALUES.len() + round % 2, 60_000);
                }
                for table in db.tables().unwrap() {
                    table.flush().unwrap();
                }
                drop(db);
                drop(open(&fork).unwrap());
                continue;
            }
            let (report, left) = check_salvage(&fork);
            assert_eq!(report.kept_commits, u64::try_from(left).unwrap());
            if is_newest {
                // The end mark alone was cut off, or perhaps the last commit.
                assert!(left + 1 >= VALUES.len() || cut < used - 40, "{cut} of {used}: {left}");
                assert_eq!((report.lost_commits, report.unreadable_bytes), (0, None), "{report:?}");
            }
        }
    }
}

#[test]
fn a_manifest_with_a_flipped_bit_is_refused_and_written_anew_from_its_copy() {
    let sim = machine(2);
    let db = open(&sim).unwrap();
    db.table("a").unwrap().unwrap().flush().unwrap();
    db.table("b").unwrap().unwrap().compact().unwrap();
    let options = TableOptions::default().layout(Layout::LsmTiered).large_value_bytes(64);
    let c = db.create_table("c", options).unwrap();
    for from in [0u8, 30] {
        let mut batch = Batch::new();
        (from..from + 40).for_each(|key| batch.put(&c, [key], [key; 100]));
        db.write_with(&batch, Durability::Sync).unwrap();
        c.flush().unwrap();
    }
    let mut batch = Batch::new();
    batch.delete_range(&c, [20u8].as_slice()..[25].as_slice());
    db.write_with(&batch, Durability::Sync).unwrap();
    c.flush().unwrap();
    let all = |db: &Database| {
        let (c, snapshot) = (db.table("c").unwrap().unwrap(), db.snapshot());
        snapshot.range(&c, ..).map(|entry| entry.unwrap().0).collect::<Vec<_>>()
    };
    let expected = all(&db);
    assert_eq!(expected.len(), 65);
    drop((c, db));
    let names: Vec<_> = sim.env().fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect();
    let of_manifest = |name: &&String| name.ends_with(".manifest") || *name == "CURRENT";
    let mut salvaged = 0;
    for path in names.iter().filter(of_manifest).map(|name| Path::new("/db").join(name)) {
        // Zeros behind the records of a manifest are room for more.
        let bytes = sim.read_file(&path).unwrap();
        for at in 0..=bytes.iter().rposition(|byte| *byte != 0).unwrap() {
            let fork = sim.fork();
            fork.corrupt(&path, u64::try_from(at).unwrap(), 1 << (at % 8)).unwrap();
            let error = open(&fork).unwrap_err();
            assert!(error.kind() == ErrorKind::Corruption, "{error}");
            assert!(error.to_string().contains("run spinney salvage /db"), "{error}");
            let copied = Database::builder("/db").env(fork.env()).salvage_to("/copy", |_| ()).unwrap();
            assert!(copied.is_complete() && copied.mended.is_some(), "{copied:?}");
            let copy = Database::builder("/copy").env(fork.env()).open().unwrap();
            assert_eq!((held(&copy, "a"), held(&copy, "b")), (VALUES.len(), VALUES.len()));
            assert_eq!(all(&copy), expected);
            drop(copy);
            let told = salvage(&fork, SalvageMode::Report).unwrap();
            assert!(open(&fork).is_err(), "a report changes nothing");
            let report = salvage(&fork, SalvageMode::Repair).unwrap();
            assert_eq!(report, told);
            assert!(report.is_complete() && report.manifest.is_some(), "{report:?}");
            fork.power_crash(CrashProfile::Strict);
            let db = open(&fork).unwrap();
            assert_eq!((held(&db, "a"), held(&db, "b")), (VALUES.len(), VALUES.len()));
            assert_eq!(all(&db), expected);
            assert!(db.verify().unwrap().problems.is_empty());
            salvaged += 1;
        }
    }
    assert!(salvaged > 200, "{salvaged}");
}

#[test]
fn a_manifest_and_a_log_that_are_damaged_both_are_salvaged_both() {
    let sim = machine(1);
    let first = segments(&sim).remove(0);
    sim.corrupt(&first, 4096 + 40, 1).unwrap();
    let names: Vec<_> = sim.env().fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name).collect();
    let manifest = names.iter().find(|name| name.ends_with(".manifest")).unwrap();
    sim.corrupt(Path::new("/db").join(manifest), 60, 1).unwrap();
    let report = salvage(&sim, SalvageMode::Repair).unwrap();
    assert!(report.manifest.is_some() && report.lost_commits > 0 && report.file == first, "{report:?}");
    assert_eq!(held(&open(&sim).unwrap(), "a"), 0);
}
