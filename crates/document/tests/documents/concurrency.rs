//! Threads that write while indexes are built and dropped: constraints hold, and each index agrees with its collection.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use spinney::{Durability, Options};
use spinney_document::{Database, doc};
use spinney_testkit::Rng;

use crate::collections::{entries, json};

fn open(dir: &tempfile::TempDir) -> Database {
    let options = Options::default().memory_bytes(64 << 20).durability(Durability::Buffered);
    Database::open(dir.path().join("db"), options).unwrap()
}

/// Inserts, replaces and removes documents with few `_id`s until told to stop.
fn write(db: &Database, seed: u64, stop: &AtomicBool) -> usize {
    let (mut rng, mut done) = (Rng::new(seed), 0);
    let collection = db.collection("t.items").unwrap().unwrap();
    while !stop.load(Ordering::Relaxed) {
        let id = i64::try_from(rng.in_range(0..300)).unwrap();
        let value = rng.in_range(0..50);
        let document = json(&format!(r#"{{"_id":{id},"a":{value},"b":[{value},{}]}}"#, rng.in_range(0..5)));
        let outcome = match rng.in_range(0..3) {
            0 => collection.insert_one(document.view()).map(drop),
            1 => collection.replace_by_id(id, document.view()).map(drop),
            _ => collection.delete_by_id(id).map(drop),
        };
        match outcome {
            Ok(()) => done += 1,
            Err(error) => assert_eq!(error.code().number(), 11000, "{error}"),
        }
    }
    done
}

#[test]
fn indexes_are_built_and_dropped_while_writers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    db.create_collection("t.items", doc! {}.view()).unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let writers: Vec<_> = (0..3).map(|seed| (seed, &db, &stop)).collect();
        let writers: Vec<_> =
            writers.into_iter().map(|(seed, db, stop)| scope.spawn(move || write(db, seed, stop))).collect();
        for round in 0..25 {
            let specs = [
                json(r#"{"key":{"a":1,"_id":-1},"name":"a"}"#),
                json(r#"{"key":{"b":1},"name":"b"}"#),
                json(r#"{"key":{"_id":1,"a":1},"name":"u","unique":true}"#),
            ];
            assert_eq!(db.create_indexes("t.items", &specs).unwrap(), 3, "round {round}");
            let collection = db.collection("t.items").unwrap().unwrap();
            entries(&collection);
            db.rename_collection("t.items", "t.moved", false).unwrap();
            db.rename_collection("t.moved", "t.items", false).unwrap();
            for name in ["a", "b", "u"] {
                db.drop_indexes("t.items", name).unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        for writer in writers {
            assert!(writer.join().unwrap() > 0);
        }
    });
}

#[test]
fn of_threads_that_insert_one_key_one_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir);
    let unique = json(r#"{"key":{"u":1},"name":"u","unique":true}"#);
    db.create_indexes("t.items", &[unique]).unwrap();
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let collection = db.collection("t.items").unwrap().unwrap();
                for value in 0..300 {
                    match collection.insert_one(doc! {"u": value}.view()) {
                        Ok(_) => _ = inserted.fetch_add(1, Ordering::Relaxed),
                        Err(error) => assert_eq!(error.code().number(), 11000, "{error}"),
                    }
                }
            });
        }
    });
    assert_eq!(inserted.load(Ordering::Relaxed), 300);
    assert_eq!(entries(&db.collection("t.items").unwrap().unwrap()), "u=300");
}
