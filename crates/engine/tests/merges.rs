//! Merge operators: what they are given, what is refused without them, and that no operand is lost or counted twice.

use std::path::Path;

use spinney::env::sim::SimEnv;
use spinney::{
    Batch, Database, DatabaseBuilder, Durability, Error, ErrorKind, Kind, Layout, MergeOperator, Options, Result,
    Table, TableOptions,
};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

/// Appends operands, and fails over those that begin with `!`.
#[derive(Debug)]
struct Append;

impl MergeOperator for Append {
    fn full(&self, _key: &[u8], base: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>> {
        match operands.iter().find(|operand| operand.starts_with(b"!")) {
            Some(_) => Err(Error::invalid("an operand that cannot be appended")),
            None => Ok([base.unwrap_or_default(), &operands.concat()].concat()),
        }
    }
}

fn options() -> Options {
    Options::default().memory_bytes(16 << 20).log_segment_bytes(256 << 10)
}

fn without_operator(sim: &SimEnv) -> Database {
    Database::builder("/db").env(sim.env()).options(options()).open().expect("it opens")
}

fn builder(path: impl AsRef<Path>) -> DatabaseBuilder {
    Database::builder(path).options(options()).merge_operator("append", Append)
}

fn with_operator(sim: &SimEnv) -> Database {
    builder("/db").env(sim.env()).open().expect("it opens")
}

fn create(db: &Database, layout: Layout, merge: &str) -> Table {
    db.create_table("t", TableOptions::default().layout(layout).merge(merge)).expect("a table")
}

fn merge(db: &Database, table: &Table, key: &str, operand: &[u8]) -> Result<()> {
    let mut batch = Batch::new();
    batch.merge(table, key.as_bytes(), operand);
    db.write_with(&batch, Durability::Buffered)
}

fn put(db: &Database, table: &Table, key: &str, value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key.as_bytes(), value);
    db.write_with(&batch, Durability::Buffered).expect("written");
}

fn get(db: &Database, table: &Table, key: &str) -> Option<Vec<u8>> {
    db.snapshot().get(table, key.as_bytes()).expect("readable").map(Vec::from)
}

/// Entries of all versions in the table's trees on disk.
fn entries_on_disk(table: &Table) -> u64 {
    let shape = table.shape().expect("open");
    let runs: u64 = shape.l0.iter().map(|run| run.entries).sum();
    runs + shape.levels.iter().map(|level| level.entries).sum::<u64>() + shape.btree.map_or(0, |btree| btree.entries)
}

#[test]
fn without_the_operator_merged_keys_are_refused_and_nothing_is_lost() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = with_operator(&sim);
        let table = create(&db, layout, "append");
        put(&db, &table, "base", b"a");
        put(&db, &table, "plain", b"value");
        table.flush().unwrap();
        // They stay in the log: a flush would fold them into a B-tree.
        for (key, operand) in [("base", b"b"), ("none", b"x"), ("base", b"c"), ("none", b"y")] {
            merge(&db, &table, key, operand).unwrap();
        }
        drop(table);
        db.close().unwrap();

        let db = without_operator(&sim);
        let table = db.table("t").unwrap().unwrap();
        let refused = |error: Error| {
            assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("'append' is not registered"));
        };
        for _ in 0..2 {
            refused(db.snapshot().get(&table, b"base").unwrap_err());
            refused(db.snapshot().get(&table, b"none").unwrap_err());
            assert_eq!(get(&db, &table, "plain").as_deref(), Some(b"value".as_slice()));
            assert!(db.snapshot().range(&table, ..).any(|entry| entry.is_err()));
            assert!(db.snapshot().range_rev(&table, ..).any(|entry| entry.is_err()));
            // Folding is left to a process that has the operator.
            table.compact().unwrap();
        }
        refused(merge(&db, &table, "base", b"d").unwrap_err());
        let mut txn = db.begin();
        refused(txn.merge(&table, b"base", b"d").unwrap_err());
        // Nor is a value put that nobody can check.
        refused(txn.put(&table, b"base", b"d").unwrap_err());
        let mut load = table.bulk_load().unwrap();
        refused(load.push(b"base", b"d").unwrap_err());
        drop(load);
        assert_eq!(entries_on_disk(&table), 6, "{layout:?}");
        drop((txn, table));
        db.close().unwrap();

        let db = with_operator(&sim);
        let table = db.table("t").unwrap().unwrap();
        for _ in 0..2 {
            assert_eq!(get(&db, &table, "base").as_deref(), Some(b"abc".as_slice()), "{layout:?}");
            assert_eq!(get(&db, &table, "none").as_deref(), Some(b"xy".as_slice()), "{layout:?}");
            table.compact().unwrap();
        }
        assert_eq!(entries_on_disk(&table), 3, "{layout:?}");
        assert!(db.verify().unwrap().problems.is_empty());
    }
}

#[test]
fn what_the_operator_fails_over_stays_and_the_database_goes_on() {
    for layout in LAYOUTS {
        let db = with_operator(&SimEnv::new(2));
        let table = create(&db, layout, "append");
        put(&db, &table, "k", b"a");
        merge(&db, &table, "k", b"!").unwrap();
        merge(&db, &table, "other", b"b").unwrap();
        table.compact().unwrap();
        let error = db.snapshot().get(&table, b"k").unwrap_err().to_string();
        assert!(error.contains("key k") && error.contains("cannot be appended"), "{error}");
        assert_eq!(get(&db, &table, "other").as_deref(), Some(b"b".as_slice()));
        put(&db, &table, "k", b"new");
        table.compact().unwrap();
        assert_eq!(get(&db, &table, "k").as_deref(), Some(b"new".as_slice()));
        assert_eq!(entries_on_disk(&table), 2);
    }
}

#[test]
fn a_table_without_operator_refuses_merges_and_an_unknown_one_is_not_created() {
    let db = without_operator(&SimEnv::new(3));
    let table = db.create_table("plain", TableOptions::default()).unwrap();
    assert_eq!(merge(&db, &table, "k", b"1").unwrap_err().kind(), ErrorKind::Invalid);
    let unknown = db.create_table("t", TableOptions::default().merge("append"));
    assert!(unknown.unwrap_err().to_string().contains("no merge operator 'append', only add"));
    let counters = create(&db, Layout::Lsm, "add");
    let error = merge(&db, &counters, "k", b"seven b").unwrap_err();
    assert!(error.kind() == ErrorKind::Invalid && error.to_string().contains("8 bytes"), "{error}");
}

/// A counter that was put with text could not be read any more after the next merge, and a scan of its table ended at
/// it.
#[test]
fn a_value_that_the_operator_cannot_use_is_refused_wherever_it_is_put() {
    for (layout, logged) in LAYOUTS.into_iter().flat_map(|layout| [(layout, true), (layout, false)]) {
        let sim = SimEnv::new(10);
        let db = without_operator(&sim);
        let options = TableOptions::default().layout(layout).logged(logged).merge("add");
        let table = db.create_table("t", options).unwrap();
        let refused = |error: Error| {
            let text = error.to_string();
            assert!(
                error.kind() == ErrorKind::Invalid && text.contains("table 't'") && text.contains("8 bytes"),
                "{text}"
            );
        };
        for value in [&b""[..], b"5", b"hello", b"9 bytes.."] {
            let mut batch = Batch::new();
            batch.put(&table, b"sound", 1u64.to_le_bytes());
            batch.put(&table, b"k", value);
            refused(db.write_with(&batch, Durability::Sync).unwrap_err());
            let mut txn = db.begin();
            refused(txn.put(&table, b"k", value).unwrap_err());
            txn.merge(&table, b"k", 0u64.to_le_bytes()).unwrap();
            assert_eq!(txn.get(&table, b"k").unwrap().as_deref(), Some(&[0; 8][..]), "the transaction goes on");
            drop(txn);
            let mut load = table.bulk_load().unwrap();
            load.push(b"a", &1u64.to_le_bytes()).unwrap();
            refused(load.push(b"k", value).unwrap_err());
            assert!(load.finish().is_err(), "it was given up");
        }
        assert_eq!(db.snapshot().range(&table, ..).count(), 0, "nothing of what was refused is there");
        put(&db, &table, "k", &5u64.to_le_bytes());
        merge(&db, &table, "k", &1u64.to_le_bytes()).unwrap();
        table.compact().unwrap();
        assert_eq!(get(&db, &table, "k").as_deref(), Some(&6u64.to_le_bytes()[..]), "{layout:?}");
    }
}

#[test]
fn a_transaction_sees_its_merges_and_conflicts_over_them_as_over_puts() {
    let db = with_operator(&SimEnv::new(4));
    let table = create(&db, Layout::Lsm, "append");
    put(&db, &table, "k", b"a");
    let (mut first, mut second) = (db.begin(), db.begin());
    first.merge(&table, b"k", b"b").unwrap();
    second.merge(&table, b"k", b"c").unwrap();
    first.merge(&table, b"k", b"d").unwrap();
    first.merge(&table, b"new", b"n").unwrap();
    assert_eq!(first.get(&table, b"k").unwrap().as_deref(), Some(b"abd".as_slice()));
    let values = |range: spinney::Range| range.map(|entry| Vec::from(entry.unwrap().1)).collect::<Vec<_>>();
    assert_eq!(values(first.range(&table, ..)), [b"abd".to_vec(), b"n".to_vec()]);
    assert_eq!(values(first.range_rev(&table, ..)), [b"n".to_vec(), b"abd".to_vec()]);
    first.delete(&table, b"new").unwrap();
    first.merge(&table, b"new", b"m").unwrap();
    first.commit().unwrap();
    assert_eq!(second.commit().unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(get(&db, &table, "k").as_deref(), Some(b"abd".as_slice()));
    assert_eq!(get(&db, &table, "new").as_deref(), Some(b"m".as_slice()));
}

#[test]
fn a_transaction_reads_many_keys_as_it_reads_each() {
    for layout in LAYOUTS {
        let db = with_operator(&SimEnv::new(8));
        let table = create(&db, layout, "append");
        let names =
            ["absent", "deleted", "erased", "erased/merged", "erased/put", "merged", "new", "over", "put", "stays"];
        for name in names.iter().filter(|name| !["absent", "new"].contains(name)) {
            put(&db, &table, name, b"old ");
        }
        table.flush().unwrap();
        merge(&db, &table, "stays", b"and more").unwrap();
        let mut txn = db.begin();
        txn.delete_range(&table, &b"erased"[..]..&b"erased0"[..]).unwrap();
        txn.delete(&table, b"deleted").unwrap();
        txn.put(&table, b"put", b"mine").unwrap();
        txn.put(&table, b"erased/put", b"mine").unwrap();
        txn.put(&table, b"over", b"mine ").unwrap();
        for name in ["over", "merged", "new", "erased/merged"] {
            txn.merge(&table, name.as_bytes(), b"and an operand").unwrap();
        }
        // What comes later is no business of the transaction's.
        put(&db, &table, "stays", b"later");
        put(&db, &table, "absent", b"later");
        let expected = [
            ("absent", None),
            ("deleted", None),
            ("erased", None),
            ("erased/merged", Some("and an operand")),
            ("erased/put", Some("mine")),
            ("merged", Some("old and an operand")),
            ("new", Some("and an operand")),
            ("over", Some("mine and an operand")),
            ("put", Some("mine")),
            ("stays", Some("old and more")),
        ];
        // Twice, and not in the order of the keys.
        let keys: Vec<&[u8]> = names.iter().rev().chain(&names).map(|name| name.as_bytes()).collect();
        let expected: Vec<_> =
            expected.iter().rev().chain(&expected).map(|(_, value)| value.map(str::as_bytes)).collect();
        let together = txn.multi_get(&table, &keys).unwrap();
        assert_eq!(together.iter().map(Option::as_deref).collect::<Vec<_>>(), expected, "{layout:?}");
        let alone: Vec<_> = keys.iter().map(|key| txn.get(&table, key).unwrap()).collect();
        assert_eq!(together, alone, "{layout:?}");
        assert_eq!(txn.multi_get(&table, &[""; 0]).unwrap(), []);
        assert_eq!(txn.multi_get(&table, &["put", ""]).unwrap_err().kind(), ErrorKind::Invalid);
        let other = with_operator(&SimEnv::new(9));
        assert_eq!(other.begin().multi_get(&table, &[b"put"]).unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn the_change_feed_tells_merges_as_they_were_written() {
    let db = with_operator(&SimEnv::new(5));
    let table = create(&db, Layout::Lsm, "append");
    let mut feed = db.changes(db.log_start()).unwrap();
    let mut batch = Batch::new();
    batch.merge(&table, b"k", b"one");
    batch.merge(&table, b"k", b"");
    db.write_with(&batch, Durability::Sync).unwrap();
    let commit = feed.poll().unwrap().unwrap();
    let changes: Vec<_> = commit.changes().iter().map(|change| (change.kind, change.value.to_vec())).collect();
    assert_eq!(changes, [(Kind::Merge, b"one".to_vec()), (Kind::Merge, Vec::new())]);
}

/// An operand that was applied twice, or not at all, at a flush, a rotation or a fold would show in the sum.
#[test]
fn counters_that_many_threads_add_to_have_the_sum() {
    const THREADS: u64 = 3;
    const ADDS: u64 = 3000;
    for layout in LAYOUTS {
        let folder = tempfile::tempdir().unwrap();
        let options = options().memtable_bytes(16 << 10);
        let db = builder(folder.path().join("db")).options(options).open().unwrap();
        let table = create(&db, layout, "add");
        let sum = || {
            let snapshot = db.snapshot();
            let number = |value: &[u8]| u64::from_le_bytes(value.try_into().unwrap());
            let forward: u64 = snapshot.range(&table, ..).map(|entry| number(&entry.unwrap().1)).sum();
            let backward: u64 = snapshot.range_rev(&table, ..).map(|entry| number(&entry.unwrap().1)).sum();
            let keys = snapshot.range(&table, ..).map(|entry| entry.unwrap().0);
            let single: u64 = keys.map(|key| number(&snapshot.get(&table, &key).unwrap().unwrap())).sum();
            assert_eq!([forward, backward], [single; 2], "{layout:?}");
            single
        };
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    for at in 0..ADDS {
                        let key = format!("counter{}", (at * 7 + thread) % 50);
                        merge(db, table, &key, &1u64.to_le_bytes()).unwrap();
                    }
                });
            }
            let mut before = 0;
            for _ in 0..20 {
                let now = sum();
                assert!(now >= before, "{layout:?}");
                before = now;
            }
        });
        assert_eq!(sum(), THREADS * ADDS, "{layout:?}");
        table.compact().unwrap();
        assert_eq!(sum(), THREADS * ADDS, "{layout:?}");
        assert_eq!(entries_on_disk(&table), 50, "{layout:?}");
    }
}
