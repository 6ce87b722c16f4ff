//! What a caller asks of the cache.

use super::swips::SwipOf;
use crate::block::BlockPointer;
use crate::store::BlockFile;

/// What becomes of a block that was not in the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// It is kept, and found there next time.
    Keep,
    /// It is read for this caller only, as compaction and verification do. Such reads are not counted as hits or
    /// misses, and do not make a kept block look wanted.
    Bypass,
    /// As `Bypass`, and of leaves that follow each other those in memory are taken from there: for a merge, which
    /// rewrites what it reads, and keeps in memory what was there.
    Merge,
}

/// One of several blocks that are wanted together.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'w> {
    /// Where it is read from.
    pub file: &'w BlockFile,
    /// Where it lies there.
    pub pointer: BlockPointer,
    /// The swip that may hold it.
    pub swip: Option<SwipOf<'w>>,
}

impl Wanted<'_> {
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.pointer == other.pointer && self.file.instance() == other.file.instance()
    }
}
