//! What a get, gets of 16 keys at once, a seek, a range of ten and a step of a long one either way cost in a database
//! whose blocks are all in memory, and not in the processor's cache: in one tree of each layout, and in a memtable, six
//! runs and a level, with filters and without.
//!
//! Run with `cargo bench -p spinney --bench reads -- [DIRECTORY]`: nanoseconds for each operation, the best of rounds
//! that take turns. With `DIRECTORY SHAPE OPERATION TIMES` it does one operation so many times and nothing else, for a
//! profiler that counts instructions: what two numbers of times differ by is the operation's.

#![expect(clippy::print_stdout, reason = "a bench prints")]

use spinney::env::Env;
use spinney::{Database, Durability, Layout, Options, Range, Snapshot, Table, TableOptions};
use spinney_testkit::Rng;
use std::ops::Bound;
use std::path::PathBuf;

const ENTRIES: u64 = 4_000_000;
const ROUNDS: u64 = 15;
const TIMES: u64 = 100_000;
/// Name, layout, trees, bits of filter a key.
const SHAPES: [(&str, Layout, u64, u32); 4] = [
    ("btree", Layout::BTree, 1, 0),
    ("lsm", Layout::Lsm, 1, 10),
    ("lsm8", Layout::Lsm, 8, 10),
    ("nofilter8", Layout::Lsm, 8, 0),
];
/// Entries of a small tree over a large one are one in so many, as in the lab's `shape`.
const SMALL_PART: u64 = 20;
/// Entries of a short range.
const SHORT: u64 = 9;

/// An operation, and how many entries it reads.
type Operation = (&'static str, fn(&Snapshot, &Table, &mut Rng), u64);

const OPERATIONS: [Operation; 6] = [
    ("get", get, 1),
    ("multi_get of 16", get_many, 16),
    ("seek", seek::<1>, 1),
    ("seek + 8 next", seek::<SHORT>, 1),
    ("next", scan, 10_000),
    ("prev", scan_backward, 10_000),
];

fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let directory = arguments.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = tempfile::tempdir_in(directory).expect("the directory can be written");
    let database = Database::open(directory.path().join("db"), Options::default().memory_bytes(4 << 30));
    let database = database.expect("the directory is new");
    let chosen = |name: &str| arguments.get(1).is_none_or(|shape| shape == name);
    let shapes = SHAPES.into_iter().filter(|(name, ..)| chosen(name));
    let tables: Vec<_> = shapes.map(|shape| (shape.0, fill(&database, shape))).collect();
    let snapshot = database.snapshot();
    if let [_, _, operation, times] = &arguments[..] {
        let (_, run, _) = OPERATIONS.into_iter().find(|(name, ..)| name == operation).expect("one of the operations");
        let mut random = Rng::new(1);
        (0..times.parse().expect("a number")).for_each(|_| run(&snapshot, &tables[0].1, &mut random));
        return;
    }
    let clock = Env::os().clock;
    println!("{:<16}{}", "ns", tables.iter().map(|(name, _)| format!("{name:>10}")).collect::<String>());
    for (operation, run, entries) in OPERATIONS {
        let mut best = vec![f64::MAX; tables.len()];
        for round in 0..ROUNDS {
            for (best, (_, table)) in best.iter_mut().zip(&tables) {
                let (mut random, times) = (Rng::new(round), TIMES / entries);
                let begun = clock.now();
                (0..times).for_each(|_| run(&snapshot, table, &mut random));
                *best = best.min((clock.now() - begun).as_nanos() as f64 / (times * entries) as f64);
            }
        }
        println!("{operation:<16}{}", best.iter().map(|best| format!("{best:>10.0}")).collect::<String>());
    }
}

/// A table with all entries, put in random order, in one tree, and some of them in smaller ones over it, the last of
/// which is the memtable.
fn fill(database: &Database, (name, layout, trees, filter_bits_per_key): (&str, Layout, u64, u32)) -> Table {
    let options = TableOptions::default().layout(layout).filter_bits_per_key(filter_bits_per_key);
    let table = database.create_table(name, options).expect("it is new");
    put(database, &table, 0..ENTRIES);
    table.compact().expect("there is room");
    table.hold().expect("the database is open");
    let small = ENTRIES / SMALL_PART;
    for tree in 1..trees {
        put(database, &table, tree * small..(tree + 1) * small);
        if tree + 1 < trees {
            table.flush().expect("there is room");
        }
    }
    table
}

fn put(database: &Database, table: &Table, numbers: std::ops::Range<u64>) {
    let mut batch = spinney::Batch::new();
    for number in numbers {
        batch.put(table, key(number * 611_953 % ENTRIES), [7; 128]);
        if number % 1000 == 999 {
            database.write_with(&std::mem::take(&mut batch), Durability::Buffered).expect("there is room");
        }
    }
}

/// 16 bytes, as in the lab.
fn key(number: u64) -> [u8; 16] {
    let mut key = *b"0000000000000000";
    let mut left = number;
    for digit in key.iter_mut().rev() {
        *digit = b'0' + (left % 10) as u8;
        left /= 10;
    }
    key
}

fn get(snapshot: &Snapshot, table: &Table, random: &mut Rng) {
    let value = snapshot.get(table, key(random.number() % ENTRIES)).expect("it can be read");
    assert_eq!(value.expect("it is there").len(), 128);
}

fn get_many(snapshot: &Snapshot, table: &Table, random: &mut Rng) {
    let keys: [_; 16] = std::array::from_fn(|_| key(random.number() % ENTRIES));
    let keys: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
    let values = snapshot.multi_get(table, &keys).expect("they can be read");
    assert!(values.iter().all(Option::is_some));
}

fn seek<const TAKE: u64>(snapshot: &Snapshot, table: &Table, random: &mut Rng) {
    read(snapshot, table, &key(random.number() % ENTRIES), TAKE);
}

fn scan(snapshot: &Snapshot, table: &Table, random: &mut Rng) {
    read(snapshot, table, &key((random.number() % ENTRIES).min(ENTRIES - 10_000)), 10_000);
}

fn scan_backward(snapshot: &Snapshot, table: &Table, random: &mut Rng) {
    let from = key((random.number() % ENTRIES).max(10_000));
    walk(snapshot.range_rev(table, (Bound::Unbounded, Bound::Excluded(&from[..]))), 10_000);
}

fn read(snapshot: &Snapshot, table: &Table, from: &[u8], count: u64) {
    walk(snapshot.range(table, (Bound::Included(from), Bound::Unbounded)), count);
}

fn walk(mut range: Range, count: u64) {
    let mut bytes = 0;
    for _ in 0..count {
        let Some((key, value)) = range.advance().expect("it can be read") else { break };
        bytes += key.len() + usize::from(value[127]);
    }
    assert!(bytes > 0);
}
