//! How many blocks a thread has read: what one of its reads of a table reads is the difference.

use crate::base::sync::thread_local;
use std::cell::Cell;

thread_local! {
    static BLOCKS: Cell<u64> = const { Cell::new(0) };
}

/// A mark in the row of blocks that this thread reads from files.
#[derive(Clone, Copy, Debug)]
pub struct BlocksRead(u64);

impl BlocksRead {
    /// The mark behind the last block so far.
    #[inline]
    #[must_use]
    pub fn so_far() -> Self {
        Self(BLOCKS.with(Cell::get))
    }

    /// Blocks that this thread has read since.
    #[inline]
    #[must_use]
    pub fn since(self) -> u64 {
        BLOCKS.with(Cell::get) - self.0
    }

    /// Counts one.
    #[inline]
    pub(super) fn count() {
        BLOCKS.with(|blocks| blocks.set(blocks.get() + 1));
    }
}
