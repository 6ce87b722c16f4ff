//! A place for a block that many may read at once: an [`ImageSwip`] for images that were checked.

use super::Block;
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

    /// See [`ImageSwip::address`].
    #[inline]
    #[must_use]
    pub fn address(&self) -> *const u8 {
        self.0.address()
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
