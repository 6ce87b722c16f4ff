//! Tests of runs: against vectors of entries, with every byte wrong, cut short, and failing.

use super::multi_get::get_many;
use super::verify::verify;
use super::{LevelCursor, Run, RunBuilder, RunCursor, RunMeta, RunOptions, are_apart, run_of};
use crate::base::checksum::hash_key;
use crate::base::codec::Decoder;
use crate::base::num::{u64_of, usize_of};
use crate::base::{ErrorKind, Kind, Result, SeqNum};
use crate::block::Compression;
use crate::cache::{Cache, Fill};
use crate::env::sim::{Fault, SimEnv};
use crate::store::StoreStats;
use crate::tree::merge::MergeCursor;
use crate::tree::multi_get::MultiGet;
use crate::tree::vec_cursor::{OwnedEntry, VecCursor, keys, trees};
use crate::tree::{Costs, Cursor, KeyCursor, LazySeek, Limits, MergeSource, Prefix};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const IDENTITY: u64 = 0x5eed;
/// So many versions of a key a walk counts at least.
const COUNTED: u64 = 16;

/// A machine with runs on it.
pub(super) struct Bench {
    pub(super) sim: SimEnv,
    pub(super) cache: Arc<Cache>,
    stats: Arc<StoreStats>,
    pub(super) options: RunOptions,
    runs: u64,
}

impl Bench {
    pub(super) fn new() -> Self {
        let options = RunOptions {
            block_bytes: 60,
            compression: Compression::None,
            filter_bits_per_key: 10.0,
            filter_prefix: None,
            direct: false,
        };
        let (cache, stats) = (Arc::new(Cache::new(1 << 20)), Arc::new(StoreStats::default()));
        Self { sim: SimEnv::new(1), cache, stats, options, runs: 0 }
    }

    pub(super) fn with(options: RunOptions) -> Self {
        Self { options, ..Self::new() }
    }

    pub(super) fn builder(&self, path: &Path) -> Result<RunBuilder> {
        RunBuilder::create(&self.sim.env(), path, IDENTITY, self.options, Arc::clone(&self.stats))
    }

    fn write(&mut self, entries: &[OwnedEntry]) -> Result<(PathBuf, RunMeta)> {
        self.runs += 1;
        let path = PathBuf::from(format!("/{}.run", self.runs));
        let mut builder = self.builder(&path)?;
        for entry in entries {
            builder.push(&entry.entry())?;
            assert_eq!(builder.last_key(), entry.key);
        }
        Ok((path, builder.finish()?))
    }

    pub(super) fn open(&self, path: &Path, meta: &RunMeta) -> Result<Arc<Run>> {
        let (cache, stats) = (Arc::clone(&self.cache), Arc::clone(&self.stats));
        Run::open(&self.sim.env(), path, IDENTITY, self.options.direct, meta.clone(), cache, stats)
    }

    /// Puts a file there as it is.
    fn put_file(&self, path: &str, bytes: &[u8]) -> PathBuf {
        self.sim.write_file(path, bytes).unwrap();
        PathBuf::from(path)
    }

    pub(super) fn run(&mut self, entries: &[OwnedEntry]) -> Arc<Run> {
        let (path, meta) = self.write(entries).unwrap();
        self.open(&path, &meta).unwrap()
    }
}

/// Runs of keys and versions, some keys with more versions than fit a leaf.
pub(super) fn run_entries() -> impl Strategy<Value = Vec<OwnedEntry>> {
    let hot = (keys(), 0..40u64);
    (trees(), trees(), proptest::option::of(hot)).prop_map(|(a, b, hot)| {
        let mut entries = [a, b].concat();
        if let Some((key, versions)) = hot {
            entries.extend((0..versions).map(|version| put(&key, 100 + version, b"hot")));
        }
        entries.sort_by(|a, b| a.key.cmp(&b.key).then(b.seqnum.cmp(&a.seqnum)));
        entries.dedup_by(|a, b| a.key == b.key && a.seqnum == b.seqnum);
        entries
    })
}

fn rules() -> impl Strategy<Value = Prefix> {
    prop_oneof![Just(Prefix::Bytes(1)), Just(Prefix::Bytes(2)), Just(Prefix::Bytes(8)), Just(Prefix::UpTo(b'b'))]
}

pub(super) fn put(key: &[u8], seqnum: u64, value: &[u8]) -> OwnedEntry {
    OwnedEntry { key: key.to_vec(), seqnum: SeqNum(seqnum), kind: Kind::Put, value: value.to_vec() }
}

fn numbered(count: u64) -> Vec<OwnedEntry> {
    let value = |i: u64| hash_key(&i.to_be_bytes()).to_be_bytes().repeat(usize_of(i % 5));
    (0..count).map(|i| put(format!("key-{i:09}").as_bytes(), i % 3, &value(i))).collect()
}

#[derive(Clone, Debug)]
pub(super) enum Move {
    First,
    Last,
    SeekGe(Vec<u8>),
    /// A seek that was approached by some steps.
    ApproachGe(Vec<u8>, usize),
    SeekLt(Vec<u8>),
    Next,
    NextKey,
    Prev,
}

pub(super) fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        1 => Just(Move::First),
        1 => Just(Move::Last),
        3 => keys().prop_map(Move::SeekGe),
        3 => (keys(), 0..9usize).prop_map(|(key, steps)| Move::ApproachGe(key, steps)),
        3 => keys().prop_map(Move::SeekLt),
        10 => Just(Move::Next),
        5 => Just(Move::NextKey),
        10 => Just(Move::Prev),
    ];
    proptest::collection::vec(one, 0..80)
}

/// Makes a move; over how many older versions it went, if it says so.
pub(super) fn apply(cursor: &mut dyn MergeSource, step: &Move) -> Result<u64> {
    let moved = match step {
        Move::First => cursor.first(),
        Move::Last => cursor.last(),
        Move::SeekGe(key) => cursor.seek_ge(key),
        Move::ApproachGe(key, steps) => {
            (0..*steps).for_each(|_| _ = cursor.prefetch_seek_ge(key));
            cursor.seek_ge(key)
        }
        Move::SeekLt(key) => cursor.seek_lt(key),
        Move::Next => cursor.next(),
        Move::NextKey => return cursor.next_key(&mut Vec::new()),
        Move::Prev => cursor.prev(),
    };
    moved.map(|()| 0)
}

pub(super) fn walk_alike(
    cursor: &mut dyn MergeSource,
    model: &mut VecCursor,
    moves: &[Move],
) -> Result<(), TestCaseError> {
    for step in moves {
        let [here, there] = [apply(cursor, step).unwrap(), apply(model, step).unwrap()];
        // More versions may be passed by a seek, which does not count them.
        prop_assert_eq!(here.min(COUNTED), there.min(COUNTED));
        prop_assert!(!cursor.is_first_version() || model.is_first_version(), "after {:?}", step);
        prop_assert_eq!(cursor.entry(), model.entry(), "after {:?}", step);
        prop_assert_eq!(cursor.value().map(Vec::from), model.value().map(Vec::from));
    }
    Ok(())
}

pub(super) fn all_entries(cursor: &mut dyn MergeSource) -> Result<Vec<OwnedEntry>> {
    let mut entries = Vec::new();
    cursor.first()?;
    while let Some(entry) = cursor.entry() {
        entries.push(OwnedEntry::of(entry));
        cursor.next()?;
    }
    Ok(entries)
}

/// What a get finds, whether the filter is asked first or late.
pub(super) fn get(run: &Run, key: &[u8], snapshot: u64) -> Result<Option<OwnedEntry>> {
    let [first, late] = [false, true].map(|late| {
        run.ask_late(late);
        get_once(run, key, snapshot)
    });
    let start = run.prefetch_step(key, hash_key(key));
    let approached = run.get_at_cost((key, hash_key(key)), start, SeqNum(snapshot), &mut Costs::default());
    let approached = approached.map(|found| found.map(|found| owned(key, found)));
    if let (Ok(first), Ok(late), Ok(approached)) = (&first, &late, &approached) {
        assert_eq!((first, first), (late, approached), "key {key:?}");
    }
    first.and(late).and(approached)
}

fn get_once(run: &Run, key: &[u8], snapshot: u64) -> Result<Option<OwnedEntry>> {
    Ok(run.get(key, hash_key(key), SeqNum(snapshot))?.map(|found| owned(key, found)))
}

fn owned(key: &[u8], found: crate::tree::Found) -> OwnedEntry {
    OwnedEntry { key: key.to_vec(), seqnum: found.seqnum, kind: found.kind, value: found.value.into() }
}

fn model_get(entries: &[OwnedEntry], key: &[u8], snapshot: u64) -> Option<OwnedEntry> {
    entries.iter().find(|entry| entry.key == key && entry.seqnum.0 <= snapshot).cloned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_run_shows_what_was_pushed(
        entries in run_entries().prop_filter("a run has entries", |entries| !entries.is_empty()),
        moves in moves(),
        probes in proptest::collection::vec((keys(), 0..150u64), 0..30),
        (block_bytes, bits, direct) in (prop_oneof![Just(40u32), Just(100), Just(4000)], 0..12u32, any::<bool>()),
        filter_prefix in proptest::option::of(rules()),
        compression in prop_oneof![Just(Compression::None), Just(Compression::Lz4), Just(Compression::Zstd)],
    ) {
        let mut bench = Bench::with(RunOptions {
            block_bytes,
            compression,
            filter_bits_per_key: f64::from(bits),
            filter_prefix,
            direct,
        });
        let run = bench.run(&entries);
        let (mut keep, mut bypass) = (RunCursor::over(&run, Fill::Keep), RunCursor::over(&run, Fill::Bypass));
        walk_alike(&mut keep, &mut VecCursor::new(entries.clone()), &moves)?;
        walk_alike(&mut bypass, &mut VecCursor::new(entries.clone()), &moves)?;
        prop_assert_eq!(&all_entries(&mut bypass).unwrap(), &entries);
        // A merge of one tree walks in its leaves itself.
        let mut merge = MergeCursor::new(vec![Box::new(RunCursor::over(&run, Fill::Keep))]);
        walk_alike(&mut merge, &mut VecCursor::new(entries.clone()), &moves)?;

        let all = entries.iter().map(|entry| (entry.key.clone(), entry.seqnum.0));
        for (key, snapshot) in probes.into_iter().chain(all) {
            prop_assert_eq!(get(&run, &key, snapshot).unwrap(), model_get(&entries, &key, snapshot));
        }
        let report = verify(&run).unwrap();
        prop_assert_eq!((report.entries, report.bytes), (u64_of(entries.len()), run.meta().bytes));

        let meta = run.meta();
        prop_assert_eq!(&meta.smallest, &entries[0].key);
        prop_assert_eq!(&meta.largest, &entries[entries.len() - 1].key);
        let mut bytes = Vec::new();
        meta.encode(&mut bytes);
        prop_assert_eq!(&RunMeta::decode(&mut Decoder::new(&bytes)).unwrap(), meta);
    }

    #[test]
    fn a_level_shows_what_its_runs_show_in_a_row(
        entries in run_entries(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        moves in moves(),
        probes in proptest::collection::vec(keys(), 0..20),
    ) {
        let mut bench = Bench::new();
        let mut runs = Vec::new();
        for part in cut_between_keys(&entries, &cuts) {
            runs.push(bench.run(part));
        }
        for key in probes.iter().chain(entries.iter().map(|entry| &entry.key)) {
            let expected = runs.iter().find(|run| run.meta().overlaps(key, key));
            prop_assert_eq!(run_of(&runs, key).map(|run| run.file().instance()), expected.map(|run| run.file().instance()));
        }
        for fill in [Fill::Keep, Fill::Bypass] {
            let mut level = LevelCursor::new(runs.clone().into(), fill);
            walk_alike(&mut level, &mut VecCursor::new(entries.clone()), &moves)?;
            let mut merge = MergeCursor::new(vec![Box::new(LevelCursor::new(runs.clone().into(), fill))]);
            walk_alike(&mut merge, &mut VecCursor::new(entries.clone()), &moves)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_walk_within_limits_shows_the_same_whether_filters_know_its_prefix_or_not(
        entries in run_entries(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
        spans in proptest::collection::vec((keys(), keys()), 1..12),
        (built, asked) in (proptest::option::of(rules()), rules()),
    ) {
        let mut bench = Bench::with(RunOptions { filter_prefix: built, ..Bench::new().options });
        let runs: Arc<[_]> = cut_between_keys(&entries, &cuts).into_iter().map(|part| bench.run(part)).collect();
        for (low, high) in spans {
            let within = |entry: &&OwnedEntry| low <= entry.key && entry.key < high;
            let expected: Vec<_> = entries.iter().filter(within).cloned().collect();
            let limits = Arc::new(Limits::new(low.clone(), Some(high.clone()), Some(asked)));
            let mut level = LevelCursor::new(Arc::clone(&runs), Fill::Keep);
            level.limit(&limits);
            // Wherever these lead, to runs without the prefix perhaps.
            level.first().unwrap();
            level.last().unwrap();
            let mut seen = Vec::new();
            while level.prefetch_seek_ge(&low) {}
            level.seek_ge(&low).unwrap();
            while let Some(entry) = level.entry().filter(|entry| limits.contain(entry.key)) {
                seen.push(OwnedEntry::of(entry));
                level.next().unwrap();
            }
            prop_assert_eq!(&seen, &expected, "{:?}, from {:?} to {:?}", asked, low, high);
            seen.clear();
            level.seek_lt(&high).unwrap();
            while let Some(entry) = level.entry().filter(|entry| limits.contain(entry.key)) {
                seen.push(OwnedEntry::of(entry));
                level.prev().unwrap();
            }
            seen.reverse();
            prop_assert_eq!(&seen, &expected, "{:?} backward, from {:?} to {:?}", asked, low, high);
            // Within a range every move is allowed.
            for (i, key) in expected.iter().map(|entry| &entry.key).enumerate() {
                (0..i % 9).for_each(|_| _ = level.prefetch_seek_ge(key));
                level.seek_ge(key).unwrap();
                prop_assert_eq!(level.entry().map(|entry| entry.key.to_vec()), Some(key.clone()));
            }
        }
    }
}

/// Cuts entries into parts that are not empty and do not share keys.
pub(super) fn cut_between_keys<'a>(entries: &'a [OwnedEntry], cuts: &[prop::sample::Index]) -> Vec<&'a [OwnedEntry]> {
    let mut parts = Vec::new();
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(entries.len() + 1)).collect();
    cuts.sort_unstable();
    let mut start = 0;
    for cut in cuts.into_iter().chain([entries.len()]) {
        let inside = |cut: usize| 0 < cut && cut < entries.len() && entries[cut - 1].key == entries[cut].key;
        let end = (cut..).find(|cut| !inside(*cut)).unwrap();
        if start < end {
            parts.push(&entries[start..end]);
            start = end;
        }
    }
    parts
}

#[test]
fn an_index_of_many_parts_leads_to_every_key() {
    let entries = numbered(20_000);
    let mut bench = Bench::new();
    let run = bench.run(&entries);
    assert!(run.top().count() > 5, "{} index parts", run.top().count());
    for fill in [Fill::Keep, Fill::Bypass] {
        assert_eq!(all_entries(&mut RunCursor::over(&run, fill)).unwrap(), entries);
    }
    let mut cursor = RunCursor::over(&run, Fill::Keep);
    cursor.last().unwrap();
    for entry in entries.iter().rev() {
        assert_eq!(cursor.entry(), Some(entry.entry()));
        cursor.prev().unwrap();
    }
    assert!(cursor.entry().is_none());
    for entry in entries.iter().step_by(37) {
        assert_eq!(get(&run, &entry.key, 9).unwrap().as_ref(), Some(entry));
        let gap = [&entry.key[..], b"!"].concat();
        assert_eq!(get(&run, &gap, 9).unwrap(), None);
        while cursor.prefetch_seek_ge(&entry.key) {}
        cursor.seek_ge(&entry.key).unwrap();
        assert_eq!(cursor.entry(), Some(entry.entry()));
    }
    assert_eq!(verify(&run).unwrap().entries, 20_000);
}

#[test]
fn a_run_keeps_what_there_is_room_for_and_gives_it_back() {
    let entries = numbered(20_000);
    // How many lookups in the cache does a get take?
    for (filter_bits_per_key, cache_bytes, looked_up) in [(0.0, 64 << 20, 1), (10.0, 64 << 20, 1), (0.0, 2 << 20, 2)] {
        let mut bench = Bench::with(RunOptions { filter_bits_per_key, ..Bench::new().options });
        bench.cache = Arc::new(Cache::new(cache_bytes));
        let run = bench.run(&entries);
        run.ask_late(false);
        // The small cache has no room for all leaves, which so are not where they were seen; and none for all parts of
        // the index.
        for _ in 0..2 {
            for entry in entries.iter().step_by(5) {
                assert_eq!(get_once(&run, &entry.key, 9).unwrap().as_ref(), Some(entry));
            }
        }
        let lookups = || bench.cache.stats().hits + bench.cache.stats().misses;
        let before = lookups();
        get_once(&run, &entries[19_000].key, 9).unwrap().unwrap();
        assert_eq!(lookups() - before, looked_up, "{filter_bits_per_key} bits, {cache_bytes} bytes of cache");
        assert!(!bench.cache.reserve(cache_bytes / 32), "the run has taken reservation");
        drop(run);
        assert!(bench.cache.reserve(cache_bytes / 32), "and has given all of it back");
        assert!(!bench.cache.reserve(1));
    }
}

#[test]
fn several_gets_keep_a_part_of_the_index_once() {
    let entries = numbered(20_000);
    let taken = |keys: &[&[u8]]| {
        let mut bench = Bench::with(RunOptions { filter_bits_per_key: 0.0, ..Bench::new().options });
        bench.cache = Arc::new(Cache::new(32 << 20));
        let run = bench.run(&entries);
        for _ in 0..2 {
            let found = MultiGet::run(keys, SeqNum(9), &mut Costs::default(), |lookups| {
                lookups.search(|asks, snapshot, costs| get_many(asks, snapshot, costs, |_| std::iter::once(&*run)))
            });
            assert!(found.unwrap().iter().all(Option::is_some));
        }
        (0..1 << 20).rev().find(|free| bench.cache.reserve(*free)).map(|free| (1 << 20) - free)
    };
    let keys: Vec<_> = entries[..20].iter().map(|entry| &entry.key[..]).collect();
    assert_eq!(taken(&keys), taken(&keys[..1]));
    assert!(taken(&keys) > Some(0));
}

#[test]
fn a_bypassing_cursor_reads_much_at_once_and_keeps_nothing() {
    let entries = numbered(20_000);
    let mut bench = Bench::with(RunOptions { direct: true, ..Bench::new().options });
    let run = bench.run(&entries);
    let reads = || bench.stats.block_reads.load(Ordering::Relaxed);
    let before = reads();
    assert_eq!(all_entries(&mut RunCursor::over(&run, Fill::Bypass)).unwrap().len(), entries.len());
    let index_parts = u64_of(run.top().count());
    assert!(reads() - before <= index_parts + 1 + run.footer().leaves_end / (128 << 10), "{} reads", reads() - before);
    assert_eq!(bench.cache.bytes(), 0);

    let before = reads();
    all_entries(&mut RunCursor::over(&run, Fill::Keep)).unwrap();
    assert!(reads() - before < 100, "{} reads", reads() - before);
    let before = reads();
    all_entries(&mut RunCursor::over(&run, Fill::Keep)).unwrap();
    assert!(bench.cache.bytes() > 0 && reads() - before < 100);
}

/// A delete of the oldest rows, fifty at a time, waited for the device in each of its walks.
#[test]
fn short_walks_that_go_on_where_others_ended_read_ahead_together() {
    let entries = numbered(20_000);
    let mut bench = Bench::with(RunOptions { direct: true, block_bytes: 4096, ..Bench::new().options });
    let run = bench.run(&entries);
    let leaves = run.footer().leaves_end / 4096;
    let reads = |walks: &mut dyn Iterator<Item = usize>| {
        run.cache.forget(run.file().instance());
        let before = bench.stats.block_reads.load(Ordering::Relaxed);
        for from in walks {
            let mut cursor = RunCursor::over(&run, Fill::Keep);
            let high = entries.get(from + 50).map(|entry| entry.key.clone());
            cursor.limit(&Arc::new(Limits { low: entries[from].key.clone(), high, prefix: None }));
            cursor.seek_ge(&entries[from].key).unwrap();
            for entry in &entries[from..from + 50] {
                assert_eq!(cursor.entry(), Some(entry.entry()));
                cursor.next().unwrap();
            }
        }
        bench.stats.block_reads.load(Ordering::Relaxed) - before
    };
    let one_after_the_other = reads(&mut (0..entries.len()).step_by(50));
    assert!(one_after_the_other < leaves / 4, "{one_after_the_other} reads of {leaves} leaves");
    // Those that go elsewhere each time read the leaf, or the two, that they come to.
    let apart = reads(&mut (0..400).map(|at| at * 7919 % 400 * 50));
    assert!(apart <= 2 * leaves, "{apart} reads of {leaves} leaves");
}

#[test]
fn who_passes_by_has_the_next_span_read_meanwhile() {
    let entries = numbered(40_000);
    let mut bench = Bench::with(RunOptions { direct: true, ..Bench::new().options });
    let run = bench.run(&entries);
    let operations = |action: &mut dyn FnMut()| {
        let before = bench.sim.op_count();
        action();
        bench.sim.op_count() - before
    };
    for fill in [Fill::Merge, Fill::Bypass] {
        let mut begun = BTreeSet::new();
        for seed in 0..8 {
            bench.sim.reseed(seed);
            let mut cursor = RunCursor::over(&run, fill);
            let mut step = |i| operations(&mut || if i == 0 { cursor.first() } else { cursor.next() }.unwrap());
            begun.insert((0..entries.len()).map(&mut step).collect::<Vec<_>>());
            let reads = operations(&mut || assert!(all_entries(&mut RunCursor::over(&run, fill)).unwrap() == entries));
            // What cannot be read ahead is told when it is asked for.
            for k in 0..reads {
                bench.sim.fail_at(bench.sim.op_count() + k, Fault::Error(std::io::ErrorKind::Other));
                assert_eq!(all_entries(&mut RunCursor::over(&run, fill)).unwrap_err().kind(), ErrorKind::Io);
                bench.sim.clear_faults();
            }
        }
        assert!(begun.len() > 1, "some reads of {fill:?} go on while leaves are looked at");
    }
}

#[test]
fn most_absent_keys_are_answered_by_the_filter() {
    let entries = numbered(20_000);
    let mut bench = Bench::new();
    let run = bench.run(&entries);
    let mut costs = Costs::default();
    for i in 0..10_000 {
        let key = format!("key-{i:09}+");
        let hash = hash_key(key.as_bytes());
        assert!(run.get_at_cost((key.as_bytes(), hash), None, SeqNum(9), &mut costs).unwrap().is_none());
    }
    assert!(costs.filter_misses < 150, "{} false positives in 10000", costs.filter_misses);
    assert_eq!((costs.filters, costs.trees), (10_000, costs.filter_misses));
}

#[test]
fn absent_keys_are_not_read_for_by_who_asks_the_filter_late() {
    let mut bench = Bench::new();
    let run = bench.run(&numbered(20_000));
    run.ask_late(true);
    let look_up = |range: std::ops::Range<u64>| {
        let mut costs = Costs::default();
        for i in range {
            let key = format!("key-{i:09}+");
            assert!(
                run.get_at_cost((key.as_bytes(), hash_key(key.as_bytes())), None, SeqNum(9), &mut costs)
                    .unwrap()
                    .is_none()
            );
            run.ask_late(true);
        }
        costs
    };
    let cold = look_up(0..10_000);
    assert_eq!(cold.filter_stops + cold.trees, 10_000);
    // It is wrong about some, whose leaves are in memory from then on. Of the others at most a part of the index is
    // looked at.
    assert!(cold.filters > 9_500 && cold.trees == cold.filter_misses && cold.blocks < 10_500, "{cold:?}");
    (0..500).for_each(|i| assert!(get(&run, format!("key-{i:09}").as_bytes(), 9).unwrap().is_some()));
    let populate = look_up(0..499);
    assert!(populate.filters < 50 && populate.blocks > 900, "only those that are sampled ask: {populate:?}");
    assert_eq!(populate.filter_stops + populate.trees, 499);
}

#[test]
fn absent_keys_are_not_read_for_where_several_are_looked_up() {
    let mut bench = Bench::with(RunOptions { block_bytes: 700, ..Bench::new().options });
    let run = bench.run(&numbered(20_000));
    let look_up = |first: u64, suffix: &str, late: bool| {
        run.ask_late(late);
        let keys: Vec<_> = (first..first + 50).map(|i| format!("key-{i:09}{suffix}").into_bytes()).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        let (mut costs, before) = (Costs::default(), bench.stats.block_reads.load(Ordering::Relaxed));
        let found = MultiGet::run(&keys, SeqNum(9), &mut costs, |lookups| {
            lookups.search(|asks, snapshot, costs| get_many(asks, snapshot, costs, |_| std::iter::once(&*run)))
        });
        let found = found.unwrap().iter().flatten().count();
        (found, costs, bench.stats.block_reads.load(Ordering::Relaxed) - before)
    };
    // In memory are the filter and the index, and of the leaves those of the first keys.
    (0..20_000).step_by(500).for_each(|i| assert_eq!(look_up(i, "+", false).0, 0));
    assert_eq!(look_up(0, "", false).0, 50);
    for late in [false, true] {
        let (found, costs, reads) = look_up(10_000, "+", late);
        assert_eq!((found, costs.filter_stops + costs.trees), (0, 50), "late {late}: {costs:?}");
        // A leaf that was read for one that passed answers for its neighbours.
        assert!(costs.filters > 20, "late {late}: {costs:?}");
        assert!(costs.trees == costs.filter_misses && reads <= costs.filter_misses, "{reads} reads, {costs:?}");
    }
    // What is in memory answers by itself, and says as much as the filter would.
    let (found, costs, reads) = look_up(0, "+", true);
    assert_eq!((found, costs.filter_stops + costs.trees, reads), (0, 50, 0), "{costs:?}");
    assert!(costs.filters < 10 && costs.blocks > 90, "only those that are sampled ask: {costs:?}");
    // Those that are there are read for, once each.
    let (found, costs, reads) = look_up(15_000, "", true);
    assert_eq!((found, costs.trees, costs.filter_misses), (50, 50, 0), "{costs:?}");
    assert!((1..=5).contains(&reads), "{reads} reads of leaves that lie side by side");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Several runs, of which each key may be in some, whether filters are asked first or late, and what is in memory.
    #[test]
    fn several_gets_find_what_single_ones_find(
        trees in prop::collection::vec(trees(), 1..4),
        keys in prop::collection::vec(keys(), 0..20),
        bits in prop::collection::vec(prop_oneof![Just(0.0), Just(4.0)], 3),
        snapshot in 0..12u64,
        populate in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        let runs: Vec<_> = trees.iter().filter(|entries| !entries.is_empty()).zip(bits).map(|(entries, filter_bits_per_key)| {
            bench.options.filter_bits_per_key = filter_bits_per_key;
            bench.run(entries)
        }).collect();
        let keys: Vec<_> = keys.iter().map(Vec::as_slice).collect();
        for late in [true, false] {
            runs.iter().for_each(|run| run.ask_late(late));
            if !populate {
                runs.iter().for_each(|run| bench.cache.forget(run.file().instance()));
            }
            let mut costs = Costs::default();
            let found = MultiGet::run(&keys, SeqNum(snapshot), &mut costs, |lookups| {
                lookups.search(|asks, snapshot, costs| get_many(asks, snapshot, costs, |_| runs.iter().map(|run| &**run)))
            }).unwrap();
            for (key, found) in keys.iter().zip(found) {
                let single = runs.iter().find_map(|run| get_once(run, key, snapshot).unwrap());
                prop_assert_eq!(found.map(|found| owned(key, found)), single, "late {}, key {:?}", late, key);
            }
        }
    }
}

/// Keys such as "user000012/7": a user's keys have one prefix.
fn of_users(users: impl Iterator<Item = u64>) -> Vec<OwnedEntry> {
    let key = |user: u64, i: u64| put(format!("user{user:06}/{i}").as_bytes(), 1, b"value");
    users.flat_map(|user| (0..4).map(move |i| key(user, i))).collect()
}

#[test]
fn a_walk_over_an_absent_prefix_asks_the_filter_and_looks_at_no_block() {
    let bench_with = |filter_prefix| Bench::with(RunOptions { filter_prefix, ..Bench::new().options });
    let rule = Prefix::UpTo(b'/');
    let run = bench_with(Some(rule)).run(&of_users((0..2000).map(|user| user * 2)));
    assert_eq!(verify(&run).unwrap().entries, 8000);
    let walk = |run: &Arc<Run>, rule, user: u64| {
        let mut cursor = RunCursor::over(run, Fill::Keep);
        let (low, high) = (format!("user{user:06}/").into_bytes(), format!("user{user:06}0").into_bytes());
        cursor.limit(&Arc::new(Limits::new(low.clone(), Some(high), Some(rule))));
        cursor.seek_ge(&low).unwrap();
        // Asked once, however often the cursor comes back.
        cursor.seek_ge(&low).unwrap();
        let here = cursor.entry().is_some_and(|entry| entry.key.starts_with(&low));
        (here, cursor.costs())
    };
    let (mut filters, mut misses) = (0, 0);
    for user in 0..2000 {
        let (here, costs) = walk(&run, rule, user);
        assert_eq!(here, user % 2 == 0);
        assert_eq!(costs.blocks == 0, !here && costs.filter_misses == 0, "{costs:?}");
        assert!(!here || costs.filter_misses == 0);
        (filters, misses) = (filters + costs.filters, misses + costs.filter_misses);
    }
    assert_eq!(filters, 2000);
    assert!(misses < 25, "{misses} false positives in 1000");
    // Other rules are not those of the filter.
    assert!(walk(&run, Prefix::Bytes(11), 7).1.filters == 0 && walk(&run, Prefix::UpTo(b'0'), 7).1.filters == 0);
    let plain = bench_with(None).run(&of_users(0..10));
    assert_eq!((walk(&plain, rule, 3).0, walk(&plain, rule, 3).1.filters), (true, 0));
}

#[test]
fn a_key_that_is_all_prefix_is_another_thing_than_the_prefix() {
    let mut bench = Bench::with(RunOptions { filter_prefix: Some(Prefix::UpTo(b'/')), ..Bench::new().options });
    let run = bench.run(&of_users(0..500));
    let mut costs = Costs::default();
    for user in 0..500 {
        let key = format!("user{user:06}/");
        assert!(
            run.get_at_cost((key.as_bytes(), hash_key(key.as_bytes())), None, SeqNum(9), &mut costs).unwrap().is_none()
        );
    }
    assert!(costs.filter_misses < 20, "{costs:?}");
}

#[test]
fn versions_that_span_leaves_are_found() {
    let mut entries = vec![put(b"a", 1, b"")];
    entries.extend((1..500).rev().map(|seqnum| put(b"hot", seqnum, b"version")));
    entries.push(put(b"z", 1, b""));
    let run = Bench::new().run(&entries);
    for snapshot in [0, 1, 2, 77, 499, 1000] {
        assert_eq!(get(&run, b"hot", snapshot).unwrap(), model_get(&entries, b"hot", snapshot));
    }
    verify(&run).unwrap();
}

#[test]
fn a_large_value_has_a_leaf_of_its_own() {
    let entries = [put(b"a", 0, b"1"), put(b"b", 0, &vec![7; 3 << 20]), put(b"c", 0, b"3")];
    let run = Bench::with(RunOptions { direct: true, ..Bench::new().options }).run(&entries);
    assert_eq!(
        (run.footer().leaves, all_entries(&mut RunCursor::over(&run, Fill::Bypass)).unwrap()),
        (3, entries.to_vec())
    );
    assert_eq!(get(&run, b"b", 1).unwrap().as_ref(), Some(&entries[1]));
    verify(&run).unwrap();
}

#[test]
fn a_dropped_run_leaves_the_cache() {
    let mut bench = Bench::new();
    let run = bench.run(&numbered(100));
    let found = get(&run, b"key-000000004", 9).unwrap().unwrap();
    assert!(bench.cache.bytes() > 0 && !found.value.is_empty());
    drop(run);
    assert_eq!(bench.cache.bytes(), 0);
}

/// Everything that can be asked of a run: any of it may fail, and none of it may be wrong.
fn ask_all(run: &Arc<Run>, entries: &[OwnedEntry]) -> Result<()> {
    let mut results = vec![verify(run).map(drop)];
    for fill in [Fill::Keep, Fill::Bypass] {
        let all = all_entries(&mut RunCursor::over(run, fill));
        results.push(all.map(|all| assert_eq!(all, entries)));
    }
    for entry in entries.iter().step_by(7) {
        results.push(get(run, &entry.key, 9).map(|found| assert_eq!(found.as_ref(), Some(entry))));
    }
    results.into_iter().collect()
}

#[test]
fn every_wrong_byte_is_found_by_verify_and_never_shown() {
    let entries = numbered(120);
    let mut bench = Bench::with(RunOptions { block_bytes: 700, ..Bench::new().options });
    let (path, meta) = bench.write(&entries).unwrap();
    let sound = bench.sim.read_file(&path).unwrap();
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        let path = bench.put_file("/wrong", &bytes);
        let error = bench.open(&path, &meta).and_then(|run| ask_all(&run, &entries)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corruption, "byte {at}: {error}");
    }
}

#[test]
fn every_truncation_is_found_when_the_run_is_opened() {
    let entries = numbered(60);
    let mut bench = Bench::new();
    let (path, meta) = bench.write(&entries).unwrap();
    let sound = bench.sim.read_file(&path).unwrap();
    for len in 0..sound.len() {
        let path = bench.put_file("/short", &sound[..len]);
        assert_eq!(bench.open(&path, &meta).unwrap_err().kind(), ErrorKind::Corruption, "{len} bytes");
        // Also when the manifest is wrong in the same way.
        let short = RunMeta { bytes: u64_of(len), ..meta.clone() };
        assert_eq!(bench.open(&path, &short).unwrap_err().kind(), ErrorKind::Corruption, "{len} bytes");
    }
}

#[test]
fn another_run_in_the_place_of_this_one_is_found() {
    let mut bench = Bench::new();
    let (path, meta) = bench.write(&numbered(60)).unwrap();
    let more = RunMeta { entries: 61, ..meta.clone() };
    assert_eq!(bench.open(&path, &more).unwrap_err().kind(), ErrorKind::Corruption);
    let (cache, stats) = (Arc::clone(&bench.cache), Arc::clone(&bench.stats));
    let stranger = Run::open(&bench.sim.env(), &path, IDENTITY + 1, false, meta, cache, stats);
    assert_eq!(stranger.unwrap_err().kind(), ErrorKind::Corruption);
}

#[test]
fn a_newer_version_of_the_format_is_unsupported() {
    let mut bench = Bench::new();
    let (path, meta) = bench.write(&numbered(60)).unwrap();
    let mut bytes = bench.sim.read_file(&path).unwrap();
    let footer_at = bytes.len() - super::format::FOOTER_BYTES;
    bytes[footer_at + 8] += 1;
    let sum = crate::base::checksum::checksum(IDENTITY, u64_of(footer_at), &bytes[footer_at..footer_at + 120]);
    bytes[footer_at + 120..].copy_from_slice(&sum.to_le_bytes());
    let path = bench.put_file("/newer", &bytes);
    let error = bench.open(&path, &meta).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_failed_read_fuses_the_cursor() {
    let entries = numbered(300);
    let mut bench = Bench::new();
    let run = bench.run(&entries);
    let cursors: [Box<dyn Fn() -> Box<dyn MergeSource>>; 2] = [
        Box::new(|| Box::new(RunCursor::over(&run, Fill::Keep))),
        Box::new(|| Box::new(LevelCursor::new([Arc::clone(&run)].into(), Fill::Bypass))),
    ];
    for cursor in cursors {
        for move_that_fails in 0..20 {
            bench.cache.forget(run.file().instance());
            let mut cursor = cursor();
            let walk = |cursor: &mut dyn MergeSource| {
                cursor.seek_ge(&entries[150].key)?;
                (0..40).try_for_each(|_| cursor.prev())
            };
            bench.sim.fail_at(bench.sim.op_count() + move_that_fails, Fault::Error(std::io::ErrorKind::Other));
            let walked = walk(&mut *cursor);
            bench.sim.clear_faults();
            if walked.is_ok() {
                assert!(move_that_fails > 1, "no read failed");
                break;
            }
            let moves = [Move::Next, Move::Prev, Move::First, Move::Last, Move::SeekGe(vec![]), Move::SeekLt(vec![1])];
            for step in moves {
                assert!(cursor.entry().is_none() && cursor.value().is_none());
                assert_eq!(apply(&mut *cursor, &step).unwrap_err().kind(), ErrorKind::Io);
            }
        }
    }
}

#[test]
fn a_failed_write_or_sync_fails_the_run() {
    let entries = numbered(300);
    let mut bench = Bench::new();
    let before = bench.sim.op_count();
    bench.write(&entries).unwrap();
    let operations = bench.sim.op_count() - before;
    for k in 0..operations {
        for fault in [Fault::Error(std::io::ErrorKind::Other), Fault::ShortWrite, Fault::SyncLost] {
            bench.sim.fail_at(bench.sim.op_count() + k, fault);
            assert_eq!(bench.write(&entries).unwrap_err().kind(), ErrorKind::Io);
            bench.sim.clear_faults();
        }
        bench.sim.fail_at(bench.sim.op_count() + k, Fault::NoSpace);
        assert_eq!(bench.write(&entries).unwrap_err().kind(), ErrorKind::Full);
    }
}

#[test]
#[should_panic(expected = "keys must ascend")]
fn keys_out_of_order_are_refused_across_leaves_too() {
    let entries = [put(b"b", 1, &[0; 100]), put(b"c", 1, &[0; 100]), put(b"a", 1, &[0; 100])];
    Bench::new().run(&entries);
}

#[test]
fn runs_that_share_a_key_are_not_apart() {
    let mut bench = Bench::new();
    let [a, b, c] = [0..2, 1..3, 2..4].map(|part| bench.run(&numbered(4)[part]));
    assert!(are_apart(&[a.clone(), c.clone()]) && !are_apart(&[a, b]) && !are_apart(&[c.clone(), c]));
}

/// Bytes as `offset: hex ...` lines of sixteen.
fn hex_dump(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(line, chunk)| {
        let hex: Vec<_> = chunk.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:04x}: {}\n", line * 16, hex.join(" "))
    });
    lines.collect()
}

#[test]
fn the_bytes_of_a_run_without_a_filter_are_pinned() {
    let mut bench = Bench::with(RunOptions { filter_bits_per_key: 0.0, ..Bench::new().options });
    let (path, _) = bench.write(&[put(b"spinney", 9, b"wood")]).unwrap();
    // Each frame has a header of 0x14 bytes. At 0 the leaf, at 0x41 the index (key "spinney", pointer to 0), at 0x86
    // its top (pointer to 0x41), at 0xcb the footer: magic, version 2, no probes, pointer to 0x86, no table, no lines;
    // leaves end at 0x41, 1 leaf, 1 entry, no tombstones, 11 bytes, seqnum 9, no rule of prefixes, zeros, checksum.
    let expected = "\
0000: 3d c5 c9 b7 28 e8 81 0b 2d 00 00 00 2d 00 00 00
0010: 00 00 00 00 01 01 00 00 01 00 00 00 07 00 00 00
0020: 73 70 69 6e 6e 65 79 00 00 00 00 00 20 00 00 00
0030: 2d 00 00 00 01 09 00 00 00 00 00 00 00 77 6f 6f
0040: 64 fe 3c 70 35 26 a1 40 7a 31 00 00 00 31 00 00
0050: 00 00 00 00 00 02 00 00 00 01 00 00 00 07 00 00
0060: 00 73 70 69 6e 6e 65 79 00 00 00 00 00 20 00 00
0070: 00 31 00 00 00 00 00 00 00 00 00 00 00 00 41 00
0080: 00 00 3d c5 c9 b7 fb b2 36 54 f8 5c 97 79 31 00
0090: 00 00 31 00 00 00 00 00 00 00 02 00 00 00 01 00
00a0: 00 00 07 00 00 00 73 70 69 6e 6e 65 79 00 00 00
00b0: 00 00 20 00 00 00 31 00 00 00 00 41 00 00 00 00
00c0: 00 00 00 45 00 00 00 fe 3c 70 35 73 70 6e 79 72
00d0: 75 6e 00 02 00 00 00 00 00 00 00 86 00 00 00 00
00e0: 00 00 00 45 00 00 00 fb b2 36 54 00 00 00 00 00
00f0: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0100: 00 00 00 41 00 00 00 00 00 00 00 01 00 00 00 00
0110: 00 00 00 01 00 00 00 00 00 00 00 00 00 00 00 00
0120: 00 00 00 0b 00 00 00 00 00 00 00 09 00 00 00 00
0130: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00
0140: 00 00 00 8a c8 b7 90 58 2c c7 a9
";
    assert_eq!(hex_dump(&bench.sim.read_file(path).unwrap()), expected);
}

#[test]
fn the_bits_of_a_filter_are_pinned() {
    let layout = super::filter::Layout::new(2, 10.0).unwrap();
    let images = layout.build([hash_key(b"spinney"), hash_key(b"wood")].into_iter());
    let expected = "\
0000: 00 80 00 00 00 00 00 00 00 10 00 00 00 00 00 00
0010: 20 00 00 00 02 00 00 00 10 00 20 00 00 00 00 10
0020: 00 04 00 00 00 00 80 02 00 00 00 00 00 00 00 00
0030: 00 10 00 00 00 00 00 00 00 00 00 00 20 00 00 00
";
    assert_eq!((images.len(), &*hex_dump(&images[0][64..])), (1, expected));
}
