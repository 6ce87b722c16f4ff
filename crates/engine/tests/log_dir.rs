//! A redo log in a directory of its own: found again, moved by hand, never shared, and whole after a crash at any
//! change of the disk.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, ErrorKind, Options, ReplayProgress, Result, TableOptions};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

fn options(log_dir: Option<&str>) -> Options {
    Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10).log_dir(log_dir.map(Into::into))
}

fn open(sim: &SimEnv, path: &str, log_dir: Option<&str>) -> Result<Database> {
    Database::builder(path).env(sim.env()).options(options(log_dir)).open()
}

fn put(db: &Database, key: &str) {
    let table = db.table("t").unwrap().unwrap_or_else(|| db.create_table("t", TableOptions::default()).unwrap());
    let mut batch = Batch::new();
    batch.put(&table, key.as_bytes(), b"value");
    db.write_with(&batch, Durability::Sync).unwrap();
}

fn keys(db: &Database) -> Vec<String> {
    let Some(table) = db.table("t").unwrap() else { return Vec::new() };
    let snapshot = db.snapshot();
    snapshot.range(&table, ..).map(|entry| String::from_utf8(entry.unwrap().0.to_vec()).unwrap()).collect()
}

/// The files of a directory and what is in them; nothing when there is no such directory. Locks are left out: they are
/// no content.
fn content(sim: &SimEnv, dir: &str) -> Vec<(String, Vec<u8>)> {
    let entries = sim.env().fs.list(Path::new(dir)).unwrap_or_default();
    let files = entries.into_iter().filter(|entry| !entry.is_dir && entry.name != "LOCK");
    files.map(|entry| (entry.name.clone(), sim.read_file(Path::new(dir).join(&entry.name)).unwrap())).collect()
}

fn rename_all(sim: &SimEnv, from: &str, to: &str) {
    let fs = sim.env().fs;
    fs.create_dir_all(Path::new(to)).unwrap();
    for entry in fs.list(Path::new(from)).unwrap() {
        fs.rename(&Path::new(from).join(&entry.name), &Path::new(to).join(&entry.name)).unwrap();
    }
}

/// An open that must be refused as wrong use, and changes nothing in the directories.
fn refused(sim: &SimEnv, path: &str, log_dir: Option<&str>, expected: &str) {
    let dirs = ["/db", "/db/log", "/other", "/other/log", "/fast/log", "/new/log"];
    let before = dirs.map(|dir| content(sim, dir));
    let error = open(sim, path, log_dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains(expected), "{error}");
    assert_eq!(dirs.map(|dir| content(sim, dir)), before, "{error}");
}

#[test]
fn a_log_directory_is_remembered_and_used_for_everything() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db", Some("/fast/log")).unwrap();
    put(&db, "a");
    drop(db);
    for (number, log_dir) in [None, Some("/fast/log"), None].into_iter().enumerate() {
        let db = open(&sim, "/db", log_dir).unwrap();
        assert_eq!(keys(&db).len(), 1 + number);
        put(&db, &format!("b{number}"));
        assert_eq!(db.verify().unwrap().problems, vec![]);
        db.close().unwrap();
    }
    assert!(sim.env().fs.list(Path::new("/db/log")).is_err(), "nothing is at the default place");
    assert!(content(&sim, "/fast/log").iter().any(|(name, _)| name.ends_with(".log")));
    // A copy has a log of its own.
    let db = open(&sim, "/db", None).unwrap();
    db.checkpoint("/copy").unwrap();
    let copy = open(&sim, "/copy", None).unwrap();
    assert_eq!(keys(&copy), keys(&db));
    put(&copy, "c");
    assert!(!content(&sim, "/copy/log").is_empty());
    let log = content(&sim, "/fast/log").into_iter().map(|(name, _)| name).rfind(|name| name.ends_with(".log"));
    sim.remove_file(Path::new("/fast/log").join(log.unwrap())).unwrap();
    let problems = db.verify().unwrap().problems;
    assert!(problems.len() == 1 && problems[0].what.contains("/fast/log/"), "{problems:?}");
}

#[test]
fn a_log_directory_that_is_missing_or_empty_is_told_and_nothing_is_changed() {
    let sim = SimEnv::new(2);
    let db = open(&sim, "/db", Some("/fast/log")).unwrap();
    put(&db, "a");
    db.close().unwrap();
    // Like a mount point whose disk is not mounted.
    rename_all(&sim, "/fast/log", "/away");
    refused(&sim, "/db", None, "holds no redo log: mount its disk");
    refused(&sim, "/db", Some("/fast/log"), "holds no redo log: mount its disk");
    refused(&sim, "/db", Some("/new/log"), "/new/log: the redo log of the database is not there but in /fast/log");
    rename_all(&sim, "/away", "/fast/log");
    assert_eq!(keys(&open(&sim, "/db", None).unwrap()), ["a"]);
}

#[test]
fn a_log_that_was_moved_is_found_and_its_new_place_is_remembered() {
    for (from, to) in [(Some("/fast/log"), "/new/log"), (None, "/new/log"), (Some("/fast/log"), "/db/log")] {
        let sim = SimEnv::new(3);
        let db = open(&sim, "/db", from).unwrap();
        put(&db, "a");
        db.close().unwrap();
        let old = from.unwrap_or("/db/log");
        refused(&sim, "/db", Some(to), "not there but in");
        rename_all(&sim, old, to);
        if from.is_some() {
            refused(&sim, "/db", None, "give the new place as log_dir if the log was moved");
        }
        let db = open(&sim, "/db", Some(to)).unwrap();
        assert_eq!(keys(&db), ["a"]);
        put(&db, "b");
        drop(db);
        assert_eq!(keys(&open(&sim, "/db", None).unwrap()), ["a", "b"], "{from:?} to {to}");
    }
}

#[test]
fn of_two_logs_of_one_database_none_is_taken_without_asking() {
    let sim = SimEnv::new(4);
    let db = open(&sim, "/db", Some("/fast/log")).unwrap();
    put(&db, "a");
    db.close().unwrap();
    sim.env().fs.create_dir_all(Path::new("/new/log")).unwrap();
    for (name, bytes) in content(&sim, "/fast/log") {
        sim.write_file(Path::new("/new/log").join(name), &bytes).unwrap();
    }
    let db = open(&sim, "/db", None).unwrap();
    put(&db, "b");
    db.close().unwrap();
    refused(&sim, "/db", Some("/new/log"), "both hold a redo log of the database");
    assert_eq!(keys(&open(&sim, "/db", None).unwrap()), ["a", "b"]);
}

#[test]
fn two_databases_never_share_a_log_directory() {
    let sim = SimEnv::new(5);
    let db = open(&sim, "/db", Some("/fast/log")).unwrap();
    put(&db, "a");
    refused(&sim, "/other", Some("/fast/log"), "give another");
    db.close().unwrap();
    refused(&sim, "/other", Some("/fast/log"), "give another");
    let other = open(&sim, "/other", None).unwrap();
    put(&other, "x");
    refused(&sim, "/db", Some("/other/log"), "belongs to another database");
    other.close().unwrap();
    refused(&sim, "/other", Some("/fast/log"), "belongs to another database");
    // One that has no segment there yet is kept away by its lock.
    let fs = sim.env().fs;
    fs.create_dir_all(Path::new("/third")).unwrap();
    let lock = fs.lock(Path::new("/third/LOCK")).unwrap();
    let error = open(&sim, "/new", Some("/third")).unwrap_err();
    assert_eq!((error.kind(), error.to_string().contains("of its own")), (ErrorKind::Locked, true), "{error}");
    drop(lock);
    drop(open(&sim, "/new", Some("/third")).unwrap());
    refused(&sim, "/fourth", Some("/fourth/sub"), "inside the database's directory");
    assert_eq!(keys(&open(&sim, "/db", None).unwrap()), ["a"]);
}

#[test]
fn a_crash_at_any_change_of_the_first_open_leaves_a_database_or_none() {
    for profile in CrashProfile::EVERY {
        let sim = SimEnv::new(6);
        let (acknowledged, points) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (kept, count) = (Arc::clone(&acknowledged), Arc::clone(&points));
        sim.observe(Some(Box::new(move |fork| {
            fork.power_crash(profile);
            let at = count.fetch_add(1, Ordering::Relaxed);
            let check = |log_dir: Option<&str>| {
                let db =
                    open(&fork, "/db", log_dir).unwrap_or_else(|error| panic!("{profile:?}, change {at}: {error}"));
                assert!(keys(&db).len() >= kept.load(Ordering::Relaxed), "{profile:?}, change {at}");
                db.close().unwrap();
            };
            check(Some("/fast/log"));
            // Once that open succeeded the manifest names it.
            check(None);
            assert!(fork.env().fs.list(Path::new("/db/log")).is_err(), "{profile:?}, change {at}");
        })));
        let db = open(&sim, "/db", Some("/fast/log")).unwrap();
        for key in ["a", "b"] {
            put(&db, key);
            acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        sim.observe(None);
        assert!(points.load(Ordering::Relaxed) > 15);
    }
}

#[test]
fn a_crash_at_any_change_of_the_open_after_a_move_loses_nothing() {
    for profile in CrashProfile::EVERY {
        let sim = SimEnv::new(7);
        let db = open(&sim, "/db", None).unwrap();
        put(&db, "a");
        db.close().unwrap();
        rename_all(&sim, "/db/log", "/new/log");
        let moved = Arc::new(AtomicUsize::new(0));
        sim.env().fs.sync_dir(Path::new("/new/log")).unwrap();
        sim.env().fs.sync_dir(Path::new("/db/log")).unwrap();
        let count = Arc::clone(&moved);
        sim.observe(Some(Box::new(move |fork| {
            fork.power_crash(profile);
            let db = open(&fork, "/db", Some("/new/log")).unwrap_or_else(|error| panic!("{profile:?}: {error}"));
            assert_eq!(keys(&db), ["a"], "{profile:?}");
            db.close().unwrap();
            assert_eq!(keys(&open(&fork, "/db", None).unwrap()), ["a"], "{profile:?}");
            count.fetch_add(1, Ordering::Relaxed);
        })));
        let db = open(&sim, "/db", Some("/new/log")).unwrap();
        sim.observe(None);
        assert_eq!(keys(&db), ["a"]);
        assert!(moved.load(Ordering::Relaxed) > 10);
    }
}

#[test]
fn a_replay_tells_how_far_it_is_from_the_beginning_to_the_end() {
    let sim = SimEnv::new(8);
    let replay = |sim: &SimEnv| {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let builder = Database::builder("/db").env(sim.env()).options(options(None).memory_bytes(64 << 20));
        let db = builder
            .on_replay(move |now: ReplayProgress| seen.lock().unwrap().push((now.bytes, now.bytes_total)))
            .open();
        let told = told.lock().unwrap().clone();
        (db.unwrap(), told)
    };
    let (db, told) = replay(&sim);
    assert_eq!(told, [], "a new database has nothing to replay");
    let table = db.create_table("t", TableOptions::default()).unwrap();
    for round in 0..2 {
        for number in 0..50_u32 {
            let mut batch = Batch::new();
            batch.put(&table, number.to_be_bytes(), vec![round; 100_000]);
            db.write_with(&batch, Durability::Buffered).unwrap();
        }
    }
    db.close().unwrap();
    drop(table);
    let (db, told) = replay(&sim);
    let total = told[0].1;
    assert_eq!((told[0], *told.last().unwrap()), ((0, total), (total, total)));
    assert!(told.is_sorted() && told.iter().all(|now| now.1 == total), "{told:?}");
    assert!((10_000_000..11_000_000).contains(&total) && (9..=12).contains(&told.len()), "{told:?}");
    let stats = db.stats().log;
    assert!(stats.bytes_replayed >= 10_000_000, "{stats:?}");
}
