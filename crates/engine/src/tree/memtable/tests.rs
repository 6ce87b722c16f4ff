//! The memtable against a model, alone and under concurrent inserts. Nodes are small here, so that trees are deep.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use proptest::prelude::*;

use super::*;
use crate::base::Kind;
use crate::base::value::ByteSource;
use crate::tree::MergeSource;
use crate::tree::cursor::{Cursor, KeyCursor};
use crate::tree::merge::MergeCursor;

type SortKey = (Vec<u8>, Reverse<u64>);
type Model = BTreeMap<SortKey, (Kind, Vec<u8>)>;

/// Fewer rounds where each takes a thousand times as long.
const fn rounds(many: u64, under_miri: u64) -> u64 {
    if cfg!(miri) { under_miri } else { many }
}

fn put(memtable: &Memtable, key: &[u8], seqnum: u64, value: &[u8]) {
    memtable.insert(&Entry { key, seqnum: SeqNum(seqnum), kind: Kind::Put, value });
}

fn place_of(entry: &Entry<'_>) -> SortKey {
    (entry.key.to_vec(), Reverse(entry.seqnum.0))
}

/// The seqnum of the newest version of a key.
fn newest_of(memtable: &Memtable, key: &[u8]) -> Option<SeqNum> {
    memtable.get(key, SeqNum::MAX).map(|found| found.seqnum)
}

fn forward(memtable: &Memtable) -> Vec<SortKey> {
    let mut cursor = memtable.cursor();
    cursor.first().unwrap();
    let mut places = Vec::new();
    while let Some(entry) = cursor.entry() {
        places.push(place_of(&entry));
        cursor.next().unwrap();
    }
    places
}

fn backward(memtable: &Memtable) -> Vec<SortKey> {
    let mut cursor = memtable.cursor();
    cursor.last().unwrap();
    let mut places = Vec::new();
    while let Some(entry) = cursor.entry() {
        places.push(place_of(&entry));
        cursor.prev().unwrap();
    }
    places.reverse();
    places
}

/// Scrambles the numbers below 2^32 without making two the same.
fn scramble(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b1) & u64::from(u32::MAX)
}

#[derive(Clone, Debug)]
enum Op {
    Insert { key: Vec<u8>, seqnum: u64, kind: Kind, value: Vec<u8> },
    Get { key: Vec<u8>, seqnum: u64 },
    First,
    Last,
    SeekGe(Vec<u8>),
    ApproachGe { key: Vec<u8>, steps: usize },
    SeekLt(Vec<u8>),
    Next,
    Prev,
}

/// Keys that are hard to tell apart: equal heads, zeros where a shorter key ends, long common prefixes, the longest
/// key.
fn key() -> impl Strategy<Value = Vec<u8>> {
    let prefix = prop_oneof![
        4 => Just(Vec::new()),
        2 => Just(vec![0; 8]),
        2 => Just(vec![0xff; 8]),
        4 => Just(b"prefix67".to_vec()),
        4 => Just(b"prefix67prefix67".to_vec()),
        1 => Just(vec![b'x'; if cfg!(miri) { 256 } else { (64 << 10) - 4 }]),
    ];
    let suffix = prop::collection::vec(prop::sample::select(b"\0\x01ab\xff".to_vec()), 1..=4);
    (prefix, suffix).prop_map(|(prefix, suffix)| [prefix, suffix].concat())
}

/// What becomes of a key, with the value.
fn write() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let value = prop::collection::vec(any::<u8>(), 0..20);
    prop_oneof![4 => value.prop_map(|value| (Kind::Put, value)), 1 => Just((Kind::Delete, Vec::new()))]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        12 => (key(), 1..20u64, write()).prop_map(|(key, seqnum, (kind, value))| Op::Insert { key, seqnum, kind, value }),
        4 => (key(), 0..21u64).prop_map(|(key, seqnum)| Op::Get { key, seqnum }),
        1 => Just(Op::First),
        1 => Just(Op::Last),
        2 => key().prop_map(Op::SeekGe),
        2 => (key(), 1..4usize).prop_map(|(key, steps)| Op::ApproachGe { key, steps }),
        2 => key().prop_map(Op::SeekLt),
        4 => Just(Op::Next),
        4 => Just(Op::Prev),
    ]
}

/// A memtable, what should be in it, and a cursor on it.
struct Twin {
    memtable: Memtable,
    model: Model,
    cursor: Box<dyn MergeSource>,
    /// Where the cursor stands, if anywhere.
    here: Option<SortKey>,
    /// What was in the model when the cursor was placed: this much it must show.
    owed: Model,
    /// The key that was approached, which the next move, if it is a seek, is for.
    approached: Option<Vec<u8>>,
}

impl Twin {
    fn new() -> Self {
        Self::of(Memtable::new(), Model::new())
    }

    fn of(memtable: Memtable, model: Model) -> Self {
        let cursor = memtable.cursor();
        Self { memtable, model, cursor, here: None, owed: Model::new(), approached: None }
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Insert { key, seqnum, kind, value } => self.insert(key, seqnum, kind, value),
            Op::Get { key, seqnum } => self.get(&key, seqnum),
            Op::ApproachGe { key, steps } => {
                let key = self.approached.get_or_insert(key);
                (0..steps).for_each(|_| _ = self.cursor.prefetch_seek_ge(key));
            }
            Op::First => {
                self.approached = None;
                self.cursor.first().unwrap();
                self.placed(self.model.keys().next().cloned());
            }
            Op::Last => {
                self.approached = None;
                self.cursor.last().unwrap();
                self.placed(self.model.keys().next_back().cloned());
            }
            Op::SeekGe(key) => {
                let key = self.approached.take().unwrap_or(key);
                self.cursor.seek_ge(&key).unwrap();
                self.placed(self.model.range((key, Reverse(u64::MAX))..).next().map(|(place, _)| place.clone()));
            }
            Op::SeekLt(key) => {
                self.approached = None;
                self.cursor.seek_lt(&key).unwrap();
                self.placed(self.model.range(..(key, Reverse(u64::MAX))).next_back().map(|(place, _)| place.clone()));
            }
            Op::Next | Op::Prev if self.approached.is_some() => {}
            Op::Next => {
                self.cursor.next().unwrap();
                if let Some(here) = self.here.take() {
                    let owed = self.owed.range((Bound::Excluded(&here), Bound::Unbounded)).next();
                    let owed = owed.map(|(place, _)| place.clone());
                    let there = self.cursor.entry().map(|entry| place_of(&entry));
                    assert!(there.as_ref().is_none_or(|there| *there > here), "moved back");
                    assert!(
                        owed.is_none_or(|owed| there.as_ref().is_some_and(|there| *there <= owed)),
                        "skipped an entry"
                    );
                    self.here = there;
                }
                self.check_entry();
            }
            Op::Prev => {
                self.cursor.prev().unwrap();
                if let Some(here) = self.here.take() {
                    let owed = self.owed.range(..&here).next_back().map(|(place, _)| place.clone());
                    let there = self.cursor.entry().map(|entry| place_of(&entry));
                    assert!(there.as_ref().is_none_or(|there| *there < here), "moved forward");
                    assert!(
                        owed.is_none_or(|owed| there.as_ref().is_some_and(|there| *there >= owed)),
                        "skipped an entry"
                    );
                    self.here = there;
                }
                self.check_entry();
            }
        }
    }

    fn insert(&mut self, key: Vec<u8>, seqnum: u64, kind: Kind, value: Vec<u8>) {
        let place = (key, Reverse(seqnum));
        if !self.model.contains_key(&place) {
            self.memtable.insert(&Entry { key: &place.0, seqnum: SeqNum(seqnum), kind, value: &value });
            self.model.insert(place, (kind, value));
        }
    }

    fn get(&self, key: &[u8], seqnum: u64) {
        let from = (key.to_vec(), Reverse(seqnum));
        let visible = self.model.range(from..).next().filter(|((found, _), _)| found == key);
        let visible = visible.map(|((_, Reverse(seqnum)), (kind, value))| (SeqNum(*seqnum), *kind, value.clone()));
        let found = self.memtable.get(key, SeqNum(seqnum));
        assert_eq!(found.map(|found| (found.seqnum, found.kind, found.value.to_vec())), visible);
        let newest =
            self.model.range((key.to_vec(), Reverse(u64::MAX))..).next().filter(|((found, _), _)| found == key);
        assert_eq!(newest_of(&self.memtable, key), newest.map(|((_, Reverse(seqnum)), _)| SeqNum(*seqnum)));
    }

    fn placed(&mut self, expected: Option<SortKey>) {
        self.owed = self.model.clone();
        self.here = expected;
        self.check_entry();
    }

    fn check_entry(&self) {
        let entry = self.cursor.entry();
        assert_eq!(entry.as_ref().map(place_of), self.here);
        if let Some(entry) = entry {
            let (kind, value) = &self.model[self.here.as_ref().unwrap()];
            assert_eq!((entry.kind, entry.value), (*kind, &value[..]));
            assert_eq!(self.cursor.value().unwrap(), value);
        } else {
            assert!(self.cursor.value().is_none());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(rounds(256, 4)).unwrap(),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_memtable_is_a_sorted_map(ops in prop::collection::vec(op(), 1..usize::try_from(rounds(400, 60)).unwrap())) {
        let mut twin = Twin::new();
        for op in ops {
            twin.apply(op);
        }
        let places: Vec<_> = twin.model.keys().cloned().collect();
        prop_assert_eq!(twin.memtable.entries(), u64::try_from(places.len()).unwrap());
        prop_assert_eq!(&forward(&twin.memtable), &places);
        prop_assert_eq!(&backward(&twin.memtable), &places);
    }

    #[test]
    fn a_batch_is_a_sorted_map(
        changes in prop::collection::vec((key(), write()), 0..usize::try_from(rounds(60, 20)).unwrap()),
        first in 1..10u64,
        ops in prop::collection::vec(op(), 1..usize::try_from(rounds(200, 40)).unwrap()),
    ) {
        let mut model = Model::new();
        for (number, (key, write)) in (first..).zip(&changes) {
            model.insert((key.clone(), Reverse(number)), write.clone());
        }
        let batch = sorted(changes.iter().map(|(key, (kind, value))| (&**key, *kind, &**value)));
        let places: Vec<_> = model.keys().cloned().collect();
        let mut twin = Twin::of(Memtable::of_batch(batch, SeqNum(first)), model);
        prop_assert_eq!(twin.memtable.entries(), u64::try_from(places.len()).unwrap());
        prop_assert_eq!(&forward(&twin.memtable), &places);
        prop_assert_eq!(&backward(&twin.memtable), &places);
        for op in ops {
            if !matches!(op, Op::Insert { .. }) {
                twin.apply(op);
            }
        }
    }
}

/// A batch that has bytes of its own between keys and values.
struct Bytes(Vec<u8>);

impl ByteSource for Bytes {
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        &self.0[at..at + len]
    }
}

/// The changes of a batch, sorted.
fn sorted<'c>(changes: impl Iterator<Item = (&'c [u8], Kind, &'c [u8])>) -> SortedBatch {
    let (mut bytes, mut sorter) = (Vec::new(), BatchSorter::new(0));
    for (number, (key, kind, value)) in (0..).zip(changes) {
        let at = bytes.len();
        bytes.extend_from_slice(key);
        bytes.extend_from_slice(&[0xee; 3]);
        let value_at = bytes.len();
        bytes.extend_from_slice(value);
        sorter.push(&EntryOffset { number, kind, key: at..at + key.len(), value: value_at..bytes.len() });
    }
    let kept_bytes = bytes.len();
    sorter.sort(Arc::new(Bytes(bytes)), kept_bytes)
}

/// Long shared prefixes, keys that others begin with, zeros, and many versions of a key: what heads alone do not tell
/// apart.
#[test]
fn a_batch_sorts_keys_that_heads_do_not_tell_apart() {
    let many = rounds(400, 40);
    let of: [fn(u64) -> Vec<u8>; 6] = [
        |i| [&[7; 100][..], &scramble(i).to_be_bytes()].concat(),
        |i| vec![0; usize::try_from(i % 100).unwrap() + 1],
        |_| b"one key".to_vec(),
        |i| {
            [&(i % 3).to_be_bytes()[..], &[5; 40], &(i % 7).to_be_bytes(), &[6; 40], &scramble(i).to_be_bytes()]
                .concat()
        },
        |i| format!("k{}", i % 50).into_bytes(),
        |i| i.to_be_bytes().to_vec(),
    ];
    for of in of {
        let keys: Vec<_> = (0..many).map(of).collect();
        let memtable = Memtable::of_batch(sorted(keys.iter().map(|key| (&**key, Kind::Put, &**key))), SeqNum(9));
        let mut places: Vec<SortKey> = (9..).zip(&keys).map(|(seqnum, key)| (key.clone(), Reverse(seqnum))).collect();
        places.sort();
        assert_eq!(forward(&memtable), places);
        for (key, Reverse(seqnum)) in &places {
            let found = memtable.get(key, SeqNum(*seqnum)).unwrap();
            assert_eq!((found.seqnum, &*found.value), (SeqNum(*seqnum), &**key));
        }
        assert!(memtable.get(b"\xff none", SeqNum::MAX).is_none() && memtable.get(b"\0\0none", SeqNum::MAX).is_none());
        assert!(memtable.get(&keys[0], SeqNum(8)).is_none(), "older snapshots see nothing of it");
    }
}

#[test]
fn an_empty_memtable_holds_nothing() {
    let memtable = Memtable::new();
    assert!(memtable.is_empty());
    assert_eq!(memtable.entries(), 0);
    assert!(memtable.get(b"a", SeqNum::MAX).is_none());
    let mut cursor = memtable.cursor();
    cursor.next().unwrap();
    cursor.prev().unwrap();
    assert!(cursor.entry().is_none());
    assert!(forward(&memtable).is_empty() && backward(&memtable).is_empty());
    cursor.seek_lt(b"a").unwrap();
    assert!(cursor.entry().is_none());
}

#[test]
fn keys_in_any_arrival_order_come_out_sorted() {
    let many = rounds(20_000, 50);
    let orders: [fn(u64) -> u64; 4] =
        [|i| i, |i| u64::MAX - i, scramble, |i| if i % 2 == 0 { i } else { u64::MAX - i }];
    for order in orders {
        for prefix in ["", "a prefix longer than two heads "] {
            let memtable = Memtable::new();
            let mut expected = Vec::new();
            for i in 0..many {
                let key = [prefix.as_bytes(), &order(i).to_be_bytes()].concat();
                put(&memtable, &key, i, b"");
                expected.push((key, Reverse(i)));
            }
            expected.sort_unstable();
            assert_eq!(forward(&memtable), expected);
            assert_eq!(backward(&memtable), expected);
            assert!(expected.iter().all(|(key, seqnum)| newest_of(&memtable, key) == Some(SeqNum(seqnum.0))));
        }
    }
}

#[test]
fn versions_of_a_hot_key_are_found_across_leaves() {
    let memtable = Memtable::new();
    let many = rounds(2_000, 40);
    for seqnum in 1..=many {
        put(&memtable, b"hot", seqnum * 2, &seqnum.to_le_bytes());
    }
    put(&memtable, b"hos", 1, b"");
    put(&memtable, b"hot\0", 1, b"");
    for seqnum in 1..=many {
        for snapshot in [seqnum * 2, seqnum * 2 + 1] {
            let found = memtable.get(b"hot", SeqNum(snapshot)).unwrap();
            assert_eq!((found.seqnum, &found.value[..]), (SeqNum(seqnum * 2), &seqnum.to_le_bytes()[..]));
        }
    }
    assert!(memtable.get(b"hot", SeqNum(1)).is_none());
}

/// The number of versions of each key in [`moves_by_key_pass_the_older_versions`].
fn versions_of(key: u64) -> u64 {
    if key.is_multiple_of(3) { 1 + scramble(key) % 12 } else { 1 }
}

/// By itself and as the only source of a merge, which then asks the memtable.
#[test]
fn moves_by_key_pass_the_older_versions() {
    let (memtable, keys) = (Memtable::new(), rounds(1000, 40));
    for key in 0..keys {
        (1..=versions_of(key)).for_each(|seqnum| put(&memtable, &key.to_be_bytes(), seqnum, b""));
    }
    let merge = || MergeCursor::new(vec![memtable.cursor()]);
    for mut cursor in [memtable.cursor(), Box::new(merge())] {
        let mut key = Vec::new();
        cursor.first().unwrap();
        for number in 0..keys {
            let entry = cursor.entry().unwrap();
            assert_eq!((entry.key, entry.seqnum.0), (&number.to_be_bytes()[..], versions_of(number)));
            assert_eq!(cursor.next_key(&mut key).unwrap() + 1, versions_of(number));
        }
        assert!(cursor.entry().is_none());
        cursor.last().unwrap();
        let mut known = 0;
        while let Some(entry) = cursor.entry() {
            let (key, is_first) = (entry.key.to_vec(), cursor.is_first_version());
            cursor.prev().unwrap();
            known += u64::from(is_first);
            assert!(!is_first || cursor.key().is_some_and(|before| before != key));
        }
        assert!(known > keys / 2, "of all but those at the start of a leaf: {known} of {keys}");
    }
    let (mut merge, mut key, mut seen) = (merge(), Vec::new(), Vec::new());
    merge.first().unwrap();
    while let Some(entry) = merge.entry() {
        seen.push(entry.key.to_vec());
        assert!(!merge.next_keys_in_leaf(|entry| {
            seen.push(entry.key.to_vec());
            true
        }));
        merge.next_key(&mut key).unwrap();
    }
    assert!(seen.iter().eq((0..keys).map(|number| number.to_be_bytes().to_vec()).collect::<Vec<_>>().iter()));
}

#[test]
fn keys_with_equal_heads_stay_apart() {
    let memtable = Memtable::new();
    let keys: [&[u8]; 6] = [b"\0", b"\0\0", b"a", b"a\0", b"a\0\0\0\0\0\0\0", b"a\0\0\0\0\0\0\0\0"];
    for key in keys.iter().rev() {
        put(&memtable, key, 1, key);
    }
    for key in keys {
        assert_eq!(memtable.get(key, SeqNum(1)).unwrap().value, key);
    }
    assert_eq!(forward(&memtable), keys.map(|key| (key.to_vec(), Reverse(1))));
}

#[test]
fn a_pinned_value_outlives_its_memtable() {
    let memtable = Memtable::new();
    put(&memtable, b"key", 1, b"value");
    let found = memtable.get(b"key", SeqNum(1)).unwrap();
    let mut cursor = memtable.cursor();
    cursor.first().unwrap();
    let value = cursor.value().unwrap();
    drop((memtable, cursor));
    assert_eq!(found.value, b"value");
    assert_eq!(value, b"value");
}

/// A memtable was full when its last chunk, as large as all before, had just been mapped: a quarter of what memtables
/// may have held nothing.
#[test]
fn what_a_chunk_has_left_does_not_count() {
    const RECORD_BYTES: usize = 1000;
    let arena = arena::Arena::new(Arc::default());
    for taken in (0..1 << 20).step_by(RECORD_BYTES) {
        let counted = arena.bytes();
        // Each of seven chunks may have ended before it was full.
        assert!((taken..taken + 7 * 1100 + (16 << 10)).contains(&counted), "{counted} bytes for {taken}");
        arena.take_record(RECORD_BYTES);
    }
}

#[test]
fn large_entries_get_memory_of_their_own() {
    let memtable = Memtable::new();
    let value = vec![7; 3 << 20];
    put(&memtable, &[b'k'; 64 << 10], 1, &value);
    put(&memtable, b"small", 2, b"");
    put(&memtable, b"k", 3, &value[..200 << 10]);
    assert!(memtable.bytes() > value.len());
    assert!(memtable.bytes() < value.len() + (1 << 20));
    assert_eq!(memtable.get(&[b'k'; 64 << 10], SeqNum(1)).unwrap().value, value);
    assert_eq!(memtable.get(b"k", SeqNum(3)).unwrap().value.len(), 200 << 10);
    assert_eq!(memtable.entries(), 3);
}

/// Writer `writer` of four inserts its `i`th key.
fn key_of(order: fn(u64) -> u64, writer: u64, i: u64) -> Vec<u8> {
    [b"shared prefix ".as_slice(), &(order(i) << 2 | writer).to_be_bytes()].concat()
}

/// Walks all of the memtable in either direction and checks order and that nothing which was there before is missing.
fn check_walk(memtable: &Memtable, done: &[AtomicU64; 4], order: fn(u64) -> u64, ascending: bool) {
    let before = done.each_ref().map(|done| done.load(Ordering::Acquire));
    let places = if ascending { forward(memtable) } else { backward(memtable) };
    assert!(places.is_sorted_by(|a, b| a < b));
    for (writer, done) in (0..).zip(before) {
        for i in 0..done {
            assert!(
                places.binary_search(&(key_of(order, writer, i), Reverse(i + 1))).is_ok(),
                "lost entry {i} of {writer}"
            );
        }
    }
}

/// Entries that go down together meet in one leaf, and split it under each other.
#[test]
fn entries_inserted_together_are_where_each_would_be_alone() {
    let many = rounds(4000, 200);
    for order in [scramble, |i| i, |i| u64::MAX - i, |i| i / 7] {
        for together in [1, 2, 3, 15, 16, 17, 40] {
            let pair = [Memtable::new(), Memtable::new()];
            let keys: Vec<_> = (0..many).map(|i| order(i).to_be_bytes()).collect();
            let entry = |(i, key): (u64, &'_ [u8; 8])| (i, *key);
            for batch in (0..).zip(&keys).map(entry).collect::<Vec<_>>().chunks(together) {
                let entry = |(i, key)| Entry { key, seqnum: SeqNum(i + 1), kind: Kind::Put, value: key };
                // Each third goes elsewhere.
                let entries = batch.iter().map(|(i, key)| (&pair[usize::from(i % 3 == 0)], entry((*i, key))));
                Memtable::insert_many(entries);
            }
            for (which, memtable) in pair.iter().enumerate() {
                let here = |(i, _): &(u64, &[u8; 8])| usize::from(i % 3 == 0) == which;
                let mut places: Vec<_> =
                    (0..).zip(&keys).filter(here).map(|(i, key)| (key.to_vec(), Reverse(i + 1))).collect();
                places.sort();
                assert_eq!(forward(memtable), places, "{together} together");
                assert_eq!((backward(memtable), memtable.entries()), (places.clone(), places.len() as u64));
            }
        }
    }
}

/// The system gives a chunk of a large memtable before it is needed. Small ones have none.
#[test]
fn a_large_arena_goes_on_in_the_chunk_that_was_prepared() {
    let arena = arena::Arena::new(Arc::default());
    let take_until_one_is_wanted = || {
        let mut records = 0;
        while !arena.wants_spare() {
            arena.take_record(100 << 10);
            records += 1;
        }
        records
    };
    assert!(!arena.prepare_spare());
    let mut records = take_until_one_is_wanted();
    let before = arena.bytes();
    assert!(before >= 16 << 20 && arena.prepare_spare() && !arena.prepare_spare() && !arena.wants_spare());
    assert_eq!((arena.bytes(), arena.records()), (before, records), "it counts when records come into it");
    records += take_until_one_is_wanted();
    assert_eq!((arena.bytes() - before, arena.records()), (2 << 20, records));
    while arena.bytes() < 80 << 20 {
        arena.take_record(100 << 10);
    }
    assert_eq!((0..10).filter(|_| arena.prepare_spare()).count(), 4);
    arena.release_spares();
    // Dropped with a chunk at hand.
    assert!(arena.prepare_spare());
}

#[test]
fn readers_see_order_and_lose_nothing_while_four_threads_insert() {
    let many = rounds(20_000, 20);
    let orders: [fn(u64) -> u64; 2] = [scramble, |i| i];
    for order in orders {
        let memtable = Memtable::new();
        let done = [const { AtomicU64::new(0) }; 4];
        let finished = AtomicBool::new(false);
        thread::scope(|scope| {
            let writers = [0, 1, 2, 3].map(|writer| {
                let (memtable, done) = (&memtable, &done[usize::try_from(writer).unwrap()]);
                scope.spawn(move || {
                    // Two of them put several at a time.
                    let together = if writer < 2 { 1 } else { 20 };
                    for from in (0..many).step_by(together) {
                        let to = (from + together as u64).min(many);
                        let keys: Vec<_> = (from..to).map(|i| (i, key_of(order, writer, i), i.to_le_bytes())).collect();
                        Memtable::insert_many(keys.iter().map(|(i, key, value)| {
                            (memtable, Entry { key, seqnum: SeqNum(i + 1), kind: Kind::Put, value })
                        }));
                        done.store(to, Ordering::Release);
                    }
                })
            });
            for ascending in [true, false] {
                let (memtable, done, finished) = (&memtable, &done, &finished);
                scope.spawn(move || {
                    while !finished.load(Ordering::Relaxed) {
                        check_walk(memtable, done, order, ascending);
                    }
                });
            }
            scope.spawn(|| {
                while !finished.load(Ordering::Relaxed) {
                    for (writer, done) in (0..).zip(&done) {
                        if let Some(i) = done.load(Ordering::Acquire).checked_sub(1) {
                            let found = memtable.get(&key_of(order, writer, i), SeqNum::MAX).unwrap();
                            assert_eq!((found.seqnum, &found.value[..]), (SeqNum(i + 1), &i.to_le_bytes()[..]));
                        }
                    }
                }
            });
            let outcomes = writers.map(thread::ScopedJoinHandle::join);
            finished.store(true, Ordering::Relaxed);
            assert!(outcomes.iter().all(Result::is_ok));
        });
        assert_eq!(memtable.entries(), 4 * many);
        check_walk(&memtable, &done, order, true);
        check_walk(&memtable, &done, order, false);
    }
}

/// Bytes of the chunks that a pool keeps.
const CHUNK_BYTES: u64 = chunk::CHUNK_BYTES_MAX as u64;

/// A memtable with so many chunks of the largest size, full of ones.
fn filled(pool: &Arc<ChunkPool>, chunks: u64) -> Memtable {
    let memtable = Memtable::in_pool(pool);
    let value = vec![0xff; 100 << 10];
    let mut number = 0_u64;
    while u64_of(memtable.bytes()) < (chunks + 1) * CHUNK_BYTES {
        put(&memtable, &number.to_be_bytes(), 1, &value);
        number += 1;
    }
    memtable
}

#[test]
fn memory_that_was_used_before_serves_another_memtable() {
    let pool = Arc::<ChunkPool>::default();
    pool.allow(100 * CHUNK_BYTES);
    drop(filled(&pool, 3));
    let kept = pool.bytes();
    assert!(kept >= 3 * CHUNK_BYTES);
    let memtable = filled(&pool, 1);
    assert!(pool.bytes() < kept);
    let few = rounds(4000, 40);
    let keys = || (0..few).map(|number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 << 63);
    keys().for_each(|key| put(&memtable, &key.to_be_bytes(), 1, &key.to_le_bytes()));
    let mut sorted: Vec<u64> = keys().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut cursor = memtable.cursor();
    cursor.seek_ge(&(1_u64 << 63).to_be_bytes()).unwrap();
    for key in sorted {
        let entry = cursor.entry().unwrap();
        assert_eq!((entry.key, entry.value), (&key.to_be_bytes()[..], &key.to_le_bytes()[..]));
        cursor.next().unwrap();
    }
    assert!(cursor.entry().is_none());
}

#[test]
fn it_keeps_what_it_is_allowed() {
    let pool = Arc::<ChunkPool>::default();
    drop(filled(&pool, 2));
    assert_eq!(pool.bytes(), 0, "a new pool keeps nothing");
    pool.allow(2 * CHUNK_BYTES + 1);
    drop(filled(&pool, 5));
    assert_eq!(pool.bytes(), 2 * CHUNK_BYTES);
    pool.allow(2 * CHUNK_BYTES - 1);
    pool.trim();
    assert_eq!(pool.bytes(), CHUNK_BYTES);
    pool.allow(0);
    pool.trim();
    assert_eq!(pool.bytes(), 0);
}

#[test]
fn what_no_memtable_asks_for_is_given_back() {
    let pool = Arc::<ChunkPool>::default();
    pool.allow(100 * CHUNK_BYTES);
    drop(filled(&pool, 3));
    pool.release_idle();
    let kept = pool.bytes();
    assert!(kept > 0, "it was asked since the last look");
    drop(filled(&pool, 1));
    pool.release_idle();
    assert!(pool.bytes() > 0);
    pool.release_idle();
    assert_eq!(pool.bytes(), 0);
}
