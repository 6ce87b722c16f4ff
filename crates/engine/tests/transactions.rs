//! What transactions offer beside reads and writes: savepoints, keys that must be new, retries, merges that commute,
//! and notes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Savepoint, Table, TableOptions, Transaction};
use spinney_testkit::Rng;

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

fn open(sim: &SimEnv) -> Database {
    let options = Options::default().memory_bytes(8 << 20).log_segment_bytes(64 << 10);
    Database::builder("/db").env(sim.env()).options(options).open().expect("a machine in order")
}

fn table(db: &Database, layout: Layout) -> Table {
    db.open_or_create_table("t", TableOptions::default().layout(layout).merge("add")).expect("a machine in order")
}

fn number(value: u64) -> [u8; 8] {
    value.to_le_bytes()
}

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn assert_shows(txn: &Transaction, table: &Table, model: &Model, when: &str) {
    let found: Model = txn.range(table, ..).map(|entry| entry.expect("a read")).map(|(k, v)| (k, v.to_vec())).collect();
    assert!(found == *model, "{when}: {found:?} and not {model:?}");
    let back: Model =
        txn.range_rev(table, ..).map(|entry| entry.expect("a read")).map(|(k, v)| (k, v.to_vec())).collect();
    assert!(back == *model, "{when}, backward");
    for key in 0..12_u8 {
        let value = txn.get(table, [key]).expect("a read");
        assert_eq!(value.as_deref(), model.get(&vec![key]).map(|value| &value[..]), "{when}, key {key}");
    }
}

/// Random writes, savepoints, rollbacks and walks, which remember what the transaction has hidden, against a model.
#[test]
fn a_rollback_to_a_savepoint_shows_what_the_transaction_showed_then() {
    for seed in 0..300 {
        let (sim, mut rng) = (SimEnv::new(seed), Rng::new(seed));
        let db = open(&sim);
        let table = table(&db, *rng.pick(&LAYOUTS));
        let mut model = Model::new();
        for key in 0..12_u8 {
            if rng.chance(60) {
                table.put([key], number(u64::from(key))).expect("a put");
                model.insert(vec![key], number(u64::from(key)).to_vec());
            }
        }
        if rng.chance(50) {
            table.flush().expect("a machine in order");
        }
        let mut txn = db.begin();
        let mut savepoints: Vec<(Savepoint, Model)> = Vec::new();
        for step in 0..60 {
            let key = vec![u8::try_from(rng.in_range(0..12)).expect("small")];
            match rng.weighted(&[4, 3, 2, 2, 3, 2, 1, 3]) {
                0 => {
                    txn.put(&table, &key, number(step)).expect("a put");
                    model.insert(key, number(step).to_vec());
                }
                1 => {
                    txn.delete(&table, &key).expect("a delete");
                    model.remove(&key);
                }
                2 => {
                    let end = key[0] + u8::try_from(rng.in_range(1..8)).expect("small");
                    txn.delete_range(&table, key.clone()..vec![end]).expect("a delete");
                    model.retain(|known, _| !(key[0]..end).contains(&known[0]));
                }
                3 => {
                    txn.merge(&table, &key, number(1)).expect("a merge");
                    let before =
                        model.get(&key).map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("8")));
                    model.insert(key, number(before + 1).to_vec());
                }
                4 => savepoints.push((txn.savepoint(), model.clone())),
                5 if !savepoints.is_empty() => {
                    let at = rng.in_range(0..savepoints.len());
                    txn.rollback_to(&savepoints[at].0).expect("it was set");
                    model = savepoints[at].1.clone();
                    for (gone, _) in savepoints.drain(at + 1..) {
                        assert_eq!(txn.rollback_to(&gone).unwrap_err().kind(), ErrorKind::Invalid);
                    }
                }
                6 if !savepoints.is_empty() => {
                    let at = rng.in_range(0..savepoints.len());
                    txn.release(savepoints.drain(at..).next().expect("one").0).expect("it was set");
                }
                _ => assert_shows(&txn, &table, &model, &format!("seed {seed}, step {step}")),
            }
        }
        assert_shows(&txn, &table, &model, &format!("seed {seed}, in the end"));
        txn.commit().expect("nothing else writes");
        assert_shows(&db.begin(), &table, &model, &format!("seed {seed}, committed"));
    }
}

#[test]
fn a_savepoint_of_another_transaction_is_refused_and_undoes_nothing() {
    let db = open(&SimEnv::new(1));
    let table = table(&db, Layout::Lsm);
    let (mut mine, mut other) = (db.begin(), db.begin());
    let savepoint = other.savepoint();
    mine.put(&table, "k", number(1)).expect("a put");
    assert_eq!(mine.rollback_to(&savepoint).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(mine.release(savepoint).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(mine.get(&table, "k").expect("a read").as_deref(), Some(&number(1)[..]));
}

#[test]
fn a_key_that_must_be_new_is_refused_at_once_or_conflicts() {
    for layout in LAYOUTS {
        let db = open(&SimEnv::new(1));
        let table = table(&db, layout);
        table.put("old", number(1)).expect("a put");
        table.flush().expect("a machine in order");
        let (mut first, mut second) = (db.begin(), db.begin());
        assert_eq!(first.put_new(&table, "old", number(2)).unwrap_err().kind(), ErrorKind::AlreadyExists);
        first.delete(&table, "old").expect("a delete");
        first.put_new(&table, "old", number(2)).expect("the transaction has removed it");
        first.put_new(&table, "new", number(3)).expect("there is none");
        second.put_new(&table, "new", number(4)).expect("there is none yet");
        assert!(!second.would_conflict(&table, "new").expect("a look"));
        first.commit().expect("it is the first");
        assert!(second.would_conflict(&table, "new").expect("a look"));
        assert!(!second.would_conflict(&table, "else").expect("a look"));
        assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(table.get("new").expect("a read").as_deref(), Some(&number(3)[..]));
    }
}

/// A key that the filters rule out is not looked for on the device.
#[test]
fn a_new_key_is_put_without_a_read() {
    let db = open(&SimEnv::new(1));
    let table = table(&db, Layout::Lsm);
    for key in 0..20_000_u32 {
        let mut batch = Batch::new();
        batch.put(&table, (2 * key).to_be_bytes(), number(1));
        db.write_with(&batch, Durability::Buffered).expect("a write");
    }
    table.compact().expect("a machine in order");
    let before = db.stats().table_reads["t"];
    let mut txn = db.begin();
    for key in 0..1000_u32 {
        txn.put_new(&table, (2 * key + 1).to_be_bytes(), number(1)).expect("it is new");
    }
    let after = db.stats().table_reads["t"];
    assert!(after.get_trees - before.get_trees < 50, "{} searches", after.get_trees - before.get_trees);
}

#[test]
fn merges_that_commute_conflict_with_other_changes_and_not_with_each_other() {
    for layout in LAYOUTS {
        let db = open(&SimEnv::new(1));
        let table = table(&db, layout);
        let begin = |operand: u64| {
            let mut txn = db.begin();
            txn.merge(&table, "counter", number(operand)).expect("a merge");
            txn
        };
        for flushes in [false, true] {
            let transactions = [1, 2, 3].map(begin);
            let (mut put, mut late) = (db.begin(), begin(100));
            put.put(&table, "counter", number(7)).expect("a put");
            for txn in transactions {
                txn.commit().expect("merges commute");
                if flushes {
                    table.flush().expect("a machine in order");
                }
            }
            assert_eq!(put.commit().unwrap_err().kind(), ErrorKind::Conflict, "a put is not a merge");
            table.put("counter", number(10)).expect("a put");
            assert!(late.would_conflict(&table, "counter").expect("a look"));
            late.merge(&table, "counter", number(1)).expect("a merge");
            assert_eq!(late.commit().unwrap_err().kind(), ErrorKind::Conflict, "{layout:?}: a put came between");
            assert_eq!(table.get("counter").expect("a read").as_deref(), Some(&number(10)[..]));
        }
    }
}

#[test]
fn what_conflicts_is_tried_again_until_it_is_done() {
    let dir = tempfile::tempdir().expect("a directory");
    let options = Options::default().memory_bytes(8 << 20).durability(Durability::Buffered);
    let db = Database::open(dir.path().join("db"), options).expect("a machine in order");
    let table = db.open_or_create_table("t", TableOptions::default()).expect("a machine in order");
    let tries = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let added = db.transact(|txn| {
                        tries.fetch_add(1, Ordering::Relaxed);
                        let before = txn
                            .get(&table, "n")?
                            .map_or(0, |value| u64::from_le_bytes(value[..].try_into().expect("8")));
                        txn.put(&table, "n", number(before + 1))
                    });
                    added.expect("it is done in the end");
                }
            });
        }
    });
    assert_eq!(table.get("n").expect("a read").as_deref(), Some(&number(800)[..]));
    assert!(tries.load(Ordering::Relaxed) >= 800);
    let refused: spinney::Result<()> = db.transact(|txn| {
        txn.put(&table, "n", number(1))?;
        txn.put(&table, "", number(1))
    });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(table.get("n").expect("a read").as_deref(), Some(&number(800)[..]), "an error rolls back");
}

#[test]
fn notes_come_out_of_the_feed_with_their_commits_also_after_a_crash() {
    let sim = SimEnv::new(1);
    let db = open(&sim);
    let table = table(&db, Layout::Lsm);
    let unlogged = db.create_table("u", TableOptions::default().logged(false)).expect("a machine in order");
    let mut txn = db.begin();
    txn.note("first");
    txn.put(&table, "a", number(1)).expect("a put");
    txn.commit().expect("nothing else writes");
    table.put("b", number(2)).expect("a put");
    // So large that it has a memtable of its own.
    let mut batch = Batch::new();
    batch.note(vec![7; 60_000]);
    for key in 0..20_000_u32 {
        batch.put(&table, key.to_be_bytes(), number(1));
    }
    db.write(&batch).expect("a write");
    let mut lonely = Batch::new();
    lonely.note("of nothing");
    db.write(&lonely).expect("a write");
    lonely.note("of an unlogged table");
    lonely.put(&unlogged, "k", number(1));
    db.write(&lonely).expect("a write");
    let mut long = Batch::new();
    long.put(&table, "k", number(1));
    long.note(vec![0; (64 << 20) + 1]);
    assert_eq!(db.write(&long).unwrap_err().kind(), ErrorKind::Invalid);
    let start = db.log_start();
    drop((table, unlogged, db));
    sim.process_crash();
    let db = open(&sim);
    let notes: Vec<_> =
        db.changes(start).expect("the log is kept").map(|commit| commit.expect("a read").note().to_vec()).collect();
    let lonely = [b"of nothing".to_vec(), b"of an unlogged table".to_vec()];
    assert_eq!(notes, [vec![b"first".to_vec(), Vec::new(), vec![7; 60_000]], lonely.to_vec()].concat());
    assert_eq!(db.table("t").expect("open").expect("a table").range(..).count(), 20_002);
}
