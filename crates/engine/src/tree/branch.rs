//! The branches that a tree keeps in memory, with the swips of the blocks below them.
//!
//! A lookup in the cache waits for the line that knows of a block, and only then for the block. Branches that their
//! tree keeps, each from its first use on and as long as there is room, are found by their places in the branch above.
//! One that is right above leaves has their pointers, and their swips: those of them that are read often are found
//! there without the cache.
//!
//! # Invariants
//! 1. A kept branch is the block that the pointer at its place in the branch above names. Its tree never changes.
//! 2. A leaf in a swip is the block that the pointer at its place names.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::base::codec::{Decoder, Malformed};
use crate::base::num::u64_of;
use crate::base::prefetch::prefetch;
use crate::base::sync::AtomicU64;
use crate::block::{Block, BlockPointer, Swip};
use crate::cache::{Cache, SwipOf, Swips};

/// A branch in memory, and what is known of its children.
#[derive(Debug)]
pub struct Branch {
    block: Block,
    children: Children,
}

#[derive(Debug)]
enum Children {
    Branches(Box<[OnceLock<Branch>]>),
    /// In two rows: a reader waits for the swip first, and all swips together are few lines of memory.
    Leaves {
        swips: Arc<Swips>,
        pointers: Box<[BlockPointer]>,
    },
}

impl Branch {
    /// A branch that lies `height` levels above the leaves, of whose children nothing is known yet but where they lie.
    ///
    /// # Errors
    /// [`Malformed`] when an entry right above the leaves is no pointer.
    pub fn new(block: Block, height: u32) -> Result<Self, Malformed> {
        let places = 0..block.count();
        let children = match height {
            1 => Children::Leaves {
                swips: Arc::new(Swips::new(block.count())),
                pointers: places.map(|i| pointer(&block, i)).collect::<Result<_, _>>()?,
            },
            _ => Children::Branches(places.map(|_| OnceLock::new()).collect()),
        };
        Ok(Self { block: block.in_pinned_memory(), children })
    }

    /// Its block.
    #[inline]
    #[must_use]
    pub const fn block(&self) -> &Block {
        &self.block
    }

    /// Child `i`, if it is a branch that is kept.
    #[inline]
    #[must_use]
    pub fn child(&self, i: usize) -> Option<&Self> {
        match &self.children {
            Children::Branches(branches) => branches.get(i)?.get(),
            Children::Leaves { .. } => None,
        }
    }

    /// What is known of child `i`, if it is a leaf.
    #[inline]
    #[must_use]
    pub fn trace(&self, i: usize) -> Option<Trace<'_>> {
        match &self.children {
            Children::Branches(_) => None,
            Children::Leaves { swips, pointers } => {
                Some(Trace { swip: SwipOf::new(swips, i)?, pointer: pointers.get(i)? })
            }
        }
    }

    /// Keeps `child` as child `i`, a branch that lies `height` levels above the leaves, if there is room.
    pub fn pin(&self, i: usize, child: &Block, height: u32, reservation: &CacheReservation) -> Option<&Self> {
        let Children::Branches(branches) = &self.children else { return None };
        let leaf_bytes = size_of::<Swip>() + size_of::<BlockPointer>();
        let below = if height == 1 { leaf_bytes } else { size_of::<OnceLock<Self>>() };
        let bytes = child.memory_bytes() + child.count() * below;
        reservation.pin(branches.get(i)?, bytes, || Self::new(child.clone(), height).ok())
    }
}

/// The pointer in entry `i` of a branch.
///
/// # Errors
/// [`Malformed`] when it is none, or the branch, which may have been read again, has no entry `i`.
#[inline]
pub fn pointer(branch: &Block, i: usize) -> Result<BlockPointer, Malformed> {
    if i >= branch.count() {
        return Err(Malformed);
    }
    let mut decoder = Decoder::new(branch.value(i));
    let pointer = BlockPointer::decode(&mut decoder)?;
    if decoder.is_empty() { Ok(pointer) } else { Err(Malformed) }
}

/// The position of a leaf in its file, and its swip.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'b> {
    /// The swip that may hold the leaf.
    pub swip: SwipOf<'b>,
    /// Where the leaf lies in its file.
    pub pointer: &'b BlockPointer,
}

impl<'b> Trace<'b> {
    /// Prefetches the swip and the position.
    #[inline]
    pub fn prefetch(self) {
        self.swip.prefetch();
        prefetch(std::ptr::from_ref(self.pointer).cast(), size_of::<BlockPointer>());
    }
}

/// The memory for pinned blocks that the cache has granted to one tree; given back when the tree is
/// dropped.
#[derive(Debug)]
pub struct CacheReservation {
    cache: Arc<Cache>,
    taken: AtomicU64,
}

impl CacheReservation {
    /// Nothing reserved yet.
    #[must_use]
    pub fn new(cache: &Arc<Cache>) -> Self {
        Self { cache: Arc::clone(cache), taken: AtomicU64::new(0) }
    }

    /// Reserves `bytes` bytes; false when the cache does not grant them.
    #[must_use]
    pub fn reserve(&self, bytes: u64) -> bool {
        let taken = self.cache.reserve(bytes);
        if taken {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }

    /// What is kept at a place: what was there, or what `make` makes, with `bytes` bytes, if the cache grants them and
    /// it does.
    pub fn pin<'p, T>(&self, place: &'p OnceLock<T>, bytes: usize, make: impl FnOnce() -> Option<T>) -> Option<&'p T> {
        if let Some(kept) = place.get() {
            return Some(kept);
        }
        let bytes = u64_of(bytes);
        if !self.cache.reserve(bytes) {
            return None;
        }
        let Some(made) = make() else {
            self.cache.release(bytes);
            return None;
        };
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        // Another reader may have come first since; then the memory is reserved twice, which is rare, and given back
        // with the rest.
        Some(place.get_or_init(|| made))
    }
}

impl Drop for CacheReservation {
    fn drop(&mut self) {
        self.cache.release(self.taken.load(Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::memory::Image;
    use crate::base::{Entry, Kind, SeqNum};
    use crate::block::{BlockBuilder, BlockKind};

    /// A view remembers numbers of entries, and the branch may be another one when it is read again.
    #[test]
    fn an_entry_that_is_not_there_is_no_pointer() {
        let mut builder = BlockBuilder::new(BlockKind::Branch);
        let pointer = BlockPointer { offset: 4096, bytes: 512, checksum: 1 };
        let value = pointer.encode();
        builder.push(&Entry { key: b"key", seqnum: SeqNum::ZERO, kind: Kind::Put, value: &value });
        let branch = Block::parse(Image::from(&*builder.finish())).unwrap();
        assert_eq!(super::pointer(&branch, 0), Ok(pointer));
        assert!(super::pointer(&branch, 1).is_err());
    }

    /// A block that is no branch was pinned again by each lookup, and reserved memory each time.
    #[test]
    fn nothing_made_takes_no_room() {
        let cache = Arc::new(Cache::new(32 << 10));
        let reservation = CacheReservation::new(&cache);
        let place = OnceLock::<u8>::new();
        (0..3).for_each(|_| assert!(reservation.pin(&place, 1 << 10, || None).is_none()));
        assert_eq!(reservation.pin(&place, 1 << 10, || Some(7)), Some(&7));
        assert!(!cache.reserve(1), "all of it is taken");
        drop(reservation);
        assert!(cache.reserve(1 << 10));
    }
}
