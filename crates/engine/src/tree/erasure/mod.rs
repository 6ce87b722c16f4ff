//! Erasures: ranges of keys that were deleted at once, and which of them cover a key.
//!
//! An erasure is no entry of a tree. It stands in the redo log, and from its commit on in what readers of the table
//! see; it hides every entry in its range with a smaller seqnum, from snapshots that see it. A flush or compaction
//! drops what an erasure hides from all snapshots; what it wrote is then *clean* up to that erasure, which need not be
//! looked at again there.
//!
//! # Invariants
//! 1. A tree that is clean up to a seqnum holds no entry that an erasure up to there hides. Its entries count as having
//!    at least that seqnum: so the seqnum zero, which stands for "seen by all", is never taken for one before an
//!    erasure.
//! 2. Every live snapshot sees all that any tree is clean up to.

mod builder;
mod cursor;
mod hiding;
mod layers;
mod set;
#[cfg(test)]
pub(super) mod tests;

use super::cursor::Limits;
use crate::base::SeqNum;

#[cfg(test)]
pub(crate) use builder::steps;
pub use cursor::Unerased;
pub use hiding::Hiding;
pub use layers::Layers;
pub use set::{Ends, Erasures};

/// A range of keys that was deleted at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// The keys.
    pub range: Limits,
    /// When the deletion became visible.
    pub seqnum: SeqNum,
}

impl Erasure {
    /// Its ends and its seqnum.
    #[must_use]
    pub fn ends(&self) -> Ends<'_> {
        (&self.range.low, self.range.high.as_deref(), self.seqnum)
    }
}

/// Keys that a tree may hold, and the erasures that were applied to it.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The first key.
    pub smallest: &'a [u8],
    /// The last key; none when it is not known.
    pub largest: Option<&'a [u8]>,
    /// The tree is clean up to here.
    pub clean_to: SeqNum,
}
