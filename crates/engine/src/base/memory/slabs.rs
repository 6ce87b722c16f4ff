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
//! A region goes back to the system when nothing in it is in use. So, as a heap does, a cache that shrinks keeps memory
//! that only blocks of the same sizes can use again.
//!
//! # Invariants
//! 1. Of a slab that is divided into `pieces`, the bits of `free` are those that are not taken. A slab of no `pieces`
//!    is whole, and no piece of it is taken.
//! 2. A slab of a mapped region is in list `pieces` while it has a free piece or is whole; all others are in none.
//! 3. At most one region has all its slabs whole: it may be wanted again soon.

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
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    pieces: usize,
    free: u64,
    links: Links,
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
        }
    }

    /// One of the pieces of a slab, as [`pieces_of`] has it, all initialised, and its slab.
    pub(super) fn take(&mut self, pieces: usize) -> (NonNull<u8>, Index) {
        let index = match self.lists[pieces].front() {
            NONE => self.divide(pieces),
            index => index,
        };
        let slab = at(&mut self.slabs, index);
        let number = slab.free.trailing_zeros();
        slab.free &= slab.free - 1;
        if slab.free == 0 {
            self.lists[pieces].unlink(&mut self.slabs, index);
        }
        let before = usize_of32(number) * piece_bytes(pieces);
        // SAFETY: a slab has that many pieces.
        (unsafe { self.start(index).add(before) }, index)
    }

    /// Takes back the piece at `start` of a slab, and returns the region if it is not wanted any more: to be dropped
    /// where no thread waits.
    ///
    /// # Safety
    /// [`Self::take`] gave it, and it is not used any more.
    pub(super) unsafe fn give(&mut self, start: NonNull<u8>, index: Index) -> Option<Region> {
        let into = start.addr().get() - self.start(index).addr().get();
        let slab = at(&mut self.slabs, index);
        let pieces = slab.pieces;
        let was_full = slab.free == 0;
        let bit = 1 << (into / piece_bytes(pieces));
        assert!(into.is_multiple_of(piece_bytes(pieces)) && slab.free & bit == 0, "a piece is given back once");
        slab.free |= bit;
        if slab.free == all(pieces) {
            (slab.pieces, slab.free) = (0, 0);
            if !was_full {
                self.lists[pieces].unlink(&mut self.slabs, index);
            }
            self.lists[0].push_front(&mut self.slabs, index);
            return self.leave(usize_of32(index) / SLABS);
        }
        if was_full {
            self.lists[pieces].push_front(&mut self.slabs, index);
        }
        None
    }

    /// Divides a whole slab.
    fn divide(&mut self, pieces: usize) -> Index {
        if self.lists[0].front() == NONE {
            self.add_region();
        }
        let index = self.lists[0].front();
        self.lists[0].unlink(&mut self.slabs, index);
        let region = self.region(index);
        region.divided += 1;
        if region.divided == 1 {
            self.unused -= 1;
        }
        let slab = at(&mut self.slabs, index);
        (slab.pieces, slab.free) = (pieces, all(pieces));
        self.lists[pieces].push_front(&mut self.slabs, index);
        index
    }

    fn add_region(&mut self) {
        let place = self.vacant.pop().unwrap_or(self.regions.len());
        if place == self.regions.len() {
            self.regions.push(None);
            self.slabs.resize(self.regions.len() * SLABS, Slab { pieces: 0, free: 0, links: Links::UNLINKED });
        }
        self.regions[place] = Some(Region { start: pages::map(HUGE_PAGE_BYTES), divided: 0 });
        self.unused += 1;
        for index in place * SLABS..(place + 1) * SLABS {
            self.lists[0].push_front(&mut self.slabs, u32_of(index));
        }
    }

    /// A slab of the region at `place` became whole.
    fn leave(&mut self, place: usize) -> Option<Region> {
        let region = self.regions[place].as_mut().expect("a slab in use has a region");
        region.divided -= 1;
        if region.divided > 0 {
            return None;
        }
        if self.unused == 0 {
            self.unused = 1;
            return None;
        }
        for index in place * SLABS..(place + 1) * SLABS {
            self.lists[0].unlink(&mut self.slabs, u32_of(index));
        }
        self.vacant.push(place);
        self.regions[place].take()
    }

    fn region(&mut self, index: Index) -> &mut Region {
        self.regions[usize_of32(index) / SLABS].as_mut().expect("a slab in a list has a region")
    }

    /// Where a slab begins.
    fn start(&mut self, index: Index) -> NonNull<u8> {
        let start = self.region(index).start;
        // SAFETY: a region has that many slabs.
        unsafe { start.add(usize_of32(index) % SLABS * SLAB_BYTES) }
    }
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
            let mut unused = 0;
            for (place, region) in self.regions.iter().enumerate() {
                let slabs = &self.slabs[place * SLABS..][..SLABS];
                let Some(region) = region else { continue };
                assert_eq!(slabs.iter().filter(|slab| slab.pieces > 0).count(), region.divided);
                assert!(slabs.iter().all(|slab| slab.pieces > 0 || slab.free == 0));
                unused += usize::from(region.divided == 0);
            }
            assert_eq!(unused, self.unused);
            assert!(unused <= 1);
            let mapped = self.regions.iter().flatten().count();
            for (pieces, list) in self.lists.iter().enumerate() {
                let is_right = |slab: &&Slab| {
                    slab.pieces == pieces && (pieces == 0 || slab.free & !all(pieces) == 0 && slab.free > 0)
                };
                let listed = list.iter(&self.slabs).inspect(|slab| assert!(is_right(slab))).count();
                let is_free = |slab: &&Slab| slab.pieces == pieces && slab.free > 0;
                let free = match pieces {
                    0 => mapped * SLABS - self.regions.iter().flatten().map(|region| region.divided).sum::<usize>(),
                    _ => self.slabs.iter().filter(is_free).count(),
                };
                assert_eq!(listed, free, "{pieces} pieces");
            }
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

    proptest! {
        /// Whatever is taken and given back in whatever order: nobody's bytes are another's.
        #[test]
        fn pieces_do_not_overlap(steps in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![1..70_000usize, 1030..1060usize, Just(8200)], 0..3u8), 1..STEPS)) {
            let mut slabs = Slabs::new();
            let mut held: BTreeMap<usize, (NonNull<u8>, Index, usize)> = BTreeMap::new();
            for (which, bytes, what) in steps {
                if what == 0 && !held.is_empty() {
                    let at = *held.keys().nth(which.index(held.len())).unwrap();
                    let (start, slab, _) = held.remove(&at).unwrap();
                    // SAFETY: it was taken, and is held no more.
                    drop(unsafe { slabs.give(start, slab) });
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
