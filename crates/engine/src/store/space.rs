//! Which units of a tree file are free, which will be once no reader needs them, and how that is stored.
//!
//! A tree file is cut into units of [`UNIT_BYTES`]; unit 0 is the file's header. A block takes whole units. The map
//! knows the free units (reusable now) and the *pending* ones: freed by the root of a generation, but still reachable
//! from the roots before it.
//!
//! # Format
//! A free list is stored once per root, as the image of a frame of its own. It lists every unit that is neither the
//! header, nor part of the tree, nor of the free list itself; what is pending in memory is free in it, because no
//! reader outlives a restart.
//!
//! | field | encoding |
//! |---|---|
//! | number of extents | varint |
//! | per extent, ascending: units between the end of the one before (the header at first) and its start | varint |
//! | its units | varint |
//! | padding | zeros |
//!
//! # Invariants
//! 1. Free extents neither overlap nor touch, and lie between the header and the end of the file.
//! 2. A unit is released only when it is not free. (Both are asserted at each release: a unit with two owners is never
//!    given out.)
//! 3. A unit freed by generation g is given out only after root g was installed and no root before g that reaches it is
//!    held.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::base::CoveragePoint;
use crate::base::codec::{Decoder, Malformed, put_varint};
use crate::base::num::{u64_of, usize_of, usize_of32};
use crate::env::SECTOR_BYTES;

/// The unit of allocation in bytes: what a device writes atomically at best, and what direct I/O needs.
pub const UNIT_BYTES: u64 = u64_of(SECTOR_BYTES);

/// The units of a stretch: what is written at once (1 MiB).
pub const STRETCH_UNITS: u64 = (1 << 20) / UNIT_BYTES;

/// Holes shorter than a stretch are filled only while free space is more than this part (1/8) of the file. Before
/// that the file grows, because one long write is cheaper than many short ones.
const SLACK_PART: u64 = 8;

/// The end of the file is cut off when at least this part (1/4) of it is free there.
const TAIL_PART: u64 = 4;

/// Sizes below this have a class each; above it, a class spans a factor of two.
const EXACT: u64 = 16;
/// The class of [`EXACT`] is the first of its kind.
const EXACT_CLASS: usize = 15;
/// The class of all extents that hold a stretch.
const LARGE: usize = EXACT_CLASS + (STRETCH_UNITS / EXACT).trailing_zeros() as usize;
const CLASSES: usize = LARGE + 1;

const _: () = assert!(class(1) == 0 && class(EXACT - 1) == 14 && class(EXACT) == EXACT_CLASS);
const _: () =
    assert!(class(STRETCH_UNITS - 1) == LARGE - 1 && class(STRETCH_UNITS) == LARGE && class(u64::MAX) == LARGE);

/// The class of extents of `units` units.
const fn class(units: u64) -> usize {
    if units < EXACT {
        return usize_of(units) - 1;
    }
    let class = EXACT_CLASS + usize_of32((units / EXACT).ilog2());
    if class < LARGE { class } else { LARGE }
}

/// Consecutive units of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// The first unit.
    pub start: u64,
    /// How many there are; never zero.
    pub units: u64,
}

impl Extent {
    /// The units that hold `bytes` bytes (at least one) at `offset`, which is a multiple of [`UNIT_BYTES`].
    #[must_use]
    pub const fn covering(offset: u64, bytes: u64) -> Self {
        Self { start: offset / UNIT_BYTES, units: bytes.div_ceil(UNIT_BYTES) }
    }

    /// The unit after the last.
    #[must_use]
    pub const fn end(self) -> u64 {
        self.start + self.units
    }

    /// The first unit's offset in the file in bytes.
    #[must_use]
    pub const fn offset(self) -> u64 {
        self.start * UNIT_BYTES
    }

    /// The offset behind the last unit.
    #[must_use]
    pub const fn end_offset(self) -> u64 {
        self.end() * UNIT_BYTES
    }
}

/// Units that the root of a generation no longer reaches.
#[derive(Debug)]
struct Pending {
    generation: u64,
    extents: Vec<Extent>,
}

/// The space of one tree file.
#[derive(Debug)]
pub struct SpaceMap {
    /// Units of the file, the header among them.
    end: u64,
    /// Reusable units: start to length.
    free: BTreeMap<u64, u64>,
    /// The starts of the free extents by class of length.
    classes: [BTreeSet<u64>; CLASSES],
    free_units: u64,
    /// What was reclaimed last and not given out since. Only to tell tests that it was.
    reclaimed: Option<Extent>,
    /// Ascending by generation.
    pending: VecDeque<Pending>,
}

impl SpaceMap {
    /// The space of a file of `end` units of which `free` are free.
    #[must_use]
    pub fn new(end: u64, free: &[Extent]) -> Self {
        let classes = std::array::from_fn(|_| BTreeSet::new());
        let mut map =
            Self { end, free: BTreeMap::new(), classes, free_units: 0, reclaimed: None, pending: VecDeque::new() };
        for extent in free {
            map.release(*extent);
        }
        map
    }

    /// Units of the file, the header among them.
    #[must_use]
    pub const fn end(&self) -> u64 {
        self.end
    }

    /// Units that can be given out now.
    #[must_use]
    pub const fn free_units(&self) -> u64 {
        self.free_units
    }

    /// Takes free units: at least `min`, if possible a whole stretch. `None` asks to grow the file instead, which is
    /// better (or necessary) unless `frugal`, which takes whatever there is.
    pub fn allocate(&mut self, min: u64, frugal: bool) -> Option<Extent> {
        let holes = frugal || self.free_units > self.end / SLACK_PART;
        let lowest = if holes { class(min) } else { LARGE.max(class(min)) };
        let start = (lowest..CLASSES).rev().find_map(|class| {
            let mut starts = self.classes[class].iter();
            starts.find(|start| self.free[*start] >= min).copied()
        })?;
        let units = self.remove(start);
        let taken = units.min(min.max(STRETCH_UNITS));
        if taken < units {
            self.insert(start + taken, units - taken);
        }
        if self.reclaimed.take_if(|extent| extent.start < start + taken && start < extent.end()).is_some() {
            CoveragePoint::ExtentReused.mark();
        }
        Some(Extent { start, units: taken })
    }

    /// Makes units free that no reader needs.
    ///
    /// # Panics
    /// When one of them is free already, or outside the file: the map is then not to be trusted.
    pub fn release(&mut self, extent: Extent) {
        assert!(extent.units > 0 && extent.start > 0 && extent.end() <= self.end, "{extent:?} lies outside the file");
        let (mut start, mut end) = (extent.start, extent.end());
        if let Some((before, units)) = self.free.range(..end).next_back().map(|(before, units)| (*before, *units)) {
            assert!(before + units <= start, "{extent:?} is free already");
            if before + units == start {
                self.remove(before);
                start = before;
            }
        }
        if self.free.contains_key(&end) {
            end += self.remove(end);
        }
        self.insert(start, end - start);
    }

    /// The longest free extents, until little more than `keep` units are left in the others.
    #[must_use]
    pub fn longest_free(&self, keep: u64) -> Vec<Extent> {
        let mut extents: Vec<_> = self.free_extents().collect();
        extents.sort_unstable_by_key(|extent| Reverse(extent.units));
        let mut left = self.free_units;
        let is_over = |extent: &Extent| {
            let over = left > keep;
            left -= extent.units;
            over
        };
        extents.into_iter().take_while(is_over).collect()
    }

    /// Adds units, which are free, to the end of the file.
    pub fn grow(&mut self, units: u64) {
        let start = self.end;
        self.end += units;
        self.release(Extent { start, units });
    }

    /// Takes the free units at the end of the file out of it, if they are many enough to matter.
    pub fn cut_tail(&mut self) -> Option<Extent> {
        let (start, units) = self.free.last_key_value().map(|(start, units)| (*start, *units))?;
        if start + units < self.end || units < STRETCH_UNITS.max(self.end / TAIL_PART) {
            return None;
        }
        self.remove(start);
        self.end = start;
        Some(Extent { start, units })
    }

    /// Notes that the root of `generation`, now installed, no longer reaches `extents`.
    ///
    /// # Panics
    /// When generations do not ascend.
    pub fn free_after(&mut self, generation: u64, extents: Vec<Extent>) {
        assert!(self.pending.back().is_none_or(|last| last.generation < generation), "generations ascend");
        if !extents.is_empty() {
            self.pending.push_back(Pending { generation, extents });
        }
    }

    /// Makes all that is free pending, as if the root of `generation` had freed it.
    ///
    /// # Panics
    /// When something is pending already.
    pub fn keep_free(&mut self, generation: u64) {
        let free: Vec<_> = self.free_extents().collect();
        for extent in &free {
            self.remove(extent.start);
        }
        assert!(self.pending.is_empty(), "nothing is pending in a file that was just opened");
        self.free_after(generation, free);
    }

    /// Frees what only roots before `oldest`, the oldest generation that is still read, reach.
    pub fn reclaim(&mut self, oldest: u64) {
        while let Some(pending) = self.pending.pop_front_if(|pending| pending.generation <= oldest) {
            self.release_all(pending.extents);
        }
    }

    /// The generations whose roots freed what is pending, ascending.
    pub fn pending(&self) -> impl Iterator<Item = u64> + '_ {
        self.pending.iter().map(|pending| pending.generation)
    }

    /// Frees what is pending and not reached: `is_reached` says so of an extent that the root of a generation freed.
    pub fn reclaim_unreached(&mut self, is_reached: impl Fn(u64, Extent) -> bool) {
        let mut unreached = Vec::new();
        for Pending { generation, extents } in &mut self.pending {
            unreached.extend(extents.extract_if(.., |extent| !is_reached(*generation, *extent)));
        }
        self.pending.retain(|pending| !pending.extents.is_empty());
        self.release_all(unreached);
    }

    fn release_all(&mut self, extents: Vec<Extent>) {
        for extent in extents {
            self.reclaimed = Some(extent);
            self.release(extent);
        }
    }

    /// Every unit that is free or pending or among `freed`, as it would be stored with a new root.
    ///
    /// # Errors
    /// [`Malformed`] when a unit is more than one of these, or none of the file that blocks can have: the root whose
    /// blocks were freed and the list of free space that was stored with it do not fit.
    pub fn unreachable(&self, freed: &[Extent]) -> Result<Vec<Extent>, Malformed> {
        let pending = self.pending.iter().flat_map(|pending| &pending.extents);
        let mut extents: Vec<Extent> = self.free_extents().chain(pending.chain(freed).copied()).collect();
        extents.sort_unstable();
        let is_within = |extent: &Extent| extent.units > 0 && extent.start > 0 && extent.end() <= self.end;
        let are_apart = |pair: &[Extent]| pair[0].end() <= pair[1].start;
        if !extents.iter().all(is_within) || !extents.windows(2).all(are_apart) {
            return Err(Malformed);
        }
        extents.dedup_by(|next, last| {
            let touch = last.end() == next.start;
            last.units += if touch { next.units } else { 0 };
            touch
        });
        Ok(extents)
    }

    fn free_extents(&self) -> impl Iterator<Item = Extent> + '_ {
        self.free.iter().map(|(start, units)| Extent { start: *start, units: *units })
    }

    fn insert(&mut self, start: u64, units: u64) {
        self.free.insert(start, units);
        self.classes[class(units)].insert(start);
        self.free_units += units;
    }

    fn remove(&mut self, start: u64) -> u64 {
        let units = self.free.remove(&start).expect("the extent is free");
        self.classes[class(units)].remove(&start);
        self.free_units -= units;
        units
    }
}

/// Appends the stored form of extents that ascend and do not touch.
pub fn encode_extents(extents: &[Extent], out: &mut Vec<u8>) {
    put_varint(out, u64_of(extents.len()));
    let mut at = 1;
    for extent in extents {
        put_varint(out, extent.start - at);
        put_varint(out, extent.units);
        at = extent.end();
    }
}

/// Reads what [`encode_extents`] wrote for a file of `end` units.
///
/// # Errors
/// [`Malformed`] when the extents do not ascend, touch, or leave the file.
pub fn decode_extents(bytes: &[u8], end: u64) -> Result<Vec<Extent>, Malformed> {
    let mut decoder = Decoder::new(bytes);
    let count = decoder.varint()?;
    let mut extents = Vec::with_capacity(usize_of(count).min(bytes.len()));
    let mut at = 1u64;
    for i in 0..count {
        let (gap, units) = (decoder.varint()?, decoder.varint()?);
        let start = at.checked_add(gap).ok_or(Malformed)?;
        at = start.checked_add(units).ok_or(Malformed)?;
        if units == 0 || at > end || (gap == 0 && i > 0) {
            return Err(Malformed);
        }
        extents.push(Extent { start, units });
    }
    if decoder.rest().iter().all(|byte| *byte == 0) { Ok(extents) } else { Err(Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, units: u64) -> Extent {
        Extent { start, units }
    }

    #[test]
    fn released_neighbours_become_one_extent() {
        let mut map = SpaceMap::new(1, &[]);
        map.grow(9);
        let all = map.allocate(9, true).unwrap();
        assert_eq!((all, map.free_units()), (extent(1, 9), 0));
        for start in [1, 3, 2, 9, 8, 4, 5, 6, 7] {
            map.release(extent(start, 1));
        }
        assert_eq!(map.unreachable(&[]), Ok(vec![extent(1, 9)]));
    }

    #[test]
    #[should_panic(expected = "is free already")]
    fn a_unit_cannot_be_released_twice() {
        let mut map = SpaceMap::new(10, &[extent(2, 4)]);
        map.release(extent(5, 2));
    }

    #[test]
    fn a_stretch_is_taken_at_the_lowest_offset_that_has_one() {
        let free = [extent(1, 20), extent(100, STRETCH_UNITS + 5), extent(1000, 4 * STRETCH_UNITS)];
        let mut map = SpaceMap::new(10_000, &free);
        assert_eq!(map.allocate(1, false), Some(extent(100, STRETCH_UNITS)));
        assert_eq!(map.allocate(1, false), Some(extent(1000, STRETCH_UNITS)));
    }

    #[test]
    fn holes_are_filled_once_they_are_a_part_of_the_file() {
        let mut map = SpaceMap::new(100, &[extent(1, 3), extent(10, 9)]);
        assert_eq!(map.allocate(1, false), None);
        assert_eq!(map.allocate(2, true), Some(extent(10, 9)));
        let mut map = SpaceMap::new(100, &[extent(1, 3), extent(10, 10)]);
        assert_eq!(map.allocate(2, false), Some(extent(10, 10)));
        assert_eq!(map.allocate(2, true), Some(extent(1, 3)));
        assert_eq!(map.allocate(1, true), None);
    }

    #[test]
    fn more_than_a_stretch_is_taken_in_one_extent() {
        let mut map = SpaceMap::new(10_000, &[extent(1, 1000), extent(2000, 3000)]);
        assert_eq!(map.allocate(2500, false), Some(extent(2000, 2500)));
        assert_eq!(map.allocate(2500, true), None);
    }

    #[test]
    fn a_unit_stays_pending_until_its_last_reader_left() {
        let mut map = SpaceMap::new(100, &[]);
        map.free_after(5, vec![extent(7, 1)]);
        map.free_after(6, vec![extent(9, 2)]);
        map.reclaim(4);
        assert_eq!(map.allocate(1, true), None);
        assert_eq!(map.unreachable(&[extent(8, 1)]), Ok(vec![extent(7, 4)]));
        for wrong in [extent(7, 1), extent(10, 3), extent(0, 1), extent(99, 2)] {
            assert_eq!(map.unreachable(&[wrong]), Err(Malformed), "{wrong:?}");
        }
        map.reclaim(5);
        assert_eq!(map.free_units(), 1);
        map.reclaim(6);
        assert_eq!(map.free_units(), 3);
    }

    #[test]
    fn what_no_reader_reaches_is_free_though_an_older_reader_is_there() {
        let mut map = SpaceMap::new(100, &[]);
        map.free_after(5, vec![extent(7, 1)]);
        map.free_after(6, vec![extent(9, 2), extent(20, 3)]);
        map.free_after(7, vec![extent(12, 1)]);
        map.reclaim_unreached(|generation, extent| generation == 5 || extent.start == 20);
        assert_eq!((map.free_units(), map.pending().collect::<Vec<_>>()), (3, vec![5, 6]));
        map.reclaim(6);
        assert_eq!(map.free_units(), 7);
    }

    #[test]
    fn only_a_large_free_tail_is_cut() {
        let mut map = SpaceMap::new(2000, &[extent(1, 1000), extent(1700, 300)]);
        assert_eq!(map.cut_tail(), None);
        map.release(extent(1200, 500));
        assert_eq!((map.cut_tail(), map.end()), (Some(extent(1200, 800)), 1200));
        assert_eq!(map.cut_tail(), None);
    }

    #[test]
    fn stored_extents_round_trip_and_reject_what_cannot_be() {
        let mut bytes = Vec::new();
        encode_extents(&[extent(1, 3), extent(10, 90)], &mut bytes);
        assert_eq!(decode_extents(&bytes, 100), Ok(vec![extent(1, 3), extent(10, 90)]));
        assert_eq!(decode_extents(&bytes, 99), Err(Malformed));
        assert_eq!(decode_extents(&[2, 0, 3, 0, 4], 100), Err(Malformed));
        assert_eq!(decode_extents(&[1, 5, 0], 100), Err(Malformed));
        assert_eq!(decode_extents(&[0, 0], 100), Ok(vec![]));
        assert_eq!(decode_extents(&[0, 1], 100), Err(Malformed));
    }

    #[test]
    fn random_use_never_gives_a_unit_out_twice() {
        let mut map = SpaceMap::new(1, &[]);
        let (mut held, mut random) = (Vec::<Extent>::new(), 7u64);
        for _ in 0..5000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = random >> 40;
            if pick.is_multiple_of(2) && !held.is_empty() {
                map.release(held.swap_remove(usize_of(pick / 2) % held.len()));
            } else {
                let units = 1 + pick % 40;
                let taken = map.allocate(units, pick.is_multiple_of(3)).unwrap_or_else(|| {
                    map.grow(units.max(64));
                    map.allocate(units, true).unwrap()
                });
                if taken.units > units {
                    map.release(extent(taken.start + units, taken.units - units));
                }
                held.push(extent(taken.start, units));
            }
            let mut all = map.unreachable(&held).unwrap();
            assert_eq!((all.pop(), all.pop()), (Some(extent(1, map.end() - 1)), None));
        }
    }
}
