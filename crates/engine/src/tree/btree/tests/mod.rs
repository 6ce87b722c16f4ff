//! Tests of the B-tree: random merges beside a model, its space over time, crashes and faults at every step, flipped
//! bytes.

mod crash;
mod free_list;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::free_list::{extent, fits};
use super::reach::leaves_reached;
use super::*;
use crate::base::codec::Decoder;
use crate::base::num::{u64_of, usize_of};
use crate::base::sync::AtomicBool;
use crate::base::{Error, ErrorKind, Kind, Result, SeqNum};
use crate::block::{Block, BlockPointer, Compression};
use crate::cache::{Cache, Fill};
use crate::env::sim::{Fault, SimEnv};
use crate::store::Extent;
use crate::store::space::UNIT_BYTES;
use crate::tree::cursor::{Cursor, LazySeek, MergeSource};
use crate::tree::gc::GcRule;
use crate::tree::operator::TableOperator;
use crate::tree::vec_cursor::{Append, OwnedEntry, VecCursor};

const IDENTITY: u64 = 0x5eed;
const PATH: &str = "/tree";

/// Random numbers (splitmix64) from a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A value, or a tombstone.
type Change = Option<Vec<u8>>;

/// What a table holds, with all versions, and what waits to be merged.
#[derive(Clone, Default)]
struct Model {
    seqnum: u64,
    /// Per key the versions, the oldest first.
    history: BTreeMap<Vec<u8>, Vec<(u64, Change)>>,
    batch: BTreeMap<(Vec<u8>, Reverse<u64>), Change>,
    snapshots: Vec<u64>,
}

/// Merges without a pause, when nobody else does.
fn merge(tree: &BTree, changes: &mut dyn MergeSource, gc: &mut GcRule, rewrite: bool) -> Result<PendingRoot> {
    let permit = tree.merge_permit().ok_or_else(|| Error::invalid("a merge is under way"))?;
    tree.merge(permit, changes, gc, rewrite, &mut || Ok(()))
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

impl Model {
    fn write(&mut self, key: Vec<u8>, value: Change) {
        self.seqnum += 1;
        self.history.entry(key.clone()).or_default().push((self.seqnum, value.clone()));
        self.batch.insert((key, Reverse(self.seqnum)), value);
    }

    fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.write(key.as_ref().to_vec(), Some(value.as_ref().to_vec()));
    }

    fn delete(&mut self, key: impl AsRef<[u8]>) {
        self.write(key.as_ref().to_vec(), None);
    }

    fn take_batch(&mut self) -> VecCursor {
        let entries = std::mem::take(&mut self.batch).into_iter().map(|((key, Reverse(seqnum)), value)| OwnedEntry {
            key,
            seqnum: SeqNum(seqnum),
            kind: if value.is_some() { Kind::Put } else { Kind::Delete },
            value: value.unwrap_or_default(),
        });
        VecCursor::new(entries.collect())
    }

    fn retain(&self) -> GcRule {
        GcRule::new(self.snapshots.iter().copied().map(SeqNum).collect(), SeqNum(self.seqnum), true)
    }

    fn get(&self, key: &[u8], snapshot: u64) -> Option<&[u8]> {
        let versions = self.history.get(key)?;
        versions.iter().rev().find(|(seqnum, _)| *seqnum <= snapshot)?.1.as_deref()
    }

    fn rows(&self, snapshot: u64) -> Rows {
        let rows = self.history.keys().filter_map(|key| Some((key.clone(), self.get(key, snapshot)?.to_vec())));
        rows.collect()
    }
}

struct Fixture {
    sim: SimEnv,
    tree: Arc<BTree>,
    model: Model,
    options: TreeOptions,
    cache: Arc<Cache>,
}

impl Fixture {
    fn new(block_bytes: u32, compression: Compression, direct: bool) -> Self {
        let (sim, cache) = (SimEnv::new(1), Arc::new(Cache::new(1 << 20)));
        let options = TreeOptions { block_bytes, compression, direct };
        let env = sim.env();
        let tree = BTree::create(&env, PATH.as_ref(), IDENTITY, options, Arc::clone(&cache), Arc::default()).unwrap();
        env.fs.sync_dir("/".as_ref()).unwrap();
        Self { sim, tree, model: Model::default(), options, cache }
    }

    fn plain(block_bytes: u32) -> Self {
        Self::new(block_bytes, Compression::None, true)
    }

    fn prepare(&mut self, rewrite: bool) -> Result<PendingRoot> {
        let mut changes = self.model.take_batch();
        merge(&self.tree, &mut changes, &mut self.model.retain(), rewrite)
    }

    fn merge(&mut self, rewrite: bool) -> TreeReport {
        let pending = self.prepare(rewrite).unwrap();
        self.tree.install(pending).unwrap();
        self.tree.verify(&self.tree.root()).unwrap()
    }

    fn meta(&self) -> TreeMeta {
        *self.tree.root().meta()
    }

    fn reopen(&self, sim: &SimEnv, meta: TreeMeta) -> Result<Arc<BTree>> {
        open(sim, self.options, meta)
    }

    /// The tree as its readers see it, now and at some of the snapshots, is what the model says.
    fn check(&self) {
        let root = self.tree.root();
        let snapshots = self.model.snapshots.iter().step_by(1 + self.model.snapshots.len() / 5);
        for snapshot in snapshots.copied().chain([self.model.seqnum]) {
            check(&root, &self.model, snapshot);
        }
        check_moves(&root);
    }
}

fn open(sim: &SimEnv, options: TreeOptions, meta: TreeMeta) -> Result<Arc<BTree>> {
    let cache = Arc::new(Cache::new(1 << 20));
    BTree::open(&sim.env(), PATH.as_ref(), IDENTITY, options, meta, cache, Arc::default())
}

/// All entries, forward.
fn entries(root: &Arc<TreeRoot>) -> Vec<OwnedEntry> {
    let mut cursor = BTreeCursor::over(root, Fill::Keep);
    let mut entries = Vec::new();
    cursor.first().unwrap();
    while let Some(entry) = cursor.entry() {
        assert_eq!(cursor.value().unwrap(), entry.value);
        entries.push(OwnedEntry::of(entry));
        cursor.next().unwrap();
    }
    cursor.next().unwrap();
    assert!(cursor.entry().is_none());
    entries
}

/// What `snapshot` sees of a root.
fn rows(root: &Arc<TreeRoot>, snapshot: u64) -> Rows {
    let mut rows = BTreeMap::new();
    for entry in entries(root).into_iter().filter(|entry| entry.seqnum.0 <= snapshot) {
        rows.entry(entry.key).or_insert((entry.kind, entry.value));
    }
    rows.into_iter().filter(|(_, (kind, _))| *kind == Kind::Put).map(|(key, (_, value))| (key, value)).collect()
}

fn check(root: &Arc<TreeRoot>, model: &Model, snapshot: u64) {
    assert!(rows(root, snapshot) == model.rows(snapshot), "a scan at {snapshot}");
    for key in model.history.keys() {
        let found = root.get(key, SeqNum(snapshot)).unwrap();
        let value = found.filter(|found| found.kind == Kind::Put).map(|found| found.value.to_vec());
        assert_eq!(value.as_deref(), model.get(key, snapshot), "key {key:?} at {snapshot}");
    }
    assert!(root.get(b"\0no such key", SeqNum(snapshot)).unwrap().is_none());
}

/// Moves of a cursor agree with the scan.
fn check_moves(root: &Arc<TreeRoot>) {
    let forward = entries(root);
    let mut cursor = BTreeCursor::over(root, Fill::Keep);
    let mut backward = Vec::new();
    cursor.last().unwrap();
    while let Some(entry) = cursor.entry() {
        backward.push(OwnedEntry::of(entry));
        cursor.prev().unwrap();
    }
    backward.reverse();
    assert!(forward == backward, "a scan backward");
    for (i, OwnedEntry { key, .. }) in forward.iter().enumerate().step_by(1 + forward.len() / 200) {
        let above = [key.as_slice(), &[0]].concat();
        for key in [key, &above, &key[..key.len() - 1].to_vec()] {
            let index = forward.partition_point(|entry| entry.key < *key);
            (0..i % 20).for_each(|_| _ = cursor.prefetch_seek_ge(key));
            cursor.seek_ge(key).unwrap();
            assert_eq!(cursor.entry(), forward.get(index).map(OwnedEntry::entry), "seek_ge {key:?}");
            cursor.prev().unwrap();
            if index < forward.len() {
                assert_eq!(cursor.entry(), index.checked_sub(1).map(|i| forward[i].entry()), "back from {key:?}");
            }
            cursor.seek_lt(key).unwrap();
            assert_eq!(cursor.entry(), index.checked_sub(1).map(|i| forward[i].entry()), "seek_lt {key:?} {i}");
            cursor.next().unwrap();
            if index > 0 {
                assert_eq!(cursor.entry(), forward.get(index).map(OwnedEntry::entry), "on from {key:?}");
            }
        }
    }
}

fn key(i: u64) -> Vec<u8> {
    format!("table/rows/{i:08}").into_bytes()
}

/// Changes of many shapes: scattered, dense, ranges deleted, keys that ascend, large values, many versions of a key.
fn random_batch(random: &mut Random, model: &mut Model) {
    let keys = 3000;
    let shape = random.below(7);
    let count = [1, 10, 100, 600][usize_of(random.below(4))];
    let start = random.below(keys);
    for i in 0..count {
        let at = if shape < 3 { random.below(keys) } else { (start + i) % keys };
        let bytes = if random.below(200) == 0 { 3000 } else { usize_of(random.below(40)) };
        let value = vec![b'a' + u8::try_from(random.below(26)).unwrap(); bytes];
        match shape {
            0 | 1 | 3 => model.put(key(at), value),
            2 if random.below(2) == 0 => model.put(key(at), value),
            2 | 4 => model.delete(key(at)),
            5 => model.put(key(keys + model.seqnum), value),
            _ => model.put(key(start), [value.as_slice(), &[b'v'; 60]].concat()),
        }
        if random.below(150) == 0 || (shape == 6 && random.below(4) == 0) {
            model.snapshots.push(model.seqnum);
        }
    }
    while model.snapshots.len() > 3 && random.below(3) > 0 {
        let drop = usize_of(random.below(u64_of(model.snapshots.len())));
        model.snapshots.swap_remove(drop);
    }
}

fn run_model(block_bytes: u32, compression: Compression, direct: bool, merges: u64) {
    let mut fixture = Fixture::new(block_bytes, compression, direct);
    let mut random = Random(u64::from(block_bytes) + merges);
    let mut held: Vec<(Arc<TreeRoot>, u64, Rows)> = Vec::new();
    for round in 0..merges {
        random_batch(&mut random, &mut fixture.model);
        let report = fixture.merge(random.below(10) == 0);
        let meta = fixture.meta();
        assert_eq!(report.blocks, meta.leaves + meta.branches + 1);
        assert_eq!(report.entries, meta.entries);
        assert_eq!(report.bytes + report.free_bytes + UNIT_BYTES, meta.file_bytes);
        if round % 4 == 0 {
            fixture.check();
        }
        if random.below(5) == 0 {
            let now = fixture.model.seqnum;
            held.push((fixture.tree.root(), now, fixture.model.rows(now)));
        }
        if held.len() > 3 {
            held.remove(usize_of(random.below(3)));
        }
        for (root, snapshot, expected) in &held {
            assert!(rows(root, *snapshot) == *expected, "a held root changed in round {round}");
            fixture.tree.verify(root).unwrap();
        }
        if round % 16 == 15 {
            held.clear();
            fixture.tree = fixture.reopen(&fixture.sim, meta).unwrap();
        }
    }
    fixture.check();
}

#[test]
fn the_reach_of_changes_is_the_leaves_that_they_rewrite() {
    let mut fixture = Fixture::plain(512);
    (0..20_000).for_each(|i| fixture.model.put(key(i), [b'v'; 20]));
    fixture.merge(false);
    let (root, leaves) = (fixture.tree.root(), fixture.meta().leaves);
    assert!(fixture.meta().height > 1, "{:?}", fixture.meta());
    let changes = |step: usize| {
        let put = |i| OwnedEntry { key: key(i), seqnum: SeqNum(1), kind: Kind::Put, value: Vec::new() };
        VecCursor::new((0..20_000).step_by(step).map(put).collect())
    };
    assert_eq!(leaves_reached(&root, &mut changes(1), u64::MAX - 1).unwrap(), leaves);
    assert_eq!(leaves_reached(&root, &mut changes(1), leaves - 1).unwrap(), leaves);
    assert_eq!(leaves_reached(&root, &mut changes(20_000), 5).unwrap(), 1);
    // One in hundreds: each in a leaf of its own, and in all parts of the tree.
    assert_eq!(leaves_reached(&root, &mut changes(500), leaves - 1).unwrap(), 40);
    assert_eq!(leaves_reached(&root, &mut changes(500), 7).unwrap(), 8);
    assert_eq!(leaves_reached(&root, &mut VecCursor::new(Vec::new()), 7).unwrap(), 0);
}

#[test]
fn random_merges_into_tiny_blocks_match_a_model() {
    run_model(200, Compression::None, true, 100);
}

#[test]
fn random_merges_into_compressed_blocks_match_a_model() {
    run_model(1000, Compression::Lz4, false, 60);
}

#[test]
fn random_merges_into_usual_blocks_match_a_model() {
    run_model(16 << 10, Compression::Zstd, true, 60);
}

#[test]
fn an_empty_tree_has_nothing_and_stays_valid() {
    let mut fixture = Fixture::plain(4096);
    fixture.check();
    fixture.merge(false);
    fixture.merge(true);
    fixture.check();
    assert_eq!((fixture.meta().root, fixture.meta().generation), (None, 2));
    fixture.model.put("a", "1");
    fixture.merge(false);
    fixture.check();
    fixture.model.delete("a");
    fixture.merge(false);
    fixture.check();
    assert_eq!((fixture.meta().root, fixture.meta().height, fixture.meta().entries), (None, 0, 0));
}

#[test]
fn a_tree_that_is_emptied_loses_its_height() {
    let mut fixture = Fixture::plain(256);
    (0..5000).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    assert!(fixture.meta().height >= 2);
    (0..4999).for_each(|i| fixture.model.delete(key(i)));
    fixture.merge(false);
    assert_eq!((fixture.meta().height, fixture.meta().leaves), (0, 1));
    fixture.check();
}

#[test]
fn keys_that_ascend_fill_their_leaves() {
    let mut fixture = Fixture::plain(4096);
    for round in 0..100 {
        (0..97).for_each(|i| fixture.model.put(key(round * 97 + i), [7; 50]));
        fixture.merge(false);
    }
    let (mut bytes, mut leaves) = (0, 0);
    visit(&fixture.tree.root(), &mut |height, block, _| {
        (bytes, leaves) = if height == 0 { (bytes + block.memory_bytes(), leaves + 1) } else { (bytes, leaves) };
    });
    assert!(bytes * 100 >= leaves * 4076 * 95, "{} bytes of 4096 on average", bytes / leaves);
}

#[test]
fn a_leaf_that_overflows_is_cut_in_two_of_a_size() {
    let mut fixture = Fixture::plain(4096);
    (0..10_000).for_each(|i| fixture.model.put(key(i * 10), [7; 50]));
    fixture.merge(false);
    let leaves = fixture.meta().leaves;
    fixture.model.put(key(50_005), [7; 50]);
    fixture.merge(false);
    assert_eq!(fixture.meta().leaves, leaves + 1);
    let mut small = 0;
    visit(&fixture.tree.root(), &mut |height, block, _| small += u32::from(height == 0 && block.memory_bytes() < 1700));
    assert!(small <= 1, "only the last leaf of the tree may be small");
}

#[test]
fn small_leaves_join_their_neighbours() {
    let mut fixture = Fixture::plain(4096);
    (0..10_000).for_each(|i| fixture.model.put(key(i), [7; 50]));
    fixture.merge(false);
    let leaves = fixture.meta().leaves;
    for round in 0..10 {
        (0..10_000).filter(|i| i % 10 == round && i % 100 != round).for_each(|i| fixture.model.delete(key(i)));
        fixture.merge(false);
    }
    fixture.check();
    assert!(fixture.meta().leaves * 10 < leaves * 2, "{} of {leaves} leaves", fixture.meta().leaves);
}

#[test]
fn untouched_subtrees_are_neither_read_nor_written() {
    let mut fixture = Fixture::plain(4096);
    (0..100_000).for_each(|i| fixture.model.put(key(i), [7; 50]));
    fixture.merge(false);
    let stats = fixture.tree.file.blocks.stats();
    let count = || [&stats.block_reads, &stats.written_bytes].map(|count| count.load(Ordering::Relaxed));
    fixture.cache.fit(|_| Some(0));
    fixture.model.put(key(70_000), "one");
    let before = count();
    let mut changes = fixture.model.take_batch();
    let pending = merge(&fixture.tree, &mut changes, &mut fixture.model.retain(), false).unwrap();
    let after = count();
    assert!(after[0] - before[0] <= u64::from(pending.meta().height) + 1);
    assert!(after[1] - before[1] <= 64 << 10);
}

#[test]
fn a_scan_reads_many_leaves_at_once_and_a_seek_one() {
    let mut fixture = Fixture::plain(4096);
    (0..50_000).for_each(|i| fixture.model.put(key(i), [7; 50]));
    fixture.cache.fit(|_| Some(0));
    fixture.merge(false);
    let (root, stats) = (fixture.tree.root(), fixture.tree.file.blocks.stats());
    let reads = |action: &dyn Fn()| {
        let before = stats.block_reads.load(Ordering::Relaxed);
        action();
        stats.block_reads.load(Ordering::Relaxed) - before
    };
    root.get(&key(0), SeqNum::MAX).unwrap();
    let scan = reads(&|| assert_eq!(entries(&root).len(), 50_000));
    assert!(scan < root.meta().leaves / 10, "{scan} reads for {} leaves", root.meta().leaves);
    let height = u64::from(root.meta().height);
    assert_eq!(reads(&|| drop(root.get(&key(25_000), SeqNum::MAX).unwrap())), height);
    assert_eq!(reads(&|| BTreeCursor::over(&root, Fill::Keep).seek_ge(&key(25_000)).unwrap()), height);
    fixture.model.put(key(1), "one");
    let rewrite = reads(&|| {
        let mut changes = fixture.model.clone().take_batch();
        drop(merge(&fixture.tree, &mut changes, &mut fixture.model.retain(), true).unwrap());
    });
    assert!(rewrite < root.meta().leaves / 10, "{rewrite} reads for {} leaves", root.meta().leaves);
}

#[test]
fn readers_see_whole_roots_while_merges_go_on() {
    let mut fixture = Fixture::plain(512);
    (0..500).for_each(|i| fixture.model.put(key(i), 0u64.to_le_bytes()));
    fixture.merge(false);
    let (tree, done) = (Arc::clone(&fixture.tree), AtomicBool::new(false));
    let read = || {
        let mut rounds = 0u64;
        while !done.load(Ordering::Relaxed) || rounds == 0 {
            let root = tree.root();
            let values = rows(&root, u64::MAX);
            assert_eq!(values.len(), 500);
            assert!(values.iter().all(|(_, value)| *value == values[0].1), "a root shows one merge only");
            let found = root.get(&key(rounds % 500), SeqNum::MAX).unwrap().unwrap();
            assert_eq!(found.value, values[0].1);
            rounds += 1;
        }
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(read), scope.spawn(read)];
        for round in 1..60u64 {
            (0..500).for_each(|i| fixture.model.put(key(i), round.to_le_bytes()));
            fixture.merge_unverified();
        }
        done.store(true, Ordering::Relaxed);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    tree.verify(&tree.root()).unwrap();
}

#[test]
fn a_get_looks_up_the_leaf_only_below_branches_that_the_root_keeps() {
    let lookups = |block_bytes: u32, height: u32, cache_bytes: u64| {
        let mut fixture = Fixture::plain(block_bytes);
        fixture.cache.fit(|_| Some(cache_bytes));
        (0..4000).for_each(|i| fixture.model.put(key(i), [7; 40]));
        fixture.merge(false);
        assert_eq!(fixture.meta().height, height, "{:?}", fixture.meta());
        let root = fixture.tree.root();
        let looked_up = || fixture.cache.stats().hits + fixture.cache.stats().misses;
        let get = || root.get(&key(1234), SeqNum::MAX).unwrap().unwrap();
        drop(get());
        let before = looked_up();
        drop(get());
        looked_up() - before
    };
    assert_eq!(lookups(512, 2, 1 << 20), 1);
    assert_eq!(lookups(256, 3, 1 << 20), 1);
    // Nothing is kept where that would be much beside the cache.
    assert_eq!(lookups(512, 2, 1 << 10), 2);
}

/// As two slices of a merge do where the leaf that one ends with is rewritten by the other.
#[test]
fn merges_under_one_rule_may_come_to_a_key_twice() {
    let mut fixture = Fixture::plain(4096);
    for round in 0..3_u8 {
        fixture.model.put(key(1), [round; 8]);
        let mut gc = fixture.model.retain();
        let mut changes = fixture.model.take_batch();
        for _ in 0..2 {
            let pending = merge(&fixture.tree, &mut changes, &mut gc, true).unwrap();
            fixture.tree.install(pending).unwrap();
            check(&fixture.tree.root(), &fixture.model, fixture.model.seqnum);
        }
    }
}

#[test]
fn a_tree_in_a_real_file_is_found_again() {
    for direct in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (env, path) = (crate::env::os::env(), dir.path().join("tree"));
        let options = TreeOptions { block_bytes: 4096, compression: Compression::Lz4, direct };
        let cache = || Arc::new(Cache::new(1 << 20));
        let mut tree = BTree::create(&env, &path, IDENTITY, options, cache(), Arc::default()).unwrap();
        let mut model = Model::default();
        for round in 0..5 {
            (0..5000).for_each(|i| model.put(key(i * 3 + round), [7; 40]));
            (0..5000).filter(|i| i % 7 == round).for_each(|i| model.delete(key(i)));
            let pending = merge(&tree, &mut model.take_batch(), &mut model.retain(), false).unwrap();
            let meta = *pending.meta();
            tree.install(pending).unwrap();
            tree = BTree::open(&env, &path, IDENTITY, options, meta, cache(), Arc::default()).unwrap();
            tree.verify(&tree.root()).unwrap();
            check(&tree.root(), &model, model.seqnum);
        }
        let again = BTree::create(&env, &path, IDENTITY, options, cache(), Arc::default());
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Io);
    }
}

#[test]
fn versions_of_one_key_may_fill_many_leaves() {
    let mut fixture = Fixture::plain(256);
    for round in 0..6 {
        (0..200).for_each(|i| fixture.model.put(key(i), "neighbour"));
        for i in 0..120 {
            fixture.model.put(key(100), vec![b'v'; 100 + i]);
            fixture.model.snapshots.push(fixture.model.seqnum);
        }
        fixture.merge(false);
        fixture.check();
        if round % 2 == 1 {
            let kept = fixture.model.snapshots.len() / 3;
            fixture.model.snapshots.truncate(kept);
        }
    }
    let mut marks = 0;
    visit(&fixture.tree.root(), &mut |height, block, _| {
        marks += (0..block.count()).filter(|i| height > 0 && format::continues(block, *i)).count();
    });
    assert!(marks > 3, "{marks} borders within the versions of a key");
    fixture.model.snapshots.clear();
    fixture.model.delete(key(100));
    fixture.merge(false);
    fixture.check();
    fixture.merge(true);
    fixture.check();
    assert_eq!(fixture.meta().entries, 199);
}

#[test]
fn values_larger_than_a_stretch_are_kept() {
    let mut fixture = Fixture::plain(4096);
    for i in 0..6 {
        fixture.model.put(key(i), vec![u8::try_from(i).unwrap(); 700_000 * usize_of(i)]);
    }
    fixture.merge(false);
    fixture.model.put(key(3), vec![9; 5_000_000]);
    fixture.merge(false);
    fixture.check();
}

#[test]
fn keys_of_the_largest_size_make_a_tree() {
    let mut fixture = Fixture::plain(4096);
    for round in 0..3 {
        for i in 0..40u64 {
            let mut key = vec![7; crate::base::key::KEY_BYTES_MAX - 8];
            key.extend_from_slice(&(i * 3 + round).to_be_bytes());
            fixture.model.put(key, "value");
        }
        fixture.merge(false);
    }
    assert!(fixture.meta().height > 2);
    fixture.check();
}

#[test]
fn a_file_of_constant_contents_keeps_its_size() {
    let mut fixture = Fixture::plain(4096);
    let mut random = Random(3);
    (0..20_000).for_each(|i| fixture.model.put(key(i), [7; 60]));
    fixture.merge(false);
    let mut most = 0;
    for round in 0..200 {
        let count = if round % 3 == 0 { 4000 } else { 100 };
        for _ in 0..count {
            let at = random.below(20_000);
            fixture.model.put(key(at), random.next().to_le_bytes().repeat(8));
        }
        let report = fixture.merge(round % 50 == 49);
        most = most.max((report.bytes + report.free_bytes) * 100 / report.bytes);
    }
    fixture.check();
    assert!(most < 300, "the file had {most} % of the size of its contents");
}

#[test]
fn a_file_whose_contents_go_shrinks() {
    let mut fixture = Fixture::plain(4096);
    (0..100_000).for_each(|i| fixture.model.put(key(i), [7; 60]));
    fixture.merge(false);
    let full = fixture.meta().file_bytes;
    (0..99_000).for_each(|i| fixture.model.delete(key(i)));
    for _ in 0..4 {
        fixture.merge(true);
    }
    assert!(fixture.meta().file_bytes < full / 4);
    let len = u64_of(fixture.sim.read_file(PATH).unwrap().len());
    assert_eq!(len, fixture.meta().file_bytes);
    fixture.check();
}

#[test]
fn a_root_that_is_dropped_gives_its_space_back() {
    let mut fixture = Fixture::plain(512);
    (0..1000).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    let end = fixture.tree.space_map().lock().end();
    for _ in 0..20 {
        let mut other = fixture.model.clone();
        (0..1000).for_each(|i| other.put(key(i), "never seen"));
        let pending = merge(&fixture.tree, &mut other.take_batch(), &mut other.retain(), false).unwrap();
        let second = merge(&fixture.tree, &mut other.take_batch(), &mut other.retain(), false);
        assert_eq!(second.unwrap_err().kind(), ErrorKind::Invalid);
        drop(pending);
        fixture.check();
    }
    assert!(fixture.tree.space_map().lock().end() <= 3 * end, "each merge took the space of the one before");
    fixture.model.put("z", "seen");
    fixture.merge(false);
    fixture.check();
}

#[test]
fn a_merge_that_fails_anywhere_leaves_the_tree_as_it_was() {
    let mut fixture = Fixture::plain(512);
    let mut random = Random(11);
    (0..600).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::NoSpace, Fault::ShortWrite, Fault::SyncLost] {
        for op in 0.. {
            let model = fixture.model.clone();
            random_batch(&mut random, &mut fixture.model);
            (0..200).for_each(|i| fixture.model.put(key(i * 3), [1; 40]));
            fixture.cache.fit(|_| Some(0));
            fixture.sim.fail_at(fixture.sim.op_count() + op * 7, fault);
            let pending = fixture.prepare(op % 4 == 0);
            fixture.sim.clear_faults();
            let Ok(pending) = pending else {
                fixture.model = model;
                check(&fixture.tree.root(), &fixture.model, fixture.model.seqnum);
                fixture.tree.verify(&fixture.tree.root()).unwrap();
                continue;
            };
            fixture.tree.install(pending).unwrap();
            fixture.tree.verify(&fixture.tree.root()).unwrap();
            fixture.check();
            if op > 3 {
                break;
            }
        }
    }
}

#[test]
fn changes_that_fail_abort_the_merge() {
    let mut fixture = Fixture::plain(512);
    (0..300).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    for moves in [0, 1, 100, 250] {
        let mut other = fixture.model.clone();
        (0..300).for_each(|i| other.put(key(i), "lost"));
        let mut changes = other.take_batch().failing_after(moves);
        assert!(merge(&fixture.tree, &mut changes, &mut other.retain(), false).is_err());
        fixture.merge(false);
        fixture.check();
    }
}

#[test]
fn where_the_disk_is_full_holes_are_used() {
    let mut fixture = Fixture::plain(4096);
    (0..20_000).for_each(|i| fixture.model.put(key(i), [7; 60]));
    fixture.merge(false);
    (0..20_000).filter(|i| i % 997 == 0).for_each(|i| fixture.model.put(key(i), [8; 60]));
    fixture.merge(false);
    fixture.sim.set_space(u64_of(fixture.sim.read_file(PATH).unwrap().len()));
    let before = fixture.model.clone();
    (0..20_000).for_each(|i| fixture.model.put(key(i), [9; 60]));
    assert_eq!(fixture.prepare(false).unwrap_err().kind(), ErrorKind::Full);
    fixture.model = before;
    fixture.check();
    (0..20).for_each(|i| fixture.model.put(key(i * 1000), [9; 60]));
    fixture.merge(false);
    fixture.check();
}

/// Calls `met` with the height, block and pointer of everything that a root reaches.
fn visit(root: &Arc<TreeRoot>, met: &mut impl FnMut(u32, &Block, BlockPointer)) {
    fn go(root: &Arc<TreeRoot>, height: u32, pointer: BlockPointer, met: &mut impl FnMut(u32, &Block, BlockPointer)) {
        let block = root.file.blocks.read(pointer).unwrap();
        met(height, &block, pointer);
        for i in 0..if height > 0 { block.count() } else { 0 } {
            go(root, height - 1, root.file.child(&block, i).unwrap(), met);
        }
    }
    if let Some(pointer) = root.meta().root {
        go(root, root.meta().height, pointer, met);
    }
}

#[test]
fn every_flipped_byte_of_a_block_is_found() {
    let mut fixture = Fixture::new(1000, Compression::Lz4, true);
    (0..400).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    let root = fixture.tree.root();
    let mut frames = vec![root.meta().free_list.unwrap()];
    visit(&root, &mut |_, _, pointer| frames.push(pointer));
    for frame in frames {
        for at in (frame.offset..frame.end()).step_by(41) {
            fixture.sim.corrupt(PATH, at, 1 << (at % 8)).unwrap();
            let error = fixture.tree.verify(&root).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().contains(&format!("at offset {}", frame.offset)), "{error}");
            fixture.sim.corrupt(PATH, at, 1 << (at % 8)).unwrap();
        }
    }
    fixture.tree.verify(&root).unwrap();
}

#[test]
fn a_cursor_that_met_a_corrupt_block_fails_for_good() {
    let mut fixture = Fixture::plain(512);
    (0..400).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    fixture.cache.fit(|_| Some(0));
    let root = fixture.tree.root();
    let mut leaves = Vec::new();
    visit(&root, &mut |height, _, pointer| leaves.extend((height == 0).then_some(pointer)));
    fixture.sim.corrupt(PATH, leaves[3].offset + 30, 1).unwrap();
    let mut cursor = BTreeCursor::over(&root, Fill::Keep);
    cursor.first().unwrap();
    let mut before = 1;
    let error = loop {
        match cursor.next() {
            Ok(()) => before += 1,
            Err(error) => break error,
        }
    };
    let intact = leaves[..3].iter().map(|leaf| root.file.blocks.read(*leaf).unwrap().count()).sum::<usize>();
    assert_eq!(before, intact, "leaves read ahead must not fail before they are reached");
    assert_eq!(error.kind(), ErrorKind::Corruption);
    assert!(cursor.entry().is_none() && cursor.value().is_none());
    assert!(
        cursor.next().is_err() && cursor.first().is_err() && cursor.seek_ge(b"a").is_err() && cursor.prev().is_err()
    );
    fixture.model.put(key(0), "still possible");
    fixture.prepare(true).unwrap_err();
    fixture.merge_unverified();
    assert!(root.get(&key(399), SeqNum::MAX).unwrap().is_some());
}

impl Fixture {
    fn merge_unverified(&mut self) {
        let pending = self.prepare(false).unwrap();
        self.tree.install(pending).unwrap();
    }
}

#[test]
fn a_file_that_is_not_the_one_expected_is_refused() {
    let mut fixture = Fixture::plain(512);
    (0..100).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    let meta = fixture.meta();
    let kind = |sim: &SimEnv, identity| {
        let (cache, stats) = (Arc::new(Cache::new(1 << 20)), Arc::default());
        let tree = BTree::open(&sim.env(), Path::new(PATH), identity, fixture.options, meta, cache, stats);
        tree.map(|_| ()).map_err(|error| error.kind())
    };
    assert_eq!(kind(&fixture.sim, IDENTITY), Ok(()));
    assert_eq!(kind(&fixture.sim, IDENTITY + 1), Err(ErrorKind::Corruption));
    let mut newer = fixture.sim.read_file(PATH).unwrap();
    newer[8] += 1;
    let sum = crate::base::checksum::checksum(IDENTITY, 0, &newer[..24]);
    newer[24..32].copy_from_slice(&sum.to_le_bytes());
    let sim = fixture.sim.fork();
    sim.write_file(PATH, &newer).unwrap();
    assert_eq!(kind(&sim, IDENTITY), Err(ErrorKind::Unsupported));
    for (offset, expected) in [(0, ErrorKind::Corruption), (9, ErrorKind::Corruption), (13, ErrorKind::Corruption)] {
        let sim = fixture.sim.fork();
        sim.corrupt(PATH, offset, 0x10).unwrap();
        assert_eq!(kind(&sim, IDENTITY), Err(expected), "offset {offset}");
    }
    for bytes in [0, 20, 4096, meta.file_bytes - 1] {
        let sim = fixture.sim.fork();
        sim.truncate(PATH, bytes).unwrap();
        assert_eq!(kind(&sim, IDENTITY), Err(ErrorKind::Corruption), "{bytes} bytes");
    }
}

#[test]
fn a_stored_root_round_trips_and_rejects_what_cannot_be() {
    let mut fixture = Fixture::plain(512);
    (0..100).for_each(|i| fixture.model.put(key(i), "value"));
    fixture.merge(false);
    for meta in [TreeMeta::default(), fixture.meta()] {
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        assert_eq!((TreeMeta::decode(&mut decoder), decoder.is_empty()), (Ok(meta), true));
        for len in 0..bytes.len() {
            assert!(TreeMeta::decode(&mut Decoder::new(&bytes[..len])).is_err());
        }
    }
    let wrong = [
        TreeMeta { height: 65, ..fixture.meta() },
        TreeMeta { root: None, ..fixture.meta() },
        TreeMeta { file_bytes: 4095, ..fixture.meta() },
        TreeMeta { free_bytes: u64::MAX, ..fixture.meta() },
        TreeMeta { entries: 0, ..fixture.meta() },
    ];
    for meta in wrong {
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        assert!(TreeMeta::decode(&mut Decoder::new(&bytes)).is_err(), "{meta:?}");
    }
}

/// Merges operands `at`, each with 40 bytes of value, of these keys.
fn merge_operands(fixture: &mut Fixture, keys: &[&str], at: std::ops::Range<u64>, operator: &TableOperator) {
    let operand = |key: &&str, at: u64| OwnedEntry {
        key: key.as_bytes().to_vec(),
        seqnum: SeqNum(at),
        kind: Kind::Merge,
        value: format!("{key} {at:39}").into_bytes(),
    };
    let changes = keys.iter().flat_map(|key| at.clone().rev().map(move |at| operand(key, at)));
    let mut changes = VecCursor::new(changes.collect());
    let mut gc = GcRule::new(Vec::new(), SeqNum(1 << 20), true).with_operator(operator.clone());
    let pending = merge(&fixture.tree, &mut changes, &mut gc, false).unwrap();
    fixture.tree.install(pending).unwrap();
    fixture.tree.verify(&fixture.tree.root()).unwrap();
}

#[test]
fn operands_that_are_spread_over_leaves_are_folded_as_one_key() {
    let mut fixture = Fixture::plain(512);
    let (unknown, append) = (TableOperator::default(), Append { partial: true }.of_table());
    merge_operands(&mut fixture, &["b"], 1..400, &unknown);
    merge_operands(&mut fixture, &["a"], 400..401, &unknown);
    assert!(fixture.tree.root().meta().leaves > 1, "the versions of a key fill several leaves");
    merge_operands(&mut fixture, &["b"], 401..402, &append);
    assert_eq!(fixture.tree.root().meta().entries, 2);
    let found = fixture.tree.root().get(b"b", SeqNum::MAX).unwrap().unwrap();
    let expected: String = (1..400).chain([401]).map(|at| format!("b {at:39}")).collect();
    assert_eq!((found.kind, found.value.to_vec()), (Kind::Put, expected.into_bytes()));
}

#[test]
fn operands_at_the_ends_of_leaves_come_out_within_their_borders() {
    let mut fixture = Fixture::plain(512);
    let keys: Vec<_> = (0..200).map(|number| format!("key{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let append = Append { partial: true }.of_table();
    for at in 1..4 {
        merge_operands(&mut fixture, &keys, at..at + 1, &append);
    }
    assert_eq!(fixture.tree.root().meta().entries, 200);
    for key in keys {
        let found = fixture.tree.root().get(key.as_bytes(), SeqNum::MAX).unwrap().unwrap();
        let expected: String = (1..4).map(|at| format!("{key} {at:39}")).collect();
        assert_eq!((found.kind, found.value.to_vec()), (Kind::Put, expected.into_bytes()));
    }
}
