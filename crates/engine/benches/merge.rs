//! What one step of a merge costs, by the number of sources, by what its keys share, whether all sources have the same
//! keys, and by the direction.
//!
//! To count instructions:
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='merge::forward' BINARY --bench --test
//! merge/binary/next/8`,
//! divided by the 60,000 entries.
#![allow(missing_docs, reason = "criterion's macros write the functions")]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use spinney::base::{Entry, Kind};
use spinney::tree::merge::MergeCursor;
use spinney::tree::{Cursor, KeyCursor, LazySeek, MergeSource};
use spinney::{Result, SeqNum, Value};

/// Entries over all sources together: few enough for the second-level cache, so that the merge is seen and not the
/// memory.
const ENTRIES: u64 = 60_000;

/// A cursor over keys of one length, side by side in memory: the cheapest source there is.
struct Keys {
    bytes: Vec<u8>,
    key_bytes: usize,
    at: usize,
}

impl Keys {
    fn new(keys: &[Vec<u8>]) -> Self {
        let key_bytes = keys.first().map_or(1, Vec::len);
        Self { bytes: keys.concat(), key_bytes, at: usize::MAX }
    }

    fn count(&self) -> usize {
        self.bytes.len() / self.key_bytes
    }
}

impl Cursor for Keys {
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        self.at = self.count().wrapping_sub(1);
        Ok(())
    }

    fn seek_ge(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("only walked over")
    }

    fn seek_lt(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("only walked over")
    }

    fn next(&mut self) -> Result<()> {
        self.at = if self.at < self.count() { self.at + 1 } else { usize::MAX };
        Ok(())
    }

    fn prev(&mut self) -> Result<()> {
        self.at = self.at.wrapping_sub(1);
        Ok(())
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let start = self.at.checked_mul(self.key_bytes)?;
        let key = self.bytes.get(start..)?.get(..self.key_bytes)?;
        Some(Entry { key, seqnum: SeqNum(1), kind: Kind::Put, value: &[] })
    }

    fn value(&self) -> Option<Value> {
        None
    }
}

impl KeyCursor for Keys {}

impl LazySeek for Keys {}

impl MergeSource for Keys {}

/// Makes the key of a number.
type Shape = fn(u64) -> Vec<u8>;

/// Keys of eight bytes that differ at once, and long names that do not.
const SHAPES: [(&str, Shape); 2] =
    [("binary", |i| (i * 0x0001_0001_0001).to_be_bytes().to_vec()), ("names", |i| format!("user{i:016}").into_bytes())];

/// A merge of `sources` that each have their part of all keys, spread by a hash, or, where they are `equal`, all of a
/// part of them.
fn merge_of(sources: u64, shape: Shape, equal: bool) -> MergeCursor {
    let mut parts = vec![Vec::new(); usize::try_from(sources).expect("a few")];
    if equal {
        parts.fill((0..ENTRIES / sources).map(shape).collect());
    }
    for i in if equal { 0..0 } else { 0..ENTRIES } {
        let mixed = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let part = ((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40) % sources;
        parts[usize::try_from(part).expect("a few")].push(shape(i));
    }
    MergeCursor::new(parts.iter().map(|keys| Box::new(Keys::new(keys)) as Box<dyn MergeSource>).collect())
}

#[inline(never)]
fn forward(merge: &mut MergeCursor) {
    merge.first().expect("sources in memory");
    while let Some(entry) = merge.entry() {
        black_box(entry.key);
        merge.next().expect("sources in memory");
    }
}

#[inline(never)]
fn backward(merge: &mut MergeCursor) {
    merge.last().expect("sources in memory");
    while let Some(entry) = merge.entry() {
        black_box(entry.key);
        merge.prev().expect("sources in memory");
    }
}

fn walk(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("merge");
    group.throughput(Throughput::Elements(ENTRIES));
    for ((name, shape), equal) in SHAPES.into_iter().flat_map(|shape| [(shape, false), (shape, true)]) {
        let name = if equal { format!("equal {name}") } else { name.to_owned() };
        for sources in [1, 2, 4, 8, 16, 32] {
            let mut merge = merge_of(sources, shape, equal);
            let mut bench = |way: &str, walk: fn(&mut MergeCursor)| {
                let id = BenchmarkId::new(format!("{name}/{way}"), sources);
                group.bench_function(id, |bencher| bencher.iter(|| walk(&mut merge)));
            };
            bench("next", forward);
            bench("prev", backward);
        }
    }
    group.finish();
}

criterion_group!(benches, walk);
criterion_main!(benches);
