//! Tests of compactions whose result takes the place of inputs slice by slice: what they give back, and what a failure
//! between two slices leaves.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::base::{ErrorKind, FileId, SeqNum};
use crate::block::Compression;
use crate::db::jobs::job::{Job, JobContext};
use crate::db::jobs::run_merge::RunMerge;
use crate::db::{Batch, Database, Durability, Options, Snapshot, Table};
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use crate::table::policy;
use crate::table::{Layout, TableOptions};

const RUN_BYTES: u64 = 16 << 10;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(sim: &SimEnv) -> Database {
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder("/db").env(sim.env()).options(options).open().unwrap()
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Checks what a table holds, by a walk and by gets.
fn assert_holds(snapshot: &Snapshot, table: &Table, model: &Model, when: &str) {
    let pairs =
        snapshot.range(table, ..).map(|entry| entry.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap());
    let walked: Model = pairs.collect();
    for number in 0..2000 {
        let (key, wanted) = (key(number), model.get(&key(number)));
        assert_eq!(walked.get(&key), wanted, "key {number}, walked to, {when}");
        let found = snapshot.get(table, &key).unwrap().map(|value| value.to_vec());
        assert_eq!(found.as_ref(), wanted, "key {number}, {when}");
    }
    assert_eq!(walked.len(), model.len(), "{when}");
}

fn create(db: &Database, layout: Layout) -> Table {
    let options = TableOptions {
        layout,
        run_bytes_max: RUN_BYTES,
        // So that what changes is dense in a B-tree, and is not parked.
        block_bytes: if layout == Layout::BTree { 4096 } else { 512 },
        compression: Compression::None,
        ..TableOptions::default()
    };
    db.create_table("t", options).unwrap()
}

/// Puts keys, and flushes them.
fn put_old(db: &Database, table: &Table, model: &mut Model, numbers: impl Iterator<Item = u32>) {
    let mut batch = Batch::new();
    for number in numbers {
        let value = format!("an old value of key {number:0150}").into_bytes();
        batch.put(table, key(number), &value);
        model.insert(key(number), value);
    }
    db.write_with(&batch, Durability::Sync).unwrap();
    table.flush().unwrap();
}

/// Changes a third of the keys.
fn change_third(batch: &mut Batch, table: &Table, model: &mut Model) {
    for number in (0..2000).step_by(3) {
        match number % 4 {
            0 => batch.delete(table, key(number)),
            1 => batch.single_delete(table, key(number)),
            _ => batch.put(table, key(number), b"new"),
        }
        match number % 4 {
            0 | 1 => model.remove(&key(number)),
            _ => model.insert(key(number), b"new".to_vec()),
        };
    }
}

/// A table with many runs in the last level, one in L0 that changes all of them in every way and one over it that
/// changes a few keys, and what it holds now. Compactions of it are by hand.
fn changed_table(db: &Database) -> (Table, Model) {
    let table = create(db, Layout::Lsm);
    table.hold().unwrap();
    let mut model = Model::new();
    // Two runs that overlap: one would be moved down as it is.
    (0..2).for_each(|half| put_old(db, &table, &mut model, (half..2000).step_by(2)));
    table.compact_level(0).unwrap();
    let mut batch = Batch::new();
    let (low, high) = (key(700), key(800));
    batch.delete_range(&table, (Bound::Included(&*low), Bound::Excluded(&*high)));
    model.retain(|key, _| !(&low..&high).contains(&key));
    change_third(&mut batch, &table, &mut model);
    db.write_with(&batch, Durability::Sync).unwrap();
    table.flush().unwrap();
    // Newer, and done with long before what it hides.
    let mut batch = Batch::new();
    for number in 900..920 {
        batch.put(&table, key(number), b"newest");
        model.insert(key(number), b"newest".to_vec());
    }
    db.write_with(&batch, Durability::Sync).unwrap();
    table.flush().unwrap();
    (table, model)
}

fn assert_sound(db: &Database) {
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

/// The files of the levels.
fn level_runs(table: &Table) -> Vec<FileId> {
    table.state().version.load().trees.levels.iter().flat_map(|level| level.ids.clone()).collect()
}

#[test]
fn a_compaction_gives_the_space_of_a_level_back_as_it_goes() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (table, model) = changed_table(&db);
    let trees = table.state().version.load().trees.clone();
    let compaction = policy::pick_level(&trees, &table.state().options, 0).unwrap();
    let (needs, all) = (compaction.needs(&table.state().options), compaction.bytes());
    assert!(needs < all / 3, "{needs} of {all}");
    drop(trees);
    // Files take whole pages.
    sim.set_free(needs + needs / 4);
    let before = level_runs(&table);
    // Past the check of the room, which keeps some for the log.
    let context = JobContext { state: &db.core().state, throttle: &db.core().throttle };
    RunMerge::keeping_values(table.state(), compaction).run(context).unwrap();
    assert_eq!(table.shape().unwrap().l0.len(), 0);
    assert!(level_runs(&table).iter().all(|id| !before.contains(id)));
    assert_holds(&db.snapshot(), &table, &model, "in the end");
    assert_sound(&db);
}

#[test]
fn a_reader_goes_on_while_slices_take_the_place_of_what_it_reads() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (table, model) = changed_table(&db);
    let snapshot = db.snapshot();
    let mut range = snapshot.range(&table, ..);
    let first = range.next().unwrap().unwrap();
    table.compact_level(0).unwrap();
    assert_eq!(*first.0, **model.keys().next().unwrap());
    assert_eq!(range.map(Result::unwrap).count(), model.len() - 1);
    assert_holds(&snapshot, &table, &model, "to a snapshot");
}

#[test]
fn after_a_compaction_that_a_full_disk_ended_between_slices_all_is_there_and_it_can_be_done_again() {
    let (mut ended, mut in_between) = (0, 0);
    for at in 0.. {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let (table, model) = changed_table(&db);
        // It sees what was before the next change, and so do the slices.
        let snapshot = db.snapshot();
        let before = level_runs(&table);
        sim.fail_at(sim.op_count() + at, Fault::NoSpace);
        let compacted = table.compact_level(0);
        if sim.struck().is_none() {
            break;
        }
        sim.clear_faults();
        if db.core().state.health.check_poison().is_err() || compacted.is_ok() {
            continue;
        }
        assert_eq!(compacted.unwrap_err().kind(), ErrorKind::Full);
        ended += 1;
        let now = level_runs(&table);
        in_between += u32::from(now.iter().any(|id| !before.contains(id)));
        assert_eq!(table.shape().unwrap().l0.len(), 2, "what goes down stays until the end, and what lies over it");
        assert_holds(&db.snapshot(), &table, &model, "after it ended");
        assert_sound(&db);
        table.compact_level(0).unwrap();
        assert_holds(&snapshot, &table, &model, "to a snapshot");
        assert_holds(&db.snapshot(), &table, &model, "in the end");
        assert_eq!(table.shape().unwrap().l0.len(), 0);
        assert_sound(&db);
    }
    assert!(ended > 10 && in_between > 5, "{ended}, {in_between}");
}

#[test]
fn a_crash_at_any_write_of_a_compaction_in_slices_loses_nothing() {
    let mut points = 0;
    for at in 0.. {
        let sim = SimEnv::new(at);
        let db = open(&sim);
        let (table, model) = changed_table(&db);
        sim.crash_at(sim.write_and_sync_count() + at);
        if table.compact_level(0).is_ok() && !sim.is_down() {
            break;
        }
        drop((table, db));
        sim.power_crash(if at % 2 == 0 { CrashProfile::Strict } else { CrashProfile::Random });
        // The next compaction begins where slices and their inputs lie beside each other, and is cut short as well.
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        assert_holds(&db.snapshot(), &table, &model, &format!("at {at}"));
        assert_sound(&db);
        table.hold().unwrap();
        sim.crash_at(sim.write_and_sync_count() + at / 2);
        let compacted = table.compact_level(0);
        assert!(compacted.is_ok() || sim.is_down(), "at {at}: {compacted:?}");
        drop((table, db));
        sim.power_crash(CrashProfile::Strict);
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        table.compact().unwrap();
        assert_holds(&db.snapshot(), &table, &model, &format!("at {at}, twice"));
        let trees = table.state().version.load().trees.clone();
        let entries: u64 = trees.runs().map(|handle| handle.run.meta().entries).sum();
        assert_eq!(entries, model.len() as u64, "what is there twice is kept once");
        assert!(trees.runs().all(|handle| handle.run.meta().seqnum_max == SeqNum::ZERO));
        assert_sound(&db);
        points += 1;
    }
    assert!(points > 50, "{points}");
}

#[test]
fn operands_and_values_apart_go_down_all_at_once() {
    let forged = |options: TableOptions| {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let (table, _) = changed_table(&db);
        let trees = table.state().version.load().trees.clone();
        let compaction = policy::pick_level(&trees, &table.state().options, 0).unwrap();
        (compaction.needs(&options), compaction.bytes(), compaction.slices(&options).len())
    };
    let plain = TableOptions { run_bytes_max: RUN_BYTES, ..TableOptions::default() };
    let (needs, all, slices) = forged(plain.clone());
    assert!(needs < all && slices > 5);
    let most = needs;
    for whole in [
        TableOptions { merge: Some("add".to_owned()), ..plain.clone() },
        TableOptions { large_value_bytes: 100, ..plain },
    ] {
        let (needs, all, slices) = forged(whole);
        // But for what tombstones hide.
        assert!(most < needs && needs < all && slices == 1);
    }
}

/// Changes a third of the keys, and flushes nothing.
fn change_tree(db: &Database, table: &Table, model: &mut Model) {
    let mut batch = Batch::new();
    change_third(&mut batch, table, model);
    db.write_with(&batch, Durability::Sync).unwrap();
}

#[test]
fn a_merge_into_a_b_tree_reuses_the_space_of_one_slice_for_the_next() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let (table, mut model) = (create(&db, Layout::BTree), Model::new());
    put_old(&db, &table, &mut model, 0..2000);
    let file_bytes = || table.state().btree().unwrap().root().meta().file_bytes;
    let before = file_bytes();
    change_tree(&db, &table, &mut model);
    table.flush().unwrap();
    assert!(file_bytes() < before + before / 3, "{} after {before}", file_bytes());
    assert_holds(&db.snapshot(), &table, &model, "in the end");
    assert_sound(&db);
}

#[test]
fn a_crash_at_any_write_of_a_merge_into_a_b_tree_loses_nothing() {
    let (mut points, mut in_between) = (0, 0);
    for at in 0.. {
        let sim = SimEnv::new(at);
        let db = open(&sim);
        let (table, mut model) = (create(&db, Layout::BTree), Model::new());
        put_old(&db, &table, &mut model, 0..2000);
        let before = table.state().btree().unwrap().root().meta().generation;
        change_tree(&db, &table, &mut model);
        sim.crash_at(sim.write_and_sync_count() + at);
        if table.flush().is_ok() && !sim.is_down() {
            break;
        }
        drop((table, db));
        sim.power_crash(if at % 2 == 0 { CrashProfile::Strict } else { CrashProfile::Random });
        // What is in the tree already comes out of the log once more, and that is cut short as well.
        sim.crash_at(if at % 3 == 0 { u64::MAX } else { sim.write_and_sync_count() + at / 2 });
        if let Ok(db) = Database::builder("/db").env(sim.env()).open() {
            let table = db.table("t").unwrap().unwrap();
            let slices = table.state().btree().unwrap().root().meta().generation - before;
            in_between += u32::from(!sim.is_down() && slices > 1);
            let flushed = table.flush();
            assert!(flushed.is_ok() || sim.is_down(), "at {at}: {flushed:?}");
        }
        sim.power_crash(CrashProfile::Strict);
        let db = open(&sim);
        let table = db.table("t").unwrap().unwrap();
        assert_holds(&db.snapshot(), &table, &model, &format!("at {at}"));
        table.compact().unwrap();
        assert_holds(&db.snapshot(), &table, &model, &format!("at {at}, compacted"));
        let entries = table.state().btree().unwrap().root().meta().entries;
        assert_eq!(entries, model.len() as u64, "what is there twice is kept once");
        assert_sound(&db);
        points += 1;
    }
    assert!(points > 50 && in_between > 10, "{points}, {in_between}");
}
