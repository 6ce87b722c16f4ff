//! After a database was closed every handle says so, and nothing of it is left in the process: no lock, thread,
//! descriptor or memory.
//!
//! What the process has is counted, so one test runs at a time.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "in a test a panic is a failure, and it waits")]

use spinney::env::Env;
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Lsn, Options, Table, TableOptions};
use std::fmt::Debug;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn options() -> Options {
    Options::default().memory_bytes(16 << 20).direct_io(true)
}

/// A database with a table of each layout, with entries in memory, in trees and in the cache.
fn open(dir: &Path) -> (Database, Vec<Table>) {
    let db = Database::open(dir, options()).unwrap();
    let table = |layout: Layout| {
        let table = db.create_table(layout.name(), TableOptions::default().layout(layout)).unwrap();
        for round in 0..3_u32 {
            put(&db, &table, round);
            if round < 2 {
                table.flush().unwrap();
            }
        }
        assert_eq!(db.snapshot().range(&table, ..).count(), 3000);
        table
    };
    let tables = [Layout::BTree, Layout::Lsm, Layout::LsmTiered].map(table);
    (db, tables.into())
}

fn put(db: &Database, table: &Table, round: u32) {
    let mut batch = Batch::new();
    (0..1000_u32).for_each(|number| batch.put(table, (3 * number + round).to_be_bytes(), [7; 300]));
    db.write_with(&batch, Durability::Buffered).unwrap();
}

fn keys() -> [[u8; 4]; 2] {
    [7_u32, 8].map(u32::to_be_bytes)
}

#[track_caller]
fn assert_closed<T: Debug>(result: Result<T, spinney::Error>) {
    assert_eq!(result.unwrap_err().kind(), ErrorKind::Closed);
}

/// What of the directory the process has open or mapped.
fn held(dir: &Path) -> Vec<String> {
    let is_in = |path: &str| path.contains(dir.to_str().unwrap());
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    let links = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut held: Vec<_> = links.map(|link| link.display().to_string()).filter(|link| is_in(link)).collect();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    held.extend(maps.lines().filter(|line| is_in(line)).map(str::to_owned));
    held
}

/// The threads of databases.
fn threads() -> Vec<String> {
    let ours = ["flush", "compact-", "sync", "memory", "expire", "io"];
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.map(|name| name.trim().to_owned()).filter(|name| ours.iter().any(|ours| name.starts_with(ours))).collect()
}

/// The threads of databases that are left: the system lists one for a moment after it was joined.
fn threads_left() -> Vec<String> {
    let left = (0..100).map(|_| threads()).find(|left| {
        std::thread::sleep(Duration::from_millis(if left.is_empty() { 0 } else { 20 }));
        left.is_empty()
    });
    left.unwrap_or_else(threads)
}

/// Any handle kept the directory locked "in another process", and its descriptors; a range over a B-tree told of
/// corruption when the next open had used its space.
#[test]
fn nothing_is_left_of_a_closed_database_and_its_handles_say_that_it_is_closed() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (db, tables) = open(dir.path());
    let table = &tables[0];
    let snapshot = db.snapshot();
    let mut ranges: Vec<_> = tables.iter().map(|table| snapshot.range(table, ..)).collect();
    ranges.iter_mut().for_each(|range| _ = range.next().unwrap().unwrap());
    let mut ended = snapshot.range(table, ..&[0, 0, 0, 1][..]);
    assert_eq!((ended.by_ref().count(), ended.next().is_none()), (1, true));
    let mut unused = snapshot.range_rev(table, ..);
    let mut txn = db.begin();
    txn.put(table, b"key", b"value").unwrap();
    let mut own = txn.range(table, &b"k"[..]..);
    let mut own_ended = txn.range(table, &b"k"[..]..);
    assert_eq!((own_ended.by_ref().count(), own_ended.next().is_none()), (1, true));
    let mut feed = db.changes(db.log_start()).unwrap();
    feed.poll().unwrap().unwrap();
    let mut load = tables[1].bulk_load().unwrap();
    (0..20_000_u32).for_each(|key| load.push(&key.to_be_bytes(), &[7; 300]).unwrap());
    let other = db.clone();
    assert!(!held(dir.path()).is_empty() && !threads().is_empty());
    let log_end = {
        db.sync().unwrap();
        db.log_end()
    };

    db.close().unwrap();
    assert_eq!((held(dir.path()), threads_left()), (Vec::<String>::new(), Vec::<String>::new()));
    assert_eq!((other.stats().cache.bytes, other.stats().cache.capacity_bytes), (0, 0));
    assert!(other.log_end() >= log_end);
    // Before any handle is gone.
    let again = Database::open(dir.path(), options()).unwrap();
    assert_eq!(again.verify().unwrap().problems, [], "of the load nothing is left either");
    for name in tables.iter().map(Table::name) {
        let table = again.table(name).unwrap().unwrap();
        (0..3).for_each(|round| put(&again, &table, round));
        table.compact().unwrap();
    }

    for range in &mut ranges {
        assert_closed(range.advance().map(|entry| entry.is_some()));
        assert!(range.next().is_none(), "an error is the end");
    }
    assert!(ended.next().is_none() && own_ended.next().is_none());
    assert_closed(unused.next().unwrap());
    assert_closed(own.next().unwrap());
    assert_closed(snapshot.get(table, keys()[0]));
    assert_closed(snapshot.contains(table, keys()[0]));
    assert_closed(snapshot.multi_get(table, &keys().each_ref().map(|key| &key[..])));
    assert_closed(snapshot.range(table, ..).next().unwrap());
    assert_closed(other.snapshot().get(table, keys()[0]));
    assert_closed(txn.put(table, b"key", b"value"));
    assert_closed(txn.delete_range(table, &b"a"[..]..));
    assert_closed(txn.get(table, b"key"));
    assert_closed(txn.range(table, ..).next().unwrap());
    assert_closed(txn.commit());
    assert_closed(other.begin().get(table, b"key"));
    assert_closed(feed.poll());
    assert_closed(feed.wait(Duration::from_secs(100)));
    assert_closed(load.push(b"key", b"value"));
    load = match table.bulk_load() {
        Ok(_) => panic!("the database is closed"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Closed);
            load
        }
    };
    assert!(load.finish().is_err(), "it was given up");
    assert_database_closed(&other, table, dir.path(), log_end);
    other.close().unwrap();
    drop((tables, snapshot));
    assert_eq!(again.verify().unwrap().problems, []);
    again.close().unwrap();
}

/// Every call of the closed database and of a table of it is refused.
fn assert_database_closed(other: &Database, table: &Table, dir: &Path, log_end: Lsn) {
    let mut batch = Batch::new();
    batch.put(table, b"key", b"value");
    assert_closed(other.write_with(&batch, Durability::Sync));
    assert_closed(other.sync());
    assert_closed(other.table("btree"));
    assert_closed(other.tables());
    assert_closed(other.create_table("new", TableOptions::default()));
    assert_closed(other.drop_table("btree"));
    assert_closed(other.changes(log_end));
    assert_closed(other.checkpoint(dir.join("copy")));
    assert_closed(other.verify());
    assert_closed(table.flush());
    assert_closed(table.compact());
    assert_closed(table.compact_level(0));
    assert_closed(table.hold());
    assert_closed(table.release());
    assert_closed(table.wait_idle());
    assert_closed(table.shape());
}

#[test]
fn the_last_handle_gives_back_what_close_does_though_a_range_is_left() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (db, tables) = open(dir.path());
    let mut range = db.snapshot().range(&tables[0], ..);
    range.next().unwrap().unwrap();
    drop((db, tables));
    assert_eq!((held(dir.path()), threads_left()), (Vec::<String>::new(), Vec::<String>::new()));
    let again = Database::open(dir.path(), options()).unwrap();
    assert_closed(range.next().unwrap());
    drop(range);
    again.close().unwrap();
}

/// The worker that syncs after an interval slept through a close.
#[test]
fn a_close_does_not_wait_for_the_interval_of_commits() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path(), options().interval(Duration::from_secs(60))).unwrap();
    let table = db.create_table("t", TableOptions::default()).unwrap();
    let clock = Env::os().clock;
    let mut batch = Batch::new();
    batch.put(&table, b"key", b"value");
    db.write_with(&batch, Durability::Interval).unwrap();
    let start = clock.now();
    db.close().unwrap();
    assert!(clock.now() - start < Duration::from_secs(20), "half of the interval is 30 s");
    drop(table);
    let db = Database::open(dir.path(), options()).unwrap();
    let table = db.table("t").unwrap().unwrap();
    assert_eq!(db.snapshot().get(&table, b"key").unwrap().as_deref(), Some(&b"value"[..]));
}
