//! Databases of more tables than may have descriptors.

use crate::base::ErrorKind;
use crate::db::{Batch, Database, Durability, Options};
use crate::env::DESCRIPTORS_MAX;
use crate::env::sim::{CrashProfile, SimEnv};
use crate::table::{Layout, TableOptions};

/// More than there are descriptors.
const TABLES: usize = DESCRIPTORS_MAX + 100;

fn open(sim: &SimEnv) -> Database {
    let options = Options { memory_bytes: 16 << 20, log_segment_bytes: 256 << 10, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn wanted(layout: Layout, count: usize) -> impl Iterator<Item = (String, TableOptions)> {
    (0..count).map(move |number| (format!("t{number}"), TableOptions { layout, ..TableOptions::default() }))
}

/// Puts `value` into each table.
fn fill(db: &Database, value: u8) {
    let mut batch = Batch::new();
    db.tables().unwrap().iter().for_each(|table| batch.put(table, table.name(), [value]));
    db.write_with(&batch, Durability::Sync).unwrap();
}

fn assert_all_have(db: &Database, value: u8) {
    let snapshot = db.snapshot();
    for table in db.tables().unwrap() {
        assert_eq!(snapshot.get(&table, table.name()).unwrap().as_deref(), Some(&[value][..]), "{}", table.name());
    }
}

#[test]
fn tables_are_created_together_or_not_at_all() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    for (names, kind) in [(["a", "b", "a"], ErrorKind::AlreadyExists), (["a", "b", ""], ErrorKind::Invalid)] {
        let created = db.create_tables(names.map(|name| (name, TableOptions::default())));
        assert_eq!(created.unwrap_err().kind(), kind);
        assert!(db.tables().unwrap().is_empty());
    }
    assert!(db.create_tables(Vec::<(String, TableOptions)>::new()).unwrap().is_empty());
    let tables = db.create_tables(["a", "b"].map(|name| (name, TableOptions::default()))).unwrap();
    assert_eq!(
        db.create_tables([("c", TableOptions::default()), ("b", TableOptions::default())]).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(db.drop_tables(["a", "c"]).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(db.drop_tables(["a", "a"]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(db.tables().unwrap().len(), 2);
    db.drop_tables(["b", "a"]).unwrap();
    assert!(db.tables().unwrap().is_empty());
    assert_eq!(tables[0].put("k", "v").unwrap_err().kind(), ErrorKind::Dropped);
}

#[test]
fn a_power_failure_leaves_all_tables_that_were_created_or_dropped_together_or_none() {
    let sim = SimEnv::new(1);
    drop(open(&sim));
    let (mut some, mut none) = (false, false);
    for (at, profile) in (0..60).zip(CrashProfile::EVERY.into_iter().cycle()) {
        let sim = sim.fork();
        let db = open(&sim);
        let begun = sim.write_and_sync_count();
        sim.crash_at(begun + at);
        let created = db.create_tables(wanted(Layout::BTree, 20));
        let dropped = created.and_then(|_| db.drop_tables((0..10).map(|number| format!("t{number}"))));
        drop(db);
        let is_through = dropped.is_ok();
        sim.power_crash(profile);
        let count = open(&sim).tables().unwrap().len();
        assert!([0, 10, 20].contains(&count) && (!is_through || count == 10), "{count} tables after a crash at {at}");
        (some, none) = (some | (count == 20), none | (count == 0));
    }
    assert!(some && none);
}

#[test]
fn more_tables_than_descriptors_are_read_written_and_dropped() {
    for layout in [Layout::Lsm, Layout::BTree] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let files = || db.core().state.files.descriptors();
        db.create_tables(wanted(layout, TABLES)).unwrap();
        assert_eq!(files(), 0, "a table without data has no file");
        fill(&db, 1);
        for table in db.tables().unwrap() {
            table.flush().unwrap();
        }
        assert!(files() <= DESCRIPTORS_MAX);
        assert_all_have(&db, 1);
        db.close().unwrap();
        let db = open(&sim);
        let files = || db.core().state.files.descriptors();
        assert_eq!(files(), 0, "none is opened before it is used");
        assert_all_have(&db, 1);
        assert!(files() > 0 && files() <= DESCRIPTORS_MAX);
        let before = db.snapshot();
        fill(&db, 2);
        for table in db.tables().unwrap() {
            table.flush().unwrap();
            table.compact().unwrap();
        }
        assert_all_have(&db, 2);
        let table = db.table("t7").unwrap().unwrap();
        assert_eq!(before.get(&table, "t7").unwrap().as_deref(), Some(&[1][..]));
        assert_eq!(db.verify().unwrap().problems, []);
        drop(before);
        db.drop_tables((0..TABLES - 3).map(|number| format!("t{number}"))).unwrap();
        assert_all_have(&db, 2);
        assert_eq!(db.verify().unwrap().problems, []);
        db.close().unwrap();
        let db = open(&sim);
        assert_eq!(db.tables().unwrap().len(), 3);
        assert_all_have(&db, 2);
    }
}
