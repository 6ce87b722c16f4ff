//! Tests of the policies: whatever they pick, newer versions stay above older ones, and the trees stay few.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use super::read_credit::CreditSource;
use super::read_triggered::{merge_cost, whole_cost};
use super::runs::{occupied, overlapping, span};
use super::tuning::{
    L0_RUNS_MAX, L0_RUNS_MAX_DURING_COMPACTION, READ_NS, SEARCH_NS, SMALL_NS, VIEW_SEARCH_NS, WRITE_NS,
};
use super::*;
use crate::base::num::u64_of;
use crate::base::{Entry, FileId, Kind, SeqNum};
use crate::block::Compression;
use crate::cache::{Cache, Fill};
use crate::env::sim::SimEnv;
use crate::store::StoreStats;
use crate::table::files::FileKind;
use crate::table::level::{LEVELS, Level, LevelId, RunHandle};
use crate::table::options::{Layout, TableOptions};
use crate::table::trees::Trees;
use crate::tree::merge::MergeCursor;
use crate::tree::range_tombstone::{RangeTombstone, RangeTombstones};
use crate::tree::run::{Run, RunBuilder, RunCursor, RunOptions};
use crate::tree::values::{ValueBuilder, ValueFile, ValueFiles, ValuePointer};
use crate::tree::{Costs, Cursor, Limits, MergeSource};

/// A key and the seqnum of one of its versions.
type Version = (u32, u64);

/// Makes runs.
pub(super) struct Forge {
    sim: SimEnv,
    cache: Arc<Cache>,
    next: u64,
    random: u64,
}

impl Forge {
    pub(super) fn new(seed: u64) -> Self {
        let sim = SimEnv::new(seed);
        sim.env().fs.create_dir_all(Path::new("/runs")).unwrap();
        Self { sim, cache: Arc::new(Cache::new(4 << 20)), next: 1, random: seed }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn run(&mut self, versions: &[Version]) -> RunHandle {
        self.run_of(versions, Kind::Put)
    }

    pub(super) fn run_of(&mut self, versions: &[Version], kind: Kind) -> RunHandle {
        self.lay_down(|builder| {
            for (key, seqnum) in versions {
                let (key, seqnum) = (key.to_be_bytes(), SeqNum(*seqnum));
                let value = if kind == Kind::Put { &key[..] } else { &[] };
                builder.push(&Entry { key: &key, seqnum, kind, value }).unwrap();
            }
        })
    }

    /// A run of what `fill` pushes.
    fn lay_down(&mut self, fill: impl FnOnce(&mut RunBuilder)) -> RunHandle {
        let (env, id) = (self.sim.env(), FileId(self.next));
        self.next += 1;
        let path = FileKind::Run.path(Path::new("/runs"), id);
        let options = RunOptions {
            block_bytes: 512,
            compression: Compression::None,
            filter_bits_per_key: 10.0,
            filter_prefix: None,
            direct: false,
        };
        let stats = Arc::<StoreStats>::default();
        let mut builder = RunBuilder::create(&env, &path, id.0, options, Arc::clone(&stats)).unwrap();
        fill(&mut builder);
        let meta = builder.finish().unwrap();
        let run = Run::open(&env, &path, id.0, false, meta, Arc::clone(&self.cache), stats).unwrap();
        RunHandle { id, run }
    }

    /// What a flush lays down: the next seqnums for some keys, often those next to each other.
    fn flush(&mut self, trees: &mut Trees, seqnum: &mut u64) {
        let (start, span) = (self.below(400), 1 + self.below(120));
        let keys: std::collections::BTreeSet<u64> = (0..=self.below(60)).map(|_| start + self.below(span)).collect();
        let versions: Vec<Version> = keys
            .into_iter()
            .map(|key| {
                *seqnum += 1;
                (u32::try_from(key).unwrap(), *seqnum)
            })
            .collect();
        let run = self.run(&versions);
        trees.l0.insert(0, run);
    }

    /// Carries a compaction out, keeping every version.
    fn apply(&mut self, trees: &mut Trees, compaction: &Compaction, options: &TableOptions) {
        let removed = compaction.removed();
        let output: Vec<RunHandle> = if compaction.is_trivial_move(options) {
            compaction.inputs().cloned().collect()
        } else {
            let ranked = compaction
                .inputs()
                .map(|handle| Box::new(RunCursor::over(&handle.run, Fill::Bypass)) as Box<dyn MergeSource>);
            let merged = versions(&mut MergeCursor::new(ranked.collect()));
            let mut output = Vec::new();
            let mut rest = merged.as_slice();
            // A merge within L0 leaves one run.
            let most = if compaction.target == LevelId::L0 { usize::MAX } else { 40 };
            while !rest.is_empty() {
                let mut end = rest.len().min(most);
                while end < rest.len() && rest[end].0 == rest[end - 1].0 {
                    end += 1;
                }
                output.push(self.run(&rest[..end]));
                rest = &rest[end..];
            }
            output
        };
        *trees = trees.replaced(&removed, compaction.target, &output);
    }
}

/// All entries of a cursor.
fn versions(cursor: &mut dyn MergeSource) -> Vec<Version> {
    let mut found = Vec::new();
    cursor.first().unwrap();
    while let Some(entry) = cursor.entry() {
        found.push((u32::from_be_bytes(entry.key.try_into().unwrap()), entry.seqnum.0));
        cursor.next().unwrap();
    }
    found
}

/// Newer versions of a key are found before older ones, and a level's runs are disjoint. Says how many versions there
/// are.
fn assert_order(trees: &Trees) -> usize {
    let mut cursors = Vec::new();
    trees.cursors(Fill::Bypass, SeqNum::MAX, None, &mut cursors);
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    let mut count = 0;
    for cursor in &mut cursors {
        for (key, seqnum) in versions(&mut **cursor) {
            let newer = last.insert(key, seqnum);
            assert!(newer.is_none_or(|newer| newer > seqnum), "key {key}: {seqnum} lies below {newer:?}");
            count += 1;
        }
    }
    for level in &trees.levels {
        assert!(level.runs.windows(2).all(|pair| pair[0].meta().largest < pair[1].meta().smallest));
    }
    count
}

/// Nothing below the result of a compaction that may drop tombstones has keys in its range.
fn assert_bottom(trees: &Trees, compaction: &Compaction) {
    let range = span(compaction.inputs()).unwrap();
    let LevelId::Level(target) = compaction.target else { return assert!(!compaction.bottom) };
    for level in target..LEVELS {
        let others = overlapping(trees, level, range);
        let removed = compaction.removed();
        assert!(!compaction.bottom || others.iter().all(|handle| removed.contains(&handle.id)), "level {level}");
    }
}

/// Now and then merges a level down, which leaves one tree less, or none in L0.
fn by_hand(forge: &mut Forge, trees: &mut Trees, seqnum: u64, options: &TableOptions) {
    let number = usize::try_from(forge.below(32)).unwrap();
    if number > LEVELS {
        return;
    }
    let sequences = |trees: &Trees| occupied(trees).count();
    let (before, lowest) = (sequences(trees), occupied(trees).last());
    match pick_level(trees, options, number) {
        None if number == 0 => assert!(trees.l0.is_empty()),
        None => assert!(trees.levels[number - 1].runs.is_empty() || lowest == Some(number - 1)),
        Some(compaction) => {
            assert_bottom(trees, &compaction);
            forge.apply(trees, &compaction, options);
            assert_eq!(assert_order(trees) as u64, seqnum, "no version is lost");
            match number.checked_sub(1) {
                None => assert!(trees.l0.is_empty() && sequences(trees) <= before + 1),
                Some(level) => assert!(trees.levels[level].runs.is_empty() && sequences(trees) == before - 1),
            }
        }
    }
}

/// Flushes and compactions in turn; `check` looks at the trees when nothing is due.
fn drive(layout: Layout, fanout: u32, seed: u64, check: impl Fn(&Trees, &TableOptions)) {
    let options = TableOptions { layout, fanout, run_bytes_max: 4 << 10, ..TableOptions::default() };
    let (mut forge, mut trees, mut seqnum) = (Forge::new(seed), Trees::default(), 0);
    for _ in 0..60 {
        // A compaction is picked from trees to which flushes are added before it is done.
        for _ in 0..forge.below(6) {
            forge.flush(&mut trees, &mut seqnum);
        }
        let mut steps = 0;
        while let Some(compaction) = pick(&trees, &options, u64::MAX) {
            assert_bottom(&trees, &compaction);
            if forge.below(4) == 0 {
                forge.flush(&mut trees, &mut seqnum);
            }
            forge.apply(&mut trees, &compaction, &options);
            assert_eq!(assert_order(&trees) as u64, seqnum, "no version is lost");
            steps += 1;
            assert!(steps < 1000, "compactions come to an end");
        }
        by_hand(&mut forge, &mut trees, seqnum, &options);
        while let Some(compaction) = pick(&trees, &options, u64::MAX) {
            forge.apply(&mut trees, &compaction, &options);
        }
        assert_eq!(pressure(&trees, &options), 0, "writers do not wait for nothing");
        check(&trees, &options);
    }
    while let Some(compaction) = pick_all(&trees, false).filter(|_| !(trees.l0.is_empty() && trees.count() == 1)) {
        assert_bottom(&trees, &compaction);
        forge.apply(&mut trees, &compaction, &options);
    }
    assert_eq!((assert_order(&trees) as u64, trees.count()), (seqnum, 1));
}

#[test]
fn tiered_keeps_newer_above_older_and_the_sequences_few() {
    for (seed, fanout) in [(1, 2), (2, 4), (3, 8), (4, 8), (5, 32)] {
        drive(Layout::LsmTiered, fanout, seed, |trees, options| {
            assert!(trees.l0.is_empty() || trees.count() <= (options.fanout as usize).max(L0_TRIGGER));
        });
    }
}

#[test]
fn leveled_keeps_newer_above_older_and_uses_the_fewest_levels() {
    for (seed, fanout) in [(1, 2), (2, 3), (3, 8), (4, 32)] {
        drive(Layout::Lsm, fanout, seed, |trees, options| {
            assert!(trees.l0.len() <= L0_RUNS_MAX);
            let total: u64 = trees.levels.iter().map(Level::bytes).sum();
            let mut levels = 1;
            while total / u64::from(fanout).pow(levels) >= 4 * options.run_bytes_max {
                levels += 1;
            }
            assert!(trees.count() - trees.l0.len() <= levels as usize, "{total} bytes, {levels} levels");
        });
    }
}

/// Two flushes of a large memtable slowed writers, and forbade what reads had paid for, although no compaction was due.
#[test]
fn few_runs_in_l0_press_nobody_however_large_they_are() {
    let options = TableOptions { run_bytes_max: 4 << 10, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let large: Vec<Version> = (0..40_000).map(|key| (key, 1)).collect();
    let mut trees = Trees::default();
    while trees.l0.len() < L0_TRIGGER {
        assert_eq!((pick(&trees, &options, u64::MAX).is_none(), pressure(&trees, &options)), (true, 0));
        trees.l0.push(forge.run(&large));
    }
    assert!(pick(&trees, &options, u64::MAX).is_some() && pressure(&trees, &options) > 0);
}

/// Large flushes over a small one were merged two by two.
#[test]
fn tiered_merges_nothing_before_there_are_as_many_runs_as_trigger_it() {
    let options = TableOptions { layout: Layout::LsmTiered, run_bytes_max: 4 << 10, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let mut trees = Trees { l0: vec![forge.run(&many(10, 1))], ..Trees::default() };
    while trees.l0.len() < L0_TRIGGER {
        assert!(pick(&trees, &options, u64::MAX).is_none(), "{} runs", trees.l0.len());
        trees.l0.insert(0, forge.run(&many(4_000, 2)));
    }
    assert_eq!(pick(&trees, &options, u64::MAX).unwrap().l0.len(), L0_TRIGGER);
    // What lies in levels alone is not merged either, however many there are.
    let mut settled = Trees::default();
    for level in 0..LEVELS {
        settled.levels[level] = Level::new(vec![forge.run(&many(100, u64_of(LEVELS - level)))]);
    }
    assert!(pick(&settled, &options, u64::MAX).is_none());
}

/// A slice ends with the run that gives it the bytes of one: the more there are in it, the more space it needs.
#[test]
fn a_slice_has_the_bytes_of_a_run_and_no_more_runs_than_that_takes() {
    let mut forge = Forge::new(1);
    let mut trees = Trees::default();
    let keys = |run: u32| (0..100).map(|key| ((run << 16) + key, 1)).collect::<Vec<_>>();
    trees.levels[LEVELS - 1] = Level::new((0..6).map(|run| forge.run(&keys(run))).collect());
    let runs: Vec<_> = trees.levels[LEVELS - 1].handles().collect();
    let one = runs[0].run.meta().bytes;
    assert!(runs.iter().all(|run| run.run.meta().bytes == one));
    let all = Compaction::onto_target(&trees, Vec::new(), vec![(LEVELS - 1, runs)], LEVELS - 1);
    for (run_bytes_max, slices) in [(one - 1, 6), (one, 6), (one + 1, 3), (2 * one, 3), (3 * one, 2), (6 * one, 1)] {
        let options = TableOptions { run_bytes_max, large_value_bytes: 0, ..TableOptions::default() };
        assert_eq!(all.slices(&options).len(), slices, "{run_bytes_max} of {one} bytes each");
    }
}

/// Reads look among all range tombstones: many are worth the rewriting of what they hide, few are not.
#[test]
fn what_is_erased_is_rewritten_for_many_range_tombstones_and_not_for_few() {
    let mut forge = Forge::new(1);
    let mut trees = Trees { l0: vec![forge.run(&many(10, 1))], ..Trees::default() };
    trees.levels[LEVELS - 1] = Level::new(vec![forge.run(&many(10, 1))]);
    let tombstones = |count: usize| {
        let of = |number: u32| RangeTombstone {
            range: Limits::new(number.to_be_bytes().to_vec(), Some([&number.to_be_bytes()[..], &[0]].concat()), None),
            seqnum: SeqNum(u64::from(2 + number)),
        };
        Arc::new((0..u32::try_from(count).unwrap()).map(of).collect::<RangeTombstones>())
    };
    for (count, is_due) in [(0, false), (1, false), (RANGE_TOMBSTONES_MANY, false), (RANGE_TOMBSTONES_MANY + 1, true)] {
        trees.range_tombstones = tombstones(count);
        assert_eq!(pick_range_deleted(&trees, SeqNum::MAX).is_some(), is_due, "{count}");
        assert!(pick_range_deleted(&trees, SeqNum(1)).is_none(), "a snapshot sees what is erased");
    }
}

/// The base level was over its target, and so L0 could gather more: both grew with the data.
#[test]
fn what_waits_above_the_last_level_slows_writers_wherever_it_lies() {
    let options = TableOptions { run_bytes_max: 4 << 10, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let mut run_of = |entries: u32| {
        forge.lay_down(|builder| {
            for key in 0..entries {
                let key = key.to_be_bytes();
                let entry = Entry { key: &key, seqnum: SeqNum(1), kind: Kind::Put, value: &[7; 4 << 10] };
                builder.push(&entry).unwrap();
            }
        })
    };
    let at = |level: usize, handle: &RunHandle| {
        Trees::default().replaced(&[], LevelId::Level(level), std::slice::from_ref(handle))
    };
    let sizes = [1000, 3000, 5000, 9000].map(&mut run_of);
    let asked = |level: usize| sizes.each_ref().map(|handle| pressure(&at(level, handle), &options));
    let [few, more, many, most] = asked(LEVELS - 3);
    assert!(few == 0 && 0 < more && more < many && many < most && most == FULL, "{few}, {more}, {many}, {most}");
    assert!(asked(LEVELS - 2)[1] > 0);
    assert_eq!(asked(LEVELS - 1), [0; 4], "what is in the last level waits for nothing");
    // Half of it in L0, which may gather half of a level below that is over its target as well.
    let mut trees = at(LEVELS - 3, &sizes[0]);
    trees.l0 = (0..4).map(|_| run_of(200)).collect();
    assert_eq!(pressure(&trees, &options), 0);
    trees.l0 = (0..4).map(|_| run_of(400)).collect();
    assert!(pressure(&trees, &options) > 0);
}

/// The range of a compaction was taken to be that of the run that goes down. What it is merged with reaches further,
/// and a tombstone there was dropped over an older version two levels down, outside that range: the key came back.
#[test]
fn a_tombstone_beside_the_run_that_goes_down_stays_above_what_it_hides() {
    let options = TableOptions { run_bytes_max: 4 << 10, fanout: 2, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let many = |from: u32, to: u32, seqnum: u64| (from..to).map(|key| (key, seqnum)).collect::<Vec<_>>();
    let mut trees = Trees::default();
    // A level that is far over its target, with one run that overlaps a wide run below it, which hides keys at its
    // right end.
    trees.levels[4] = Level::new(vec![forge.run(&many(1_000, 9_000, 3))]);
    trees.levels[5] = Level::new(vec![forge.run(&many(500, 12_000, 2))]);
    trees.levels[6] = Level::new(vec![forge.run(&many(11_000, 31_000, 1))]);
    let compaction = pick(&trees, &options, u64::MAX).unwrap();
    assert_eq!((compaction.levels.len(), compaction.target), (2, LevelId::Level(5)));
    assert_bottom(&trees, &compaction);
    // The same from L0.
    let mut trees = Trees { l0: (0..4).map(|_| forge.run(&many(1_000, 1_100, 3))).collect(), ..Trees::default() };
    trees.levels[5] = Level::new(vec![forge.run(&many(500, 1_200, 2))]);
    trees.levels[6] = Level::new(vec![forge.run(&many(1_100, 61_000, 1))]);
    let compaction = pick(&trees, &TableOptions { fanout: 32, ..options }, u64::MAX).unwrap();
    assert_eq!((compaction.l0.len(), compaction.target), (4, LevelId::Level(5)));
    assert_bottom(&trees, &compaction);
}

/// Under load L0 had 32 to 40 runs for as long as a compaction into the level below took.
#[test]
fn l0_stays_small_while_a_long_compaction_goes_on() {
    for layout in [Layout::Lsm, Layout::LsmTiered] {
        let options = TableOptions { layout, run_bytes_max: 4 << 10, ..TableOptions::default() };
        let (mut forge, mut trees, mut seqnum, mut written) = (Forge::new(9), Trees::default(), 0, 0);
        for _ in 0..6 {
            while pick(&trees, &options, u64::MAX).is_none() {
                forge.flush(&mut trees, &mut seqnum);
            }
            let long = pick(&trees, &options, u64::MAX).unwrap();
            for _ in 0..40 {
                forge.flush(&mut trees, &mut seqnum);
                while let Some(merge) = pick_within_l0(&trees, &long.removed(), u64::MAX) {
                    written += merge.l0.iter().map(|handle| handle.run.meta().entries).sum::<u64>();
                    forge.apply(&mut trees, &merge, &options);
                    assert_eq!(assert_order(&trees) as u64, seqnum, "no version is lost");
                }
                assert!(trees.l0.len() <= 12, "{layout:?}: {} runs", trees.l0.len());
            }
            forge.apply(&mut trees, &long, &options);
            assert_eq!(assert_order(&trees) as u64, seqnum, "no version is lost");
        }
        assert!(written < 4 * seqnum, "{layout:?}: {written} entries were rewritten for {seqnum}");
    }
}

/// Entries for a run, as many bytes as there are others in a run of as many.
fn many(count: u32, seqnum: u64) -> Vec<Version> {
    (0..count).map(|key| (key, seqnum)).collect()
}

/// It went down from an eighth of it on, so that each of its bytes rewrote eight.
#[test]
fn l0_goes_down_when_it_has_half_of_what_it_overlaps() {
    let options = TableOptions { run_bytes_max: 1 << 20, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let mut trees = Trees::default();
    trees.levels[LEVELS - 1] = Level::new(vec![forge.run(&many(20_000, 1))]);
    let mut picked = |entries| {
        trees.l0 = (0..4).map(|_| forge.run(&many(entries, 2))).collect();
        pick(&trees, &options, u64::MAX).map(|down| down.target)
    };
    assert_eq!((picked(2_000), picked(3_000)), (None, Some(LevelId::Level(LEVELS - 1))));
}

/// While a compaction went on, L0 of each table was merged whenever it had seven runs: compactions did not get on, and
/// what waited for them was merged within L0 again and again, up to three times as much as the level below.
#[test]
fn a_long_compaction_is_interrupted_for_many_runs_and_those_of_similar_size_go_first() {
    let mut forge = Forge::new(1);
    let mut trees = Trees::default();
    // Newest first. The four newest would be the least to write for each run saved, and leave a run that is hardly
    // larger.
    let entries = [10, 10, 10, 1000].into_iter().chain(std::iter::repeat(400));
    trees.l0 = entries.take(L0_RUNS_MAX_DURING_COMPACTION).map(|count| forge.run(&many(count, 1))).collect();
    assert!(pick_within_l0(&trees, &[], u64::MAX).is_none());
    trees.l0.push(forge.run(&many(400, 1)));
    let merge = pick_within_l0(&trees, &[], u64::MAX).unwrap();
    let ids = |runs: &[RunHandle]| runs.iter().map(|handle| handle.id).collect::<Vec<_>>();
    assert_eq!(ids(&merge.l0), ids(&trees.l0[..7]));
}

#[test]
fn ten_million_values_need_two_levels_and_one_more_byte_no_third() {
    let levels = |bytes: u64, fanout: u32| {
        let mut found = [0; LEVELS];
        found[LEVELS - 1] = bytes;
        let options = TableOptions { fanout, ..TableOptions::default() };
        LEVELS - leveled::Targets::of_bytes(&found, &options).base
    };
    // 10M entries of 16 + 128 bytes, as they are and compressed to half of it.
    assert_eq!((levels(10_000_000 * 144, 8), levels(10_000_000 * 72, 8)), (2, 1));
    assert_eq!((levels(1 << 20, 8), levels(1 << 30, 8), levels((1 << 30) - 1, 8)), (1, 2, 1));
    // The last level of 8 GiB, 1 GiB above it, and 128 MiB where the base begins.
    assert_eq!((levels(8 << 30, 8), levels((8 << 30) - 1, 8)), (3, 2));
}

#[test]
fn of_the_runs_of_a_level_the_one_goes_down_that_overlaps_least() {
    let options = TableOptions { run_bytes_max: 4 << 10, fanout: 2, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let many = |from: u32, to: u32, seqnum: u64| (from..to).map(|key| (key, seqnum)).collect::<Vec<_>>();
    let mut trees = Trees::default();
    let upper =
        vec![forge.run(&many(0, 2_000, 2)), forge.run(&many(2_000, 4_000, 2)), forge.run(&many(4_000, 6_000, 2))];
    trees.levels[5] = Level::new(upper.clone());
    trees.levels[6] = Level::new(vec![forge.run(&many(0, 3_000, 1)), forge.run(&many(5_000, 5_500, 1))]);
    let compaction = pick(&trees, &options, u64::MAX).unwrap();
    assert_eq!(compaction.removed()[0], upper[2].id);
    // With less room a run that costs less space goes, or none.
    let room = compaction.bytes() - 1;
    let smaller = pick(&trees, &options, room);
    assert!(smaller.is_none_or(|smaller| smaller.needs(&options) <= room));
    assert!(pick(&trees, &options, 100).is_none());
}

#[test]
fn a_run_whose_tombstones_hide_nothing_any_more_is_rewritten_and_not_moved() {
    let options = TableOptions { run_bytes_max: 4 << 10, ..TableOptions::default() };
    let mut forge = Forge::new(1);
    let keys: Vec<Version> = (0..2_000).map(|key| (key, 1)).collect();
    let alive = Compaction::onto_target(&Trees::default(), vec![forge.run(&keys)], Vec::new(), 6);
    assert!(alive.bottom && alive.is_trivial_move(&options) && alive.needs(&options) == 0);
    let dead = Compaction::onto_target(&Trees::default(), vec![forge.run_of(&keys, Kind::Delete)], Vec::new(), 6);
    assert!(!dead.is_trivial_move(&options) && dead.needs(&options) > 0);
}

/// A table in the shape that flushes and its layout have left.
fn worn(forge: &mut Forge, layout: Layout, seqnum: &mut u64) -> (Trees, TableOptions) {
    let options = TableOptions { layout, fanout: 2, run_bytes_max: 4 << 10, ..TableOptions::default() };
    let mut trees = Trees::default();
    for _ in 0..30 + forge.below(6) {
        forge.flush(&mut trees, seqnum);
        while let Some(compaction) = pick(&trees, &options, u64::MAX) {
            forge.apply(&mut trees, &compaction, &options);
        }
    }
    forge.flush(&mut trees, seqnum);
    (trees, options)
}

/// What is paid for with nothing in memory, while an old snapshot is open.
fn paid_at_rest(trees: &Trees, options: &TableOptions, account: &ReadCredit) -> Option<ReadTriggered> {
    pick_read_triggered(trees, options, (u64::MAX, SeqNum::ZERO), MemtableLoad::default(), account)
}

#[test]
fn what_reads_have_paid_for_is_merged_down_to_one_tree_and_nothing_before() {
    for (seed, layout) in [(1, Layout::Lsm), (2, Layout::Lsm), (3, Layout::LsmTiered), (4, Layout::LsmTiered)] {
        let (mut forge, mut seqnum) = (Forge::new(seed), 0);
        let (mut trees, options) = worn(&mut forge, layout, &mut seqnum);
        assert!(trees.count() > 1);
        let mut account = ReadCredit::default();
        account.add(1_000_000);
        let memory = MemtableLoad { entries: 7, is_small: true };
        let pick = |room, memory, account: &ReadCredit| {
            pick_read_triggered(&trees, &options, (room, SeqNum::ZERO), memory, account)
        };
        assert!(pick(u64::MAX, memory, &account).is_none(), "nothing costs so little");
        account.add(1 << 40);
        let free_of_space = |paid: ReadTriggered| matches!(paid.job, Job::Merge(merge) if merge.needs(&options) == 0);
        assert!(pick(0, MemtableLoad::default(), &account).is_none_or(free_of_space), "nothing fits without room");
        let flush = pick(u64::MAX, memory, &account).unwrap();
        assert!(matches!(flush.job, Job::Flush), "what is in memory is flushed first");
        let mut last = u64::MAX;
        while let Some(paid) = paid_at_rest(&trees, &options, &account) {
            let Job::Merge(merge) = &paid.job else { panic!("there is nothing to flush") };
            assert_bottom(&trees, merge);
            forge.apply(&mut trees, merge, &options);
            assert_eq!(assert_order(&trees) as u64, seqnum, "no version is lost");
            assert!((trees.count() as u64) < last, "each merge leaves fewer trees");
            last = trees.count() as u64;
            account.spend(&paid.cost);
        }
        assert_eq!(trees.count(), 1);
    }
}

#[test]
fn a_merge_takes_no_more_than_was_saved_and_writes_take_it_back() {
    let (mut forge, mut seqnum) = (Forge::new(5), 0);
    let (trees, options) = worn(&mut forge, Layout::Lsm, &mut seqnum);
    let mut account = ReadCredit::default();
    let mut earned = 0_u64;
    let paid = loop {
        account.add(100_000);
        earned += 100_000;
        if let Some(paid) = paid_at_rest(&trees, &options, &account) {
            break paid;
        }
        assert!(earned < 1 << 30);
    };
    account.decay(200, |_, _| true);
    assert!(paid_at_rest(&trees, &options, &account).is_none(), "200 writes take 200 microseconds");
    account.add(200_000);
    assert!(paid_at_rest(&trees, &options, &account).is_some());
    account.spend(&paid.cost);
    assert!(paid_at_rest(&trees, &options, &account).is_none(), "nothing is spent twice");
    account.decay(1 << 40, |_, _| true);
    assert!(account.is_empty());
}

#[test]
fn a_row_of_dead_entries_goes_to_the_last_level_with_all_that_lies_between() {
    let mut merged = 0;
    for seed in 1..40 {
        let (mut forge, mut seqnum) = (Forge::new(seed), 0);
        let layout = if seed % 2 == 0 { Layout::Lsm } else { Layout::LsmTiered };
        let (mut trees, options) = worn(&mut forge, layout, &mut seqnum);
        let from = u32::try_from(forge.below(500)).unwrap();
        let (low, high) = (from.to_be_bytes().to_vec(), (from + 20).to_be_bytes().to_vec());
        let mut account = ReadCredit::default();
        account.add_dead_range(low.clone(), high.clone(), 1);
        let first = paid_at_rest(&trees, &options, &account);
        assert!(first.is_none_or(|paid| matches!(paid.job, Job::Forget)), "one entry pays for nothing");
        account.add_dead_range(low.clone(), high.clone(), 1_000_000);
        let paid = paid_at_rest(&trees, &options, &account).unwrap();
        let merge = match &paid.job {
            Job::Merge(merge) => merge,
            Job::Forget => continue,
            job => panic!("there is nothing to flush: {job:?}"),
        };
        merged += 1;
        assert!(merge.bottom);
        assert_bottom(&trees, merge);
        forge.apply(&mut trees, merge, &options);
        assert_eq!(assert_order(&trees) as u64, seqnum, "no version is lost");
        let last = occupied(&trees).last().unwrap();
        let above = trees.l0.iter().filter(|handle| handle.run.meta().overlaps(&low, &high)).count()
            + (0..last).map(|level| overlapping(&trees, level, (&low, &high)).len()).sum::<usize>();
        assert_eq!(above, 0, "the range lies in the last level only");
        account.spend(&paid.cost);
        assert!(account.is_empty() && paid_at_rest(&trees, &options, &account).is_none());
    }
    assert!(merged > 20, "{merged}");
}

/// Two levels, of runs of 20,000 and of 10,000 keys.
fn two_levels(forge: &mut Forge) -> Trees {
    let mut runs = |count: u32, each: u32, seqnum: u64| {
        let keys = |run: u32| (run * each..(run + 1) * each).map(|key| (key, seqnum)).collect::<Vec<_>>();
        (0..count).map(|run| forge.run(&keys(run))).collect::<Vec<_>>()
    };
    let (upper, lower) = (runs(4, 20_000, 2), runs(8, 10_000, 1));
    let mut trees = Trees::default();
    trees.levels[LEVELS - 2] = Level::new(upper);
    trees.levels[LEVELS - 1] = Level::new(lower);
    trees
}

#[test]
fn reads_of_a_part_of_the_keys_pay_for_that_part() {
    let mut forge = Forge::new(8);
    let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
    let trees = two_levels(&mut forge);
    let (upper, lower) = (&trees.levels[LEVELS - 2].ids, &trees.levels[LEVELS - 1].ids);
    let inputs = [vec![upper[1]], lower[2..4].to_vec()].concat();
    let merge = Compaction::onto_target(
        &trees,
        Vec::new(),
        vec![
            (LEVELS - 2, overlapping(&trees, LEVELS - 2, (&25_000_u32.to_be_bytes(), &25_000_u32.to_be_bytes()))),
            (LEVELS - 1, overlapping(&trees, LEVELS - 1, (&20_000_u32.to_be_bytes(), &39_999_u32.to_be_bytes()))),
        ],
        LEVELS - 1,
    );
    let cost = merge_cost(&merge, &options);
    let mut account = ReadCredit::default();
    let earn = |account: &mut ReadCredit, key: u32, ns: u64| {
        account.add(ns);
        account.add_near(&key.to_be_bytes(), ns);
    };
    earn(&mut account, 25_000, cost / 2);
    earn(&mut account, 31_000, cost - cost / 2 - 1);
    // Elsewhere as much was not paid.
    earn(&mut account, 70_000, cost / 8);
    assert!(paid_at_rest(&trees, &options, &account).is_none());
    // The cost to the nanosecond.
    earn(&mut account, 31_000, 1);
    // Where all keys are read alike all are merged at once.
    let mut alike = account.clone();
    (0..8).for_each(|run| earn(&mut alike, 10_000 * run, cost / 8));
    assert!(paid_at_rest(&trees, &options, &alike).is_none());
    // Unless writes elsewhere have taken what was saved for that.
    alike.decay(1 << 40, |_, _| false);
    assert!(paid_at_rest(&trees, &options, &alike).is_some());
    let paid = paid_at_rest(&trees, &options, &account).unwrap();
    let Job::Merge(picked) = &paid.job else { panic!("{paid:?}") };
    assert_eq!(picked.removed(), inputs);
    assert!(picked.bottom && picked.target == LevelId::Level(LEVELS - 1));
    // Not without room, and of what reads paid beside a large memtable the half is for its flush.
    let memory = MemtableLoad { entries: 100_000, is_small: false };
    let picks = |room, memory| pick_read_triggered(&trees, &options, (room, SeqNum::ZERO), memory, &account);
    assert!(picks(0, MemtableLoad::default()).is_none() && picks(u64::MAX, memory).is_none());
    // A small one has nothing to do with it, and stays.
    let memory = MemtableLoad { entries: 100, is_small: true };
    assert!(matches!(picks(u64::MAX, memory).unwrap().job, Job::Merge(_)));
    let mut merged = trees.clone();
    forge.apply(&mut merged, picked, &options);
    assert_order(&merged);
    assert_eq!(merged.levels[LEVELS - 2].runs.len(), 3);
    account.spend(&paid.cost);
    assert!(paid_at_rest(&merged, &options, &account).is_none());
    // Reads of the others pay for theirs.
    earn(&mut account, 70_000, 2 * cost);
    assert!(matches!(paid_at_rest(&merged, &options, &account).unwrap().job, Job::Merge(_)));
}

#[test]
fn writes_take_from_what_reads_near_them_have_saved() {
    let mut forge = Forge::new(9);
    let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
    let trees = two_levels(&mut forge);
    let mut account = ReadCredit::default();
    for key in [5_000_u32, 24_000, 25_000, 26_000, 27_000, 28_000, 70_000] {
        account.add_near(&key.to_be_bytes(), 1 << 30);
    }
    let written = |keys: std::ops::Range<u32>| {
        move |low: &[u8], high: Option<&[u8]>| {
            let (from, to) = (keys.start.to_be_bytes(), keys.end.to_be_bytes());
            high.is_none_or(|high| from.as_slice() <= high) && low < to.as_slice()
        }
    };
    let merges = |account: &ReadCredit| paid_at_rest(&trees, &options, account).map(|paid| paid.cost);
    // Writes to the ends of the table take nothing from its middle, however much they write.
    account.decay(1 << 40, written(0..6_000));
    account.decay(1 << 40, written(69_000..80_000));
    let price = merges(&account).expect("reads of the middle have paid");
    let mut spent = account.clone();
    spent.spend(&price);
    assert!(spent.is_empty(), "{spent:?}");
    account.decay(1 << 40, written(24_500..24_510));
    assert!(merges(&account).is_some(), "26,000 is further away");
    account.decay(1 << 40, written(26_500..26_510));
    assert!(merges(&account).is_none());
    account.decay(1 << 40, |_, _| true);
    assert!(account.is_empty());
    // However many places there are, what was saved at them is not lost.
    for key in 0..10_000_u32 {
        account.add_near(&[&key.to_be_bytes()[..], &[7; 10_000]].concat(), 10_000);
    }
    assert!(merges(&account).is_some() && format!("{account:?}").len() < 512 * 2400);
}

/// What lookups of so many keys pay: nothing for one tree each, whatever that is.
#[test]
fn the_dearest_tree_that_a_read_searches_is_not_extra() {
    let costs = |trees, small, views, filter_stops, blocks_read| {
        extra_ns(1, &Costs { trees, small, views, filter_stops, blocks_read, ..Costs::default() })
    };
    let one = [(1, 0, 0), (1, 1, 0), (0, 0, 1), (0, 0, 0)];
    assert!(one.into_iter().all(|(trees, small, stops)| costs(trees, small, 0, stops, 3) == 0));
    assert_eq!(costs(2, 1, 0, 0, 0), SMALL_NS, "a small memtable over one tree was as dear as a tree");
    assert_eq!(costs(3, 1, 0, 5, 0), SEARCH_NS + SMALL_NS + 5 * FILTER_NS);
    assert_eq!(
        (costs(0, 0, 1, 0, 0), costs(2, 1, 1, 0, 0)),
        (VIEW_SEARCH_NS, VIEW_SEARCH_NS + SMALL_NS),
        "a merge leaves no view"
    );
    assert_eq!((costs(4, 0, 0, 0, 3), costs(4, 0, 0, 0, 40)), (3 * SEARCH_NS + 2 * READ_NS, 3 * (SEARCH_NS + READ_NS)));
    assert_eq!(extra_ns(16, &Costs { trees: 20, small: 2, ..Costs::default() }), 2 * SEARCH_NS + 2 * SMALL_NS);
}

/// Beside a writer there was always something in memory, and each time it was flushed for what reads had paid: the
/// merge never came.
#[test]
fn a_small_memtable_is_flushed_with_a_merge_only() {
    let mut forge = Forge::new(7);
    let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
    let mut trees = Trees { l0: vec![forge.run(&many(2000, 2))], ..Trees::default() };
    trees.levels[LEVELS - 1] = Level::new(vec![forge.run(&many(20_000, 1))]);
    let pick = |trees: &Trees, ns: u64, rests: bool, is_small: bool| {
        let mut account = ReadCredit::default();
        account.add(ns);
        account.decay(u64::from(!rests), |_, _| true);
        pick_read_triggered(
            trees,
            &options,
            (u64::MAX, SeqNum::ZERO),
            MemtableLoad { entries: 100, is_small },
            &account,
        )
        .is_some_and(|paid| matches!(paid.job, Job::Flush))
    };
    let merged = merge_cost(&Compaction::new(&trees, trees.l0.clone(), Vec::new(), LEVELS - 1).unwrap(), &options);
    let memory = MemtableLoad { entries: 100, is_small: true };
    let (flush, more) = (memory.flush_cost(), memory.flush_cost() + memory.merged_cost());
    let enough = merged + more;
    assert_eq!([enough, enough + WRITE_NS].map(|ns| pick(&trees, ns, false, true)), [false, true]);
    // What is left then does for the merge, with the run that the flush has laid down.
    let mut account = ReadCredit::default();
    account.add(enough);
    account.spend(&ReadTriggered::new(Job::Flush, flush, CreditSource::All).cost);
    let mut flushed = trees.clone();
    flushed.l0.insert(0, forge.run(&many(100, 3)));
    assert!(matches!(paid_at_rest(&flushed, &options, &account).unwrap().job, Job::Merge(_)));
    // A large one is a tree itself.
    assert!(pick(&trees, 2 * flush + WRITE_NS, false, false) && !pick(&trees, flush, false, false));
    // Over one tree it is flushed for the merge of both, when nothing is written any more.
    trees.l0.clear();
    let whole = whole_cost(&trees) + more;
    assert_eq!([whole - 1, whole].map(|ns| pick(&trees, ns, true, true)), [false, true]);
    assert!(!pick(&trees, 10 * whole, false, true));
}

/// Runs were written anew that had one between them which stayed: the result reached over it, and its keys were found
/// no more.
#[test]
fn what_lies_between_runs_with_dead_entries_is_written_anew_with_them() {
    let mut forge = Forge::new(4);
    let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
    let keys = |from: u32, seqnum: u64| (from..from + 1000).map(|key| (key, seqnum)).collect::<Vec<_>>();
    let mut run = |from: u32, seqnum: u64, kind: Kind| forge.run_of(&keys(from, seqnum), kind);
    let runs = [
        run(0, 0, Kind::Put),
        run(1000, 9, Kind::Delete),
        run(2000, 0, Kind::Put),
        run(3000, 9, Kind::Delete),
        run(4000, 0, Kind::Put),
    ];
    let mut trees = Trees::default();
    trees.levels[LEVELS - 1] = Level::new(runs.to_vec());
    let mut account = ReadCredit::default();
    account.add_dead_range(1000_u32.to_be_bytes().to_vec(), 3999_u32.to_be_bytes().to_vec(), 1_000_000);
    let picked =
        pick_read_triggered(&trees, &options, (u64::MAX, SeqNum(9)), MemtableLoad::default(), &account).unwrap();
    let Job::Merge(merge) = &picked.job else { panic!("they are written anew") };
    assert_eq!(merge.removed(), runs[1..4].iter().map(|handle| handle.id).collect::<Vec<_>>());
    let mut written = trees.clone();
    forge.apply(&mut written, merge, &options);
    assert_order(&written);
    // Nothing is done for want of room, not even a flush.
    account.look_in_memory(|_, _| true);
    let memory = MemtableLoad { entries: 100, is_small: true };
    assert!(pick_read_triggered(&trees, &options, (0, SeqNum(9)), memory, &account).is_none());
}

/// What a snapshot kept until it came to the last level stayed there when the snapshot was gone, and each scan stepped
/// over it.
#[test]
fn dead_entries_in_the_last_level_are_written_anew_when_nobody_sees_them_any_more() {
    let mut forge = Forge::new(3);
    let options = TableOptions { layout: Layout::Lsm, ..TableOptions::default() };
    let (dead, live) = (forge.run_of(&many(2000, 9), Kind::Delete), forge.run(&[(2001, 0), (3000, 0)]));
    let mut trees = Trees::default();
    trees.levels[LEVELS - 1] = Level::new(vec![dead.clone(), live]);
    let pick = |trees: &Trees, oldest: u64, in_memory: bool| {
        let mut account = ReadCredit::default();
        account.add_dead_range(0_u32.to_be_bytes().to_vec(), 2500_u32.to_be_bytes().to_vec(), 1_000_000);
        account.look_in_memory(|_, _| in_memory);
        let memory = MemtableLoad { entries: 100, is_small: true };
        pick_read_triggered(trees, &options, (u64::MAX, SeqNum(oldest)), memory, &account).map(|paid| paid.job)
    };
    assert!(matches!(pick(&trees, 8, false), Some(Job::Forget)), "the oldest snapshot needs them");
    let Some(Job::Merge(merge)) = pick(&trees, 9, false) else { panic!("they are written anew") };
    assert!(merge.bottom && merge.removed() == [dead.id] && merge.target == LevelId::Level(LEVELS - 1));
    // A memtable that has nothing to do with them stays where it is.
    assert!(matches!(pick(&trees, 9, true), Some(Job::Flush)));
    trees.levels[LEVELS - 1] = Level::default();
    assert!(matches!((pick(&trees, 9, true), pick(&trees, 9, false)), (Some(Job::Flush), Some(Job::Forget))));
}

impl Forge {
    /// A value file of so many values, and where they are.
    fn value_file(&mut self, values: u64) -> (Arc<ValueFile>, Vec<ValuePointer>) {
        let (env, id) = (self.sim.env(), FileId(self.next));
        self.next += 1;
        let path = FileKind::Values.path(Path::new("/runs"), id);
        let stats = Arc::<StoreStats>::default();
        let mut builder =
            ValueBuilder::create(&env, &path, id, id.0, Compression::None, false, Arc::clone(&stats)).unwrap();
        let pointers = (0..values).map(|_| builder.push(&[7; 100]).unwrap()).collect();
        builder.finish().unwrap();
        (ValueFile::open(&env, &path, id, id.0, false, Arc::clone(&self.cache), stats).unwrap(), pointers)
    }

    /// A run whose entries, with neighbouring keys from `first` on, point to these values.
    fn run_apart(&mut self, first: u32, pointers: &[ValuePointer], open: &ValueFiles) -> RunHandle {
        let handle = self.lay_down(|builder| {
            for (key, pointer) in (first..).zip(pointers) {
                let (key, seqnum, value) = (key.to_be_bytes(), SeqNum(1), pointer.encode());
                builder.push(&Entry { key: &key, seqnum, kind: Kind::PutPointer, value: &value }).unwrap();
            }
        });
        handle.run.refer_to(open).unwrap();
        handle
    }

    /// Empties value files as a compaction of one run does.
    fn apply_to_values(&mut self, trees: &Trees, compaction: &Compaction, emptied: &[FileId]) -> Trees {
        let run = compaction.inputs().next().unwrap();
        let mut cursor = RunCursor::over(&run.run, Fill::Bypass);
        let (mut pointers, mut moved) = (Vec::new(), Vec::new());
        cursor.first().unwrap();
        while let Some(entry) = cursor.entry() {
            let pointer = ValuePointer::decode(entry.value).unwrap();
            if emptied.contains(&pointer.file) {
                moved.push(pointers.len());
            }
            pointers.push(pointer);
            cursor.next().unwrap();
        }
        let (file, new) = self.value_file(u64_of(moved.len()));
        moved.iter().zip(new).for_each(|(at, pointer)| pointers[*at] = pointer);
        let open = ValueFiles::new(trees.values.iter().cloned().chain([file]).collect());
        let first = u32::from_be_bytes(run.run.meta().smallest.as_slice().try_into().unwrap());
        let output = self.run_apart(first, &pointers, &open);
        trees.replaced(&compaction.removed(), compaction.target, &[output])
    }
}

#[test]
fn value_files_are_emptied_until_half_of_them_is_live_and_no_further() {
    let mut all_steps = 0;
    for seed in 0..20 {
        let mut forge = Forge::new(seed);
        let (files, pointers): (Vec<_>, Vec<_>) = (0..6).map(|_| forge.value_file(20)).unzip();
        let open = ValueFiles::new(files);
        let mut live: Vec<_> = pointers.concat();
        let share = forge.below(100);
        live.retain(|_| forge.below(100) < share);
        let mut trees = Trees::default();
        for (number, pointers) in (0..).zip(live.chunks(13)) {
            let run = forge.run_apart(number * 100, pointers, &open);
            let place = if forge.below(3) == 0 {
                LevelId::L0
            } else {
                LevelId::Level(usize::try_from(forge.below(3)).unwrap())
            };
            trees = trees.replaced(&[], place, &[run]);
        }
        let entries = |trees: &Trees| trees.runs().map(|handle| handle.run.meta().entries).sum::<u64>();
        let mut steps = 0;
        while let Some(compaction) = pick_values(&trees, LIVE_PERCENT) {
            let ValueBytes { total, live } = ValueBytes::of(&trees);
            assert!(live * 2 < total, "{live} of {total} bytes are live");
            let emptied = emptied(&trees, LIVE_PERCENT);
            let moved = moved_bytes(&compaction, &emptied);
            assert!(moved > 0 && moved <= total - live, "{moved} bytes are written for {}", total - live);
            let after = forge.apply_to_values(&trees, &compaction, &emptied);
            assert_eq!((entries(&after), ValueBytes::of(&after).live), (entries(&trees), live));
            trees = after;
            steps += 1;
            assert!(steps < 100, "it does not end");
        }
        let ValueBytes { total, live } = ValueBytes::of(&trees);
        assert!(live * 2 >= total && total <= 20 * 184 * 6, "{live} of {total} bytes are live");
        all_steps += steps;
    }
    assert!(all_steps > 0, "nothing was to be done");
}
