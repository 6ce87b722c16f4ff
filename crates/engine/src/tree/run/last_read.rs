//! What a run keeps in mind of the leaves that its walks have read.

use crate::block::BlockPointer;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the leaf ends that walks of a run have last read, and how many they have read in a row. It is a hint: of two
/// threads that read at once, one may be forgotten.
#[derive(Debug, Default)]
pub(super) struct LastRead(AtomicU64);

impl LastRead {
    /// The bits that count leaves; the others are the end.
    const COUNT_BITS: u32 = 8;

    /// Notes a leaf that is read: how many there are in a row with it, up to 255.
    pub(super) fn note(&self, leaf: BlockPointer) -> u64 {
        // Relaxed: a hint, which publishes nothing.
        let last = self.0.load(Ordering::Relaxed);
        let most = (1 << Self::COUNT_BITS) - 1;
        let leaves = if last >> Self::COUNT_BITS == leaf.offset { (last & most).min(most - 1) + 1 } else { 1 };
        self.0.store(leaf.end() << Self::COUNT_BITS | leaves, Ordering::Relaxed);
        leaves
    }
}
