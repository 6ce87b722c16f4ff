//! A place for a block that many may read at once: an [`ImageSwip`] for images that were checked.

use super::image::Block;
use crate::base::memory::ImageSwip;

/// A pointer to a block, or to none.
#[derive(Debug, Default)]
pub struct Swip(ImageSwip);

impl Swip {
    /// See [`ImageSwip::get`].
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<Block> {
        self.0.get().map(Block::again)
    }

    /// Whether there is a block.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        !self.0.address().is_null()
    }

    /// [`Block::prefetch_front`] of the block, if there is one; false if there is none.
    #[inline]
    #[must_use]
    pub fn prefetch_front(&self) -> bool {
        let front = self.0.address();
        if !front.is_null() {
            Block::prefetch_front_at(front);
        }
        !front.is_null()
    }

    /// See [`ImageSwip::put`].
    pub fn put(&self, block: &Block) {
        self.0.put(block.image().clone());
    }

    /// See [`ImageSwip::take`].
    pub fn take(&self) -> Option<Block> {
        self.0.take().map(Block::again)
    }

    /// See [`ImageSwip::cool`].
    pub fn cool(&self) -> u8 {
        self.0.cool()
    }
}
