//! Crashes at changes of the disk while a capped collection gets documents: what is left are its newest ones up to the
//! last insert that was acknowledged, or one behind it, and each index agrees with them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney_document::collection::WriteOptions;
use spinney_document::{Database, doc};
use spinney_testkit::{Rng, parallel};

use super::model::{INDEXES, id_of};
use super::open;
use crate::collections::json;

const NAME: &str = "t.capped";

/// The most documents of the collection.
const DOCUMENTS_MAX: i64 = 10;

/// The inserts so far. Documents have the numbers from one on as `_id`.
#[derive(Debug, Default)]
struct Progress {
    acknowledged: i64,
    begun: i64,
    crashes: u64,
    failure: Option<String>,
}

/// Checks the collection; the number of its newest document.
fn check(db: &Database, acknowledged: i64, begun: i64) -> i64 {
    let collection = db.collection(NAME).unwrap().unwrap();
    let validation = collection.validate().unwrap();
    assert!(validation.is_valid(), "{validation:?}");
    let ids: Vec<i64> = collection.documents().map(|document| id_of(&document.unwrap())).collect();
    let newest = ids.last().copied().unwrap_or_default();
    assert!((acknowledged..=begun).contains(&newest), "{acknowledged} to {begun}: {ids:?}");
    assert_eq!(ids, ((newest - DOCUMENTS_MAX + 1).max(1)..=newest).collect::<Vec<_>>());
    newest
}

fn insert(db: &Database, first: i64, count: i64) {
    let documents: Vec<_> = (first..first + count).map(|id| doc! {"_id": id, "a": id % 4}).collect();
    let views = documents.iter().map(|document| document.view());
    let collection = db.collection(NAME).unwrap().unwrap();
    let inserted = collection.insert_many(views, true, WriteOptions::default()).unwrap();
    assert!(inserted.errors.is_empty());
}

/// Crashes a fork of the machine, looks at what is left, and goes on.
fn examine(fork: &SimEnv, seed: u64, point: u64, progress: &Progress) {
    let mut rng = Rng::new(seed ^ point.wrapping_mul(0x2545_f491_4f6c_dd1d));
    fork.reseed(rng.number());
    fork.power_crash(*rng.pick(&CrashProfile::EVERY));
    let db = open(fork, seed).unwrap();
    let newest = check(&db, progress.acknowledged, progress.begun);
    insert(&db, newest + 1, 1);
    check(&db, newest + 1, newest + 1);
}

/// Inserts by the random numbers of a seed, and crashes one of three changes of the disk; how many that were.
fn run(seed: u64) -> Result<u64, String> {
    let machine = SimEnv::new(seed);
    machine.set_lazy_workers(seed.is_multiple_of(3));
    let db = open(&machine, seed).unwrap();
    let options = doc! {"capped": true, "size": 1 << 20, "max": DOCUMENTS_MAX};
    db.create_collection(NAME, options.view()).unwrap();
    db.create_indexes(NAME, &[json(INDEXES[0])]).unwrap();
    let progress = Arc::new(Mutex::new(Progress::default()));
    let seen = Arc::clone(&progress);
    machine.observe(Some(Box::new(move |fork| {
        let point = fork.write_and_sync_count();
        let mut progress = seen.lock().unwrap();
        if point % 3 != seed % 3 || progress.failure.is_some() {
            return;
        }
        progress.crashes += 1;
        let examined = catch_unwind(AssertUnwindSafe(|| examine(&fork, seed, point, &progress)));
        if let Err(panic) = examined {
            let what = spinney_testkit::engine::panic_message(&*panic);
            progress.failure = Some(format!("seed {seed}, change {point}, {progress:?}: {what}"));
        }
    })));
    let mut rng = Rng::new(!seed);
    let mut next = 1;
    for _ in 0..40 {
        let count = if rng.chance(30) { i64::try_from(rng.in_range(2..25)).unwrap() } else { 1 };
        progress.lock().unwrap().begun = next + count - 1;
        if rng.chance(30) {
            let _has_worked = machine.work(rng.number());
        }
        insert(&db, next, count);
        next += count;
        progress.lock().unwrap().acknowledged = next - 1;
    }
    machine.observe(None);
    check(&db, next - 1, next - 1);
    drop(db);
    let mut progress = progress.lock().unwrap();
    progress.failure.take().map_or(Ok(progress.crashes), Err)
}

#[test]
fn every_crash_leaves_the_newest_documents_of_a_capped_collection() {
    parallel::each(0..8, |seed| {
        let crashes = run(seed)?;
        if crashes == 0 { Err(format!("seed {seed}: no change of the disk")) } else { Ok(()) }
    })
    .unwrap_or_else(|what: String| panic!("{what}"));
}
