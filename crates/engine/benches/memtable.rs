//! The memtable beside crossbeam's skip list, which is what a memtable in Rust would otherwise be: a million versioned
//! entries with keys of 16 bytes and values of 128.
//!
//! The skip list gets its best case: keys and values of fixed size inline in its nodes, without an allocation of their
//! own.

use std::cmp::Reverse;
use std::hint::black_box;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, SamplingMode, Throughput};
use crossbeam_skiplist::SkipMap;
use spinney::SeqNum;
use spinney::base::value::ByteSource;
use spinney::base::{Entry, Kind};
use spinney::tree::memtable::{BatchSorter, EntryOffset, Memtable};

const ENTRIES: u64 = 1_000_000;
const VALUE: [u8; 128] = [7; 128];

/// From one lookup to the next, in order of arrival: so far that they share no memory.
const STRIDE: u64 = 7919;

type Key = [u8; 16];
type SkipList = SkipMap<(Key, Reverse<u64>), [u8; 128]>;

/// The `i`th of keys in random order.
fn random_key(i: u64) -> Key {
    // The finalizer of splitmix64: one to one, and every bit depends on every other.
    let mut z = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (u128::from(z ^ (z >> 31)) << 64 | u128::from(i)).to_be_bytes()
}

/// The `i`th of keys in ascending order.
fn ascending_key(i: u64) -> Key {
    u128::from(i).to_be_bytes()
}

fn fill_memtable(memtable: &Memtable, key: fn(u64) -> Key) {
    for i in 0..ENTRIES {
        memtable.insert(&Entry { key: &key(i), seqnum: SeqNum(i + 1), kind: Kind::Put, value: &VALUE });
    }
}

fn fill_skip_list(list: &SkipList, key: fn(u64) -> Key) {
    for i in 0..ENTRIES {
        list.insert((key(i), Reverse(i + 1)), VALUE);
    }
}

fn group<'c>(criterion: &'c mut Criterion, name: &str, entries: u64) -> BenchmarkGroup<'c, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.throughput(Throughput::Elements(entries)).sampling_mode(SamplingMode::Flat).sample_size(10);
    group.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    group
}

fn insert(criterion: &mut Criterion) {
    for (name, key) in [("sort random", random_key as fn(u64) -> Key), ("sort ascending", ascending_key)] {
        let batch = batch(key);
        group(criterion, name, ENTRIES)
            .bench_function("batch", |bencher| bencher.iter_with_large_drop(|| of_batch(&batch)));
    }
    for (name, key) in [("insert random", random_key as fn(u64) -> Key), ("insert ascending", ascending_key)] {
        let mut group = group(criterion, name, ENTRIES);
        group.bench_function("memtable", |bencher| {
            bencher.iter_batched_ref(Memtable::new, |memtable| fill_memtable(memtable, key), BatchSize::PerIteration);
        });
        group.bench_function("skip list", |bencher| {
            bencher.iter_batched_ref(SkipList::new, |list| fill_skip_list(list, key), BatchSize::PerIteration);
        });
    }
}

/// A batch in memory, as a source of its entries.
struct Bytes(Vec<u8>);

impl ByteSource for Bytes {
    fn bytes(&self, at: usize, len: usize) -> &[u8] {
        &self.0[at..at + len]
    }
}

const KEY_BYTES: usize = size_of::<Key>();
const ENTRY_BYTES: usize = KEY_BYTES + VALUE.len();

/// A batch of all entries as it comes, and then as a memtable.
fn batch(key: fn(u64) -> Key) -> Arc<Bytes> {
    let mut bytes = Vec::new();
    for i in 0..ENTRIES {
        bytes.extend_from_slice(&key(i));
        bytes.extend_from_slice(&VALUE);
    }
    Arc::new(Bytes(bytes))
}

fn of_batch(batch: &Arc<Bytes>) -> Memtable {
    let bytes = batch.0.len();
    let mut sorter = BatchSorter::new(bytes / ENTRY_BYTES);
    for (number, at) in (0..).zip((0..bytes).step_by(ENTRY_BYTES)) {
        let (key, value) = (at..at + KEY_BYTES, at + KEY_BYTES..at + ENTRY_BYTES);
        sorter.push(&EntryOffset { number, kind: Kind::Put, key, value });
    }
    Memtable::of_batch(sorter.sort(Arc::<Bytes>::clone(batch), bytes), SeqNum(1))
}

fn read(criterion: &mut Criterion) {
    let (memtable, list) = (Memtable::new(), SkipList::new());
    fill_memtable(&memtable, random_key);
    fill_skip_list(&list, random_key);

    let mut lookup = group(criterion, "get random", 1);
    lookup.bench_function("memtable", |bencher| {
        let mut i = 0;
        bencher.iter(|| {
            i = (i + STRIDE) % ENTRIES;
            memtable.get(&random_key(i), SeqNum::MAX).map(|found| found.value[0])
        });
    });
    let batch = of_batch(&batch(random_key));
    lookup.bench_function("batch", |bencher| {
        let mut i = 0;
        bencher.iter(|| {
            i = (i + STRIDE) % ENTRIES;
            batch.get(&random_key(i), SeqNum::MAX).map(|found| found.value[0])
        });
    });
    lookup.bench_function("skip list", |bencher| {
        let mut i = 0;
        bencher.iter(|| {
            i = (i + STRIDE) % ENTRIES;
            let key = random_key(i);
            let found = list.lower_bound(Bound::Included(&(key, Reverse(u64::MAX))));
            found.filter(|found| found.key().0 == key).map(|found| found.value()[0])
        });
    });
    lookup.finish();

    let mut scan = group(criterion, "scan", ENTRIES);
    for (name, memtable) in [("memtable", &memtable), ("batch", &batch)] {
        scan.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut cursor = memtable.cursor();
                cursor.first().expect("memory cannot fail");
                while let Some(entry) = cursor.entry() {
                    black_box((entry.key[0], entry.value[0]));
                    cursor.next().expect("memory cannot fail");
                }
            });
        });
    }
    scan.bench_function("skip list", |bencher| {
        bencher.iter(|| {
            for entry in &list {
                black_box((entry.key().0[0], entry.value()[0]));
            }
        });
    });
}

fn main() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    insert(&mut criterion);
    read(&mut criterion);
    criterion.final_summary();
}
