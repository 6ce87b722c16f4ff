//! Tables without redo log: what their commits cost, what makes them durable, and how they stand beside logged tables.

use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Lsn, Options, Table, TableOptions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(64 << 20).log_segment_bytes(64 << 10).log_bytes_max(128 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a database")
}

/// The database, a logged and an unlogged table.
fn opened(sim: &SimEnv, layout: Layout) -> (Database, Table, Table) {
    let db = open(sim);
    let table = |name, logged| match db.table(name).expect("an open database") {
        Some(table) => table,
        None => db.create_table(name, TableOptions::default().layout(layout).logged(logged)).expect("a table"),
    };
    let (logged, unlogged) = (table("logged", true), table("unlogged", false));
    (db, logged, unlogged)
}

fn put(db: &Database, tables: &[&Table], key: &[u8], durability: Durability) {
    let mut batch = Batch::new();
    tables.iter().for_each(|table| batch.put(table, key, b"value"));
    db.write_with(&batch, durability).expect("a commit");
}

fn has(db: &Database, table: &Table, key: &[u8]) -> bool {
    db.snapshot().contains(table, key).expect("a read")
}

/// Cuts the power, so that nothing survives but what is durable.
fn crash(sim: &SimEnv, opened: (Database, Table, Table)) {
    sim.power_crash(CrashProfile::Strict);
    drop(opened);
}

#[test]
fn a_commit_of_unlogged_tables_only_appends_and_syncs_nothing() {
    let sim = SimEnv::new(1);
    let (db, logged, unlogged) = opened(&sim, Layout::Lsm);
    put(&db, &[&logged], b"before", Durability::Buffered);
    let (log, changes) = (db.stats().log, sim.write_and_sync_count());
    for durability in [Durability::Sync, Durability::Interval, Durability::Buffered] {
        put(&db, &[&unlogged], b"key", durability);
        let mut txn = db.begin();
        txn.delete(&unlogged, b"key").unwrap();
        txn.commit_with(durability).unwrap();
    }
    assert_eq!((db.stats().log.appends, db.stats().log.syncs), (log.appends, log.syncs));
    assert_eq!(sim.write_and_sync_count(), changes, "a commit of unlogged tables touches no file");
    assert_eq!(db.stats().commits, 7);
}

#[test]
fn the_log_holds_only_the_logged_half_of_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let db = Database::open(&path, Options::default()).unwrap();
    let logged = db.create_table("logged", TableOptions::default()).unwrap();
    let unlogged = db.create_table("unlogged", TableOptions::default().logged(false)).unwrap();
    for key in [b"a", b"b"] {
        put(&db, &[&unlogged, &logged, &unlogged], key, Durability::Sync);
    }
    drop((logged, unlogged));
    db.close().unwrap();
    let mut seen = Vec::new();
    let visit = &mut |entry: spinney::LogEntry<'_>| {
        seen.push((entry.table_name.unwrap().to_owned(), entry.key.to_vec(), entry.seqnum));
        Ok(())
    };
    spinney::read_log(&path, Lsn(0), visit).unwrap();
    let names: Vec<_> = seen.iter().map(|(table, key, _)| (table.as_str(), key.as_slice())).collect();
    assert_eq!(names, [("logged", b"a".as_slice()), ("logged", b"b".as_slice())]);
    assert_eq!(seen[1].2.0, seen[0].2.0 + 3, "what is not in the log takes its place in the order too");
}

#[test]
fn a_crash_takes_an_unlogged_table_back_to_its_last_flush() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let all = opened(&sim, layout);
        let (db, logged, unlogged) = &all;
        put(db, &[logged, unlogged], b"flushed", Durability::Sync);
        unlogged.flush().unwrap();
        assert_eq!((db.stats().unlogged_tables, db.stats().unlogged_memtable_bytes), (1, 0));
        put(db, &[logged, unlogged], b"lost", Durability::Sync);
        let stats = db.stats();
        assert!((1..stats.memtable_bytes).contains(&stats.unlogged_memtable_bytes), "{stats:?}");
        crash(&sim, all);
        let (db, logged, unlogged) = opened(&sim, layout);
        assert!(has(&db, &unlogged, b"flushed") && !has(&db, &unlogged, b"lost"), "{layout:?}");
        assert!(has(&db, &logged, b"flushed") && has(&db, &logged, b"lost"), "{layout:?}");
        assert!(!unlogged.options().logged && logged.options().logged, "the catalog keeps it");
    }
}

#[test]
fn a_flush_of_an_unlogged_table_makes_every_commit_before_it_durable() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let all = opened(&sim, layout);
        let (db, logged, unlogged) = &all;
        put(db, &[logged], b"alone", Durability::Interval);
        put(db, &[logged, unlogged], b"both", Durability::Buffered);
        put(db, &[unlogged], b"last", Durability::Buffered);
        unlogged.flush().unwrap();
        crash(&sim, all);
        let (db, logged, unlogged) = opened(&sim, layout);
        assert!(has(&db, &unlogged, b"both") && has(&db, &unlogged, b"last"), "{layout:?}");
        assert!(has(&db, &logged, b"both"), "{layout:?}: half of a commit survived");
        assert!(has(&db, &logged, b"alone"), "{layout:?}: a commit survived, and not one before it");
    }
}

#[test]
fn closing_flushes_unlogged_tables() {
    for (layout, is_dropped) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        let sim = SimEnv::new(1);
        let (db, logged, unlogged) = opened(&sim, layout);
        put(&db, &[&unlogged], b"key", Durability::Buffered);
        put(&db, &[&logged, &unlogged], b"mixed", Durability::Interval);
        drop((logged, unlogged));
        if is_dropped {
            drop(db);
        } else {
            db.close().unwrap();
        }
        sim.power_crash(CrashProfile::Strict);
        let (db, logged, unlogged) = opened(&sim, layout);
        assert!(has(&db, &unlogged, b"key") && has(&db, &unlogged, b"mixed") && has(&db, &logged, b"mixed"));
        assert_eq!(db.verify().unwrap().problems, vec![]);
    }
}

#[test]
fn a_close_that_cannot_flush_says_so() {
    let sim = SimEnv::new(1);
    let (db, logged, unlogged) = opened(&sim, Layout::Lsm);
    put(&db, &[&unlogged], b"key", Durability::Sync);
    drop((logged, unlogged));
    sim.set_space(0);
    assert_eq!(db.close().unwrap_err().kind(), ErrorKind::Full);
}

#[test]
fn a_checkpoint_holds_unlogged_tables_as_of_its_moment() {
    let sim = SimEnv::new(1);
    let (db, _, unlogged) = opened(&sim, Layout::BTree);
    put(&db, &[&unlogged], b"key", Durability::Buffered);
    db.checkpoint("/copy").unwrap();
    let copy = Database::builder("/copy").env(sim.env()).open().unwrap();
    let copied = copy.table("unlogged").unwrap().unwrap();
    assert!(has(&copy, &copied, b"key") && !copied.options().logged);
}

#[test]
fn an_unlogged_memtable_neither_holds_the_log_nor_is_flushed_for_it() {
    let sim = SimEnv::new(1);
    let (db, logged, unlogged) = opened(&sim, Layout::Lsm);
    put(&db, &[&unlogged], b"rarely written", Durability::Buffered);
    for number in 0..200_u32 {
        let mut batch = Batch::new();
        batch.put(&logged, number.to_be_bytes(), [7; 8 << 10]);
        db.write_with(&batch, Durability::Buffered).unwrap();
    }
    logged.flush().unwrap();
    let segments = sim.env().fs.list(Path::new("/db/log")).unwrap();
    let segments = segments.iter().filter(|entry| entry.name.ends_with(".log")).count();
    assert!(segments <= 4, "{segments} segments of 1.6 MB are held");
    assert_eq!(unlogged.shape().unwrap().memtable_entries, 1, "nothing but memory makes it be flushed");
}

#[test]
fn transactions_conflict_over_unlogged_tables_and_see_one_moment() {
    let sim = SimEnv::new(1);
    let (db, logged, unlogged) = opened(&sim, Layout::Lsm);
    let (mut first, mut second) = (db.begin(), db.begin());
    first.put(&logged, b"l", b"1").unwrap();
    first.put(&unlogged, b"u", b"1").unwrap();
    second.put(&unlogged, b"u", b"2").unwrap();
    second.put(&logged, b"other", b"2").unwrap();
    let before = db.snapshot();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert!(!before.contains(&logged, b"l").unwrap() && !before.contains(&unlogged, b"u").unwrap());
    assert!(has(&db, &logged, b"l") && has(&db, &unlogged, b"u") && !has(&db, &logged, b"other"));
}

#[test]
fn whether_a_table_is_logged_cannot_change() {
    let sim = SimEnv::new(1);
    let (db, ..) = opened(&sim, Layout::Lsm);
    let error = db.create_table("unlogged", TableOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert!(error.to_string().contains("without redo log"), "{error}");
}

#[test]
fn a_commit_that_returns_while_the_database_closes_is_not_lost() {
    for round in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table = db.create_table("t", TableOptions::default().logged(false)).unwrap();
        let (acknowledged, started) = ([const { AtomicU64::new(0) }; 3], AtomicBool::new(false));
        thread::scope(|scope| {
            for (writer, acknowledged) in (0_u64..).zip(&acknowledged) {
                let (db, table, started) = (&db, &table, &started);
                scope.spawn(move || {
                    for number in 1.. {
                        let mut batch = Batch::new();
                        batch.put(table, [writer.to_be_bytes(), u64::to_be_bytes(number)].concat(), b"");
                        match db.write_with(&batch, Durability::Sync) {
                            Ok(()) => acknowledged.store(number, Ordering::Relaxed),
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                                break;
                            }
                        }
                        started.store(true, Ordering::Release);
                    }
                });
            }
            while !started.load(Ordering::Acquire) {
                thread::yield_now();
            }
            db.clone().close().unwrap();
        });
        drop((table, db));
        let db = Database::open(folder.path(), Options::default()).unwrap();
        let table = db.table("t").unwrap().unwrap();
        for (writer, acknowledged) in (0_u64..).zip(&acknowledged) {
            let there = db
                .snapshot()
                .range(&table, writer.to_be_bytes().as_slice()..(writer + 1).to_be_bytes().as_slice())
                .count();
            let acknowledged = acknowledged.load(Ordering::Relaxed);
            assert_eq!(u64::try_from(there).unwrap(), acknowledged, "round {round}, writer {writer}");
        }
    }
}
