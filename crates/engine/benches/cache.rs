//! What a lookup in the cache costs when the block is there, and what an insert costs that moves another block out.
#![allow(missing_docs, reason = "criterion's macros write the functions")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use spinney::block::{Block, BlockPointer, raw_image};
use spinney::cache::{Cache, Fill};

const CAPACITY: u64 = 64 << 20;
const FILE: u64 = 1;

/// The pointer of the `i`-th block of 4 KiB.
const fn pointer(i: u64) -> BlockPointer {
    BlockPointer { offset: i << 12, bytes: 4096, checksum: 7 }
}

fn block() -> Block {
    Block::parse(raw_image(4000).into()).expect("a raw block has no rules to break")
}

fn lookup_and_insert(criterion: &mut Criterion) {
    let cache = Cache::new(CAPACITY);
    for i in 0..10_000 {
        cache.insert(FILE, pointer(i), block());
    }
    let mut group = criterion.benchmark_group("cache");
    group.bench_function("hit/same", |bencher| {
        bencher.iter(|| cache.lookup(FILE, black_box(pointer(5000)), Fill::Keep).expect("it was kept"));
    });
    for (name, blocks) in [("hit/100", 100u64), ("hit/10000", 10_000)] {
        let mut at = 0u64;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                // A stride that visits all of them, far from the one before.
                at = (at + 6_181) % blocks;
                cache.lookup(FILE, pointer(at), Fill::Keep).expect("it was kept")
            });
        });
    }
    let shared = block();
    let mut at = 0u64;
    group.bench_function("insert/evicting", |bencher| {
        bencher.iter(|| {
            at += 1;
            cache.insert(2, pointer(at), shared.clone())
        });
    });
    group.finish();
}

criterion_group!(benches, lookup_and_insert);
criterion_main!(benches);
