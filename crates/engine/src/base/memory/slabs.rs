//! Pieces of huge pages, for images of blocks.
//!
//! A cached block is looked at at places that cannot be foreseen: on small pages nearly each look walks the page table,
//! which takes as long as a line of memory. So images do not lie in the allocator's memory but in *regions* of one huge
//! page each. A region is divided into [`SLABS`] slabs, and a slab that is in use into as many equal pieces as fit,
//! given the size of the first (Bonwick: "The Slab Allocator: An Object-Caching Kernel Memory Allocator", USENIX 1994).
//! A slab is a little longer than 64 KiB, so that blocks of 4, 8, 16, 32 and 64 KiB, which as images are a little
//! longer than that, waste 3 % of it; what would waste more than an eighth stays with the allocator. Nor are the pieces
//! powers of two, since the fronts of blocks, which every search looks at, would then fall into few sets of the
//! processor's caches.
//!
//! A region goes back to the system when nothing in it is in use. A cache that shrinks, or whose blocks change their
//! sizes, would leave few pieces in each of many regions. So the emptiest regions are *drained* while more is mapped
//! than the pieces in use explain ([`Slabs::drain`]): nothing new is put there, the cache copies its blocks from there
//! to other regions, and a region is unmapped when its last piece is given back (as Redis's active defragmentation
//! empties slabs of jemalloc). Where free memory is wanted before that, a region is no longer drained.
//!
//! # Invariants
//! 1. Of a slab that is divided into `pieces`, the bits of `free` are those that are not taken. A slab of no `pieces`
//!    is whole, and no piece of it is taken.
//! 2. A slab of a mapped region that is not being drained is in list `pieces` while it has a free piece or is whole;
//!    all others are in none.
//! 3. At most one region has all its slabs whole, and it is not being drained: it may be wanted again soon.
//! 4. `taken` of a region is the bytes of its pieces that are taken, and `taken` of all regions is their sum.

use std::ops::Range;
use std::ptr::NonNull;

use super::pages::{self, HUGE_PAGE_BYTES};
use crate::base::intrusive_list::{Index, Linked, Links, List, NONE, at};
use crate::base::num::{u32_of, usize_of32};
use crate::base::prefetch::CACHE_LINE_BYTES;

/// Slabs in a region.
pub(super) const SLABS: usize = 31;
/// Length of a slab: 66 KiB.
pub(super) const SLAB_BYTES: usize = 66 << 10;
/// The most pieces in a slab.
const PIECES_MAX: usize = 64;
/// The part of the memory that may be wasted.
const WASTE_PART: usize = 8;
/// What may be mapped beyond the pieces in use: this part (1/16) of them, and so many regions.
const SPARE_PART: usize = 16;
const SPARE_REGIONS: usize = 2;
/// The largest number of regions that a call of [`Slabs::drain`] adds.
const DRAINED_MAX: usize = 16;

const _: () = assert!(SLABS * SLAB_BYTES <= HUGE_PAGE_BYTES && SLAB_BYTES.is_multiple_of(CACHE_LINE_BYTES));

/// Regions, and what is in use of them.
#[derive(Debug)]
pub(super) struct Slabs {
    /// A region that was unmapped leaves its place to the next.
    regions: Vec<Option<Region>>,
    /// Those places.
    vacant: Vec<usize>,
    /// [`SLABS`] for each place of a region.
    slabs: Vec<Slab>,
    /// The slabs with something free, by the number of their pieces; the whole ones first.
    lists: [List<0>; PIECES_MAX + 1],
    /// Regions all whose slabs are whole.
    unused: usize,
    /// The places of the regions that are being drained; of those that one call added, the emptiest first.
    draining: Vec<usize>,
    /// Bytes of all pieces that are taken.
    taken: usize,
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    pieces: usize,
    free: u64,
    links: Links,
}

impl Slab {
    /// Whether it has a free piece, or is whole.
    const fn is_open(&self) -> bool {
        self.pieces == 0 || self.free > 0
    }
}

impl Linked<0> for Slab {
    fn links(&self) -> Links {
        self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// A huge page, unmapped when it is dropped.
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    /// Slabs that are not whole.
    divided: usize,
    /// Bytes of its pieces that are taken.
    taken: usize,
    is_draining: bool,
}

// SAFETY: a region is memory that belongs to no thread.
unsafe impl Send for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length; the owner that drops the region knows that no thread has any of it.
        unsafe { pages::unmap(self.start, HUGE_PAGE_BYTES) };
    }
}

/// The length of the piece that is taken for `bytes` bytes; `None` where there is no such length.
pub(super) fn piece_for(bytes: usize) -> Option<usize> {
    pieces_of(bytes).map(piece_bytes)
}

/// In how many pieces a slab is divided so that each has at least `bytes`, and not many more; `None` where there is no
/// such number.
pub(super) fn pieces_of(bytes: usize) -> Option<usize> {
    let pieces = SLAB_BYTES / bytes.max(1).next_multiple_of(CACHE_LINE_BYTES);
    ((1..=PIECES_MAX).contains(&pieces) && piece_bytes(pieces) - bytes <= bytes / WASTE_PART).then_some(pieces)
}

/// Length of each piece of a slab: whole cache lines.
const fn piece_bytes(pieces: usize) -> usize {
    SLAB_BYTES / pieces / CACHE_LINE_BYTES * CACHE_LINE_BYTES
}

impl Slabs {
    pub(super) const fn new() -> Self {
        Self {
            regions: Vec::new(),
            vacant: Vec::new(),
            slabs: Vec::new(),
            lists: [List::EMPTY; PIECES_MAX + 1],
            unused: 0,
            draining: Vec::new(),
            taken: 0,
        }
    }

    /// One of the pieces of a slab, as [`pieces_of`] has it, all initialised, and its slab.
    pub(super) fn take(&mut self, pieces: usize) -> (NonNull<u8>, Index) {
        let index = loop {
            match (self.lists[pieces].front(), self.lists[0].front()) {
                (NONE, NONE) => self.add_room(),
                (NONE, whole) => break self.divide(whole, pieces),
                (index, _) => break index,
            }
        };
        let slab = at(&mut self.slabs, index);
        let number = slab.free.trailing_zeros();
        slab.free &= slab.free - 1;
        if slab.free == 0 {
            self.lists[pieces].unlink(&mut self.slabs, index);
        }
        self.taken += piece_bytes(pieces);
        let region = self.region(index);
        region.taken += piece_bytes(pieces);
        let before = usize_of32(index) % SLABS * SLAB_BYTES + usize_of32(number) * piece_bytes(pieces);
        // SAFETY: a region has that many slabs, and a slab that many pieces.
        (unsafe { region.start.add(before) }, index)
    }

    /// Takes back the piece at `start` of a slab, and returns the region if it is not wanted any more: to be dropped
    /// where no thread waits.
    ///
    /// # Safety
    /// [`Self::take`] gave it, and it is not used any more.
    pub(super) unsafe fn give(&mut self, start: NonNull<u8>, index: Index) -> Option<Region> {
        let place = usize_of32(index) / SLABS;
        let slab_start = usize_of32(index) % SLABS * SLAB_BYTES;
        let slab = at(&mut self.slabs, index);
        let pieces = slab.pieces;
        let was_full = slab.free == 0;
        let region = self.regions[place].as_mut().expect("a slab in use has a region");
        let into = start.addr().get() - region.start.addr().get() - slab_start;
        let bit = 1 << (into / piece_bytes(pieces));
        assert!(into.is_multiple_of(piece_bytes(pieces)) && slab.free & bit == 0, "a piece is given back once");
        slab.free |= bit;
        self.taken -= piece_bytes(pieces);
        region.taken -= piece_bytes(pieces);
        let is_draining = region.is_draining;
        let is_whole = slab.free == all(pieces);
        if is_whole {
            (slab.pieces, slab.free) = (0, 0);
            region.divided -= 1;
        }
        if !is_draining && is_whole && !was_full {
            self.lists[pieces].unlink(&mut self.slabs, index);
        }
        if !is_draining && (is_whole || was_full) {
            self.enlist(index);
        }
        if is_whole { self.leave(place) } else { None }
    }

    /// Begins to drain regions, those with the fewest bytes in use first, while more is mapped than the pieces in use
    /// and what may be spare. Adds the addresses of all regions that are being drained to `addresses`.
    pub(super) fn drain(&mut self, addresses: &mut Vec<usize>) {
        let kept = self.taken + self.taken / SPARE_PART + SPARE_REGIONS * HUGE_PAGE_BYTES;
        let mapped = (self.regions.len() - self.vacant.len() - self.draining.len()) * HUGE_PAGE_BYTES;
        let excess = mapped.saturating_sub(kept) / HUGE_PAGE_BYTES;
        if excess > 0 {
            let sparse = |region: &Region| {
                let wasted = HUGE_PAGE_BYTES - region.taken;
                !region.is_draining && region.divided > 0 && wasted > HUGE_PAGE_BYTES / SPARE_PART
            };
            let taken = |(place, region): (usize, &Option<Region>)| {
                region.as_ref().filter(|region| sparse(region)).map(|region| (region.taken, place))
            };
            let mut sparse: Vec<_> = self.regions.iter().enumerate().filter_map(taken).collect();
            sparse.sort_unstable();
            sparse.iter().take(excess.min(DRAINED_MAX)).for_each(|(_, place)| self.start_draining(*place));
        }
        let address = |place: &usize| self.regions[*place].as_ref().map(|region| region.start.addr().get());
        addresses.extend(self.draining.iter().filter_map(address));
    }

    fn start_draining(&mut self, place: usize) {
        for index in slabs_at(place) {
            let slab = *at(&mut self.slabs, index);
            if slab.is_open() {
                self.lists[slab.pieces].unlink(&mut self.slabs, index);
            }
        }
        self.region_at(place).is_draining = true;
        self.draining.push(place);
    }

    /// Adds a region to those that memory is taken from: one that was being drained, or else another.
    fn add_room(&mut self) {
        let Some(place) = self.draining.pop() else { return self.add_region() };
        self.region_at(place).is_draining = false;
        for index in slabs_at(place) {
            if at(&mut self.slabs, index).is_open() {
                self.enlist(index);
            }
        }
    }

    /// Divides a whole slab.
    fn divide(&mut self, index: Index, pieces: usize) -> Index {
        self.lists[0].unlink(&mut self.slabs, index);
        let region = self.region(index);
        region.divided += 1;
        if region.divided == 1 {
            self.unused -= 1;
        }
        let slab = at(&mut self.slabs, index);
        (slab.pieces, slab.free) = (pieces, all(pieces));
        self.enlist(index);
        index
    }

    fn add_region(&mut self) {
        let place = self.vacant.pop().unwrap_or(self.regions.len());
        if place == self.regions.len() {
            self.regions.push(None);
            self.slabs.resize(self.regions.len() * SLABS, Slab { pieces: 0, free: 0, links: Links::UNLINKED });
        }
        let start = pages::map(HUGE_PAGE_BYTES);
        self.regions[place] = Some(Region { start, divided: 0, taken: 0, is_draining: false });
        self.unused += 1;
        slabs_at(place).for_each(|index| self.enlist(index));
    }

    /// A slab of the region at `place` became whole.
    fn leave(&mut self, place: usize) -> Option<Region> {
        let &mut Region { divided, is_draining, .. } = self.region_at(place);
        if divided > 0 {
            return None;
        }
        if is_draining {
            self.draining.retain(|other| *other != place);
        } else if self.unused == 0 {
            self.unused = 1;
            return None;
        } else {
            slabs_at(place).for_each(|index| self.lists[0].unlink(&mut self.slabs, index));
        }
        self.vacant.push(place);
        self.regions[place].take()
    }

    /// Puts a slab into the list of its kind.
    fn enlist(&mut self, index: Index) {
        let pieces = at(&mut self.slabs, index).pieces;
        self.lists[pieces].push_front(&mut self.slabs, index);
    }

    fn region(&mut self, index: Index) -> &mut Region {
        self.region_at(usize_of32(index) / SLABS)
    }

    fn region_at(&mut self, place: usize) -> &mut Region {
        self.regions[place].as_mut().expect("a slab in use or in a list has a region")
    }
}

/// The slabs of the region at a place.
fn slabs_at(place: usize) -> Range<Index> {
    u32_of(place * SLABS)..u32_of((place + 1) * SLABS)
}

/// The bits of `pieces` pieces.
const fn all(pieces: usize) -> u64 {
    u64::MAX >> (PIECES_MAX - pieces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const STEPS: usize = if cfg!(miri) { 10 } else { 400 };

    impl Slabs {
        /// Checks the invariants of the header.
        fn verify(&self) {
            let (mut unused, mut taken, mut open) = (0, 0, [0; PIECES_MAX + 1]);
            for (place, region) in self.regions.iter().enumerate() {
                let slabs = &self.slabs[place * SLABS..][..SLABS];
                let Some(region) = region else { continue };
                assert_eq!(slabs.iter().filter(|slab| slab.pieces > 0).count(), region.divided);
                assert!(slabs.iter().all(|slab| slab.pieces > 0 || slab.free == 0));
                let taken_of = |slab: &Slab| match slab.pieces {
                    0 => 0,
                    pieces => (all(pieces) & !slab.free).count_ones() as usize * piece_bytes(pieces),
                };
                assert_eq!(slabs.iter().map(taken_of).sum::<usize>(), region.taken);
                assert_eq!(region.is_draining, self.draining.contains(&place));
                assert!(!region.is_draining || region.divided > 0);
                if !region.is_draining {
                    slabs.iter().filter(|slab| slab.is_open()).for_each(|slab| open[slab.pieces] += 1);
                }
                unused += usize::from(region.divided == 0);
                taken += region.taken;
            }
            assert_eq!((unused, taken), (self.unused, self.taken));
            assert!(unused <= 1);
            for (pieces, list) in self.lists.iter().enumerate() {
                let is_right = |slab: &&Slab| {
                    slab.pieces == pieces && (pieces == 0 || slab.free & !all(pieces) == 0 && slab.free > 0)
                };
                let listed = list.iter(&self.slabs).inspect(|slab| assert!(is_right(slab))).count();
                assert_eq!(listed, open[pieces], "{pieces} pieces");
            }
        }

        fn mapped_bytes(&self) -> usize {
            self.regions.iter().flatten().count() * HUGE_PAGE_BYTES
        }
    }

    #[test]
    fn a_piece_is_as_long_as_was_asked_for_and_blocks_waste_little() {
        for bytes in (1..=SLAB_BYTES).step_by(if cfg!(miri) { 97 } else { 1 }) {
            let Some(pieces) = pieces_of(bytes) else {
                let wasted = (bytes > SLAB_BYTES / (PIECES_MAX + 1))
                    .then(|| piece_bytes(SLAB_BYTES / bytes.next_multiple_of(CACHE_LINE_BYTES)) - bytes);
                assert!(wasted.is_none_or(|wasted| wasted > bytes / WASTE_PART), "{bytes}");
                continue;
            };
            assert!(piece_bytes(pieces) >= bytes && pieces * piece_bytes(pieces) <= SLAB_BYTES, "{bytes}");
        }
        assert_eq!((pieces_of(SLAB_BYTES + 1), pieces_of(40_000)), (None, None));
        for block in [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10] {
            let taken = piece_for(block + block / 64).unwrap();
            assert!(taken <= block + block / 32 + CACHE_LINE_BYTES, "{block} {taken}");
        }
    }

    #[test]
    fn memory_goes_back_to_the_system_but_for_one_region() {
        let mut slabs = Slabs::new();
        let taken: Vec<_> = (0..3 * SLABS).map(|_| slabs.take(1)).collect();
        slabs.verify();
        // SAFETY: here and below, they were taken, and only this test has them.
        let returned = taken.iter().filter_map(|(start, slab)| unsafe { slabs.give(*start, *slab) }).count();
        slabs.verify();
        assert_eq!((returned, slabs.regions.iter().flatten().count()), (2, 1));
        // The places of those that are gone are used again.
        let again: Vec<_> = (0..3 * SLABS).map(|_| slabs.take(pieces_of(8 << 10).unwrap())).collect();
        slabs.verify();
        assert_eq!(slabs.regions.len(), 3);
        // SAFETY: as above.
        again.iter().for_each(|(start, slab)| drop(unsafe { slabs.give(*start, *slab) }));
    }

    #[test]
    fn a_slab_of_any_number_of_pieces_is_filled_and_made_whole_again() {
        for bytes in (1..=PIECES_MAX).step_by(if cfg!(miri) { 20 } else { 1 }).map(piece_bytes) {
            let Some(pieces) = pieces_of(bytes) else { continue };
            let mut slabs = Slabs::new();
            let taken: Vec<_> = (0..=pieces).map(|_| slabs.take(pieces)).collect();
            slabs.verify();
            assert!(taken[..pieces].iter().all(|piece| piece.1 == taken[0].1) && taken[pieces].1 != taken[0].1);
            let (front, back) = taken.split_at(pieces / 2);
            for (start, slab) in front.iter().chain(back.iter().rev()) {
                // SAFETY: it was taken, and is held no more.
                drop(unsafe { slabs.give(*start, *slab) });
                slabs.verify();
            }
            assert_eq!(slabs.unused, 1);
        }
    }

    /// Pieces that a test holds.
    #[derive(Default)]
    struct Held(Vec<(NonNull<u8>, Index, usize)>);

    impl Held {
        fn take(&mut self, slabs: &mut Slabs, pieces: usize) {
            let (start, slab) = slabs.take(pieces);
            self.0.push((start, slab, pieces));
        }

        /// Gives back the pieces whose numbers are not `kept`.
        fn retain(&mut self, slabs: &mut Slabs, kept: impl Fn(usize) -> bool) {
            let all = std::mem::take(&mut self.0).into_iter().enumerate();
            let (kept, given): (Vec<_>, Vec<_>) = all.partition(|(number, _)| kept(*number));
            self.0 = kept.into_iter().map(|(_, piece)| piece).collect();
            // SAFETY: they were taken, and are held no more.
            given.iter().for_each(|(_, (start, slab, _))| drop(unsafe { slabs.give(*start, *slab) }));
        }

        /// Takes others for the pieces that are to be moved, as the cache does, but for those that `stay`.
        fn move_out(&mut self, slabs: &mut Slabs, stays: impl Fn(usize) -> bool) -> usize {
            let mut draining = Vec::new();
            slabs.drain(&mut draining);
            let is_in = |start: NonNull<u8>| draining.contains(&(start.addr().get() & !(HUGE_PAGE_BYTES - 1)));
            let moved: Vec<_> =
                (0..self.0.len()).filter(|number| is_in(self.0[*number].0) && !stays(*number)).collect();
            for number in &moved {
                let (start, slab, pieces) = self.0[*number];
                let (to, to_slab) = slabs.take(pieces);
                self.0[*number] = (to, to_slab, pieces);
                // SAFETY: it was taken, and is held no more.
                drop(unsafe { slabs.give(start, slab) });
            }
            slabs.verify();
            moved.len()
        }
    }

    /// Without draining, 24 regions stayed for the blocks of three.
    #[test]
    fn a_cache_that_shrinks_gives_its_memory_back_and_moves_each_block_but_once() {
        let (mut slabs, mut held) = (Slabs::new(), Held::default());
        let (old, new) = (pieces_of(8200).unwrap(), pieces_of(16_400).unwrap());
        (0..24 * SLABS * old).for_each(|_| held.take(&mut slabs, old));
        held.retain(&mut slabs, |number| number % 8 == 3);
        assert_eq!(slabs.mapped_bytes(), 24 * HUGE_PAGE_BYTES);
        let few = held.0.len();
        let moved: usize = (0..4).map(|_| held.move_out(&mut slabs, |_| false)).sum();
        let is_tight = |slabs: &Slabs| slabs.mapped_bytes() <= slabs.taken * 17 / 16 + 3 * HUGE_PAGE_BYTES;
        assert!(is_tight(&slabs) && moved <= few, "{} {moved}", slabs.mapped_bytes());
        // Blocks of another size come, and most of the first go.
        (0..8 * SLABS * new).for_each(|_| held.take(&mut slabs, new));
        held.retain(&mut slabs, |number| number < few / 8 || number % 3 == 0);
        (0..4).for_each(|_| _ = held.move_out(&mut slabs, |_| false));
        assert!(is_tight(&slabs), "{}", slabs.mapped_bytes());
        assert_eq!(held.move_out(&mut slabs, |_| false), 0, "there is an end to it");
        held.retain(&mut slabs, |_| false);
        slabs.verify();
        assert!(slabs.mapped_bytes() <= HUGE_PAGE_BYTES && slabs.draining.is_empty());
    }

    #[test]
    fn memory_that_is_drained_is_taken_before_more_is_mapped() {
        let (mut slabs, mut held) = (Slabs::new(), Held::default());
        (0..12 * SLABS).for_each(|_| held.take(&mut slabs, 1));
        held.retain(&mut slabs, |number| number % SLABS == 0);
        held.move_out(&mut slabs, |_| true);
        assert!(slabs.draining.len() >= 8);
        let taken = slabs.taken;
        (taken / SLAB_BYTES..12 * SLABS).for_each(|_| held.take(&mut slabs, 1));
        slabs.verify();
        assert!(slabs.draining.is_empty() && slabs.mapped_bytes() == 12 * HUGE_PAGE_BYTES);
        held.retain(&mut slabs, |_| false);
    }

    proptest! {
        /// Whatever is taken and given back in whatever order: nobody's bytes are another's.
        #[test]
        fn pieces_do_not_overlap(steps in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![1..70_000usize, 1030..1060usize, Just(8200)], 0..4u8), 1..STEPS)) {
            let mut slabs = Slabs::new();
            let mut held: BTreeMap<usize, (NonNull<u8>, Index, usize)> = BTreeMap::new();
            for (which, bytes, what) in steps {
                if what == 0 && !held.is_empty() {
                    let at = *held.keys().nth(which.index(held.len())).unwrap();
                    let (start, slab, _) = held.remove(&at).unwrap();
                    // SAFETY: it was taken, and is held no more.
                    drop(unsafe { slabs.give(start, slab) });
                } else if what == 1 {
                    let place = which.index(slabs.regions.len().max(1));
                    let region = slabs.regions.get(place).and_then(Option::as_ref);
                    if region.is_some_and(|region| !region.is_draining && region.divided > 0) {
                        slabs.start_draining(place);
                    }
                } else if let Some(pieces) = pieces_of(bytes) {
                    let (start, slab) = slabs.take(pieces);
                    let (at, len) = (start.addr().get(), piece_bytes(pieces));
                    prop_assert!(at.is_multiple_of(CACHE_LINE_BYTES));
                    prop_assert!(held.range(..=at).next_back().is_none_or(|(before, (_, _, len))| before + len <= at));
                    prop_assert!(held.range(at..).next().is_none_or(|(behind, _)| at + len <= *behind));
                    // SAFETY: the piece is this test's, and so long.
                    unsafe { start.write_bytes(7, len) };
                    held.insert(at, (start, slab, len));
                }
                slabs.verify();
            }
            // SAFETY: as above.
            held.values().for_each(|(start, slab, _)| drop(unsafe { slabs.give(*start, *slab) }));
            slabs.verify();
        }
    }
}
