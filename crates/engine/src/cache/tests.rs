//! Tests of the cache: its invariants over random steps, its hits beside those of LRU, and its use of files.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use super::shard::{ENTRY_BYTES, Shard, Shared, Swizzle};
use super::table::Key;
use super::*;
use crate::base::memory::ImageSwip;
use crate::base::memory::pages::HUGE_PAGE_BYTES;
use crate::base::num::usize_of;
use crate::block::{Block, BlockPointer, Compression, raw_image};
use crate::env::Access;
use crate::env::sim::SimEnv;
use crate::store::{BlockFile, BlockWriter, StoreStats};

impl Shared for u64 {
    type Swip = Filled;
}

/// A swip of a shard of numbers: what is in it, and the reads there.
type TestSwip = Rc<Cell<(Option<u64>, u8)>>;

/// One that a shard has filled.
pub(super) struct Filled(Weak<Cell<(Option<u64>, u8)>>);

impl PartialEq for Filled {
    fn eq(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }
}

impl Swizzle<u64> for Filled {
    fn put(&self, value: &u64) {
        let before = self.0.upgrade().unwrap().replace((Some(*value), 0));
        assert_eq!(before.0, None, "only an empty one is filled");
    }

    fn take(&self) -> Option<u64> {
        self.0.upgrade()?.replace((None, 0)).0
    }

    fn cool(&self) -> u8 {
        let Some(swip) = self.0.upgrade() else { return 0 };
        let (value, heat) = swip.get();
        swip.set((value, 0));
        heat
    }
}

/// The value in a swip, as a reader finds it there.
fn at_hand(swip: &TestSwip) -> Option<u64> {
    let (value, heat) = swip.get();
    swip.set((value, (heat + u8::from(value.is_some())).min(ImageSwip::HEAT_MAX)));
    value
}

/// Elsewhere images come from the allocator.
const IS_IN_SLABS: bool = cfg!(not(any(miri, sanitized)));

/// What every value of the traces weighs, with the overhead.
const WEIGHT: u64 = 4096;

fn key(instance: u64, offset: u64) -> Key {
    Key { instance, offset }
}

/// Reads block `offset` of file 1 through a shard, and says whether it was there.
fn read(shard: &mut Shard<u64>, offset: u64) -> bool {
    let key = key(1, offset);
    let hit = shard.get(key.hash(), key, 0, true).is_some();
    if !hit {
        shard.insert(key, 0, offset, WEIGHT - ENTRY_BYTES, &mut Vec::new());
    }
    hit
}

/// As [`read`], by a reader that has swips for all blocks.
fn read_at_hand(shard: &mut Shard<u64>, swips: &mut HashMap<u64, TestSwip>, offset: u64) -> bool {
    let (key, swip) = (key(1, offset), swips.entry(offset).or_default());
    let hit = at_hand(swip).or_else(|| shard.get_for(key.hash(), key, 0, || Filled(Rc::downgrade(swip))));
    if hit.is_none() {
        shard.insert(key, 0, offset, WEIGHT - ENTRY_BYTES, &mut Vec::new());
    }
    hit.is_some()
}

#[derive(Clone, Debug)]
enum Step {
    Get {
        key: (u64, u64),
        tag: u64,
        touch: bool,
    },
    /// By one of two branches, which have the same blocks below them; others may be reading the swip.
    GetFor {
        key: (u64, u64),
        tag: u64,
        branch: usize,
        is_busy: bool,
    },
    /// The branch is gone, and another in its place.
    Replace {
        branch: usize,
    },
    Insert {
        key: (u64, u64),
        tag: u64,
        weight: u64,
    },
    Populate {
        key: (u64, u64),
        tag: u64,
        weight: u64,
    },
    /// With a copy, which is the same number.
    Copy {
        key: (u64, u64),
        tag: u64,
    },
    Peek {
        key: (u64, u64),
        tag: u64,
    },
    Forget {
        key: (u64, u64),
    },
    ForgetFile {
        instance: u64,
    },
    SetCapacity {
        bytes: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let key = || (0..4u64, 0..40u64);
    let step = prop_oneof![
        20 => (key(), 0..2u64, any::<bool>()).prop_map(|(key, tag, touch)| Step::Get { key, tag, touch }),
        20 => (key(), 0..2u64, 0..2usize, any::<bool>())
            .prop_map(|(key, tag, branch, is_busy)| Step::GetFor { key, tag, branch, is_busy }),
        1 => (0..2usize).prop_map(|branch| Step::Replace { branch }),
        20 => (key(), 0..2u64, 0..3000u64).prop_map(|(key, tag, weight)| Step::Insert { key, tag, weight }),
        20 => (key(), 0..2u64, 0..3000u64).prop_map(|(key, tag, weight)| Step::Populate { key, tag, weight }),
        10 => (key(), 0..2u64).prop_map(|(key, tag)| Step::Copy { key, tag }),
        5 => (key(), 0..2u64).prop_map(|(key, tag)| Step::Peek { key, tag }),
        2 => key().prop_map(|key| Step::Forget { key }),
        1 => (0..4u64).prop_map(|instance| Step::ForgetFile { instance }),
        1 => (0..40_000u64).prop_map(|bytes| Step::SetCapacity { bytes }),
    ];
    prop::collection::vec(step, 0..300)
}

proptest! {
    /// What is found is what was inserted last and not forgotten since; the invariants hold after every step.
    #[test]
    fn a_shard_finds_only_what_was_put_there_last(steps in steps(), room in prop_oneof![Just(20_000u64), Just(300_000)]) {
        let mut shard = Shard::new(room);
        let mut last = BTreeMap::new();
        let mut dropped = Vec::new();
        let mut branches = [BTreeMap::<_, TestSwip>::new(), BTreeMap::new()];
        for (serial, step) in (0u64..).zip(steps) {
            match step {
                Step::Get { key: (instance, offset), tag, touch } => {
                    let key = key(instance, offset);
                    if let Some(found) = shard.get(key.hash(), key, tag, touch) {
                        prop_assert_eq!(last.get(&(instance, offset)), Some(&(tag, found)));
                    }
                }
                Step::GetFor { key: (instance, offset), tag, branch, is_busy } => {
                    let (key, swip) = (key(instance, offset), branches[branch].entry((instance, offset, tag)).or_default());
                    let looked = if is_busy { None } else { at_hand(swip) };
                    let found = looked.or_else(|| shard.get_for(key.hash(), key, tag, || Filled(Rc::downgrade(swip))));
                    if let Some(found) = found {
                        prop_assert_eq!(last.get(&(instance, offset)), Some(&(tag, found)));
                    }
                }
                Step::Replace { branch } => branches[branch].clear(),
                Step::Insert { key: (instance, offset), tag, weight } => {
                    let used = shard.insert(key(instance, offset), tag, serial, weight, &mut dropped);
                    let before = last.insert((instance, offset), (tag, used));
                    prop_assert!(used == serial || before == Some((tag, used)));
                }
                Step::Populate { key: (instance, offset), tag, weight } => {
                    // As a write over a block does.
                    shard.forget(key(instance, offset), &mut dropped);
                    let before = shard.tally.evicted;
                    shard.populate(key(instance, offset), tag, serial, weight);
                    last.insert((instance, offset), (tag, serial));
                    prop_assert_eq!(shard.tally.evicted, before, "a populated value takes free room only");
                }
                Step::Copy { key: (instance, offset), tag } => {
                    let (key, bytes) = (key(instance, offset), shard.bytes());
                    if let Some((copy, was_read)) = shard.peek(key, tag) {
                        shard.replace(key, tag, copy, &mut dropped);
                        prop_assert_eq!((shard.peek(key, tag), shard.bytes()), (Some((copy, was_read)), bytes));
                    }
                    shard.replace(key, 2, 0, &mut dropped);
                }
                Step::Peek { key: (instance, offset), tag } => {
                    if let Some((found, _)) = shard.peek(key(instance, offset), tag) {
                        prop_assert_eq!(last.get(&(instance, offset)), Some(&(tag, found)));
                    }
                }
                Step::Forget { key: (instance, offset) } => {
                    shard.forget(key(instance, offset), &mut dropped);
                    last.remove(&(instance, offset));
                }
                Step::ForgetFile { instance } => {
                    shard.forget_file(instance, &mut dropped);
                    last.retain(|(other, _), _| *other != instance);
                }
                Step::SetCapacity { bytes } => shard.set_capacity(bytes, &mut dropped),
            }
            shard.verify();
            for ((instance, offset, tag), swip) in branches.iter().flatten() {
                let key = key(*instance, *offset);
                let (here, _) = swip.get();
                prop_assert!(here.is_none() || here == shard.get(key.hash(), key, *tag, false), "it left the shard");
            }
        }
    }
}

/// The plainest least-recently-used cache of `room` values.
struct Lru {
    room: usize,
    now: u64,
    times: HashMap<u64, u64>,
    order: BTreeMap<u64, u64>,
}

impl Lru {
    fn read(&mut self, offset: u64) -> bool {
        self.now += 1;
        let before = self.times.insert(offset, self.now);
        before.map(|time| self.order.remove(&time));
        self.order.insert(self.now, offset);
        if self.times.len() > self.room {
            let (_, oldest) = self.order.pop_first().unwrap();
            self.times.remove(&oldest);
        }
        before.is_some()
    }
}

/// A stream of numbers that look random (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    fn unit(&mut self) -> f64 {
        self.next() as f64 / (1u64 << 53) as f64
    }
}

/// Reads of `blocks` blocks, the n-th of them with a frequency of n to the power of `-skew`.
fn zipf(blocks: usize, skew: f64, reads: usize, seed: u64) -> Vec<u64> {
    let mut sum = 0.0;
    let ends = (1..=blocks).map(|rank| {
        sum += (rank as f64).powf(-skew);
        sum
    });
    let ends = ends.collect::<Vec<_>>();
    let mut random = Random(seed);
    let mut read = || {
        let point = random.unit() * sum;
        ends.partition_point(|end| *end < point) as u64
    };
    (0..reads).map(|_| read()).collect()
}

/// Hits of a shard and of LRU in the second half of a trace.
fn compare(trace: &[u64], room: usize) -> (usize, usize) {
    let (mut shard, mut other) = (Shard::new(room as u64 * WEIGHT), Shard::new(room as u64 * WEIGHT));
    let mut swips = HashMap::new();
    let mut lru = Lru { room, now: 0, times: HashMap::new(), order: BTreeMap::new() };
    let (mut ours, mut theirs) = (0, 0);
    for (position, offset) in trace.iter().enumerate() {
        let (hit, lru_hit) = (read(&mut shard, *offset), lru.read(*offset));
        assert_eq!(
            read_at_hand(&mut other, &mut swips, *offset),
            hit,
            "what is at hand is evicted no sooner nor later"
        );
        if position >= trace.len() / 2 {
            ours += usize::from(hit);
            theirs += usize::from(lru_hit);
        }
    }
    shard.verify();
    (ours, theirs)
}

#[test]
fn skewed_reads_hit_more_often_than_with_lru() {
    for (blocks, skew) in [(10_000, 0.7), (10_000, 0.99), (10_000, 1.2), (2_000, 0.9)] {
        for part in [100, 20, 10, 4] {
            let trace = zipf(blocks, skew, 100_000, 7);
            let (ours, lru) = compare(&trace, blocks / part);
            assert!(ours > lru, "zipf {skew} in 1/{part}: {ours} hits, LRU {lru}");
        }
    }
}

/// What 1000 blocks of room make of skewed reads with every other read part of a scan that looks at each block `looks`
/// times.
fn hits_beside_a_scan(looks: usize) -> (usize, usize) {
    let hot = zipf(10_000, 0.99, 100_000, 7);
    let scan = (0..).map(|scanned| 1_000_000 + scanned / looks as u64);
    let trace = hot.into_iter().zip(scan).flat_map(|(hot, scanned)| [hot, scanned]).collect::<Vec<_>>();
    let (ours, lru) = compare(&trace, 1000);
    let scan_hits = 50_000 - 50_000 / looks;
    (ours - scan_hits, lru - scan_hits)
}

#[test]
fn a_scan_beside_skewed_reads_costs_them_little() {
    let (alone, _) = compare(&zipf(10_000, 0.99, 100_000, 7), 1000);
    for looks in [1, 2, 5] {
        let (ours, lru) = hits_beside_a_scan(looks);
        eprintln!("{looks} looks: {ours} hits of 50000, alone {alone}, LRU {lru}");
        assert!(ours > alone * 97 / 100 && ours > lru + 50_000 * 3 / 100, "three points more than LRU");
    }
}

#[test]
fn a_hot_set_survives_one_long_scan() {
    let mut shard = Shard::new(1000 * WEIGHT);
    for _ in 0..3 {
        (0..800).for_each(|offset| _ = read(&mut shard, offset));
    }
    (0..100_000).for_each(|offset| _ = read(&mut shard, 1_000_000 + offset));
    // The very last to come had no time to show that they are wanted.
    let survived = (0..800).filter(|offset| read(&mut shard, *offset)).count();
    assert!(survived > 780, "{survived} of 800");
}

#[test]
fn a_loop_larger_than_the_room_hits() {
    let trace = (0..100_000).map(|position| position % 1100).collect::<Vec<_>>();
    let (ours, lru) = compare(&trace, 1000);
    assert!(ours > 30_000 && lru == 0, "{ours} of 50000");
}

#[test]
fn hot_blocks_that_move_are_followed() {
    let phases =
        (0..10).flat_map(|phase| zipf(5000, 0.9, 30_000, phase + 3).into_iter().map(move |i| i + 1500 * phase));
    let (ours, lru) = compare(&phases.collect::<Vec<_>>(), 1000);
    assert!(ours > lru, "{ours} hits, LRU {lru}");
}

/// Populates the shard with a block of another file.
fn populate(shard: &mut Shard<u64>, offset: u64) {
    shard.populate(key(2, offset), 0, offset, WEIGHT - ENTRY_BYTES);
}

#[test]
fn values_that_nobody_has_read_cost_those_that_were_read_nothing() {
    let trace = zipf(10_000, 0.9, 100_000, 7);
    let (mut alone, mut beside) = (Shard::new(1000 * WEIGHT), Shard::new(1000 * WEIGHT));
    for (written, offset) in (0..).zip(trace) {
        populate(&mut beside, written);
        assert_eq!(read(&mut beside, offset), read(&mut alone, offset), "read {written}");
    }
    beside.verify();
    assert!(beside.tally.populated > 100, "{} came in", beside.tally.populated);
}

#[test]
fn values_that_nobody_has_read_take_free_room_only_and_leave_first() {
    let mut shard = Shard::new(100 * WEIGHT);
    (0..60).for_each(|offset| _ = read(&mut shard, offset));
    (0..100).for_each(|offset| populate(&mut shard, offset));
    let is_there = |shard: &mut Shard<u64>, instance, offset| shard.peek(key(instance, offset), 0).is_some();
    assert_eq!((0..100).filter(|offset| is_there(&mut shard, 2, *offset)).count(), 40);
    // One of them is read, and is as good as any other from then on.
    assert_eq!(shard.peek(key(2, 0), 0), Some((0, false)));
    assert_eq!(shard.get(key(2, 0).hash(), key(2, 0), 0, true), Some(0));
    assert_eq!(shard.peek(key(2, 0), 0), Some((0, true)));
    (60..99).for_each(|offset| _ = read(&mut shard, offset));
    assert!((0..99).all(|offset| is_there(&mut shard, 1, offset)) && is_there(&mut shard, 2, 0));
    assert!((1..100).all(|offset| !is_there(&mut shard, 2, offset)));
    shard.verify();
}

#[test]
fn a_value_too_large_is_not_kept_and_moves_nothing_out() {
    let mut shard = Shard::new(10 * WEIGHT);
    let mut dropped = Vec::new();
    (0..9).for_each(|offset| _ = read(&mut shard, offset));
    assert_eq!(shard.insert(key(1, 100), 0, 77, 3 * WEIGHT, &mut dropped), 77);
    assert_eq!(shard.get(key(1, 100).hash(), key(1, 100), 0, true), None);
    assert!((0..9).all(|offset| read(&mut shard, offset)));
    assert!(dropped.is_empty());
}

#[test]
fn a_rewritten_block_takes_the_place_of_the_old_one() {
    let mut shard = Shard::new(10 * WEIGHT);
    let mut dropped = Vec::new();
    let key = key(1, 0);
    shard.insert(key, 1, 10, 100, &mut dropped);
    assert_eq!(shard.get(key.hash(), key, 2, true), None);
    assert_eq!(shard.insert(key, 2, 20, 100, &mut dropped), 20);
    assert_eq!(shard.get(key.hash(), key, 1, true), None);
    assert_eq!(shard.get(key.hash(), key, 2, true), Some(20));
    assert_eq!(dropped, [10]);
    shard.verify();
}

/// What block `number` of a file ends with.
fn byte_of(number: usize) -> u8 {
    u8::try_from(number % 251).unwrap()
}

/// A file of `count` blocks of 4 KiB, their pointers, and the counters of its reads.
fn file_of_blocks(sim: &SimEnv, name: &str, count: usize) -> (BlockFile, Vec<BlockPointer>, Arc<StoreStats>) {
    let (env, path, stats) = (sim.env(), Path::new(name), Arc::new(StoreStats::default()));
    let mut writer = BlockWriter::create(&env, path, 9, false, Arc::default()).unwrap();
    let image = |number: usize| {
        let mut image = raw_image(4000);
        *image.last_mut().unwrap() = byte_of(number);
        image
    };
    let pointers = (0..count).map(|number| writer.append(&image(number), Compression::None).unwrap()).collect();
    writer.finish().unwrap();
    let file = BlockFile::open(&env, path, 9, Access::Read, false, Arc::clone(&stats)).unwrap();
    (file, pointers, stats)
}

fn reads(stats: &StoreStats) -> u64 {
    stats.block_reads.load(Ordering::Relaxed)
}

#[test]
fn a_kept_block_is_read_once_and_a_bypassing_read_keeps_nothing() {
    let (file, pointers, stats) = file_of_blocks(&SimEnv::new(1), "/blocks", 100);
    let cache = Cache::new(8 << 20);
    for (round, fill) in [Fill::Bypass, Fill::Bypass, Fill::Keep, Fill::Keep, Fill::Bypass].into_iter().enumerate() {
        pointers.iter().for_each(|pointer| drop(cache.get(&file, *pointer, fill).unwrap()));
        assert_eq!(reads(&stats), 100 * (round as u64 + 1).min(3), "round {round}");
    }
    let counters = cache.stats();
    assert_eq!((counters.hits, counters.misses, counters.evicted), (100, 100, 0));
    assert_eq!(counters.bytes, cache.bytes());
    assert!(counters.bytes > 100 * 4000 && counters.capacity_bytes == 8 << 20);
}

#[test]
fn who_asks_ahead_changes_nothing() {
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 2);
    let cache = Cache::new(8 << 20);
    cache.get(&file, pointers[0], Fill::Keep).unwrap();
    let before = cache.stats();
    pointers.iter().for_each(|pointer| cache.prefetch_line(file.instance(), *pointer));
    assert!(pointers.iter().map(|pointer| cache.prefetch_step(file.instance(), *pointer)).eq([true, false]));
    assert_eq!(cache.stats(), before);
}

/// Looks for a block as a reader does that has swips.
fn look(cache: &Cache, file: &BlockFile, pointer: BlockPointer, swip: (&Arc<Swips>, usize)) -> Option<Block> {
    cache.lookup_at(SwipOf::new(swip.0, swip.1), file.instance(), pointer, Fill::Keep)
}

#[test]
fn what_is_at_hand_leaves_with_the_cache() {
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 3);
    let cache = Cache::new(8 << 20);
    let swips = Arc::new(Swips::new(3));
    assert!(SwipOf::new(&swips, 3).is_none());
    let at_hand = |at: usize| SwipOf::new(&swips, at).unwrap().follow();
    for (at, pointer) in pointers.iter().enumerate() {
        assert!(look(&cache, &file, *pointer, (&swips, at)).is_none());
        cache.get(&file, *pointer, Fill::Keep).unwrap();
        assert!(!at_hand(at));
        (0..3).for_each(|_| assert!(look(&cache, &file, *pointer, (&swips, at)).is_some()));
    }
    assert!((0..3).all(at_hand));
    let counters = cache.stats();
    assert_eq!((counters.hits, counters.misses), (9, 6));
    cache.forget_block(file.instance(), pointers[1].offset);
    assert_eq!([0, 1, 2].map(at_hand), [true, false, true]);
    let held = look(&cache, &file, pointers[2], (&swips, 2)).unwrap();
    cache.fit(|_| Some(0));
    assert!(!(0..3).any(at_hand));
    assert_eq!(held.bytes().last(), Some(&byte_of(2)), "who holds it still does");
}

#[test]
fn the_branch_that_came_last_has_a_block_at_hand() {
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 1);
    let cache = Cache::new(8 << 20);
    let [old, new] = [(); 2].map(|()| Arc::new(Swips::new(1)));
    let at_hand = |swips: &Arc<Swips>| SwipOf::new(swips, 0).unwrap().follow();
    cache.get(&file, pointers[0], Fill::Keep).unwrap();
    (0..2).for_each(|_| assert!(look(&cache, &file, pointers[0], (&old, 0)).is_some()));
    assert!(at_hand(&old));
    assert!(look(&cache, &file, pointers[0], (&new, 0)).is_some());
    assert!(at_hand(&new) && !at_hand(&old));
    drop(new);
    assert!(look(&cache, &file, pointers[0], (&old, 0)).is_some(), "a branch may go at any time");
    assert!(at_hand(&old));
    cache.forget(file.instance());
    assert!(!at_hand(&old));
}

#[test]
fn merges_leave_alone_what_is_at_hand() {
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 1);
    let cache = Cache::new(8 << 20);
    let swips = Arc::new(Swips::new(1));
    cache.get(&file, pointers[0], Fill::Keep).unwrap();
    let before = cache.stats();
    for fill in [Fill::Merge, Fill::Bypass] {
        let swip = SwipOf::new(&swips, 0);
        (0..3).for_each(|_| assert!(cache.lookup_at(swip, file.instance(), pointers[0], fill).is_some()));
    }
    assert!(!SwipOf::new(&swips, 0).unwrap().follow());
    assert_eq!(cache.stats(), before);
}

#[test]
fn forgetting_a_file_or_a_block_frees_just_its_bytes() {
    let sim = SimEnv::new(1);
    let (one, pointers, _) = file_of_blocks(&sim, "/one", 50);
    let (two, _, _) = file_of_blocks(&sim, "/two", 50);
    let cache = Cache::new(8 << 20);
    for pointer in &pointers {
        cache.get(&one, *pointer, Fill::Keep).unwrap();
        cache.get(&two, *pointer, Fill::Keep).unwrap();
    }
    let both = cache.bytes();
    cache.forget(one.instance());
    assert_eq!(cache.bytes(), both / 2);
    assert!(pointers.iter().all(|pointer| cache.lookup(one.instance(), *pointer, Fill::Keep).is_none()));
    cache.forget_block(two.instance(), pointers[7].offset);
    let left = pointers.iter().filter(|pointer| cache.lookup(two.instance(), **pointer, Fill::Keep).is_some());
    assert_eq!(left.count(), 49);
    cache.forget(two.instance());
    assert_eq!(cache.bytes(), 0);
}

#[test]
fn a_smaller_capacity_takes_effect_at_once() {
    let (file, pointers, stats) = file_of_blocks(&SimEnv::new(1), "/blocks", 500);
    let cache = Cache::new(4 << 20);
    let read_all = || pointers.iter().for_each(|pointer| drop(cache.get(&file, *pointer, Fill::Keep).unwrap()));
    read_all();
    assert!(cache.bytes() > 1 << 20);
    cache.fit(|_| Some(1 << 20));
    assert!(cache.capacity() == 1 << 20 && cache.bytes() <= 1 << 20 && cache.bytes() > 900 << 10);
    cache.fit(|_| Some(0));
    assert_eq!(cache.bytes(), 0);
    read_all();
    assert_eq!((cache.bytes(), reads(&stats)), (0, 1000));
}

/// How many regions of memory have any of the blocks in the cache, and bytes of these blocks.
fn regions_of(cache: &Cache) -> (usize, usize) {
    let (mut regions, mut bytes) = (BTreeSet::new(), 0);
    cache.copy_blocks(|block| {
        regions.insert(block.bytes().as_ptr().addr() / HUGE_PAGE_BYTES);
        bytes += block.memory_bytes();
        false
    });
    (regions.len(), bytes)
}

/// Before blocks were moved, a cache of 8 MiB had some in nearly all regions that it once had when it was larger.
#[test]
fn the_memory_of_a_cache_that_shrank_goes_back_to_the_system_and_its_blocks_stay() {
    let (file, pointers, stats) = file_of_blocks(&SimEnv::new(1), "/blocks", 16_000);
    let cache = Cache::new(80 << 20);
    let swips = Arc::new(Swips::new(pointers.len()));
    pointers.iter().for_each(|pointer| drop(cache.get(&file, *pointer, Fill::Keep).unwrap()));
    // A tenth of them is read again, and stays.
    let mut random = Random(1);
    let again = (0..pointers.len()).filter(|_| random.next().is_multiple_of(10));
    for at in again {
        (0..3).for_each(|_| drop(look(&cache, &file, pointers[at], (&swips, at))));
    }
    cache.fit(|_| Some(8 << 20));
    let (sparse, bytes) = regions_of(&cache);
    assert!(bytes > 6 << 20 && (sparse > 25 || !IS_IN_SLABS), "{bytes} in {sparse} regions");
    let (last, before) = (pointers[15_999], cache.stats());
    let held = cache.lookup(file.instance(), last, Fill::Bypass).expect("the newest block is there");
    (0..8).for_each(|_| cache.defragment());
    let (regions, bytes_now) = regions_of(&cache);
    assert_eq!((bytes_now, cache.stats()), (bytes, before));
    assert!(regions <= sparse / 2 || !IS_IN_SLABS, "{bytes} in {regions} regions, in {sparse} before");
    let mut kept = 0;
    for (at, pointer) in pointers.iter().enumerate() {
        let swip = SwipOf::new(&swips, at).unwrap();
        let block = cache.lookup(file.instance(), *pointer, Fill::Bypass);
        kept += usize::from(block.is_some());
        assert!(block.is_none_or(|block| block.bytes().last() == Some(&byte_of(at))));
        assert!(swip.get().is_none_or(|block| block.bytes().last() == Some(&byte_of(at))));
    }
    assert!(kept > 1500 && reads(&stats) == 16_000);
    assert_eq!(held.bytes().last(), Some(&byte_of(15_999)));
}

#[test]
fn a_copy_takes_the_place_of_a_block_for_readers_by_a_swip_too() {
    let (file, pointers, stats) = file_of_blocks(&SimEnv::new(1), "/blocks", 3);
    let cache = Cache::new(8 << 20);
    let swips = Arc::new(Swips::new(3));
    for (at, pointer) in pointers.iter().enumerate() {
        cache.get(&file, *pointer, Fill::Keep).unwrap();
        (0..at * 3).for_each(|_| drop(look(&cache, &file, *pointer, (&swips, at))));
    }
    let looks = || -> Vec<_> { (0..3).map(|at| look(&cache, &file, pointers[at], (&swips, at)).unwrap()).collect() };
    let place = |block: &Block| block.bytes().as_ptr();
    let before = looks();
    cache.copy_blocks(|block| place(block) != place(&before[1]));
    let after = looks();
    assert!(before.iter().zip(&after).all(|(before, after)| before.bytes() == after.bytes()));
    assert!([0, 1, 2].map(|at| place(&before[at]) == place(&after[at])) == [false, true, false]);
    assert!(SwipOf::new(&swips, 2).unwrap().is_full() && reads(&stats) == 3);
    cache.fit(|_| Some(0));
    assert!((0..3).all(|at| !SwipOf::new(&swips, at).unwrap().is_full()));
}

#[test]
fn what_is_lent_is_evicted_and_comes_back() {
    const MIB: u64 = 1 << 20;
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 2500);
    let cache = Arc::new(Cache::new(8 * MIB));
    let fill = || {
        pointers.iter().for_each(|pointer| drop(cache.get(&file, *pointer, Fill::Keep).unwrap()));
        cache.bytes()
    };
    assert!(fill() > 7 * MIB);
    let (mut loan, mut other) = (CacheLoan::new(Arc::clone(&cache)), CacheLoan::new(Arc::clone(&cache)));
    loan.grow(MIB);
    other.grow(MIB);
    assert!(cache.bytes() <= 6 * MIB && fill() <= 6 * MIB && cache.capacity() == 8 * MIB);
    loan.grow(90 * MIB);
    assert!(cache.bytes() <= 4 * MIB && fill() > 3 * MIB, "half of the capacity is never lent");
    cache.fit(|_| Some(4 * MIB));
    assert!(cache.bytes() <= 2 * MIB);
    drop(loan);
    assert!(fill() <= 3 * MIB, "the other is still there");
    cache.fit(|_| Some(8 * MIB));
    drop(other);
    assert!(fill() > 7 * MIB);
}

#[test]
fn a_failed_read_is_reported_and_not_remembered() {
    let sim = SimEnv::new(1);
    let (file, pointers, _) = file_of_blocks(&sim, "/blocks", 2);
    let cache = Cache::new(1 << 20);
    sim.corrupt("/blocks", pointers[1].offset + 100, 0x10).unwrap();
    for _ in 0..2 {
        let error = cache.get(&file, pointers[1], Fill::Keep).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Corruption);
    }
    sim.corrupt("/blocks", pointers[1].offset + 100, 0x10).unwrap();
    cache.get(&file, pointers[1], Fill::Keep).unwrap();
}

#[test]
fn threads_share_the_blocks_and_the_bound() {
    let (file, pointers, _) = file_of_blocks(&SimEnv::new(1), "/blocks", 400);
    let cache = Cache::new(1 << 20);
    let swips = Arc::new(Swips::new(pointers.len()));
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (cache, file, pointers, swips) = (&cache, &file, &pointers, &swips);
            scope.spawn(move || {
                let mut random = Random(seed);
                for turn in 0..5000u64 {
                    // Some are read all the time.
                    let at = usize_of(random.next()) % if turn % 2 == 0 { 20 } else { pointers.len() };
                    let block = match look(cache, file, pointers[at], (swips, at)) {
                        Some(block) => block,
                        None => cache.read(file, pointers[at], Fill::Keep).unwrap(),
                    };
                    assert_eq!(block.bytes().last(), Some(&byte_of(at)));
                    assert!(cache.bytes() <= 1 << 20);
                    if turn.is_multiple_of(500) {
                        cache.forget(file.instance());
                    }
                    if turn.is_multiple_of(50) {
                        cache.copy_blocks(|block| block.bytes().as_ptr().addr() / 8192 % 2 == usize_of(seed) % 2);
                    }
                }
            });
        }
    });
    let counters = cache.stats();
    assert_eq!(counters.hits + counters.misses, 20_000);
    for (at, pointer) in pointers.iter().enumerate() {
        let swip = SwipOf::new(&swips, at).unwrap();
        let kept = cache.lookup(file.instance(), *pointer, Fill::Bypass);
        assert!(!swip.is_full() || kept.is_some(), "what left the cache is at hand");
    }
    for latched in &cache.shards {
        let shard = latched.shard.lock();
        shard.verify();
        assert!(latched.table_addr.follows(shard.table()));
    }
}
