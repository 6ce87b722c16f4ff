//! What a B-tree's lookups, steps and merges cost when its blocks are in the cache.
#![allow(missing_docs, reason = "criterion's macros write the functions")]

use std::sync::Arc;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use spinney::base::{Entry, Kind, Result, SeqNum, Value};
use spinney::block::Compression;
use spinney::cache::{Cache, Fill};
use spinney::env::os;
use spinney::tree::btree::{BTree, BTreeCursor, TreeOptions};
use spinney::tree::gc::GcRule;
use spinney::tree::{Cursor, KeyCursor, LazySeek, MergeSource};

const ENTRIES: u64 = 500_000;
const SNAPSHOT: SeqNum = SeqNum(1 << 40);

/// Puts of every `stride`-th key, made up on the way.
struct Changes {
    at: u64,
    stride: u64,
    key: [u8; 16],
    value: [u8; 100],
}

impl Changes {
    fn new(stride: u64) -> Self {
        Self { at: 0, stride, key: key(0), value: [7; 100] }
    }
}

/// Keys in the order of their numbers, with the same first bytes.
fn key(i: u64) -> [u8; 16] {
    let mut key = *b"rows/of/........";
    key[8..].copy_from_slice(&i.to_be_bytes());
    key
}

impl Cursor for Changes {
    fn first(&mut self) -> Result<()> {
        self.at = 0;
        self.key = key(0);
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        self.at += self.stride;
        self.key = key(self.at);
        Ok(())
    }

    fn last(&mut self) -> Result<()> {
        unreachable!("a merge goes forward")
    }

    fn seek_ge(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("a merge goes forward")
    }

    fn seek_lt(&mut self, _: &[u8]) -> Result<()> {
        unreachable!("a merge goes forward")
    }

    fn prev(&mut self) -> Result<()> {
        unreachable!("a merge goes forward")
    }

    fn entry(&self) -> Option<Entry<'_>> {
        let entry = Entry { key: &self.key, seqnum: SeqNum(1), kind: Kind::Put, value: &self.value };
        (self.at < ENTRIES).then_some(entry)
    }

    fn value(&self) -> Option<Value> {
        self.entry().map(|entry| Value::owned(entry.value))
    }
}

impl KeyCursor for Changes {}

impl LazySeek for Changes {}

impl MergeSource for Changes {}

fn merge(tree: &BTree, stride: u64) {
    let mut gc = GcRule::new(Vec::new(), SNAPSHOT, true);
    let permit = tree.merge_permit().expect("nobody else merges");
    let pending =
        tree.merge(permit, &mut Changes::new(stride), &mut gc, false, &mut || Ok(())).expect("the disk has room");
    tree.install(pending).expect("the file can be cut");
}

fn reads_and_merges(criterion: &mut Criterion) {
    for block_bytes in [4 << 10, 16 << 10] {
        let dir = tempfile::tempdir().expect("there is a place for temporary files");
        let options = TreeOptions { block_bytes, compression: Compression::None, direct: true };
        let cache = Arc::new(Cache::new(1 << 30));
        let path = dir.path().join("tree");
        let tree = BTree::create(&os::env(), &path, 1, options, cache, Arc::default()).expect("the directory is new");
        merge(&tree, 1);
        let root = tree.root();
        let mut group = criterion.benchmark_group(format!("btree/{block_bytes}"));
        group.measurement_time(Duration::from_secs(2)).sample_size(10);

        let mut i = 0;
        group.bench_function("get", |bencher| {
            bencher.iter(|| {
                i = (i + 271_828_183) % ENTRIES;
                root.get(&key(i), SNAPSHOT).expect("the file is there").expect("the key is there")
            });
        });
        let mut cursor = BTreeCursor::over(&root, Fill::Keep);
        group.bench_function("seek_ge", |bencher| {
            bencher.iter(|| {
                i = (i + 271_828_183) % ENTRIES;
                cursor.seek_ge(&key(i)).expect("the file is there");
            });
        });
        group.throughput(Throughput::Elements(ENTRIES));
        group.bench_function("scan", |bencher| {
            bencher.iter(|| {
                cursor.first().expect("the file is there");
                let mut bytes = 0;
                while let Some(entry) = cursor.entry() {
                    bytes += entry.key.len() + entry.value.len();
                    cursor.next().expect("the file is there");
                }
                bytes
            });
        });
        drop((cursor, root));
        group.bench_function("merge/every", |bencher| bencher.iter(|| merge(&tree, 1)));
        group.bench_function("merge/10th", |bencher| bencher.iter(|| merge(&tree, 10)));
        group.throughput(Throughput::Elements(ENTRIES / 1000));
        group.bench_function("merge/1000th", |bencher| bencher.iter(|| merge(&tree, 1000)));
        group.finish();
    }
}

criterion_group!(benches, reads_and_merges);
criterion_main!(benches);
