//! Tests of a disk without room: what needs none goes on, and with room all of it, without another open.

mod emptied;
mod lacks;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::base::sync::Mutex;
use crate::base::{CoveragePoint, ErrorKind, Result};
use crate::db::{Batch, Database, Durability, Options, Table};
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use crate::table::{Layout, TableOptions};
use crate::tree::compaction_filter::{CompactionFilter, Decision};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(sim: &SimEnv) -> Result<Database> {
    let options = Options { memory_bytes: 2 << 20, log_segment_bytes: 1 << 20, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open()
}

fn create(db: &Database, layout: Layout, logged: bool) -> Table {
    // Small runs, so that a merge into a B-tree is done in slices.
    let options = TableOptions { layout, logged, run_bytes_max: 16 << 10, ..TableOptions::default() };
    db.create_table("t", options).unwrap()
}

/// Puts a key whose value does not compress.
fn put(db: &Database, table: &Table, model: &mut Model, number: u32) -> Result<()> {
    let value: Vec<u8> = (0..125).flat_map(|_| db.core().state.env.random.next().to_le_bytes()).collect();
    // In no order, so that each flush reaches all of a tree.
    let key = number.wrapping_mul(0x9e37_79b9).to_be_bytes().to_vec();
    let mut batch = Batch::new();
    batch.put(table, &key, &value);
    db.write_with(&batch, Durability::Buffered)?;
    model.insert(key, value);
    Ok(())
}

fn assert_holds(db: &Database, table: &Table, model: &Model, when: &str) {
    let snapshot = db.snapshot();
    let pairs =
        snapshot.range(table, ..).map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
    assert!(pairs.collect::<Model>() == *model, "{when}");
    for (key, value) in model.iter().step_by(100) {
        assert_eq!(snapshot.get(table, key).unwrap().as_deref(), Some(&**value), "{when}");
    }
    // That no file is left which the manifest does not name, and each unit of a B-tree's file has one owner.
    assert_eq!(db.verify().unwrap().problems, vec![], "{when}");
}

fn is_of_tree(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "run" || extension == "tree")
}

/// A flush that met a full disk poisoned the database until it was opened again.
#[test]
fn a_flush_without_room_is_tried_again_and_loses_nothing() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim).unwrap();
        let (table, mut model) = (create(&db, layout, false), Model::new());
        (0..1000).for_each(|number| put(&db, &table, &mut model, number).unwrap());
        table.flush().unwrap();
        // More than all memory that memtables may take, before others fill the disk.
        sim.set_lazy_workers(true);
        (1000..2500).for_each(|number| put(&db, &table, &mut model, number).unwrap());
        sim.set_lazy_workers(false);
        sim.set_free(100 << 10);
        let refused = put(&db, &table, &mut model, 2500).unwrap_err();
        let said = refused.to_string();
        assert!(refused.kind() == ErrorKind::Full && said.contains("memtables have all memory"), "{layout:?}: {said}");
        assert!(said.contains("free ") && said.contains("bytes on the disk of /db"), "{layout:?}: {said}");
        assert!(CoveragePoint::FlushWithoutRoom.is_reached());
        assert_holds(&db, &table, &model, "without room");
        assert!(db.stats().memtable_bytes > 2 << 20 >> 1);
        let error = table.flush().unwrap_err();
        assert!(error.kind() == ErrorKind::Full && error.to_string().contains("bytes on the disk of"), "{error}");
        // Writers that are refused do not have it tried again and again.
        let calls = sim.op_count();
        for number in 0..10 {
            assert_eq!(put(&db, &table, &mut model, number).unwrap_err().kind(), ErrorKind::Full);
        }
        assert_eq!(sim.op_count(), calls, "{layout:?}");
        sim.set_space(u64::MAX);
        sim.advance(Duration::from_secs(1));
        assert!(db.stats().memtable_bytes < 2 << 20 >> 1, "{layout:?}: what was sealed is flushed");
        (4000..5000).for_each(|number| put(&db, &table, &mut model, number).unwrap());
        assert_holds(&db, &table, &model, "with room again");
        table.compact().unwrap();
        assert_holds(&db, &table, &model, "compacted");
        db.close().unwrap();
        drop(table);
        let db = open(&sim).unwrap();
        assert_holds(&db, &db.table("t").unwrap().unwrap(), &model, "opened again");
    }
}

/// As above at each call that a flush makes to the files of trees, of a table with redo log: also behind slices that
/// are in place.
#[test]
fn a_flush_that_meets_a_full_disk_at_any_of_its_calls_is_done_later() {
    for layout in LAYOUTS {
        for call in 0..100 {
            let sim = SimEnv::new(1);
            let db = open(&sim).unwrap();
            let (table, mut model) = (create(&db, layout, true), Model::new());
            (0..100).for_each(|number| put(&db, &table, &mut model, number).unwrap());
            table.flush().unwrap();
            (80..150).for_each(|number| put(&db, &table, &mut model, number).unwrap());
            let first = sim.op_count();
            sim.fail_at(first + call, Fault::NoSpace);
            let flushed = table.flush();
            let struck = sim.struck();
            sim.clear_faults();
            let Some((what, path)) = struck else {
                assert!(call > 5, "{layout:?}");
                break;
            };
            if !is_of_tree(&path) {
                continue;
            }
            assert!(flushed.is_ok() || flushed.unwrap_err().kind() == ErrorKind::Full, "{what:?} of {path:?}");
            db.core().state.health.check_writable().unwrap();
            assert_holds(&db, &table, &model, "after the failure");
            sim.advance(Duration::from_secs(1));
            assert_eq!(table.shape().unwrap().immutable_memtables, 0, "{what:?} of {path:?}");
            (150..160).for_each(|number| put(&db, &table, &mut model, number).unwrap());
            assert_holds(&db, &table, &model, "in the end");
        }
    }
}

/// A compaction of runs looked whether it fits the free space, and that of a B-tree filled the disk first.
#[test]
fn a_b_tree_that_does_not_fit_the_free_space_twice_is_not_compacted() {
    let sim = SimEnv::new(1);
    let db = open(&sim).unwrap();
    let (table, mut model) = (create(&db, Layout::BTree, true), Model::new());
    (0..1000).for_each(|number| put(&db, &table, &mut model, number).unwrap());
    table.flush().unwrap();
    db.sync().unwrap();
    let room = |bytes: u64| sim.set_free(db.stats().memtable_bytes + 2 * db.options().log_segment_bytes + bytes);
    room(900 << 10);
    let changes = sim.write_and_sync_count();
    let error = table.compact().unwrap_err();
    assert!(error.kind() == ErrorKind::Full && error.to_string().contains("the compaction needs 1"), "{error}");
    assert_eq!(sim.write_and_sync_count(), changes);
    room(2 << 20);
    table.compact().unwrap();
    assert_holds(&db, &table, &model, "compacted");
}

#[test]
fn a_bulk_load_that_meets_a_full_disk_at_its_end_leaves_nothing() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim).unwrap();
        let (table, mut model) = (create(&db, layout, true), Model::new());
        (0..300).for_each(|number| put(&db, &table, &mut model, number).unwrap());
        let mut load = table.bulk_load().unwrap();
        (0..100_u32).for_each(|number| load.push(&number.to_be_bytes(), b"loaded").unwrap());
        sim.set_free(100 << 10);
        assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Full, "{layout:?}");
        put(&db, &table, &mut model, 300).unwrap();
        assert_holds(&db, &table, &model, "without room");
        sim.set_space(u64::MAX);
        sim.advance(Duration::from_secs(1));
        let mut load = table.bulk_load().unwrap();
        load.push(b"loaded", b"then").unwrap();
        load.finish().unwrap();
        model.insert(b"loaded".to_vec(), b"then".to_vec());
        assert_holds(&db, &table, &model, "with room");
    }
}

/// Does something in the middle of a flush, when it is asked about a value.
#[derive(Clone, Default)]
struct Meanwhile(Arc<Mutex<Option<Act>>>);

type Act = Box<dyn FnOnce() + Send>;

impl fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Meanwhile")
    }
}

impl CompactionFilter for Meanwhile {
    fn filter(&self, _key: &[u8], _value: &[u8]) -> Decision {
        let act = self.0.lock().take();
        act.into_iter().for_each(|act| act());
        Decision::Keep
    }
}

/// What is committed between the load's two flushes is flushed when the load has its place in the order of commits.
#[test]
fn a_bulk_load_gives_its_place_up_when_what_came_before_it_cannot_be_flushed() {
    let mut given_up = 0;
    for call in 0..100 {
        let (sim, meanwhile) = (SimEnv::new(1), Meanwhile::default());
        let db = Database::builder("/db").env(sim.env()).compaction_filter("meanwhile", meanwhile.clone());
        let db = db.open().unwrap();
        let filter = Some("meanwhile".to_owned());
        // Without redo log, so that the commit in the middle of the flush makes no call that fails.
        let options = TableOptions { compaction_filter: filter, logged: false, ..TableOptions::default() };
        let table = db.create_table("t", options).unwrap();
        let put = |db: &Database, table: &Table, key: &[u8]| {
            let mut batch = Batch::new();
            batch.put(table, key, b"value");
            db.write_with(&batch, Durability::Sync).unwrap();
        };
        put(&db, &table, b"before");
        let mut load = table.bulk_load().unwrap();
        load.push(b"loaded", b"value").unwrap();
        let (other, there) = (db.clone(), table.clone());
        *meanwhile.0.lock() = Some(Box::new(move || put(&other, &there, b"meanwhile")));
        sim.fail_at(sim.op_count() + call, Fault::NoSpace);
        let loaded = load.finish();
        let struck = sim.struck();
        sim.clear_faults();
        let Some((_, path)) = struck else { break };
        if loaded.is_ok() || !is_of_tree(&path) {
            continue;
        }
        assert_eq!(loaded.unwrap_err().kind(), ErrorKind::Full, "{path:?}");
        db.core().state.health.check_writable().unwrap();
        given_up += u32::from(!table.shape().unwrap().l0.is_empty());
        put(&db, &table, b"then");
        let mut model: Model = [b"before", &b"then"[..]].map(|key| (key.to_vec(), b"value".to_vec())).into();
        if db.snapshot().get(&table, b"meanwhile").unwrap().is_some() {
            model.insert(b"meanwhile".to_vec(), b"value".to_vec());
        }
        assert_holds(&db, &table, &model, "after the load");
    }
    assert!(given_up > 0, "no load had its place");
}

/// A database of which a part is in trees and a part in the log only, on a disk that has just so much room when it is
/// opened.
fn left_behind(sim: &SimEnv, layout: Layout, room: u64) -> Model {
    let db = open(sim).unwrap();
    let (table, mut model) = (create(&db, layout, true), Model::new());
    (0..100).for_each(|number| put(&db, &table, &mut model, number).unwrap());
    table.flush().unwrap();
    // More than an open keeps in memory unless it must.
    sim.set_lazy_workers(true);
    (80..1000).for_each(|number| put(&db, &table, &mut model, number).unwrap());
    db.sync().unwrap();
    drop((table, db));
    sim.process_crash();
    crate::log::remove_spares(&sim.env(), Path::new("/db/log"));
    sim.set_lazy_workers(false);
    sim.set_free(room);
    model
}

/// An open needs room for a manifest and for a log segment. Where it finds none it leaves what is there as it is.
#[test]
fn an_open_without_room_is_refused_and_one_with_room_loses_nothing() {
    let (mut refused, mut opened) = (0, 0);
    for layout in LAYOUTS {
        for room in [0, 4 << 10, 8 << 10, 64 << 10, 1500 << 10, 2 << 20, 3 << 20, 4 << 20] {
            let sim = SimEnv::new(1);
            let mut model = left_behind(&sim, layout, room);
            let when = format!("{layout:?}, {room} bytes");
            let files = || sim.env().fs.list(Path::new("/db")).unwrap().len();
            let mut after_first = None;
            for _ in 0..4 {
                match open(&sim) {
                    Ok(db) => {
                        opened += 1;
                        assert_holds(&db, &db.table("t").unwrap().unwrap(), &model, &when);
                        db.close().unwrap();
                    }
                    Err(error) => {
                        refused += 1;
                        assert_eq!(error.kind(), ErrorKind::Full, "{when}: {error}");
                        assert!(files() <= *after_first.get_or_insert_with(files), "{when}: something is left");
                    }
                }
            }
            sim.set_space(u64::MAX);
            let db = open(&sim).unwrap();
            let table = db.table("t").unwrap().unwrap();
            assert_holds(&db, &table, &model, &when);
            put(&db, &table, &mut model, 1000).unwrap();
            sim.advance(Duration::from_secs(1));
            assert_eq!(table.shape().unwrap().immutable_memtables, 0, "{when}");
            assert_holds(&db, &table, &model, &when);
            drop((table, db));
            sim.process_crash();
            let db = open(&sim).unwrap();
            assert_holds(&db, &db.table("t").unwrap().unwrap(), &model, &when);
        }
    }
    assert!(refused > LAYOUTS.len() * 3 && opened > LAYOUTS.len() * 3, "{refused} refused, {opened} opened");
}

#[test]
fn a_crash_while_an_open_is_refused_for_want_of_room_loses_nothing() {
    for change in 0..200 {
        let sim = SimEnv::new(1 + change);
        let model = left_behind(&sim, Layout::Lsm, if change % 2 == 0 { 0 } else { 64 << 10 });
        sim.crash_at(sim.write_and_sync_count() + change / 2);
        assert!(open(&sim).is_err(), "change {change}");
        let is_over = !sim.is_down();
        sim.set_space(u64::MAX);
        sim.power_crash(CrashProfile::EVERY[usize::try_from(change).unwrap() % CrashProfile::EVERY.len()]);
        let db = open(&sim).unwrap();
        assert_holds(&db, &db.table("t").unwrap().unwrap(), &model, "after the crash");
        if is_over {
            assert!(change > 10, "{change}");
            return;
        }
    }
    panic!("the open does not end");
}
