//! Swips in branches to the leaves below them: a read that finds its leaf by a swip needs neither the latch nor the
//! line of a shard.
//!
//! A shard puts a block into the swip that a reader came by, once the block has been read often enough to be worth it,
//! and takes it out again when the block leaves the cache. Reads by a swip are counted in it, and asked for when the
//! shard looks for what to evict.

use std::sync::{Arc, Weak};

use super::shard::{Shared, Swizzle};
use crate::base::num::{u32_of, usize_of32};
use crate::base::prefetch::prefetch;
use crate::block::{Block, Swip};

/// The swips of the leaves below one branch, by their numbers there.
#[derive(Debug)]
pub struct Swips(Box<[Swip]>);

impl Swips {
    /// Empty ones for `count` leaves.
    #[must_use]
    pub fn new(count: usize) -> Self {
        Self((0..count).map(|_| Swip::default()).collect())
    }
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct SwipOf<'s> {
    swips: &'s Arc<Swips>,
    at: usize,
}

impl<'s> SwipOf<'s> {
    /// The swip of leaf `at`, which must be one of them.
    #[inline]
    #[must_use]
    pub fn new(swips: &'s Arc<Swips>, at: usize) -> Option<Self> {
        (at < swips.0.len()).then_some(Self { swips, at })
    }

    /// Asks for the memory of the swip itself.
    #[inline]
    pub fn prefetch(self) {
        prefetch((&raw const *self.swip()).cast(), size_of::<Swip>());
    }

    /// Prefetches the memory that every access to the leaf reads first; false when the swip does not hold the leaf.
    #[inline]
    #[must_use]
    pub fn follow(self) -> bool {
        self.swip().prefetch_front()
    }

    /// Whether the swip holds the leaf.
    #[inline]
    pub(super) fn is_full(self) -> bool {
        self.swip().is_full()
    }

    /// The leaf, if the swip holds it.
    #[inline]
    pub(super) fn get(self) -> Option<Block> {
        self.swip().get()
    }

    /// For the shard to find it again as long as its branch is there.
    pub(super) fn downgrade(self) -> WeakSwip {
        WeakSwip { swips: Arc::downgrade(self.swips), at: u32_of(self.at) }
    }

    #[inline]
    fn swip(self) -> &'s Swip {
        &self.swips.0[self.at]
    }
}

/// A swip that a shard filled. The branch may be gone, and the swip with it.
#[derive(Debug)]
pub(super) struct WeakSwip {
    swips: Weak<Swips>,
    at: u32,
}

impl PartialEq for WeakSwip {
    fn eq(&self, other: &Self) -> bool {
        self.swips.ptr_eq(&other.swips) && self.at == other.at
    }
}

impl WeakSwip {
    fn with<T>(&self, look: impl FnOnce(&Swip) -> T) -> Option<T> {
        self.swips.upgrade().map(|swips| look(&swips.0[usize_of32(self.at)]))
    }
}

impl Swizzle<Block> for WeakSwip {
    fn put(&self, block: &Block) {
        self.with(|swip| swip.put(block));
    }

    fn take(&self) -> Option<Block> {
        self.with(Swip::take).flatten()
    }

    fn cool(&self) -> u8 {
        self.with(Swip::cool).unwrap_or(0)
    }
}

impl Shared for Block {
    type Swip = WeakSwip;

    fn prefetch(&self) {
        self.prefetch_front();
    }
}
