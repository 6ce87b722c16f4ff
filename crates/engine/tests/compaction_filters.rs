//! Compaction filters: what they are asked about, that they may be missing, and that nothing is lost over them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use spinney::env::sim::SimEnv;
use spinney::{
    Batch, CompactionFilter, Database, Decision, Durability, ErrorKind, Layout, Options, Table, TableOptions,
};
use spinney_testkit::operators::{SUM, Sum};

const LAYOUTS: [Layout; 3] = [Layout::BTree, Layout::Lsm, Layout::LsmTiered];

/// Removes values that begin with `-`, changes those that begin with `~`, and panics over those that begin with `!`.
#[derive(Debug)]
struct ByFirstByte;

impl CompactionFilter for ByFirstByte {
    fn filter(&self, key: &[u8], value: &[u8]) -> Decision {
        match value.first() {
            Some(b'-') => Decision::Remove,
            Some(b'~') => Decision::Change([b"changed ", key].concat()),
            Some(b'!') => panic!("a bug of the program"),
            _ => Decision::Keep,
        }
    }
}

fn open(sim: &SimEnv, registered: bool) -> Database {
    let options = Options::default().memory_bytes(16 << 20).log_segment_bytes(256 << 10);
    let builder = Database::builder("/db").env(sim.env()).options(options).merge_operator(SUM, Sum);
    let builder = if registered { builder.compaction_filter("by-first-byte", ByFirstByte) } else { builder };
    builder.open().expect("it opens")
}

fn options(layout: Layout) -> TableOptions {
    TableOptions::default().layout(layout).merge(SUM).compaction_filter("by-first-byte")
}

fn put(db: &Database, table: &Table, key: &str, value: &[u8]) {
    let mut batch = Batch::new();
    batch.put(table, key.as_bytes(), value);
    db.write_with(&batch, Durability::Buffered).expect("written");
}

fn merge(db: &Database, table: &Table, key: &str, number: u64) {
    let mut batch = Batch::new();
    batch.merge(table, key.as_bytes(), number.to_le_bytes());
    db.write_with(&batch, Durability::Buffered).expect("written");
}

fn entries(db: &Database, table: &Table) -> Vec<(String, String)> {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    let snapshot = db.snapshot();
    snapshot
        .range(table, ..)
        .map(|entry| entry.expect("readable"))
        .map(|(key, value)| (text(key), text(value.into())))
        .collect()
}

fn expect(db: &Database, table: &Table, expected: &[(&str, &str)]) {
    let expected: Vec<_> = expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    assert_eq!(entries(db, table), expected, "{:?}", table.options().layout);
    assert!(db.verify().expect("open").problems.is_empty());
}

#[test]
fn flushes_and_compactions_ask_about_values_that_every_snapshot_sees() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(1);
        let db = open(&sim, true);
        let table = db.create_table("t", options(layout)).unwrap();
        table.hold().unwrap();
        put(&db, &table, "hidden", b"-older");
        put(&db, &table, "kept", b"value");
        let early = db.snapshot();
        put(&db, &table, "changed", b"~");
        put(&db, &table, "hidden", b"newer");
        put(&db, &table, "removed", b"-");
        // Not every snapshot sees what is new, and what is old is not the newest.
        table.compact().unwrap();
        let expected = [("changed", "~"), ("hidden", "newer"), ("kept", "value"), ("removed", "-")];
        expect(&db, &table, &expected);
        assert_eq!(early.get(&table, b"hidden").unwrap().as_deref(), Some(b"-older".as_slice()));
        assert_eq!(early.get(&table, b"removed").unwrap(), None);
        drop(early);
        table.compact().unwrap();
        expect(&db, &table, &[("changed", "changed changed"), ("hidden", "newer"), ("kept", "value")]);

        // What a run above removes hides what is below.
        put(&db, &table, "kept", b"-now");
        put(&db, &table, "also changed", b"~");
        expect(
            &db,
            &table,
            &[("also changed", "~"), ("changed", "changed changed"), ("hidden", "newer"), ("kept", "-now")],
        );
        table.flush().unwrap();
        let left = [("also changed", "changed also changed"), ("changed", "changed changed"), ("hidden", "newer")];
        expect(&db, &table, &left);
        table.compact().unwrap();
        expect(&db, &table, &left);
        drop(table);
        db.close().unwrap();
        let db = open(&sim, true);
        expect(&db, &db.table("t").unwrap().unwrap(), &left);
    }
}

#[test]
fn a_table_in_one_piece_is_asked_about_again_when_it_is_compacted() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(2);
        let db = open(&sim, true);
        let table = db.create_table("t", options(layout)).unwrap();
        table.hold().unwrap();
        table.compact().unwrap();
        put(&db, &table, "a", b"value");
        put(&db, &table, "k", b"-");
        drop(table);
        db.close().unwrap();

        // Without the filter the values stay, and everything goes on.
        let db = open(&sim, false);
        let table = db.table("t").unwrap().unwrap();
        table.compact().unwrap();
        expect(&db, &table, &[("a", "value"), ("k", "-")]);
        put(&db, &table, "a", b"-too");
        table.compact().unwrap();
        expect(&db, &table, &[("a", "-too"), ("k", "-")]);
        let refused = db.create_table("u", options(layout)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.to_string().contains("no compaction filter 'by-first-byte': open"), "{refused}");
        drop(table);
        db.close().unwrap();

        let db = open(&sim, true);
        let table = db.table("t").unwrap().unwrap();
        expect(&db, &table, &[("a", "-too"), ("k", "-")]);
        table.compact().unwrap();
        expect(&db, &table, &[]);
    }
}

#[test]
fn what_operands_are_folded_to_is_asked_about() {
    // Little-endian, the first byte of these is `-`.
    let minus = u64::from(b'-');
    for layout in LAYOUTS {
        let sim = SimEnv::new(3);
        let db = open(&sim, true);
        let table = db.create_table("t", options(layout)).unwrap();
        table.hold().unwrap();
        merge(&db, &table, "operands", minus - 1);
        merge(&db, &table, "operands", 1);
        put(&db, &table, "put", &1u64.to_le_bytes());
        merge(&db, &table, "put", minus - 1);
        // The base alone would be removed.
        put(&db, &table, "stays", &minus.to_le_bytes());
        merge(&db, &table, "stays", 1);
        merge(&db, &table, "older", minus);
        let early = db.snapshot();
        put(&db, &table, "older", b"newer");
        table.flush().unwrap();
        let stays = String::from_utf8((minus + 1).to_le_bytes().to_vec()).unwrap();
        expect(&db, &table, &[("older", "newer"), ("stays", &stays)]);
        assert_eq!(early.get(&table, b"older").unwrap().as_deref(), Some(minus.to_le_bytes().as_slice()));
    }
}

#[test]
fn a_change_that_the_merge_operator_cannot_use_is_not_taken() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(5);
        let db = open(&sim, true);
        let table = db.create_table("t", options(layout).merge("add")).unwrap();
        // Little-endian, the first byte is `~`: the filter would give the counter a text.
        let number = u64::from(b'~');
        put(&db, &table, "counter", &number.to_le_bytes());
        table.compact().unwrap();
        merge(&db, &table, "counter", 1);
        let sum = db.snapshot().get(&table, b"counter").unwrap();
        assert_eq!(sum.as_deref(), Some(&(number + 1).to_le_bytes()[..]), "{layout:?}");
    }
}

#[test]
fn a_filter_that_panics_loses_nothing() {
    for layout in LAYOUTS {
        let sim = SimEnv::new(4);
        let db = open(&sim, true);
        let table = db.create_table("t", options(layout)).unwrap();
        table.hold().unwrap();
        put(&db, &table, "a", b"value");
        table.compact().unwrap();
        put(&db, &table, "k", b"!");
        put(&db, &table, "l", b"-");
        for step in [Table::flush, Table::compact] {
            assert!(catch_unwind(AssertUnwindSafe(|| step(&table))).is_err());
            assert_eq!(entries(&db, &table).len(), 3, "{layout:?}");
        }
        put(&db, &table, "m", b"more");
        drop(table);
        db.close().unwrap();
        let db = open(&sim, false);
        let table = db.table("t").unwrap().unwrap();
        table.compact().unwrap();
        expect(&db, &table, &[("a", "value"), ("k", "!"), ("l", "-"), ("m", "more")]);
    }
}

#[test]
fn leaves_from_before_the_filter_are_asked_about() {
    let sim = SimEnv::new(1);
    let options = options(Layout::Lsm).block_bytes(512);
    open(&sim, true).create_table("t", options).expect("created");
    let db = open(&sim, false);
    let table = db.table("t").expect("readable").expect("there");
    for i in 0..2000 {
        put(&db, &table, &format!("key-{i:06}"), if i % 2 == 0 { b"-" } else { b"stays" });
    }
    table.compact().expect("compacted");
    drop(table);
    db.close().expect("closed");

    let db = open(&sim, true);
    let table = db.table("t").expect("readable").expect("there");
    // A second tree, between whose keys whole leaves of the first one lie.
    put(&db, &table, "key-000000", b"stays");
    put(&db, &table, "key-001999", b"stays");
    table.compact().expect("compacted");
    let left = entries(&db, &table);
    assert_eq!(left.len(), 1001);
    assert!(left.iter().all(|(_, value)| value == "stays"));
    assert_eq!(db.stats().flush.compaction_reused_leaves, 0);
}
