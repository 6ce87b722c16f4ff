//! Counts of documents: after a restart they are known, and right.

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Durability, Options};
use spinney_document::bson::DocumentBuf;
use spinney_document::catalog::adopt;
use spinney_document::collection::WriteOptions;
use spinney_document::{Collection, Database, doc};
use spinney_testkit::interrupt::{PATIENCE, at_call};

/// A database with little log, whose commits are buffered.
fn open(machine: &SimEnv, dir: &str, keeps_log: bool) -> Database {
    let mut options = Options::default().durability(Durability::Buffered).log_segment_bytes(64 << 10);
    if keeps_log {
        options = options.log_keep_bytes(1 << 20);
    }
    Database::with_engine(spinney::Database::builder(dir).options(options).env(machine.env()).open().unwrap()).unwrap()
}

fn fill(collection: &Collection, ids: std::ops::Range<i64>) {
    let documents: Vec<DocumentBuf> = ids.map(|id| doc! {"_id": id, "text": &"x".repeat(100)}).collect();
    collection.insert_many(documents.iter().map(DocumentBuf::view), true, WriteOptions::default()).unwrap();
}

/// The count of a collection, and whether it was known without a look at the documents.
fn count(db: &Database, name: &str) -> (u64, bool) {
    let seeks = || db.engine().stats().reads.seeks;
    let before = seeks();
    let count = db.collection(name).unwrap().unwrap().count().unwrap();
    (count, seeks() == before)
}

fn assert_valid(db: &Database, name: &str) {
    let validation = db.collection(name).unwrap().unwrap().validate().unwrap();
    assert!(validation.is_valid(), "{validation:?}");
}

/// Two collections, of which one lost documents again.
fn begin(machine: &SimEnv, keeps_log: bool) -> Database {
    let db = open(machine, "/db", keeps_log);
    let (all, some) = (db.collection_or_create("app.all").unwrap(), db.collection_or_create("app.some").unwrap());
    fill(&all, 0..1000);
    fill(&some, 0..50);
    (0..20).for_each(|id| assert!(some.delete_by_id(id).unwrap()));
    db
}

#[test]
fn a_database_that_was_closed_knows_its_counts() {
    for keeps_log in [false, true] {
        let machine = SimEnv::new(1);
        drop(begin(&machine, keeps_log));
        for _ in 0..3 {
            let db = open(&machine, "/db", keeps_log);
            assert_eq!((count(&db, "app.all"), count(&db, "app.some")), ((1000, true), (30, true)));
            assert_valid(&db, "app.all");
        }
        let read_only = spinney::Database::builder("/db").env(machine.env()).open_read_only().unwrap();
        assert_eq!(count(&Database::with_engine(read_only).unwrap(), "app.some"), (30, true));
        let db = open(&machine, "/db", keeps_log);
        db.engine().flush().unwrap();
        fill(&db.collection("app.some").unwrap().unwrap(), 100..200);
        drop(db);
        assert_eq!(count(&open(&machine, "/db", keeps_log), "app.some"), (130, true));
    }
}

#[test]
fn a_database_that_was_killed_knows_its_counts_by_its_log() {
    for keeps_log in [false, true] {
        let machine = SimEnv::new(1);
        drop(begin(&machine, keeps_log));
        for round in 0..5_u64 {
            let db = open(&machine, "/db", keeps_log);
            let before = 30 + round * 50;
            assert_eq!(count(&db, "app.some"), (before, true));
            assert_valid(&db, "app.some");
            let (number, name) = (i64::try_from(round).unwrap(), format!("app.{round}"));
            let some = db.collection("app.some").unwrap().unwrap();
            fill(&some, 1000 * (number + 1)..1000 * (number + 1) + 60);
            (0..10).for_each(|id| assert!(some.delete_by_id(1000 * (number + 1) + id).unwrap()));
            fill(&db.collection_or_create(&name).unwrap(), 0..10);
            db.engine().sync().unwrap();
            machine.process_crash();
            drop(db);
            let db = open(&machine, "/db", keeps_log);
            assert_eq!(count(&db, "app.all"), (1000, true));
            assert_eq!(count(&db, &name), (10, true));
            assert_valid(&db, &name);
        }
    }
}

#[test]
fn counts_are_stored_again_when_the_log_before_is_given_up() {
    let machine = SimEnv::new(1);
    let db = begin(&machine, false);
    let some = db.collection("app.some").unwrap().unwrap();
    for round in 1..20 {
        fill(&some, 1000 * round..1000 * round + 100);
        db.engine().flush().unwrap();
    }
    fill(&some, 100_000..100_001);
    db.engine().sync().unwrap();
    machine.power_crash(CrashProfile::Strict);
    drop(db);
    let db = open(&machine, "/db", false);
    assert_eq!(count(&db, "app.some"), (1931, true));
    assert_valid(&db, "app.some");
}

#[test]
fn a_copy_counts_for_itself() {
    let machine = SimEnv::new(1);
    drop(begin(&machine, true));
    let db = open(&machine, "/db", true);
    let some = db.collection("app.some").unwrap().unwrap();
    db.engine().checkpoint("/copy").unwrap();
    fill(&some, 100..200);
    for _ in 0..2 {
        let copy = open(&machine, "/copy", true);
        fill(&copy.collection("app.all").unwrap().unwrap(), 5000..5001);
        assert_eq!(copy.collection("app.some").unwrap().unwrap().count().unwrap(), 30);
        assert_valid(&copy, "app.all");
        assert!(copy.collection("app.all").unwrap().unwrap().delete_by_id(5000).unwrap());
    }
    assert_eq!(some.count().unwrap(), 130);
}

#[test]
fn a_copy_for_a_member_knows_the_counts_of_its_moment() {
    let machine = SimEnv::new(2);
    let db = begin(&machine, true);
    let some = db.collection("app.some").unwrap().unwrap();
    let mut first = Some(db.catalog().begin_copy().unwrap());
    fill(&some, 100..200);
    fill(&db.collection_or_create("app.new").unwrap(), 0..5);
    db.collection_or_create("app.empty").unwrap();
    let mut ids = (1000..).step_by(10);
    for place in 0.. {
        let dir = format!("/copy-{place}");
        let copying = first.take().unwrap_or_else(|| db.catalog().begin_copy().unwrap());
        let from = ids.next().unwrap();
        let copied = at_call(&machine, (place, PATIENCE), || copying.checkpoint(&dir), || fill(&some, from..from + 10));
        let engine = spinney::Database::builder(&dir).env(machine.env()).open().unwrap();
        adopt(&engine, &copied.worked.unwrap()).unwrap();
        engine.close().unwrap();
        for _ in 0..2 {
            let copy = open(&machine, &dir, true);
            assert_eq!((count(&copy, "app.all"), count(&copy, "app.new")), ((1000, true), (5, true)));
            assert_eq!(count(&copy, "app.empty"), (0, true));
            let (count, is_known) = count(&copy, "app.some");
            assert!(is_known && (count % 10 == 0), "{count}");
            assert_valid(&copy, "app.some");
        }
        if copied.acted.is_none() {
            break;
        }
    }
}

#[test]
fn validate_reports_a_wrong_count_and_a_repair_puts_it_right() {
    // The check changed what it checked: it reported the wrong count once, and had put it right.
    let machine = SimEnv::new(1);
    let db = begin(&machine, false);
    let table = db.engine().tables().unwrap().into_iter().find(|table| table.name().starts_with("c-")).unwrap();
    let (key, _) = table.first().unwrap().unwrap();
    table.delete(&key).unwrap();
    let all = db.collection("app.all").unwrap().unwrap();
    assert_eq!(all.count().unwrap(), 1000);
    for _ in 0..2 {
        let told = all.validate().unwrap().problems;
        assert_eq!(told, ["there are 999 documents, and the stored count says 1000"]);
        assert_eq!(all.count().unwrap(), 1000);
    }
    let repair = db.repair("app.all", &mut |_| Ok(())).unwrap();
    assert_eq!((repair.has_changed(), repair.before.wrong_count), (true, Some(1000)));
    assert_valid(&db, "app.all");
    drop((all, table, db));
    assert_eq!(count(&open(&machine, "/db", false), "app.all"), (999, true));
}
