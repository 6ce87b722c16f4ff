//! What blocks and runs cost when everything is in memory: looking up, walking, building.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use spinney::base::checksum::hash_key;
use spinney::base::{Entry, Kind, SeqNum};
use spinney::block::{Block, BlockBuilder, BlockKind, Compression, frame};
use spinney::cache::{Cache, Fill};
use spinney::env::Env;
use spinney::store::StoreStats;
use spinney::tree::Cursor;
use spinney::tree::run::{Run, RunBuilder, RunCursor, RunOptions};
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;

const VALUE: [u8; 100] = [7; 100];
const RUN_ENTRIES: u64 = 250_000;
const SMALL_RUN_ENTRIES: usize = 5000;

/// A random key of sixteen bytes.
fn key(i: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&hash_key(&i.to_be_bytes()).to_be_bytes());
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

fn sorted_keys(count: u64) -> Vec<[u8; 16]> {
    let mut keys: Vec<_> = (0..count).map(key).collect();
    keys.sort_unstable();
    keys
}

const fn put(key: &[u8]) -> Entry<'_> {
    Entry { key, seqnum: SeqNum::ZERO, kind: Kind::Put, value: &VALUE }
}

fn image(keys: &[[u8; 16]], builder: &mut BlockBuilder) -> Vec<u8> {
    for key in keys {
        builder.push(&put(key));
    }
    builder.finish()
}

fn blocks(c: &mut Criterion) {
    // 64 blocks of about 8 KiB each: more than the first-level cache holds.
    let keys = sorted_keys(64 * 64);
    let mut builder = BlockBuilder::new(BlockKind::Leaf);
    let images: Vec<_> = keys.chunks(64).map(|keys| image(keys, &mut builder)).collect();
    let parsed: Vec<_> =
        images.iter().map(|image| Block::parse(image.clone().into()).expect("it is a block")).collect();

    let mut group = c.benchmark_group("block");
    let mut at = 0;
    group.bench_function("find", |b| {
        b.iter(|| {
            at = (at + 997) % keys.len();
            parsed[at / 64].find(black_box(&keys[at]))
        });
    });
    let branch = Block::parse(image(&keys[..1000], &mut BlockBuilder::new(BlockKind::Branch)).into()).expect("a block");
    group.bench_function("lower_bound of 1000", |b| {
        b.iter(|| {
            at = (at + 997) % 1000;
            branch.lower_bound(black_box(&keys[at]))
        });
    });
    group.throughput(Throughput::Elements(64));
    group.bench_function("build", |b| b.iter(|| image(black_box(&keys[..64]), &mut builder)));
    group.bench_function("parse", |b| {
        b.iter_batched(|| images[3].as_slice().into(), Block::parse, BatchSize::SmallInput);
    });
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let mut framed = Vec::new();
        let pointer = frame::encode(&images[3], compression, 1, 0, &mut framed);
        group.bench_function(format!("encode {compression:?}"), |b| {
            b.iter(|| {
                framed.clear();
                frame::encode(&images[3], compression, 1, 0, &mut framed)
            });
        });
        group.bench_function(format!("decode {compression:?}"), |b| b.iter(|| frame::decode(&framed, 1, pointer)));
    }
    group.finish();
}

fn run(keys: &[[u8; 16]], path: &Path) -> Arc<Run> {
    let options = RunOptions {
        block_bytes: 8192,
        compression: Compression::None,
        filter_bits_per_key: 10.0,
        filter_prefix: None,
        direct: false,
    };
    let stats = Arc::new(StoreStats::default());
    let env = Env::os();
    let mut builder = RunBuilder::create(&env, path, 1, options, Arc::clone(&stats)).expect("the machine has space");
    for key in keys {
        builder.push(&put(key)).expect("the machine has space");
    }
    let meta = builder.finish().expect("the machine has space");
    let cache = Arc::new(Cache::new(256 << 20));
    Run::open(&env, path, 1, false, meta, cache, stats).expect("the run was written just now")
}

fn runs(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("the machine has space");
    let keys = sorted_keys(RUN_ENTRIES);
    let run = run(&keys, &dir.path().join("run"));
    let mut group = c.benchmark_group("run");
    for (name, from) in [("get cached", 0), ("get absent", RUN_ENTRIES)] {
        let mut i = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                i = (i + 7919) % RUN_ENTRIES;
                let key = key(from + i);
                run.get(&key, hash_key(&key), SeqNum::MAX).expect("the run is sound")
            });
        });
    }
    // A run that fits the second-level cache shows what the instructions cost.
    let small = self::run(&keys[..SMALL_RUN_ENTRIES], &dir.path().join("small"));
    let mut i = 0;
    group.bench_function("get in a small run", |b| {
        b.iter(|| {
            i = (i + 997) % SMALL_RUN_ENTRIES;
            small.get(&keys[i], hash_key(&keys[i]), SeqNum::MAX).expect("the run is sound")
        });
    });
    let mut cursor = RunCursor::over(&small, Fill::Keep);
    group.bench_function("next", |b| {
        b.iter(|| {
            cursor.next().expect("the run is sound");
            if cursor.entry().is_none() {
                cursor.first().expect("the run is sound");
            }
            black_box(cursor.entry());
        });
    });
    group.throughput(Throughput::Elements(RUN_ENTRIES));
    group.sample_size(10);
    group.bench_function("scan past the cache", |b| {
        b.iter(|| {
            let mut cursor = RunCursor::over(&run, Fill::Bypass);
            cursor.first().expect("the run is sound");
            while black_box(cursor.entry()).is_some() {
                cursor.next().expect("the run is sound");
            }
        });
    });
    group.bench_function("build", |b| {
        let mut n = 0;
        b.iter(|| {
            n += 1;
            let path = dir.path().join(format!("built-{n}"));
            let run = self::run(&keys, &path);
            std::fs::remove_file(path).expect("the file is there");
            run
        });
    });
    group.finish();
}

criterion_group!(benches, blocks, runs);
criterion_main!(benches);
