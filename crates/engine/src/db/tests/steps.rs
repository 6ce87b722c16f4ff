//! Tests of moments that the public calls cannot hold still: between the steps of a checkpoint, and after billions of
//! changes.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::base::{Entry, ErrorKind, Kind, SeqNum};
use crate::block::Compression;
use crate::db::commit::pipeline::WriteSet;
use crate::db::jobs::job::JobContext;
use crate::db::jobs::output::run_writer::RunWriter;
use crate::db::jobs::run_merge::relieve_l0;
use crate::db::maintenance::checkpoint::{Checkpoint, CheckpointReport};
use crate::db::open::core::Core;
use crate::db::{Batch, Database, Durability, Options, Table};
use crate::env::sim::{CrashProfile, Fault, SimEnv};
use crate::table::LEVELS;
use crate::table::{Layout, TableOptions, policy};
use crate::txn::batch::{Change, Changes};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv, path: &str) -> Database {
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 64 << 10, ..Options::default() };
    Database::builder(path).env(sim.env()).options(options).open().unwrap()
}

fn checkpoint(db: &Database) -> Checkpoint<'_> {
    let Core { state, commits, flusher, .. } = &**db.core();
    Checkpoint { state, commits, flusher, base: None, report: CheckpointReport::default() }
}

fn create(db: &Database, name: &str, layout: Layout) -> Table {
    db.create_table(name, TableOptions { layout, ..TableOptions::default() }).unwrap()
}

fn create_unlogged(db: &Database, name: &str, layout: Layout) -> Table {
    db.create_table(name, TableOptions { layout, logged: false, ..TableOptions::default() }).unwrap()
}

fn put(db: &Database, tables: &[&Table], key: &[u8], value: &[u8]) {
    let mut batch = Batch::new();
    tables.iter().for_each(|table| batch.put(table, key, value));
    db.write_with(&batch, Durability::Sync).unwrap();
}

fn get(db: &Database, table: &str, key: &[u8]) -> Option<Vec<u8>> {
    db.snapshot().get(&db.table(table).unwrap().unwrap(), key).unwrap().map(|value| value.to_vec())
}

fn assert_sound(db: &Database) {
    assert_eq!(db.verify().unwrap().problems, vec![]);
}

/// The cache kept as much as is left beside memtables of a quarter of the budget while these grew beyond that.
#[test]
fn memtables_grow_into_the_cache_and_both_stay_within_the_budget() {
    let sim = SimEnv::new(1);
    let options = Options { memory_bytes: 8 << 20, log_segment_bytes: 8 << 20, ..Options::default() };
    let db = Database::builder("/db").env(sim.env()).options(options.clone()).open().unwrap();
    let tables = [create(&db, "a", Layout::Lsm), create(&db, "b", Layout::Lsm)];
    let (budget, mut most) = (db.options().memory_bytes, 0);
    for number in 0..6_000u32 {
        put(&db, &[&tables[0], &tables[1]], &number.to_be_bytes(), &[7; 400]);
        let stats = db.stats();
        most = most.max(stats.memtable_bytes);
        let taken = stats.memtable_bytes + stats.cache.capacity_bytes;
        assert!(taken <= budget + budget / 64, "{taken} bytes of {budget}");
    }
    assert!(most > budget / 4 + budget / 16, "{most} bytes at most");
    // What an open replays counts at once, though nobody writes.
    drop((tables, db));
    sim.process_crash();
    let db = Database::builder("/db").env(sim.env()).options(options).open().unwrap();
    let stats = db.stats();
    let taken = stats.memtable_bytes + stats.cache.capacity_bytes;
    assert!(stats.memtable_bytes > 0 && taken <= budget + budget / 64, "{taken} bytes of {budget}");
}

#[test]
fn small_durable_commits_go_round_in_few_segments() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = create(&db, "t", Layout::Lsm);
    let commit = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|number| put(&db, &[&table], &number.to_be_bytes(), b"small"));
        db.stats().log
    };
    let warm = commit(0..300);
    assert!(warm.segments_recycled > 0, "each commit fills a block: {warm:?}");
    let later = commit(300..2000);
    assert_eq!(later.spare_bytes, warm.spare_bytes, "no segment is made new any more");
    assert!(db.core().commits.log.live_bytes() <= 8 * db.options().log_segment_bytes);
    assert_eq!(get(&db, "t", &7u32.to_be_bytes()).unwrap(), b"small");
}

#[test]
fn a_log_that_is_mostly_data_may_grow_to_its_limit() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = create(&db, "t", Layout::Lsm);
    for number in 0..200u32 {
        put(&db, &[&table], &number.to_be_bytes(), &[7; 4000]);
    }
    assert!(db.core().commits.log.live_bytes() > 8 * db.options().log_segment_bytes);
    assert_eq!(db.stats().flush.flushes, 0);
}

/// Flushes as a checkpoint does while a commit and a rotation come in between: the trees hold what was before.
fn flush_what_was_sealed_before_a_later_commit(db: &Database, a: &Table, b: &Table) {
    put(db, &[a, b], b"k", b"before");
    let core = db.core();
    let gate = core.flusher.lock_gate();
    let (at, tables) = core.commits.seal_all();
    put(db, &[a, b], b"k", b"after");
    // As the pressure of writers does.
    core.commits.seal(&mut core.commits.order.lock(), b.state());
    for table in &tables {
        core.flusher.flush_gated(table, at, &gate).unwrap();
    }
    for table in &tables {
        let found = table.version.load().trees.get(b"k", SeqNum::MAX).unwrap().unwrap();
        assert_eq!(&*found.value, b"before", "table '{}'", table.name);
    }
}

#[test]
fn a_checkpoint_leaves_out_what_was_sealed_after_its_moment() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let (a, b) = (create(&db, "a", Layout::Lsm), create(&db, "b", Layout::BTree));
    flush_what_was_sealed_before_a_later_commit(&db, &a, &b);
    // What was sealed; the rest is in the log only.
    for table in [&a, &b] {
        db.core().flusher.flush(table.state()).unwrap();
    }
    assert_eq!(get(&db, "a", b"k").unwrap(), b"after");
    drop((a, b));
    db.close().unwrap();
    let db = open(&sim, "/db");
    assert_eq!((get(&db, "a", b"k").unwrap(), get(&db, "b", b"k").unwrap()), (b"after".to_vec(), b"after".to_vec()));
    assert_sound(&db);
}

#[test]
fn a_checkpoint_leaves_out_later_commits_that_are_not_in_the_log() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let (a, b) = (create_unlogged(&db, "a", Layout::Lsm), create_unlogged(&db, "b", Layout::BTree));
    flush_what_was_sealed_before_a_later_commit(&db, &a, &b);
}

/// Lets seqnums go on from a later one, as after many commits.
fn go_on_from(db: &Database, next: u64) {
    let mut commit = db.core().commits.order.lock();
    commit.next_seqnum = commit.next_seqnum.max(SeqNum(next));
    db.core().state.snapshots.publish(SeqNum(commit.next_seqnum.0 - 1));
}

#[test]
fn seqnums_that_reached_an_unlogged_tree_are_not_given_out_again_after_a_crash() {
    for (layout, next) in LAYOUTS.into_iter().flat_map(|layout| [(layout, 0), (layout, 1 << 40)]) {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create_unlogged(&db, "t", layout);
        // So that versions keep their seqnums.
        let snapshot = db.snapshot();
        go_on_from(&db, next);
        put(&db, &[&table], b"k", b"1");
        table.flush().unwrap();
        let reached = db.core().commits.order.lock().next_seqnum;
        sim.power_crash(CrashProfile::Strict);
        drop((snapshot, table, db));
        for round in 2..5 {
            let db = open(&sim, "/db");
            assert!(
                db.core().state.snapshots.published().0 + 1 >= reached.0
                    && db.core().commits.order.lock().next_seqnum >= reached
            );
            assert_eq!(get(&db, "t", b"k").unwrap(), (round - 1).to_string().as_bytes(), "{layout:?}");
            let (table, snapshot) = (db.table("t").unwrap().unwrap(), db.snapshot());
            put(&db, &[&table], b"k", round.to_string().as_bytes());
            assert_eq!(get(&db, "t", b"k").unwrap(), round.to_string().as_bytes(), "{layout:?}");
            table.flush().unwrap();
            assert_sound(&db);
            sim.power_crash(CrashProfile::Strict);
            drop(snapshot);
        }
    }
}

#[test]
fn a_commit_that_met_the_closing_on_its_way_gets_no_place_in_the_order() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let tables = [create_unlogged(&db, "t", Layout::Lsm)];
    let mut changes = Changes::default();
    let table = tables[0].state().id;
    changes.push(Change { table, kind: Kind::Put, key: b"k", value: b"v" }, false).unwrap();
    // It has passed the first check; nothing would flush it any more.
    assert!(db.core().state.health.begin_close());
    let mut body = db.core().commits.log.prepare(changes.logged()).unwrap();
    assert_eq!(
        db.core()
            .commits
            .sequence(
                WriteSet {
                    changes: &changes,
                    tables: &tables.each_ref().map(|table| Arc::clone(table.state())),
                    sorted: &[],
                    tombstones: &[]
                },
                &mut body,
                None
            )
            .err()
            .unwrap()
            .kind(),
        ErrorKind::Closed
    );
}

#[test]
fn a_checkpoint_holds_a_table_that_is_dropped_while_it_is_copied() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        put(&db, &[&table], b"k", b"v");
        sim.env().fs.create_dir_all(Path::new("/copy")).unwrap();
        let cut = checkpoint(&db).cut(Path::new("/copy")).unwrap();
        db.drop_table("t").unwrap();
        checkpoint(&db).complete(Path::new("/copy"), cut).unwrap();
        assert_sound(&db);
        let copy = open(&sim, "/copy");
        assert_eq!(get(&copy, "t", b"k").unwrap(), b"v");
        assert_sound(&copy);
    }
}

#[test]
fn a_checkpoint_holds_a_tree_whose_file_became_shorter_while_it_was_copied() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = create(&db, "t", Layout::BTree);
    let keys = || (0..3000_u32).map(u32::to_be_bytes);
    for value in [[1; 300], [2; 300]] {
        let mut batch = Batch::new();
        keys().for_each(|key| batch.put(&table, key, value));
        db.write_with(&batch, Durability::Buffered).unwrap();
        table.flush().unwrap();
    }
    let mut batch = Batch::new();
    keys().for_each(|key| batch.delete(&table, key));
    db.write_with(&batch, Durability::Buffered).unwrap();
    table.flush().unwrap();
    for round in 0..3_u8 {
        let path = format!("/copy{round}");
        sim.env().fs.create_dir_all(Path::new(&path)).unwrap();
        let cut = checkpoint(&db).cut(Path::new(&path)).unwrap();
        put(&db, &[&table], &[round], b"v");
        table.flush().unwrap();
        checkpoint(&db).complete(Path::new(&path), cut).unwrap();
        let copy = open(&sim, &path);
        assert_eq!(copy.snapshot().range(&copy.table("t").unwrap().unwrap(), ..).count(), usize::from(round));
        assert_sound(&copy);
    }
    assert_sound(&db);
}

#[test]
fn a_checkpoint_survives_a_power_failure_and_is_a_database_like_any_other() {
    for profile in CrashProfile::EVERY {
        let sim = SimEnv::new(7);
        let db = open(&sim, "/db");
        let tables: Vec<_> = LAYOUTS.iter().map(|layout| create(&db, layout.name(), *layout)).collect();
        let all: Vec<_> = tables.iter().collect();
        put(&db, &all, b"k", b"first");
        put(&db, &all, b"k", b"second");
        db.checkpoint("/copies/of/today").unwrap();
        put(&db, &all, b"k", b"third");
        sim.power_crash(profile);
        drop(all);
        drop((tables, db));
        for round in 0..3_u8 {
            let copy = open(&sim, "/copies/of/today");
            let tables: Vec<_> = copy.tables().unwrap();
            let all: Vec<_> = tables.iter().collect();
            assert_eq!(all.len(), 3, "{profile:?}");
            for table in &all {
                assert_eq!(get(&copy, table.name(), b"k").unwrap(), b"second", "{profile:?}");
                let count = copy.snapshot().range(table, ..).count();
                assert_eq!(count, 1 + usize::from(round), "{profile:?}");
            }
            put(&copy, &all, &[b'a' + round], b"more");
            if round == 1 {
                all.iter().for_each(|table| table.flush().unwrap());
            }
            assert_sound(&copy);
            sim.process_crash();
        }
    }
}

#[test]
fn what_was_flushed_is_seen_after_more_changes_than_an_open_leaves_room_for() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        // So that versions keep their seqnums.
        let snapshot = db.snapshot();
        go_on_from(&db, 1 << 40);
        put(&db, &[&table], b"k", b"v");
        table.flush().unwrap();
        // The copy's log tells nothing of seqnums.
        db.checkpoint("/copy").unwrap();
        drop((snapshot, table));
        db.close().unwrap();
        for path in ["/db", "/copy"] {
            let db = open(&sim, path);
            assert_eq!(get(&db, "t", b"k").unwrap(), b"v", "{path}");
            let table = db.table("t").unwrap().unwrap();
            put(&db, &[&table], b"k", b"w");
            assert_eq!(get(&db, "t", b"k").unwrap(), b"w", "{path}");
        }
    }
}

#[test]
fn what_was_replayed_is_older_than_what_is_written_next() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        // More changes than an open leaves room for, none of them flushed.
        go_on_from(&db, 1 << 40);
        put(&db, &[&table], b"k", b"v");
        sim.process_crash();
        drop((table, db));
        let db = open(&sim, "/db");
        assert_eq!(get(&db, "t", b"k").unwrap(), b"v");
        let table = db.table("t").unwrap().unwrap();
        put(&db, &[&table], b"k", b"w");
        assert_eq!(get(&db, "t", b"k").unwrap(), b"w");
    }
}

#[test]
fn compact_drops_versions_that_a_snapshot_kept_in_the_last_level() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        put(&db, &[&table], b"k", b"old");
        let snapshot = db.snapshot();
        put(&db, &[&table], b"k", b"new");
        table.compact().unwrap();
        assert_eq!(table.shape().unwrap().levels[0].entries, 2);
        drop(snapshot);
        table.compact().unwrap();
        assert_eq!(table.shape().unwrap().levels[0].entries, 1);
        let done = db.stats().flush.compactions;
        table.compact().unwrap();
        assert_eq!(db.stats().flush.compactions, done, "there is nothing left to do");
    }
}

#[test]
fn memory_is_given_back_in_full_when_tables_are_flushed_and_dropped() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let kept = create(&db, "kept", Layout::Lsm);
    for round in 0..20_u8 {
        let dropped = create(&db, "dropped", Layout::Lsm);
        put(&db, &[&kept, &dropped], &[round], &[0; 1000]);
        if round % 2 == 0 {
            db.core().commits.seal(&mut db.core().commits.order.lock(), dropped.state());
        }
        put(&db, &[&kept, &dropped], &[round], &[0; 1000]);
        db.drop_table("dropped").unwrap();
    }
    kept.flush().unwrap();
    assert_eq!(db.stats().memtable_bytes, 0);
}

#[test]
fn a_transaction_that_writes_one_key_often_stays_small() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = create(&db, "t", Layout::Lsm);
    let mut txn = db.begin();
    for round in 0..300_u32 {
        txn.put(&table, b"k", vec![1; 10_000 + 10 * (round as usize % 7)]).unwrap();
        txn.delete(&table, b"k").unwrap();
    }
    txn.put(&table, b"k", b"last").unwrap();
    txn.commit().unwrap();
    assert_eq!(get(&db, "t", b"k").unwrap(), b"last");
}

#[test]
fn a_snapshot_outlives_its_table_and_a_range_reads_on() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        let other = create(&db, "other", layout);
        for key in 0..200_u8 {
            put(&db, &[&table, &other], &[key], &[key; 100]);
        }
        table.flush().unwrap();
        let snapshot = db.snapshot();
        let mut range = snapshot.range(&table, ..);
        assert!(range.next().unwrap().is_ok());
        db.drop_table("t").unwrap();
        assert!(snapshot.get(&table, [1]).is_err() && snapshot.range(&table, ..).next().unwrap().is_err());
        assert_eq!(range.filter(Result::is_ok).count(), 199);
        assert_eq!(snapshot.range(&other, ..).filter(Result::is_ok).count(), 200);
        assert_sound(&db);
        let again = create(&db, "t", layout);
        assert_eq!(db.snapshot().range(&again, ..).count(), 0);
        assert!(!Arc::ptr_eq(again.state(), table.state()));
    }
}

#[test]
fn runs_that_only_compact_merges_slow_no_writer() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = db.create_table("t", TableOptions::default()).unwrap();
    table.hold().unwrap();
    for key in 0..40_u8 {
        put(&db, &[&table], &[key], b"v");
        table.flush().unwrap();
    }
    assert_eq!(table.shape().unwrap().l0.len(), 40);
    assert_eq!(db.core().throttle.budget.delay(1 << 20), None);
}

#[test]
fn a_file_with_the_largest_of_numbers_is_a_stranger() {
    let sim = SimEnv::new(1);
    drop(open(&sim, "/db"));
    sim.write_file("/db/18446744073709551615.run", b"").unwrap();
    assert_sound(&open(&sim, "/db"));
}

/// Some overwrites of the same keys, then a flush: another run.
fn lay_down_run(db: &Database, table: &Table, round: u32) {
    for key in 0..50_u32 {
        put(db, &[table], &key.to_be_bytes(), &round.to_be_bytes());
    }
    table.flush().unwrap();
}

fn shape_of(table: &Table) -> (usize, usize) {
    let shape = table.shape().unwrap();
    (shape.l0.len(), shape.levels.len())
}

#[test]
fn a_held_table_is_compacted_by_hand_only() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        table.hold().unwrap();
        (0..6).for_each(|round| lay_down_run(&db, &table, round));
        table.wait_idle().unwrap();
        assert_eq!(shape_of(&table), (6, 0), "{layout:?}");
        table.compact_level(0).unwrap();
        assert_eq!(shape_of(&table), (0, 1), "{layout:?}");
        (6..12).for_each(|round| lay_down_run(&db, &table, round));
        assert_eq!(shape_of(&table), (6, 1), "{layout:?}");
        put(&db, &[&table], b"new", b"in memory");
        table.compact_level(0).unwrap();
        assert_eq!(shape_of(&table), (0, 1), "{layout:?}");
        assert_eq!(table.shape().unwrap().memtable_entries, 1, "a level is compacted without a flush");
        (12..18).for_each(|round| lay_down_run(&db, &table, round));
        table.release().unwrap();
        table.wait_idle().unwrap();
        assert!(shape_of(&table).0 < 4, "{layout:?}");
        assert_eq!(get(&db, "t", &7_u32.to_be_bytes()).unwrap(), 17_u32.to_be_bytes());
        assert_sound(&db);
    }
}

#[test]
fn a_shape_tells_the_trees_of_a_get_and_those_of_a_scan() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        let trees = || table.shape().map(|shape| (shape.trees, shape.trees_of_get, shape.held)).unwrap();
        assert_eq!(trees(), (0, 0, false), "{layout:?}");
        put(&db, &[&table], b"a", b"in memory");
        assert_eq!(trees(), (1, 1, false), "{layout:?}");
        table.hold().unwrap();
        if layout == Layout::BTree {
            table.flush().unwrap();
            assert_eq!(trees(), (1, 1, true));
            continue;
        }
        // The first and the last key of each run: two pairs share a key, and one run lies over the others.
        for (at, ends) in [b"ab", b"bd", b"ef", b"fg", b"xz", b"ag"].into_iter().enumerate() {
            ends.iter().for_each(|key| put(&db, &[&table], &[*key], b"value"));
            table.flush().unwrap();
            let trees_of_get = [1, 2, 2, 2, 2, 3][at];
            assert_eq!(trees(), (at as u64 + 1, trees_of_get, true), "{layout:?}");
        }
        put(&db, &[&table], b"a", b"in memory");
        assert_eq!(trees(), (7, 4, true), "{layout:?}");
        let searched = |key: &[u8]| {
            let before = db.stats().reads.get_trees;
            db.snapshot().get(&table, key).unwrap();
            db.stats().reads.get_trees - before
        };
        assert!((b'a'..=b'z').all(|key| searched(&[key]) <= 4), "{layout:?}");
        table.compact().unwrap();
        table.release().unwrap();
        assert_eq!(trees(), (1, 1, false), "{layout:?}");
    }
}

#[test]
fn a_hold_ends_with_the_database() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = create(&db, "t", Layout::Lsm);
    table.hold().unwrap();
    (0..6).for_each(|round| lay_down_run(&db, &table, round));
    drop(table);
    db.close().unwrap();
    let db = open(&sim, "/db");
    let table = db.table("t").unwrap().unwrap();
    table.wait_idle().unwrap();
    assert_eq!(shape_of(&table), (0, 1));
}

#[test]
fn levels_are_merged_down_until_one_is_left() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let options =
        TableOptions { run_bytes_max: 4 << 10, fanout: 2, compression: Compression::None, ..TableOptions::default() };
    let table = db.create_table("t", options).unwrap();
    for round in 0..20_u32 {
        for key in 0..400_u32 {
            let key = key.wrapping_mul(2_654_435_761).wrapping_add(round * 77_777_777);
            put(&db, &[&table], &key.to_be_bytes(), &[7; 20]);
        }
        table.flush().unwrap();
    }
    table.wait_idle().unwrap();
    table.hold().unwrap();
    let numbers = || table.shape().unwrap().levels.iter().map(|level| level.level).collect::<Vec<_>>();
    let before = numbers();
    assert!(before.len() >= 3, "{before:?}");
    table.compact_level(0).unwrap();
    assert_eq!(numbers(), before);
    for left in (1..before.len()).rev() {
        let top = usize::try_from(numbers()[0]).unwrap();
        table.compact_level(top).unwrap();
        assert_eq!(numbers(), before[before.len() - left..]);
    }
    table.compact_level(7).unwrap();
    assert_eq!(numbers(), [7], "the last level has nowhere to go");
    assert_eq!(db.snapshot().range(&table, ..).filter(Result::is_ok).count(), 8_000);
    assert_sound(&db);
}

#[test]
fn levels_that_cannot_be_are_refused() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let (btree, lsm) = (create(&db, "b", Layout::BTree), create(&db, "l", Layout::Lsm));
    assert_eq!(btree.compact_level(0).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(lsm.compact_level(8).unwrap_err().kind(), ErrorKind::Invalid);
    (0..8).for_each(|level| lsm.compact_level(level).unwrap());
    btree.hold().unwrap();
    lay_down_run(&db, &btree, 0);
    db.drop_table("l").unwrap();
    assert_eq!(lsm.hold().unwrap_err().kind(), ErrorKind::Dropped);
    db.close().unwrap();
    assert_eq!(btree.release().unwrap_err().kind(), ErrorKind::Closed);
}

#[test]
fn runs_that_gather_during_a_long_compaction_are_merged_meanwhile() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", layout);
        table.hold().unwrap();
        (0..4).for_each(|round| lay_down_run(&db, &table, round));
        let context = JobContext { state: &db.core().state, throttle: &db.core().throttle };
        let state = table.state();
        let trees = || state.trees();
        let long = policy::pick_level(&trees(), &state.options, 0).unwrap();
        (4..12).for_each(|round| lay_down_run(&db, &table, round));
        relieve_l0(context, state, &long.removed()).unwrap();
        assert_eq!(shape_of(&table).0, 12, "a held table is left as it is");
        state.compaction.held.store(false, Ordering::Relaxed);
        relieve_l0(context, state, &long.removed()).unwrap();
        assert_eq!(
            shape_of(&table).0,
            5,
            "{layout:?}: eight runs became one, in front of those of the long compaction"
        );
        let ids = || trees().l0.iter().map(|handle| handle.id).collect::<Vec<_>>();
        assert_eq!(ids()[1..], long.removed());
        let before = ids();
        state.compaction.held.store(true, Ordering::Relaxed);
        put(&db, &[&table], b"more", b"v");
        table.flush().unwrap();
        assert_eq!(ids()[1..], before);
        assert_eq!(get(&db, "t", &7_u32.to_be_bytes()).unwrap(), 11_u32.to_be_bytes());
        let newest_first = ids();
        sim.process_crash();
        drop((table, db));
        let db = open(&sim, "/db");
        let table = db.table("t").unwrap().unwrap();
        assert_eq!(get(&db, "t", &7_u32.to_be_bytes()).unwrap(), 11_u32.to_be_bytes());
        assert!(newest_first.len() == 6 && shape_of(&table).0 <= 6);
        assert_sound(&db);
    }
}

#[test]
fn a_run_that_is_half_full_ends_where_one_below_begins() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let options = TableOptions { block_bytes: 512, compression: Compression::None, ..TableOptions::default() };
    let cuts = [100_u32, 700, 1000].map(|key| key.to_be_bytes().to_vec()).to_vec();
    let mut writer = RunWriter::new(&db.core().state, &options, 20_000, 10.0).with_cuts(cuts);
    for key in 0..1200_u32 {
        let entry = Entry { key: &key.to_be_bytes(), seqnum: SeqNum::ZERO, kind: Kind::Put, value: &[7; 10] };
        writer.push(&entry).unwrap();
    }
    let runs = writer.finish().unwrap();
    let begins: Vec<_> =
        runs.iter().map(|handle| u32::from_be_bytes(handle.run.meta().smallest[..].try_into().unwrap())).collect();
    assert_eq!(begins[..2], [0, 700], "not at 100, where it is small: {begins:?}");
}

/// The cuts come from the level below the one that takes the result.
#[test]
fn a_compaction_ends_runs_where_those_of_the_next_level_begin() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let options = TableOptions {
        layout: Layout::Lsm,
        run_bytes_max: 8 << 10,
        fanout: 2,
        block_bytes: 512,
        compression: Compression::None,
        ..TableOptions::default()
    };
    let table = db.create_table("t", options).unwrap();
    let mut number = 0_u32;
    let occupied = |table: &Table| {
        let trees = Arc::clone(&table.state().version.load().trees);
        (0..LEVELS).filter(|level| !trees.levels[*level].runs.is_empty()).collect::<Vec<_>>()
    };
    while occupied(&table).len() < 3 {
        for _ in 0..20 {
            let mut batch = Batch::new();
            for _ in 0..100 {
                number = number.wrapping_add(1);
                batch.put(&table, number.wrapping_mul(2_654_435_761).to_be_bytes(), [7; 20]);
            }
            db.write_with(&batch, Durability::Buffered).unwrap();
        }
        table.flush().unwrap();
        table.wait_idle().unwrap();
    }
    table.hold().unwrap();
    let [.., from, to, below] = occupied(&table)[..] else { panic!("there are three levels") };
    table.compact_level(from + 1).unwrap();
    let trees = Arc::clone(&table.state().version.load().trees);
    let begins: Vec<_> = trees.levels[below].runs.iter().map(|run| run.meta().smallest.clone()).collect();
    let borders = trees.levels[to].runs.windows(2).map(|pair| (&pair[0].meta().largest, &pair[1].meta().smallest));
    let (met, all) = borders.fold((0, 0), |(met, all), (last, first)| {
        let is_met = begins.iter().any(|begin| last < begin && begin <= first);
        (met + u32::from(is_met), all + 1)
    });
    // Without cuts three are, by chance. Most slices end where a run of the level itself did.
    assert!(all > 20 && met >= 6, "{met} of {all} borders");
}

#[test]
fn a_disk_that_fills_up_under_a_compaction_ends_it_and_nothing_else() {
    let mut ended = 0;
    for at in 0..40 {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let table = create(&db, "t", Layout::Lsm);
        table.hold().unwrap();
        (0..3).for_each(|round| lay_down_run(&db, &table, round));
        sim.fail_at(sim.op_count() + at, Fault::NoSpace);
        let compacted = table.compact_level(0);
        sim.clear_faults();
        if let Err(error) = compacted
            && db.core().state.health.check_poison().is_ok()
        {
            assert_eq!(error.kind(), ErrorKind::Full);
            ended += 1;
            assert_eq!(shape_of(&table), (3, 0));
            put(&db, &[&table], b"k", b"v");
            assert_sound(&db);
            table.compact().unwrap();
            assert_eq!(shape_of(&table), (0, 1));
        }
    }
    assert!(ended > 1, "{ended}");
}

/// The manifest that was put in force, and its name not made durable for want of room, stayed beside the one that took
/// its place.
#[test]
fn a_disk_that_is_full_for_a_moment_while_a_database_opens_leaves_no_second_manifest() {
    let mut opened = 0;
    for at in 0..60 {
        let sim = SimEnv::new(1);
        drop(open(&sim, "/db"));
        sim.fail_at(sim.op_count() + at, Fault::NoSpace);
        let again = Database::builder("/db").env(sim.env()).open();
        sim.clear_faults();
        if let Ok(db) = again
            && db.core().state.health.check_poison().is_ok()
        {
            opened += 1;
            assert_sound(&db);
        }
    }
    assert!(opened > 1, "{opened}");
}

#[test]
fn a_dropped_table_gives_its_space_and_memory_back_though_handles_of_it_are_kept() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, "/db");
        let before = sim.env().fs.list(Path::new("/db")).unwrap().len();
        let table = create(&db, "t", layout);
        table.hold().unwrap();
        for number in 0..3 {
            lay_down_run(&db, &table, number);
        }
        put(&db, &[&table], b"in memory", b"value");
        let version = table.state().version.load_full();
        let runs: Vec<_> = version.trees.runs().map(|handle| Arc::downgrade(&handle.run)).collect();
        let mem = Arc::downgrade(&version.active);
        let tree = table.state().btree().map(|tree| Arc::downgrade(&tree));
        drop(version);
        let snapshot = db.snapshot();
        let range = snapshot.range(&table, ..);
        let seen = || runs.iter().any(|run| run.upgrade().is_some()) || mem.upgrade().is_some();
        db.drop_table("t").unwrap();
        assert_eq!(sim.env().fs.list(Path::new("/db")).unwrap().len(), before, "{layout:?}");
        assert_eq!(db.core().throttle.budget.memtable_bytes(), 0);
        assert!(tree.is_none_or(|tree| tree.upgrade().is_none()), "{layout:?}: the handle keeps the tree open");
        assert!(runs.is_empty() || seen(), "a walk that began before goes on");
        assert!(range.filter(|entry| entry.is_ok()).count() > 0);
        assert!(!seen(), "{layout:?}: the handle keeps runs open or the memtable");
        assert_eq!(snapshot.get(&table, b"in memory").unwrap_err().kind(), ErrorKind::Dropped);
        assert_eq!(table.flush().unwrap_err().kind(), ErrorKind::Dropped);
        assert_eq!(table.compact().unwrap_err().kind(), ErrorKind::Dropped);
        assert_sound(&db);
    }
}

/// A merge whose entries did not add up removed what it had written, and with it the value files of its inputs, to
/// which it referred. The bytes of no file lead there: a run's end says how many entries it has.
#[test]
fn what_is_given_up_takes_no_value_file_along_that_was_there_before() {
    let sim = SimEnv::new(1);
    let db = open(&sim, "/db");
    let table = db.create_table("t", TableOptions { large_value_bytes: 64, ..TableOptions::default() }).unwrap();
    (0..20_u8).for_each(|key| put(&db, &[&table], &[key], &[7; 100]));
    table.flush().unwrap();
    let runs: Vec<_> = table.state().version.load().trees.runs().collect();
    let files = || {
        let names = sim.env().fs.list(Path::new("/db")).unwrap().into_iter().map(|entry| entry.name);
        let of = |end: &str| names.clone().filter(|name| name.ends_with(end)).count();
        (of(".run"), of(".values"))
    };
    assert_eq!(files(), (1, 1));
    db.core().state.files.remove_new(&runs, &table.state().trees().values);
    assert_eq!(files(), (0, 1));
}

/// Whoever asked for the flush was told that an earlier write had failed.
#[test]
fn a_flush_that_fails_tells_what_failed() {
    for layout in LAYOUTS {
        let mut failed = 0;
        for place in 0.. {
            let sim = SimEnv::new(1);
            let db = open(&sim, "/db");
            let table = create(&db, "t", layout);
            put(&db, &[&table], b"key", &[7; 9000]);
            sim.fail_at(sim.op_count() + place, Fault::Error(io::ErrorKind::Other));
            let flushed = db.flush();
            if sim.struck().is_none() {
                flushed.unwrap();
                break;
            }
            if let Err(error) = flushed {
                assert_eq!(error.kind(), ErrorKind::Io, "{layout:?}, call {place}: {error}");
                failed += 1;
            }
        }
        assert!(failed >= 4, "{layout:?}: {failed}");
    }
}
