//! The memtable under thousands of schedules of writers and readers: what was inserted is found by every read that
//! begins later, in its place, while nodes split under it. Run by `cargo xtask schedules`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use shuttle::thread;

use super::*;
use crate::base::Kind;
use crate::base::sync::check;

const WRITERS: u32 = 3;
/// Nodes have five slots here: leaves and branches split.
const KEYS: u32 = 9;

/// The keys of a writer lie between those of the others.
fn key(writer: u32, number: u32) -> [u8; 4] {
    (number * WRITERS + writer).to_be_bytes()
}

fn insert(memtable: &Memtable, keys: &[[u8; 4]]) {
    let entry = |key| Entry { key, seqnum: SeqNum(1), kind: Kind::Put, value: key };
    Memtable::insert_many(keys.iter().map(|key| (memtable, entry(key))));
}

/// How many keys of each writer are in, in their order.
type Inserted = Arc<[AtomicU32; 3]>;

fn write(memtable: &Memtable, inserted: &Inserted, writer: u32) {
    // One goes up, one down, one from both ends: each splits nodes in its own way. And the second puts three at a time.
    let number = |at: u32| [at, KEYS - 1 - at, if at % 2 == 0 { at / 2 } else { KEYS - 1 - at / 2 }][writer as usize];
    let together = if writer == 1 { 3 } else { 1 };
    for from in (0..KEYS).step_by(together) {
        let numbers: Vec<_> = (from..KEYS).take(together).map(number).collect();
        insert(memtable, &numbers.iter().map(|number| key(writer, *number)).collect::<Vec<_>>());
        numbers.iter().for_each(|number| _ = inserted[writer as usize].fetch_or(1 << number, Ordering::SeqCst));
    }
}

fn inserted_keys(inserted: &Inserted) -> Vec<[u8; 4]> {
    let of = |writer: u32| {
        let numbers = inserted[writer as usize].load(Ordering::SeqCst);
        (0..KEYS).filter(move |number| numbers & 1 << number != 0).map(move |number| key(writer, number))
    };
    (0..WRITERS).flat_map(of).collect()
}

fn read(memtable: &Memtable, inserted: &Inserted) {
    for round in 0..3 {
        let before = inserted_keys(inserted);
        for key in &before {
            assert_eq!(memtable.get(key, SeqNum::MAX).expect("it was inserted").value[..], key[..]);
        }
        let mut cursor = memtable.cursor();
        let mut seen = Vec::new();
        if round == 1 { cursor.last() } else { cursor.first() }.unwrap();
        while let Some(entry) = cursor.entry() {
            seen.push(<[u8; 4]>::try_from(entry.key).unwrap());
            if round == 1 { cursor.prev() } else { cursor.next() }.unwrap();
        }
        if round == 1 {
            seen.reverse();
        }
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "in order, none twice: {seen:?}");
        assert!(before.iter().all(|key| seen.contains(key)), "{before:?} were there before {seen:?}");
    }
}

#[test]
fn inserts_and_reads_beside_each_other_find_all_that_was_there() {
    check(|| {
        let (memtable, inserted) = (Memtable::new(), Inserted::default());
        let writers = (0..WRITERS).map(|writer| {
            let (memtable, inserted) = (memtable.clone(), Arc::clone(&inserted));
            thread::spawn(move || write(&memtable, &inserted, writer))
        });
        let writers: Vec<_> = writers.collect();
        let reader = thread::spawn({
            let (memtable, inserted) = (memtable.clone(), Arc::clone(&inserted));
            move || read(&memtable, &inserted)
        });
        writers.into_iter().chain([reader]).for_each(|thread| thread.join().unwrap());
        read(&memtable, &inserted);
        assert_eq!(inserted_keys(&inserted).len(), (WRITERS * KEYS) as usize);
    });
}
