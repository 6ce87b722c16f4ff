//! The handles as a new user meets them: tables without transactions, ranges from both ends, batches that are kept.

use std::collections::BTreeMap;
use std::ops::Bound;

use proptest::prelude::*;
use spinney::env::sim::SimEnv;
use spinney::{Batch, Database, Durability, ErrorKind, Layout, Options, Range, Table, TableOptions, Transaction};

fn open() -> (tempfile::TempDir, Database) {
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open(dir.path().join("db"), options()).expect("a database");
    (dir, db)
}

fn options() -> Options {
    Options::default().memory_bytes(8 << 20).durability(Durability::Buffered)
}

fn lsm() -> TableOptions {
    TableOptions::default().layout(Layout::Lsm)
}

fn key_of(entry: Option<spinney::Result<(Vec<u8>, spinney::Value)>>) -> Option<Vec<u8>> {
    entry.map(|entry| entry.expect("a read").0)
}

#[test]
fn a_table_is_read_and_written_without_ceremony() {
    let (_dir, db) = open();
    let table = db.open_or_create_table("people", lsm()).expect("a table");
    table.put("ann", 42_u32.to_be_bytes()).expect("a put");
    table.put(b"bob", vec![1, 2]).expect("a put");
    table.put(String::from("bo"), "b").expect("a put");
    assert_eq!(table.get("ann").expect("a get").as_deref(), Some(&[0, 0, 0, 42][..]));
    assert!(table.contains(b"bob").expect("a look"));
    table.delete("bob").expect("a delete");
    assert!(!table.contains("bob").expect("a look"));
    assert_eq!(table.prefix("b").count(), 1);
    assert_eq!(table.first().expect("a read").map(|entry| entry.0), Some(b"ann".to_vec()));
    assert_eq!(table.last().expect("a read").map(|entry| entry.0), Some(b"bo".to_vec()));
    table.delete_range(.."b").expect("an erasure");
    assert_eq!(key_of(table.range(..).next()), Some(b"bo".to_vec()));
    table.delete_range(..).expect("an erasure");
    assert!(table.first().expect("a read").is_none() && table.last().expect("a read").is_none());
    assert_eq!(table.put("", "no key").expect_err("an empty key").kind(), ErrorKind::Invalid);
}

#[test]
fn what_is_there_already_and_what_is_not_have_kinds_of_their_own() {
    let (dir, db) = open();
    let table = db.open_or_create_table("t", lsm()).expect("a table");
    table.put("k", "v").expect("a put");
    let again = db.open_or_create_table("t", TableOptions::default()).expect("the table");
    assert_eq!((again.id(), again.options().layout), (table.id(), Layout::Lsm));
    assert_eq!(db.create_table("t", lsm()).expect_err("it exists").kind(), ErrorKind::AlreadyExists);
    assert_eq!(db.drop_table("u").expect_err("there is none").kind(), ErrorKind::NotFound);
    assert_eq!(db.checkpoint(dir.path()).expect_err("it is not empty").kind(), ErrorKind::AlreadyExists);
    let none = Database::builder(dir.path().join("none")).create(false).open();
    assert_eq!(none.expect_err("there is none").kind(), ErrorKind::NotFound);
}

/// Creators of one name met: one of them was refused, or found the table dropped.
#[test]
fn many_threads_open_or_create_one_table() {
    let (_dir, db) = open();
    for round in 0..20 {
        let name = format!("t{round}");
        let ids = std::thread::scope(|scope| {
            let open = || db.open_or_create_table(&name, lsm()).expect("a table").id();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

#[test]
fn a_batch_can_be_written_again() {
    let (_dir, db) = open();
    let table = db.open_or_create_table("t", lsm()).expect("a table");
    let mut batch = Batch::new();
    batch.put(&table, "a", "1");
    for times in 1..4 {
        db.write(&batch).expect("a write");
        assert_eq!(table.range(..).count(), times);
        batch.put(&table, [b'a' + u8::try_from(times).expect("few")], "1");
    }
    // One that is large becomes a memtable; what is added later must not show in it.
    let value = vec![7; 64 << 10];
    (0..24_u32).for_each(|number| batch.put(&table, number.to_be_bytes(), &value));
    db.write_with(&batch, Durability::Sync).expect("a write");
    batch.clear();
    batch.delete(&table, "a");
    db.write(&batch).expect("a write");
    assert_eq!(table.range(..).count(), 27);
    assert_eq!(table.get(7_u32.to_be_bytes()).expect("a get").as_deref(), Some(&*value));
}

/// Each small commit asked for it before it compared what it takes with what the smallest segment of the log has room
/// for: a put took twice as long.
#[test]
fn a_small_commit_does_not_ask_how_much_space_is_free() {
    let sim = SimEnv::new(1);
    let db = Database::builder("/db").env(sim.env()).options(options()).open().expect("a database");
    let table = db.open_or_create_table("t", lsm()).expect("a table");
    let before = sim.free_space_count();
    (0..1000_u32).for_each(|number| table.put(number.to_be_bytes(), "value").expect("a put"));
    assert!(sim.free_space_count() - before < 10, "{} times", sim.free_space_count() - before);
}

/// A handle may be moved to another thread.
#[test]
fn ranges_and_their_like_cross_threads() {
    fn crosses<T: Send + 'static>() {}
    fn is_shared<T: Send + Sync + 'static>() {}
    crosses::<Range>();
    crosses::<Transaction>();
    crosses::<spinney::ChangeFeed>();
    is_shared::<Database>();
    is_shared::<Table>();
    is_shared::<spinney::Snapshot>();
}

#[derive(Clone, Debug)]
enum Move {
    Next,
    Back,
    Seek(u8),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![4 => Just(Move::Next), 4 => Just(Move::Back), 1 => (0..=40_u8).prop_map(Move::Seek)];
    prop::collection::vec(one, 0..60)
}

/// Entries of a `BTreeMap` from both ends.
struct Model {
    keys: Vec<u8>,
    /// The position of the next entry from the front, and behind that of the next from the back.
    front: usize,
    back: usize,
    reversed: bool,
    ended: bool,
}

impl Model {
    fn step(&mut self, which: &Move) -> Option<u8> {
        let low_end = matches!(which, Move::Next) != self.reversed;
        if self.ended || self.front >= self.back {
            self.ended = true;
            return None;
        }
        if low_end {
            self.front += 1;
            Some(self.keys[self.front - 1])
        } else {
            self.back -= 1;
            Some(self.keys[self.back])
        }
    }

    fn seek(&mut self, key: u8) {
        let at = self.keys.partition_point(|&there| there < key);
        let behind = self.keys.partition_point(|&there| there <= key);
        if self.reversed {
            self.back = behind
        } else {
            self.front = at
        }
        self.ended = false;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Each entry is shown once, by one of the ends, however they take turns, in a table of several trees and under a
    /// transaction's writes.
    #[test]
    fn the_ends_of_a_range_meet(
        stored in prop::collection::btree_set(1..40_u8, 0..30),
        removed in prop::collection::btree_set(1..40_u8, 0..10),
        written in prop::collection::btree_set(1..40_u8, 0..10),
        low in 0..20_u8, high in 15..41_u8, reversed: bool, flushes: bool, moves in moves(),
    ) {
        let (_dir, db) = open();
        for layout in [Layout::BTree, Layout::Lsm] {
            let name = layout.name();
            let table = db.create_table(name, TableOptions::default().layout(layout)).expect("a table");
            for (at, key) in stored.iter().enumerate() {
                table.put([*key], "stored").expect("a put");
                if flushes && at % 7 == 3 {
                    table.flush().expect("a flush");
                }
            }
            let mut txn = db.begin();
            removed.iter().for_each(|key| txn.delete(&table, [*key]).expect("a delete"));
            written.iter().for_each(|key| txn.put(&table, [*key], "written").expect("a put"));
            let bounds = (Bound::Included([low]), Bound::Excluded([high]));
            let mut all: BTreeMap<u8, ()> = stored.iter().map(|&key| (key, ())).collect();
            all.retain(|key, ()| !removed.contains(key));
            all.extend(written.iter().map(|&key| (key, ())));
            let keys: Vec<u8> = all.into_keys().filter(|&key| key >= low && key < high).collect();
            let mut model = Model { back: keys.len(), keys, front: 0, reversed, ended: false };
            let mut range = if reversed { txn.range_rev(&table, bounds) } else { txn.range(&table, bounds) };
            // What is written later is not of the range.
            txn.delete_range(&table, ..).expect("an erasure");
            for one in &moves {
                match one {
                    Move::Next => prop_assert_eq!(key_of(range.next()), model.step(one).map(|key| vec![key])),
                    Move::Back => prop_assert_eq!(key_of(range.next_back()), model.step(one).map(|key| vec![key])),
                    Move::Seek(key) => {
                        range.seek([*key]);
                        model.seek(*key);
                    }
                }
            }
        }
    }
}
