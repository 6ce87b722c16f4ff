//! Bulk loads: what they leave on disk, when snapshots see them, and what a crash at any moment leaves of them.

use parking_lot::Mutex;
use spinney::env::sim::{CrashProfile, SimEnv};
use spinney::{
    Batch, CompactionFilter, Database, Decision, Durability, ErrorKind, Layout, Options, Snapshot, Table, TableOptions,
};
use spinney_testkit::interrupt::{self, PATIENCE};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a database")
}

/// The table of the database, made when it is not there: of runs so small that a load has several.
fn table(db: &Database, layout: Layout) -> Table {
    let options = TableOptions::default().layout(layout).run_bytes_max(8 << 10).block_bytes(1 << 10);
    db.table("t").expect("an open database").unwrap_or_else(|| db.create_table("t", options).expect("a table"))
}

fn key(number: usize) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

fn put(db: &Database, table: &Table, number: usize, value: &[u8], durability: Durability) {
    let mut batch = Batch::new();
    batch.put(table, key(number), value);
    db.write_with(&batch, durability).expect("a commit");
}

fn load(table: &Table, numbers: impl IntoIterator<Item = usize>, value: &[u8]) -> spinney::Result<()> {
    let mut load = table.bulk_load()?;
    for number in numbers {
        load.push(&key(number), &[value, &[b'.'; 40]].concat())?;
    }
    load.finish()
}

fn loaded(value: &[u8]) -> Vec<u8> {
    [value, &[b'.'; 40]].concat()
}

/// What a snapshot sees, read in every way.
fn entries(snapshot: &Snapshot, table: &Table) -> Entries {
    let forward: Vec<_> = snapshot.range(table, ..).map(|entry| entry.expect("a read")).collect();
    let mut backward: Vec<_> = snapshot.range_rev(table, ..).map(|entry| entry.expect("a read")).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    let found: Entries = forward.into_iter().map(|(key, value)| (key, value.to_vec())).collect();
    for number in 0..400 {
        let value = snapshot.get(table, key(number)).expect("a read").map(|value| value.to_vec());
        assert_eq!(value.as_ref(), found.get(&key(number)), "key {number}");
    }
    let keys: Vec<_> = (0..400).map(key).collect();
    let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
    let values = snapshot.multi_get(table, &keys).expect("a read");
    for (key, value) in keys.iter().zip(values) {
        assert_eq!(value.map(|value| value.to_vec()).as_ref(), found.get(*key));
    }
    found
}

fn assert_sound(db: &Database) {
    assert_eq!(db.verify().expect("readable").problems, vec![]);
}

#[test]
fn a_snapshot_sees_all_of_a_load_or_nothing() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let (db, model) = (open(&sim), Entries::new());
        let table = table(&db, layout);
        table.hold().unwrap();
        // The first with the table empty, the others over, into and beside what is there.
        let mut snapshots = vec![(db.snapshot(), model.clone())];
        let mut model = model;
        let loads: [(&[u8], Vec<usize>); 4] = [
            (b"first", (100..200).collect()),
            (b"second", (0..400).step_by(3).collect()),
            (b"third", (150..160).collect()),
            (b"fourth", (300..400).collect()),
        ];
        for (value, numbers) in loads {
            put(&db, &table, numbers[0], b"before", Durability::Buffered);
            load(&table, numbers.iter().copied(), value).unwrap();
            model.extend(numbers.iter().map(|number| (key(*number), loaded(value))));
            snapshots.push((db.snapshot(), model.clone()));
            for (at, (snapshot, model)) in snapshots.iter().enumerate() {
                assert_eq!(&entries(snapshot, &table), model, "{layout:?}, snapshot {at}");
            }
            put(&db, &table, numbers[1], b"after", Durability::Buffered);
            model.insert(key(numbers[1]), b"after".to_vec());
            snapshots.push((db.snapshot(), model.clone()));
        }
        let check = |step: &str| {
            for (at, (snapshot, model)) in snapshots.iter().enumerate() {
                assert_eq!(&entries(snapshot, &table), model, "{layout:?}, snapshot {at}, {step}");
            }
        };
        check("loaded");
        table.flush().unwrap();
        check("flushed");
        table.release().unwrap();
        table.wait_idle().unwrap();
        check("compacted by itself");
        table.compact().unwrap();
        check("compacted");
        assert_sound(&db);
        drop(snapshots);
        table.compact().unwrap();
        assert_eq!(entries(&db.snapshot(), &table), model, "{layout:?}");
        assert_sound(&db);
    }
}

#[test]
fn a_load_into_an_empty_table_is_one_packed_tree_and_not_in_the_log() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = table(&db, layout);
        let log = db.stats().log.appends;
        load(&table, 0..2000, b"value").unwrap();
        assert_eq!(db.stats().log.appends, log);
        let shape = table.shape().unwrap();
        assert_eq!((shape.memtable_entries, shape.l0.len(), shape.trees), (0, 0, 1), "{layout:?}");
        if let Some(tree) = shape.btree {
            assert_eq!(tree.entries, 2000);
            // An entry takes its key without the common prefix, its value and a slot.
            assert!(tree.leaves * 1000 < 2000 * 80, "{} leaves", tree.leaves);
            assert!(shape.levels.is_empty(), "the runs went into the tree");
        } else {
            assert_eq!(shape.levels.len(), 1);
            assert_eq!((shape.levels[0].level, shape.levels[0].entries), (7, 2000));
            assert!(shape.levels[0].runs > 1);
        }
        assert_eq!(db.snapshot().range(&table, ..).count(), 2000);
        assert_sound(&db);
    }
}

#[test]
fn a_load_sinks_to_the_lowest_level_above_which_nothing_overlaps_it() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    table.hold().unwrap();
    let levels = |table: &Table| {
        let shape = table.shape().unwrap();
        (shape.l0.len(), shape.levels.iter().map(|level| level.level).collect::<Vec<_>>())
    };
    let empty = db.snapshot();
    load(&table, 0..10, b"old").unwrap();
    let first = db.snapshot();
    load(&table, 20..30, b"beside").unwrap();
    assert_eq!(levels(&table), (0, vec![7]));
    load(&table, 5..15, b"over").unwrap();
    assert_eq!(levels(&table), (0, vec![6, 7]));
    assert_eq!(entries(&empty, &table), Entries::new());
    assert_eq!(entries(&first, &table), (0..10).map(|number| (key(number), loaded(b"old"))).collect());
    put(&db, &table, 7, b"newer", Durability::Sync);
    load(&table, 6..9, b"newest").unwrap();
    assert_eq!(levels(&table), (2, vec![6, 7]), "what was in memory lies below");
    let snapshot = db.snapshot();
    let value = |number| snapshot.get(&table, key(number)).unwrap().unwrap().to_vec();
    assert_eq!((value(4), value(5), value(7)), (loaded(b"old"), loaded(b"over"), loaded(b"newest")));
    table.release().unwrap();
    table.compact().unwrap();
    assert_eq!((value(4), value(5), value(7)), (loaded(b"old"), loaded(b"over"), loaded(b"newest")));
    assert_sound(&db);
}

#[test]
fn keys_that_do_not_ascend_are_refused_by_name_and_nothing_is_added() {
    for (first, second) in [(b"b", b"a"), (b"b", b"b")] {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = table(&db, Layout::Lsm);
        let mut load = table.bulk_load().unwrap();
        for number in 0..500 {
            load.push(&[b"a ", &*key(number)].concat(), &[0; 100]).unwrap();
        }
        load.push(first, b"1").unwrap();
        let error = load.push(second, b"2").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let said = error.to_string();
        let named = format!("'{}' came after '{}'", second.escape_ascii(), first.escape_ascii());
        assert!(said.contains(&named), "{said}");
        assert_eq!(load.push(b"c", b"3").unwrap_err().kind(), ErrorKind::Invalid, "the load is given up");
        assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Invalid);
        assert_eq!(db.snapshot().range(&table, ..).count(), 0);
        assert_sound(&db);
        put(&db, &table, 1, b"the database goes on", Durability::Sync);
    }
}

#[test]
fn a_load_that_is_dropped_leaves_nothing_and_one_under_way_is_no_problem() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    let files = || sim.env().fs.list(std::path::Path::new("/db")).unwrap().len();
    let before = files();
    let mut load = table.bulk_load().unwrap();
    for number in 0..1000 {
        load.push(&key(number), &[0; 100]).unwrap();
    }
    assert!(files() > before + 2);
    assert_sound(&db);
    table.compact().unwrap();
    drop(load);
    assert_eq!(files(), before);
    assert_sound(&db);
    table.bulk_load().unwrap().finish().unwrap();
    assert_eq!(db.snapshot().range(&table, ..).count(), 0, "a load may be empty");
}

#[test]
fn a_load_that_is_under_way_when_the_database_is_closed_leaves_nothing() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    let runs = || {
        let files = sim.env().fs.list("/db".as_ref()).expect("a directory");
        files.iter().filter(|file| file.name.ends_with(".run")).count()
    };
    let mut load = table.bulk_load().expect("an open database");
    for number in 0..1000 {
        load.push(&key(number), &loaded(b"load")).expect("room enough");
    }
    assert!(runs() > 1, "{} runs", runs());
    db.close().expect("room enough");
    assert_eq!(runs(), 0);
    assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Closed);
    assert_eq!(runs(), 0);
}

#[test]
fn a_load_into_a_dropped_table_is_refused_and_leaves_nothing() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::BTree);
    let mut load = table.bulk_load().unwrap();
    load.push(b"key", b"value").unwrap();
    db.drop_table("t").unwrap();
    assert_eq!(load.finish().unwrap_err().kind(), ErrorKind::Dropped);
    assert_sound(&db);
}

#[test]
fn a_full_disk_fails_the_load_and_not_the_database() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    put(&db, &table, 0, b"before", Durability::Sync);
    sim.set_space(1 << 20);
    let mut load = table.bulk_load().unwrap();
    let full = (0..100_000).find_map(|number| load.push(&key(number), &[b'v'; 200]).err());
    assert_eq!(full.expect("the disk is full").kind(), ErrorKind::Full);
    drop(load);
    put(&db, &table, 1, b"after", Durability::Sync);
    assert_eq!(db.snapshot().range(&table, ..).count(), 2);
    assert_sound(&db);
}

#[test]
fn a_transaction_that_began_before_a_load_conflicts_with_its_keys() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim);
        let table = table(&db, layout);
        let (mut over, mut beside) = (db.begin(), db.begin());
        over.put(&table, key(5), b"mine").unwrap();
        beside.put(&table, key(50), b"mine").unwrap();
        load(&table, 0..10, b"load").unwrap();
        assert_eq!(over.commit().unwrap_err().kind(), ErrorKind::Conflict);
        beside.commit().unwrap();
        let mut after = db.begin();
        after.put(&table, key(5), b"mine").unwrap();
        after.commit().unwrap();
        assert_eq!(entries(&db.snapshot(), &table).len(), 11);
    }
}

/// What is left after a crash: all commits up to some moment, with the load or without it.
fn examine(fork: SimEnv, layout: Layout, after: Option<&Entries>, before: &Entries, acknowledged: bool) {
    for profile in CrashProfile::EVERY {
        let sim = fork.fork();
        sim.power_crash(profile);
        let db = open(&sim);
        let found = entries(&db.snapshot(), &table(&db, layout));
        let whole = after.is_some_and(|after| *after == found);
        assert!(whole || (!acknowledged && *before == found), "{layout:?}, {profile:?}: {} entries", found.len());
        assert_sound(&db);
    }
}

#[test]
fn a_crash_at_any_write_leaves_all_of_a_load_or_nothing_and_no_stray_file() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(7);
        let db = open(&sim);
        let table = table(&db, layout);
        let mut before = Entries::new();
        for number in (0..300).step_by(2) {
            put(&db, &table, number, b"old", Durability::Buffered);
            before.insert(key(number), b"old".to_vec());
        }
        table.flush().unwrap();
        put(&db, &table, 7, b"in the memtable", Durability::Sync);
        before.insert(key(7), b"in the memtable".to_vec());
        let mut after = before.clone();
        after.extend((5..400).map(|number| (key(number), loaded(b"load"))));
        let points = Arc::new(Mutex::new(0));
        let (seen, states) = (Arc::clone(&points), (before.clone(), after.clone()));
        sim.observe(Some(Box::new(move |fork| {
            *seen.lock() += 1;
            examine(fork, layout, Some(&states.1), &states.0, false);
        })));
        load(&table, 5..400, b"load").unwrap();
        sim.observe(None);
        assert!(*points.lock() > 10, "{} changes", points.lock());
        examine(sim.fork(), layout, Some(&after), &before, true);
    }
}

#[test]
fn a_durable_load_is_never_without_the_commits_before_it() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(7);
        let db = open(&sim);
        let (table, other) = (table(&db, layout), db.create_table("other", TableOptions::default()).unwrap());
        put(&db, &other, 1, b"buffered", Durability::Buffered);
        load(&table, 0..10, b"load").unwrap();
        sim.power_crash(CrashProfile::Strict);
        let db = open(&sim);
        let other = db.table("other").unwrap().unwrap();
        assert!(db.snapshot().contains(&other, key(1)).unwrap(), "{layout:?}");
    }
}

/// The commits that a load meets: of a put without a snapshot, and of a transaction that began before the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    Put,
    Transaction,
}

/// A commit before the call of a load with this number; whether it came behind the load, with a conflict or without.
/// None when the load made fewer calls.
fn meet(layout: Layout, meets: Meets, flushed: bool, place: u64) -> Option<bool> {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, layout);
    put(&db, &table, 3, b"before", Durability::Sync);
    if flushed {
        // What the load then makes durable is of another table.
        table.flush().expect("room enough");
        let other = db.create_table("other", TableOptions::default()).expect("a new name");
        put(&db, &other, 1, b"buffered", Durability::Buffered);
    }
    let mut txn = db.begin();
    txn.put(&table, key(3), b"mine").expect("a put");
    let commit = || match meets {
        Meets::Put => table.put(key(3), b"mine"),
        Meets::Transaction => txn.commit_with(Durability::Sync),
    };
    let met = interrupt::at_call(&sim, (place, PATIENCE), || load(&table, 0..10, b"load"), commit);
    met.worked.expect("room enough");
    let committed = met.acted?;
    let found = entries(&db.snapshot(), &table);
    let when = format!("{layout:?}, {meets:?} at call {place}");
    let is_over = found[&key(3)] == b"mine";
    assert!(found.len() == 10 && (is_over || found[&key(3)] == loaded(b"load")), "{when}: {found:?}");
    assert!(meets == Meets::Put || !is_over, "{when}: the transaction did not see the load");
    sim.power_crash(CrashProfile::Strict);
    drop((table, db));
    let db = open(&sim);
    assert_eq!(entries(&db.snapshot(), &self::table(&db, layout)), found, "{when}, after a crash");
    Some(is_over || committed.is_err_and(|error| error.kind() == ErrorKind::Conflict))
}

#[test]
fn a_commit_at_any_call_of_a_load_is_before_or_behind_it_also_after_a_crash() {
    for (layout, flushed) in LAYOUTS.into_iter().flat_map(|layout| [(layout, false), (layout, true)]) {
        for meets in [Meets::Put, Meets::Transaction] {
            let met = (0..).map_while(|place| meet(layout, meets, flushed, place));
            let (behind, before): (Vec<_>, Vec<_>) = met.partition(|is_behind| *is_behind);
            let (behind, before) = (behind.len(), before.len());
            assert!(behind > 0 && before > 0, "{layout:?}, {meets:?}: {before} before a load and {behind} behind it");
        }
    }
}

/// A writer overwrites a key of the loads again and again while they come: each reader sees whole loads, and the writer
/// what it wrote.
#[test]
fn loads_and_commits_beside_them_have_one_order() {
    for layout in LAYOUTS {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path().join("db"), Options::default().memory_bytes(8 << 20)).unwrap();
        let table = table(&db, layout);
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20u8 {
                    load(&table, 0..300, &[round]).unwrap();
                }
                done.store(true, Ordering::Release);
            });
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    let snapshot = db.snapshot();
                    let all: Vec<_> = snapshot.range(&table, ..).map(|entry| entry.unwrap()).collect();
                    let round = all.iter().find(|(found, _)| *found == key(1)).map(|(_, value)| value[0]);
                    let whole =
                        all.iter().filter(|(found, _)| *found != key(0)).all(|(_, value)| Some(value[0]) == round);
                    assert!(whole && (all.len() <= 1 || all.len() == 300), "{layout:?}: {} entries", all.len());
                    let again = snapshot.get(&table, key(299)).unwrap().map(|value| value[0]);
                    assert_eq!(again, round, "{layout:?}: the snapshot changed");
                }
            });
            scope.spawn(|| {
                while !done.load(Ordering::Acquire) {
                    put(&db, &table, 0, b"mine", Durability::Buffered);
                    let mut txn = db.begin();
                    txn.put(&table, key(0), b"mine too").unwrap();
                    if let Err(error) = txn.commit_with(Durability::Buffered) {
                        assert_eq!(error.kind(), ErrorKind::Conflict);
                    }
                }
            });
        });
        put(&db, &table, 0, b"last", Durability::Buffered);
        assert_eq!(db.snapshot().get(&table, key(0)).unwrap().unwrap(), *b"last");
        assert_sound(&db);
    }
}

/// All runs of a load that met anything in L0 went there.
#[test]
fn only_the_runs_of_a_load_that_meet_others_lie_over_them() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    table.hold().unwrap();
    load(&table, 900..1300, b"first").unwrap();
    put(&db, &table, 1100, b"over it", Durability::Sync);
    table.flush().unwrap();
    let before = db.snapshot();
    load(&table, 0..6000, b"second").unwrap();
    let shape = table.shape().unwrap();
    let level = |number: u64| shape.levels.iter().find(|level| level.level == number).expect("a level with runs");
    assert_eq!(shape.l0.len(), 2, "one run of the load has the key that lies in L0");
    assert!(level(6).entries < 800 && level(7).entries > 3200, "{shape:?}");
    for (snapshot, value) in [(before, &b"first"[..]), (db.snapshot(), b"second")] {
        for entry in snapshot.range(&table, ..) {
            let (found, held) = entry.expect("a read");
            let is_over = value == b"first" && *found == *key(1100);
            assert_eq!(held.to_vec(), if is_over { b"over it".to_vec() } else { loaded(value) });
        }
    }
    assert_eq!(db.snapshot().range(&table, ..).count(), 6000);
    assert_sound(&db);
    // What crashed is found in the same places.
    drop((table, db));
    sim.power_crash(CrashProfile::Strict);
    let db = open(&sim);
    let again = self::table(&db, Layout::Lsm);
    assert_eq!((again.shape().unwrap().l0.len(), again.shape().unwrap().levels.len()), (2, 2));
    assert_eq!(db.snapshot().range(&again, ..).count(), 6000);
    again.compact().unwrap();
    assert_eq!(db.snapshot().get(&again, key(1100)).unwrap().map(|value| value.to_vec()), Some(loaded(b"second")));
    assert_sound(&db);
}

/// Does something in the middle of a compaction, when it is asked about a value.
#[derive(Clone, Default)]
struct Meanwhile(Arc<Mutex<Option<Act>>>);

type Act = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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

/// The load waited for the compaction, and went to L0 if there was another by then.
#[test]
fn a_load_goes_to_the_last_level_beside_a_compaction_of_other_keys() {
    let sim = SimEnv::new(1);
    let meanwhile = Meanwhile::default();
    let db = Database::builder("/db").env(sim.env()).compaction_filter("meanwhile", meanwhile.clone()).open().unwrap();
    let options = TableOptions::default().compaction_filter("meanwhile");
    let table = db.create_table("t", options).unwrap();
    table.hold().unwrap();
    for number in [0, 50, 100] {
        put(&db, &table, number, b"compacted", Durability::Sync);
        put(&db, &table, number + 1, b"compacted", Durability::Sync);
        table.flush().unwrap();
    }
    let beside = table.clone();
    let shapes = Arc::new(Mutex::new(None));
    let told = Arc::clone(&shapes);
    *meanwhile.0.lock() = Some(Box::new(move || {
        load(&beside, 200..300, b"beside").unwrap();
        *told.lock() = Some(beside.shape().unwrap());
    }));
    table.compact().unwrap();
    let shape = shapes.lock().take().expect("the filter was asked");
    assert_eq!((shape.l0.len(), shape.levels.len()), (3, 1), "the compaction goes on: {shape:?}");
    assert_eq!((shape.levels[0].level, shape.levels[0].entries), (7, 100));
    let shape = table.shape().unwrap();
    assert_eq!((shape.l0.len(), shape.levels.len(), shape.levels[0].entries), (0, 1, 106));
    assert_eq!(db.snapshot().range(&table, ..).count(), 106);
    assert_sound(&db);
}
